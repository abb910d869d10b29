"""The commands together, and how each of their errors ends: one line and an exit code."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from rag_bm25._version import __version__
from rag_bm25.cli import adopting, calibrating, evaluating, ingesting, loading, maintaining, moving, searching, tuning
from rag_bm25.cli.console import fail, print_error
from rag_bm25.cli.options import certificates
from rag_bm25.errors import ParameterError, RagBM25Error
from rag_bm25.tls import TLS

WRITING = ("ingest", "delete", "repair", "copy", "reindex", "load")


class ReportingCommand(TyperCommand):
    """A command whose foreseeable errors are a line on stderr."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what it raises becomes a line and an exit code."""
        try:
            return super().invoke(ctx)
        except RagBM25Error as error:
            fail(str(error))
        except BrokenPipeError:
            raise  # whoever read the output has seen enough; Typer ends quietly
        except OSError as error:
            fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except KeyboardInterrupt:
            print_error(_interrupted(str(self.name)))
            raise typer.Exit(130) from None


def _interrupted(command: str) -> str:
    if command in WRITING:
        return "interrupted: everything acknowledged is stored, and running the same command again continues"
    return "interrupted"


app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"rag-bm25 {__version__}\n")
        raise typer.Exit


@app.callback()
def rag_bm25(
    version: Annotated[  # noqa: ARG001 - its callback ends the program
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="MILVUS_TLS_CA",
            show_default=False,
            help="PEM file of the authority that signed the server's certificate, for https:// addresses.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="MILVUS_TLS_CERT", show_default=False, help="The client's certificate."),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="MILVUS_TLS_KEY", show_default=False, help="The client's private key."),
    ] = None,
    tls_server_name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar="MILVUS_TLS_SERVER_NAME",
            show_default=False,
            help="The name in the server's certificate, where it is not that of the address.",
        ),
    ] = None,
) -> None:
    """BM25 for RAG on Milvus: ingest texts, search them, and see why each hit has its score.

    Start with `rag-bm25 ingest FOLDER`, then `rag-bm25 search "a question"`.
    """
    given = (tls_ca, tls_cert, tls_key, tls_server_name)
    try:
        certificates.set(TLS(*given) if any(given) else None)
    except ParameterError as error:
        fail(str(error))


def _add(name: str, command: Callable[..., None], *examples: str, to: typer.Typer = app) -> None:
    words = name if to is app else f"{to.info.name} {name}"
    lines = ["\b", "Examples:", *(f"  rag-bm25 {words} {example}" for example in examples)]
    to.command(name, cls=ReportingCommand, epilog="\n".join(lines))(command)


_add(
    "ingest",
    ingesting.ingest,
    "docs",
    "docs --prune --chunk-size 500",
    "rows.jsonl --field title:30:2.0",
    "rows.jsonl --uri http://localhost:19530",
)
_add("search", searching.search, '"劳动合同 解除" -k 3', """sparse --filter '{"source": {"$like": "docs/%"}}'""")
_add("explain", searching.explain, '"劳动合同 解除" docs/law.txt#12')
_add("stats", maintaining.stats, "--json", "--uri http://localhost:19530 --collection manuals")
_add("verify", maintaining.verify, "--collection manuals")
_add("repair", maintaining.repair, "--collection manuals")
_add("reencode", maintaining.reencode, "--collection manuals")
_add("export", maintaining.export, "statistics.json.gz")
_add("import", maintaining.import_, "statistics.json.gz")
_add("delete", maintaining.delete, "docs/old.md#0 docs/old.md#1", """--filter '{"source": "docs/old.md"}'""")
_add("copy", moving.copy, "--to-uri http://localhost:19530 --dry-run", "--to-uri ./backup.db --to-collection manuals")
_add(
    "reindex",
    moving.reindex_,
    "--to-collection docs_400 --set chunk_size=400",
    "--to-collection docs_2 --set k1=1.2,b=0.6 --set stem=false --to-uri http://localhost:19530",
)
bulk = typer.Typer(
    name="bulk",
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Load millions of chunks: encode parts of them with many processes, merge, and load the files.",
)
app.add_typer(bulk)
_add("encode", loading.encode, "docs --folder parts --workers 8", "rows.jsonl --folder parts --set k1=1.2", to=bulk)
_add("merge", loading.merge, "parts", to=bulk)
_add("load", loading.load, "parts", "parts --uri http://localhost:19530 --import-prefix uploads/parts", to=bulk)
_add("drop", moving.drop, "--collection manuals", "--collection manuals --yes")
_add(
    "adopt",
    adopting.adopt_,
    "LangChainCollection --chunk-size 500",
    "LangChainCollection",
    """articles --text-field body --filter 'lang == "zh"' --chunk-size 500 --output articles.json.gz""",
)
_add("calibrate", calibrating.calibrate, "docs --split-size 500", "--collection manuals")
_add(
    "evaluate",
    evaluating.evaluate,
    "scifact --idf lucene",
    "scifact --length-unit terms --k1 0.9 --b 0.4 --json",
    "scifact --compare idf=lucene --compare k1=0.9,b=0.4 --run bm25.run",
    "scifact --compare field=title:30:2.0",
)
_add(
    "tune",
    tuning.tune,
    "scifact --plot scifact.png",
    "scifact --search k1 --search b=0.3,0.5,0.75 --search idf --base stem=false",
    "mine --tune-split train --measure recall@100 --json",
)
