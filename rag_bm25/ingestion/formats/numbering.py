"""Write the automatic numbers of Word into its paragraphs: 第一条, (a), 1.2.3."""

from __future__ import annotations

import re
import zipfile
from functools import cached_property
from io import BytesIO
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from rag_bm25.scripts import han_number

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT, NUMBERING, STYLES = re.compile(r"word/document\d*\.xml"), "word/numbering.xml", "word/styles.xml"
MAX_STYLES = 20  # that each are based on another
MAX_REPEATED = 9  # letters: beyond, a number is in digits
_ROMAN = tuple(zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), "m cm d cd c xc l xl x ix v iv i".split()))  # noqa: B905,SIM905
_HAN, _LEGAL = "零一二三四五六七八九十百千", "零壹贰叁肆伍陆柒捌玖拾佰仟"
_CIRCLES = "".join(map(chr, range(0x2460, 0x2474)))
_ROWS = {
    "lowerLetter": ascii_lowercase,
    "upperLetter": ascii_uppercase,
    "ideographTraditional": "甲乙丙丁戊己庚辛壬癸",
    "ideographZodiac": "子丑寅卯辰巳午未申酉戌亥",
    "decimalEnclosedCircle": _CIRCLES,
    "decimalEnclosedCircleChinese": _CIRCLES,
}


def spell(number: int, form: str) -> str:
    """Return a number in a form of Word's; in digits, if the form is another or does not reach so far."""
    if form in _ROWS and 0 < number <= MAX_REPEATED * len(_ROWS[form]):
        times, at = divmod(number - 1, len(_ROWS[form]))
        return _ROWS[form][at] * (times + 1)
    if form.endswith("Roman") and 0 < number < 4_000:
        roman = _roman(number)
        return roman if form == "lowerRoman" else roman.upper()
    if "Counting" in form and 0 < number < 10_000:
        return han_number(number)
    if "Legal" in form and 0 < number < 10_000:
        return han_number(number).translate(str.maketrans(_HAN, _LEGAL))
    digits = str(number).zfill(2) if form == "decimalZero" else str(number)
    return digits.translate(str.maketrans("0123456789", "〇一二三四五六七八九")) if "Digital" in form else digits


def _roman(number: int) -> str:
    spelt = ""
    for value, letters in _ROMAN:
        spelt += letters * (number // value)
        number %= value
    return spelt


def write_numbers(archive: zipfile.ZipFile) -> BytesIO:
    """Copy a document without its media; its paragraphs begin with their numbers."""
    copy = BytesIO()
    with zipfile.ZipFile(copy, "w") as target:
        for name in archive.namelist():
            if name.endswith((".xml", ".rels")):
                text = archive.read(name)
                is_numbered = DOCUMENT.fullmatch(name) and NUMBERING in archive.namelist()
                target.writestr(name, _numbered(archive, text) if is_numbered else text)
    return copy


def _numbered(archive: zipfile.ZipFile, text: bytes) -> bytes:
    styles = archive.read(STYLES) if STYLES in archive.namelist() else b"<styles/>"
    numbering = _Numbering(_parse(archive.read(NUMBERING)), _parse(styles))
    document = _parse(text)
    for paragraph in document.iter(document.tag.replace("}document", "}p")):
        if number := numbering.next_number(paragraph):
            run = ET.Element(paragraph.tag.replace("}p", "}r"))
            ET.SubElement(run, paragraph.tag.replace("}p", "}t")).text = f"{number} "
            paragraph.insert(1 if paragraph.find("{*}pPr") is not None else 0, run)
    return ET.tostring(document)


def _parse(text: bytes) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314  # expat bounds entities


def _attribute(element: ET.Element | None, name: str) -> str:
    attributes = {} if element is None else element.attrib
    return next((value for key, value in attributes.items() if key.endswith(f"}}{name}")), "")


def _value(element: ET.Element | None, path: str) -> str:
    return _attribute(None if element is None else element.find(path), "val")


class _List:
    """A numbering of a document: its levels, and the counts of those that share it."""

    def __init__(self, number: ET.Element, abstract: ET.Element, counts: dict[int, int]) -> None:
        self._counts = counts
        found = [*abstract.iterfind("{*}lvl"), *number.iterfind("{*}lvlOverride/{*}lvl")]
        self._levels = {_attribute(level, "ilvl") or "0": level for level in found}
        self._restarts = {
            int(_attribute(each, "ilvl")): int(_value(each, "{*}startOverride"))
            for each in number.iterfind("{*}lvlOverride")
            if each.find("{*}startOverride") is not None
        }

    @cached_property
    def levels_of_styles(self) -> dict[str, str]:
        return {_value(level, "{*}pStyle"): name for name, level in self._levels.items()}

    def next_number(self, name: str) -> str:
        """Count a paragraph of a level, and return its number, "" for a bullet."""
        level, at = self._levels.get(name), int(name)
        if level is None or _value(level, "{*}numFmt") == "bullet":
            return ""
        for above in range(at):
            self._counts.setdefault(above, self._start(above))
        start = self._restarts.pop(at, None)
        self._counts[at] = self._counts.get(at, self._start(at) - 1) + 1 if start is None else start
        for below in [each for each in self._counts if each > at]:
            del self._counts[below]
        is_legal = level.find("{*}isLgl") is not None
        return re.sub("%([1-9])", lambda match: self._spelt(int(match[1]) - 1, is_legal), _value(level, "{*}lvlText"))

    def _start(self, at: int) -> int:
        return int(_value(self._levels.get(str(at)), "{*}start") or 1)

    def _spelt(self, at: int, is_legal: bool) -> str:
        form = "decimal" if is_legal else _value(self._levels.get(str(at)), "{*}numFmt")
        return spell(self._counts.get(at, 1), form)


class _Numbering:
    """The lists of a document."""

    def __init__(self, numbering: ET.Element, styles: ET.Element) -> None:
        self._styles = {_attribute(each, "styleId"): each for each in styles.iterfind("{*}style")}
        self._numbers = {_attribute(each, "numId"): each for each in numbering.iterfind("{*}num")}
        self._abstract = {_attribute(each, "abstractNumId"): each for each in numbering.iterfind("{*}abstractNum")}
        self._counts: dict[str, dict[int, int]] = {name: {} for name in self._abstract}
        self._lists: dict[str, _List | None] = {}

    def next_number(self, paragraph: ET.Element) -> str:
        """Return the number of a paragraph, "" without one."""
        given = list(self._properties(paragraph))
        name = next(filter(None, (_value(each, "{*}numId") for each in given)), "")
        if name not in self._lists:
            self._lists[name] = self._list(name)
        found = self._lists[name]
        if found is None:
            return ""
        level = next(filter(None, (_value(each, "{*}ilvl") for each in given)), "")
        return found.next_number(level or found.levels_of_styles.get(_value(paragraph, "{*}pPr/{*}pStyle"), "0"))

    def _properties(self, paragraph: ET.Element) -> Iterator[ET.Element]:
        """Yield what a paragraph and its styles say of its number."""
        element: ET.Element | None = paragraph
        style = "{*}pPr/{*}pStyle"
        for _ in range(MAX_STYLES):
            if element is None:
                return
            yield from element.iterfind("{*}pPr/{*}numPr")
            element, style = self._styles.get(_value(element, style)), "{*}basedOn"

    def _list(self, name: str) -> _List | None:
        number = self._numbers.get(name)
        abstract = self._abstract.get(_value(number, "{*}abstractNumId"))
        link = self._styles.get(_value(abstract, "{*}numStyleLink"))
        if link is not None:  # the style has the list
            number = self._numbers.get(_value(link, "{*}pPr/{*}numPr/{*}numId"))
            abstract = self._abstract.get(_value(number, "{*}abstractNumId"))
        if number is None or abstract is None:
            return None
        return _List(number, abstract, self._counts[_attribute(abstract, "abstractNumId")])
