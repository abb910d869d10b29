"""Recount the raw rows of an index, with only the analyzer of the package."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from support.reference import chunk_weight, idf, length_norm

from rag_bm25 import Analyzer
from soak.model import Model, number_of
from soak.places import CONFIG
from soak.texts import Texts
from soak.told import Told
from soak.visits import HITS, SHOWN, Question, Seen, Visitor

NO_TERMS = 0  # dimension of chunks without terms
CLOSE = 1e-5
ARTICLE, ARTICLE_WEIGHT = re.compile(r"第\d+条(之\d+)?"), 6.0


def recount(visitor: Visitor, model: Model, questions: list[Question]) -> Seen:
    """Compare rows with the model, statistics with a recount, and hits with BM25 by loops."""
    seen = Seen()
    with seen.timed("recount"):
        told = Told.read(visitor.file)
        counted = _Recount(visitor.texts, model, _wanted(told, questions), seen)
        counted.run(visitor.place.rows(told.generation))
        counted.compare(told)
        for question in questions:
            _Answer(question, told, counted, visitor.texts, seen).check()
    seen.figures |= visitor.place.sizes(told.generation)
    return seen


def _wanted(told: Told, questions: list[Question]) -> set[int]:
    terms = {term for question in questions for term in (*question.terms, *question.question_words)}
    return {told.ids.get(term) or NO_TERMS for term in terms} - {NO_TERMS}


class _Recount:
    """Counts of all rows."""

    def __init__(self, texts: Texts, model: Model, wanted: set[int], seen: Seen) -> None:
        self._texts = texts
        self._model = model
        self._wanted = wanted
        self._faults = seen.faults
        self._met = np.zeros(len(model.versions), bool)
        self.chunks: Counter[str] = Counter()
        self.lengths: Counter[str] = Counter()
        self.df: dict[str, Counter[int]] = {}
        self.postings: dict[tuple[str, int], dict[int, float]] = {}  # namespace and term id -> chunk number -> weight

    def run(self, rows: Iterable[dict[str, Any]]) -> None:
        for row in rows:
            self._take(row)
        for number in np.flatnonzero((self._model.versions > 0) & ~self._met)[:SHOWN]:
            self._faults.append(f"row of chunk {number} is not there")

    def _take(self, row: dict[str, Any]) -> None:
        namespace, number, terms = row["namespace"], number_of(row["id"]), row["sparse"].keys() - {NO_TERMS}
        self._check(row, number)
        self.chunks[namespace] += 1
        self.lengths[namespace] += row["length"]
        self.df.setdefault(namespace, Counter()).update(terms)
        for id_ in self._wanted.intersection(terms):
            self.postings.setdefault((namespace, id_), {})[number] = row["sparse"][id_]

    def _check(self, row: dict[str, Any], number: int) -> None:
        known = 0 <= number < len(self._met)
        version = int(self._model.versions[number]) if known else 0
        if version <= 0 or self._met[number]:
            self._faults.append(f"row of {row['id']!r}, which is stored twice or was deleted (version {version})")
        elif row["text"] != self._texts.text(number, version) or row["length"] != len(row["text"]):
            self._faults.append(f"row of {row['id']!r} has not the text of version {version}: {row['text'][:80]!r}")
        if known:
            self._met[number] = True

    def version(self, number: int) -> int:
        return int(self._model.versions[number])

    def compare(self, told: Told) -> None:
        """Compare the counts with what the index has told."""
        for namespace in {*self.chunks, *told.sums}:
            sums, counted = told.sums.get(namespace, (0, 0)), (self.chunks[namespace], self.lengths[namespace])
            if sums != counted:
                self._faults.append(f"N and length of {namespace!r}: {sums}, counted {counted}")
            stored, df = told.df.get(namespace, {}), self.df.get(namespace, Counter())
            wrong = [id_ for id_ in stored.keys() | df.keys() if stored.get(id_, 0) != df[id_]]
            if wrong:
                first = [(id_, stored.get(id_, 0), df[id_]) for id_ in wrong[:SHOWN]]
                self._faults.append(f"df in {namespace!r}: {len(wrong):,} differ; id, told and counted: {first}")
        nameless = set[int]().union(*self.df.values()).difference(told.ids.values())
        if nameless:
            self._faults.append(f"{len(nameless):,} ids in vectors have no term, such as {sorted(nameless)[:SHOWN]}")


def _kind_weight(term: str, beside_chinese: bool) -> float:
    if term.startswith("\0") and len(term) == 2:
        return CONFIG.character_weight
    if term.startswith("\0") and " " not in term:
        return CONFIG.bigram_weight
    if ARTICLE.fullmatch(term):
        return ARTICLE_WEIGHT
    weight = CONFIG.word_bigram_weight if term.startswith("\0") else 1.0
    is_latin = not "\u3400" <= term.lstrip("\0")[0] <= "\u9fff"
    return weight * CONFIG.latin_weight if is_latin and beside_chinese else weight


class _Answer:
    """The hits of a search, compared with BM25 over all rows."""

    def __init__(self, question: Question, told: Told, counted: _Recount, texts: Texts, seen: Seen) -> None:
        self._question = question
        self._counted = counted
        self._texts = texts
        self._faults = seen.faults
        self._analyzer, self._k1 = Analyzer(), told.k1
        self._ids = {term: told.ids.get(term) or NO_TERMS for term in {**question.terms, **question.question_words}}

    def check(self) -> None:
        """Compare the top scores, and the stored weights of the hits."""
        scores = self._scores()
        best = sorted(scores.values(), reverse=True)[:HITS]
        hits = self._question.hits
        right = len(hits) == len(best) and all(
            _close(score, one) and _close(score, scores.get(number_of(id_), 0.0))
            for (id_, score), one in zip(hits, best, strict=True)
        )
        if not right:
            self._faults.append(f"search {self._question.query!r}: {hits}, expected scores {best}")
        for id_, _ in hits:
            self._check_weights(number_of(id_))

    def _scores(self) -> dict[int, float]:
        scores: dict[int, float] = {}
        for term, weight in self._weights().items():
            for number, stored in self._postings(term).items():
                scores[number] = scores.get(number, 0.0) + weight * stored
        return scores

    def _weights(self) -> dict[str, float]:
        terms = self._question.terms
        beside_chinese = any(term.startswith("\0") and " " not in term and len(term) > 2 for term in terms)
        weights: dict[str, float] = dict(terms)
        if any(map(self._postings, terms)):
            weights |= {word: n * CONFIG.question_word_weight for word, n in self._question.question_words.items()}
        return {term: n * self._idf(term) * _kind_weight(term, beside_chinese) for term, n in weights.items()}

    def _idf(self, term: str) -> float:
        num_chunks, df = self._counted.chunks[self._question.namespace], len(self._postings(term))
        return idf("lucene", df, num_chunks, 0.0, 0.0) if df else 0.0

    def _postings(self, term: str) -> dict[int, float]:
        return self._counted.postings.get((self._question.namespace, self._ids.get(term, NO_TERMS)), {})

    def _check_weights(self, number: int) -> None:
        """Compare the stored weights of a chunk with the formula."""
        text = self._texts.text(number, self._counted.version(number))
        tokens = self._analyzer(text)
        norm = length_norm(len(text), CONFIG.chunk_size, CONFIG.b)
        for term in self._ids.keys() & set(tokens):
            expected = chunk_weight("bm25", tokens.count(term), norm, self._k1, None)
            stored = self._postings(term).get(number, 0.0)
            if not _close(stored, expected):
                self._faults.append(f"weight of {term!r} in chunk {number}: {stored}, expected {expected}")


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= CLOSE * abs(other)
