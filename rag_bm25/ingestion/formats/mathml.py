"""Write the formulas of pages as text: x^2, (a+b)/c."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rag_bm25.ingestion.formats.numbering import in_brackets

if TYPE_CHECKING:
    from collections.abc import Mapping

SCRIPTS = {
    "mfrac": "/", "msub": "_", "munder": "_", "msup": "^", "mover": "^", "msubsup": "_^", "munderover": "_^",
}  # fmt: skip
_UNSEEN = str.maketrans({"\u2061": " ", "\u2062": "", "\u2063": "", "\u2064": ""})  # signs between two factors


class Formula:
    """A formula whose elements are read one by one; what is not closed ends with it."""

    def __init__(self) -> None:
        self._num_open = Counter[str]()  # by tag
        self._open: list[tuple[str, Mapping[str, str], list[str]]] = [("math", {}, [])]

    def start(self, tag: str, given: Mapping[str, str]) -> None:
        """Begin an element."""
        self._open.append((tag, given, []))
        self._num_open[tag] += 1

    def write(self, text: str) -> None:
        """Take the text of an element."""
        if text.strip():
            self._open[-1][2].append(text.strip().translate(_UNSEEN))

    def end(self, tag: str) -> None:
        """End an element, and those within it."""
        if self._num_open[tag]:
            while self._close() != tag:
                pass

    def build(self) -> str:
        """Return the text of the formula."""
        while len(self._open) > 1:
            self._close()
        return " ".join("".join(self._open[0][2]).split())

    def _close(self) -> str:
        tag, given, parts = self._open.pop()
        self._num_open[tag] -= 1
        self._open[-1][2].append(_text(tag, given, parts))
        return tag


def _with_scripts(tag: str, given: Mapping[str, str], base: str, *parts: str) -> str:
    if tag == "mover" and len(parts[0]) == 1 and not parts[0].isalnum():
        return base + parts[0]  # an accent
    if tag != "mfrac":
        return base + "".join(sign + in_brackets(part) for sign, part in zip(SCRIPTS[tag], parts, strict=True))
    line = " " if given.get("linethickness", "").startswith("0") else "/"  # none within a binomial coefficient
    return f" {in_brackets(base)}{line}{in_brackets(parts[0])} "


def _text(tag: str, given: Mapping[str, str], parts: list[str]) -> str:
    if tag in SCRIPTS and len(parts) == len(SCRIPTS[tag]) + 1:
        return _with_scripts(tag, given, *parts)
    if tag == "mroot" and len(parts) == 2:
        return f"{parts[1]}√{in_brackets(parts[0])}"
    text = "".join(parts)
    if tag == "msqrt":
        return f"√{in_brackets(text)}"
    if tag == "mfenced":
        return given.get("open", "(") + ",".join(parts) + given.get("close", ")")
    is_apart = tag in ("mtext", "mtd", "mtr") or (tag == "mi" and len(text) > 1)  # as the name of a function
    return f" {text} " if is_apart else text
