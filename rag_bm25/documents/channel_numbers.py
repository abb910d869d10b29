"""Number the tokens of many chunks channel by channel: ideographs as integers, without a string for each.

The terms, their numbers and their order are those of :func:`~rag_bm25.documents.token_numbers.number_tokens` for the
tokens that the analyzer returns. What takes its time there is to make a string for each bigram and each character, to
join these, and to compare them.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rag_bm25.analysis.channels import bigram_places, character_places, marked
from rag_bm25.analysis.runs import IDEOGRAPH_BITS, kinds_of
from rag_bm25.documents.token_numbers import NumberedTokens, first_equal, number_first
from rag_bm25.vectors.sparse import group_starts, sort_spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rag_bm25.analysis.config import AnalyzerConfig
    from rag_bm25.analysis.word_numbers import WordNumbers

_WORDS, _BIGRAMS, _CHARACTERS, _WORD_BIGRAMS = range(4)  # in the order of a chunk's tokens
_CHUNK_BITS, _KIND_BITS = np.uint64(34), np.uint64(32)  # a place in the channel is below these


class _Channel(NamedTuple):
    """The tokens of a channel."""

    terms: list[str]  # distinct, in the order of their first occurrence
    first: NDArray[np.uint64]  # sort keys of these occurrences among those of all channels
    numbers: NDArray[np.uint32]  # of all tokens, chunk after chunk: places in `terms`
    per_chunk: NDArray[np.int64]  # number of tokens of each chunk


def number_channels(words: WordNumbers, forms: Sequence[str], config: AnalyzerConfig) -> NumberedTokens:
    """Assign numbers to the tokens of chunks, in the order of their first occurrence."""
    channels = [_of_words(words)]
    has_ideographs = not all(map(str.isascii, forms))
    text = _Text(forms if has_ideographs else [""] * len(forms))
    if config.bigrams and has_ideographs:
        channels.append(text.bigrams(distinct=config.distinct_bigrams))
    if config.characters and has_ideographs:
        channels.append(text.characters())
    if config.word_bigrams:
        channels.append(_of_word_bigrams(words))
    return _joined(channels)


def _joined(channels: Sequence[_Channel]) -> NumberedTokens:
    """Put the tokens of all channels together, chunk by chunk."""
    order = np.argsort(np.concatenate([channel.first for channel in channels]), kind="stable")  # merges sorted runs
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    terms = list(chain.from_iterable(channel.terms for channel in channels))
    per_chunk = np.sum([channel.per_chunk for channel in channels], axis=0)
    numbers = np.empty(int(per_chunk.sum()), np.uint32)
    starts, num_terms = np.cumsum(per_chunk) - per_chunk, 0
    for channel in channels:
        before = np.cumsum(channel.per_chunk) - channel.per_chunk  # tokens of the channel in earlier chunks
        places = np.repeat(starts - before, channel.per_chunk) + np.arange(len(channel.numbers))
        numbers[places] = rank[num_terms + channel.numbers]
        starts, num_terms = starts + channel.per_chunk, num_terms + len(channel.terms)
    return NumberedTokens(list(map(terms.__getitem__, order.tolist())), numbers, per_chunk)


def _of_words(words: WordNumbers) -> _Channel:
    (numbers, per_chunk), terms = words.words()
    new = np.flatnonzero(np.diff(np.maximum.accumulate(numbers.astype(np.int64)), prepend=-1))
    first = _sort_keys(np.searchsorted(np.cumsum(per_chunk), new, side="right"), _WORDS, new)
    return _Channel(terms, first, numbers.astype(np.uint32), per_chunk)


def _of_word_bigrams(words: WordNumbers) -> _Channel:
    pairs, per_chunk = words.pairs()
    new, numbers = number_first(first_equal(pairs))
    first = _sort_keys(np.searchsorted(np.cumsum(per_chunk), new, side="right"), _WORD_BIGRAMS, new)
    return _Channel(words.pair_terms(pairs[new]), first, numbers, per_chunk)


def _sort_keys(chunks: NDArray[np.intp], kind: int, places: NDArray[np.intp]) -> NDArray[np.uint64]:
    keys: NDArray[np.uint64] = chunks.astype(np.uint64) << _CHUNK_BITS | places.astype(np.uint64)
    return keys | np.uint64(kind) << _KIND_BITS


class _Text:
    """The characters of all chunks."""

    def __init__(self, forms: Sequence[str]) -> None:
        text = "\n".join(["", *forms, ""])  # the end of a line ends a sentence
        self._points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))
        self._ends = np.cumsum([len(form) + 1 for form in forms])  # of the chunks
        self._kinds = kinds_of(self._points)

    def bigrams(self, *, distinct: bool) -> _Channel:
        points, places = self._points, bigram_places(self._kinds)
        per_chunk = self._per_chunk(places)
        pairs = points[places].astype(np.uint64) << np.uint64(IDEOGRAPH_BITS) | points[places + 1]
        new, numbers = number_first(first_equal(pairs))
        if distinct:
            numbers, per_chunk = _once(numbers, self._kinds.are_ends.cumsum()[places], per_chunk)
        at = places[new]
        return _Channel(marked(points[at], points[at + 1]), self._sort_keys(_BIGRAMS, at), numbers, per_chunk)

    def characters(self) -> _Channel:
        places = character_places(self._points)
        points = self._points[places]
        new, numbers = number_first(_first_equal_below(points, 1 << IDEOGRAPH_BITS))
        first = self._sort_keys(_CHARACTERS, places[new])
        return _Channel(marked(points[new]), first, numbers, self._per_chunk(places))

    def _per_chunk(self, places: NDArray[np.intp]) -> NDArray[np.int64]:
        return np.diff(np.searchsorted(places, self._ends), prepend=0)

    def _sort_keys(self, kind: int, places: NDArray[np.intp]) -> NDArray[np.uint64]:
        return _sort_keys(np.searchsorted(self._ends, places), kind, places)


def _first_equal_below(codes: NDArray[np.uint32], limit: int) -> NDArray[np.int32]:
    """Return the position of the first occurrence of each code below a limit."""
    table = np.empty(limit, np.int32)  # of which only the pages that are used take memory
    table[codes[::-1]] = np.arange(len(codes), dtype=np.int32)[::-1]
    return table[codes]


def _once(
    numbers: NDArray[np.uint32], sentences: NDArray[np.intp], per_chunk: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Leave out each token that its sentence has already; the others of a chunk come in another order."""
    entries = numbers.astype(np.uint64) << np.uint64(32) | sentences.astype(np.uint64)
    sort_spans(entries, per_chunk)
    kept = group_starts(entries)
    per_chunk = np.diff(np.searchsorted(kept, np.cumsum(per_chunk)), prepend=0)
    return (entries[kept] >> np.uint64(32)).astype(np.uint32), per_chunk
