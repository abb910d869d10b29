"""A part of an index on every engine: the answers of an index that has these chunks alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import RSJ, BM25Index, IndexConfig, QueryExpansion
from rag_bm25.index.scoped import narrow

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = IndexConfig(chunk_size=12)
TEXTS = {
    "own": {"x#0": "劳动合同的解除 contract", "x#2": "notice of the contract, 合同", "y#0": "wages and notice"},
    "other": {"x#1": "租赁合同 lease contract contract", "x#3": "zebrafish 通知期限", "z#0": "zebrafish notice notice"},
}
PARTS: list[dict[str, Any]] = [
    {"namespace": ["own"]},
    {"filter": {"tenant": "own"}},
    {"filter": {"tenant": {"$in": ["own", "none"]}}, "namespace": ["own", "more"]},
    {"filter": {"$id": {"$in": ["x#0", "x#2", "y#0", "w"]}}},
]
SEARCHES: list[dict[str, Any]] = [
    {},
    {"statistics": "all"},
    {"filter": {"$or": [{"tenant": "own"}, {"tenant": "other"}]}},
    {"context": "document"},
    {"feedback": RSJ(["x#2"], min_df=1, max_df=1.0), "expansion": QueryExpansion()},
    {"min_should_match": 2},
]


def add(index: BM25Index, tenant: str, namespace: str) -> BM25Index:
    texts = TEXTS[tenant]
    places = [{"source": id_[0], "chunk": int(id_[-1]), "tenant": tenant} for id_ in texts]
    index.add(list(texts.values()), ids=list(texts), metadatas=places, namespace=namespace)
    return index


@pytest.mark.parametrize("part", PARTS, ids=["namespace", "filter", "both", "ids"])
def test_a_part_is_an_index_of_its_chunks(new_index: Callable[[IndexConfig], BM25Index], part: dict[str, Any]) -> None:
    same_place = "filter" in part and "namespace" in part
    index = add(add(new_index(CONFIG), "other", "own" if same_place else "other"), "own", "own")
    narrowed = narrow(index, **part)
    with BM25Index.from_store(MemoryStore(), config=CONFIG) as alone:
        add(alone, "own", "own")
        for options in SEARCHES:
            hits, wanted = (one.search("合同 notice zebrafish", namespace=None, **options) for one in (narrowed, alone))
            assert [(hit.id, hit.context) for hit in hits] == [(hit.id, hit.context) for hit in wanted]
            assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in wanted], rel=1e-5)
        assert narrowed.terms(namespace=None) == alone.terms(namespace=None)
        assert narrowed.stats().namespaces == ["own"]
        assert narrowed.get(["x#0", "x#1"], namespace="own") == alone.get(["x#0", "x#1"], namespace="own")
        assert str(narrowed.diagnose("zebrafish", namespace=None)) == str(alone.diagnose("zebrafish", namespace=None))
        add(index, "own", "own")  # nothing new
        index.delete(["x#0"], namespace="own")
        alone.delete(["x#0"], namespace="own")
        assert narrowed.terms(namespace=None) == alone.terms(namespace=None)
