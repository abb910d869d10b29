"""Read the properties and comments of Office documents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from rag_bm25.ingestion.documents import COMMENTS, DAMAGED

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterable, Iterator

    from rag_bm25.ingestion.formats.building import TextBuilder

MAX_PROPERTIES = 1 << 20  # bytes
THREAD = "tc="  # begins the author of a comment that former programs show in place of a thread
_COMMENTS = re.compile(r"(?:xl|ppt)/(?:threadedC|c)omments?[\w/.{}-]*\.xml")
_TAG = re.compile(rb"<[^>]*>?")
TITLE = "{http://purl.org/dc/elements/1.1/}title"


def core_title(archive: zipfile.ZipFile) -> str:
    """Return the title of a document, "" without one."""
    try:
        with archive.open("docProps/core.xml") as file:
            title = ET.fromstring(file.read(MAX_PROPERTIES)).findtext(TITLE)  # noqa: S314  # expat bounds entities
    except (KeyError, ET.ParseError):
        return ""
    return (title or "").strip()


def comments(archive: zipfile.ZipFile, builder: TextBuilder) -> list[str]:
    """Return the comments of sheets or slides; the characters of those that are damaged are counted."""
    names = sorted(filter(_COMMENTS.fullmatch, archive.namelist()))
    return [text for name in names for text in _comments_of(archive.read(name), builder) if text]


def _comments_of(data: bytes, builder: TextBuilder) -> list[str]:
    try:
        root = ET.fromstring(data)  # noqa: S314  # expat bounds entities
    except (ET.ParseError, ValueError, LookupError):  # the last two for encodings
        builder.leave_out(DAMAGED, _TAG.sub(b" ", data).decode(errors="replace"))
        return []
    return [" ".join(text.split()) for text in _comments(root)]


def _comments(root: ET.Element) -> Iterator[str]:
    authors = {str(at): each.text or "" for at, each in enumerate(root.iterfind("{*}authors/{*}author"))}
    for each in root.iter():
        is_comment = each.tag.endswith(("}comment", "}threadedComment", "}cm"))
        if is_comment and not authors.get(each.get("authorId", ""), "").startswith(THREAD):
            yield "".join(
                " " if part.tag.endswith("}p") else part.text or ""
                for part in each.iter()
                if part.tag.endswith(("}t", "}text", "}p"))
            )


def write_comments(builder: TextBuilder, texts: Iterable[str], *, hidden: bool) -> None:
    """Write comments if what is hidden is read, or else count them."""
    for text in texts:
        if hidden:
            builder.paragraph(text)
        else:
            builder.leave_out(COMMENTS, text)
