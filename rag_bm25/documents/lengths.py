"""The length of a chunk, in the unit of its index."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, get_args

from rag_bm25.vectors.terms import is_bigram, num_words

if TYPE_CHECKING:
    from collections.abc import Sequence

LengthUnit = Literal["estimated_characters", "characters", "terms"]
LENGTH_UNITS: tuple[str, ...] = get_args(LengthUnit)

WORD_LENGTH = 8.0
"""Estimated characters of a word of letters, with the blanks and stop words around it: 8.1 to 10.1 in five sets."""

SHORT_LENGTH = 1.65
"""Estimated characters of a Chinese word, a number, or two kana or hangul: 1.63 to 1.85 in four Chinese sets."""

MAX_KEPT = 200_000

_SHORT = re.compile(
    r"[\d\u3005-\u3007\u3021-\u3029\u3041-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7fb\uf900-\ufaff\U00020000-\U0003ffff]"
)


class _EstimatedLengths(dict[str, float]):
    """Memo of the estimated characters of each term; bigrams repeat the same text, and have none."""

    def __missing__(self, term: str) -> float:
        length = 0.0 if is_bigram(term) else SHORT_LENGTH if _SHORT.match(term) else WORD_LENGTH
        if len(self) >= MAX_KEPT:
            self.clear()
        self[term] = length
        return length


_estimated = _EstimatedLengths()


def unit_name(unit: str) -> str:
    """Return the name of a unit as people read it."""
    return unit.replace("_", " ")


def chunk_length(text: str, tokens: Sequence[str], unit: LengthUnit) -> int:
    """Return the length of a chunk, given its tokens.

    Estimated characters are those that its words have on average: blanks, markup and stop words do not count, a chunk
    of long words is no longer than one of short ones, and chunk sizes are still those that a text splitter was given.

    >>> [chunk_length("Milvus 支持全文检索", ["milvus", "支持", "全文", "检索"], unit) for unit in LENGTH_UNITS]
    [13, 13, 4]
    """
    if unit == "characters":
        return len(text)
    if unit == "terms":
        return num_words(tokens)
    return int(sum(map(_estimated.__getitem__, tokens)) + 0.5)
