"""Write what Word works out as text: the numbers of its paragraphs, 第一条, (a), 1.2.3, and formulas, x^2, (a+b)/c."""

from __future__ import annotations

import re
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from rag_bm25.scripts import han_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


FORMULAS = ("}oMathPara", "}oMath")
_BEFORE = {"num": "", "den": "/", "sup": "^", "sub": "_", "lim": "_", "rad": "√"}
_SPACED = {"fName", "mr"}  # the name of a function, and a row of a matrix

TICKS = {"☐", "☑", "☒"}
MAX_STYLES = 20  # that each are based on another
MAX_REPEATED = 9  # of a letter: zzz
_CIRCLED = "".join(map(chr, range(0x2460, 0x2474)))
_SERIES = {
    "lowerLetter": ascii_lowercase,
    "upperLetter": ascii_uppercase,
    "ideographTraditional": "甲乙丙丁戊己庚辛壬癸",
    "ideographZodiac": "子丑寅卯辰巳午未申酉戌亥",
    "decimalEnclosedCircle": _CIRCLED,
    "decimalEnclosedCircleChinese": _CIRCLED,
}
_ROMAN = {
    1000: "m", 900: "cm", 500: "d", 400: "cd", 100: "c", 90: "xc", 50: "l", 40: "xl", 10: "x", 9: "ix", 5: "v", 4: "iv",
    1: "i",
}  # fmt: skip
_LEGAL = str.maketrans("零一二三四五六七八九十百千", "零壹贰叁肆伍陆柒捌玖拾佰仟")
_HAN_DIGITS = str.maketrans("0123456789", "〇一二三四五六七八九")


def _roman(number: int) -> str:
    spelt = ""
    for value, letters in _ROMAN.items():
        spelt += letters * (number // value)
        number %= value
    return spelt


_FORMS: dict[str, tuple[int, Callable[[int], str]]] = {
    "lowerRoman": (3_999, _roman),
    "upperRoman": (3_999, lambda number: _roman(number).upper()),
    "Counting": (9_999, han_number),
    "Legal": (9_999, lambda number: han_number(number).translate(_LEGAL)),
    "Digital": (10**9, lambda number: str(number).translate(_HAN_DIGITS)),
    "decimalZero": (9, lambda number: f"0{number}"),
}
"""How numbers up to a highest one are spelt, by what the names of the forms contain."""


def spell(number: int, form: str) -> str:
    """Return a number in a form of Word's; in digits where that does not reach so far."""
    if form in _SERIES and 0 < number <= MAX_REPEATED * len(_SERIES[form]):
        times, at = divmod(number - 1, len(_SERIES[form]))
        return _SERIES[form][at] * (times + 1)
    fitting = (spelt for name, (most, spelt) in _FORMS.items() if name in form and 0 < number <= most)
    return next(fitting, str)(number)


def write_numbers(document: ET.Element, parts: Mapping[str, bytes]) -> None:
    """Write the numbers of paragraphs, which other parts of the file tell, before their texts."""
    if NUMBERING not in parts:
        return
    given = (parts[NUMBERING], parts.get(STYLES, b"<styles/>"))
    numbering = _Numbering(*map(ET.fromstring, given))  # expat bounds entities
    namespace = document.tag.removesuffix("document")
    for paragraph in document.iter(f"{namespace}p"):
        if number := numbering.next_number(paragraph):
            paragraph.insert(int(paragraph.find("{*}pPr") is not None), text_run(namespace, f"{number} "))


def text_run(namespace: str, text: str) -> ET.Element:
    """Return a run of text of a paragraph."""
    run = ET.Element(f"{namespace}r")
    ET.SubElement(run, f"{namespace}t").text = text
    return run


def attribute(element: ET.Element | None, name: str) -> str:
    """Return an attribute of whatever namespace, "" without one."""
    attributes = {} if element is None else element.attrib
    return next((value for key, value in attributes.items() if key.endswith(f"}}{name}")), "")


def _value(element: ET.Element | None, path: str) -> str:
    return attribute(None if element is None else element.find(path), "val")


def _by(elements: Iterator[ET.Element], name: str) -> dict[str, ET.Element]:
    return {attribute(each, name): each for each in elements}


class _List:
    """A list of a document; lists that are alike go on with the counts of each other."""

    def __init__(self, number: ET.Element, abstract: ET.Element, counts: dict[int, int]) -> None:
        self._counts = counts
        self._levels = _by(abstract.iterfind("{*}lvl"), "ilvl") | _by(number.iterfind("{*}lvlOverride/{*}lvl"), "ilvl")
        starts = {
            name: _value(each, "{*}startOverride")
            for name, each in _by(number.iterfind("{*}lvlOverride"), "ilvl").items()
        }
        self._restarts = {int(name): int(start) for name, start in starts.items() if start}
        self.level_of_style = {_value(level, "{*}pStyle"): name for name, level in self._levels.items()}

    def next_number(self, at: int) -> str:
        """Count a paragraph of a level, and return its number; of a bullet a box to tick, or else ""."""
        level = self._levels.get(str(at))
        if level is None or _value(level, "{*}numFmt") == "bullet":
            mark = _value(level, "{*}lvlText")
            return mark if mark in TICKS else ""
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
        return spell(self._counts.get(at, 1), "" if is_legal else _value(self._levels.get(str(at)), "{*}numFmt"))


class _Numbering:
    """The lists of a document."""

    def __init__(self, numbering: ET.Element, styles: ET.Element) -> None:
        self._styles = _by(styles.iterfind("{*}style"), "styleId")
        self._numbers = _by(numbering.iterfind("{*}num"), "numId")
        self._abstract = _by(numbering.iterfind("{*}abstractNum"), "abstractNumId")
        self._counts: dict[str, dict[int, int]] = {name: {} for name in self._abstract}
        self._lists: dict[str, _List | None] = {}

    def next_number(self, paragraph: ET.Element) -> str:
        """Return the number of a paragraph, "" without one."""
        given = list(self._properties(paragraph))
        name, level = (
            next(filter(None, (_value(each, path) for each in given)), "") for path in ("{*}numId", "{*}ilvl")
        )
        if name not in self._lists:
            self._lists[name] = self._list(name)
        found = self._lists[name]
        if found is None:
            return ""
        style = _value(paragraph, "{*}pPr/{*}pStyle")
        return found.next_number(int(level or found.level_of_style.get(style, "0")))

    def _properties(self, paragraph: ET.Element) -> Iterator[ET.Element]:
        """Yield what a paragraph, its style and those that this is based on say of its number."""
        element: ET.Element | None = paragraph
        style = "{*}pPr/{*}pStyle"
        for _ in range(MAX_STYLES):
            if element is not None:
                yield from element.iterfind("{*}pPr/{*}numPr")
                element, style = self._styles.get(_value(element, style)), "{*}basedOn"

    def _list(self, name: str) -> _List | None:
        number = self._numbers.get(name)
        id_ = _value(number, "{*}abstractNumId")
        link = self._styles.get(_value(self._abstract.get(id_), "{*}numStyleLink"))
        if link is not None:  # the style has the list
            number = self._numbers.get(_value(link, "{*}pPr/{*}numPr/{*}numId"))
            id_ = _value(number, "{*}abstractNumId")
        if number is None or id_ not in self._abstract:
            return None
        return _List(number, self._abstract[id_], self._counts[id_])


def write_formulas(document: ET.Element) -> None:
    """Put the text of each formula in its place."""
    namespace = document.tag.removesuffix("document")
    for parent in list(document.iter()):
        for at, child in enumerate(parent):
            if child.tag.endswith(FORMULAS):
                run = text_run(namespace, " ".join(formula_text(child).split()))
                run.tail = child.tail
                parent[at] = run


def in_brackets(text: str) -> str:
    """Return a part of a formula so that it is one, whatever stands beside it."""
    return f"({text.strip()})" if len(text.strip()) > 1 else text.strip()


def formula_text(element: ET.Element) -> str:
    """Return the text of a formula, or of a part of one."""
    name = element.tag.rpartition("}")[2]
    text = (element.text or "") if name == "t" else "".join(map(formula_text, element))
    if name == "d":
        brackets = element.find("{*}dPr")
        return _sign(brackets, "begChr", "(") + text + _sign(brackets, "endChr", ")")
    if name == "naryPr":
        return _sign(element, "chr", "∫")
    if name in _BEFORE and text:
        return _BEFORE[name] + in_brackets(text)
    return f" {text} " if name in _SPACED else text


def _sign(properties: ET.Element | None, name: str, default: str) -> str:
    found = None if properties is None else properties.find(f"{{*}}{name}")
    return default if found is None else next((value for key, value in found.items() if key.endswith("}val")), "")


NUMBERING, STYLES = "word/numbering.xml", "word/styles.xml"
