"""A document as the splitter sees it: its text, and where its headings and pages begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Heading(NamedTuple):
    """A heading of a text."""

    start: int  # of its line or lines, in characters
    end: int
    level: int  # 1 is the highest
    title: str


@dataclass(frozen=True)
class Document:
    """The text of a file, and what is known about it."""

    text: str
    title: str = ""  # as the file gives it
    headings: tuple[Heading, ...] = ()
    pages: tuple[int, ...] = ()  # the first character of each page or slide
    encoding: str = ""  # other than UTF-8
