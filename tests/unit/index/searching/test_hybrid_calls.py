"""Hybrid search: chunks that are deleted between its calls, and calls that are not made again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, Grouping, IndexConfig, Weighted
from rag_bm25.store.rows import Match, SearchArm

CONFIG = IndexConfig(chunk_size=4, analyzer=split, dense_dim=2)


def filled(store: MemoryStore, count: int) -> BM25Index:
    index = BM25Index.from_store(store, config=CONFIG)
    angles = np.linspace(0, 3, count)
    texts = [f"apple {'pie ' * (at % 5)}" for at in range(count)]
    ids, kinds = [f"{at:03}" for at in range(count)], [{"kind": at // 100} for at in range(count)]
    index.add(texts, ids=ids, metadatas=kinds, embeddings=np.stack([np.cos(angles), np.sin(angles)], 1))
    return index


def test_a_chunk_that_is_deleted_meanwhile_has_the_lowest_score_of_the_arm() -> None:
    store = MemoryStore()
    index = filled(store, 300)
    lost = next(pk for pk, row in store.collections.chunks.items() if row.id == "295")
    store.calls.clear()

    def delete(method: str) -> None:
        if method == "search" and store.calls.count("search") == 3:
            store.collections.chunks.pop(lost)

    store.on_call = delete
    limits: Any = {"sparse_k": 100, "dense_k": 100, "fusion": Weighted(0.5, 0.5, "min-max")}
    hits = {hit.id: hit for hit in index.search_hybrid("apple", [1.0, 0.0], 200, **limits)}
    assert [id_ for id_, hit in hits.items() if hit.dense_score is None] == ["295"]
    assert hits["295"].score == pytest.approx(0.5)  # that of the lexical arm alone


def test_the_first_candidates_are_scored_once_however_deep_a_search_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    index = filled(store, 900)
    limits: list[int] = []
    keys: list[tuple[str, ...]] = []
    search = store.search

    def noting(queries: Any, arm: SearchArm) -> list[list[Match]]:
        limits.append(arm.limit)
        keys.extend([arm.pks] if arm.pks else [])
        return search(queries, arm)

    monkeypatch.setattr(store, "search", noting)
    assert len(index.search_hybrid("apple", [1.0, 0.0], 9, group=Grouping("kind"), fusion=Weighted(0, 1))) == 9
    assert max(limits) > 100
    assert len(keys) == 2
