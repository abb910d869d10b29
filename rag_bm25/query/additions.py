"""Terms that are added to a query, and the rules that keep them from drowning it.

An inner product adds up everything that a query asks for, hence three rules:

* The terms of one addition together weigh at most as much as the words that they stand for, times the weight of the
  addition: a rare synonym, whose IDF is high, does not come before the word of the query. Lucene does the same by
  giving all of them the df of the most frequent one (``SynonymQuery``, ``TopTermsBlendedFreqScoringRewrite``).
* A term counts for one reason: as part of the query, or else for the reason that gives it the largest weight.
* The terms of the query keep their weight, unless a rule replaces them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from rag_bm25.analysis.compounds import compounds_among, compounds_of
from rag_bm25.budget import check_budget
from rag_bm25.query.terms import PLAIN_SOURCE, QueryTerm, TermGroup, TermOrigin
from rag_bm25.vectors.terms import is_word, term_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rag_bm25.analysis.text import AnalysedText, TextAnalyzer
    from rag_bm25.weighting.query import QueryWeighting


@dataclass(frozen=True)
class Addition:
    """Terms that are added to a query together."""

    text: AnalysedText  # a chunk with all that is needed of it has the words that it stands for
    stands_for: frozenset[str]  # words of the query
    reason: str  # as `explain` shows it
    like: tuple[str, ...]  # words that all the added terms together may weigh no more than
    factors: tuple[tuple[str, float], ...]  # further factors of the weights, by name
    phrase: tuple[str, ...] = ()  # bigrams that are searched for in place of the words
    is_numeral: bool = False

    @property
    def terms(self) -> tuple[str, ...]:
        """What is searched for, each term once."""
        return self.phrase or tuple(dict.fromkeys(self.text.terms))

    @property
    def needed(self) -> tuple[str, ...]:
        """The terms that a chunk with the addition has."""
        return self.phrase or self.text.words


@dataclass(frozen=True)
class ExpandedQuery:
    """The terms of a query, and the additions to them."""

    own: Counter[str] = field(default_factory=Counter)
    boosts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # of its occurrences, if not 1
    questions: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # the boost of each occurrence
    texts: list[str] = field(default_factory=list)  # that its own terms are of
    additions: Counter[Addition] = field(default_factory=Counter)

    def own_terms(self) -> list[QueryTerm]:
        """Return the terms of the query itself."""
        return [
            QueryTerm(term, qtf, TermOrigin(factors=self.mean_boost(term)) if term in self.boosts else PLAIN_SOURCE)
            for term, qtf in self.own.items()
        ]

    def mean_boost(self, term: str) -> tuple[tuple[str, float], ...]:
        """Return the boost of a term of the query itself as a factor, unless it is 1."""
        boosts = self.boosts.get(term, [])
        return _mean_boost([*boosts, *[1.0] * (self.own[term] - len(boosts))])

    def question_terms(self, weight: float) -> list[QueryTerm]:
        """Return the terms of question words with their weight."""
        factor = ("question_word_weight, of question words", weight)
        return [
            QueryTerm(term, len(boosts), TermOrigin(factors=(*_mean_boost(boosts), factor), is_question=True))
            for term, boosts in self.questions.items()
        ]

    def added_terms(
        self, weighting: QueryWeighting, weight_of: Callable[[Iterable[str]], float]
    ) -> Iterable[QueryTerm]:
        """Return the added terms that the query does not have, each for the reason that gives the largest weight."""
        heaviest: dict[str, tuple[float, QueryTerm]] = {}
        for addition, qtf in self.additions.items():
            check_budget()
            factors = (*addition.factors, *_limit(addition, weight_of))
            source = TermOrigin(addition.reason, factors, bool(addition.phrase), addition.is_numeral)
            boost = source.boost * float(weighting.term_weights(qtf))
            for term in addition.terms:
                if term not in self.own and boost > heaviest.get(term, (0.0,))[0]:
                    heaviest[term] = boost, QueryTerm(term, qtf, source)
        return [term for _, term in heaviest.values()]

    def groups(self, ids: Mapping[str, int], analyzer: TextAnalyzer) -> Iterator[TermGroup]:
        """Yield the words of the query, and what stands for them; a compound is one word, in each of its ways."""
        compounds = chain.from_iterable(compounds_of(analyzer, text) for text in self.texts)
        words = Counter({term: qtf for term, qtf in self.own.items() if is_word(term)})
        alone, found = compounds_among(words, list(compounds))
        for term in alone:
            yield TermGroup(frozenset([ids[term]]), frozenset([term]))
        for compound in found:
            name = frozenset(compound.terms[:1])
            for way in compound.ways:
                if not way.dropped:  # what is dropped cannot be counted
                    yield TermGroup(frozenset(map(ids.__getitem__, way.terms)), name)
        parts = frozenset().union(*(compound.terms[1:] for compound in found)) - alone.keys()
        for addition in self.additions:
            yield TermGroup(frozenset(map(ids.__getitem__, addition.needed)), addition.stands_for - parts)


def _mean_boost(boosts: list[float]) -> tuple[tuple[str, float], ...]:
    if boosts.count(1.0) == len(boosts):
        return ()
    same = min(boosts) == max(boosts)
    name = "boost, in the query" if same else "boost, mean of its occurrences in the query"
    return ((name, math.fsum(boosts) / len(boosts)),)


def _limit(addition: Addition, weight_of: Callable[[Iterable[str]], float]) -> Iterator[tuple[str, float]]:
    """Yield the factor that keeps an addition from weighing more than the words it is like."""
    most, own = weight_of(addition.like), weight_of(addition.needed)
    if own > most:
        added, like = (" ".join(map(term_name, keys)) for keys in (addition.needed, addition.like))
        yield f"share, so that {added} weighs as {like}: {most:.6g} / {own:.6g}", most / own
