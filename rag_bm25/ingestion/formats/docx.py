"""Extract the text of DOCX."""

from __future__ import annotations

import re
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from rag_bm25.ingestion.documents import COMMENTS, HIDDEN, LOST, NUMBERS, RUNNING
from rag_bm25.ingestion.formats.archives import open_archive
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.drawings import chart_rows, diagram_lines
from rag_bm25.ingestion.formats.html import write_html
from rag_bm25.ingestion.formats.numbering import STYLES as STYLES_PART
from rag_bm25.ingestion.formats.numbering import write_formulas, write_numbers
from rag_bm25.ingestion.formats.properties import core_title
from rag_bm25.ingestion.formats.word_blocks import CODE, HEADING, is_on, mark_blocks, part_tables
from rag_bm25.ingestion.formats.word_loss import num_lost

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document

# Headings before lists, as a heading may be numbered. The numbers are in the texts; contents pages repeat headings.
STYLES = "\n".join(
    [
        "p[style-name='Title'] => h1:fresh",
        f"p.{HEADING} => h2:fresh",
        f"p.{CODE} => pre:separator('\\n')",
        "p[style-name='Subtitle'] => p:fresh",
        "p[style-name='TOC Heading'] => contents > p:fresh",
        *(f"p[style-name='toc {level}'] => contents > p:fresh" for level in range(1, 10)),
        *(f"p.Heading{level} => h{level}:fresh" for level in range(1, 7)),
        *(f"p[style-name='heading {level}'] => h{level}:fresh" for level in range(1, 7)),
        *(f"p:ordered-list({level}) => dl > dd:fresh" for level in range(1, 10)),
        *(f"p:unordered-list({level}) => ul > li:fresh" for level in range(1, 10)),
    ]
)


_DOCUMENT = re.compile(r"word/document\d*\.xml")
WRAPPERS = {"fldSimple", "dir", "bdo"}  # around runs: fields, as the numbers of captions, and directions of writing
BREAKS = {"cr": "br", "br": "br", "ptab": "tab"}  # by what mammoth knows that parts words as well
GRAPHICS = ("}chart", "}relIds")
TEXTS = ("}t", "}tab", "}br", "}cr", "}ptab")
_HEADER, _FOOTER, _COMMENTS = (re.compile(rf"word/{name}\d*\.xml") for name in ("header", "footer", "comments"))
_WORD = re.compile(r"[^\W\d_]")
_PAGE = re.compile(r"\b(?:page|of)\b|[第共页頁]", re.IGNORECASE)


def extract(file: BinaryIO, *, hidden: bool, repeated: bool, **_options: object) -> Document:
    """Extract the text of a file."""
    import mammoth

    with open_archive(file) as archive:
        title = core_title(archive)
        parts = {name: archive.read(name) for name in archive.namelist() if name.endswith((".xml", ".rels"))}
    html = mammoth.convert_to_html(_rewrite(parts, hidden=hidden), style_map=STYLES, convert_image=_no_image).value
    body, builder = TextBuilder(repeated=repeated), TextBuilder(repeated=repeated)
    write_html(html, body)
    text = body.build().text
    shown = set(text.split("\n"))
    _write_running(builder, _lines_of(parts, _HEADER), set(shown))
    write_html(html, builder)
    _write_running(builder, _lines_of(parts, _FOOTER), set(shown))
    comments = list(_lines_of(parts, _COMMENTS))
    for line in comments if hidden else ():
        builder.paragraph(line)
    if not hidden:
        builder.left_out[HIDDEN] = sum(map(len, _hidden_texts(parts)))
        builder.left_out[COMMENTS] = sum(map(len, comments))
    builder.left_out[LOST] = num_lost(parts, text)
    return builder.build(title, builder.first_heading)


def _rewrite(parts: dict[str, bytes], *, hidden: bool) -> BytesIO:
    """Copy a document without its media, and with text in place of what mammoth does not know."""
    copy = BytesIO()
    with zipfile.ZipFile(copy, "w") as target:
        for name, text in parts.items():
            rewritten = _rewrite_document(text, parts, hidden=hidden) if _DOCUMENT.fullmatch(name) else text
            target.writestr(name, rewritten)
    return copy


def _rewrite_document(text: bytes, parts: dict[str, bytes], *, hidden: bool) -> bytes:
    document = ET.fromstring(text)  # noqa: S314 - expat bounds entities
    _known(document, _drawn(parts), hidden=hidden)
    write_numbers(document, parts)
    write_formulas(document)
    part_tables(document)
    mark_blocks(document, ET.fromstring(parts.get(STYLES_PART, b"<styles/>")))  # noqa: S314 - expat bounds entities
    return ET.tostring(document)


def _no_image(_image: Any) -> list[Any]:
    return []


def _known(element: ET.Element, drawn: Mapping[str, list[str]], *, hidden: bool) -> list[ET.Element]:
    """Return what mammoth knows in place of an element."""
    children = [each for child in element for each in _known(child, drawn, hidden=hidden)]
    element[:] = children
    space, _, name = element.tag.rpartition("}")
    if name in WRAPPERS:
        return children
    if name == "r" and not hidden and _is_hidden(element):
        return []
    if name == "ruby":
        return [text for base in element.iterfind("{*}rubyBase") for text in base.iter(f"{space}}}t")]
    if name in BREAKS:
        return [ET.Element(f"{space}}}{BREAKS[name]}")]
    if name == "drawing":
        return [*_boxes(element), *_lines(element, drawn)]
    if name == "AlternateContent":
        return _alternative(element)
    return [element]


def _is_hidden(run: ET.Element) -> bool:
    return is_on(run.find("{*}rPr/{*}vanish"))


def _boxes(drawing: ET.Element) -> list[ET.Element]:
    """Return a drawing with the texts of its boxes in the old form, which mammoth knows."""
    boxes = list(_topmost_boxes(drawing))
    if not boxes:
        return [drawing]
    picture = ET.Element(drawing.tag.replace("}drawing", "}pict"))
    picture.extend(boxes)
    return [picture]


def _drawn(parts: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Return the lines of each chart and diagram, by its name in the document."""
    relations = ET.fromstring(parts.get("word/_rels/document.xml.rels", b"<none/>"))  # noqa: S314 - as above
    found = {}
    for each in relations:
        name, kind = f"word/{each.get('Target')}", (each.get("Type") or "").rpartition("/")[2]
        if name in parts and kind == "chart":
            found[each.get("Id", "")] = [" | ".join(row).strip() for row in chart_rows(parts[name])]
        elif name in parts and kind == "diagramData":
            found[each.get("Id", "")] = list(diagram_lines(parts[name]))
    return found


def _lines(drawing: ET.Element, drawn: Mapping[str, list[str]]) -> list[ET.Element]:
    """Return the lines of the charts and diagrams of a drawing."""
    space = drawing.tag.removesuffix("drawing")
    names = (value for each in drawing.iter() if each.tag.endswith(GRAPHICS) for value in each.attrib.values())
    made = []
    for line in (line for name in names for line in drawn.get(name, ())):
        made += [ET.Element(f"{space}br"), ET.Element(f"{space}t")]
        made[-1].text = line
    return [*made, ET.Element(f"{space}br")] if made else []


def _topmost_boxes(element: ET.Element) -> Iterator[ET.Element]:
    for child in element:
        if child.tag.endswith("}txbxContent"):
            yield child
        else:
            yield from _topmost_boxes(child)


def _alternative(element: ET.Element) -> list[ET.Element]:
    """Return the old form of a drawing, which mammoth takes, or else the new one if only that has texts."""
    if any(each.find(".//{*}t") is not None for each in element.iterfind("{*}Fallback")):
        return [element]
    return [each for choice in element.findall("{*}Choice")[:1] for each in choice] or [element]


def _hidden_texts(parts: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the texts of hidden runs."""
    for name in filter(_DOCUMENT.fullmatch, parts):
        for run in ET.fromstring(parts[name]).iterfind(".//{*}r"):  # noqa: S314 - expat bounds entities
            if _is_hidden(run):
                yield from (text.text or "" for text in run.iterfind("{*}t"))


def _lines_of(parts: Mapping[str, bytes], names: re.Pattern[str]) -> Iterator[str]:
    """Yield the lines of headers, footers or comments."""
    for name in sorted(filter(names.fullmatch, parts)):
        root = ET.fromstring(parts[name])  # noqa: S314 - expat bounds entities
        _known(root, {}, hidden=False)
        for paragraph in root.iterfind(".//{*}p"):
            line = " ".join("".join(each.text or " " for each in paragraph.iter() if each.tag.endswith(TEXTS)).split())
            if line:
                yield line


def _write_running(builder: TextBuilder, lines: Iterable[str], seen: set[str]) -> None:
    """Write lines of headers or footers, each once, which were not seen elsewhere and are no page numbers."""
    for line in lines:
        kind = RUNNING if _WORD.search(_PAGE.sub("", line)) else NUMBERS
        if builder.repeated or (kind == RUNNING and line not in seen):
            builder.paragraph(line)
            seen.add(line)
        else:
            builder.leave_out(kind, line)
