"""Numbers of articles in both spellings: 第47条 is 第四十七条."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.scripts import HAN_DIGITS, han_number, read_han_number

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERED = re.compile(rf"第\s*(?:(\d{{1,4}})|([{HAN_DIGITS}十百千]{{1,7}}))\s*([条條章节節款项項编編篇卷部])")


class SpeltNumber(NamedTuple):
    """A number of an article, in digits or in characters."""

    written: str
    spelling: str  # all of what is written, with the number in characters, or in digits
    digits: str = ""  # of what is written


def spell_numbers(text: str) -> Iterator[SpeltNumber]:
    """Yield the numbers of articles, chapters and other parts of a law."""
    for match in _NUMBERED.finditer(text):
        written, digits, characters, unit = match.group(0, 1, 2, 3)
        number = int(digits) if digits else read_han_number(characters)
        if number:
            spelt = han_number(number) if digits else str(number)
            yield SpeltNumber(written, f"第{spelt}{unit}", digits or "")
