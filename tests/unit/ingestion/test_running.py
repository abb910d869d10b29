"""What pages repeat, by its place on them."""

from __future__ import annotations

import pytest

from rag_bm25.ingestion.formats.layout import Page, Span, rows_of
from rag_bm25.ingestion.formats.running import drop_contents, drop_running

HEAD, BODY, FOOT = 40, 200, 770


def page(*lines: tuple[float, str], size: float = 10, x: float = 50) -> Page:
    return Page(600, 800, rows_of(Span(x, x + 6 * len(text), y, size, text) for y, text in lines))


def lines(pages: list[Page]) -> list[list[str]]:
    return [[span.text for row in page.rows for span in row] for page in pages]


def pages_of(head: str, foot: str = "", *, of: int = 5) -> list[Page]:
    """Make pages with a head and a foot, in which 1 is the number of the page."""
    return [
        page(
            *((y, text.replace("1", str(n))) for y, text in ((HEAD, head), (FOOT, foot)) if text),
            (BODY, f"text {n * n}"),
        )
        for n in range(1, of + 1)
    ]


@pytest.mark.parametrize(
    ("head", "foot", "first", "others"),
    [
        ("A manual", "", ["A manual", "text 1"], ["text 4"]),
        ("", "1", ["text 1"], ["text 4"]),
        ("Manual 1 / 4", "Page 1 of 5", ["Manual 1 / 4", "text 1"], ["text 4"]),
        ("", "第 1 页", ["text 1"], ["text 4"]),
    ],
)
def test_running_lines_are_kept_once_and_numbers_of_pages_never(
    head: str, foot: str, first: list[str], others: list[str]
) -> None:
    pages = pages_of(head, foot)
    drop_running(pages)
    assert lines(pages)[:2] == [first, others]


@pytest.mark.parametrize(
    "pages",
    [
        [page((80, f"Week {n}"), (97, "We learn"), (300, f"text {n}")) for n in range(1, 6)],  # no gap below
        [page((HEAD, f"Lesson {n}"), size=20) for n in range(1, 6)],  # nothing else on the page
        [page((BODY, "Agree Disagree"), (220, f"{n} 7")) for n in range(1, 6)],  # not in the margin
        [page((HEAD, "Head"), (BODY, "a")), page((HEAD, "Head"), (BODY, "b"))],  # on two pages
        [page((HEAD, "Head" if n < 3 else f"Own {n * n}"), (BODY, str(n))) for n in range(12)],  # on a few
        [page((HEAD + 9 * n, "Head"), (BODY, str(n))) for n in range(5)],  # at other places
        [page((HEAD, "7"), (BODY, str(n))) for n in range(5)],  # a number that does not count
    ],
)
def test_what_repeats_otherwise_stays(pages: list[Page]) -> None:
    before = lines(pages)
    drop_running(pages)
    assert lines(pages) == before


def test_heads_beside_the_body_and_across_it_are_running_lines() -> None:
    pages = pages_of("")
    for each in pages:
        each.rows += page(*((y, "the words of the body") for y in range(100, 700, 12)), x=100).rows
        each.rows += page((92, "ER"), x=20).rows
        each.rows.sort(key=lambda row: row[0].y)
        each.aside = page((20, "printed by a clerk")).rows
    drop_running(pages)
    assert [sum(row.count("ER") for row in lines([each])) + len(each.aside) for each in pages] == [2, 0, 0, 0, 0]


def test_the_header_of_a_column_in_the_margin_stays() -> None:
    body = [(y, "the words of the body") for y in range(100, 400, 12)]
    pages = [Page(600, 800, page(*body, (420, str(n * n)), x=150).rows) for n in range(5)]
    for each in pages:
        each.rows.insert(0, rows_of([Span(20, 60, 88, 10, "LINE"), Span(150, 300, 88, 10, "DESCRIPTION")])[0])
    drop_running(pages)
    assert [each.rows[0][0].text for each in pages] == ["LINE"] * 5


def numbered_page(texts: list[str], first: int = 1) -> Page:
    """Make a page whose lines have numbers."""
    numbers = [Span(44 - 6 * len(str(n)), 44, 100 + 14 * n, 10, str(n)) for n in range(first, first + len(texts))]
    rest = [Span(60, 400, number.y, 10, text) for number, text in zip(numbers, texts, strict=True) if text]
    return Page(600, 800, rows_of([*numbers, *rest]))


def test_numbers_of_lines_are_left_out_and_those_of_lists_stay() -> None:
    texts = ["the water", "of a well", "", *["is good"] * 8]
    pages, listed = [numbered_page(texts)], [numbered_page([*texts[:2], "and", *texts[3:]])]
    assert drop_running(pages) == {"line numbers": 13}
    assert lines(pages) == [list(filter(None, texts))]
    assert not drop_running(listed)


def test_what_is_left_out_is_counted_by_kind() -> None:
    assert drop_running(pages_of("A manual", "1")) == {"running lines": 4 * len("A manual"), "page numbers": 5}


@pytest.mark.parametrize(
    ("pages", "kept"),
    [
        (
            ["Contents\n1 One . . . . . . 2\nTwo ..... iv\n第一章………3", "1 One\n第一章", "Two"],
            ["Contents", "1 One\n第一章", "Two"],
        ),
        (["Tea ........ 3\nRice ..... 4.50", "Cake ...... 9"], ["Tea … 3\nRice ..... 4.50", "Cake … 9"]),
        (["他说……3 次\n他说等等......\n他说等等"], ["他说……3 次\n他说等等......\n他说等等"]),
        (["tea ........ 3\nrice . . . 1"], ["tea … 3\nrice . . . 1"]),
        (["Tea ........ 2\nCake ....... 1", "Cake"], ["Tea … 2", "Cake"]),
    ],
)
def test_contents_are_left_out_where_their_words_are_elsewhere(pages: list[str], kept: list[str]) -> None:
    placed = [page(*((BODY + 14 * at, line) for at, line in enumerate(text.split("\n")))) for text in pages]
    drop_contents(placed)
    assert ["\n".join(texts) for texts in lines(placed)] == kept
