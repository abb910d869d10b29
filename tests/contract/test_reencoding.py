"""Weightings, fields and re-encoding on every engine: the scores of the loops, before and after."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.store.protocol import Store

TEXTS = {"1": "apple apple fig", "2": "fig", "3": "apple plum plum plum plum", "4": ""}


def test_reencoded_chunks_have_their_new_vectors(
    new_index: Callable[[IndexConfig], BM25Index], opened: Callable[..., Store]
) -> None:
    config = IndexConfig(3, length_unit="terms", analyzer=split, weighting="bm25t", idf="lucene")
    index = new_index(config)
    index.add(list(TEXTS.values()), ids=list(TEXTS))
    before = index.search("apple plum fig")
    assert index.reencode().reencoded == 3
    index.close()
    with BM25Index.from_store(opened(), config=config) as index:
        after = index.search("apple plum fig")
        assert {hit.id for hit in after} == {hit.id for hit in before}
        assert [hit.score for hit in after] != [hit.score for hit in before]
        for hit in after:
            assert index.explain("apple plum fig", hit.id).value == pytest.approx(hit.score, rel=1e-5)
        assert index.verify().ok
        assert index.reencode().reencoded == 0
