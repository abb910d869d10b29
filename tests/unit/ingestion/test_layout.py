"""The layout of pages, over invented boxes of text."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25.ingestion.formats.layout import Page, Row, Span, blocks, regions, rows_of
from rag_bm25.ingestion.formats.ruling import Rules
from rag_bm25.ingestion.formats.running import drop_contents, drop_running

PROSE = "the pump moves water from the well up to the tank"


def line(text: str, x: float, y: float, width: float = 0, size: float = 10, *, is_bold: bool = False) -> Span:
    return Span(x, x + (width or len(text) * size / 2), y, size, text, is_bold)


def prose(count: int, x: float = 50, y: float = 100, width: float = 240) -> list[Span]:
    return [line(f"{n} {PROSE}", x, y + 12 * n, width) for n in range(count)]


def table(*rows: str, y: float = 100) -> list[Span]:
    """Place cells, which blanks separate, in columns; a dash is an empty one."""
    cells = [(at, n, cell) for n, row in enumerate(rows) for at, cell in enumerate(row.split())]
    return [line(cell, 50 + 100 * at, y + 14 * n) for at, n, cell in cells if cell != "-"]


def shown(*pages: list[Span], outline: tuple[dict[str, int], ...] = ()) -> list[str]:
    """Return the blocks, each with a sign of its kind."""
    marks = {"page": "=", "turn": "~", "heading": "#", "paragraph": "", "line": "-", "row": ""}
    found = blocks([Page(600, 800, rows_of(page)) for page in pages], outline or [{} for _ in pages])
    return [marks[each.kind] + ("|" if each.kind == "row" else "").join(each.parts) for each in found]


def num_calls(call: Callable[[], object]) -> int:
    """Count the functions that a call runs: they take its time, and no busy machine makes them more."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def texts(rows: list[Row]) -> list[list[str]]:
    return [[span.text for span in row] for row in rows]


# Rows


@pytest.mark.parametrize(
    ("spans", "rows"),
    [
        ([line("Price", 50, 100), line("Stock", 150, 100)], [["Price", "Stock"]]),
        ([line("Price", 50, 100), line("list", 79, 100)], [["Price list"]]),
        ([line("H", 50, 100), line("2", 55, 102, size=6), line("O", 58, 100)], [["H2O"]]),
        ([line("note", 50, 100), line("1", 73, 96, size=6)], [["note 1"]]),
        ([line("upper", 50, 100), line("lower", 50, 112)], [["upper"], ["lower"]]),
        ([line("right", 150, 100), line("left", 50, 100)], [["left", "right"]]),
        ([line("1.", 50, 100), line("Call to order", 75, 100)], [["1. Call to order"]]),
        ([line("7", 50, 100), line("8", 75, 100)], [["7", "8"]]),
        ([line("2.1", 50, 100), line("Pumps", 80, 100)], [["2.1 Pumps"]]),
        ([line("Bolt", 50, 100), line("2.1", 90, 100), line("sold", 120, 100)], [["Bolt", "2.1", "sold"]]),
        ([line("Shadow", 50, 100), line("Shadow", 51, 101)], [["Shadow"]]),
        ([line("Twice", 50, 100), line("Twice", 50, 112)], [["Twice"], ["Twice"]]),
    ],
)
def test_text_is_on_one_line_and_apart_where_a_gap_is_wide(spans: list[Span], rows: list[list[str]]) -> None:
    assert texts(rows_of(spans)) == rows


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60), st.text("ab1", min_size=1)), max_size=30))
def test_no_text_is_lost_or_made_up(places: list[tuple[int, int, str]]) -> None:
    spans = [line(text, 10 * x, 12 * y) for x, y, text in {(x, y): (x, y, text) for x, y, text in places}.values()]
    whole = "".join(shown(spans)).replace("|", "").replace("-", "").replace("=", "").replace("#", "")
    assert sorted("".join(whole.split())) == sorted("".join(span.text for span in spans))


# Columns


def test_columns_are_read_one_after_the_other_below_what_crosses_them() -> None:
    title = line("A title above both of the columns", 50, 50, 500)
    found = regions(rows_of([title, *prose(6), *prose(6, x=310)]))
    order = [f"{n} " for n in range(6)]
    assert [[row[0].text[:2] for row in region] for region in found] == [["A "], order, order]


def test_a_table_as_wide_as_the_page_is_above_columns() -> None:
    rows = [" ".join(f"{n}{at}" for at in range(6)) for n in range(5)]
    found = list(regions(rows_of([*table(*rows), *prose(6, y=200), *prose(6, x=310, y=200)])))
    assert [len(region) for region in found] == [5, 6, 6]


def test_cells_side_by_side_are_no_columns() -> None:
    assert len(list(regions(rows_of(table(*["name value unit"] * 12))))) == 1


def test_lines_that_are_alike_on_both_sides_are_columns_beside_a_figure() -> None:
    labels = (("x", 312, 20, 0), ("the kind of a pump", 360, 100, 3), ("y", 530, 20, 0))
    figure = [line(text, x, 105 + 12 * n, width + more * n) for n in range(24) for text, x, width, more in labels]
    found = list(regions(rows_of([*prose(24), *figure, *prose(6, x=310, y=400)])))
    assert [row[0].text for row in found[0]] == [span.text for span in prose(24)]


# Tables


def test_cells_are_in_their_columns() -> None:
    assert shown(table("Name Price Stock", "Bolt - 5", "Nut 2 7", "Pin 9 -")) == [
        "=",
        "Name|Price|Stock",
        "Bolt||5",
        "Nut|2|7",
        "Pin|9|",
    ]


def test_the_next_line_of_a_cell_is_in_its_row() -> None:
    page = [*table("Name Price", "Bolt 5"), line("with nut", 50, 121), *table("Pin 9", "Nut 7", y=142)]
    assert shown(page)[1:] == ["Name|Price", "Bolt with nut|5", "Pin|9", "Nut|7"]


def test_lines_of_a_header_are_one_row() -> None:
    assert shown(table("Site - Mean", "- Depth flow", "East 2 7", "West 3 8"))[1] == "Site|Depth|Mean flow"


def test_a_name_of_several_rows_is_no_part_of_the_header() -> None:
    rows = ("- Wet - Dry -", "Site Min Max Min Max", "South - - - -", "East 2 7 1 3", "West 3 8 1 2", "Mid 4 5 1 2")
    assert shown(table(*rows))[1:3] == ["Site|Wet Min|Max|Dry Min|Max", "South||||"]


def test_a_caption_between_tables_is_in_none() -> None:
    page = [*table("Name Price", "Bolt 5", "Nut 2"), line("Tanks", 50, 158), *table("Kind Size", "Oil 7", y=188)]
    assert shown(page)[4:] == ["Tanks", "Kind|Size", "Oil|7"]


def test_a_name_that_begins_left_of_its_header_is_a_cell() -> None:
    page = [line("Item", 70, 100), line("Open", 250, 100), line("Shut", 350, 100), line("Current", 50, 114)]
    for at, name in enumerate(("Cash", "Bank", "Debt")):
        page += [line(text, x, 128 + 14 * at) for text, x in ((name, 60), ("23.1", 250), ("20.9", 350))]
    assert shown(page)[1:4] == ["Item|Open|Shut", "Current||", "Cash|23.1|20.9"]


def test_leaders_are_no_part_of_a_cell() -> None:
    page = [
        line("Bolt ........", 50, 100),
        *table("- 5", y=100),
        line("Nut . . . . . .", 50, 114),
        *table("- 2", y=114),
    ]
    assert shown(page)[1:] == ["Bolt|5", "Nut|2"]


def test_a_table_goes_on_on_the_next_page_without_its_header() -> None:
    first, second = table("Name Price Stock", "Bolt 4 5"), table("Name Price Stock", "Nut 2 7")
    assert shown(first, second) == ["=", "Name|Price|Stock", "Bolt|4|5", "~", "Nut|2|7"]
    assert shown(first, table("Nut 2", "Pin 4"))[3:] == ["=", "Nut|2", "Pin|4"]


def test_a_value_between_the_lines_of_a_name_is_in_its_row() -> None:
    page = [
        line(text, 50, y) for y, text in ((100, "Name"), (114, "Bank of"), (126, "Bern"), (140, "Ann"), (160, "Eve"))
    ]
    page += [line(text, 250, y) for y, text in ((100, "Share"), (120, "9"), (140, "8"), (160, "7"))]
    page += [line(text, 350, y) for y, text in ((100, "Kind"), (120, "A"), (140, "B"), (160, "C"))]
    assert shown(page)[1:] == ["Name|Share|Kind", "Bank of Bern|9|A", "Ann|8|B", "Eve|7|C"]


def test_cells_that_were_written_row_by_row_are_no_columns() -> None:
    cells = [(n, side) for n in range(12) for side in (0, 1)]
    page = [line(PROSE, 50 + 290 * side, 100 + 14 * n, 240)._replace(order=2 * n + side) for n, side in cells]
    assert len(list(regions(rows_of(page)))) == 1


def test_numbers_in_prose_and_stretched_lines_are_no_table() -> None:
    stretched = [line("in 2019", 50, 160, 100), line("some 40 of 90 pumps", 170, 160, 120)]
    assert [len(text.split("|")) for text in shown([*prose(5), *stretched, *prose(5, y=172)])[1:]] == [1]


# Paragraphs


def test_a_full_line_goes_on_and_a_short_one_does_not() -> None:
    page = [line("水泵由电机驱动并把水从地下水池送到屋顶水箱然后再由屋顶水箱分送到各", 50, 100, 340)]
    page += [line("层的用户。", 50, 114, 50), line("打开阀门", 50, 128, 40), line("型号口径", 50, 142, 40)]
    assert shown(page) == ["=", f"{page[0].text}层的用户。", "-打开阀门", "-型号口径"]


@pytest.mark.parametrize(
    "following",
    [
        line("• an item of the list", 50, 136),
        line("farther below than lines are", 50, 150),
        line("Indented as paragraphs are", 70, 136),
        line("Set in larger type", 50, 140, size=14),
        line("Bold", 50, 136, is_bold=True),
    ],
)
def test_what_begins_something_new(following: Span) -> None:
    assert shown([*prose(3), following])[-1].lstrip("-") == following.text


def test_lines_of_an_item_hang_below_its_text() -> None:
    item = [line("z Each pump has a valve and", 50, 160, 240), line("a tank.", 66, 172)]
    assert shown([*prose(3, width=230), *item])[-1] == "z Each pump has a valve and a tank."


def test_bold_words_at_the_end_of_a_line_go_on() -> None:
    following = line("tank, and ", 50, 136, is_bold=True)
    assert shown([*prose(3), following])[-1].endswith(f"tank {following.text}")


@pytest.mark.parametrize(("text", "following"), [("- - - - - - -", "port one"), ("the pump // of", "// the well")])
def test_rules_made_of_signs_and_comments_of_code_are_lines(text: str, following: str) -> None:
    assert shown([line(text, 50, 100, 240), line(following, 50, 112, 200), *prose(3, y=124)])[1:3] == [
        text,
        f"-{following}",
    ]


def test_lines_that_are_about_as_long_by_chance_do_not_go_on() -> None:
    names = [line("BOOK of the names and the titles", 50, 100), line("AUTHOR and her names", 50, 112)]
    names += [line("BUYER and his names", 50, 124), line("ORDER and a number", 50, 136), line("SALE", 50, 148)]
    assert [text.lstrip("-") for text in shown(names)[1:]] == [span.text for span in names]


def test_text_goes_on_on_the_next_page() -> None:
    first, second = line("The pump moves the water from the well to the", 50, 700, 300), line("tank above.", 50, 50)
    assert shown([first], [second]) == ["=", f"{first.text} \ftank above."]
    assert shown([first], [second._replace(text="Tanks.")]) == ["=", first.text, "=", "Tanks."]


# Headings


def test_larger_or_bold_lines_above_prose_are_headings() -> None:
    page = [line("Pumps", 50, 80, size=16), *prose(6), line("Care", 50, 200, is_bold=True), *prose(6, y=220)]
    assert [text for text in shown(page) if text[0] == "#"] == ["#Pumps", "#Care"]


def test_headings_above_headings_and_chapters_above_lists_are_headings() -> None:
    page = [line("2 Pumps", 50, 80, size=16), line("2.1 Care", 50, 100, is_bold=True), *prose(3, y=120)]
    page += [line("第二章 水泵", 50, 170, is_bold=True), line("要点：", 50, 182, is_bold=True), line("1.泵", 50, 194)]
    page += prose(6, y=230)
    assert [text for text in shown(page) if text[0] == "#"] == ["#2 Pumps", "#2.1 Care", "#第二章 水泵"]


@pytest.mark.parametrize(
    "page",
    [
        [line("Figure 2: the pumps", 50, 80, size=16), *prose(6, y=110)],
        [line("and of a tank", 50, 80, size=16), *prose(6, y=110)],
        [line("• Pumps", 50, 80, size=16), *prose(6, y=110)],
        [line("TOTAL 82114", 50, 80, size=16), line("Thank you", 50, 110)],
        [*prose(6), line("Pumps fail;", 50, 200, size=16), *prose(6, y=220)],
        [line(f"• {n}", 50, 40 * n, size=20 - n) for n in range(1, 12)],
    ],
)
def test_large_text_that_is_no_heading(page: list[Span]) -> None:
    assert not [text for text in shown(page) if text[0] == "#"]


def test_an_outline_says_what_the_headings_are() -> None:
    page = [
        line("2 Pumps and", 50, 60),
        line("tanks", 50, 72),
        *prose(3),
        line("LARGE", 50, 160, size=20),
        *prose(3, y=190),
        line("Bold", 50, 250, is_bold=True),
        *prose(3, y=270),
    ]
    found = [text for text in shown(page, outline=({"pumpsandtanks": 1},)) if text[0] == "#"]
    assert found == ["#2 Pumps and tanks", "#LARGE"]


def test_a_title_of_the_outline_ends_a_heading_in_larger_type() -> None:
    page = [line("Chapter 1", 50, 60, size=20), line("What is a pump?", 50, 90, size=20), *prose(3, y=120)]
    page += [line("Tanks", 50, 170, size=20), *prose(3, y=200)]
    found = [text for text in shown(page, outline=({"whatisapump?": 1},)) if text[0] == "#"]
    assert found == ["#What is a pump?", "#Tanks"]


# Hostile pages


@pytest.mark.parametrize(
    "spans",
    [
        [line("x", 7 * (n % 200), 12 * (n // 200)) for n in range(50_000)],
        [line("x", 7 * n, 100) for n in range(50_000)],
        [line("x", 50, n / 10) for n in range(50_000)],
        [line("word", 300 * (n % 2), 3 * n) for n in range(50_000)],
        [line("same", 50, 100) for _ in range(50_000)],
    ],
    ids=["cells", "one line", "one column", "two columns", "one place"],
)
def test_hostile_pages_are_read_in_their_time(spans: list[Span]) -> None:
    half, whole = (num_calls(lambda count=count: shown(spans[:count])) for count in (25_000, 50_000))
    assert whole < 2.5 * half


def test_hostile_rules_are_read_in_their_time() -> None:
    def read(count: int) -> object:
        rules = Rules.of((0, n / 20, 600, n / 20) for n in range(count))
        cells = rows_of([line("x", 90 * at, 12 * n) for n in range(count // 40) for at in range(5)])
        return blocks([Page(600, 800, cells, rules=rules)], [{}])

    half, whole = (num_calls(lambda count=count: read(count)) for count in (25_000, 50_000))
    assert whole < 2.5 * half


@pytest.mark.parametrize("num_pages", [1, 1_000])
def test_hostile_margins_are_read_in_their_time(num_pages: int) -> None:
    def read(count: int) -> object:
        places = ((n, 50 + 7 * (n % 60), 700 * (n % 2) + n % 90) for n in range(count // num_pages))
        rows = rows_of(line(f"{n} ..... {n}", x, y) for n, x, y in places)
        pages = [Page(600, 800, list(map(list, rows)), [rows[0][:1]]) for _ in range(num_pages)]
        return drop_running(pages) + drop_contents(pages)

    half, whole = (num_calls(lambda count=count: read(count)) for count in (25_000, 50_000))
    assert whole < 2.5 * half
