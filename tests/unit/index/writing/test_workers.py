"""What workers count is what the writer would have."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dying_analyzer import dies
from support.memory_store import MemoryStore
from support.reference import split
from support.strategies import texts

from rag_bm25 import BM25Index, Chunk, FieldWeight, IndexConfig, ParameterError, StoreError, WorkerError
from rag_bm25.documents import chunks as chunks_module
from rag_bm25.documents.checks import check_chunks
from rag_bm25.documents.chunks import NewChunk
from rag_bm25.documents.encoder import CountedChunks, DocumentEncoder
from rag_bm25.index.writing.counting_ahead import CountingAhead
from rag_bm25.index.writing.workers import WorkerPools
from rag_bm25.vectors.terms import Vocabulary
from rag_bm25.weighting.document import DocumentWeighting

ROOT = Path(__file__).resolve().parents[4]
ENCODER = DocumentEncoder(split, DocumentWeighting(4), "terms")
IDS = [str(n) for n in range(10_000)]
MIXED = [f"检索 word{n % 97} 全文 搜索 Running w{n * 7 % 31} 中国人民" for n in range(2_100)] + ["", "。"]


def rows(store: MemoryStore) -> dict[str, tuple[Any, ...]]:
    """What is stored, to the bit, but for the names of batches."""
    return {
        row.pk: (row.id, row.text, row.length, row.vector.ids.tobytes(), row.vector.values.tobytes())
        for row in store.collections.chunks.values()
    }


@pytest.fixture
def index() -> Iterator[BM25Index]:
    with BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=30)) as index:
        yield index


class TestCounting:
    @given(st.lists(texts(), max_size=6))
    def test_terms_are_counted_without_ids(self, some: list[str]) -> None:
        counted = ENCODER.count(some)
        assert counted.terms == list(dict.fromkeys(term for text in some for term in split(text)))
        tf, lengths = counted.parts[""]
        found = [{counted.terms[at]: count for at, count in row.to_dict().items()} for row in tf]
        assert found == [Counter(split(text)) for text in some]
        assert lengths.tolist() == [len(split(text)) for text in some]

    @given(st.lists(texts(), max_size=6))
    def test_encoding_them_gives_the_same_bits(self, some: list[str]) -> None:
        staged, other = Vocabulary().stage(), Vocabulary().stage()
        encoded = ENCODER.encode(some, staged)
        again = ENCODER.encode(some, other, counted=ENCODER.count(some))
        for name in ("indptr", "ids", "values"):
            ours, theirs = getattr(again.vectors, name), getattr(encoded.vectors, name)
            assert (ours.dtype, ours.tobytes()) == (theirs.dtype, theirs.tobytes())
        assert again.lengths.tolist() == encoded.lengths.tolist()
        assert staged.new == other.new

    @pytest.mark.usefixtures("tiny_id_space")
    def test_terms_that_want_the_same_id_get_the_same_ones(self) -> None:
        some = ["a b c", "d e a", "f g h i j"]
        staged, other = Vocabulary().stage(), Vocabulary().stage()
        encoded = ENCODER.encode(some, staged)
        again = ENCODER.encode(some, other, counted=ENCODER.count(some))
        assert list(staged.new.items()) == list(other.new.items())
        assert list(encoded.vectors) == list(again.vectors)


class PoolOfFakes:
    """Counts at once, and remembers what it was asked for."""

    number = 2

    def __init__(self) -> None:
        self.alone: list[list[str]] = []
        self.submitted: list[list[str]] = []
        self.futures: list[Future[CountedChunks]] = []

    def count(self, chunks: list[NewChunk]) -> CountedChunks:
        self.alone.append([chunk.text for chunk in chunks])
        return ENCODER.count(self.alone[-1])

    def submit(self, chunks: list[NewChunk]) -> Future[CountedChunks]:
        self.submitted.append([chunk.text for chunk in chunks])
        self.futures.append(Future())
        self.futures[-1].set_result(ENCODER.count(self.submitted[-1]))
        return self.futures[-1]


def batches_of(texts: str) -> list[list[NewChunk]]:
    """Batches of two chunks, whose texts are single characters."""
    return [check_chunks(list(texts[at : at + 2]), None, None) for at in range(0, len(texts), 2)]


class TestCountingAhead:
    def test_batches_come_in_order_and_the_next_ones_are_counted_ahead(self) -> None:
        pool = PoolOfFakes()
        ahead: list[int] = []
        for batch, count in CountingAhead(batches_of("abcdefgh"), pool):
            assert count([0, 1]).terms == [chunk.text for chunk in batch]
            ahead.append(len(pool.submitted))
        assert ahead == [3, 4, 4, 4]
        assert pool.submitted == [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]]
        assert pool.alone == []

    def test_what_is_not_asked_for_is_not_counted(self) -> None:
        pool = PoolOfFakes()
        assert len(list(CountingAhead(batches_of("abcdef"), pool))) == 3
        assert (pool.alone, pool.submitted) == ([], [])

    def test_of_a_batch_that_is_stored_in_part_the_rest_is_counted_and_nothing_ahead(self) -> None:
        pool = PoolOfFakes()
        for place, (_, count) in enumerate(CountingAhead(batches_of("abcdef"), pool)):
            assert count([1]).terms == ["bdf"[place]]
        assert (pool.alone, pool.submitted) == ([["b"], ["d"], ["f"]], [])

    def test_a_part_of_what_was_counted_ahead_is_counted_again_as_one_call_would_have_it(self) -> None:
        pool = PoolOfFakes()
        counts = [count for _, count in self.taken(CountingAhead(batches_of("abcdef"), pool), [[0, 1], [1]])]
        assert len(counts) == 3
        assert pool.submitted == [["a", "b"], ["c", "d"], ["e", "f"]]
        assert pool.alone == [["d"]]

    @staticmethod
    def taken(ahead: CountingAhead, asked: list[list[int]]) -> Iterator[tuple[list[NewChunk], Any]]:
        for number, (batch, count) in enumerate(ahead):
            if number < len(asked):
                count(asked[number])
            yield batch, count

    def test_a_lone_batch_needs_no_pool(self) -> None:
        pool = PoolOfFakes()
        ((_, count),) = CountingAhead(batches_of("ab"), pool)
        assert count([0, 1]).terms == ["a", "b"]
        assert (pool.alone, pool.submitted) == ([["a", "b"]], [])

    def test_no_more_batches_are_taken_than_are_counted_at_once(self) -> None:
        taken: list[int] = []

        def source() -> Iterator[list[NewChunk]]:
            for number, batch in enumerate(batches_of("abcdefghij")):
                taken.append(number)
                yield batch

        most = []
        for _, count in CountingAhead(source(), PoolOfFakes()):
            count([0, 1])
            most.append(len(taken))
        assert most == [3, 4, 5, 5, 5]

    @pytest.mark.parametrize("asked", [[], [[0, 1]] * 3])
    def test_failing_source_is_told_when_what_came_before_was_handed_out(self, asked: list[list[int]]) -> None:
        def source() -> Iterator[list[NewChunk]]:
            yield from batches_of("abcdef")
            raise OSError("the source has failed")

        handed: list[str] = []
        batches = (
            handed.append(batch[0].text) for batch, _ in self.taken(CountingAhead(source(), PoolOfFakes()), asked)
        )
        with pytest.raises(OSError, match="the source has failed"):
            list(batches)
        assert handed == ["a", "c", "e"]

    def test_closing_cancels_what_waits(self) -> None:
        pool = PoolOfFakes()
        ahead = CountingAhead(batches_of("abcdef"), pool)
        _, count = next(iter(ahead))
        count([0, 1])
        for future in pool.futures[1:]:
            future.__init__()  # type: ignore[misc]  # not done
        ahead.close()
        assert [future.cancelled() for future in pool.futures] == [False, True, True]


class TestThread:
    """The default: the next batch is counted in a thread."""

    @pytest.fixture
    def called(self) -> list[tuple[str, str]]:
        return []

    @pytest.fixture
    def index(self, called: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[BM25Index]:
        """An index with batches of two, whose analyzer notes its thread."""
        monkeypatch.setattr(chunks_module, "MAX_BATCH_CHUNKS", 2)

        def analyzer(text: str) -> list[str]:
            called.append((text, threading.current_thread().name))
            if text == "bad":
                raise ValueError("the analyzer has failed")
            if text == "interrupt":
                raise KeyboardInterrupt
            return text.split()

        config = IndexConfig(chunk_size=4, analyzer=analyzer)
        with BM25Index.from_store(MemoryStore(), config=config) as index:
            called.clear()
            yield index

    def test_one_batch_is_counted_by_the_caller(self, index: BM25Index, called: list[tuple[str, str]]) -> None:
        index.add(["a", "b"])
        here = threading.current_thread().name
        assert called == [("a", here), ("b", here)]

    def test_several_are_counted_in_one_thread_in_order(self, index: BM25Index, called: list[tuple[str, str]]) -> None:
        index.add(list("abcdefg"))
        assert [text for text, _ in called] == list("abcdefg")
        assert {name for _, name in called} == {"rag_bm25_0"}
        assert "rag_bm25_0" not in {thread.name for thread in threading.enumerate()}

    def test_what_is_stored_is_not_analysed(self, index: BM25Index, called: list[tuple[str, str]]) -> None:
        index.add(list("abcdefg"))
        called.clear()
        index.add(list("abcdefg"))
        assert called == []
        index.add(list("abxdefg"))
        assert [text for text, _ in called] == ["x"]

    @pytest.mark.parametrize(("text", "error"), [("bad", ValueError), ("interrupt", KeyboardInterrupt)])
    def test_failing_analysis_is_told_when_what_came_before_is_written(
        self, index: BM25Index, text: str, error: type[BaseException]
    ) -> None:
        with pytest.raises(error):
            index.add(["a", "b", "c", "d", "e", text, "g"])
        assert sorted(chunk.text for chunk in index.chunks()) == ["a", "b", "c", "d"]
        assert index.verify().ok
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("rag_bm25_")]
        index.add(["a", "b", "c", "d", "e", "f", "g"])
        assert index.stats().num_chunks == 7
        assert index.verify().ok

    def test_failing_write_ends_the_thread(self, index: BM25Index) -> None:
        store = index._store
        assert isinstance(store, MemoryStore)

        def fail(method: str) -> None:
            if method == "insert_chunks" and len(store.collections.chunks) >= 4:
                raise StoreError("lost")

        store.on_call = fail
        with pytest.raises(StoreError, match="lost"):
            index.add(list("abcdefghij"))
        store.on_call = None
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("rag_bm25_")]
        index.add(list("abcdefghij"))
        assert index.stats().num_chunks == 10
        assert index.verify().ok

    def test_writers_in_two_threads_do_not_mix(self, index: BM25Index) -> None:
        threads = [
            threading.Thread(target=index.add, args=([f"w{number} {n % 5}" for number in range(n, 40, 2)],))
            for n in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert index.stats().num_chunks == 40
        assert index.verify().ok


def terms_of(index: BM25Index) -> list[tuple[str, int | None]]:
    vocabulary = index._live.log.vocabulary()
    return [(term, vocabulary.id(term)) for term in vocabulary]


class FakeWorkers:
    def __init__(self, config: IndexConfig, number: int) -> None:
        self.number = number
        self.closed = False

    def close(self) -> None:
        self.closed = True


class TestPools:
    @pytest.fixture
    def pools(self, monkeypatch: pytest.MonkeyPatch, config: IndexConfig) -> WorkerPools:
        monkeypatch.setattr("rag_bm25.index.writing.workers.Workers", FakeWorkers)
        return WorkerPools(config)

    def test_a_pool_is_kept_from_call_to_call(self, pools: WorkerPools) -> None:
        with pools.lend(2) as first, pools.lend(2) as second:
            assert first is second
        with pools.lend(2) as third:
            assert third is first

    def test_another_number_of_workers_ends_those_of_before(self, pools: WorkerPools) -> None:
        with pools.lend(2) as of_two:
            pass
        with pools.lend(3) as of_three:
            assert (of_two.closed, of_three.closed) == (True, False)  # type: ignore[attr-defined]

    def test_a_pool_in_use_is_left_alone(self, pools: WorkerPools) -> None:
        with pools.lend(2) as of_two:
            with pools.lend(3):
                assert not of_two.closed  # type: ignore[attr-defined]
            with pools.lend(2) as again:
                assert again is of_two
        with pools.lend(3):
            assert of_two.closed  # type: ignore[attr-defined]

    def test_a_pool_of_which_a_process_died_is_not_lent_again(self, pools: WorkerPools) -> None:
        def fail() -> None:
            with pools.lend(2) as dying:
                found.append(dying)
                raise WorkerError

        found: list[Any] = []
        with pytest.raises(WorkerError):
            fail()
        with pools.lend(2) as fresh:
            assert fresh is not found[0]
            assert found[0].closed

    def test_call_that_fails_leaves_the_pool_of_a_later_call(self, pools: WorkerPools) -> None:
        """Of two calls with one pool, both fail when a worker dies; between them a third one may begin."""

        def fail(then: Callable[[], object]) -> None:
            with suppress(WorkerError), pools.lend(2):
                then()
                raise WorkerError

        later: list[Any] = []

        def meanwhile() -> None:
            fail(lambda: None)
            with pools.lend(2) as third:
                later.append(third)

        fail(meanwhile)
        with pools.lend(2) as pool:
            assert pool is later[0]
            assert not later[0].closed


class TestIndex:
    def test_rows_and_statistics_are_those_of_one_process(self, index: BM25Index) -> None:
        """One batch after the other, each counted by the caller; in a thread; in processes."""
        serial = BM25Index.from_store(MemoryStore(), config=index.config)
        threaded = BM25Index.from_store(MemoryStore(), config=index.config)
        for one, workers, size in ((serial, 0, 1_000), (threaded, 0, 9_999), (index, 2, 9_999)):
            for given_texts in (MIXED[:300], MIXED):
                for start in range(0, len(given_texts), size):
                    some = given_texts[start : start + size]
                    one.add(some, ids=[str(start + n) for n in range(len(some))], workers=workers)
            one.add(["新的 text"], ids=["7"], workers=workers)
        for other in (threaded, index):
            assert rows(other._store) == rows(serial._store)  # type: ignore[arg-type]
            assert other.stats() == serial.stats()
            assert terms_of(other) == terms_of(serial)
            assert other.verify().ok
            assert other.search("检索 running") == serial.search("检索 running")

    @pytest.mark.skipif(not os.environ.get("RAG_BM25_SLOW"), reason="takes a minute: RAG_BM25_SLOW=1 and --timeout 0")
    def test_ten_thousand_chunks_are_the_same_bits_by_every_path(self) -> None:
        """Repeated, empty and odd chunks among them; half of them are there before, some with other texts."""
        rng = random.Random(7)
        words = [
            *"的一是在有",
            "检索",
            "全文检索",
            "劳动合同",
            "Running",
            "v2.5.1",
            "get_user",
            "𠮷野家",
            "ﬁ",
            "🙂",
            "ｶﾀｶﾅ",
            "\t",
            "。",
        ]
        texts_ = ["".join(rng.choices(words, k=rng.choice((0, 1, 3, 300)))) for _ in range(9_000)]
        texts_ += rng.choices(texts_, k=1_000)
        found = []
        for workers, size in ((0, 1_000), (0, 10_000), (1, 10_000), (2, 10_000)):
            with BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=500)) as index:
                index.add([text[::-1] if n % 3 else text for n, text in enumerate(texts_[:5_000])], ids=IDS[:5_000])
                for start in range(0, len(texts_), size):
                    index.add(texts_[start : start + size], ids=IDS[start : start + size], workers=workers)
                assert index.verify().ok
                found.append((rows(index._store), index.stats(), terms_of(index)))  # type: ignore[arg-type]
        assert found[1:] == found[:1] * 3

    @pytest.mark.usefixtures("tiny_id_space")
    def test_terms_that_want_the_same_id_get_the_same_ones_by_every_path(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(chunks_module, "MAX_BATCH_CHUNKS", 3)
        some_texts = [f"t{n % 5} w{n * 3 % 4}" for n in range(14)]
        found = []
        for size in (3, 99):
            with BM25Index.from_store(MemoryStore(), config=IndexConfig(4, analyzer=split)) as index:
                index.add(
                    [some_texts[3], "other", some_texts[8]], ids=["3", "4", "8"]
                )  # so that batches are new in part
                for start in range(0, len(some_texts), size):
                    some = some_texts[start : start + size]
                    index.add(some, ids=[str(start + n) for n in range(len(some))])
                found.append((terms_of(index), rows(index._store)))  # type: ignore[arg-type]
        assert found[0] == found[1]

    def test_fields_are_counted_too(self) -> None:
        config = IndexConfig(chunk_size=30, fields={"title": FieldWeight(chunk_size=5, weight=2.0)})
        stored = []
        for workers in (0, 1):
            store = MemoryStore()
            with BM25Index.from_store(store, config=config) as index:
                metadatas = [{"title": f"标题 t{n % 5} {text[:4]}"} for n, text in enumerate(MIXED[:50])]
                for some in (slice(0, 20), slice(0, 50)):
                    ids = [str(n) for n in range(some.stop)]
                    index.add(MIXED[some], ids=ids, metadatas=metadatas[some], workers=workers)
                assert index.verify().ok
            stored.append(rows(store))
        assert stored[0] == stored[1]

    def test_failing_write_leaves_a_sound_index(self, index: BM25Index) -> None:
        store = index._store
        assert isinstance(store, MemoryStore)

        def fail(method: str) -> None:
            if method == "insert_chunks" and len(store.collections.chunks) >= 1000:
                raise StoreError("lost")

        store.on_call = fail
        with pytest.raises(StoreError, match="lost"):
            index.add([f"{text} {n}" for n, text in enumerate(MIXED)], workers=1)
        store.on_call = None
        index.add(["more"], workers=1)
        assert index.stats().num_chunks == 1001
        assert index.verify().ok

    def test_worker_that_dies_is_told_and_replaced(self) -> None:
        config = IndexConfig(chunk_size=4, analyzer=dies)
        with BM25Index.from_store(MemoryStore(), config=config) as index:
            for _ in range(2):
                with pytest.raises(WorkerError, match="a worker process died before its chunks were analysed"):
                    index.add(["a"], workers=1)
            index.add(["b"], workers=1)
            assert index.stats().num_chunks == 1

    def test_a_pool_of_the_source_that_breaks_is_not_taken_for_ours(self, index: BM25Index) -> None:
        def source() -> Iterator[Chunk]:
            yield Chunk("a", "a", {})
            raise BrokenProcessPool

        with pytest.raises(BrokenProcessPool):
            index.add_stream(source())
        assert index.stats().num_chunks == 0

    def test_workers_end_with_the_index(self, index: BM25Index) -> None:
        others = multiprocessing.active_children()
        index.add(["a"], workers=1)
        (process,) = set(multiprocessing.active_children()).difference(others)
        assert process.is_alive()
        index.close()
        assert not process.is_alive()

    @pytest.mark.parametrize("workers", [-1, 62, True, 1.0, "2", None])
    def test_bad_number_is_refused(self, index: BM25Index, workers: Any) -> None:
        with pytest.raises(ParameterError, match=rf"workers must be an int in 0\.\.61, got {workers!r}"):
            index.add(["a"], workers=workers)
        assert index.stats().num_chunks == 0

    def test_analyzer_that_cannot_be_sent_is_refused(self) -> None:
        config = IndexConfig(chunk_size=4, analyzer=lambda text: text.split())
        with BM25Index.from_store(MemoryStore(), config=config) as index:
            with pytest.raises(ParameterError, match="workers need an analyzer that can be pickled"):
                index.add(["a"], workers=1)
            assert index.stats().num_chunks == 0


def test_ctrl_c_leaves_a_sound_index(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from support.memory_store import MemoryStore
from rag_bm25 import BM25Index, IndexConfig

if __name__ == "__main__":
    store = MemoryStore()
    index = BM25Index.from_store(store, config=IndexConfig(chunk_size=30))
    index.add(["warm"], workers=2)
    store.on_call = lambda method: method == "insert_chunks" and os.killpg(0, signal.SIGINT)
    try:
        index.add([f"word {n}" for n in range(4000)], workers=2)
    except KeyboardInterrupt:
        print("interrupted")
    store.on_call = None
    index.add(["after"], workers=2)
    print(index.verify().ok, index.stats().num_chunks)
    index.close()
"""
    path = tmp_path / "script.py"
    path.write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, path],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        timeout=120,
        start_new_session=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("interrupted\nTrue 2\n", "")


def test_counts_of_no_chunks_have_the_right_types() -> None:
    tf, lengths = ENCODER.count([]).parts[""]
    assert (len(tf), tf.ids.dtype, lengths.tolist()) == (0, np.uint32, [])
