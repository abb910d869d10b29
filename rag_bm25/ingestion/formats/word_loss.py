"""Compare the texts of a Word document with what was read of it, so that a loss is told."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from rag_bm25.ingestion.formats.numbering import attribute
from rag_bm25.ingestion.formats.word_blocks import is_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

UNSEEN = {"del", "moveFrom", "rt", "sdtPr", "pPr", "rPr", "oMath"}  # deleted, readings, properties, or written anew
CONTENTS = re.compile(r"toc (?:[1-9]|heading)", re.IGNORECASE)  # names of styles that the reader leaves out


def num_lost(parts: Mapping[str, bytes], text: str) -> int:
    """Return how many letters and digits of the body are missing in a text."""
    styles = ET.fromstring(parts.get("word/styles.xml", b"<styles/>"))  # noqa: S314 - expat bounds entities
    contents = {attribute(each, "styleId") for each in styles.iterfind("{*}style") if CONTENTS.fullmatch(_name(each))}
    read = Counter(text)
    shown = Counter[str]()
    for name in parts:
        if re.fullmatch(r"word/document\d*\.xml", name):
            document = ET.fromstring(parts[name])  # noqa: S314 - expat bounds entities
            shown.update("".join(_texts(document, contents)))
    return sum(number for character, number in (shown - read).items() if character.isalnum())


def _texts(element: ET.Element, contents: set[str]) -> Iterator[str]:
    """Yield the texts that a page shows."""
    waiting = [element]
    while waiting:
        element = waiting.pop()
        name = element.tag.rpartition("}")[2]
        if name == "t":
            yield element.text or ""
        elif name == "AlternateContent":
            waiting += _alternative(element)
        elif name not in UNSEEN and not _is_left_out(name, element, contents):
            waiting += element


def _alternative(element: ET.Element) -> list[ET.Element]:
    forms = [form for name in ("Choice", "Fallback") for form in element.findall(f"{{*}}{name}")]
    return next(([form] for form in forms if form.find(".//{*}t") is not None), [])


def _is_left_out(name: str, element: ET.Element, contents: set[str]) -> bool:
    """Whether an element is hidden or deleted, a box to tick, or a line of contents."""
    if name == "p":
        style = element.find("{*}pPr/{*}pStyle")
        links = element.findall("{*}hyperlink")
        is_link = bool(links) and not element.findall("{*}r") and all(attribute(link, "anchor") for link in links)
        return is_link or attribute(style, "val") in contents
    marks = {"r": "{*}rPr/{*}vanish", "tr": "{*}trPr/{*}del", "sdt": "{*}sdtPr/{*}checkbox"}
    return name in marks and is_on(element.find(marks[name]))


def _name(style: ET.Element) -> str:
    return attribute(style.find("{*}name"), "val")
