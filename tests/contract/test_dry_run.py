"""A dry run on every engine: what it predicts is what comes, and the engine is not written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig, Query
from rag_bm25.index import dry_run
from rag_bm25.store.protocol import Store

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, dense_dim=2)
QUERIES = ["apple fig", "plum", Query("fig", must=["apple"]), Query("plum", phrases=["plum pear"])]


def change(index: BM25Index) -> None:
    index.add(
        ["apple fig fig", "plum pear apple", "kiwi"],
        ids=["a1", "new", "a2"],
        metadatas=[{"n": 1}, {"n": 2}, {}],
        embeddings=[[1.0, 0.0], [0.5, 1.0], [0.0, 1.0]],
    )
    index.delete([f"a{at}" for at in range(10, 30)])
    index.drop_namespace("law")


def answers(index: BM25Index) -> list[Any]:
    names: list[Any] = ["", "law", None]
    found = [index.search(query, 5, namespace=name) for query in QUERIES for name in names]
    found += [index.search(query, 5, filter={"n": {"$gte": 1}}) for query in QUERIES]
    found += [index.search_hybrid("fig", [0.5, 0.5], 5), index.search_dense([1.0, 0.2], 5)]
    return [[(hit.id, hit.text, pytest.approx(hit.score, rel=1e-6)) for hit in hits] for hits in found]


def test_what_a_dry_run_predicts_comes(opened: Callable[..., Store], new_index: Callable[..., BM25Index]) -> None:
    index = new_index(CONFIG)
    words = ["apple", "fig", "plum pear", "apple plum", "fig fig"]
    texts = [f"{words[at % 5]} {words[at % 3]} w{at}" for at in range(40)]  # no two scores are equal by chance alone
    index.add(texts, ids=[f"a{at}" for at in range(40)], embeddings=[[1.0, at / 40] for at in range(40)])
    index.add(["apple law"], ids=["l1"], namespace="law", embeddings=[[1.0, 1.0]])
    before = answers(index)
    with BM25Index.from_store(opened(read_only=True), config=CONFIG, read_only=True) as reader:
        with dry_run(reader) as trial:
            assert answers(trial) == before
            change(trial)
            predicted = answers(trial)
            assert trial.verify().differences == []
        assert answers(reader) == before
    change(index)
    assert answers(index) == predicted
    assert predicted != before
