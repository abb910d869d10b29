"""BM25T and BM25-adpt as printed: loops over tokens, no numpy, and nothing of the package."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from support.reference import TINY, Corpus, Field, idf, length_norm, saturated

MOST_LEVELS = 32


def normalised(corpus: Corpus, id_: str, term: str, mean: float, b: float, fields: dict[str, Field]) -> float:
    """c of a term in a chunk, of its text and its fields."""
    tokens = corpus.chunks[id_]
    c = tokens.count(term) / length_norm(len(tokens), mean, b)
    for name, of in fields.items():
        found = corpus.fields.get(id_, {}).get(name, [])
        c += of.weight * found.count(term) / length_norm(len(found), of.chunk_size, of.b)
    return c


def g(k1: float) -> float:
    return 1.0 if k1 == 1 else k1 / (k1 - 1) * math.log(k1)


def bm25t(c: list[float]) -> float:
    """Halve until g is the mean of ln(c + 1): it rises."""
    mean = sum(math.log(one + 1) for one in c) / len(c)
    low, high = 1e-8, 1e8
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if g(middle) < mean else (low, middle)
    return low


def gains(c: list[float], n: int) -> list[float]:
    """G(1), G(2), ... as long as they do not fall and some chunk has the term so often."""
    df = [n, len(c)] + [sum(one >= r - 0.5 for one in c) for r in range(2, MOST_LEVELS + 1)]
    found: list[float] = []
    for r in range(1, MOST_LEVELS):
        gain = math.log2((df[r + 1] + 0.5) / (df[r] + 1)) - math.log2((df[1] + 0.5) / (n + 1))
        if found and (gain < found[-1] or not df[r]):
            break
        found.append(gain)
    return found


def error(k1: float, found: list[float]) -> float:
    return sum((gain / found[0] - (k1 + 1) * r / (k1 + r)) ** 2 for r, gain in enumerate(found, 1))


def adpt(found: list[float]) -> float | None:
    """Try many k1, and come nearer around the best; None if no gain above G(1) tells it."""
    if found[0] <= 0 or len(found) < 2:
        return None
    low, high = 0.0, 10.0
    while high - low > 1e-9:
        step = (high - low) / 200
        best = min((low + at * step for at in range(201)), key=lambda k1: error(k1, found))
        low, high = max(0.0, best - step), min(10.0, best + step)
    return (low + high) / 2


@dataclass
class Learned:
    """The k1 of each term by both methods, None where it is that of the index, and G(1)."""

    k1: dict[str, dict[str, float | None]] = field(default_factory=dict)
    gain: dict[str, float] = field(default_factory=dict)


def learn(corpus: Corpus, b: float = 0.75, fields: dict[str, Field] | None = None) -> Learned:
    mean, learned = mean_length(corpus), Learned({"bm25t": {}, "adpt": {}})
    for term, df in corpus.dfs().items():
        having = [id_ for id_ in corpus.chunks if term in corpus.terms(id_)]
        c = [normalised(corpus, id_, term, mean, b, fields or {}) for id_ in having]
        if df >= 2:
            learned.k1["bm25t"][term], learned.k1["adpt"][term] = bm25t(c), adpt(gains(c, corpus.n))
            learned.gain[term] = gains(c, corpus.n)[0]
    return learned


def mean_length(corpus: Corpus) -> float:
    return sum(map(len, corpus.chunks.values())) / corpus.n


@dataclass
class TermK1:
    """The parameters of a search, and what was learned before."""

    learned: Learned
    method: str
    idf: str = "epsilon"
    b: float = 0.75
    k1: float = 1.5  # of the index
    k3: float = 4.0
    fields: dict[str, Field] = field(default_factory=dict)

    def scores(self, query: list[str], corpus: Corpus) -> dict[str, float]:
        """Score of each chunk that shares a term with the query."""
        dfs, mean, scores = corpus.dfs(), mean_length(corpus), {}
        for term in set(query) & dfs.keys():
            weight = saturated(query.count(term), self.k3) * self.weight(term, dfs[term], corpus)
            own = self.learned.k1[self.method].get(term)
            k1 = self.k1 if own is None else own
            for id_ in corpus.chunks:
                if term in corpus.terms(id_):
                    c = normalised(corpus, id_, term, mean, self.b, self.fields)
                    scores[id_] = scores.get(id_, 0.0) + weight * (k1 + 1) * c / (k1 + c)
        return scores

    def weight(self, term: str, df: int, corpus: Corpus) -> float:
        if self.idf != "adpt":
            return idf(self.idf, df, corpus.n, 0.25, corpus.average_idfs()[0])
        gain = self.learned.gain.get(term, math.log2((corpus.n + 1) / (4 * (df + 0.5))))
        return gain if gain > 0 else TINY
