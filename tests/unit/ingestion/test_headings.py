"""Each chunk has the path of its headings, in every format, and what is embedded says each of them once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.files import run, write
from support.office import make_docx, make_epub, make_pdf

from rag_bm25 import BM25Index
from rag_bm25.documents.contexts import CONTEXTUALIZED_BY, HEADINGS, embedded_text
from rag_bm25.ingestion.markup import read_plain

BODY = "It is opened by hand, and shut again."


def make_slides(path: Path) -> Path:
    presentation = pytest.importorskip("pptx").Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Valves", BODY
    presentation.save(path)
    return path


def make_sheet(path: Path) -> Path:
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.title = "Valves"
    for row in (("part", "state"), ("north", BODY), ("south", BODY)):
        book.active.append(row)
    book.save(path)
    return path


LAW, BOOK = "第一编 Pumps\n第二章 Valves\n", "PART I. Pumps\n\nChapter 2 Valves\n\n"
PAGE = f"<title>Pumps</title><h1>Pumps</h1><h2>Valves</h2><p>{BODY}</p>"
FORMATS: dict[str, tuple[list[str], Callable[[Path], Path]]] = {
    "a.md": (["Pumps", "Valves"], lambda path: write(path, f"# Pumps\n\n## `Valves`\n\n{BODY}")),
    "b.md": (["Pumps", "Valves"], lambda path: write(path, f"Pumps\n=====\n\n## [Valves](v.md) ##\n\n{BODY}")),
    "a.rst": (["Pumps", "Valves"], lambda path: write(path, f"Pumps\n=====\n\nValves\n------\n\n{BODY}")),
    "a.html": (["Pumps", "Valves"], lambda path: write(path, PAGE)),
    "a.epub": (["Pumps", "Valves"], lambda path: make_epub(path, {"p": PAGE}, "Pumps")),
    "a.docx": (["Pumps", "Valves"], lambda path: make_docx(path, [(1, "Pumps"), (2, "Valves"), (0, BODY)], "Pumps")),
    "a.pdf": (["Valves"], lambda path: make_pdf(path, [f"Valves\n{BODY}"], "Pumps", [("Valves", 0)])),
    "a.pptx": (["Valves"], make_slides),
    "a.xlsx": (["Valves"], make_sheet),
    "a.txt": (["第一编 Pumps", "第二章 Valves"], lambda path: write(path, f"{LAW}第三条 {BODY}")),
    "b.txt": (["PART I. Pumps", "Chapter 2 Valves"], lambda path: write(path, f"{BOOK}{BODY}")),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_chunk_has_the_path_of_its_headings_and_says_each_once(name: str, tmp_path: Path, index: BM25Index) -> None:
    if name.endswith("pdf"):
        pytest.importorskip("pypdfium2")
    path, make = FORMATS[name]
    run(index, make(tmp_path / name))
    chunks = list(index.chunks())
    assert {tuple(chunk.metadata["headings"]) for chunk in chunks} == {tuple(path)}
    assert any(BODY[-20:] in chunk.text for chunk in chunks)
    for chunk in chunks:
        embedded = embedded_text(chunk.text, {**chunk.metadata, CONTEXTUALIZED_BY: HEADINGS}, ())
        assert [embedded.count(each) for each in ("Valves", path[0])] == [1, 1]


@pytest.mark.parametrize(
    ("line", "is_chapter"),
    [
        ("第十二章 劳动合同", True), ("　第二节　解除", True), ("第一章总则", True), ("第三编", True),
        ("第三章规定的除外。", False), ("第三条 合同", False), ("依照第三章", False), ("第三章" + "很长" * 40, False),
        ("CHAPTER IV", True), ("Chapter 1. The Valve", True), ("Part 2", True), ("Section 12 Scope", True),
        ("Chapter 4 of the book", False), ("Part 2 is open.", False), ("Chapters 4", False), ("Part two", False),
    ],
)  # fmt: skip
def test_numbered_chapters_of_plain_text(line: str, is_chapter: bool) -> None:
    document = read_plain(f"Before it.\n\n{line}\n\n{BODY}")
    assert [heading.title for heading in document.headings] == [line.strip()] * is_chapter


def test_a_wrapped_line_that_begins_like_a_chapter_is_none() -> None:
    assert read_plain("as is said in\nChapter 4 The\nvalve").headings == ()
