"""Extract the text of DOCX."""

from __future__ import annotations

import re
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from rag_bm25.ingestion.formats.archives import open_archive
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.html import write_html
from rag_bm25.ingestion.formats.numbering import write_formulas, write_numbers
from rag_bm25.ingestion.formats.properties import core_title

if TYPE_CHECKING:
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document

# Headings before lists, as a heading may be numbered. The numbers are in the texts; contents pages repeat headings.
STYLES = "\n".join(
    [
        "p[style-name='Title'] => h1:fresh",
        "p[style-name='Subtitle'] => p:fresh",
        "p[style-name='TOC Heading'] => !",
        *(f"p[style-name='toc {level}'] => !" for level in range(1, 10)),
        *(f"p.Heading{level} => h{level}:fresh" for level in range(1, 7)),
        *(f"p[style-name='heading {level}'] => h{level}:fresh" for level in range(1, 7)),
        *(f"p:ordered-list({level}) => dl > dd:fresh" for level in range(1, 10)),
        *(f"p:unordered-list({level}) => ul > li:fresh" for level in range(1, 10)),
    ]
)


_DOCUMENT = re.compile(r"word/document\d*\.xml")


def extract(file: BinaryIO, **_options: object) -> Document:
    """Extract the text of a file."""
    import mammoth

    with open_archive(file) as archive:
        title = core_title(archive)
        rewritten = _rewrite(archive)
    html = mammoth.convert_to_html(rewritten, style_map=STYLES, convert_image=_no_image).value
    builder = TextBuilder()
    write_html(html, builder)
    return builder.build(title, builder.first_heading)


def _rewrite(archive: zipfile.ZipFile) -> BytesIO:
    """Copy a document without its media; its numbers and formulas, which mammoth leaves out, are text."""
    copy = BytesIO()
    parts = {name: archive.read(name) for name in archive.namelist() if name.endswith((".xml", ".rels"))}
    with zipfile.ZipFile(copy, "w") as target:
        for name, text in parts.items():
            target.writestr(name, _rewrite_document(text, parts) if _DOCUMENT.fullmatch(name) else text)
    return copy


def _rewrite_document(text: bytes, parts: dict[str, bytes]) -> bytes:
    document = ET.fromstring(text)  # noqa: S314 - expat bounds entities
    write_numbers(document, parts)
    write_formulas(document)
    return ET.tostring(document)


def _no_image(_image: Any) -> list[Any]:
    return []
