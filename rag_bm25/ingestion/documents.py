"""A document as the splitter sees it: its text, and where its headings and pages begin; and its chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Kinds of what is left out: `hidden` reads the first two, and `repeated` keeps all but them and what is lost.
HIDDEN, COMMENTS = "hidden text", "comments"
LOST = "text that Word shows and the reader does not know"
DAMAGED = "comments that are damaged"
RUNNING, NUMBERS, CONTENTS = "running lines", "page numbers", "contents"
MENUS, BESIDE = "menus and controls", "text beside the main part"

MAX_HEADINGS = 1_000_000  # of one text: some 600 bytes of memory each, until it is split


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
    left_out : mapping of str to int
        Number of characters that were left out, by kind.
    unreadable : tuple of int
        Numbers of the pages whose fonts do not tell which letters their text shows.
    metadata : dict
        The metadata that the file gives, as the front matter of Markdown does; each chunk has them.
    """

    text: str
    title: str = ""
    headings: tuple[Heading, ...] = ()
    pages: tuple[int, ...] = ()
    encoding: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict)
    unreadable: tuple[int, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Piece:
    """A chunk read from a file.

    Parameters
    ----------
    id, text : str
        Id and text of the chunk.
    metadata : dict
        ``source``, ``chunk``, ``start_index`` and ``end_index``; of a document also its ``title``, and ``headings`` and
        ``page`` where it has them; of a row its own metadata.
    where : str
        File, or file and line, for messages.
    end : int
        End of the chunk in the file, in bytes.
    document : Document, optional
        The document that it is of.
    """

    id: str
    text: str
    metadata: dict[str, Any]
    where: str
    end: int
    document: Document | None = None


def bounded(headings: Iterable[Heading]) -> tuple[Heading, ...]:
    """Collect the headings of a text, or refuse it."""
    found = tuple(islice(headings, MAX_HEADINGS + 1))
    if len(found) > MAX_HEADINGS:
        raise InputError(f"it has more than {MAX_HEADINGS:,} headings")
    return found
