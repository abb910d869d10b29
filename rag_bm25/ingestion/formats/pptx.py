"""Extract the text of PPTX: each slide under its title, with its notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_bm25.ingestion.formats.archives import open_archive
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.properties import core_title

if TYPE_CHECKING:
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document

HIDDEN = {"0", "false"}  # values of the attribute that shows a slide


def extract(file: BinaryIO, *, hidden: bool, **_options: object) -> Document:
    """Extract the text of a file."""
    import pptx

    with open_archive(file) as archive:
        title = core_title(archive)
    builder = TextBuilder()
    for slide in pptx.Presentation(file).slides:
        builder.page()
        if slide.element.get("show") in HIDDEN and not hidden:
            continue
        heading = slide.shapes.title
        if heading is not None:
            builder.heading(1, heading.text_frame.text)
        for shape in slide.shapes:
            if heading is None or shape.shape_id != heading.shape_id:
                _write(builder, shape)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            builder.paragraph(slide.notes_slide.notes_text_frame.text)
    return builder.build(title, builder.first_heading)


def _write(builder: TextBuilder, shape: Any) -> None:
    """Write the text of a shape, and of those that a group or a table holds."""
    if hasattr(shape, "shapes"):
        for each in shape.shapes:
            _write(builder, each)
    elif shape.has_text_frame:
        builder.paragraph(shape.text_frame.text.replace("\v", "\n"))
    elif getattr(shape, "has_table", False):
        builder.new_line(2)
        for row in shape.table.rows:
            builder.row(cell.text for cell in row.cells)
        builder.new_line(2)
