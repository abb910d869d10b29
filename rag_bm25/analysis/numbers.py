"""Numbers that are written in several ways: those of the parts of laws, dates, and thousands.

The number of a part of a law, and a date, is a term in one spelling, whichever a text has: 第47条 for 第四十七条 and
劳动合同法47条, 2023年8月5日 for 2023-08-05 and 05.08.2023. Chunks have it beside the words as they are written, and
queries in place of them: all spellings find the same, and conditions agree with searches.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.analysis.text import Token
from rag_bm25.scripts import HAN_NUMERALS, read_han_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

_NUMBER = rf"(?:\d{{1,4}}|[{HAN_NUMERALS}]{{1,9}})"
_SEVERAL = rf"{_NUMBER}(?:\s?[、,\uff0c和及或至到~\-]\s?第?{_NUMBER})*"
# Units are rare, and so searched for first. None is in 第一条件, 第一项目, 第一节目, 第一部分, 第一目标 and 第一款式.
_UNIT = re.compile(
    rf"[条條项項节節部目编編款章篇卷](?<=[\d{HAN_NUMERALS})）\s].)"
    "(?!(?<=[条條])件|(?<=[项項])目|(?<=[节節])[目日]|(?<=部)[分门門队隊]|(?<=目)[标標的]|(?<=[编編])[号號]|(?<=款)式)"
)
_NUMBERS = re.compile(rf"(?P<numbers>{_SEVERAL})[)）]?\s?$")
_LONGEST = 40  # characters of a list
_BRANCH = re.compile(rf"之({_NUMBER})")
_SIMPLIFIED = str.maketrans("條項節編", "条项节编")
# What tells a number of a part from a count, as in 三项措施: what stands before it.
_BEFORE = re.compile(
    r"(?P<ordinal>第\s?[(（]?)$|(?P<part>[条條款项項章])$"
    rf"|(?P<law>[法典例则則》]|[{HAN_NUMERALS}][)）])\s?$"
    r"|(?P<text>[定程约約释釋案见見知准準同议議书書令纲綱规規范範度编編册冊])\s?$|(?P<nothing>^)$"
)
_LONGEST_BEFORE = 3
_ALONE = re.compile(r"第|[\W\d]|$")

_YEAR = r"(?:19|20)\d\d"
_HAN_YEAR = f"[{HAN_NUMERALS[:12]}]{{4}}"
_OF_DAY = rf"(?:\d{{1,2}}|[{HAN_NUMERALS}]{{1,3}})"
_BEFORE_MONTH = re.compile(
    rf"(?:(?P<year>(?<!\d){_YEAR}|{_HAN_YEAR})\s?年\s?|(?<![\d{HAN_NUMERALS}]))(?P<month>{_OF_DAY})\s?$"
)
_LONGEST_MONTH = 16
_FROM_MONTH = re.compile(rf"月份?(?:\s?(?P<day>{_OF_DAY})\s?[日号號])?")
# The look-behind stands after the first digit, so that it is only tried at digits.
_DATES = (
    re.compile(r"(?P<year>[12](?<![\d.].)\d{3})([-/.])(?P<month>\d\d?)\2(?P<day>\d\d?)(?!\d)"),
    re.compile(r"(?P<year>[12](?<![a-zA-Z\d_./-].)(?:(?<=1)9|(?<=2)0)\d\d)[-/](?P<month>\d\d)(?![a-zA-Z\d_/-]|\.\d)"),
    re.compile(r"(?P<day>\d(?<![\d.].)\d?)\.(?P<month>\d\d?)\.(?P<year>[12]\d{3})(?!\d|\.\d)"),
)
_IN_DATES = re.compile(r"[12]\d{3}(?:[-/.]\d|(?<=\d\.[12]...))")  # few texts with a year have one
_JOINED_BEFORE, _JOINED_AFTER = re.compile(r"\w[._/-]$"), re.compile(r"[._/-][^\W_]")
_MONTHS, _DAYS = 12, 31
_THOUSANDS = re.compile("[\u00a0\u2007\u2009\u202f](?<=\\d.)(?=\\d{3}(?!\\d))")  # blanks that do not break
_BEFORE_TIME = re.compile(r"(-\d\d)(?<=\d{4}-\d\d-\d\d)[Tt](?=\d\d)")


class Number(NamedTuple):
    """A number of a part of a law, or a date, and its place in a text."""

    terms: tuple[str, ...]  # of a chunk with it
    asked: tuple[str, ...]  # of a query with it, all of which a chunk with it has
    spelling: str
    start: int
    end: int


def join_thousands(text: str) -> str:
    """Put a comma between thousands that are apart by blanks that do not break; these are no blanks once normalised."""
    return text if text.isascii() else _THOUSANDS.sub(",", text)


def part_times(text: str) -> str:
    """Put a blank between the date and the time of ISO 8601."""
    return _BEFORE_TIME.sub(r"\1 ", text) if "-" in text else text


def find_numbers(text: str) -> list[Number]:
    """Return the numbers of a normalised text in its order."""
    found = list(_dates(text)) if _IN_DATES.search(text) else []
    if not text.isascii():
        found += chain(_parts(text), _chinese_dates(text))
    return sorted(found, key=lambda number: number.start)


def is_article(term: str) -> bool:
    """Return whether a term is the number of an article of a law."""
    return term[0] == "第" and "条" in term and term[1:2].isdecimal()


def number_terms(text: str, hidden: AbstractSet[int] = frozenset()) -> list[str]:
    """Return the terms of the numbers of a chunk; user words are at its `hidden` places."""
    return [term for term, _, _ in locate_numbers(text, hidden)]


def locate_numbers(text: str, hidden: AbstractSet[int] = frozenset()) -> Iterator[Token]:
    """Yield these terms with their places."""
    for number in find_numbers(text):
        for term in _terms_beside(number, text, hidden):
            yield Token(term, number.start, number.end)


def _terms_beside(number: Number, text: str, hidden: AbstractSet[int]) -> tuple[str, ...]:
    """Return the terms of a number, with its year where a user word has that, which then is no word of the text."""
    year = number.asked[-1]
    if not hidden or year in number.terms or text.find(year, number.start, number.end) not in hidden:
        return number.terms
    return (*number.terms, year)


def cut_numbers(text: str, put: str = " ") -> tuple[str, list[str]]:
    """Return a query without its numbers, but for those within a name such as log-2023-08-05.txt, and their terms."""
    numbers = find_numbers(text)
    apart = [number for number in numbers if not _is_within_name(text, number)]
    return _replace(text, apart, [put] * len(apart)), [term for number in numbers for term in number.asked]


def respell_numbers(text: str) -> str:
    """Return a text with its numbers in the spelling of their terms."""
    numbers = find_numbers(text)
    return _replace(text, numbers, [number.spelling for number in numbers])


def _replace(text: str, numbers: list[Number], spellings: list[str]) -> str:
    for number, spelling in zip(reversed(numbers), reversed(spellings), strict=True):
        text = text[: number.start] + spelling + text[number.end :]
    return text


def _is_within_name(text: str, number: Number) -> bool:
    before = _JOINED_BEFORE.search(text[max(0, number.start - 2) : number.start])
    return before is not None or _JOINED_AFTER.match(text, number.end) is not None


def _parts(text: str) -> Iterator[Number]:
    for unit in _UNIT.finditer(text):
        match = _NUMBERS.search(text, max(0, unit.start() - _LONGEST), unit.start())
        if match is None:
            continue
        start = match.start()
        before = _BEFORE.search(text, max(0, start - _LONGEST_BEFORE), start)
        if before is None or not _names_part(before.lastgroup, match["numbers"], unit):
            continue
        branch = _BRANCH.match(text, unit.end())
        if terms := _part_terms(match["numbers"], unit[0], branch[1] if branch else ""):
            end = branch.end() if branch else unit.end()
            yield Number(terms, terms, "、".join(terms), start - len(before["ordinal"] or ""), end)


@lru_cache(10_000)  # most numbers come again
def _part_terms(numbers: str, unit: str, branch: str) -> tuple[str, ...]:
    """Return the terms of one number or several of a unit, none if one of them is no number."""
    ending = unit.translate(_SIMPLIFIED) + (f"之{_read(branch)}" if branch else "")
    read = [_read(number) for number in re.findall(_NUMBER, numbers)]
    return tuple([f"第{number}{ending}" for number in read]) if all(read) else ()


def _names_part(kind: str | None, numbers: str, unit: re.Match[str]) -> bool:
    """Return whether a number after what stands before it is that of a part, and no count."""
    if kind in ("ordinal", "part"):
        return True
    if kind == "law":
        return numbers.isdecimal() or len(numbers) > 1
    alone = kind == "text" or _ALONE.match(unit.string, unit.end())
    return bool(alone) and unit[0] in "条條" and len(numbers) > 1


def _dates(text: str) -> Iterator[Number]:
    for pattern in _DATES:
        for match in pattern.finditer(text):
            yield from _date(match.groupdict(), match.start(), match.end(), is_apart="." not in match[0])


def _chinese_dates(text: str) -> Iterator[Number]:
    for end in _FROM_MONTH.finditer(text):
        first = max(0, end.start() - _LONGEST_MONTH)
        if match := _BEFORE_MONTH.search(text[first : end.start()]):
            written = {**match.groupdict(), **end.groupdict()}
            is_apart = (written["year"] or "").isdecimal()
            yield from _date(written, first + match.start(), end.end(), is_apart=is_apart)


def _date(written: Mapping[str, str | None], start: int, end: int, *, is_apart: bool) -> Iterator[Number]:
    """Yield a date, if it is one; its year may be apart, as a word of the text."""
    year, month, day = (_read(written.get(part) or "") for part in ("year", "month", "day"))
    if 1 <= month <= _MONTHS and day <= _DAYS and (year or day):
        terms, asked = _date_terms(year, month, day)
        yield Number(terms if is_apart or not year else (*terms, str(year)), asked, asked[0], start, end)


def _date_terms(year: int, month: int, day: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the terms of a date in chunks, and in queries: those of a month find all of its days."""
    of_day, of_month = f"{month}月{day}日", f"{year}年{month}月"
    if not year:
        return (of_day,), (of_day,)
    if not day:
        return (of_month,), (of_month, str(year))
    return (f"{year}年{of_day}", of_month, of_day), (f"{year}年{of_day}", of_month, str(year))


def _read(spelt: str) -> int:
    """Return a number in digits or in characters, 0 if it is none."""
    return int(spelt) if spelt.isdecimal() else read_han_number(spelt)
