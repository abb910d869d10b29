"""Weightings, fields and re-encoding on every engine: the scores of the loops, before and after."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.reference import BM25, Corpus, Field, split

from rag_bm25 import BM25Index, FieldWeight, IndexConfig
from rag_bm25.store.protocol import Store
from rag_bm25.weighting.formulas import WEIGHTING_NAMES, WeightingName

TEXTS = {"1": "apple apple fig", "2": "fig", "3": "apple plum plum plum plum", "4": ""}
TITLES = {"1": "fig", "3": "apple apple"}


@pytest.mark.parametrize("form", [name for name in WEIGHTING_NAMES if name != "sqrt-normalised"])
def test_scores_over_fields_are_those_of_the_loops(
    new_index: Callable[[IndexConfig], BM25Index], form: WeightingName
) -> None:
    fields = {"title": FieldWeight(chunk_size=2, weight=3.0, b=0.5)}
    config = IndexConfig(3, length_unit="terms", analyzer=split, weighting=form, idf="lucene", fields=fields)
    index = new_index(config)
    metadatas = [{"title": TITLES[id_]} if id_ in TITLES else None for id_ in TEXTS]
    index.add(list(TEXTS.values()), ids=list(TEXTS), metadatas=metadatas)
    corpus = Corpus(
        {id_: text.split() for id_, text in TEXTS.items()},
        {id_: {"title": title.split()} for id_, title in TITLES.items()},
    )
    model = BM25(3, idf="lucene", form=form, fields={"title": Field(2, 3.0, 0.5)})
    found = {hit.id: hit.score for hit in index.search("apple plum fig")}
    assert found == pytest.approx(model.scores(["apple", "plum", "fig"], corpus), rel=1e-5)


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
