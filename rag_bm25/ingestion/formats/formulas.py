"""Write the formulas of Word as text: x^2, (a+b)/c."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_bm25.ingestion.formats.numbering import text_run

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

FORMULAS = ("}oMathPara", "}oMath")
_BEFORE = {"num": "", "den": "/", "sup": "^", "sub": "_", "lim": "_", "rad": "√"}
_SPACED = {"fName", "mr"}  # the name of a function, and a row of a matrix


def write_formulas(document: ET.Element) -> None:
    """Put the text of each formula in its place."""
    namespace = document.tag.removesuffix("document")
    for parent in list(document.iter()):
        for at, child in enumerate(parent):
            if child.tag.endswith(FORMULAS):
                run = text_run(namespace, " ".join(_text(child).split()))
                run.tail = child.tail
                parent[at] = run


def _text(element: ET.Element) -> str:
    name = element.tag.rpartition("}")[2]
    text = (element.text or "") if name == "t" else "".join(map(_text, element))
    if name == "d":
        brackets = element.find("{*}dPr")
        return _sign(brackets, "begChr", "(") + text + _sign(brackets, "endChr", ")")
    if name == "naryPr":
        return _sign(element, "chr", "∫")
    if name in _BEFORE and text:
        return _BEFORE[name] + (f"({text})" if len(text) > 1 else text)
    return f" {text} " if name in _SPACED else text


def _sign(properties: ET.Element | None, name: str, default: str) -> str:
    found = None if properties is None else properties.find(f"{{*}}{name}")
    return default if found is None else next((value for key, value in found.items() if key.endswith("}val")), "")
