"""A recount while other processes write, and on a server that gives fewer rows than it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from support.indexes import CONFIG, filled
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index
from rag_bm25.errors import StoreError
from rag_bm25.index.writing.chunk_writer import ChunkWriter
from rag_bm25.ingestion import reindex
from rag_bm25.statistics.log.repair import overwrite
from rag_bm25.store.rows import ChunkRow
from rag_bm25.vectors.sparse import SparseVector

TEXTS = {f"c{number}": f"w{number % 5} w{number % 3} w{number}" for number in range(12)}


class Scanned(MemoryStore):
    """A server's store, which calls `between` after each row of a scan, and hides the row of one key."""

    def __init__(self, collections: Any = None) -> None:
        super().__init__(exclusive=False, collections=collections)
        self.between: Callable[[], object] = lambda: None
        self.hidden: set[str] = set()

    def reopen(self) -> Scanned:
        return Scanned(self.collections)

    def scan_chunks(self, *args: Any, **options: Any) -> Iterator[list[ChunkRow]]:
        for pk in sorted(self.collections.chunks):
            if pk in self.collections.chunks and pk not in self.hidden:
                yield super().get_chunks([pk], contents=True, vectors=True)
            self.between()


@pytest.fixture
def store() -> Scanned:
    return Scanned()


@pytest.fixture
def writer(store: Scanned) -> Iterator[BM25Index]:
    with filled(TEXTS, store=store) as index:
        yield index


@pytest.fixture
def other(writer: BM25Index, store: Scanned) -> Iterator[BM25Index]:
    """Another process."""
    with BM25Index.from_store(store.reopen(), config=CONFIG) as index:
        yield index


def scanned(index: BM25Index) -> Scanned:
    assert isinstance(index._store, Scanned)
    return index._store


def writing(index: BM25Index, seed: int) -> Callable[[], object]:
    """Update, add and delete chunks at random."""
    random = Random(seed)

    def write() -> None:
        id_ = f"c{random.randrange(16)}"
        if random.random() < 0.3:
            index.delete([id_])
        else:
            index.add([f"w{random.randrange(9)} new{random.randrange(99)}"], ids=[id_])

    return write


@pytest.mark.parametrize("seed", range(5))
def test_writes_of_others_are_no_differences(writer: BM25Index, other: BM25Index, seed: int) -> None:
    scanned(other).between = writing(writer, seed)
    report = other.verify()
    assert (report.differences, report.inconclusive, report.ok) == ([], "", True)
    assert writer.verify().ok


def test_a_difference_is_found_beside_a_writer(writer: BM25Index, other: BM25Index, store: Scanned) -> None:
    """The term of a chunk that nobody writes."""
    pk = next(pk for pk, row in store.collections.chunks.items() if row.id == "c11")
    row = store.collections.chunks[pk]
    store.collections.chunks[pk] = replace(row, vector=SparseVector(row.vector.ids[1:], row.vector.values[1:]))
    scanned(other).between = lambda: writer.add(["w1 again"], ids=["c1"])
    found = other.verify(vectors=False).differences
    assert [(difference.stored - difference.counted) for difference in found] == [1]
    assert found[0].what.startswith("df of 'w")


def test_a_batch_that_is_unfinished_explains_what_it_has_stored(
    writer: BM25Index, other: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise StoreError("it was killed")

    monkeypatch.setattr(ChunkWriter, "_delete", die)
    with pytest.raises(StoreError, match="killed"):
        writer.add(["w1 fresh", "w2 fresh"], ids=["c1", "new"])
    assert other.verify().ok
    with pytest.raises(StoreError, match=r"another process writes to .* \(batch .*\), or was killed less than 10 min"):
        other.repair()
    writer._live._writer._unfinished = False  # as if it were gone


def test_where_the_log_was_compacted_there_is_no_verdict(
    writer: BM25Index, other: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_bm25.statistics.log.log.COMPACT_ABOVE", 2)
    scanned(other).between = writing(writer, 0)
    report = other.verify()
    assert (report.differences, report.ok) == ([], False)
    assert report.inconclusive.startswith("others wrote meanwhile, and compacted the log")


def test_nor_where_fewer_rows_are_given_than_there_are(other: BM25Index) -> None:
    scanned(other).hidden = set(list(scanned(other).collections.chunks)[:3])
    report = other.verify()
    assert (report.differences, report.ok) == ([], False)
    assert report.inconclusive == "the engine gives 9 of 12 chunks: is it still loading?"


@pytest.mark.parametrize("write", [lambda index: index.add(["w1 b"], ids=["c1"]), lambda index: index.delete(["c2"])])
def test_repair_refuses_where_others_have_written_since(
    writer: BM25Index, other: BM25Index, write: Callable[[BM25Index], object]
) -> None:
    scanned(other).between = lambda: write(writer)
    with pytest.raises(StoreError, match=r"another process writes to memory \(delta:.*stop all other writers"):
        other.repair()
    scanned(other).between = lambda: None
    assert other.verify().ok
    assert other.repair().num_chunks == writer.stats().num_chunks
    writer.refresh()
    assert (writer.verify().ok, writer.problems) == (True, [])


def test_repair_refuses_beside_a_compaction(writer: BM25Index, other: BM25Index) -> None:
    with writer._live.log.claim("compaction"), pytest.raises(StoreError, match=r"writes to memory \(compaction\)"):
        other.repair()
    assert other.repair().num_chunks == len(TEXTS)


@pytest.mark.parametrize("gone", [False, True])
def test_repair_writes_down_no_loss_that_is_not_accepted(other: BM25Index, gone: bool) -> None:
    """Rows that a scan does not reach, and rows that a server counts as little as it gives them."""
    store = scanned(other)
    store.hidden = set(list(store.collections.chunks)[:3])
    if gone:
        store.collections.chunks = {pk: row for pk, row in store.collections.chunks.items() if pk not in store.hidden}
    with pytest.raises(StoreError, match=r"memory: the engine gives 9 of 12 chunks: .*accept_loss=True"):
        other.repair()
    assert other.stats().num_chunks == 12
    assert other.repair(accept_loss=True).num_chunks == 9
    assert other.stats().num_chunks == 9


def test_rows_that_an_unfinished_write_has_deleted_are_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    index = filled(TEXTS, store=Scanned())
    monkeypatch.setattr(ChunkWriter, "_commit", lambda *_: None)
    index.delete(["c1", "c2"])
    assert index.repair().num_chunks == len(TEXTS) - 2


def test_opening_asks_again_before_it_speaks_of_missing_rows(
    writer: BM25Index, store: Scanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, counts = store.reopen(), iter([0, 5])
    count, waits = opened.count_unloaded, list[float]()
    monkeypatch.setattr(opened, "count_unloaded", lambda: next(counts, None) if len(waits) < 2 else count())
    monkeypatch.setattr("rag_bm25.index.live_statistics.time.sleep", waits.append)
    with BM25Index.from_store(opened, config=CONFIG) as index:
        assert (index.problems, len(waits)) == ([], 2)


def test_where_fewer_are_stored_repair_is_not_advised(
    writer: BM25Index, store: Scanned, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rag_bm25.index.live_statistics.LOADING_SECONDS", 0.0)
    store.collections.chunks.clear()
    with BM25Index.from_store(store.reopen(), config=CONFIG) as index:
        assert index.problems == ["the statistics count 12 chunks, but 0 are stored"]
    assert "If a server is still loading them" in caplog.text
    assert "repair" not in caplog.text


def test_overwriting_covers_nothing_that_came_later(writer: BM25Index, store: Scanned) -> None:
    """What was listed before a recount is replaced, and a delta that came since counts beside it."""
    keys, before = store.log_keys(), writer._live.log.statistics.contributions()
    writer.add(["late text"], ids=["late"])
    overwrite(store, before, writer._live.vocabulary(), keys=keys)
    with BM25Index.from_store(store.reopen(), config=CONFIG) as index:
        assert index.stats().num_chunks == len(TEXTS) + 1


def test_repair_and_verify_go_on_in_the_next_generation(writer: BM25Index, other: BM25Index) -> None:
    """It comes into force while they scan, before they have heard of it."""
    for call, k1 in ((other.repair, 0.9), (other.verify, 1.1)):
        scanned(other).between = partial(once, partial(reindex, writer, replace(CONFIG, k1=k1)), [])
        report: Any = call()
        assert (report.num_chunks, other.config.k1) == (len(TEXTS), k1)
    assert other.verify().ok


def once(call: Callable[[], object], called: list[bool]) -> None:
    if not called:
        called.append(True)
        call()
