"""XLSX: tables have headers of their own, numbers all of their digits, and formulas are not lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.files import write

from rag_bm25 import IndexConfig
from rag_bm25.ingestion.files import find_files
from rag_bm25.ingestion.reading import read_document, read_file
from rag_bm25.ingestion.splitting import splitter

openpyxl = pytest.importorskip("openpyxl")
HEADER = ["Supplier", "Discount", "Days"]


def book(path: Path, *rows: list[object], forms: tuple[str, ...] = ()) -> Path:
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    for at, form in enumerate(forms, 1):
        made.active.cell(1, at).number_format = form
    made.save(path)
    return path


def lines(path: Path) -> list[str]:
    return read_document(path).text.strip().split("\n")[2:]


@pytest.mark.parametrize(
    ("above", "label"),
    [
        ([["Part", "Stock", "Shelf"], ["Bolt", 12, "A1"], []], ""),
        ([["A title"]], "A title\n"),
        ([["(i)", None, "A title"], []], ""),
        ([["A title"], ["and a subtitle"], []], "and a subtitle\n"),
        ([["Part", 2001, 2002], ["Bolt", 12, 7], [], ["A title"]], "A title\n"),
    ],
)
def test_each_table_of_a_sheet_has_its_own_header(above: list[list[object]], label: str, tmp_path: Path) -> None:
    rows = [[f"Supplier {n:02d} of the north", n, 30 + n] for n in range(40)]
    book(tmp_path / "a.xlsx", *above, HEADER, *rows)
    (file,) = find_files([tmp_path]).files
    chunks = [piece.text for piece in read_file(file, splitter(IndexConfig(chunk_size=300)))]
    later = [chunk for chunk in chunks if "Supplier 00" not in chunk and "Supplier 01" not in chunk]
    assert len(later) > 2
    assert all(chunk.startswith(f"{label}Supplier | Discount | Days\nSupplier ") for chunk in later)


def test_blank_rows_within_a_table_do_not_end_it(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", ["Part", "2001"], ["Bolt", 1], [], ["Nut", 2], [], ["Steel"], ["Pin", 3])
    assert lines(path) == ["Part | 2001", "Bolt | 1", "Nut | 2", "Steel |", "Pin | 3"]


def test_titles_and_notes_are_lines_of_their_own(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", [None, None, "Sales"], [], ["A", "B"], ["x", 1], [], ["A note"], [None, "another"])
    assert lines(path) == ["Sales", "", "A | B", "x | 1", "", "A note", "another"]


def test_whole_numbers_are_written_in_full(tmp_path: Path) -> None:
    numbers = [110101199003070000, 6222021234567890, 13800138000, -2e17, 1e300]
    shown = "110101199003070000 | 6222021234567890 | 13800138000 | -200000000000000000 | 1e+300"
    assert lines(book(tmp_path / "a.xlsx", numbers)) == [shown]


def test_formats_that_scale_divide(tmp_path: Path) -> None:
    forms = ('0.0,,"M"', "#,##0,", "#,##0", "0.0")
    assert lines(book(tmp_path / "a.xlsx", [1_500_000] * 4, forms=forms)) == ["1.5M | 1,500 | 1,500,000 | 1500000.0"]


def test_a_formula_without_a_stored_value_is_shown(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", ["May", 120], ["Total", "=SUM(B1:B1)"], ["Blank", None])
    assert lines(path) == ["May | 120", "Total | =SUM(B1:B1)", "Blank |"]


def test_a_formula_with_a_stored_value_has_that(tmp_path: Path) -> None:
    import zipfile

    path = book(tmp_path / "a.xlsx", ["Total", "=1+1"])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = (
        parts[sheet].replace(b"<v></v>", b"<v>2</v>").replace(b"<v />", b"<v>2</v>").replace(b"<v/>", b"<v>2</v>")
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    assert lines(write(tmp_path / "b.xlsx", path.read_bytes())) == ["Total | 2"]
