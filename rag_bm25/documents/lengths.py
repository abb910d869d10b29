"""The length of a chunk, in the unit of its index."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from rag_bm25.scripts import CJK
from rag_bm25.vectors.terms import BIGRAM_MARK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rag_bm25.vectors.sparse import SparseBatch

_Number = TypeVar("_Number", float, "NDArray[Any]")

LengthUnit = Literal["estimated_characters", "characters", "terms"]

WORD_LENGTH = 8.0
"""Estimated characters of a word of letters, with the blanks and stop words around it: 8.1 to 10.1 in five sets."""

SHORT_LENGTH = 1.65
"""Estimated characters of a Chinese word, a number, or two kana or hangul: 1.63 to 1.85 in four Chinese sets."""

_BIGRAM, _WORD, _OTHER = range(3)  # bigrams repeat the same text, and have no length
_LAST_CJK = 0x3FFFF


def unit_name(unit: str) -> str:
    """Return the name of a unit as people read it."""
    return unit.replace("_", " ")


def chunk_length(text: str, tokens: Sequence[str], unit: LengthUnit) -> int:
    """Return the length of a chunk, given its tokens.

    Estimated characters are those that its words have on average: blanks, markup and stop words do not count, a chunk
    of long words is no longer than one of short ones, and chunk sizes are still those that a text splitter was given.
    """
    if unit == "characters":
        return len(text)
    words, others = np.bincount(_kinds_of(tokens), minlength=3)[1:].tolist()
    return words + others if unit == "terms" else int(_estimate(words, others))


def batch_lengths(tf: SparseBatch, terms: Sequence[str], unit: LengthUnit) -> NDArray[np.int64]:
    """Return the length of each chunk in a unit that depends on its tokens, given the tf of the terms by place."""
    kinds = _kinds_of(terms)[tf.ids]
    rows = tf.per_entry(np.arange(len(tf)))
    words, others = np.bincount(3 * rows + kinds, tf.values, 3 * len(tf)).reshape(-1, 3).T[1:]
    lengths: NDArray[np.float64] = words + others if unit == "terms" else _estimate(words, others)
    return lengths.astype(np.int64)


def _kinds_of(terms: Sequence[str]) -> NDArray[np.uint8]:
    """Return the kind of each term, by its first character; a custom analyzer may return one without any."""
    kinds = _kinds().take(np.array(terms, "U1").view(np.uint32), mode="clip")
    if "" in terms:
        kinds[[not term for term in terms]] = _WORD
    return kinds


@cache
def _kinds() -> NDArray[np.uint8]:
    """Return the kind of the terms that begin with each character; that of the last one is that of all above it."""
    kinds = np.full(_LAST_CJK + 2, _WORD, np.uint8)
    for match in re.finditer(rf"(?:{CJK}|\d)+", "".join(map(chr, range(len(kinds))))):
        kinds[match.start() : match.end()] = _OTHER
    kinds[ord(BIGRAM_MARK)] = _BIGRAM
    return kinds


def _estimate(words: _Number, others: _Number) -> _Number:
    """Return the estimated characters, of which the whole part is the length."""
    return WORD_LENGTH * words + SHORT_LENGTH * others + 0.5
