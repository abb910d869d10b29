"""Extract the text of notebooks of Jupyter: their Markdown, and their code with the texts that it gave."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import InputError
from rag_bm25.ingestion.formats.building import UNSTORABLE, TextBuilder
from rag_bm25.ingestion.formats.html import write_html
from rag_bm25.ingestion.markup import read_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # of terminals
_OBJECT = re.compile(r"<[^<>\n]*>\s*")  # what Python shows of a figure


def extract(file: BinaryIO, **_options: object) -> Document:
    """Extract the text of a file as Markdown."""
    notebook = json.load(file)
    cells = [cell for sheet in (notebook, *notebook.get("worksheets", ())) for cell in sheet.get("cells", ())]
    if not cells and "cells" not in notebook:
        raise InputError("it is no notebook: it has no cells")
    document = read_markdown("\n\n".join(filter(None, (block for cell in cells for block in _blocks(cell)))))
    title = notebook.get("metadata", {}).get("title")
    return replace(document, title=title) if isinstance(title, str) and title else document


def _blocks(cell: Any) -> Iterator[str]:
    """Yield the text of a cell, and what was printed."""
    source = _text(cell.get("source", cell.get("input", "")))
    if cell.get("cell_type") != "code":
        yield source
        return
    yield _fenced(source)
    for output in cell.get("outputs", ()):
        if output.get("name") != "stderr":
            yield _shown(output.get("data", {}), _text(output.get("text") or ""))


def _shown(data: Any, printed: str) -> str:
    """Return what was printed, or else the text of what was shown, for which Python prints only its kind."""
    printed = printed or _text(data.get("text/plain", ""))
    if printed and not _OBJECT.fullmatch(printed):
        return _fenced(_COLOURS.sub("", printed))
    if "text/markdown" in data:
        return _text(data["text/markdown"])
    builder = TextBuilder()
    write_html(_text(data.get("text/html", "")), builder)
    return _fenced(builder.build().text)


def _text(lines: Any) -> str:
    return UNSTORABLE.sub("", lines if isinstance(lines, str) else "".join(lines))


def _fenced(text: str) -> str:
    fence = "~~~" if "```" in text else "```"
    return f"{fence}\n{text.strip(chr(10))}\n{fence}" if text.strip() else ""
