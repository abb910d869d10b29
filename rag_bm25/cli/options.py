"""The options that several commands share."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rag_bm25.analysis import Analyzer
from rag_bm25.analysis.contract import contract_of
from rag_bm25.cli.certificates import get_tls
from rag_bm25.cli.console import print_note
from rag_bm25.cli.importing import ModelOption, as_function, one_line_errors
from rag_bm25.definitions import Conditions
from rag_bm25.errors import FilterError, IndexNotFoundError, ParameterError
from rag_bm25.filters import parse_filter
from rag_bm25.index.group import IndexGroup
from rag_bm25.index.index import BM25Index
from rag_bm25.ingestion.source_roots import read_stored_roots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.ingestion.source_roots import SourceRoot
    from rag_bm25.store.milvus.store import MilvusStore

DEFAULT_URI = "./rag_bm25.db"
DEFAULT_COLLECTION = "docs"


def read_token(context: typer.Context, parameter: typer.CallbackParam, value: str | None) -> str | None:
    """Read a token from the file that is named after an @; warn if one is in the list of processes."""
    if context.resilient_parsing:  # a line that is being completed
        return value
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


def refuse_memory(uri: str | None) -> str | None:
    """Refuse an index in memory, which would end with the command."""
    if uri == ":memory:":
        msg = "':memory:' would be forgotten when the command ends: give a file ending in .db, or the URI of a server"
        raise typer.BadParameter(msg)
    return uri


def option(help: str, *names: str, **more: Any) -> Any:
    """Return an option; its default, if it has one, is in the help text."""
    return typer.Option(*names, help=help, show_default=False, **more)


def confirmation(help: str) -> Any:
    """Return the option that confirms a deletion: it has no variable, which another command may have been meant for."""
    return option(help, "--yes", allow_from_autoenv=False)


def argument(metavar: str, help: str) -> Any:
    """Return an argument that is shown by its metavar."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


Uri: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar="MILVUS_URI",
        help="A file ending in .db (embedded engine), or the URI of a Milvus server.",
        callback=refuse_memory,
    ),
]
Token: TypeAlias = Annotated[
    str | None,
    option(
        "user:password or API key of the server, or the file that has it; never shown.",
        envvar="MILVUS_TOKEN",
        callback=read_token,
        metavar="TOKEN|@FILE",
    ),
]
Collection: TypeAlias = Annotated[str, typer.Option(help="Name of the index: ASCII letters, digits and _.")]
Collections: TypeAlias = Annotated[
    list[str],
    typer.Option(
        help="Name of the index: ASCII letters, digits and _. May be repeated: several are searched as one.",
        metavar="NAME",
    ),
]
AnalyzerName: TypeAlias = Annotated[
    str | None,
    option(
        "Analyzer of your own that the index is made with: a function of a text that returns its tokens, or a class or "
        "function without arguments that returns one, such as mytokens:tokenize. Modules are also looked for in the "
        "current folder.",
        envvar="RAG_BM25_ANALYZER",
        metavar="MODULE:NAME",
    ),
]
SplitSize: TypeAlias = Annotated[int | None, option("Maximum length of a chunk; by default the chunk size.", min=1)]
ChunkOverlap: TypeAlias = Annotated[
    int | None, option("Overlap of neighbouring chunks; by default .3 of the maximum length, at most 150.", min=0)
]
Namespace: TypeAlias = Annotated[str | None, option("Tenant or sub-corpus.", metavar="NAME")]
Namespaces: TypeAlias = Annotated[
    list[str] | None, option("Tenant or sub-corpus; may be repeated.", "--namespace", metavar="NAME")
]
StatsNamespaces: TypeAlias = Annotated[
    list[str] | None,
    option("Tenant or sub-corpus; may be repeated; by default all of them.", "--namespace", metavar="NAME"),
]
ChunkNamespace: TypeAlias = Annotated[
    str | None, option("The one of the namespaces that has the chunk, if several have its id.", metavar="NAME")
]
Part: TypeAlias = Annotated[
    int | None, option("The one of several --collection that has the chunk, counted from 0.", min=0, metavar="N")
]
AsJson: TypeAlias = Annotated[bool, option("Print JSON, for machines.", "--json")]
ShowProgress: TypeAlias = Annotated[
    bool | None, option("Show a progress bar; by default on terminals.", "--progress/--no-progress")
]
Filter: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help='Conditions on the metadata, or on $id: KEY=VALUE,..., or a JSON object such as \'{"page": {"$gte": 3}}\'.'
    ),
]
JudgedSet: TypeAlias = Annotated[Path, argument("DIR", "A set in BEIR form: corpus, queries, qrels.")]
TemporaryUri: TypeAlias = Annotated[str | None, option("Place of the index; by default, a temporary one in memory.")]


ANALYZER: ModelOption[TextAnalyzer] = ModelOption(
    "--analyzer",
    "MODULE:NAME",
    "mytokens:tokenize",
    "a function of a text, or a function without arguments that returns one",
    partial(as_function, count=1),
)


def load_analyzer(name: str | None) -> TextAnalyzer | None:
    """Return the analyzer of this name, which has been tried; None without one."""
    if name is None:
        return None
    analyzer = ANALYZER.load(name)
    with one_line_errors(f"--analyzer {name} has failed"):
        contract_of(analyzer)
    return analyzer


def with_analyzer(config: IndexConfig, analyzer: TextAnalyzer | None) -> IndexConfig:
    """Return the config of a new index with an analyzer, if one is given."""
    if analyzer is None:
        return config
    return replace(config, analyzer=analyzer.config if isinstance(analyzer, Analyzer) else analyzer)


@dataclass(frozen=True)
class StoreAddress:
    """The options that name an index whose rows are taken as they are."""

    uri: Uri = DEFAULT_URI
    collection: Collection = DEFAULT_COLLECTION
    token: Token = None

    @property
    def words(self) -> list[str]:
        """The options of a command to be copied, without secrets and defaults."""
        from rag_bm25.store.milvus.address import without_secrets

        uri = [] if self.uri == DEFAULT_URI else ["--uri", without_secrets(self.uri)]
        return [*uri, *([] if self.collection == DEFAULT_COLLECTION else ["--collection", self.collection])]

    def store(self, **options: Any) -> MilvusStore:
        """Return the place itself, which need not be an index."""
        from rag_bm25.store import milvus

        return milvus.MilvusStore(self.uri, self.collection, token=self.token, tls=get_tls(self.uri), **options)


@dataclass(frozen=True)
class IndexAddress(StoreAddress):
    """The options that name an index."""

    analyzer: AnalyzerName = None

    @cached_property
    def text_analyzer(self) -> TextAnalyzer | None:
        """The analyzer that was named, if any."""
        return load_analyzer(self.analyzer)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep an embedded engine running for the body, which then opens the file as often as it likes."""
        from rag_bm25.store.milvus.address import is_address, is_missing_file

        if is_address(self.uri) or is_missing_file(self.uri):
            yield
            return
        with closing(self.store(read_only=True)):
            yield

    def read_roots(self, namespace: str) -> list[SourceRoot]:
        """Read the folders that the index remembers, if there is one."""
        from rag_bm25.store.milvus.address import is_missing_file

        if is_missing_file(self.uri):
            return []
        with closing(self.store(read_only=True)) as store:
            return read_stored_roots(store, namespace)

    def open(self, *, config: IndexConfig | None = None, **options: Any) -> BM25Index:
        """Open the index; with `config`, create it if there is none."""
        analyzer = self.text_analyzer if config is None else None  # a config has its own
        given = {"token": self.token, "tls": get_tls(self.uri), "analyzer": analyzer, **options}
        return BM25Index.open(self.uri, self.collection, config=config, **given)

    def open_existing(self, *, read_only: bool = False, **options: Any) -> BM25Index:
        """Open an index that must exist; a search finds what the command before it has written."""
        try:
            return self.open(read_only=read_only, consistency="Strong", **options)
        except IndexNotFoundError as error:
            reason = str(error).partition(". To create it")[0]
            raise IndexNotFoundError(f"{reason}; `rag-bm25 ingest` creates one") from None


@dataclass(frozen=True)
class SearchedIndexes:
    """The options that name the indexes of a search."""

    uri: Uri = DEFAULT_URI
    collection: Collections = (DEFAULT_COLLECTION,)  # type: ignore[assignment]  # a default must not be mutable
    token: Token = None
    analyzer: AnalyzerName = None

    @property
    def names(self) -> list[str]:
        """The collection of each index."""
        return list(dict.fromkeys(self.collection))

    @property
    def places(self) -> list[IndexAddress]:
        """The address of each index."""
        return [IndexAddress(self.uri, name, self.token, self.analyzer) for name in self.names]

    def open_existing(self, *, read_only: bool = True, **options: Any) -> BM25Index:
        """Open the index, or all of them as one."""
        with ExitStack() as on_failure:
            indexes = [
                on_failure.enter_context(place.open_existing(read_only=read_only, **options)) for place in self.places
            ]
            index = indexes[0] if len(indexes) == 1 else IndexGroup(indexes, on_event=options.get("on_event"))
            on_failure.pop_all()
        return index


def parse_filter_option(text: str | None) -> Any:
    """Read and check a filter: a JSON object if it begins like one, else KEY=VALUE,...; any other text is refused."""
    if text is None:
        return None
    try:
        conditions = Conditions().parse(text)
        parse_filter(conditions)
    except (FilterError, ParameterError) as error:
        raise typer.BadParameter(str(error), param_hint="--filter") from None
    return conditions
