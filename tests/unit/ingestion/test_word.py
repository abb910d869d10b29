"""DOCX: text that the converter does not know is not lost, and none is stored that nobody sees."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from support.office import make_docx, word_list, word_paragraph

from rag_bm25.ingestion.documents import HIDDEN, LOST, Document
from rag_bm25.ingestion.reading import ReadOptions, read_document

pytest.importorskip("mammoth")
SPACES = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
)
BOX = f"<w:txbxContent>{word_paragraph('boxed')}</w:txbxContent>"
DRAWING = f"<w:drawing><a:graphic><wps:wsp><wps:txbx>{BOX}</wps:txbx></wps:wsp></a:graphic></w:drawing>"
CHOICE = f"<mc:Choice>{DRAWING}</mc:Choice>"


def run(content: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{content}</w:t></w:r>'


def shown(path: Path, runs: str, *, hidden: bool = False) -> str:
    make_docx(path / "a.docx", f"<w:p {SPACES}>{runs}</w:p>")
    return " ".join(read_document(path / "a.docx", ReadOptions(hidden=hidden)).text.split())


BREAKS = ["<w:br w:type='page'/>", "<w:br w:type='column'/>", "<w:br/>", "<w:cr/>", "<w:ptab/>", "<w:tab/>"]
VANISH, SHOWN = "<w:vanish/>", "<w:vanish w:val='0'/>"
RUBY = f"<w:ruby><w:rt>{run('ねこ')}</w:rt><w:rubyBase>{run('猫')}</w:rubyBase></w:ruby>"
OLD = f"<mc:Fallback><w:pict><v:shape><v:textbox>{BOX}</v:textbox></v:shape></w:pict></mc:Fallback>"


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        (f"{run('Figure ')}<w:fldSimple w:instr='SEQ'>{run('3')}</w:fldSimple>{run(': pump')}", "Figure 3: pump"),
        (f"<w:dir>{run('a')}<w:bdo>{run('b')}</w:bdo></w:dir>", "ab"),
        (f"<w:r>{RUBY}</w:r>{run('は')}", "猫は"),
        *((f"<w:r><w:t>Alfa</w:t>{mark}<w:t>Beta</w:t></w:r>", "Alfa Beta") for mark in BREAKS),
        (f"<w:r>{DRAWING}</w:r>{run('after')}", "after boxed"),
        *(
            (f"<w:r><mc:AlternateContent>{CHOICE}{other}</mc:AlternateContent></w:r>", "boxed")
            for other in ("", "<mc:Fallback/>", OLD)
        ),
        (f"{run('shown')}{run('secret', VANISH)}{run('too', SHOWN)}", "showntoo"),
    ],
)
def test_what_the_page_shows_is_text_once(runs: str, text: str, tmp_path: Path) -> None:
    assert shown(tmp_path, runs) == text


def test_boxes_within_boxes_are_read_once(tmp_path: Path) -> None:
    inner = DRAWING
    for _ in range(30):  # doubled at each level, it would be 2 ** 30
        inner = DRAWING.replace(word_paragraph("boxed"), f"<w:p><w:r>{inner}</w:r></w:p>")
    assert shown(tmp_path, f"<w:r>{inner}</w:r>") == "boxed"


def test_hidden_text_is_read_on_request(tmp_path: Path) -> None:
    assert shown(tmp_path, run("secret", "<w:vanish/>"), hidden=True) == "secret"


@pytest.mark.parametrize(("value", "text"), [("1", "☒ by post"), ("0", "☐ by post")])
def test_a_ticked_box_is_told_from_an_empty_one(value: str, text: str, tmp_path: Path) -> None:
    box = f'<w:sdtPr><w14:checkbox><w14:checked w14:val="{value}"/></w14:checkbox></w:sdtPr>'
    runs = f"<w:sdt>{box}<w:sdtContent>{run('x')}</w:sdtContent></w:sdt>{run('by post')}"
    assert shown(tmp_path, runs) == text


def test_bullets_that_are_boxes_are_told_as_ticks_are(tmp_path: Path) -> None:
    numbering = word_list(1, "bullet ☐", "bullet ☒", "bullet •")
    body = "".join(word_paragraph(text, num=1, level=at) for at, text in enumerate(("open", "done", "pump")))
    lines = read_document(make_docx(tmp_path / "a.docx", body, numbering=numbering)).text.split("\n")
    assert [line for line in lines if line] == ["- ☐ open", "- ☒ done", "- pump"]


def test_text_that_is_not_hidden_after_all_is_lost_if_it_is_missing(tmp_path: Path) -> None:
    lost = f"<w:p><w:new>{run('Lost', SHOWN)}</w:new></w:p>"
    assert read(tmp_path, plain("known") + lost).left_out == {LOST: 4}


def test_headers_and_footers_are_text_once_and_comments_on_request(tmp_path: Path) -> None:
    parts = {
        "header1": word_paragraph("Contract WV-4711") + word_paragraph("The body."),
        "header2": word_paragraph("Contract WV-4711"),
        "footer1": word_paragraph("Page 1 of 3") + word_paragraph("Nordhavn Pumps"),
        "comments": f"<w:comment w:id='0'>{word_paragraph('Ask the lawyer.')}</w:comment>",
    }
    path = make_docx(tmp_path / "a.docx", [(0, "The body.")], **parts)
    assert read_document(path).text.split("\n\n")[:-1] == ["Contract WV-4711", "The body.", "Nordhavn Pumps"]
    assert "Ask the lawyer." in read_document(path, ReadOptions(hidden=True)).text


def cell(*blocks: str) -> str:
    return f"<w:tc>{''.join(blocks)}</w:tc>"


def table(*rows: str) -> str:
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"


def read(path: Path, body: str, **parts: str) -> Document:
    return read_document(make_docx(path / "a.docx", body, **parts))


def plain(text: str, properties: str = "") -> str:
    return f"<w:p>{run(text, properties)}</w:p>"


PAIR = cell(plain("name")) + cell(plain("value"))
INNER = table(PAIR.replace("name", "i1").replace("value", "i2"))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (table(PAIR), "name | value"),
        (
            table(cell(plain("outer"), INNER) + cell(plain("right")), PAIR),
            "outer | right\nname | value\n\ni1 | i2",
        ),
        (table(cell(plain("frame"), INNER, plain("end"))), "frame\n\ni1 | i2\n\nend"),
    ],
)
def test_rows_of_tables_are_lines_whatever_is_in_them(body: str, text: str, tmp_path: Path) -> None:
    assert read(tmp_path, body).text.strip() == text


MONO = "<w:rFonts w:ascii='Consolas'/>"
STYLE = "<w:style w:type='paragraph' w:styleId='X'><w:name w:val='HTML Preformatted'/></w:style>"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (plain("def f():") + plain("    return 4"), "def f():\n    return 4"),
        (
            plain("SELECT a", MONO) + plain("FROM b", MONO) + plain("text") * 2,
            "SELECT a\nFROM b\n\ntext\n\ntext",
        ),
        (
            word_paragraph("a = 1", "X") + word_paragraph("b = 2", "X") + plain("prose") * 2,
            "a = 1\nb = 2\n\nprose\n\nprose",
        ),
        (plain("typed", MONO) * 3, "typed\n\ntyped\n\ntyped"),  # by a typewriter
        (plain("f() {") + plain("\treturn 4"), "f() {\n\treturn 4"),
        (plain("the") + plain("\tparties") + plain("\tagree"), "the\n\nparties\n\nagree"),
        (plain("  A sentence of prose.") + plain("    一段文字。"), "A sentence of prose.\n\n一段文字。"),
    ],
)
def test_code_is_a_block_with_its_indentation(body: str, text: str, tmp_path: Path) -> None:
    assert read(tmp_path, body, styles=STYLE).text.strip() == text


BOLD = "<w:b/>"
NAME, PROSE = plain("Patrick", BOLD), plain("He is a waiter.")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (NAME + PROSE, ["Patrick"]),
        (NAME + table(PAIR), ["Patrick"]),
        (NAME + NAME.replace("Patrick", "Keith") + PROSE, ["Keith"]),
        (NAME, []),
        (plain("Nobody may enter.", BOLD) + PROSE, []),
        (plain("long " * 20, BOLD) + PROSE, []),
        (plain("plain", "<w:b w:val='0'/>") + PROSE, []),
        (f"<w:p>{run('Note', BOLD)}{run(' well')}</w:p>{PROSE}", []),
        (NAME + PROSE + word_paragraph("One", "H1"), ["One"]),
    ],
)
def test_bold_lines_are_headings_where_no_style_is(body: str, found: list[str], tmp_path: Path) -> None:
    assert [heading.title for heading in read(tmp_path, body).headings] == found


def test_comments_that_are_left_out_are_told(tmp_path: Path) -> None:
    comment = f"<w:comment w:id='0'>{word_paragraph('Ask the lawyer.')}</w:comment>"
    assert read(tmp_path, PROSE, comments=comment).left_out == {"comments": 15}


def test_text_that_the_reader_does_not_know_is_told(tmp_path: Path) -> None:
    known = f"<w:p>{run('known')}<w:del>{run('gone')}</w:del>{run('out of sight', VANISH)}</w:p>"
    assert read(tmp_path, f"{known}<w:p><w:new>{run('Lost 4 ever')}</w:new></w:p>").left_out == {HIDDEN: 12, LOST: 9}
    assert read(tmp_path, known).left_out == {HIDDEN: 12}


RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def test_a_chart_of_word_is_text_where_it_is(tmp_path: Path) -> None:
    values = "<c:val><c:numRef><c:numCache><c:pt idx='0'><c:v>7</c:v></c:pt></c:numCache></c:numRef></c:val>"
    series = f"<c:ser><c:tx><c:v>sold</c:v></c:tx>{values}</c:ser>"
    relation = f"<Relationship Id='r9' Type='{RELATION}/chart' Target='charts/chart1.xml'/>"
    members = {
        "word/charts/chart1.xml": f"<c:chartSpace xmlns:c='c'>{series}</c:chartSpace>",
        "word/_rels/document.xml.rels": f"<Relationships xmlns='r'>{relation}</Relationships>",
    }
    drawing = f"<w:drawing><c:chart xmlns:c='c' xmlns:r='{RELATION}' r:id='r9'/></w:drawing>"
    path = make_docx(tmp_path / "a.docx", f"<w:p>{run('before')}<w:r>{drawing}</w:r>{run('after')}</w:p>")
    with zipfile.ZipFile(path, "a") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    assert read_document(path).text.strip() == "before\n| sold\n| 7\nafter"
