"""Proximity: hits where the words of the query are near to each other gain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rag_bm25 import BM25Index, IndexConfig, Proximity
from rag_bm25.analysis.phrases import PhraseText
from rag_bm25.hits.proximity import nearness

TEXTS = {
    "far": "The notice was given in writing, and nobody knew the period.",
    "near": "Nobody in writing knew the notice period that was given.",
    "one": "The period was long.",
    "远": "解除以后，他们又去签了一份新的合同。",
    "近": "他们又去签了一份新的，以后解除合同。",
}


@pytest.fixture(scope="module")
def index() -> Iterator[BM25Index]:
    with BM25Index.open(":memory:", "near", config=IndexConfig(chunk_size=60)) as index:
        index.add(list(TEXTS.values()), ids=list(TEXTS))
        yield index


def scores(index: BM25Index, query: str, **options: Any) -> dict[str, float]:
    return {hit.id: hit.score for hit in index.search(query, **options)}


def gains(index: BM25Index, query: str, proximity: Proximity) -> dict[str, float]:
    plain = scores(index, query)
    return {id_: score - plain[id_] for id_, score in scores(index, query, rerank=proximity).items()}


def test_the_smaller_idf_counts_by_the_distance(index: BM25Index) -> None:
    notice, period = (term.idf for term in index.term_statistics("notice period"))
    assert notice > period > 0
    gained = gains(index, "notice period", Proximity(index, weight=0.5))
    assert gained == pytest.approx({"near": 0.5 * period / 2, "far": 0.5 * period / (1 + 10), "one": 0.0}, abs=1e-6)


def test_chinese_words_are_as_near_as_their_characters(index: BM25Index) -> None:
    terms = {term.term: term.idf for term in index.term_statistics("解除 合同")}
    gained = gains(index, "解除 合同", Proximity(index))
    least = min(terms.values())
    assert gained == pytest.approx({"近": 0.1 * least / 2, "远": 0.1 * least / (1 + 14)}, abs=1e-6)


def test_hits_beyond_the_depth_keep_their_scores_and_places(index: BM25Index) -> None:
    plain = [(hit.id, hit.score) for hit in index.search("notice period")]
    again = [(hit.id, hit.score) for hit in index.search("notice period", rerank=Proximity(index, depth=1))]
    assert again[0][0] == plain[0][0]
    assert again[1:] == plain[1:]


@pytest.mark.parametrize("query", ["notice", "unheard words", "the"])
def test_a_query_without_two_known_words_changes_nothing(index: BM25Index, query: str) -> None:
    assert scores(index, query, rerank=Proximity(index)) == scores(index, query)
    assert Proximity(index)(query, []) == []


def test_a_query_of_thousands_of_words_counts_the_heaviest_ones() -> None:
    class Statistics:
        def __init__(self, term: str, idf: float) -> None:
            self.term, self.idf = term, idf

    class Index:
        analyzer = staticmethod(str.split)

        def term_statistics(self, terms: str, namespace: Any) -> list[Statistics]:
            return [Statistics(term, at) for at, term in enumerate(terms.split())]

    from rag_bm25 import Hit

    words = [f"w{at}" for at in range(5000)]
    text = " ".join(words)
    (score,) = Proximity(Index(), weight=1)(text, [Hit("a", 0.0, text)])
    last = {word: at for at, word in enumerate(words)}
    assert score == pytest.approx(nearness(PhraseText.of(str.split, text), dict(list(last.items())[-32:])))


def test_the_explanation_is_the_score(index: BM25Index) -> None:
    proximity = Proximity(index)
    for hit in index.search("notice period", rerank=proximity):
        explained = index.explain("notice period", hit.id, rerank=proximity)
        assert explained.value == hit.score
        assert "by Proximity, in place of the score of the search" in str(explained)
