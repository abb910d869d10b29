"""Rerank hits by how near to each other they have the words of a query."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable

from rag_bm25.analysis.phrases import PhraseText
from rag_bm25.analysis.runs import is_segmented
from rag_bm25.budget import check_budget
from rag_bm25.definitions import FINITE, Between, check_fields
from rag_bm25.store.rows import MAX_K

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.documents.chunks import Hit

MOST_WORDS = 32  # of a query, those with the greatest IDF: pairs are as many as the square of them


@runtime_checkable
class WeighingIndex(Protocol):
    """An index, as far as it weighs words."""

    @property
    def analyzer(self) -> TextAnalyzer:
        """The analyzer of the chunks."""
        ...

    def term_statistics(self, terms: str, namespace: Any) -> Sequence[Any]:
        """Return the IDF of each word of a text."""
        ...


@dataclass(frozen=True)
class Proximity:
    r"""A reranker by the nearness of the words of a query in the text of a hit.

    To its score, :math:`weight \sum_{pairs} min(IDF_1, IDF_2) / (1 + distance)` is added, over the pairs of words
    in the text. The distance is the least one, in words or, in Chinese, in characters: 1 for neighbours.

    It is made for the scores of a lexical search. It costs the analysis of the texts of these hits, see docs/hits.md.

    Parameters
    ----------
    index : BM25Index
        The index that is searched: it has the analyzer, and the IDF of the words.
    weight : float
        Weight of nearness beside the score, >= 0.
    depth : int
        Number of hits, in 1..16384. Those after them stay as they are.

    Examples
    --------
    ::

        hits = index.search("notice period", rerank=Proximity(index))
    """

    index: WeighingIndex
    weight: Annotated[float, Between(0, FINITE.high)] = 0.1
    depth: Annotated[int, Between(1, MAX_K)] = 50

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, query: str, hits: Sequence[Hit]) -> list[float]:
        """Return the new score of each hit."""
        if not hits:
            return []
        found = self.index.term_statistics(query, sorted({hit.namespace for hit in hits}))
        heaviest = sorted(found, key=lambda term: -term.idf)[:MOST_WORDS]
        weights = {term.term: term.idf for term in heaviest if term.idf > 0}
        scores = [hit.score for hit in hits]
        for at, hit in enumerate(hits[: self.depth] if len(weights) > 1 else ()):
            check_budget()
            scores[at] += self.weight * nearness(PhraseText.of(self.index.analyzer, hit.text), weights)
        return scores


def nearness(text: PhraseText, weights: Mapping[str, float]) -> float:
    """Return the sum, over the pairs of words in a text, of the smaller weight by 1 and the least distance."""
    places = _places(text, weights)
    return sum(
        min(weights[one], weights[other]) / (1 + _least_distance(places[one], places[other]))
        for one, other in combinations(places, 2)
    )


def _places(text: PhraseText, words: Mapping[str, float]) -> dict[str, list[tuple[int, int]]]:
    """Return the first and last position of each place of the words that a text has, in text order."""
    parts = {word: tuple(word) if is_segmented(word) else (word,) for word in words}
    starts: dict[str, list[int]] = {own[0]: [] for own in parts.values()}
    for number, word in enumerate(text.words):
        if word in starts:
            starts[word].append(number)
    found = {
        word: [
            (text.positions[at], text.positions[at + len(own) - 1])
            for at in starts[own[0]]
            if text.words[at : at + len(own)] == own
        ]
        for word, own in parts.items()
    }
    return {word: places for word, places in found.items() if places}


def _least_distance(places: list[tuple[int, int]], others: list[tuple[int, int]]) -> int:
    """Return the least distance of two words, at least 1."""
    few, many = sorted((places, others), key=len)
    least = abs(few[0][0] - many[0][0]) + 1
    for start, end in few:
        at = bisect_left(many, (start, end))
        for first, last in many[max(at - 1, 0) : at + 1]:
            least = min(least, max(first - end, start - last, 1))
    return least
