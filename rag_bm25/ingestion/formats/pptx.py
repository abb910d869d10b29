"""Extract the text of PPTX: each slide under its title, with its notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_bm25.ingestion.formats.archives import open_archive
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.properties import core_title

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document


def extract(file: BinaryIO, _encoding: str | None) -> Document:
    """Extract the text of a file."""
    import pptx

    with open_archive(file) as archive:
        title = core_title(archive)
    builder = TextBuilder()
    for slide in pptx.Presentation(file).slides:
        builder.page()
        heading = slide.shapes.title
        if heading is not None:
            builder.heading(1, heading.text_frame.text)
        for text in _texts(shape for shape in slide.shapes if heading is None or shape.shape_id != heading.shape_id):
            builder.paragraph(text)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            builder.paragraph(slide.notes_slide.notes_text_frame.text)
    return builder.build(title or builder.first_heading)


def _texts(shapes: Iterable[Any]) -> Iterator[str]:
    """Yield the texts of shapes, and of those that groups and tables hold."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _texts(shape.shapes)
        elif shape.has_text_frame:
            yield shape.text_frame.text.replace("\v", "\n")
        elif getattr(shape, "has_table", False):
            yield "\n".join(" | ".join(" ".join(cell.text.split()) for cell in row.cells) for row in shape.table.rows)
