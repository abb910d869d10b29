"""Open an index: reconcile the given config with the stored one."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.analysis.contract import contract_of
from rag_bm25.checks import check_callable, check_parameter, check_switch, comparable
from rag_bm25.errors import FormatError, IndexNotFoundError, ParameterError, StoreError, short_repr
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.maintenance.verification import require_same_vectors
from rag_bm25.index.query_defaults import own_query_side
from rag_bm25.index.stored_config import config_from_dict, config_to_dict
from rag_bm25.statistics.log.generation import SupersededError, is_superseded
from rag_bm25.statistics.log.settings import read_settings, write_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.events import Event
    from rag_bm25.statistics.log.log import StatisticsLog
    from rag_bm25.store.protocol import Store

MAX_NAMED = 10  # other indexes in a message


@dataclass(frozen=True)
class OpenOptions:
    """Options of opening an index, checked before anything is created."""

    config: IndexConfig | None = None
    read_only: bool = False
    repair: bool = False
    refresh_interval: float = 1.0  # seconds
    on_event: Callable[[Event], None] | None = None
    analyzer: TextAnalyzer | None = None
    own: Mapping[str, Any] = field(default_factory=dict)  # parameters of the query side in place of the stored ones

    def __post_init__(self) -> None:
        if not isinstance(self.config, IndexConfig | None):
            raise ParameterError(f"config must be an IndexConfig or None, got {short_repr(self.config)}")
        check_switch("read_only", self.read_only)
        check_switch("repair", self.repair)
        at_least_0 = comparable(self.refresh_interval) >= 0
        check_parameter("refresh_interval", self.refresh_interval, "a finite number >= 0", at_least_0)
        check_callable("on_event", self.on_event)
        check_analyzer(self.analyzer, self.config)

    @property
    def may_create(self) -> bool:
        """Whether an index can be created with them."""
        return self.config is not None and not self.read_only

    def beside(self, stored: IndexConfig) -> OpenOptions:
        """Return the options with the parameters of the query side that differ from the index's and the defaults."""
        if self.config is None:
            return self
        return replace(self, own=own_query_side(self.config, stored))

    def to_go_on(self) -> OpenOptions:
        """Return the options for the next generation, whose document side is its own."""
        given = self.config
        if given is None:
            return replace(self, repair=False)
        analyzer = None if isinstance(given.analyzer, AnalyzerConfig) else given.analyzer
        return replace(self, config=None, repair=False, analyzer=analyzer)


def check_analyzer(analyzer: TextAnalyzer | None, config: IndexConfig | None) -> None:
    """Refuse what is no analyzer, and a second one beside that of a config."""
    check_callable("analyzer", analyzer)
    if config is not None and analyzer is not None:
        raise ParameterError("analyzer must be left out beside a config, which has one")


AS_IT_IS = OpenOptions()


@contextmanager
def closed_on_failure(opened: Any) -> Iterator[None]:
    """Close a store, an index or its owner if the work on it fails, so that nobody gets it."""
    try:
        yield
    except BaseException:
        opened.close()
        raise


def open_store(uri: str | Path, collection: str, options: OpenOptions, **connection: Any) -> Store:
    """Open the store of an index, in memory or in Milvus; refuse a missing file unless the index may be created."""
    from rag_bm25.store.memory import MemoryStore
    from rag_bm25.store.milvus import MilvusStore
    from rag_bm25.store.milvus.address import is_missing_file

    in_memory = uri == ":memory:"
    if (in_memory or is_missing_file(uri)) and not options.may_create:
        raise _not_found_error(f"index {collection!r} not found at {uri}")
    if in_memory:
        _refuse_server_options(connection)
        return MemoryStore(collection)
    store = MilvusStore(uri, collection, read_only=options.read_only, **connection)
    if options.repair:
        with closed_on_failure(store):
            store.reveal_rows()
    return store


def _refuse_server_options(connection: Mapping[str, Any]) -> None:
    """Refuse options that an index in memory has no use for, unless they have their defaults."""
    for name, value in connection.items():
        if value not in (None, "Session"):  # which is not shown: it may be a secret
            raise ParameterError(f"{name} must be left out with ':memory:', which connects to nothing")


def open_config(store: Store, log: StatisticsLog, options: OpenOptions) -> IndexConfig:
    """Return the config of a stored index, after checking the given one; or create the index."""
    exists, config = store.exists(), options.config
    stored = _stored_config(store, log, options) if exists else None
    _require_in_force(store, exists=exists)
    if stored is not None:
        return stored
    is_lost = store.has_chunks()
    if not exists and store.exists():  # another process has created it meanwhile
        return open_config(store, log, options)
    if is_lost and not (options.may_create and options.repair):
        lost = "its config is lost" if exists else "its statistics are lost, with its config"
        raise FormatError(
            f"{store.name} is damaged: {lost}; open it with repair=True and the config that it had, or run "
            "`rag-bm25 repair`, with --set for each parameter that was not the default"
        )
    if config is None or options.read_only:
        raise _not_found_error(f"index not found in {store.name}", _others(store))
    created = config_to_dict(config, contract_of(config.build_analyzer()))  # first: it may refuse the analyzer
    if is_lost:
        require_same_vectors(store, config.document_encoder())
    store.create(config.dense_field())
    if not exists and not is_lost and store.log_keys():
        stored = _stored_config(store, log, options)  # another process may have created it meanwhile
        if stored is not None and (store.has_chunks() or not _count_logged(log)):
            return stored
        raise FormatError(f"{store.name} has rows of an index that was dropped halfway: drop it")
    write_config(store, created)
    return _stored_config(store, log, options) or config  # of several creators, the last one's counts


def _require_in_force(store: Store, *, exists: bool) -> None:
    """Refuse what is left of a former generation whose chunks were dropped."""
    if not exists and is_superseded(store):
        raise SupersededError(store.name)


def _stored_config(store: Store, log: StatisticsLog, options: OpenOptions) -> IndexConfig | None:
    """Return the stored config, after checking the given one; None if there is none, or a repair replaces it."""
    stored = read_settings(store, salvage=options.repair)
    if stored is not None:
        log.birth = stored.birth
    try:
        config = None if stored is None else config_from_dict(stored.config, options.config, options.analyzer)
    except FormatError:
        if options.repair and options.config is not None:
            return None
        raise
    return config


def _count_logged(log: StatisticsLog) -> int:
    """Count the chunks of the log."""
    log.refresh()
    return log.statistics.num_chunks


def _others(store: Store) -> list[str]:
    """Name the indexes of the same database, as far as that may be asked."""
    with suppress(StoreError):
        return store.index_names()
    return []


def _not_found_error(reason: str, others: Sequence[str] = ()) -> IndexNotFoundError:
    there = f" (its indexes: {', '.join(others[:MAX_NAMED])}{', ...' if len(others) > MAX_NAMED else ''})"
    msg = f"{reason}{there if others else ''}. To create it, pass config=IndexConfig(chunk_size=...)"
    return IndexNotFoundError(msg)
