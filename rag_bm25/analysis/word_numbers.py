"""The words of a batch of chunks as numbers, and their bigrams as pairs of numbers.

Most runs of a batch come again and again. A run is looked up each time, and what it gives is put together by arrays,
for all of the batch at once.
"""

from __future__ import annotations

from array import array
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rag_bm25.vectors.terms import BIGRAM_MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from rag_bm25.analysis.word_bigrams import Run, WordBigrams

_TERM_BITS = np.uint64(32)


class PerChunk(NamedTuple):
    """Items of chunks, one chunk after the other."""

    items: NDArray[np.uint64]
    sizes: NDArray[np.int64]  # number of items of each chunk


class WordNumbers:
    """The runs of a batch, chunk by chunk; a token that is known without its run is a run of its own."""

    def __init__(self, memo: WordBigrams) -> None:
        self._made: list[Run] = []
        self._of_run = _RunNumbers(self._made, memo.__getitem__)
        self._of_word = _RunNumbers(self._made, lambda word: ((word,), "", "", ()))
        self._of_bigram = _RunNumbers(self._made, lambda bigram: ((), "", "", (bigram,)))
        self._runs, self._ends = array("i"), array("q")  # of all chunks, and where those of each chunk end
        self._terms, self._paired = _Numbers(), _Numbers({"": 0})  # "" cannot be paired

    def add_runs(self, runs: Iterable[str], words: Iterable[str] = ()) -> None:
        """Add a chunk by its runs and signs, and words beside these."""
        self._runs.extend(map(self._of_run.__getitem__, runs))
        self._runs.extend(map(self._of_word.__getitem__, words))
        self._ends.append(len(self._runs))

    def add_tokens(self, words: Iterable[str], bigrams: Iterable[str]) -> None:
        """Add a chunk by its words and their bigrams."""
        self._runs.extend(map(self._of_word.__getitem__, words))
        self._runs.extend(map(self._of_bigram.__getitem__, bigrams))
        self._ends.append(len(self._runs))

    def words(self) -> tuple[PerChunk, list[str]]:
        """Return the number of each word, and the words by number: in the order of their first occurrence."""
        words, sizes = self._items([run[0] for run in self._made], self._terms.__getitem__)
        return self._per_chunk(words, sizes), list(self._terms)

    def pairs(self) -> PerChunk:
        """Return each bigram of words in one integer."""
        runs, paired = np.array(self._runs, np.int32), self._paired
        firsts = np.fromiter((paired[run[1]] for run in self._made), np.uint64, len(self._made))[runs]
        lasts = np.fromiter((paired[run[2][1:-1]] for run in self._made), np.uint64, len(self._made))[runs]
        before = np.concatenate((np.zeros(1, np.uint64), lasts))[:-1]
        ends = np.array(self._ends, np.int64)
        before[ends[ends < len(runs)]] = 0  # chunks do not touch
        are_pairs = (before != 0) & (firsts != 0)
        within, num_within = self._items([run[3] for run in self._made], self._pair)
        sizes = are_pairs + num_within
        is_across = np.zeros(int(sizes.sum()), np.bool_)
        is_across[(np.cumsum(sizes) - sizes)[are_pairs]] = True  # before those within the run
        pairs = np.empty(len(is_across), np.uint64)
        pairs[is_across], pairs[~is_across] = before[are_pairs] << _TERM_BITS | firsts[are_pairs], within
        return self._per_chunk(pairs, sizes)

    def pair_terms(self, pairs: NDArray[np.uint64]) -> list[str]:
        """Return the terms of bigrams."""
        paired = list(self._paired)
        numbers = zip((pairs >> _TERM_BITS).tolist(), pairs.astype(np.uint32).tolist(), strict=True)
        return [f"{BIGRAM_MARK}{paired[one]} {paired[other]}" for one, other in numbers]

    def _items(
        self, lists: Sequence[tuple[str, ...]], number: Callable[[str], int]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the numbers of the items that each run of all chunks has in its list, and how many these are."""
        of_lists = np.fromiter(map(len, lists), np.int64, len(lists))
        items = np.fromiter(map(number, chain.from_iterable(lists)), np.uint64, int(of_lists.sum()))
        runs = np.array(self._runs, np.int32)
        sizes = of_lists[runs]
        shifts = (np.cumsum(of_lists) - of_lists)[runs] - (np.cumsum(sizes) - sizes)
        return items[np.repeat(shifts, sizes) + np.arange(int(sizes.sum()))], sizes

    def _per_chunk(self, items: NDArray[np.uint64], sizes: NDArray[np.int64]) -> PerChunk:
        until = np.concatenate(([0], np.cumsum(sizes)))
        return PerChunk(items, np.diff(until[np.array(self._ends, np.int64)], prepend=0))

    def _pair(self, bigram: str) -> int:
        one, _, other = bigram.removeprefix(BIGRAM_MARK).partition(" ")
        return self._paired[one] << 32 | self._paired[other]


class _Numbers(dict[str, int]):
    """Numbers of strings, in the order of their first occurrence."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


class _RunNumbers(dict[str, int]):
    """Numbers of runs, which are made when they are first met."""

    def __init__(self, made: list[Run], make: Callable[[str], Run]) -> None:
        super().__init__()
        self._made, self._make = made, make

    def __missing__(self, run: str) -> int:
        self[run] = number = len(self._made)
        self._made.append(self._make(run))
        return number
