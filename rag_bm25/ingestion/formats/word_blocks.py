"""Mark what Word documents show by type alone: code, headings without a style, and tables within tables."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from rag_bm25.ingestion.formats.numbering import attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

CODE, HEADING = "rag-bm25-code", "rag-bm25-heading"  # ids of styles
MAX_HEADING = 60  # characters
MAX_CODE = 120  # of an indented line that is no prose
OFF = {"0", "false", "off"}
_MONOSPACED = re.compile(r"mono|courier|consol|menlo|monaco|source ?code|preformatted", re.IGNORECASE)
_INDENTED = re.compile(r"(?: {2,}|\t)\S[^。；！？]*(?<![.,])")
_OPENING = re.compile(r".*[:{(\[,;\\]\s*")  # of a line that an indented one goes on with
_HEADING_STYLE = re.compile(r"heading ?[1-9]", re.IGNORECASE)
_NO_HEADING = re.compile(rf"title|caption|toc|{CODE}", re.IGNORECASE)  # ids of styles
_LABEL = re.compile(r".*\w.*[^\s.。;；,，:：!！]", re.DOTALL)


def mark_blocks(document: ET.Element, styles: ET.Element) -> None:
    """Give styles of their own to code, and to headings that no style tells."""
    body = document.find("{*}body")
    if body is None:
        return
    names = {attribute(each, "styleId"): _style_text(each) for each in styles.iterfind("{*}style")}
    paragraphs = [each for each in body if each.tag.endswith("}p")]
    monospaced = {id(each) for each in paragraphs if _is_monospaced(each, names)}
    if 2 * len(monospaced) > len(paragraphs):
        monospaced.clear()  # a typewriter wrote it
    for before, paragraph in pairwise([ET.Element("none"), *paragraphs]):
        goes_on = _style(before) == CODE or _OPENING.fullmatch(_text(before)) is not None
        is_indented = _is_indented(paragraph, goes_on=goes_on)
        if is_indented and goes_on:
            _set_style(before, CODE)
        if is_indented or id(paragraph) in monospaced:
            _set_style(paragraph, CODE)
    if not any(_HEADING_STYLE.match(names.get(style, style)) for style in map(_style, paragraphs)):
        for heading in list(_bold_headings(body)):
            _set_style(heading, HEADING)


def part_tables(parent: ET.Element) -> None:
    """Move the tables within a table of rows and columns behind it, so that its rows stay rows."""
    at = 0
    while at < len(parent):
        child = parent[at]
        if child.tag.endswith("}tbl") and _is_grid(child):
            parent[at + 1 : at + 1] = list(_take_tables(child))
        part_tables(child)
        at += 1


def _is_grid(table: ET.Element) -> bool:
    rows = table.findall("{*}tr")
    return len(rows) > 1 and any(len(row.findall("{*}tc")) > 1 for row in rows)


def _take_tables(element: ET.Element) -> Iterator[ET.Element]:
    for child in list(element):
        if child.tag.endswith("}tbl"):
            element.remove(child)
            yield child
        else:
            yield from _take_tables(child)


def _bold_headings(body: ET.Element) -> Iterator[ET.Element]:
    """Yield short paragraphs in bold that stand before a text that is not."""
    blocks = [each for each in body if each.tag.endswith("}tbl") or _text(each).strip()]
    for block, following in pairwise(blocks):
        if _is_bold(block) and not _is_bold(following) and _LABEL.fullmatch(_text(block).strip()):
            yield block


def _is_bold(block: ET.Element) -> bool:
    is_text = block.tag.endswith("}p") and not _NO_HEADING.search(_style(block))
    if not is_text or block.find("{*}pPr/{*}numPr") is not None:
        return False
    marks = [run.find("{*}rPr/{*}b") for run in _runs(block)]
    is_short = 0 < len(_text(block).strip()) <= MAX_HEADING
    return is_short and all(map(is_on, marks))


def is_on(mark: ET.Element | None) -> bool:
    """Return whether a property of a run is set: one that is there may be switched off."""
    return mark is not None and not OFF.intersection(mark.attrib.values())


def _is_monospaced(paragraph: ET.Element, names: dict[str, str]) -> bool:
    if _MONOSPACED.search(names.get(_style(paragraph), "")):
        return True
    fonts = [_values(run.find("{*}rPr/{*}rFonts")) for run in _runs(paragraph)]
    return bool(fonts) and all(map(_MONOSPACED.search, fonts))


def _is_indented(paragraph: ET.Element, *, goes_on: bool) -> bool:
    """Return whether a line begins with blanks, or a tab where it goes on with code: prose may begin with a tab."""
    text = _text(paragraph).rstrip()
    return len(text) <= MAX_CODE and _INDENTED.fullmatch(text) is not None and (goes_on or text[0] == " ")


def _style_text(style: ET.Element) -> str:
    """Return the name of a style, and its fonts."""
    return f"{_values(style.find('{*}name'))} {_values(style.find('{*}rPr/{*}rFonts'))}"


def _values(element: ET.Element | None) -> str:
    return "" if element is None else " ".join(element.attrib.values())


def _runs(paragraph: ET.Element) -> list[ET.Element]:
    """Return the runs that have a text."""
    runs = paragraph.iterfind(".//{*}r")
    return [run for run in runs if any((text.text or "").strip() for text in run.iterfind("{*}t"))]


def _text(paragraph: ET.Element) -> str:
    marks = {"tab": "\t", "br": "\n"}
    return "".join(each.text or marks.get(each.tag.rpartition("}")[2], "") for each in paragraph.iterfind(".//{*}r/*"))


def _style(paragraph: ET.Element) -> str:
    return attribute(paragraph.find("{*}pPr/{*}pStyle"), "val")


def _set_style(paragraph: ET.Element, style: str) -> None:
    space = paragraph.tag.removesuffix("p")
    properties = paragraph.find("{*}pPr")
    if properties is None:
        properties = ET.Element(f"{space}pPr")
        paragraph.insert(0, properties)
    others = (each for each in properties if not each.tag.endswith(("}pStyle", "}numPr")))
    properties[:] = [ET.Element(f"{space}pStyle", {f"{space}val": style}), *others]
