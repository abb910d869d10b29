"""Single characters: the channel by which 税 finds 增值税, whatever the words are that the dictionary makes of both.

The commonest characters of Chinese and those of its question words are left out: they are half of a text, and say
little of it. The list is fixed, lest the terms of a chunk depend on others; queries look for these characters in the
bigrams that hold them (`rag_bm25.query.expansion`).

A character counts as often as it occurs: once a sentence, as bigrams do, found less, and so did a list of 100 or 300,
and leaving out the characters that are words of the chunk or of the query.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.analysis.runs import IDEOGRAPH_BITS, code_points, points_in
from rag_bm25.analysis.text import Token
from rag_bm25.scripts import IDEOGRAPHS
from rag_bm25.vectors.terms import BIGRAM_MARK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

COMMON = (
    "一是人了不在有大中国和为这上他个地年来我会以到时要出的生学说道民家子也成行下们于后就发自之对得主长可过天作分方用"
    "多你着部能市等业全里工公经本都而高政法面门动日进区事代那去心小同北定开产前其军还然起种所如现理机体表力好外与文当"
    "两实重新三么只山水关明从化平建又制南内西没此将员名手最东头者月间无安看见各城十相但已些正口通想度加第她合院物性战"
    "由位常点海意场武使次二向治因立数样身情入原问把路被并利石老教万知吗呢啊吧呀哦嘛什候怎办何咋啥处哪儿谁少久几否请应"
    "该够需及或果若您它算"
)
"""The 200 commonest characters of jieba's dictionary, and those of the Chinese question words."""


def characters_of(text: str, stop_words: Collection[str] = ()) -> list[str]:
    """Return each ideograph of a normalised text that is not common, after the mark of the channel."""
    if text.isascii():
        return []
    points = code_points(text)
    found = points[_are_terms(points)]
    marked = np.full((len(found), 2), ord(BIGRAM_MARK), np.uint32)
    marked[:, 1] = found
    characters: list[str] = marked.view("<U2").ravel().tolist()
    return [character for character in characters if character[1] not in stop_words] if stop_words else characters


def locate_characters(text: str, stop_words: Collection[str] = ()) -> Iterator[Token]:
    """Yield the characters with their places."""
    for at in (np.flatnonzero(_are_terms(code_points(text))) - 1).tolist():
        if text[at] not in stop_words:
            yield Token(BIGRAM_MARK + text[at], at, at + 1)


def _are_terms(points: NDArray[np.uint32]) -> NDArray[np.bool_]:
    return _terms().take(points, mode="clip")


@cache
def _terms() -> NDArray[np.bool_]:
    """Return whether each code point is a term; what is said of the last one holds for all above it."""
    are_terms = np.zeros((1 << IDEOGRAPH_BITS) + 1, np.bool_)
    are_terms[points_in(IDEOGRAPHS)] = True
    are_terms[list(map(ord, COMMON))] = False
    return are_terms
