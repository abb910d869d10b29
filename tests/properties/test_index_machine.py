"""Whatever is done to an index, and wherever the store fails: statistics and scores are those of the stored rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.clocks import Clocks
from support.faulty_store import FaultyStore, Moment
from support.indexes import counts
from support.late_store import LATE_SECONDS, Late, LateStore
from support.lazy_store import LazyStore
from support.memory_store import Collections, copied
from support.reference import BM25, Corpus, recount, split
from support.strategies import WORDS, corpora, idf_names, texts

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import StoreError
from rag_bm25.weighting.idf import IdfName

Key = tuple[str, str]  # namespace and id
Contents = tuple[str, int] | None  # text and version, None where there is no chunk

# Whatever is cut or merged above a size is cut and merged here with a few terms and chunks.
SMALL_LIMITS = {
    "statistics.log.terms.TERMS_PER_ROW": 2,
    "statistics.log.packing.COUNTS_PER_ROW": 2,
    "statistics.log.runs.COUNTS_AT_ONCE": 4,
    "statistics.log.runs.NAMESPACES_PER_ROW": 1,
    "statistics.log.sums.FAN": 3,
    "statistics.log.terms.PACKED_AT_ONCE": 2,
    "statistics.log.terms.FEW_TERMS": 4,
    "statistics.log.table.ROWS_PER_INSERT": 2,
    "statistics.log.log.COMPACT_ABOVE": 5,
    "statistics.log.terms.REMAINDER_SECONDS": 0.0,
    "documents.chunks.MAX_BATCH_CHUNKS": 3,
    "index.writing.chunk_writer.MAX_BATCH_CHUNKS": 3,
}

SLOW = bool(os.environ.get("RAG_BM25_SLOW"))
EXAMPLES = settings.default.max_examples  # few in everyday runs

namespaces = st.sampled_from(["", "law"])
ids = st.sampled_from("abcdefghij")
failing_calls = st.none() | st.integers(0, 25)
moments = st.sampled_from(["before", "halfway", "after", "full"])
seconds = st.sampled_from([0.0, 60.0])  # until a call is given up
delays = st.sampled_from([1.0, 61.0, LATE_SECONDS - 1.0])  # until it takes place


class IndexMachine(RuleBasedStateMachine):
    """Adds, updates, deletes, compacts and reopens, each with or without a failing call of the store.

    `possible` has for each chunk what may be stored: one thing, unless a call failed halfway and nobody has written
    since; then the old or the new contents, and nothing else.
    """

    id_space: ClassVar[int] = 0xFFFFFFFF

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("rag_bm25.vectors.terms.ID_SPACE", self.id_space)
        for limit, value in SMALL_LIMITS.items():
            self.patch.setattr(f"rag_bm25.{limit}", value)
        self.possible: dict[Key, set[Contents]] = {}
        self.settled = True
        self.ids_of_terms: dict[str, int] = {}

    def teardown(self) -> None:
        self.patch.undo()

    @initialize(idf=idf_names, k3=st.none() | st.just(2.0))
    def create(self, idf: IdfName, k3: float | None) -> None:
        self.store = self.opened()
        self.config = IndexConfig(chunk_size=3, length_unit="terms", idf=idf, k3=k3, analyzer=split)
        self.index = BM25Index.from_store(self.store, config=self.config)

    def opened(self, collections: Collections | None = None) -> FaultyStore:
        """A store of its own, on new rows or on the same."""
        return FaultyStore(collections=collections)

    # What users do

    @rule(namespace=namespaces, chunks=corpora(1, 4), version=st.integers(0, 1), at=failing_calls, moment=moments)
    def add(self, namespace: str, chunks: dict[str, str], version: int, at: int | None, moment: Moment) -> None:
        new: dict[Key, Contents] = {(namespace, id_): (text, version) for id_, text in chunks.items()}
        self.write(
            lambda: self.index.add(
                list(chunks.values()),
                ids=list(chunks),
                metadatas=[{"version": version}] * len(chunks),
                namespace=namespace,
            ),
            new,
            at,
            moment,
        )

    @rule(namespace=namespaces, some=st.lists(ids, min_size=1, max_size=4), at=failing_calls, moment=moments)
    def delete(self, namespace: str, some: list[str], at: int | None, moment: Moment) -> None:
        self.write(
            lambda: self.index.delete(some, namespace=namespace), {(namespace, id_): None for id_ in some}, at, moment
        )

    @rule(at=failing_calls, moment=moments)
    def compact(self, at: int | None, moment: Moment) -> None:
        self.fail_at(at, moment)
        try:
            self.index._live.log.compact(above=2)
        except StoreError:
            pass
        finally:
            self.fail_at(None)

    @rule(at=failing_calls, moment=moments)
    def reopen(self, at: int | None, moment: Moment) -> None:
        """Open the index as another process would, again if that fails the first time."""
        store = self.opened(self.store.collections)
        store.fail_at(at, moment)
        try:
            index = BM25Index.from_store(store, config=self.config)
        except StoreError:
            store = self.opened(self.store.collections)
            index = BM25Index.from_store(store, config=self.config)
        store.fail_at(None)
        self.store, self.index = store, index
        self.settle()

    # Faults

    def write(self, call: Callable[[], Any], new: dict[Key, Contents], at: int | None, moment: Moment) -> None:
        """Write, and note what may be stored now."""
        self.fail_at(at, moment)
        try:
            call()
        except StoreError:
            for key, contents in new.items():
                self.possible[key] = self.possible.get(key, {None}) | {contents}
            self.settled = False
        else:
            self.fail_at(None)
            self.possible.update((key, {contents}) for key, contents in new.items())
            self.settle()
        finally:
            self.fail_at(None)

    def fail_at(self, at: int | None, moment: Moment = "before") -> None:
        self.store.fail_at(at, moment)

    def settle(self) -> None:
        """After a write that succeeded, or reopening, each chunk is in one of its possible states, for good."""
        for namespace, id_ in self.possible:
            found = self.index.get([id_], namespace=namespace)
            contents = (found[0].text, found[0].metadata["version"]) if found else None
            assert contents in self.possible[namespace, id_]
            self.possible[namespace, id_] = {contents}
        self.settled = True

    # What holds

    @invariant()
    def every_acknowledged_chunk_is_there(self) -> None:
        for (namespace, id_), contents in self.possible.items():
            found = self.index.get([id_], namespace=namespace)
            assert (found[0].text, found[0].metadata["version"]) if found else None in contents

    @invariant()
    def no_namespace_sees_another(self) -> None:
        for namespace in ("", "law"):
            hits = self.index.search(" ".join(WORDS), 100, namespace=namespace)
            assert {hit.namespace for hit in hits} <= {namespace}

    @invariant()
    def no_chunk_is_found_twice(self) -> None:
        hits = self.index.search(" ".join(WORDS), 100, namespace=None)
        assert len({(hit.namespace, hit.id) for hit in hits}) == len(hits)

    @invariant()
    def ids_of_terms_never_change(self) -> None:
        vocabulary = self.index._live.log.vocabulary()
        now = {term: vocabulary.id(term) for term in vocabulary}
        assert len(set(now.values())) == len(now)
        assert self.ids_of_terms.items() <= now.items()
        self.ids_of_terms = now  # type: ignore[assignment]

    @precondition(lambda self: self.settled)
    @invariant()
    def statistics_equal_a_recount(self) -> None:
        rows = self.store.collections.chunks.values()
        assert len(rows) == sum(contents != {None} for contents in self.possible.values())
        assert counts(self.index) == recount(rows)
        assert self.index.verify().differences == []

    @invariant()
    def a_fresh_process_sees_the_same(self) -> None:
        """Open a copy of the rows anew: whatever was cut short, it finds every chunk, count and term."""
        store = self.opened(copied(self.store.collections))
        index = BM25Index.from_store(store, config=self.config)
        assert index.problems == []
        for (namespace, id_), contents in self.possible.items():
            found = index.get([id_], namespace=namespace)
            assert (found[0].text, found[0].metadata["version"]) if found else None in contents
        assert counts(index) == recount(store.collections.chunks.values())
        vocabulary = index._live.log.vocabulary()
        assert self.ids_of_terms.items() <= {term: vocabulary.id(term) for term in vocabulary}.items()
        if self.settled:
            assert counts(index) == counts(self.index)
            assert len(vocabulary) == len(self.index._live.log.vocabulary())
            everything = " ".join(WORDS)
            assert index.search(everything, 100, namespace=None) == self.index.search(everything, 100, namespace=None)

    @precondition(lambda self: self.settled)
    @rule(query=texts())
    def search_ranks_as_the_loops_do(self, query: str) -> None:
        words = [word for word in query.split() if word in self.ids_of_terms]
        model = BM25(3, idf=self.config.idf, k3=self.config.k3)
        for namespace in ("", "law"):
            hits = self.index.search(" ".join(words), 100, namespace=namespace)
            corpus = Corpus({id_: text.split() for id_, text in self.stored(namespace).items()})
            expected = model.scores(words, corpus)
            assert {hit.id: hit.score for hit in hits} == pytest.approx(expected, rel=1e-5)
            assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.id))
            assert [hit.text for hit in hits] == [self.stored(namespace)[hit.id] for hit in hits]

    def stored(self, namespace: str) -> dict[str, str]:
        return {
            id_: contents[0]
            for (name, id_), (contents,) in self.possible.items()
            if name == namespace and contents is not None
        }


class CollidingMachine(IndexMachine):
    """The same with ten ids for eight words: most words are displaced."""

    id_space = 11


class LazyMachine(IndexMachine):
    """The same where the last rows of the log are not stored yet: a fresh process is one after a crash."""

    def opened(self, collections: Collections | None = None) -> FaultyStore:
        return LazyStore(collections=collections)

    @invariant()
    def a_reader_counts_what_nobody_has_finished(self) -> None:
        """Open a copy of the rows for reading: its statistics are those of the chunks that it finds."""
        store = self.opened(copied(self.store.collections))
        reader = BM25Index.from_store(store, config=self.config, read_only=True)
        by_age = sorted(store.collections.chunks.values(), key=lambda row: row.batch)
        newest = {(row.namespace, row.id): row for row in by_age}
        assert reader.problems == []
        assert counts(reader) == recount(newest.values())
        assert store.collections.log == self.store.collections.log
        assert store.collections.chunks == self.store.collections.chunks

    @rule()
    def exchange(self) -> None:
        """Go on with another index object of the same process."""
        store = self.store.beside()  # type: ignore[attr-defined]
        self.store, self.index = store, BM25Index.from_store(store, config=self.config)
        self.settle()


class TwoWritersMachine(IndexMachine):
    """Two writers on one server take turns; whoever opens the index finishes what a dead one left."""

    def __init__(self) -> None:
        super().__init__()
        self.patch.setattr("rag_bm25.index.writing.chunk_writer.LEASE_SECONDS", 0.0)
        self.other: tuple[FaultyStore, BM25Index] | None = None

    def opened(self, collections: Collections | None = None) -> FaultyStore:
        return FaultyStore(exclusive=False, collections=collections)

    @precondition(lambda self: self.settled)
    @rule()
    def take_turns(self) -> None:
        if self.other is None:
            store = self.opened(self.store.collections)
            self.other = store, BM25Index.from_store(store, config=self.config)
        (self.store, self.index), self.other = self.other, (self.store, self.index)
        self.index.refresh()


class LateMachine(TwoWritersMachine):
    """The same on a server that was still busy with what failed, and does it after whatever was written meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.patch.setattr("rag_bm25.index.writing.chunk_writer.LEASE_SECONDS", -1.0)
        self.clocks = Clocks(self.patch)
        self.late: Late = []

    def opened(self, collections: Collections | None = None) -> FaultyStore:
        is_copy = collections is not None and collections is not self.store.collections
        return LateStore(collections=collections, late=[] if is_copy else self.late)

    @rule(method=st.sampled_from(["insert_chunks", "delete_chunks"]), seconds=seconds, delay=delays)
    def become_slow(self, method: str, seconds: float, delay: float) -> None:
        """Let the next call of a method fail after some time."""
        self.store.failing, self.store.seconds, self.store.delay = method, seconds, delay  # type: ignore[attr-defined]
        self.store.refusing = False  # type: ignore[attr-defined]

    @rule(method=st.sampled_from(["insert_chunks", "delete_chunks"]))
    def refuse(self, method: str) -> None:
        """Refuse the next call of a method."""
        self.store.failing, self.store.refusing = method, True  # type: ignore[attr-defined]

    @rule(seconds=st.sampled_from([1.0, 30.0, LATE_SECONDS]))
    def wait(self, seconds: float) -> None:
        self.clocks.wait(seconds)
        self.store.land()  # type: ignore[attr-defined]

    @invariant()
    def a_fresh_process_sees_the_same(self) -> None:
        """The rows are a copy, for which no time passes here."""
        now, monotonic = self.clocks.now, self.clocks.monotonic
        super().a_fresh_process_sees_the_same()
        self.clocks.now, self.clocks.monotonic = now, monotonic


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=300 if SLOW else min(24, EXAMPLES), stateful_step_count=25)
TestCollidingIds = CollidingMachine.TestCase
TestCollidingIds.settings = settings(max_examples=150 if SLOW else min(12, EXAMPLES), stateful_step_count=20)
TestDeferredRows = LazyMachine.TestCase
TestDeferredRows.settings = settings(max_examples=200 if SLOW else min(16, EXAMPLES), stateful_step_count=25)
TestTwoWriters = TwoWritersMachine.TestCase
TestTwoWriters.settings = settings(max_examples=200 if SLOW else min(16, EXAMPLES), stateful_step_count=25)
TestLateWrites = LateMachine.TestCase
TestLateWrites.settings = settings(max_examples=300 if SLOW else min(24, EXAMPLES), stateful_step_count=25)
