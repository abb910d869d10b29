"""Extract the text of PPTX: each slide under its title, with its notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_bm25.ingestion.documents import HIDDEN, NUMBERS, RUNNING
from rag_bm25.ingestion.formats.archives import open_archive
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.drawings import chart_rows, diagram_lines
from rag_bm25.ingestion.formats.numbering import formula_text
from rag_bm25.ingestion.formats.properties import comments, core_title, write_comments

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document

OFF = {"0", "false"}  # values of the attribute that shows a slide
DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
DATA = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}dm"
ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"
FORMULA = "{http://schemas.microsoft.com/office/drawing/2010/main}m"
TEXT = "{http://schemas.openxmlformats.org/drawingml/2006/main}t"
NUMBER, FOOTERS = "sldNum", {"dt", "ftr"}  # kinds of what masters put on each slide


def extract(file: BinaryIO, *, hidden: bool, repeated: bool, **_options: object) -> Document:
    """Extract the text of a file."""
    import pptx

    builder, footers = TextBuilder(repeated=repeated), set[str]()
    with open_archive(file) as archive:
        title, texts = core_title(archive), comments(archive, builder)
    for slide in pptx.Presentation(file).slides:
        builder.page()
        _rewrite(slide.element)
        if slide.element.get("show") in OFF and not hidden:
            unseen = TextBuilder()
            _write_slide(unseen, slide, set())
            builder.left_out[HIDDEN] += unseen.size
        else:
            _write_slide(builder, slide, footers)
    write_comments(builder, texts, hidden=hidden)
    return builder.build(title, builder.first_heading)


def _rewrite(slide: Any) -> None:
    """Put what the parser knows in place of alternatives, as boxes with formulas are, and of formulas."""
    for found in list(slide.iter(FORMULA)):
        run, text = found.makeelement(TEXT.replace("}t", "}r")), found.makeelement(TEXT)
        text.text, run.tail = " ".join(formula_text(found).split()), found.tail
        run.append(text)
        found.getparent().replace(found, run)
    for found in list(slide.iter(ALTERNATIVES)):
        parent, forms = found.getparent(), [each for each in found if next(each.iter(TEXT), None) is not None]
        at = parent.index(found)
        parent[at : at + 1] = list(next(iter(forms or found), ()))


def _write_slide(builder: TextBuilder, slide: Any, footers: set[str]) -> None:
    heading = slide.shapes.title
    if heading is not None:
        builder.heading(1, heading.text_frame.text)
    for shape in slide.shapes:
        if heading is not None and shape.shape_id == heading.shape_id:
            continue
        kind = _kind_repeated(shape, footers)
        if kind and not builder.repeated:
            builder.leave_out(kind, shape.text_frame.text)
        else:
            _write(builder, shape)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        builder.paragraph(slide.notes_slide.notes_text_frame.text)


def _kind_repeated(shape: Any, footers: set[str]) -> str:
    """Return the kind of a shape that is the number of a slide, or a date or footer that was on one before; else ""."""
    kind = shape.element.ph.get("type") if shape.is_placeholder else ""
    if kind not in FOOTERS:
        return NUMBERS if kind == NUMBER else ""
    is_known = shape.text_frame.text in footers
    footers.add(shape.text_frame.text)
    return RUNNING if is_known else ""


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
