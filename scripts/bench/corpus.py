"""Chunks from JSON lines, or generated ones whose vocabulary grows like that of real text.

Words and phrases are drawn by the double power law of Gerlach and Altmann (2013, Stochastic model for the vocabulary
growth in natural languages, Phys. Rev. X 3, 021006): a core whose frequencies fall as 1 / r, and a tail that falls as
r ** -gamma, from which Heaps' law follows with the exponent 1 / gamma. A chunk is made of phrases, as texts are, and
comes back to what it has said before; else its words would stand beside each other as they never do, and it would
have nearly twice as many different terms as a real one. Of 10,000 chunks of 500 characters, generated ones have 672
terms each, 380 of them different, and 230,000 in all, at ten times as many as 1,000 have 3.4 times as many. Chinese
law and Wikipedia have 677, 384, 250,000 and 3.3.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from rag_bm25.analysis.dictionary import read_dictionary

SIZE = 500
QUERY = 12
PHRASES = 120  # of a chunk, at least four characters each
AGAIN = 0.25  # share of phrases that the chunk has had before
NEVER = 1e-15


class DoublePowerLaw:
    """Ranks with probability ~ 1 / r up to `core` and ~ r ** -gamma beyond, without an upper bound."""

    def __init__(self, core: int = 7873, gamma: float = 1.77) -> None:
        self.core, self.gamma = core, gamma
        self._power = -1 / (gamma - 1)
        head = np.cumsum(1 / np.arange(1, core + 1))
        self._cumulated = head / (head[-1] + 1 / (gamma - 1))
        self._head = self._cumulated.tolist()

    def ranks(self, rng: np.random.Generator, number: int) -> NDArray[np.int64]:
        """Draw ranks, from 0."""
        uniform = rng.random(number)
        ranks = np.searchsorted(self._cumulated, uniform, "right")
        tail = ranks == self.core
        left = (1 - uniform[tail]) / (1 - self._cumulated[-1])
        ranks[tail] = (self.core * np.maximum(left, NEVER) ** self._power).astype(np.int64)
        return ranks

    def rank(self, random: Random) -> int:
        """Draw one rank."""
        uniform = random.random()
        if uniform < self._head[-1]:
            return bisect(self._head, uniform)
        left = (1 - uniform) / (1 - self._head[-1])
        return int(self.core * max(left, NEVER) ** self._power)


class Generator:
    """Random Chinese text from the words of jieba's dictionary; a phrase is the same wherever it is drawn."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._word_law = DoublePowerLaw()
        self._phrase_law = DoublePowerLaw(core=50_000, gamma=1.5)
        self._phrases: dict[int, str] = {}

    def chunks(self, number: int, part: int = 0) -> Iterator[str]:
        """Yield chunks; each part has its own."""
        rng = np.random.default_rng((self._seed, part))
        for _ in range(number):
            ranks = self._phrase_law.ranks(rng, PHRASES)
            at = np.arange(PHRASES)
            again = (rng.random(PHRASES) < AGAIN) & (at > 0)
            earlier = (rng.random(PHRASES) * at).astype(np.int64)
            ranks[again] = ranks[earlier[again]]
            yield "".join(map(self._phrase, ranks.tolist()))[:SIZE]

    def _phrase(self, rank: int) -> str:
        if rank not in self._phrases:
            random = Random(f"{self._seed} {rank}")
            words = [self._word_law.rank(random) for _ in range(random.randrange(2, 8))]
            self._phrases[rank] = "".join(map(self._word, words)) + "，"
        return self._phrases[rank]

    def _word(self, rank: int) -> str:
        """Return a word of the dictionary; beyond its end, a name in Latin letters."""
        words = chinese_words()
        return words[rank] if rank < len(words) else f" x{np.base_repr(rank, 36).lower()} "


@cache
def chinese_words() -> list[str]:
    """Return the words of jieba's dictionary that are Chinese, the most frequent first."""
    frequencies, _ = read_dictionary()
    words = filter(re.compile("[\u4e00-\u9fff]+").fullmatch, frequencies)
    return sorted(words, key=lambda word: -frequencies[word])


def real_chunks(files: Sequence[Path]) -> Iterator[str]:
    """Cut the texts of JSON lines into chunks of 500 characters."""
    rest = ""
    for text in chain.from_iterable(map(_texts, files)):
        rest += text
        whole = len(rest) // SIZE * SIZE
        yield from (rest[start : start + SIZE] for start in range(0, whole, SIZE))
        rest = rest[whole:]


def _texts(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["text"]


def queries_from(texts: Sequence[str], number: int, seed: int) -> list[str]:
    """Draw passages of 12 characters, distinct if there are enough."""
    rng = np.random.default_rng((seed, QUERY))
    picked = zip(rng.integers(0, len(texts), 4 * number), rng.integers(0, SIZE - QUERY, 4 * number), strict=True)
    passages = dict.fromkeys(texts[at][start : start + QUERY] for at, start in picked)
    return list(islice(passages, number))
