"""A generation of an open index: the rows and statistics of one config, and all that searches and writes them.

An index goes on to the next generation as a whole: a call ends in the one that it began in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rag_bm25.index.live_statistics import LiveStatistics
from rag_bm25.index.query_defaults import LiveConfig
from rag_bm25.index.searching.hybrid import HybridSearcher
from rag_bm25.index.searching.searcher import Searcher
from rag_bm25.index.searching.term_listing import TermLister
from rag_bm25.index.searching.weigher import QueryWeigher
from rag_bm25.index.writing.pipeline import WritePipeline
from rag_bm25.statistics.log.generation import SupersededError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.documents.encoder import DocumentEncoder
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.opening import OpenOptions
    from rag_bm25.statistics.log.log import StatisticsLog
    from rag_bm25.store.protocol import Store

T = TypeVar("T")


class Generation:
    """The parts of an index that belong together; `go_on` returns the generation in force."""

    def __init__(
        self,
        store: Store,
        live_config: LiveConfig,
        encoder: DocumentEncoder,
        live: LiveStatistics,
        go_on: Callable[[], Generation],
    ) -> None:
        self.store, self.live_config, self.encoder, self.live, self.go_on = store, live_config, encoder, live, go_on
        config = self.config
        self.weigher = QueryWeigher(store, live, encoder, live_config)
        self.terms = TermLister(store, live, encoder.analyzer, self.weigher)
        self.searcher = Searcher(store, config, encoder, live, self.weigher)
        self.hybrid = HybridSearcher(store, config, live, self.searcher)
        self.pipeline = WritePipeline(self)

    @classmethod
    def of(
        cls,
        store: Store,
        log: StatisticsLog,
        config: IndexConfig,
        options: OpenOptions,
        go_on: Callable[[], Generation],
    ) -> Generation:
        """Return the generation that a store and its log hold."""
        encoder = config.document_encoder()
        live = LiveStatistics(
            store, log, encoder, read_only=options.read_only, refresh_interval=options.refresh_interval
        )
        return cls(store, LiveConfig(config, options.own), encoder, live, go_on)

    @property
    def config(self) -> IndexConfig:
        """The config, with the query side of the last moment that was read."""
        return self.live_config.of(self.live.view)

    def in_force(self, call: Callable[[Generation], T]) -> T:
        """Call with this generation, and again with the next one if that comes into force meanwhile."""
        try:
            return call(self)
        except SupersededError:
            self.live.log.is_superseded = True  # which the call may have seen before a refresh
            return self.go_on().in_force(call)

    def close(self) -> None:
        """Release its connection, and end its processes and its refresh."""
        self.pipeline.close()
        self.live.close()
        self.store.close()
