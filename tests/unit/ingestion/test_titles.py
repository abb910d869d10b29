"""Titles that documents give, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.office import make_docx

from rag_bm25.ingestion.formats.titles import is_title
from rag_bm25.ingestion.reading import read_document


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(anonymous)",
        "PowerPoint 演示文稿",
        "PowerPoint Presentation",
        "<4D6963726F736F667420576F7264202D2041>",
        "Slide 1",
        "Слайд 1",
        "doi:10.1234/j.example.2020.01.006",
        "(Microsoft Word - pump.doc)",
        "Untitled-1",
        "88300 162..177",
        "report.docx",
        "report.odt",
        "上",
        "2021-03",
    ],
)
def test_what_programs_leave_is_no_title(text: str) -> None:
    assert not is_title(text)


@pytest.mark.parametrize(
    "text", ["Slides of the pump", "水泵", "1984 and after", "Documenting pumps", "A.I.", "Page layout"]
)
def test_what_people_write_is_a_title(text: str) -> None:
    assert is_title(text)


def test_the_first_heading_is_the_title_where_that_is_none(tmp_path: Path) -> None:
    document = read_document(make_docx(tmp_path / "a.docx", [(1, "Pumps"), (0, "Water.")], title="Microsoft Word - a"))
    assert document.title == "Pumps"
