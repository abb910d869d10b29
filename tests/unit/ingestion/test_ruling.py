"""Ruling lines, over invented lines and boxes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag_bm25.ingestion.formats.layout import Page, Span, blocks, regions, rows_of
from rag_bm25.ingestion.formats.ruling import Rules

LINES = [(50, y, 450, y + 1) for y in (90, 130, 170)]


def words(*lines: tuple[float, str]) -> list[Span]:
    """Place the cells of lines, 150 points apart; a dash is an empty one."""
    cells = [(y, at, cell) for y, text in lines for at, cell in enumerate(text.split())]
    return [Span(50 + 150 * at, 80 + 150 * at, y, 10, cell) for y, at, cell in cells if cell != "-"]


def rows(spans: list[Span], rules: Rules) -> list[list[str]]:
    return [block.parts for block in blocks([Page(600, 800, rows_of(spans), rules=rules)], [{}]) if block.kind == "row"]


def test_lines_between_rules_are_one_row() -> None:
    spans = words((100, "Name Size Price"), (112, "of in -"), (124, "it mm -"), (145, "Bolt 5 2"), (157, "- - EUR"))
    spans += words((185, "Nut 7 4"))
    header, bolt, nut = ["Name of it", "Size in mm", "Price"], ["Bolt", "5", "2 EUR"], ["Nut", "7", "4"]
    assert rows(spans, Rules.of(LINES)) == [header, bolt, nut]


def test_rows_that_no_rule_parts_are_rows() -> None:
    spans = words((100, "Name Size Price"), (112, "Bolt 5 2"), (124, "Nut 7 3"), (145, "Pin 9 4"))
    assert len(rows(spans, Rules.of(LINES))) == 4
    labels = words((100, "Name: Bolt"), (112, "Kind: Iron"), (145, "Pin 9 4"), (157, "Nut 9 4"))
    assert rows(labels, Rules.of(LINES))[:2] == [["Name:", "Bolt"], ["Kind:", "Iron"]]


def test_a_ruled_table_as_wide_as_the_page_is_in_no_column() -> None:
    left = [Span(50, 240, 100 + 12 * n, 10, f"{n} the water of the well") for n in range(6)]
    right = [Span(260, 450, 105 + 12 * n, 10, f"{n} goes up to the tank") for n in range(6)]
    rules = Rules.of([(50, y, 450, y) for y in (85, 130, 180)])
    assert [len(list(regions(rows_of([*left, *right]), lines))) for lines in (Rules(), rules)] == [2, 1]


def test_parts_of_a_line_are_one_and_boxes_have_two_edges() -> None:
    halves = [(50, 100, 200, 101), (200, 101, 450, 102), (50, 300, 60, 301)]
    rules = Rules.of([*halves, (50, 150, 450, 180), (50, 200, 52, 260)])
    assert rules.between_rows(50, 450, 90, 400) == [100.5, 150, 180]


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)), max_size=30))
def test_a_line_covers_at_most_what_its_parts_do(parts: list[tuple[int, int, int]]) -> None:
    boxes = [(min(a, b), y, max(a, b), y) for y, a, b in parts]
    for line in Rules.of(boxes).lines:
        near = [box for box in boxes if line.y <= box[1] <= line.y + 2]
        assert line.x0 in {box[0] for box in near}
        assert line.x1 in {box[2] for box in near}
        assert line.width <= sum(box[2] - box[0] for box in near)
