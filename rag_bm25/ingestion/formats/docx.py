"""Extract the text of DOCX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_bm25.ingestion.formats.archives import open_archive
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.html import write_html
from rag_bm25.ingestion.formats.properties import core_title

if TYPE_CHECKING:
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document


def extract(file: BinaryIO, _encoding: str | None) -> Document:
    """Extract the text of a file."""
    import mammoth

    with open_archive(file) as archive:
        title = core_title(archive)
    html = mammoth.convert_to_html(file, style_map=TITLES, convert_image=_no_image).value
    builder = TextBuilder()
    write_html(html, builder)
    return builder.build(title or builder.first_heading)


TITLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


def _no_image(_image: Any) -> list[Any]:
    return []
