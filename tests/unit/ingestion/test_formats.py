"""Documents in several formats: their text, title, headings and pages; and hostile ones."""

from __future__ import annotations

import datetime as dt
import os
import re
from pathlib import Path

import pytest
from support.files import run, write
from support.office import (
    STYLES,
    make_docx,
    make_epub,
    make_pdf,
    make_pdf_page,
    make_zip,
    pdf_stream,
    word_list,
    word_number,
    word_paragraph,
    write_pdf,
)

from rag_bm25 import BM25Index
from rag_bm25.errors import InputError, MissingExtraError, install_extra
from rag_bm25.ingestion import find_files, formats, ingest
from rag_bm25.ingestion.documents import Document
from rag_bm25.ingestion.formats import extraction
from rag_bm25.ingestion.formats.archives import open_archive
from rag_bm25.ingestion.formats.building import TextBuilder
from rag_bm25.ingestion.formats.characters import _text_of
from rag_bm25.ingestion.formats.extraction import answer
from rag_bm25.ingestion.formats.html import write_html
from rag_bm25.ingestion.formats.numbering import spell
from rag_bm25.ingestion.reading import ReadOptions, read_document


def headings(document: Document) -> list[tuple[int, str, str]]:
    return [(heading.level, heading.title, document.text[heading.start : heading.end]) for heading in document.headings]


def html(page: str) -> Document:
    builder = TextBuilder()
    title = write_html(page, builder)
    return builder.build(title)


def test_html_has_its_text_without_navigation_scripts_and_permalinks() -> None:
    document = html(
        "<title>The  page</title><nav>Home</nav><script>var x;</script><h1>Head<a class='headerlink'>¶</a></h1>"
        "<p>One &amp; <b>two</b>.\n Three<br>four</p><ul><li>item</ul><pre>a\n  b</pre>"
        "<table><tr><td>x</td><td>y</td></tr></table><footer>legal</footer>"
    )
    assert document.title == "The page"
    assert headings(document) == [(1, "Head", "Head")]
    assert document.text.rstrip() == "Head\n\nOne & two. Three\nfour\n\n- item\n\na\n  b\n\nx | y"


def test_html_whose_headings_have_the_class_of_permalinks_keeps_them() -> None:
    link = '<a class="hash-link" href="#drain" title="Direct link">\u200b</a>'
    document = html(f"<h1>Pump</h1><h2 class='anchor anchorWithStickyNavbar_x' id='drain'>Drain it{link}</h2>")
    assert headings(document) == [(1, "Pump", "Pump"), (2, "Drain it", "Drain it")]


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("<p>a<div style='color:red; DISPLAY : none'><p>b</p></div><i style='visibility:hidden'>c</i>", "a"),
        ("<p style='display:block'>a<p style='x-display:none'>b", "a\n\nb"),
        ("<div role='tabpanel' hidden>a</div><div class='sphinx-tabs-panel' style='display:none'>b</div>", "a\n\nb"),
        ("<body style='visibility:hidden'><p>a", "a"),
        (
            "<p><input type='checkbox' checked>a<p><input type='radio'>b<input type='checkbox' role='button'>",
            "☒ a\n\n☐ b",
        ),
    ],
)
def test_html_has_what_a_browser_or_a_click_shows(page: str, shown: str) -> None:
    assert html(page).text.strip() == shown


def test_html_with_a_main_part_has_that_alone() -> None:
    long = "words of the main part " * 10
    assert html(f"<div>menu</div><main><h2>Main</h2>{long}</main><p>after</p>").text.split() == ["Main", *long.split()]
    assert "menu" in html("<div>menu</div><main>short</main>").text


def test_html_with_a_tag_that_is_never_closed_keeps_its_text() -> None:
    assert html("<nav><a>Home</a><p>All of the text").text.split() == ["Home", "All", "of", "the", "text"]


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("<p>10<sup>6</sup> 10<sup>-3</sup> 2<sup>n</sup> 2019<sup><a>1</a></sup>", "10^6 10^-3 2^n 2019^1"),
        ("<h1>In 2019<sup>1</sup></h1>", "In 2019^1"),
        ("<p>1<sup>st</sup> m<sup>2</sup> 2019<sup>[1]</sup> H<sub>2</sub>", "1st m2 2019[1] H2"),
        ("<p>10<sup></sup>6", "106"),
        ("<ruby>漢<rt>kan</rt>字<rt>ji</rt></ruby>の", "漢字の"),
        ("<ruby>東京<rp>(<rt>とう<rp>)</ruby>都", "東京都"),
        ("<p><ruby>東<rt>とう<p>after", "東\n\nafter"),
        ("<p>Let <math><mi>a</mi><mo>=</mo><msup><mn>10</mn><mn>6</mn></msup></math> be", "Let a=10^6 be"),
        ("<p><math alttext='x^2'><mi>x</mi></math> y", "x^2 y"),
        ("<math><semantics><mi>x</mi><annotation>TeX</annotation></semantics></math>", "x"),
        (
            "<math><mi>\n x</mi><mo>=</mo><mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac>",
            "x= (a+b)/2",
        ),
        ("<math><mroot><mi>x</mi><mn>3</mn></mroot><msqrt><mi>y</mi></msqrt><mi>sin</mi><mi>z</mi>", "3√x√y sin z"),
        ("<math><msubsup><mi>a</mi><mi>i</mi><mn>2</mn></msubsup><mover><mi>x</mi><mo>→</mo></mover>", "a_i^2x→"),
        ("<math><munderover><mo>∑</mo><mn>1</mn><mi>n</mi></munderover><mi>k</mi>", "∑_1^nk"),
        ("<math><mfenced open='['><mi>a</mi><mi>b</mi></mfenced><mtext>if</mtext><mi>c</mi>", "[a,b) if c"),
        ("<math><mo>(</mo><mfrac linethickness=0><mi>n</mi><mi>k</mi></mfrac><mo>)</mo></math>", "( n k )"),
        ("<h2>Of <math><mi>x</mi></math></h2><p><math><msup><mi>y</mi><p>after", "Of x\n\ny\n\nafter"),
        ("<math><mfrac><mi>a</mi></mfrac></mrow></math>b", "ab"),
        ("<p>劳动合\n同，\n应当 出\n<b>示</b>a\nb", "劳动合同，应当 出示a b"),
        ("<p>甲<br>乙<p>丙\n</p>\n<p>丁", "甲\n乙\n\n丙\n\n丁"),
        ("<pre>a\r\nb\rc\n劳\n动</pre>", "a\nb\nc\n劳\n动"),
        ("<ol><li>a<li>b</ol><ol start=7><li><p>c</p></li></ol>", "1. a\n2. b\n\n7. c"),
        ("<ol type=i><li>a<li value=4>b<ul><li>x</ul><li>c</ol>", "i. a\niv. b\n\n- x\n\nv. c"),
        ("<ol reversed><li>a<li>b</ol><ol type=A reversed start=2><li>a</ol>", "2. a\n1. b\n\nB. a"),
        ("<ul><li></li><li><p><a></a></p></li></ul><p>after", "after"),
        ("<ul><li><a href='#a'>1. One</a><li><a href='#b'>Two</a>, too</ul><h2>One</h2>", "- Two, too\n\nOne"),
        ("<p><a href='#a'>One</a><p><a href='b.html'>One</a><p><a href='#c'>C</a><h2>2 One</h2>", "One\n\nC\n\n2 One"),
        ("<dl><dt><a href='a.html#1'>1. One</a></dl><h2>1. One</h2>", "1. One"),
        ("<h2>One</h2><p>See <a href='#a'>One</a>.<p><a href='#a'>One", "One\n\nSee One."),
    ],
)
def test_html_has_the_text_that_a_page_shows(page: str, shown: str) -> None:
    assert html(page).text.strip() == shown


LINKS = "".join(f"<li><a href='/{n}'>Language {n}</a></li>" for n in range(9))
PROSE = "<p>The otter is a mammal that lives in rivers. It eats fish, crabs and frogs. " + "It swims. " * 9 + "</p>"


@pytest.mark.parametrize(
    ("box", "is_left_out"),
    [
        (f"<div><ul>{LINKS}</ul></div>", True),
        (f"<div><div>Languages: </div><section>{LINKS}</section></div>", True),
        (f"<div><h1>Otter</h1><div>{LINKS}</div></div>", True),
        (f"<ul>{LINKS}</ul>", False),  # of the text itself
        (f"<h2>See also</h2><div>{LINKS}</div>", False),
        (f"<div><p>See {LINKS.replace('li>', 'b>')}</div>", False),
        (f"<div>{LINKS}{PROSE}</div>", False),
        (f"<div><table><tr><td>{LINKS}</table></div>", False),
        ("<div>by <a href='/a'>A. Language</a> and <a href='/b'>B</a></div>", False),
    ],
)
def test_boxes_of_links_are_left_out_beside_other_text(box: str, *, is_left_out: bool) -> None:
    shown = html(f"{PROSE}{box}<p>the end").text
    assert ("Language" not in shown) == is_left_out
    assert "It swims." in shown
    assert shown.rstrip().endswith("the end")
    assert ("Otter" in shown) == ("Otter" in box)


def test_a_page_of_links_keeps_them() -> None:
    assert "Language 7" in html(f"<div>{LINKS}</div><p>short").text


def test_boxes_that_are_never_closed_take_no_text_with_them() -> None:
    assert "the end" in html(f"<div><div>{LINKS}</section>{PROSE}the end").text


def table(*rows: str) -> str:
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        (table("<th>name<th>price<th>stock", "<td>Bolt<td><td>5"), "name | price | stock\nBolt |  | 5"),
        (table("<th>a<th>b", "<td><p>x</p><p>y</p><td><ul><li>1<li>2</ul>"), "a | b\nx y | - 1 - 2"),
        (table("<td>a<td>b", "<td>劳\n动<br>法<td>10<sup>6</sup><pre>x\n y</pre>"), "a | b\n劳动 法 | 10^6 x y"),
        (table("<td rowspan=2>metal<td>bolt", "<td>nut", "<td>x<td>y"), "metal | bolt\nmetal | nut\nx | y"),
        (table("<td colspan=2>wide<td>1", "<td>a<td>b<td>2"), "wide |  | 1\na | b | 2"),
        (table("<td rowspan=0 colspan=2>all<td>1", "<td>2", "<td>3"), "all | 1\nall | 2\nall | 3"),
        (table("<td>a<td>b", "<td><td>", "<td colspan=x>c<td>d"), "a | b\nc | d"),
        ("<table><thead><tr><td>a<tbody><tr><td>b</table>c", "a\nb\n\nc"),
        (table("<td><h2>Part</h2><p>text", "<td>foot<td>note"), "Part\n\ntext\n\nfoot\n\nnote"),
        (table("<td><p>in a</p><p>box</p>"), "in a\n\nbox"),
        (table(f"<td>menu<td>{table('<td>a<td>b', '<td>c<td>d')}"), "menu\n\na | b\nc | d"),
        (table("<td>name<td>price", f"<td>bolt<td>{table('<td>', '<td> ')}5"), "name | price\nbolt | 5"),
        (f"<table><tr><td>menu<td>{table('<td>a<td>b')}<td>foot", "menu\n\na | b\n\nfoot"),
        ("<table><tr><td>menu<td><table><tr><td>a<td>b", "menu\n\na | b"),
        ("<nav>" + table("<td>x") + "</nav>" + table("<td>a<td>b", "<td>c<td><p>d"), "a | b\nc | d"),
        (
            table("<td>&nbsp;<td colspan=2>2021<td>&nbsp;<td>old", "<td>cash<td>$<td>(5<td>)<td>7"),
            "| 2021 | old\ncash | $(5) | 7",
        ),
        (table("<td><p>name</p><td><p>value"), "name | value"),
        (table("<td><p>a menu</p><p>of a page</p><td><p>text"), "a menu\n\nof a page\n\ntext"),
        (table("<td colspan=999999999 rowspan=999999999>a<td>b"), f"a {'|  ' * 999}| b"),
    ],
)
def test_a_row_of_a_table_is_a_line_and_a_box_is_paragraphs(page: str, shown: str) -> None:
    assert html(page).text.strip() == shown


@pytest.mark.parametrize(
    ("line", "following", "shown"),
    [
        ("Error E-", "4711 means", "Error E-4711 means"),
        ("COVID-", "19 in", "COVID-19 in"),
        ("of non-", "EU states", "of non-EU states"),
        ("state-of-the-", "art is", "state-of-the-art is"),
        ("a well-", "thought-out plan", "a well-thought-out plan"),
        ("infor-", "mation and re-use", "information and re-use"),
        ("king-", "maker is no king-maker", "king-maker is no king-maker"),
        ("CUR-", "RENT is the current", "CURRENT is the current"),
        ("Pre-treat-", "ment, treatment", "Pre-treatment, treatment"),
        ("GPT-", "4 or gpt4", "GPT-4 or gpt4"),
        ("re-", "use: reuse, re-use", "reuse: reuse, re-use"),
    ],
)
def test_pdf_keeps_the_hyphens_of_words(line: str, following: str, shown: str, tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    path = make_pdf(tmp_path / "a.pdf", [f"{line}\n{following}"])
    assert " ".join(read_document(path).text.split()) == shown


def test_cells_that_claim_to_span_more_and_more_columns_are_bounded() -> None:
    text = html(table(*["<td rowspan=65000 colspan=1000>x"] * 9)).text
    assert max(line.count("|") for line in text.split("\n")) < 1_010


def test_html_that_declares_its_encoding(tmp_path: Path) -> None:
    page = '<meta charset="gbk"><title>合同</title><p>劳动合同</p>'
    document = read_document(write(tmp_path / "a.html", page.encode("gbk")))
    assert (document.title, document.text.strip(), document.encoding) == ("合同", "劳动合同", "gb18030")


def test_docx(tmp_path: Path) -> None:
    pytest.importorskip("mammoth")
    path = make_docx(tmp_path / "a.docx", [(1, "Part"), (0, "One &amp; two"), (2, "节"), (0, "条款")], "The title")
    document = read_document(path)
    assert document.title == "The title"
    assert headings(document) == [(1, "Part", "Part"), (2, "节", "节")]
    assert document.text.split() == ["Part", "One", "&", "two", "节", "条款"]


NUMBERS = (
    word_list(1, "chineseCountingThousand 第%1条", "decimal %1.%2", "lowerLetter (%3)")
    + word_list(2, "upperRoman Article %1:", last='<w:start w:val="9"/>')
    + word_list(3, "bullet •")
    + word_number(4, 2, '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="2"/></w:lvlOverride>')
    + word_list(5, "decimalZero %1", "decimal %1.%2", last="<w:isLgl/>")
)


@pytest.mark.parametrize(
    ("paragraphs", "shown"),
    [
        ([(1, 0), (1, 0), (1, 2), (1, 2), (1, 0), (1, 2)], "第一条 x\n第二条 x\n(a) x\n(b) x\n第三条 x\n(a) x"),
        ([(1, 1), (1, 0), (1, 1)], "一.1 x\n第二条 x\n二.1 x"),
        (
            [(2, 0), (2, 0), (4, 0), (4, 0), (2, 0)],
            "Article IX: x\nArticle X: x\nArticle II: x\nArticle III: x\nArticle IV: x",
        ),
        ([(3, 0), (3, 0), (0, 0), (77, 0)], "- x\n- x\n\nx\n\nx"),
        ([(5, 0), (5, 1), (5, 1)], "1 x\n1.1 x\n1.2 x"),
    ],
)
def test_the_numbers_of_word_are_text(paragraphs: list[tuple[int, int]], shown: str, tmp_path: Path) -> None:
    pytest.importorskip("mammoth")
    body = "".join(word_paragraph("x", num=num, level=level) for num, level in paragraphs)
    assert read_document(make_docx(tmp_path / "a.docx", body, numbering=NUMBERS)).text.strip() == shown


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        ("<m:r><m:t>E=m</m:t></m:r><m:sSup><m:e>{c}</m:e><m:sup>{2}</m:sup></m:sSup>", "E=mc^2"),
        ("<m:f><m:num><m:d><m:e>{x-c}</m:e></m:d></m:num><m:den>{v}</m:den></m:f>", "((x-c))/v"),
        ("<m:rad><m:e>{2a}</m:e></m:rad>", "√(2a)"),
        ("<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>{i=0}</m:sub><m:e>{i}</m:e></m:nary>", "∑_(i=0)i"),
        ("<m:nary><m:naryPr/><m:e>{x}</m:e></m:nary>", "∫x"),
        ("<m:func><m:fName>{sin}</m:fName><m:e>{x}</m:e></m:func>", "sin x"),
        ("<m:d><m:dPr><m:begChr m:val='|'/><m:endChr m:val='|'/></m:dPr><m:e>{x}</m:e></m:d>", "|x|"),
        ("<m:oMathPara><m:oMath>{a}</m:oMath></m:oMathPara>", "a"),
    ],
)
def test_the_formulas_of_word_are_text(formula: str, shown: str, tmp_path: Path) -> None:
    pytest.importorskip("mammoth")
    math = "http://schemas.openxmlformats.org/officeDocument/2006/math"
    text = re.sub(r"\{(.*?)\}", r"<m:r><m:t>\1</m:t></m:r>", formula)
    body = f'<w:p xmlns:m="{math}"><w:r><w:t>Let </w:t></w:r><m:oMath>{text}</m:oMath><w:r><w:t>, so</w:t></w:r></w:p>'
    assert read_document(make_docx(tmp_path / "a.docx", body)).text.strip() == f"Let {shown}, so"


@pytest.mark.parametrize(
    ("form", "number", "spelt"),
    [
        ("lowerLetter", 28, "bb"),
        ("upperRoman", 1994, "MCMXCIV"),
        ("chineseCounting", 105, "一百零五"),
        ("chineseLegalSimplified", 12, "拾贰"),
        ("ideographTraditional", 2, "乙"),
        ("ideographDigital", 2026, "二〇二六"),
        ("decimalEnclosedCircle", 20, "⑳"),
        ("decimalZero", 7, "07"),
        ("lowerRoman", 10**9, "1000000000"),
        ("upperLetter", 0, "0"),
        ("koreanCounting", 3, "三"),
        ("anything", 3, "3"),
    ],
)
def test_numbers_are_spelt_as_word_does(form: str, number: int, spelt: str) -> None:
    assert spell(number, form) == spelt


def test_numbered_headings_tables_and_contents_of_word(tmp_path: Path) -> None:
    pytest.importorskip("mammoth")
    styles = STYLES.replace(
        '<w:name w:val="heading 2"/>', '<w:name w:val="heading 2"/><w:basedOn w:val="H1"/>'
    ).replace(
        '<w:name w:val="heading 1"/>',
        '<w:name w:val="heading 1"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>',
    )
    styles += '<w:style w:type="paragraph" w:styleId="T1"><w:name w:val="toc 1"/></w:style>'
    numbering = word_list(1, "decimal %1.", "decimal %1.%2").replace(
        "</w:lvl></w:abs", '<w:pStyle w:val="H2"/></w:lvl></w:abs'
    )
    cell = "<w:tc><w:tcPr>{}</w:tcPr><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>".format
    rows = (
        [("", "name"), ("", "n")],
        [('<w:vMerge w:val="restart"/>', "metal"), ("", "")],
        [("<w:vMerge/>", ""), ("", "2")],
    )
    body = "".join(f"<w:tr>{''.join(cell(*each) for each in row)}</w:tr>" for row in rows)
    body = (
        word_paragraph("1. One 3", "T1")
        + word_paragraph("One", "H1")
        + word_paragraph("Two", "H2")
        + f"<w:tbl>{body}</w:tbl>"
    )
    document = read_document(make_docx(tmp_path / "a.docx", body, numbering=numbering, styles=styles))
    assert [title for _, title, _ in headings(document)] == ["1. One", "1.1 Two"]
    assert document.text.strip() == "1. One\n\n1.1 Two\n\nname | n\nmetal |\nmetal | 2"


def test_pptx(tmp_path: Path) -> None:
    pptx = pytest.importorskip("pptx")
    slides = pptx.Presentation()
    for title in ("First", "第二"):
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"body of {title}"
    slide.notes_slide.notes_text_frame.text = "a note"
    slides.save(tmp_path / "a.pptx")
    document = read_document(tmp_path / "a.pptx")
    assert headings(document) == [(1, "First", "First"), (1, "第二", "第二")]
    assert [document.text[page:].split("\n")[0] for page in document.pages] == ["First", "第二"]
    assert document.text.rstrip().endswith("body of 第二\n\na note")


def test_xlsx(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Prices"
    book.active.append(["name", "price"])
    book.active.append(["花生", 1.5])
    book.active.append([None, None])
    book.create_sheet("Empty")
    book.save(tmp_path / "a.xlsx")
    document = read_document(tmp_path / "a.xlsx")
    assert document.text.rstrip() == "Prices\n\nname | price\n花生 | 1.5\n\nEmpty"
    assert [title for _, title, _ in headings(document)] == ["Prices", "Empty"]


def test_cells_are_in_their_columns_and_as_the_sheet_shows_them(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    day = dt.datetime.combine(dt.date(2024, 1, 15), dt.time())
    negative = {"0.0;(0.0)": "(0.2)", "+0%;-0%": "-25%", "0.0": "-0.2", '0;"off"': "-0.25"}
    shown = {"0%": "25%", "0.00": "0.25", '"€"#,##0.0': "€0.2", "000": "000", "General": "0.25", "0.0E+00": "0.25"}
    for row in (
        ["Prices"],
        ["name", "price", "stock"],
        ["Bolt", None, 5],
        [None, 7],
        [day, day.replace(hour=8), 0.1 + 0.2],
    ):
        sheet.append(row)
    sheet.append([0.25] * len(shown))
    sheet.append([-0.25] * len(negative))
    for row, forms in ((6, shown), (7, negative)):
        for at, form in enumerate(forms, 1):
            sheet.cell(row, at).number_format = form
    book.save(tmp_path / "a.xlsx")
    assert read_document(tmp_path / "a.xlsx").text.strip().split("\n")[2:] == [
        "Prices",
        "name | price | stock",
        "Bolt |  | 5",
        "| 7 |",
        "2024-01-15 | 2024-01-15 08:00:00 | 0.3",
        *(" | ".join(forms.values()) for forms in (shown, negative)),
    ]


@pytest.mark.parametrize("hidden", [False, True])
def test_hidden_sheets_rows_columns_and_slides_are_read_if_asked_for(tmp_path: Path, *, hidden: bool) -> None:
    openpyxl, pptx = pytest.importorskip("openpyxl"), pytest.importorskip("pptx")
    book, slides = openpyxl.Workbook(), pptx.Presentation()
    for row in (["a", "b", "c"], ["secret", "x", "y"], ["d", "secret", "f"]):
        book.active.append(row)
    book.active.row_dimensions[2].hidden = book.active.column_dimensions["B"].hidden = True
    book.create_sheet("secret").sheet_state = "hidden"
    book.save(tmp_path / "a.xlsx")
    for title in ("secret", "Shown"):
        slides.slides.add_slide(slides.slide_layouts[5]).shapes.title.text = title
    slides.slides[0].element.set("show", "0")
    slides.save(tmp_path / "a.pptx")
    options = ReadOptions(hidden=hidden)
    sheet, deck = read_document(tmp_path / "a.xlsx", options), read_document(tmp_path / "a.pptx", options)
    assert "secret" in sheet.text if hidden else sheet.text.strip() == "Sheet\n\na | c\nd | f"
    assert "secret" in deck.text if hidden else deck.text.strip() == "Shown"
    assert len(deck.pages) == 2


def test_a_reader_of_ones_own_gives_markdown_or_leaves_the_file(tmp_path: Path) -> None:
    page, note = write(tmp_path / "a.html", "<p>page"), write(tmp_path / "a.txt", "note")
    options = ReadOptions(read=lambda path: "# Own\n\ntext" if path == page else None)
    assert headings(read_document(page, options)) == [(1, "Own", "# Own")]
    assert read_document(note, options).text == "note"


def test_pdf(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    path = make_pdf(
        tmp_path / "a.pdf", ["Intro\nfirst page", "2 Setup\nsecond page"], "Guide", [("Intro", 0), ("Setup", 1)]
    )
    document = read_document(path)
    assert document.title == "Guide"
    assert headings(document) == [(1, "Intro", "Intro"), (1, "Setup", "2 Setup")]
    assert [document.text[page:].split("\n")[0] for page in document.pages] == ["Intro", "2 Setup"]


def test_characters_of_two_units_are_one() -> None:
    assert _text_of(["\ud835\udc65", " ", "2"]) == "\U0001d465 2"


def test_pdf_without_its_running_lines_and_contents(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    pages = ["Setup ....... 2\nA manual", "Setup", "last words", "end"]
    heads = {n: [(30, 770, "Manual"), (300, 30, str(n + 1))] for n in range(4)}
    document = read_document(make_pdf(tmp_path / "a.pdf", pages, outline=[("Setup", 1)], more=heads))
    assert document.text.split("\n\n") == ["Manual", "A manual", "Setup", "last words", "end"]
    assert headings(document) == [(1, "Setup", "Setup")]
    assert len(document.pages) == 4


def test_a_chinese_line_is_joined_only_to_a_full_one(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    full = "水泵由电机驱动并把水从地下水池送到屋顶水箱然后再由屋顶水箱分送到各"
    lines = ["第一节供水", full, "层的用户。", "第二节排水", "打开下部阀门并等待。", "表一阀门规格", "甲型五十三百元"]
    shown = " ".join(f"<{line.encode('utf-16-be').hex()}> Tj T*" for line in lines)
    document = read_document(make_pdf_page(tmp_path / "a.pdf", f"BT /F2 12 Tf 14 TL 40 760 Td {shown} ET"))
    assert document.text.split("\n") == [lines[0], full + lines[2], *lines[3:]]


def test_a_page_that_is_turned_has_its_lines(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    rows = ["Part Stock Price", "Bolt 12 3.50", "Nut 40 1.20", "Washer 7 0.10"]
    upwards = " ".join(f"BT /F1 12 Tf 0 1 -1 0 {100 + 20 * at} 60 Tm ({row}) Tj ET" for at, row in enumerate(rows))
    assert read_document(make_pdf_page(tmp_path / "a.pdf", upwards, "/Rotate 90")).text.split("\n") == rows


def test_pdf_is_read_from_the_right_to_the_left(tmp_path: Path) -> None:
    """Columns, too: the first of a table is at the right."""
    pytest.importorskip("pypdfium2")
    letters = {letter: chr(ord(letter) - 0x5D0 + ord("a")) for letter in "אבגדהוזחטיכלמ"}
    lines = ["אבג דהו זחט יכלמ אבגד הוזח טיכל אבג דהו"] * 2 + ["דהו אבג זחט"]
    table = [["אבג", "דהו", "זחט"], ["בגד", "12", "450"], ["גדה", "7", "30"]]
    shown = [(560 - 6 * len(line), 760 - 14 * at, line[::-1]) for at, line in enumerate(lines)]
    for at, row in enumerate(table):
        cells = zip((400, 250, 100), row, strict=True)
        shown += [(x, 700 - 20 * at, cell if cell.isdigit() else cell[::-1]) for x, cell in cells]
    text = " ".join(f"BT /F1 10 Tf {x} {y} Td ({line}) Tj ET" for x, y, line in shown).translate(str.maketrans(letters))
    names = "1 begincodespacerange <00> <ff> endcodespacerange 2 beginbfrange <61> <6f> <05d0> <20> <39> <0020>"
    objects = {
        1: "<< /Type /Catalog /Pages 2 0 R >>",
        2: "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
        3: "<< /Type /Page /MediaBox [0 0 600 800] /Resources << /Font << /F1 4 0 R >> >> /Contents 6 0 R >>",
        4: "<< /Type /Font /Subtype /Type1 /BaseFont /Courier /ToUnicode 5 0 R >>",
        5: pdf_stream(f"begincmap {names} endbfrange endcmap"),
        6: pdf_stream(text),
    }
    rows = "\n".join(map(" | ".join, table))
    assert read_document(write_pdf(tmp_path / "a.pdf", objects)).text.strip() == f"{' '.join(lines)}\n{rows}"


def test_what_was_typed_into_a_form_is_text(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    field = "<< /Type /Annot /Subtype /Widget /FT /Tx /F 4 /T (name) /Rect [130 715 330 735] /AP << /N 9 0 R >> >>"
    font = "/Type /XObject /Subtype /Form /BBox [0 0 200 20] /Resources << /Font << /F1 << /Type /Font /Subtype /Type1"
    look = pdf_stream("BT /F1 12 Tf 2 4 Td (Dorthe) Tj ET", f"{font} /BaseFont /Helvetica >> >> >>")
    path = make_pdf_page(tmp_path / "a.pdf", "BT /F1 12 Tf 40 720 Td (Name:) Tj ET", "/Annots [8 0 R]", field, look)
    assert read_document(path).text.split() == ["Name:", "Dorthe"]


def test_epub_is_read_in_its_order(tmp_path: Path) -> None:
    pages = {"z": "<h1>First</h1><p>one</p>", "a": "<h1>Second</h1><p>two</p>"}
    document = read_document(make_epub(tmp_path / "a.epub", pages, "Book"))
    assert document.title == "Book"
    assert document.text.split() == ["First", "one", "Second", "two"]


def test_a_page_of_a_book_is_read_once_however_its_parts_are_named(tmp_path: Path) -> None:
    names = {"a b.xhtml": "a%20b.xhtml#one", "c%20d.xhtml": "c%20d.xhtml#x", "C#.xhtml": "C#.xhtml"}
    hrefs = [*names.values(), "a%20b.xhtml#two"]
    items = "".join(f'<item id="{at}" href="{href}" media-type="text/html"/>' for at, href in enumerate(hrefs))
    spine = "".join(f'<itemref idref="{at}"/>' for at in range(len(hrefs)))
    package = f"<package xmlns='o'><manifest>{items}</manifest><spine>{spine}</spine></package>"
    container = "<container><rootfiles><rootfile full-path='a.opf'/></rootfiles></container>"
    pages = {name: f"<p>{name[0]}" for name in names}
    path = make_zip(tmp_path / "a.epub", {"META-INF/container.xml": container, "a.opf": package, **pages})
    assert read_document(path).text.split() == ["a", "c", "C"]


def test_chunks_know_their_page_title_and_headings(tmp_path: Path, index: BM25Index) -> None:
    pytest.importorskip("pypdfium2")
    run(index, make_pdf(tmp_path / "a.pdf", ["Intro\n" + "first page words", "Setup\n" + "second page words"], "Guide"))
    hit = index.search("second")[0]
    assert hit.metadata["title"] == "Guide"
    assert hit.metadata["page"] in (1, 2)
    assert hit.metadata["end_index"] - hit.metadata["start_index"] == len(hit.text)


# What cannot be read


def test_documents_without_text_are_named(tmp_path: Path, index: BM25Index) -> None:
    pytest.importorskip("pypdfium2")
    report = run(index, make_pdf(tmp_path / "scan.pdf", [""]), write(tmp_path / "a.html", "<p></p>"))
    assert report.failed == {"scan.pdf": f"{tmp_path}/scan.pdf: it has no text; scanned pages need OCR first"}
    assert report.notes == ["without text: a.html"]


@pytest.mark.parametrize("name", ["a.docx", "a.epub", "a.pdf", "a.pptx", "a.xlsx"])
@pytest.mark.parametrize("contents", [b"", b"PK\x03\x04 noise", b"%PDF-1.4 noise"])
def test_damaged_files_fail_alone(tmp_path: Path, index: BM25Index, name: str, contents: bytes) -> None:
    path = write(tmp_path / name, contents)
    if formats.FORMATS[path.suffix].missing:
        pytest.skip("needs the extra documents")
    report = run(index, path, write(tmp_path / "b.txt"))
    assert report.failed[name].startswith(f"{path}: damaged")
    assert report.files == 1


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
def test_an_office_file_with_a_password_says_so(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(InputError, match="it needs a password"):
        read_document(path)


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.ingestion.formats.archives.MAX_UNPACKED", 1_000)
    path = make_zip(tmp_path / "bomb.epub", {"a": "x" * 1_001})
    refused = pytest.raises(InputError, match="it unpacks to 1,001 bytes in 1 files; at most 1,000")
    with path.open("rb") as file, refused, open_archive(file):
        pass


def test_a_document_that_takes_too_long_is_refused_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.html", "text")
    extraction.EXTRACTOR.close()
    monkeypatch.setattr(extraction, "_WORKER", "import sys; sys.stdin.read()")
    with pytest.raises(InputError, match=r"a.html: not read within 0.5 s"):
        read_document(path, ReadOptions(timeout=0.5))
    monkeypatch.undo()
    assert read_document(path).text == "text"


def test_a_parser_that_crashes_fails_the_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.html", "text")
    process = extraction.EXTRACTOR._started()
    monkeypatch.setattr(extraction.EXTRACTOR, "_started", lambda: (process.kill(), process.wait(), process)[2])
    with pytest.raises(InputError, match="it made the parser crash"):
        read_document(path)
    monkeypatch.undo()
    assert read_document(path).text == "text"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "reading it needs more memory than is allowed"),
        (RecursionError(), "reading it needs deeper nesting than is allowed"),
        (KeyError("x"), "damaged, or of another format: KeyError: 'x'"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
    ],
)
def test_each_failure_of_a_parser_is_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    def fail(*_: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr("rag_bm25.ingestion.formats.html.extract", fail)
    path = str(write(tmp_path / "a.html"))
    assert answer(path, path, encoding=None) == {"error": reason}


def test_a_text_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.ingestion.formats.building.MAX_TEXT", 10)
    assert html("<p>0123456789").text == "0123456789"
    with pytest.raises(InputError, match="at most 10 characters"):
        html("<p>01234567890")


def test_deep_nesting_is_no_problem(tmp_path: Path) -> None:
    assert read_document(write(tmp_path / "a.html", "<div>" * 50_000 + "deep")).text.strip() == "deep"


def test_files_of_a_format_whose_package_is_missing_are_skipped_and_told(
    tmp_path: Path, index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "docs" / "a.docx")
    monkeypatch.setattr(formats, "find_spec", lambda _name: None)
    hint = f"reading DOCX needs mammoth: {install_extra('documents')}"
    found = find_files([tmp_path / "docs"])
    assert (found.files, found.skipped, found.missing) == ([], [path], {"DOCX": hint})
    assert run(index, path).failed == {"a.docx": f"{path}: {hint}"}


def test_a_package_that_the_other_process_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction.EXTRACTOR, "_ask", lambda *_: {"missing": "reading X needs y"})
    with pytest.raises(MissingExtraError, match="reading X needs y"):
        read_document(write(tmp_path / "a.html"))


def test_the_process_is_not_shared_with_a_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.html", "text")
    read_document(path)
    before = extraction.EXTRACTOR._process
    monkeypatch.setattr(extraction.EXTRACTOR, "_owner", os.getpid() + 1)
    assert read_document(path).text == "text"
    assert extraction.EXTRACTOR._process is not before
    assert before is not None
    before.kill()
    before.communicate()


def test_what_is_left_out_is_told_and_can_be_kept(tmp_path: Path, index: BM25Index) -> None:
    pytest.importorskip("pypdfium2")
    heads = {n: [(30, 770, "Manual"), (300, 30, str(n + 1))] for n in range(4)}
    path = make_pdf(tmp_path / "a.pdf", ["one", "two", "three", "four"], more=heads)
    assert run(index, path).left_out == {"running lines": 18, "page numbers": 4}
    report = ingest(index, find_files([path]), options=ReadOptions(repeated=True))
    assert report.left_out == {}
    assert read_document(path, ReadOptions(repeated=True)).text.split().count("Manual") == 4


def test_pages_of_signs_are_told(tmp_path: Path, index: BM25Index) -> None:
    pytest.importorskip("pypdfium2")
    report = run(index, make_pdf(tmp_path / "a.pdf", ["A pump", "!#$%&'*+,/:;<=>?@^`{|}~ " * 3]))
    assert report.notes == ["pages whose fonts do not tell their letters, which need OCR: a.pdf (1)"]
