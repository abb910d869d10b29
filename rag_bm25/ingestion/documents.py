"""A document as the splitter sees it: its text, and where its headings and pages begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Heading(NamedTuple):
    """A heading of a text.

    Parameters
    ----------
    start, end : int
        Place of its lines in the text, in characters.
    level : int
        Level, >= 1; 1 is the highest.
    title : str
        The heading without marks.
    """

    start: int
    end: int
    level: int
    title: str


@dataclass(frozen=True)
class Document:
    """The text of a file, and what is known about it.

    Parameters
    ----------
    text : str
        The extracted text, which the places of chunks refer to.
    title : str
        Title that the file gives, "" if it has none.
    headings : tuple of Heading
        Headings in the order of the text.
    pages : tuple of int
        First character of each page or slide; empty if the format has none.
    encoding : str
        Encoding of the file, "" for UTF-8.
    """

    text: str
    title: str = ""
    headings: tuple[Heading, ...] = ()
    pages: tuple[int, ...] = ()
    encoding: str = ""
