"""What is left out on purpose is counted by its kind, and an option brings each kind back."""

from __future__ import annotations

import zipfile
from importlib import import_module
from pathlib import Path

import pytest
from support.files import write
from support.office import make_docx, make_epub, word_paragraph

from rag_bm25.ingestion.documents import BESIDE, COMMENTS, CONTENTS, DAMAGED, HIDDEN, MENUS, NUMBERS, RUNNING
from rag_bm25.ingestion.reading import ReadOptions, read_document

MAIN = f"<main><p>{'Prose. ' * 40}</p></main>"
LINKS = "<div><a href=1>One</a> <a href=2>Two</a> <a href=3>Three</a> <a href=4>Four</a> <a href=5>Five</a></div>"


def check(path: Path, left_out: dict[str, int], *words: str) -> None:
    """Check what is left out by default, and that the options bring all of it back."""
    read = read_document(path)
    assert (read.left_out, [word for word in words if word in read.text]) == (left_out, [])
    kept = read_document(path, ReadOptions(hidden=True, repeated=True))
    assert (kept.left_out, [word for word in words if word not in kept.text]) == ({}, [])


@pytest.mark.parametrize(
    ("html", "left_out", "words"),
    [
        ("<nav>Home  page</nav><p>a", {MENUS: 9}, ["Home"]),
        ("<ul role=navigation><li>Home</ul><footer>Imprint</footer>a", {MENUS: 11}, ["Home", "Imprint"]),
        ("a<button>Buy</button><select><option>Red</select>", {MENUS: 6}, ["Buy", "Red"]),
        (LINKS + "word " * 30, {MENUS: 19}, ["Three"]),
        ("a<p hidden>secret</p><i style='display:none'>x</i>", {HIDDEN: 7}, ["secret", "x"]),
        (f"<h2>Read on</h2><p>too<table><tr><td>b<td>c</table>{MAIN}", {BESIDE: 13}, ["Read on", "too", "b | c"]),
        ("<li><a href=#a>Pumps</a><li>x<h2 id=a>Pumps</h2>y", {CONTENTS: 7}, ["- Pumps\n"]),
        ("a<script>var x</script><style>p</style><svg>s</svg><h2>b<a class=headerlink>#</a></h2>", {}, []),
    ],
)
def test_what_a_page_has_beside_its_text_is_counted(
    html: str, left_out: dict[str, int], words: list[str], tmp_path: Path
) -> None:
    check(write(tmp_path / "a.html", html), left_out, *words)


def test_a_table_that_was_hidden_is_read_with_its_cells(tmp_path: Path) -> None:
    path = write(tmp_path / "a.html", "x<div hidden><table><tr><td>a<td>b<tr><td>c<td>d</table></div>")
    assert "a | b\nc | d" in read_document(path, ReadOptions(hidden=True)).text


def test_a_table_in_a_menu_that_was_never_closed_keeps_its_cells(tmp_path: Path) -> None:
    document = read_document(write(tmp_path / "a.html", "<nav><table><tr><td>a<td>b<tr><td>c<td>d</table>"))
    assert (document.text.strip(), document.left_out) == ("a | b\nc | d", {})


def test_what_a_book_has_beside_its_text_is_counted(tmp_path: Path) -> None:
    check(make_epub(tmp_path / "a.epub", {"a.xhtml": "<nav>Home</nav><p>x"}, "Book"), {MENUS: 4}, "Home")


def test_comments_of_markdown_are_counted(tmp_path: Path) -> None:
    check(write(tmp_path / "a.md", "# a\n\n<!-- later -->b\n"), {COMMENTS: 14}, "later")


def test_what_word_repeats_or_hides_is_counted(tmp_path: Path) -> None:
    pytest.importorskip("mammoth")
    body = f"{word_paragraph('Pumps 4', 'TOC1')}<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>secret</w:t></w:r></w:p>"
    head, styles = (
        word_paragraph("Nordhavn"),
        "<w:style w:type='paragraph' w:styleId='TOC1'><w:name w:val='toc 1'/></w:style>",
    )
    parts = {"header1": head, "header2": head, "footer1": word_paragraph("Page 4"), "styles": styles}
    path = make_docx(tmp_path / "a.docx", body + word_paragraph("Text."), **parts)
    check(path, {RUNNING: 8, NUMBERS: 6, CONTENTS: 7, HIDDEN: 6}, "Page 4", "Pumps 4", "secret")


def test_what_sheets_hide_is_counted(tmp_path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (["a", "left", "c"], ["below", "x", "y"]):
        book.active.append(row)
    book.active.row_dimensions[2].hidden = book.active.column_dimensions["B"].hidden = True
    book.create_sheet("secret").sheet_state = "hidden"
    book.save(tmp_path / "a.xlsx")
    check(tmp_path / "a.xlsx", {HIDDEN: len("left" + "below x y" + "secret\n\n")}, "left", "below", "secret")


def test_what_slides_repeat_or_hide_is_counted(tmp_path: Path) -> None:
    pptx = pytest.importorskip("pptx")
    deck = pptx.Presentation()
    for number, show in enumerate("110", 1):
        slide = deck.slides.add_slide(deck.slide_layouts[6])
        slide.element.set("show", show)
        for kind, text in (("ftr", "Nordland"), ("sldNum", f"4{number}")):
            box = slide.shapes.add_textbox(0, 0, 100, 100)
            box.text_frame.text = text
            space = "http://schemas.openxmlformats.org/presentationml/2006/main"
            box._element.nvSpPr.nvPr.append(pptx.oxml.parse_xml(f'<p:ph xmlns:p="{space}" type="{kind}" idx="9"/>'))
    deck.save(tmp_path / "a.pptx")
    check(tmp_path / "a.pptx", {NUMBERS: 4, RUNNING: 8, HIDDEN: len("Nordland\n\n")}, "41", "43")


def test_the_comments_of_sheets_are_counted(tmp_path: Path) -> None:
    """What Excel keeps for programs that know no threads is no comment."""
    pytest.importorskip("openpyxl")
    book = import_module("openpyxl").Workbook()
    book.active["A1"] = "a"
    book.save(tmp_path / "a.xlsx")
    authors = "<authors><author>Ann</author><author>tc={7}</author></authors>"
    note = "<comment authorId='0'><text><r><t>No</t></r><r><t>te</t></r></text></comment>"
    thread = "<comment authorId='1'><text><t>[Threaded comment] See below</t></text></comment>"
    with zipfile.ZipFile(tmp_path / "a.xlsx", "a") as archive:
        archive.writestr("xl/comments1.xml", f"<comments xmlns='a'>{authors}{note}{thread}</comments>")
        threads = "<t xmlns='a'><threadedComment><text>See below</text></threadedComment></t>"
        archive.writestr("xl/threadedComments/threadedComment1.xml", threads)
    check(tmp_path / "a.xlsx", {COMMENTS: 13}, "Note", "See below")
    text = read_document(tmp_path / "a.xlsx", ReadOptions(hidden=True)).text
    assert "Threaded" not in text


def test_the_comments_of_slides_are_counted(tmp_path: Path) -> None:
    pytest.importorskip("pptx")
    import_module("pptx").Presentation().save(str(tmp_path / "a.pptx"))
    old = "<c xmlns='a'><cm><text>Old</text></cm></c>"
    new = "<c xmlns='a'><cm><reply><p><t>Answer</t></p></reply><p><t>New</t></p></cm></c>"
    with zipfile.ZipFile(tmp_path / "a.pptx", "a") as archive:
        archive.writestr("ppt/comments/comment1.xml", old)
        archive.writestr("ppt/comments/modernComment_100_{A-1}.xml", new)
    check(tmp_path / "a.pptx", {COMMENTS: 13}, "Old", "Answer New")


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(("name", "part"), [("a.xlsx", "xl/comments1.xml"), ("a.pptx", "ppt/comments/comment1.xml")])
def test_damaged_comments_are_counted_and_the_text_is_read(name: str, part: str, hidden: bool, tmp_path: Path) -> None:
    office = pytest.importorskip("openpyxl" if name == "a.xlsx" else "pptx")
    made = office.Workbook() if name == "a.xlsx" else office.Presentation()
    if name == "a.xlsx":
        made.active["A1"] = "pump"
    else:
        made.slides.add_slide(made.slide_layouts[0]).shapes.title.text = "pump"
    made.save(str(tmp_path / name))
    with zipfile.ZipFile(tmp_path / name, "a") as archive:
        archive.writestr(part, "<c xmlns='a'><cm><text>Lost one</cm><te")
    document = read_document(tmp_path / name, ReadOptions(hidden=hidden))
    assert ("pump" in document.text, document.left_out) == (True, {DAMAGED: 8})
