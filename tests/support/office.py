"""Small documents in several formats, made where they are needed."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r" Type='
    '"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)
STYLES = "".join(
    f'<w:style w:type="paragraph" w:styleId="H{level}"><w:name w:val="heading {level}"/></w:style>' for level in (1, 2)
)


def word_paragraph(text: str, style: str = "", num: int | str = "", level: int = 0) -> str:
    """Return a paragraph of Word, with the id of its style, and the id and level of its list."""
    styled = f'<w:pStyle w:val="{style}"/>' if style else ""
    numbered = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{num}"/></w:numPr>' if num != "" else ""
    return f"<w:p><w:pPr>{styled}{numbered}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def word_list(id_: int, *levels: str, last: str = "") -> str:
    """Return a list of Word; a level is ``decimal %1.``, the form and the text of its numbers."""
    forms = [level.split(" ", 1) for level in levels]
    made = "".join(
        f'<w:lvl w:ilvl="{at}"><w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/>{last}</w:lvl>'
        for at, (form, text) in enumerate(forms)
    )
    return f'<w:abstractNum w:abstractNumId="{id_}">{made}</w:abstractNum>' + word_number(id_, id_)


def word_number(id_: int, list_id: int, more: str = "") -> str:
    return f'<w:num w:numId="{id_}"><w:abstractNumId w:val="{list_id}"/>{more}</w:num>'


def make_docx(
    path: Path,
    paragraphs: Sequence[tuple[int, str]] | str,
    title: str = "",
    numbering: str = "",
    styles: str = STYLES,
    **others: str,
) -> Path:
    """Make a document of paragraphs, each with the level of its heading or 0; or of XML. Others are parts by name."""
    body = (
        paragraphs
        if isinstance(paragraphs, str)
        else "".join(word_paragraph(text, f"H{level}" if level else "") for level, text in paragraphs)
    )
    dc = 'xmlns:dc="http://purl.org/dc/elements/1.1/"'
    members = {
        "[Content_Types].xml": TYPES,
        "_rels/.rels": RELATIONS,
        "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": f"<w:styles {W}>{styles}</w:styles>",
        "word/numbering.xml": f"<w:numbering {W}>{numbering}</w:numbering>",
        "docProps/core.xml": f"<properties {dc}><dc:title>{title}</dc:title></properties>",
    }
    members |= {f"word/{name}.xml": f"<w:part {W}>{xml}</w:part>" for name, xml in others.items()}
    return make_zip(path, members)


def make_zip(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, contents in members.items():
            archive.writestr(name, contents)
    return path


def make_epub(path: Path, pages: dict[str, str], title: str) -> Path:
    """Make a book of pages, in the order of reading."""
    items = "".join(
        f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml"/>' for name in sorted(pages)
    )
    spine = "".join(f'<itemref idref="{name}"/>' for name in pages)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<metadata><dc:title>{title}</dc:title></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = '<container><rootfiles><rootfile full-path="OEBPS/a.opf"/></rootfiles></container>'
    members = {"META-INF/container.xml": container, "OEBPS/a.opf": package}
    return make_zip(path, members | {f"OEBPS/{name}.xhtml": html for name, html in pages.items()})


def make_pdf(
    path: Path,
    pages: Sequence[str],
    title: str = "",
    outline: Sequence[tuple[str, int]] = (),
    more: Mapping[int, Sequence[tuple[int, int, str]]] | None = None,
) -> Path:
    """Make a file of pages, an outline of titles and page numbers from 0, and more text at places of pages."""
    count = len(pages)
    first_page, first_item = 5, 5 + 2 * count
    objects = {
        1: f"<< /Type /Catalog /Pages 2 0 R /Outlines {first_item} 0 R >>",
        2: f"<< /Type /Pages /Count {count} /Kids [{' '.join(f'{first_page + 2 * n} 0 R' for n in range(count))}] >>",
        3: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        4: f"<< /Title ({title}) >>",
    }
    for n, text in enumerate(pages):
        lines = " ".join(f"({line}) Tj 0 -20 Td" for line in text.split("\n"))
        stream = f"BT /F1 12 Tf 20 700 Td {lines} ET"
        stream += "".join(f" BT /F1 9 Tf {x} {y} Td ({shown}) Tj ET" for x, y, shown in (more or {}).get(n, ()))
        objects[first_page + 2 * n] = (
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {first_page + 2 * n + 1} 0 R >>"
        )
        objects[first_page + 2 * n + 1] = pdf_stream(stream)
    last = first_item + len(outline)
    objects[first_item] = f"<< /Type /Outlines /First {first_item + 1} 0 R /Last {last} 0 R /Count {len(outline)} >>"
    for at, (name, page) in enumerate(outline, first_item + 1):
        following = f"/Next {at + 1} 0 R" if at < last else ""
        target = f"[{first_page + 2 * page} 0 R /Fit]"
        objects[at] = f"<< /Title ({name}) /Parent {first_item} 0 R {following} /Dest {target} >>"
    return write_pdf(path, objects, "/Info 4 0 R")


def write_pdf(path: Path, objects: Mapping[int, str], more: str = "") -> Path:
    """Write the objects of a PDF, of which the first is its catalog."""
    data, places = b"%PDF-1.4\n", []
    for number in sorted(objects):
        places.append(len(data))
        data += f"{number} 0 obj {objects[number]} endobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    data += (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R {more} >>\n"
        f"startxref\n{len(data)}\n%%EOF"
    ).encode()
    path.write_bytes(data)
    return path


def make_pdf_page(path: Path, content: str, page: str = "", *more: str) -> Path:
    """Make a page of operators in Helvetica, as F1, or a Chinese font, as F2; further objects have numbers from 8."""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R {page}"
            " /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> /F2 5 0 R >> >> >>"
        ),
        pdf_stream(content),
        "<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H /DescendantFonts [6 0 R] >>",
        (
            "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light /DW 1000 /FontDescriptor 7 0 R"
            " /CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 4 >> >>"
        ),
        (
            "<< /Type /FontDescriptor /FontName /STSong-Light /Flags 6 /FontBBox [0 -200 1000 900] /ItalicAngle 0"
            " /Ascent 880 /Descent -120 /CapHeight 880 /StemV 80 >>"
        ),
        *more,
    ]
    return write_pdf(path, dict(enumerate(objects, 1)))


def pdf_stream(content: str, entries: str = "") -> str:
    """Return a stream object."""
    return f"<< {entries} /Length {len(content)} >> stream\n{content}\nendstream"
