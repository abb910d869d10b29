"""The options that several commands share, and opening an index with them."""

from __future__ import annotations

import json
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from rag_bm25.cli.console import print_note
from rag_bm25.document_encoder import LengthUnit
from rag_bm25.errors import IndexNotFoundError
from rag_bm25.expansion import QueryExpansion
from rag_bm25.feedback import BIM, RM3, Rocchio
from rag_bm25.index import BM25Index
from rag_bm25.similarity import IdfName
from rag_bm25.spelling import Fuzzy
from rag_bm25.synonyms import Synonyms
from rag_bm25.weightings import WeightingName

if TYPE_CHECKING:
    from rag_bm25.query_options import QueryOptions
    from rag_bm25.tls import TLS

__all__ = [
    "DEFAULT_URI",
    "K3",
    "AsJson",
    "BigramWeight",
    "ChunkOverlap",
    "Collection",
    "Epsilon",
    "Feedback",
    "Fields",
    "Filter",
    "Idf",
    "Irrelevant",
    "JudgedSet",
    "K",
    "MinShouldMatch",
    "Namespace",
    "NearSpellings",
    "Relevant",
    "ShowProgress",
    "Split",
    "SplitSize",
    "TemporaryUri",
    "Token",
    "Unit",
    "Uri",
    "Weighting",
    "certificates",
    "feedback_options",
    "open_index",
    "parsed_filter",
    "query_expansion",
    "secret",
    "tls_for",
    "weighting_options",
]

DEFAULT_URI = "./rag_bm25.db"

certificates: ContextVar[TLS | None] = ContextVar("certificates", default=None)
"""Those of the command that runs; options of ``rag-bm25`` itself, since each command may open several connections."""


def secret(context: typer.Context, parameter: typer.CallbackParam, value: str | None) -> str | None:
    """Read a token from the file that is named after an @; say so where one can be seen in the list of processes."""
    if value is None or not value.startswith("@"):
        source = context.get_parameter_source(str(parameter.name))
        if value is not None and source is not None and source.name == "COMMANDLINE":
            print_note(f"every user of this machine can see {parameter.opts[0]}: use {parameter.envvar} or @FILE")
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        msg = f"{value[1:]} cannot be read: {getattr(error, 'strerror', 'it is not UTF-8')}"
        raise typer.BadParameter(msg) from None


Uri: TypeAlias = Annotated[
    str,
    typer.Option(envvar="MILVUS_URI", help="A file ending in .db (embedded engine), or the URI of a Milvus server."),
]
Token: TypeAlias = Annotated[
    str | None,
    typer.Option(
        envvar="MILVUS_TOKEN",
        callback=secret,
        show_default=False,
        metavar="TOKEN|@FILE",
        help="user:password or API key of the server, or the file that has it; never shown.",
    ),
]
Collection: TypeAlias = Annotated[str, typer.Option(help="Name of the index.")]
SplitSize: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, show_default=False, help="Greatest length of a chunk, where it is not the chunk size."),
]
ChunkOverlap: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=0,
        show_default=False,
        help="What neighbouring chunks share; by default a tenth of the greatest length, at most 50.",
    ),
]
Namespace: TypeAlias = Annotated[str, typer.Option(help="Tenant or sub-corpus.", show_default=False)]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
ShowProgress: TypeAlias = Annotated[
    bool | None,
    typer.Option("--progress/--no-progress", show_default=False, help="Show a progress bar; by default on terminals."),
]
K: TypeAlias = Annotated[int, typer.Option("-k", min=1, max=16_384, help="How many hits at most.")]
Filter: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="""Conditions on the metadata: a JSON object such as '{"page": {"$gte": 3}}', or a Milvus expression."""
    ),
]
Idf: TypeAlias = Annotated[
    IdfName | None, typer.Option(show_default=False, help="IDF formula; by default the index's own.")
]
Epsilon: TypeAlias = Annotated[
    float | None, typer.Option(show_default=False, help="Factor of the floor of the epsilon IDF.")
]
K3: TypeAlias = Annotated[
    float | None,
    typer.Option(show_default=False, help="Saturation of repeated query terms; by default the index's own."),
]
BigramWeight: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=0, show_default=False, help="Weight of Chinese bigrams beside words; by default the index's own, 0: none."
    ),
]
Weighting: TypeAlias = Annotated[
    WeightingName | None,
    typer.Option(show_default=False, help="What occurrences in a chunk are worth, for a new index; by default bm25."),
]
Delta: TypeAlias = Annotated[
    float | None,
    typer.Option(show_default=False, help="Delta of bm25l, bm25+ and tfldp; by default 0.5, 1 and 1."),
]
Fields: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME:CHUNK_SIZE[:WEIGHT[:B]]",
        show_default=False,
        help="A text of the metadata that counts beside the chunk's own (BM25F), as in title:30 or title:30:2.0:0.75: "
        "its name, the constant in place of its mean length, its weight and its b; may be repeated.",
    ),
]
Feedback: TypeAlias = Annotated[
    Literal["rm3", "rocchio", "bim"] | None,
    typer.Option(
        show_default=False,
        help="Search again with what the best hits, or the chunks marked as relevant, add to the query.",
    ),
]
Relevant: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="ID", show_default=False, help="Id of a chunk that answers the query; may be repeated."),
]
Irrelevant: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="ID", show_default=False, help="Id of a chunk that does not; may be repeated."),
]
SynonymFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--synonyms",
        show_default=False,
        help="Synonyms to look for too: lines such as `car, automobile` or `NBA => National Basketball Association`.",
    ),
]
NearSpellings: TypeAlias = Annotated[bool, typer.Option("--fuzzy", help="Look for near spellings of unknown words.")]
Syntax: TypeAlias = Annotated[
    bool, typer.Option("--syntax", help="""Read word^2, "several words"^0.5 and prefix* in the query.""")
]
MinShouldMatch: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COUNT", show_default=False, help="How many words of the query a hit must have: 3, -1, 75%, 3<90%."
    ),
]
Unit: TypeAlias = Annotated[
    LengthUnit | None,
    typer.Option(show_default=False, help="What lengths are counted in; by default characters."),
]
JudgedSet: TypeAlias = Annotated[
    Path, typer.Argument(metavar="DIR", show_default=False, help="A set in BEIR form: corpus, queries, qrels.")
]
Split: TypeAlias = Annotated[str, typer.Option(help="Which judgements: qrels/SPLIT.tsv.")]
TemporaryUri: TypeAlias = Annotated[
    str | None,
    typer.Option(show_default=False, help="Where to put the temporary index; by default a temporary folder."),
]


def tls_for(uri: str | Path) -> TLS | None:
    """Return the certificates where they can be used: they are for ``https://`` addresses."""
    return certificates.get() if str(uri).lower().startswith("https://") else None


def open_index(uri: str, collection: str, token: str | None, *, read_only: bool = False) -> BM25Index:
    """Open an index that must exist; a search finds what the command before it has written."""
    try:
        return BM25Index.open(uri, collection, token=token, tls=tls_for(uri), read_only=read_only, consistency="Strong")
    except IndexNotFoundError as error:
        msg = f"{str(error).partition(';')[0]}; `rag-bm25 ingest` creates one"
        raise IndexNotFoundError(msg) from None


def query_expansion(synonyms: Path | None, fuzzy: bool) -> QueryExpansion | None:
    """Return what is to be added to a query."""
    if synonyms is None and not fuzzy:
        return None
    rules = Synonyms.read(synonyms) if synonyms is not None else None
    return QueryExpansion(synonyms=rules, fuzzy=Fuzzy() if fuzzy else None)


def parsed_filter(text: str | None) -> dict[str, Any] | str | None:
    """Read a filter: what begins like a JSON object must be one, anything else is a Milvus expression."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        conditions: dict[str, Any] = json.loads(text)
    except (RecursionError, ValueError) as error:
        msg = f"not a JSON object: {error}"
        raise typer.BadParameter(msg, param_hint="--filter") from None
    return conditions


def weighting_options(
    idf: IdfName | None, epsilon: float | None, k3: float | None, bigram_weight: float | None
) -> QueryOptions:
    """Return how the query is weighed; a k3 that was not given is left out, since None would be a linear one."""
    options: QueryOptions = {"idf": idf, "epsilon": epsilon, "bigram_weight": bigram_weight}
    return options if k3 is None else {**options, "k3": k3}


def feedback_options(feedback: str | None, relevant: list[str] | None, irrelevant: list[str] | None) -> QueryOptions:
    """Return feedback as a search takes it; an option that was not given is an empty list or None."""
    methods = {"rm3": RM3, "rocchio": Rocchio, "bim": BIM}
    return {
        "feedback": methods[feedback]() if feedback else None,
        "relevant": relevant or None,
        "irrelevant": irrelevant or None,
    }
