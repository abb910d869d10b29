"""Numbers of articles in both spellings: 第47条 is 第四十七条."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_DIGITS = "零一二三四五六七八九"
_NUMBERED = re.compile(rf"第\s*(?:(\d{{1,4}})|([{_DIGITS}十百千]{{1,7}}))\s*([条條章节節款项項编編篇卷部])")
_UNITS = ((1000, "千"), (100, "百"), (10, "十"), (1, ""))


class SpeltNumber(NamedTuple):
    """A number of an article, in digits or in characters."""

    written: str
    spelling: str  # all of what is written, with the number in characters, or in digits
    digits: str = ""  # of what is written


def spell_numbers(text: str) -> Iterator[SpeltNumber]:
    """Yield the numbers of articles, chapters and other parts of a law.

    >>> list(spell_numbers("合同法第 12 条"))
    [SpeltNumber(written='第 12 条', spelling='第十二条', digits='12')]
    """
    for match in _NUMBERED.finditer(text):
        written, digits, characters, unit = match.group(0, 1, 2, 3)
        number = int(digits) if digits else _number(characters)
        if number:
            spelt = _in_characters(number) if digits else str(number)
            yield SpeltNumber(written, f"第{spelt}{unit}", digits or "")


def _number(characters: str) -> int:
    """Return a number that laws have in these characters, or 0."""
    number, digit = 0, 0
    sizes = {unit: size for size, unit in _UNITS}
    for char in characters:
        size = sizes.get(char)
        number += (digit or 1) * size if size else 0
        digit = 0 if size else _DIGITS.index(char)
    number += digit
    return number if _in_characters(number) == characters else 0


def _in_characters(number: int) -> str:
    """Return a number in 1..9999 as laws have it: 十二, 一百零五, 一千零一十."""
    spelt = ""
    for size, unit in _UNITS:
        digit = number // size % 10
        if digit:
            spelt += _DIGITS[digit] + unit
        elif spelt and not spelt.endswith("零"):
            spelt += "零"
    return spelt.rstrip("零").removeprefix("一" if 10 <= number < 20 else "")
