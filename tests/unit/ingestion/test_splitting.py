"""Texts are cut at headings, within bounds, and without bare headings."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.steps import count_steps

from rag_bm25 import IndexConfig
from rag_bm25.ingestion.documents import Heading
from rag_bm25.ingestion.markup import read_markdown, read_rst
from rag_bm25.ingestion.splitting import Splitter, splitter

SPLIT = Splitter(100, 10, 20)


def cut(text: str, split: Splitter = SPLIT) -> list[tuple[str, tuple[str, ...]]]:
    parts = split.split(text, read_markdown(text).headings)
    return [(text[part.start : part.end], part.headings) for part in parts]


BODY = "Enough words to stand alone as a chunk."


def test_sections_are_chunks_with_the_path_of_their_headings() -> None:
    text = f"# Guide\n\n{BODY}\n\n## Setup\n\n{BODY}\n\n### Linux\n\n{BODY}\n\n# Use\n\n{BODY}\n"
    assert cut(text) == [
        (f"# Guide\n\n{BODY}", ("Guide",)),
        (f"## Setup\n\n{BODY}", ("Guide", "Setup")),
        (f"### Linux\n\n{BODY}", ("Guide", "Setup", "Linux")),
        (f"# Use\n\n{BODY}", ("Use",)),
    ]


def test_bare_headings_join_what_follows_and_have_its_path() -> None:
    text = f"# Ownership\n\n## What Is Ownership?\n\n{BODY}"
    assert cut(text) == [(text, ("Ownership", "What Is Ownership?"))]


def test_short_sections_join_a_neighbour_and_have_the_path_that_both_share() -> None:
    text = f"# A\n\n## B\n\n{BODY}\n\n## C\n\nshort\n\n## D\n\n{BODY}"
    assert cut(text) == [(f"# A\n\n## B\n\n{BODY}", ("A", "B")), (f"## C\n\nshort\n\n## D\n\n{BODY}", ("A",))]


def test_a_short_section_joins_the_one_before_rather_than_the_next_chapter() -> None:
    text = f"# A\n\n## B\n\n{BODY}\n\n## C\n\nshort\n\n# D\n\n{BODY}"
    assert [path for _, path in cut(text)] == [("A",), ("D",)]


def test_a_question_begins_a_chunk_of_its_own_however_short() -> None:
    faq = "# FAQ\n\n## Why?\n\nSo.\n\n## 怎么退款？\n\n联系客服。\n\n### Note\n\nOnce.\n\n## More\n\nWords."
    assert cut(faq) == [
        ("# FAQ\n\n## Why?\n\nSo.", ("FAQ", "Why?")),
        ("## 怎么退款？\n\n联系客服。\n\n### Note\n\nOnce.", ("FAQ", "怎么退款？")),
        ("## More\n\nWords.", ("FAQ", "More")),
    ]


def test_bare_headings_above_a_question_stay_with_it() -> None:
    assert [text for text, _ in cut("Intro.\n\n# Part\n\n# Bare?\n\n## Why?\n\nSo.")] == [
        "Intro.",
        "# Part\n\n# Bare?\n\n## Why?\n\nSo.",
    ]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("AT&amp;T V&ouml;lker 劳动&nbsp;合同 &#29579; &#x738B;", "AT&T Völker 劳动\xa0合同 王 王"),
        ("&unknown; \\&amp; a&b; `&amp;`\n", "&unknown; &amp; a&b; `&amp;`\n"),
        ("劳动合\n同，\n应当\n\n出示", "劳动合同，应当\n\n出示"),
        ("- 劳动合\n  同", "- 劳动合同"),
        ("劳动  \n合同\nword\n合同", "劳动  \n合同\nword\n合同"),
        ("甲 | 乙\n---|---\n丙 | 丁\n戊 | 己", "甲 | 乙\n---|---\n丙 | 丁\n戊 | 己"),
        ("```中文\n劳动\n合同 &amp;\n```\n", "```中文\n劳动\n合同 &amp;\n```\n"),
        ("x\n\n    劳动\n    合同 &amp;\n", "x\n\n    劳动\n    合同 &amp;\n"),
        ("---\na: 劳动\nb: &amp;\n---\n&amp;", "&"),
    ],
)
def test_markdown_has_the_characters_that_a_page_shows(source: str, text: str) -> None:
    assert read_markdown(source).text == text


def test_headings_are_where_the_text_of_the_page_has_them() -> None:
    document = read_markdown("&amp; 劳动\n合同\n\n# AT&amp;T 标题\n正文&nbsp;劳\n动\n\n上\n下\n===\n\n## 末\n")
    assert [(each.title, document.text[each.start : each.end]) for each in document.headings] == [
        ("AT&T 标题", "# AT&T 标题"),
        ("上下", "上下\n==="),
        ("末", "## 末"),
    ]


def test_long_sections_are_cut_within_and_their_chunks_keep_the_path() -> None:
    text = "# A\n\n## B\n\n" + "Some words of it. " * 20
    found = cut(text)
    assert len(found) > 3
    assert {path for _, path in found} == {("A", "B")}


def test_parts_without_a_word_are_left_out() -> None:
    text = "|\n" * 200 + BODY
    assert all(re.search(r"\w", piece) for piece, _ in cut(text))
    assert cut("---\n\n|||") == []


def test_no_cut_leaves_a_rest_that_is_too_short() -> None:
    text = "word " * 20 + "end"
    assert [len(piece) for piece, _ in cut(text)] == [79, 33]  # not 99 and 3; the overlap is in both


@given(
    st.lists(
        st.sampled_from(
            ["# A\n", "## B\n", "\n\n", "\n", "word ", "one two. ", "一条，", "第二句。", "```\n", "|", "x" * 70]
        ),
        max_size=120,
    ).map("".join),
    st.integers(5, 60),
    st.data(),
)
def test_chunks_are_parts_within_the_bounds_and_leave_out_no_word(text: str, longest: int, data: st.DataObject) -> None:
    least = data.draw(st.integers(0, longest // 5))
    split = Splitter(longest, data.draw(st.integers(0, longest // 2)), least)
    parts = split.split(text, read_markdown(text).headings)
    covered: set[int] = set()
    for part in parts:
        piece = text[part.start : part.end]
        assert piece == piece.strip()
        assert 0 < len(piece) <= longest
        assert re.search(r"\w", piece)
        covered |= set(range(part.start, part.end))
    assert [part.start for part in parts] == sorted({part.start for part in parts})
    assert {at for at, letter in enumerate(text) if re.match(r"\w", letter)} <= covered


@given(st.lists(st.sampled_from(["a", "bb", "。", " ", "\n\n", "# H\n"]), max_size=60).map("".join), st.integers(2, 9))
def test_lengths_in_terms_are_bounds_too(text: str, longest: int) -> None:
    split = Splitter(longest, 1, longest // 5, lambda part: len(part.split()))
    for part in split.split(text, read_markdown(text).headings):
        assert 0 < len(text[part.start : part.end].split()) <= longest


def test_work_grows_like_a_text_whose_terms_are_far_apart() -> None:
    """An overlap that is looked for character by character measures a line of dashes a thousand times."""
    measured: list[int] = []

    def length(text: str) -> int:
        measured.append(len(text))
        return len(re.findall(r"\w+", text))

    words = "word " * 50
    text = f"{words}{'-' * 2_000} {words}"
    Splitter(60, 30, 12, length).split(text)
    assert sum(measured) < 100 * len(text)


def test_the_minimum_is_a_fifth() -> None:
    assert splitter(IndexConfig(chunk_size=500)).least == 100


def test_a_heading_that_is_longer_than_a_chunk_is_cut() -> None:
    text = "# " + "long " * 50 + "\n\nbody"
    assert max(len(piece) for piece, _ in cut(text)) <= 100
    assert {len(path[0]) for _, path in cut(text)} == {200}


# Hostile texts: a million headings in seconds, where each question went through all of them


@pytest.mark.parametrize("unit", ["#\n", "# a\n\nsome text.\n\n", "## b\n# a\n", "a\n==\n\n"])
def test_work_grows_like_the_number_of_headings(unit: str) -> None:
    few, many = (count_steps(lambda number=number: cut(unit * number)) for number in (300, 3_000))
    assert many < 12 * few


def test_the_text_before_is_not_measured_again_for_each_heading() -> None:
    measured = 0

    def length(text: str) -> int:
        nonlocal measured
        measured += len(text)
        return len(text)

    text = "word " * 1_000 + "\n" + "## b\n# a\n" * 1_000
    cut(text, Splitter(500, 0, 100, length))
    assert measured < 100 * len(text)


@pytest.mark.parametrize(
    "text",
    ["# a" + " " * 1_000_000 + "b", "---\ntitle: a" + " " * 1_000_000 + "b\n---\n", "." * 2_000_000],
    ids=["blanks in a heading", "blanks in a title", "dots"],
)
def test_a_long_line_is_split(text: str) -> None:
    assert cut(text, Splitter(1_000_000, 0, 200_000)) is not None


def test_a_long_title_of_colons_is_read() -> None:
    assert read_rst(f"{':' * 500_000}a\n{'=' * 500_001}\n").headings[0].level == 1


# Headings


MARKDOWN = """---
title: "The Guide"
---
# One #

Two
===

```
# no heading
```
~~~ sh
# no heading
```
~~~
#hashtag
- item
---
####### seven

Sub `code` and [link](to.md)
---
| a |
---
"""


def test_headings_of_markdown() -> None:
    document = read_markdown(MARKDOWN)
    found = [(heading.level, heading.title) for heading in document.headings]
    assert document.title == "The Guide"
    assert found == [(1, "One"), (1, "Two"), (2, "Sub code and link")]
    assert document.text[document.headings[1].start : document.headings[1].end] == "Two\n==="


BLOCKS = [
    "# A",
    "## B ##",
    "text",
    "text\n===",
    "text\n---",
    "```",
    "~~~",
    "",
    "",
    "#x",
    "###### F",
    "#",
    "- item\n",
    "> q\n",
]


@given(st.lists(st.sampled_from(BLOCKS), max_size=12).map("\n".join))
@example("# A\n---\n===")
@example("text\n- item\n---")
def test_headings_are_those_of_commonmark(text: str) -> None:
    markdown_it = pytest.importorskip("markdown_it")
    tokens = markdown_it.MarkdownIt("commonmark").parse(text)
    wanted = [int(token.tag[1]) for token in tokens if token.type == "heading_open" and token.level == 0]
    assert [heading.level for heading in read_markdown(text).headings] == wanted


RST = """.. _label:

=====
Title
=====

Part
====

text

Sub :func:`it`
--------------

::

    code
    ----

Another
=======
a | b
"""


def test_headings_of_restructured_text() -> None:
    document = read_rst(RST)
    assert document.title == "Title"
    assert [(heading.level, heading.title) for heading in document.headings] == [
        (1, "Title"),
        (2, "Part"),
        (3, "Sub it"),
        (2, "Another"),
    ]
    first = document.headings[0]
    assert RST[first.start : first.end] == "=====\nTitle\n====="


def test_no_cut_falls_behind_a_heading() -> None:
    text = "before it all there is text\nHeading\nSub\nbody text that is long enough to be cut"
    headings = [Heading(28, 35, 1, "Heading"), Heading(36, 39, 2, "Sub")]
    parts = Splitter(30, 0, 5).split(text, headings)
    assert [text[part.start : part.end] for part in parts] == [
        "before it all there is text",
        "Heading\nSub\nbody text that is",
        "long enough to be cut",
    ]
    assert [part.headings for part in parts] == [(), ("Heading", "Sub"), ("Heading", "Sub")]


def test_picture_in_a_heading_leaves_its_text_alone() -> None:
    text = "![libsodium](logo.png)\n=====\n\nCrypto."
    assert [heading.title for heading in read_markdown(text).headings] == ["libsodium"]


@pytest.mark.parametrize(
    ("line", "title"),
    [("# a #", "a"), ("# a ## ", "a"), ("# a#", "a#"), ("# a # b", "a # b"), ("# ##", ""), ("#\ta\t#", "a"), ("#", "")],
)
def test_marks_at_the_end_of_a_heading_close_it(line: str, title: str) -> None:
    assert [heading.title for heading in read_markdown(line).headings] == [title]


def test_a_blank_title_is_none() -> None:
    assert read_markdown("---\ntitle:  \n---\n# One\n").title == "One"


ROWS = "".join(f"part{n} | {n * 7} | x\n" for n in range(40))


@pytest.mark.parametrize(
    ("table", "header"),
    [
        (f"name | limit | unit\n{ROWS}", "name | limit | unit\n"),
        (f"| limit | unit\n{ROWS}", "| limit | unit\n"),
        (f"Limits |  |\nname | limit | unit\n{ROWS}", "Limits |  |\nname | limit | unit\n"),
        (f"name | limit | unit\n---|---|---\n{ROWS}", "name | limit | unit\n---|---|---\n"),
        ("| a | b |\n|:--|--:|\n" + "| word |  |\n" * 40, "| a | b |\n|:--|--:|\n"),
        ("name\tlimit\tunit\n" + ROWS.replace(" | ", "\t"), "name\tlimit\tunit\n"),
        ("name,limit,unit\n" + ROWS.replace(" | ", ","), "name,limit,unit\n"),
        ("name,name,unit\n" + ROWS.replace(" | ", ","), ""),
        (ROWS.replace(" | ", "\t"), ""),
        ("one, two, three\n" + ROWS.replace(" | ", ", "), ""),
        (f"a | b\n{ROWS}", ""),
        (f"{'long ' * 5}| limit | unit\n{ROWS}", ""),
    ],
)
def test_a_table_that_is_cut_has_its_header_in_each_chunk(table: str, header: str) -> None:
    text = f"# Table\n\n{table}\nThe text after it, which is in no table at all."
    parts = Splitter(100, 0, 20).split(text, read_markdown(text).headings)
    assert len(parts) > 5
    assert "".join(text[part.start : part.end] for part in parts).replace("\n", "") == text.replace("\n", "")
    within = [part for part in parts if text.index(table) < part.start < text.index("The text after")]
    assert {part.header for part in parts if part in within} == {header}
    assert all(part.header == "" for part in parts if part not in within)
    assert all(len(part.text_of(text)) <= 100 for part in parts)


def test_the_header_of_a_table_is_not_cut() -> None:
    text = "word " * 13 + "\nh | i\n---|---\n" + "a | b\n" * 30
    parts = Splitter(74, 0, 70).split(text)
    assert [part.header for part in parts][:3] == ["", "", "h | i\n---|---\n"]
    assert text[parts[1].start :].startswith("h | i\n---|---\na | b\n")
