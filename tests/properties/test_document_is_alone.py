"""Promise 1: encoding a chunk gives the same bits whatever was ingested before, in whatever process."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_store import MemoryStore
from support.programs import environment
from support.reference import split
from support.strategies import any_terms, document_weightings, texts

from rag_bm25 import Analyzer, BM25Index, IndexConfig
from rag_bm25.analysis import TextAnalyzer
from rag_bm25.documents.encoder import DocumentEncoder, LengthUnit
from rag_bm25.vectors.sparse import SparseVector
from rag_bm25.weighting.document import DocumentWeighting

units = st.sampled_from(["characters", "terms"])
CONFIG = IndexConfig(chunk_size=4, analyzer=split)


@given(st.lists(texts() | any_terms, min_size=1, max_size=6), document_weightings, units, st.data())
@pytest.mark.parametrize("analyzer", [split, Analyzer()], ids=["split", "words and bigrams"])
def test_vector_does_not_depend_on_its_batch(
    analyzer: TextAnalyzer, chunks: list[str], weighting: DocumentWeighting, unit: LengthUnit, data: st.DataObject
) -> None:
    encoder = DocumentEncoder(analyzer, weighting, unit)
    order = data.draw(st.permutations(range(len(chunks))))
    together = encoder.encode([chunks[at] for at in order])
    for place, at in enumerate(order):
        alone = encoder.encode([chunks[at]])
        assert together.vectors[place] == alone.vectors[0]
        assert together.lengths[place] == alone.lengths[0]


@given(st.lists(texts(), max_size=5), texts())
def test_vector_does_not_depend_on_what_was_ingested_before(history: list[str], text: str) -> None:
    store = MemoryStore()
    index = BM25Index.from_store(store, config=CONFIG)
    index.add(history)
    for id_ in index.add(history)[::2]:
        index.delete([id_])
    index.add([text], ids=["x"])
    assert stored(store, "x") == DocumentEncoder(split, CONFIG.document_weighting()).encode([text]).vectors[0]


@given(st.lists(texts(), min_size=1, max_size=4), texts())
def test_stored_vector_never_changes(others: list[str], text: str) -> None:
    store = MemoryStore()
    index = BM25Index.from_store(store, config=CONFIG)
    index.add([text], ids=["x"])
    before = stored(store, "x")
    index.add(others)
    assert stored(store, "x") == before


def stored(store: MemoryStore, id_: str) -> SparseVector:
    (vector,) = (row.vector for row in store.collections.chunks.values() if row.id == id_)
    return vector


ENCODE = """
from rag_bm25 import Analyzer
from rag_bm25.documents.encoder import DocumentEncoder
from rag_bm25.weighting.document import DocumentWeighting

texts = ["Milvus stores sparse vectors", "to be or not to be", "", "中文检索 BM25", "ünï cödé " * 40]
encoder = DocumentEncoder(Analyzer(), DocumentWeighting(500))
for vector in encoder.encode(texts).vectors:
    print(vector.ids.tobytes().hex(), vector.values.tobytes().hex())
"""


def test_vector_does_not_depend_on_the_process() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ENCODE],
            env=environment(PYTHONHASHSEED=seed),
            stdout=subprocess.PIPE,
        )
        for seed in ("0", "1", "4242")
    ]
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(outputs[0].splitlines()) == 5
    assert outputs[0] == outputs[1] == outputs[2]
