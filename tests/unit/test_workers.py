"""What workers count is what the writer would have."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from dying_analyzer import dies
from hypothesis import given
from hypothesis import strategies as st
from memory_store import MemoryStore
from reference import split
from strategies import texts

from rag_bm25 import BM25Index, FieldWeight, IndexConfig, ParameterError, StoreError, WorkerError
from rag_bm25.document_encoder import DocumentEncoder
from rag_bm25.similarity import DocumentWeighting
from rag_bm25.terms import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
ENCODER = DocumentEncoder(split, DocumentWeighting(4), "terms")
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


class TestIndex:
    def test_rows_and_statistics_are_those_of_one_process(self, index: BM25Index) -> None:
        alone = BM25Index.from_store(MemoryStore(), config=index.config)
        for one, workers in ((alone, 0), (index, 2)):
            one.add(MIXED[:300], ids=[str(n) for n in range(300)], workers=workers)
            one.add(MIXED, ids=[str(n) for n in range(len(MIXED))], workers=workers)
            one.add(["新的 text"], ids=["7"], workers=workers)
        assert rows(index._store) == rows(alone._store)  # type: ignore[arg-type]
        assert index.stats() == alone.stats()
        assert index.verify().ok
        assert index.search("检索 running") == alone.search("检索 running")

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
                msg = "lost"
                raise StoreError(msg)

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

    def test_workers_end_with_the_index(self, index: BM25Index) -> None:
        index.add(["a"], workers=1)
        (pool,) = index._pools.values()
        (process,) = pool._pool._processes.values()
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
from memory_store import MemoryStore
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
