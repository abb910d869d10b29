"""Numbers of articles in the spelling of laws: 第47条 is 第四十七条."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.scripts import han_number

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERED = re.compile(r"第\s*(\d{1,4})\s*([条條章节節款项項编編篇卷部])")


class SpeltNumber(NamedTuple):
    """A number that a text has in digits."""

    written: str
    digits: str
    spelling: str  # all of what is written, with the number in characters


def spell_numbers(text: str) -> Iterator[SpeltNumber]:
    """Yield the numbers of articles, chapters and other parts of a law.

    >>> list(spell_numbers("合同法第 12 条"))
    [SpeltNumber(written='第 12 条', digits='12', spelling='第十二条')]
    """
    for match in _NUMBERED.finditer(text):
        if number := int(match[1]):
            yield SpeltNumber(match[0], match[1], f"第{han_number(number)}{match[2]}")
