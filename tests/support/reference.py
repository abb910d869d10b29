"""BM25 as printed: loops, no numpy, and nothing of the package. The tests' independent opinion."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

TINY = 1e-6  # what a weight of zero or less becomes, where the formula has no floor of its own

BIGRAM = "\0"  # what begins the terms that are no words


@dataclass
class Corpus:
    """A count of chunks, from their tokens alone."""

    chunks: dict[str, list[str]]
    fields: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # id -> name -> tokens

    @property
    def n(self) -> int:
        return len(self.chunks)

    def terms(self, id_: str) -> set[str]:
        found = set(self.chunks[id_])
        for tokens in self.fields.get(id_, {}).values():
            found |= set(tokens)
        return found

    def df(self, term: str) -> int:
        return self.dfs().get(term, 0)

    def dfs(self) -> dict[str, int]:
        counted: dict[str, int] = {}
        for id_ in self.chunks:
            for term in self.terms(id_):
                counted[term] = counted.get(term, 0) + 1
        return counted

    def average_idfs(self) -> tuple[float, float, float]:
        """The mean over words, that over bigrams, and that over single characters."""
        words, bigrams, characters = [], [], []
        for term, df in self.dfs().items():
            (words, bigrams, characters)[channel(term)].append(df)
        return average_idf(words, self.n), average_idf(bigrams, self.n), average_idf(characters, self.n)


@dataclass
class Field:
    """Weight and length normalisation of a field beside the text."""

    chunk_size: float
    weight: float
    b: float


@dataclass
class BM25:
    """The parameters, in the names of the papers."""

    chunk_size: float
    k1: float = 1.5
    b: float = 0.75
    idf: str = "epsilon"
    epsilon: float = 0.25
    k3: float | None = None
    form: str = "bm25"
    delta: float | None = None
    fields: dict[str, Field] = field(default_factory=dict)
    bigram_weight: float = 1.0
    character_weight: float = 1.0
    word_bigram_weight: float = 1.0
    latin_weight: float = 2.0
    question_word_weight: float = 0.3

    def scores(
        self,
        query: list[str],
        corpus: Corpus,
        lengths: dict[str, int] | None = None,
        question_words: Sequence[str] = (),  # which count where a word of the query is known
    ) -> dict[str, float]:
        """Score of each chunk that shares a term with the query; lengths are tokens unless given."""
        counts = bool(self.question_word_weight) and any(map(corpus.df, query))
        asked = [word for word in question_words if counts and word not in query]
        dfs = corpus.dfs()
        averages = corpus.average_idfs()
        scores: dict[str, float] = {}
        for id_, tokens in corpus.chunks.items():
            length = lengths[id_] if lengths else len(tokens)
            terms = corpus.terms(id_)
            for term in {*query, *asked}:
                if term in terms:
                    average = averages[channel(term)]
                    weight = idf(self.idf, dfs[term], corpus.n, self.epsilon, average)
                    weight *= saturated((query + asked).count(term), self.k3)
                    weight *= self.question_word_weight if term in asked else 1
                    weight *= self.channel_weight(term)
                    if self.bigram_weight and any(map(is_character_bigram, query)) and is_latin(term):
                        weight *= self.latin_weight
                    weight *= self.weight(term, tokens, length, corpus.fields.get(id_, {}))
                    scores[id_] = scores.get(id_, 0.0) + weight
        return scores

    def channel_weight(self, term: str) -> float:
        if not term.startswith(BIGRAM):
            return 1.0
        if channel(term) == 2:
            return self.character_weight
        return self.word_bigram_weight if " " in term else self.bigram_weight

    def weight(self, term: str, tokens: list[str], length: float, fields: dict[str, list[str]]) -> float:
        """Weight of a term in a chunk; the lengths of fields are tokens."""
        if not self.fields:
            norm = length_norm(length, self.chunk_size, share(self.form, self.b))
            return chunk_weight(self.form, tokens.count(term), norm, self.k1, self.delta)
        frequency = ratio(tokens.count(term), length_norm(length, self.chunk_size, share(self.form, self.b)))
        for name, of in self.fields.items():
            found = fields.get(name, [])
            norm = length_norm(len(found), of.chunk_size, share(self.form, of.b))
            frequency += of.weight * ratio(found.count(term), norm)
        return chunk_weight(self.form, frequency, 1.0, self.k1, self.delta)


def share(form: str, b: float) -> float:
    if form in ("tf", "sqrt", "log", "saturation", "saturation-smoothed"):
        return 0.0
    return 1.0 if form in ("tf-normalised", "sqrt-normalised") else b


def length_norm(length: float, chunk_size: float, b: float) -> float:
    return 1 - b + b * length / chunk_size


def ratio(tf: float, norm: float) -> float:
    return tf / max(norm, 1e-9)  # it is 0 for a chunk of length 0 if b is 1


def chunk_weight(form: str, tf: float, norm: float, k1: float, delta: float | None) -> float:
    if form == "bm25":
        return tf / (tf + k1 * norm)
    if form == "elasticsearch":
        return tf * (k1 + 1) / (tf + k1 * norm)
    if form == "bm25l":
        delta = 0.5 if delta is None else delta
        return (k1 + 1) * (ratio(tf, norm) + delta) / (k1 + ratio(tf, norm) + delta)
    if form == "bm25+":
        return tf * (k1 + 1) / (tf + k1 * norm) + (1.0 if delta is None else delta)
    if form == "tfldp":
        return 1 + math.log(1 + math.log(ratio(tf, norm) + (1.0 if delta is None else delta)))
    return plain_weight(form, tf, norm, k1)


def plain_weight(form: str, tf: float, norm: float, k1: float) -> float:
    if form == "log":
        return 1 + math.log(tf) if tf > 1 else tf
    if form == "saturation":
        return k1 * tf / (tf + k1)
    if form == "saturation-smoothed":
        return (k1 * tf + 1) / (tf + k1)
    assert form in ("tf", "sqrt", "tf-normalised", "sqrt-normalised")
    return ratio(math.sqrt(tf) if form.startswith("sqrt") else tf, norm)


def saturated(qtf: int, k3: float | None) -> float:
    return qtf if k3 is None else qtf * (k3 + 1) / (qtf + k3)


def robertson(df: int, n: int) -> float:
    return math.log((n - df + 0.5) / (df + 0.5))


def average_idf(dfs: list[int], n: int) -> float:
    mean = sum(robertson(df, n) for df in dfs) / len(dfs) if dfs else 0.0
    return mean if abs(mean) > 1e-12 else 0.0  # terms that cancel leave a rest of either sign


def idf(name: str, df: int, n: int, epsilon: float, average: float) -> float:
    lucene = math.log(1 + (n - df + 0.5) / (df + 0.5))
    if name == "lucene":
        return lucene
    if name == "plus":
        return math.log((n + 1) / df)
    if name == "tfidf":
        return math.log((n + 1) / (df + 1)) if df < n else TINY
    if name == "plain":
        return math.log(n / df) if df < n else TINY
    if robertson(df, n) > 0:
        return robertson(df, n)
    if name == "zero":
        return TINY
    assert name == "epsilon"
    return epsilon * average if average > 0 else epsilon * lucene


def channel(term: str) -> int:
    if not term.startswith(BIGRAM):
        return 0
    return 1 if len(term) > 2 else 2


def is_character_bigram(term: str) -> bool:
    return channel(term) == 1 and " " not in term


def is_latin(term: str) -> bool:
    return channel(term) != 2 and not is_character_bigram(term) and not "\u3400" <= term.lstrip(BIGRAM)[0] <= "\u9fff"


def split(text: str) -> list[str]:
    """Analyze by white space alone: what the tests do where the analyzer does not matter."""
    return text.split()


class WithQuestions:
    """Analyze by white space, where words of an even length are question words."""

    def __call__(self, text: str) -> list[str]:
        return text.split()

    def query(self, text: str) -> list[str]:
        return [word if len(word) % 2 else BIGRAM * 2 + word for word in text.split()]


def in_all_channels(text: str) -> list[str]:
    """Analyze by white space, by pairs of neighbouring characters, and by characters, but for the vowels."""
    words = text.split()
    pairs = [BIGRAM + word[at : at + 2] for word in words for at in range(len(word) - 1)]
    return words + pairs + [BIGRAM + character for word in words for character in word if character not in "aeiou"]


@dataclass
class Count:
    """What a recount of stored rows gives."""

    chunks: int = 0
    length: int = 0
    df: dict[int, int] = field(default_factory=dict)


def recount(rows: Iterable[Any]) -> dict[str, Count]:
    """Count rows with ``namespace``, ``length`` and ``vector`` by namespace; dimension 0 is not a term."""
    counts: dict[str, Count] = {}
    for row in rows:
        count = counts.setdefault(row.namespace, Count())
        count.chunks += 1
        count.length += row.length
        for id_ in row.vector.to_dict():
            if id_:
                count.df[id_] = count.df.get(id_, 0) + 1
    return counts


def relevance_weight(df: int, n: int, r: int, num_relevant: int) -> float:
    """The weight of the binary independence model, from its estimates of p and s."""
    p = (r + 0.5) / (num_relevant + 1)
    s = (df - r + 0.5) / (n - num_relevant + 1)
    return math.log(p * (1 - s) / (s * (1 - p)))
