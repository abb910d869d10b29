"""Extract the text of XLSX: each sheet under its name, a row a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_bm25.ingestion.formats.archives import open_archive
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.properties import core_title

if TYPE_CHECKING:
    from typing import BinaryIO

    from rag_bm25.ingestion.documents import Document


def extract(file: BinaryIO, _encoding: str | None) -> Document:
    """Extract the text of a file: the values of formulas as they were last computed."""
    import openpyxl

    with open_archive(file) as archive:
        title = core_title(archive)
    book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    builder = TextBuilder()
    for sheet in book.worksheets:
        sheet.reset_dimensions()  # as a program may have written them wrongly
        builder.heading(1, sheet.title)
        for row in sheet.iter_rows(values_only=True):
            cells = [" ".join(str(cell).split()) for cell in row if cell is not None]
            if any(cells):
                builder.new_line()
                builder.write(" | ".join(filter(None, cells)))
    book.close()
    return builder.build(title)
