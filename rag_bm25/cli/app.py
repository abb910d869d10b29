"""The commands together: a table, from which help lists them. A command is imported when its words are read."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from rag_bm25._version import __version__
from rag_bm25.cli.certificates import use_certificates

COMMANDS: dict[str, "LazyCommand"] = {}
"""In the order of their use."""


class LazyCommand(TyperCommand):
    """Stands for a command in the list of all; the command itself is a function of a module, ``module:function``."""

    def __init__(self, name: str, path: str, *, help: str, epilog: str) -> None:
        super().__init__(name, help=help, epilog=epilog)
        self._path = path

    def load(self) -> Any:
        """Import the command."""
        from rag_bm25.cli.commands import make_command

        module, _, function = self._path.partition(":")
        return make_command(self.name, getattr(import_module(f"rag_bm25.cli.{module}"), function), self.epilog)

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the words of the command."""
        return self.load().make_context(info_name, args, parent, **extra)


class _Commands(TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": COMMANDS})


app = typer.Typer(
    cls=_Commands,
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
    return typer.Option(help=help, metavar=metavar, envvar=f"MILVUS_TLS_{name}", show_default=False)


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
    use_certificates(tls_ca, tls_cert, tls_key, tls_server_name)


def _add(name: str, path: str, help: str, *examples: str) -> None:
    lines = ["\b", "Examples:", *(f"  rag-bm25 {name} {example}" for example in examples)]
    COMMANDS[name] = LazyCommand(name, path, help=help, epilog="\n".join(lines))


_add(
    "ingest",
    "ingesting:ingest",
    "Bring an index up to date with files and folders, or with a collection of other software.",
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
    "searching:search",
    "Show the chunks with the highest BM25 scores.",
    '"劳动合同 解除" -k 3',
    """sparse --filter '{"source": {"$like": "docs/%"}}'""",
    "notice period --embedding langchain_openai:OpenAIEmbeddings",
    "notice period --group source --context neighbors",
    "notice period --boost decay:date:365 --boost value:kind:law=2 --diversity near-duplicates:0.9",
    "notice period --boost decay:price:100,origin=500,floor=0.2",
    "notice period --weighting idf=lucene,k3=8 --expansion fuzzy,synonyms=synonyms.txt",
    "notice period --rerank langchain_community.cross_encoders:HuggingFaceCrossEncoder --candidates 50",
)
_add(
    "explain",
    "searching:explain",
    "Show how the score of a chunk comes about: a line for each term.",
    '"劳动合同 解除" docs/law.txt#12',
)
_add(
    "why",
    "searching:why",
    "Show why a search finds nothing or, with an id, why a chunk is not among its hits.",
    '"contarct" --filter \'{"year": 2024}\'',
    '"劳动合同 解除" docs/law.txt#12',
)
_add("show", "listing:show", "Show a chunk with its place, metadata and terms.", "docs/law.txt#12")
_add(
    "list",
    "listing:list_",
    "List indexes, sources or chunks.",
    "",
    "sources --collection manuals",
    "chunks docs/law.txt",
)
_add(
    "terms",
    "searching:terms",
    "List the terms that most chunks have, with their df and IDF.",
    "-k 20",
    """lab --filter '{"kind": "law"}' --json""",
)
_add(
    "stats",
    "maintaining:stats",
    "Show the figures of an index.",
    "--json",
    "--uri http://localhost:19530 --collection manuals",
)
_add(
    "calibrate",
    "calibrating:calibrate",
    "Propose a chunk size, the constant in place of the mean length.",
    "docs --split-size 500",
    "--collection manuals --k1-of-terms",
)
_add(
    "calibrate-answers",
    "calibrating:calibrate_answers",
    "Fit the confidence that a hit answers, by judged questions, and keep it with the index.",
    "questions --collection manuals",
    "questions --expansion synonyms=synonyms.txt --dry-run --json",
)
_add(
    "set",
    "setting:set_",
    "Set what searches of an index go by that do not say otherwise, and show it.",
    "--synonyms synonyms.txt",
    "--weighting idf=lucene,k3=none --expansion fuzzy",
    "--expansion synonyms=none",
    "--json",
)
_add(
    "verify",
    "maintaining:verify",
    "Compare the statistics with a recount of all chunks, and each vector with its text.",
    "--collection manuals",
)
_add(
    "repair",
    "maintaining:repair",
    "Replace the statistics by a recount of all chunks, and vectors that are not those of their texts.",
    "--collection manuals",
)
_add(
    "delete",
    "maintaining:delete",
    "Delete chunks, by their ids, their sources or a filter.",
    "docs/old.md#0 docs/old.md#1",
    "--source docs/old.md",
    """--filter '{"source": {"$like": "docs/old/%"}}'""",
)
_add(
    "drop-namespace",
    "maintaining:drop_namespace",
    "Delete all chunks of a namespace, and what the index remembers of its folders.",
    "tenant-7",
    "tenant-7 --yes",
)
_add(
    "drop",
    "moving:drop",
    "Delete an index with everything in it, all its generations included.",
    "--collection manuals",
    "--collection manuals --yes",
)
_add(
    "copy",
    "moving:copy",
    "Copy an index to another file or server.",
    "--to-uri http://localhost:19530 --dry-run",
    "--to-uri ./backup.db --to-collection manuals",
)
_add(
    "reindex",
    "moving:reindex_",
    "Encode the stored texts again with other settings, in place or into a new index.",
    "--chunk-size 400",
    "--drop-old",
    "--to-collection docs_400 --chunk-size 400",
    "--to-collection docs_2 --k1 1.2 --set stem=false --to-uri http://localhost:19530",
)
_add(
    "evaluate",
    "evaluating:evaluate",
    "Measure retrieval on a judged set, and compare settings.",
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
    "serving:serve",
    "Serve an index to people, programs and agents: one process owns it, many use it.",
    "--http 127.0.0.1:8765",
    "--mcp",
    "--http 127.0.0.1:8765 --allow-writes",
    "--http 127.0.0.1:8765 --tokens tokens.jsonl",
)
_add(
    "token",
    "serving:token",
    "Make an access token: its line for the file of `serve --tokens` goes to stdout, the token itself to stderr.",
    "alice --namespace sales --namespace support >> tokens.jsonl",
)
