"""Vectors that their texts do not give are found and written again, on every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.store.protocol import Store
from rag_bm25.store.rows import other_slot
from rag_bm25.vectors.sparse import SparseVector

TEXTS = {"1": "apple apple fig", "2": "fig", "3": "apple plum plum plum plum", "4": ""}


def test_chunks_have_the_vectors_of_their_texts_after_a_repair(
    new_index: Callable[[IndexConfig], BM25Index], opened: Callable[..., Store]
) -> None:
    config = IndexConfig(3, length_unit="terms", analyzer=split)
    index = new_index(config)
    index.add(list(TEXTS.values()), ids=list(TEXTS))
    before, store = index.search("apple plum fig"), index._store
    (row,) = (row for rows in store.scan_chunks(contents=True, vectors=True) for row in rows if row.id == "3")
    vector = SparseVector(row.vector.ids, row.vector.values * 2)
    store.insert_chunks([replace(row, pk=other_slot(row.pk), vector=vector)])
    store.delete_chunks([row.pk])
    assert index.search("apple plum fig") != before
    assert index.verify().wrong_chunks == 1
    assert index.repair().rewritten == 1
    index.close()
    with BM25Index.from_store(opened(), config=config) as index:
        assert index.search("apple plum fig") == before
        assert index.verify().ok
