"""The commands together; each of their errors is one line and an exit code."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, get_annotations, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints, is_typeddict

import typer
from typer.core import TyperCommand

from rag_bm25._version import __version__
from rag_bm25.cli import (
    calibrating,
    evaluating,
    ingesting,
    listing,
    maintaining,
    moving,
    searching,
    serving,
)
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import fail, print_error
from rag_bm25.cli.flags import flags_of, read_flags
from rag_bm25.errors import ParameterError, RagBM25Error
from rag_bm25.hits.options import NAMES_OF_K
from rag_bm25.ingestion.files import os_error_message
from rag_bm25.store.tls import TLS

WRITING = ("ingest", "delete", "repair", "copy", "reindex")
SEVERAL = ("collection", "namespace")
"""Options that may be repeated, in some commands: of the others, Typer would take the last."""


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of its groups as parameters, which Typer makes options of.

    A group is a dataclass whose fields are flags, or a TypedDict of options, whose flags come from their definitions.
    """
    # get_type_hints of Python 3.10 hides an option whose default is None.
    hints = get_annotations(command, eval_str=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    flags = {name: flags_of(hint) for name, hint in hints.items() if is_typeddict(hint)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if group := groups.get(parameter.name):
            of_group = get_type_hints(group, include_extras=True)
            parameters += [
                Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=of_group[one.name])
                for one in fields(group)
            ]
        elif of_options := flags.get(parameter.name):
            parameters += [one.parameter for one in of_options.values()]
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def expanded(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in fields(group)})
        for name, of_options in flags.items():
            given[name] = read_flags(of_options, given)
        command(**given)

    expanded.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded


class ReportingCommand(TyperCommand):
    """A command whose foreseeable errors are a line on stderr."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command; a flag that other tools have for -k is answered with it."""
        try:
            self._require_once(ctx, [*args])
            return super().parse_args(ctx, args)
        except Exception as error:
            if getattr(error, "option_name", "").strip("-").replace("-", "_") in NAMES_OF_K:
                error.possibilities = ["-k"]  # type: ignore[attr-defined]  # of click, which Typer may have inside
            raise

    def _require_once(self, ctx: Any, args: list[str]) -> None:
        *_, given = self.make_parser(ctx).parse_args(args)
        for option, times in Counter(given).items():
            if times > 1 and option.name in SEVERAL and not option.multiple:
                msg = "must be given once: this command takes one"
                raise typer.BadParameter(msg, ctx=ctx, param_hint=f"--{option.name}")

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error becomes a line and an exit code."""
        try:
            return super().invoke(ctx)
        except RagBM25Error as error:
            fail(str(error))
        except BrokenPipeError:
            raise  # the reader of the output has closed it; Typer ends quietly
        except OSError as error:
            fail(os_error_message(error))
        except KeyboardInterrupt:
            advice = ": everything acknowledged is stored, and running the same command again continues"
            print_error(f"interrupted{advice if self.name in WRITING else ''}")
            raise typer.Exit(130) from None


app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"rag-bm25 {__version__}\n")
        raise typer.Exit


def _tls_option(name: str, help: str, metavar: str = "FILE") -> Any:
    return opt.option(help, metavar=metavar, envvar=f"MILVUS_TLS_{name}")


@app.callback()
def rag_bm25(
    version: Annotated[  # noqa: ARG001 - its callback ends the program
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    tls_ca: Annotated[
        Path | None,
        _tls_option("CA", "PEM file of the authority that signed the server's certificate, for https:// addresses."),
    ] = None,
    tls_cert: Annotated[Path | None, _tls_option("CERT", "The client's certificate.")] = None,
    tls_key: Annotated[Path | None, _tls_option("KEY", "The client's private key.")] = None,
    tls_server_name: Annotated[
        str | None,
        _tls_option("SERVER_NAME", "Name in the server's certificate, if it is not that of the address.", "NAME"),
    ] = None,
) -> None:
    """BM25 for RAG on Milvus: ingest texts, search them, and explain the score of each hit.

    Start with `rag-bm25 ingest FOLDER`, then `rag-bm25 search "a question"`.
    """
    given = (tls_ca, tls_cert, tls_key, tls_server_name)
    try:
        opt.certificates.set(TLS(*given) if any(given) else None)
    except ParameterError as error:
        fail(str(error))


def _add(name: str, command: Callable[..., None], *examples: str, to: typer.Typer = app) -> None:
    words = name if to is app else f"{to.info.name} {name}"
    lines = ["\b", "Examples:", *(f"  rag-bm25 {words} {example}" for example in examples)]
    to.command(name, cls=ReportingCommand, epilog="\n".join(lines))(expand_groups(command))


_add(
    "ingest",
    ingesting.ingest,
    "docs",
    "docs --prune --chunk-size 500",
    "docs --prune --watch",
    "docs --set stem=false,bigrams=false",
    "docs --user-words products.txt --stop-words stop.txt",
    "docs --embedding langchain_openai:OpenAIEmbeddings",
    "rows.jsonl --field title:60:2 --field tags:40",
    "rows.jsonl --uri http://localhost:19530 --storage shards=4,mmap=true",
)
_add(
    "search",
    searching.search,
    '"劳动合同 解除" -k 3',
    """sparse --filter '{"source": {"$like": "docs/%"}}'""",
    "notice period --embedding langchain_openai:OpenAIEmbeddings",
    "notice period --group source --context neighbors",
    "notice period --boost decay:date:365 --boost value:kind:law=2 --diversity near-duplicates:0.9",
    "notice period --boost decay:price:100,origin=500,floor=0.2",
    "notice period --weighting idf=lucene,k3=8 --expansion fuzzy,synonyms=synonyms.txt",
    "notice period --rerank langchain_community.cross_encoders:HuggingFaceCrossEncoder --candidates 50",
)
_add("explain", searching.explain, '"劳动合同 解除" docs/law.txt#12')
_add("why", searching.why, '"contarct" --filter \'{"year": 2024}\'', '"劳动合同 解除" docs/law.txt#12')
_add("show", listing.show, "docs/law.txt#12")
_add("list", listing.list_, "", "sources --collection manuals", "chunks docs/law.txt")
_add("terms", searching.terms, "-k 20", """lab --filter '{"kind": "law"}' --json""")
_add("stats", maintaining.stats, "--json", "--uri http://localhost:19530 --collection manuals")
_add("calibrate", calibrating.calibrate, "docs --split-size 500", "--collection manuals")
_add(
    "calibrate-answers",
    calibrating.calibrate_answers,
    "questions --collection manuals",
    "questions --expansion synonyms=synonyms.txt --dry-run --json",
)
_add("verify", maintaining.verify, "--collection manuals")
_add("repair", maintaining.repair, "--collection manuals")
_add(
    "delete",
    maintaining.delete,
    "docs/old.md#0 docs/old.md#1",
    "--source docs/old.md",
    """--filter '{"source": {"$like": "docs/old/%"}}'""",
)
_add("drop-namespace", maintaining.drop_namespace, "tenant-7", "tenant-7 --yes")
_add("drop", moving.drop, "--collection manuals", "--collection manuals --yes")
_add("copy", moving.copy, "--to-uri http://localhost:19530 --dry-run", "--to-uri ./backup.db --to-collection manuals")
_add(
    "reindex",
    moving.reindex_,
    "--chunk-size 400",
    "--drop-old",
    "--to-collection docs_400 --chunk-size 400",
    "--to-collection docs_2 --k1 1.2 --set stem=false --to-uri http://localhost:19530",
)
_add(
    "evaluate",
    evaluating.evaluate,
    "scifact --idf lucene",
    "scifact --k1 0.9 --b 0.4 --set length_unit=terms --json",
    "scifact --compare k1=0.9,1.2,b=0.4,0.75 --compare idf=lucene,plus",
    "scifact --compare idf=lucene --run bm25.run",
    "scifact --measure nDCG@20 --measure AP@100 --embedding langchain_openai:OpenAIEmbeddings",
    "judgements --uri http://localhost:19530 --collection manuals",
    "scifact --compare fields=none",
)
_add(
    "serve",
    serving.serve,
    "--http 127.0.0.1:8765",
    "--mcp",
    "--http 127.0.0.1:8765 --allow-writes",
    "--http 127.0.0.1:8765 --tokens tokens.jsonl",
)
_add("token", serving.token, "alice --namespace sales --namespace support >> tokens.jsonl")
