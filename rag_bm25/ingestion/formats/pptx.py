"""Extract the text of PPTX: each slide under its title, with its notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_bm25.ingestion.formats.archives import open_archive
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.drawings import chart_rows, diagram_lines
from rag_bm25.ingestion.formats.properties import core_title

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document

HIDDEN = {"0", "false"}  # values of the attribute that shows a slide
DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
DATA = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}dm"
NUMBER, FOOTERS = "sldNum", {"dt", "ftr"}  # kinds of what masters put on each slide


def extract(file: BinaryIO, *, hidden: bool, **_options: object) -> Document:
    """Extract the text of a file."""
    import pptx

    with open_archive(file) as archive:
        title = core_title(archive)
    builder, footers = TextBuilder(), set[str]()
    for slide in pptx.Presentation(file).slides:
        builder.page()
        if slide.element.get("show") in HIDDEN and not hidden:
            continue
        heading = slide.shapes.title
        if heading is not None:
            builder.heading(1, heading.text_frame.text)
        for shape in slide.shapes:
            if (heading is None or shape.shape_id != heading.shape_id) and not _repeats(shape, footers):
                _write(builder, shape)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            builder.paragraph(slide.notes_slide.notes_text_frame.text)
    return builder.build(title, builder.first_heading)


def _repeats(shape: Any, footers: set[str]) -> bool:
    """Return whether a shape is the number of a slide, or a date or footer that was on one before."""
    kind = shape.element.ph.get("type") if shape.is_placeholder else ""
    if kind not in FOOTERS:
        return bool(kind == NUMBER)
    is_known = shape.text_frame.text in footers
    footers.add(shape.text_frame.text)
    return is_known


def _write(builder: TextBuilder, shape: Any) -> None:
    """Write the text of a shape, and of those that a group or a table holds."""
    if hasattr(shape, "shapes"):
        for each in shape.shapes:
            _write(builder, each)
    elif shape.has_text_frame:
        builder.paragraph("\n".join(map(_paragraph, shape.text_frame.paragraphs)))
    elif (diagram := next(shape.element.iter(DIAGRAM), None)) is not None:
        builder.paragraph("\n".join(diagram_lines(shape.part.related_part(diagram.get(DATA)).blob)))
    else:
        builder.new_line(2)
        for row in _rows(shape):
            builder.row(row)
        builder.new_line(2)


def _paragraph(paragraph: Any) -> str:
    """Return the text of a paragraph, below a level of a list with its indentation."""
    text = str(paragraph.text).replace("\v", "\n")
    return f"{'  ' * paragraph.level}- {text}" if paragraph.level and text.strip() else text


def _rows(shape: Any) -> Iterable[Iterable[str]]:
    """Return the rows of a table or a chart."""
    if getattr(shape, "has_chart", False):
        return chart_rows(shape.chart.part.blob)
    return ((cell.text for cell in row.cells) for row in shape.table.rows) if getattr(shape, "has_table", False) else ()
