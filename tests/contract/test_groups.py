"""Two indexes as one: the same answers on every engine, and of two engines together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.memory_store import MemoryStore

from rag_bm25 import RSJ, BM25Index, Grouping, IndexConfig, IndexGroup, QueryExpansion, StoreError
from rag_bm25.store.protocol import Store

pytestmark = pytest.mark.own_engine
CONFIG = IndexConfig(chunk_size=12, dense_dim=2)
TEXTS = {
    "a#0": "劳动合同的解除 contract",
    "a#1": "notice of the contract, 合同",
    "b#0": "the notice period 通知期限",
    "b#1": "租赁合同 lease contract contract",
    "c#0": "wages and notice",
}
QUERY, VECTOR = "合同 notice", [1.0, 0.5]
SEARCHES: list[dict[str, Any]] = [
    {},
    {"filter": {"source": {"$in": ["a", "c"]}}},
    {"group": Grouping("source", size=2)},
    {"feedback": RSJ(["a#1"], min_df=1, max_df=1.0), "expansion": QueryExpansion()},
    {"min_should_match": 2, "highlight": True},
    {"context": "document", "namespace": None},
]


def add(index: BM25Index, ids: list[str]) -> BM25Index:
    texts = [TEXTS[id_] for id_ in ids]
    vectors = np.array([[len(text) % 3, 1.0] for text in texts], np.float32)
    places = [{"source": id_[0], "chunk": int(id_[-1])} for id_ in ids]
    index.add(texts, ids=ids, metadatas=places, embeddings=vectors)
    return index


@pytest.fixture
def two(opened: Callable[..., Store]) -> Iterator[tuple[BM25Index, IndexGroup]]:
    """One index of all chunks in memory, and a group of one on each engine and of one in memory."""
    with ExitStack() as stores:
        opened("part").drop()
        one = add(BM25Index.from_store(MemoryStore(), config=CONFIG), list(TEXTS))
        part = stores.enter_context(BM25Index.from_store(opened("part"), config=CONFIG))
        other = BM25Index.from_store(MemoryStore(), config=CONFIG)
        yield one, IndexGroup([add(part, ["b#0", "b#1"]), add(other, ["a#0", "a#1", "c#0"])])
        opened("part").drop()


def test_a_group_of_two_engines_is_one_index(two: tuple[BM25Index, IndexGroup]) -> None:
    one, group = two
    for options in SEARCHES:
        found, expected = (index.search(QUERY, **options) for index in (group, one))
        assert [hit.key[:2] for hit in found] == [hit.key[:2] for hit in expected]
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], rel=1e-6)
        assert [(hit.highlights, hit.context and hit.context.text) for hit in found] == [
            (hit.highlights, hit.context and hit.context.text) for hit in expected
        ]
        assert {hit.part for hit in found} <= {0, 1}
    for hit in group.search(QUERY):
        assert group.explain(QUERY, hit.id).value == pytest.approx(hit.score, rel=1e-5)
    hybrid, expected = (index.search_hybrid(QUERY, VECTOR) for index in (group, one))
    assert [hit.id for hit in hybrid] == [hit.id for hit in expected]
    assert [hit.score for hit in hybrid] == pytest.approx([hit.score for hit in expected], abs=1e-5)  # of cosines


def test_what_is_written_to_an_index_is_in_the_next_search(two: tuple[BM25Index, IndexGroup]) -> None:
    one, group = two
    for index in (one, group.parts[0]):
        index.delete(["b#0"])
        index.add(["合同 合同 notice"], ids=["d#0"], embeddings=np.array([VECTOR], np.float32))
    group.refresh()
    found, expected = (index.search(QUERY) for index in (group, one))
    assert [hit.id for hit in found] == [hit.id for hit in expected]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], rel=1e-6)
    assert replace(group.stats(), name="", storage=None) == replace(one.stats(), name="", storage=None)


def test_closing_the_group_closes_its_indexes(two: tuple[BM25Index, IndexGroup]) -> None:
    _, group = two
    with group:
        assert group.search(QUERY)
    for index in (group, *group.parts):
        with pytest.raises(StoreError, match="is closed"):
            index.search(QUERY)
