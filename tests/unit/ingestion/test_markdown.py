"""Markdown: what no reader of a page sees is no text, and front matter is metadata."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.files import run, write

from rag_bm25 import BM25Index
from rag_bm25.ingestion.markup import read_markdown

PICTURE = f"data:image/png;base64,{base64.b64encode(bytes(range(256)) * 9).decode()}"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("《**劳动**合同法》un*believ*able **bold** a", "《劳动合同法》unbelievable **bold** a"),
        ("**重点**、**其他** `a*b*c` $a*b*c$ 2 * 3 *x y*", "**重点**、**其他** `a*b*c` $a*b*c$ 2 * 3 *x y*"),
        (r"user\_id C\# a\|b `x\_y` \`a\_b\` $x\_y$ $$\{a\}$$", r"user_id C# a\|b `x\_y` \`a_b\` $x\_y$ $$\{a\}$$"),
        ("```\nuser\\_id un*believ*able <!-- a -->\n```", "```\nuser\\_id un*believ*able <!-- a -->\n```"),
        ("~~~\n```\n<!-- a -->\n~~~\nb<!-- c\n# D -->", "~~~\n```\n<!-- a -->\n~~~\nb"),
        (
            "1. a\n    ```\n    a*b*c &lt; \\.\n\n    <!-- d -->\n    ```\nb*c*d",
            "1. a\n    ```\n    a*b*c &lt; \\.\n\n    <!-- d -->\n    ```\nbcd",
        ),
        ("- a\n\t~~~\n\ta*b*c\n\n# b*c*d", "- a\n\t~~~\n\tabc\n\n# bcd"),
        ("a <!-- b --> c `<!-- d -->` <!--> e <!-- f", "a  c `<!-- d -->`  e <!-- f"),
        (f"a ![drawing]({PICTURE}) b", "a drawing b"),
        (f'![x](<{PICTURE}> "title") <img src="{PICTURE}">', 'x <img src="">'),
        (f"![x][i]\n\n[i]: <{PICTURE}>\n", "![x][i]\n\n\n"),
        ("see data:text/plain,short", "see data:text/plain,short"),
    ],
)
def test_marks_that_a_page_does_not_show_are_no_text(source: str, text: str) -> None:
    assert read_markdown(source).text == text


def test_a_comment_has_no_headings() -> None:
    document = read_markdown("# One\n\n<!-- INFO\n\n# Draft\n\n-->\n\n## Two\n")
    assert [(each.title, document.text[each.start : each.end]) for each in document.headings] == [
        ("One", "# One"),
        ("Two", "## Two"),
    ]


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("The `<Transition>` component", "The <Transition> component"),
        ("``Map<K, V>`` <a id='x'></a> {#map}", "Map<K, V>"),
        (r"user\_id &amp; [`get`](a.md) **now**", "user_id & get now"),
    ],
)
def test_the_title_of_a_heading_is_what_a_page_shows(heading: str, title: str) -> None:
    assert [each.title for each in read_markdown(f"# {heading}\n").headings] == [title]


FRONT_MATTER = """---
title: "Opening hours: all" # a comment
date: 2026-1-05 8:30:00 +0800
lastmod: 2026/01/06
weight: 4
ratio: -0.5
draft: false
'tags': [shop, "zebra, the", 2026]
categories:
  - one
- two
description: >-
  Two lines
  that are joined
author:
  name: nested
source: elsewhere
empty:
# a comment
---
"""


def test_front_matter_becomes_metadata_with_types() -> None:
    document = read_markdown(f"{FRONT_MATTER}We open at nine.\n")
    assert (document.title, document.text) == ("Opening hours: all", "We open at nine.\n")
    assert document.metadata == {
        "date": "2026-01-05T08:30:00+08:00",
        "lastmod": "2026-01-06",
        "weight": 4,
        "ratio": -0.5,
        "draft": False,
        "tags": ["shop", "zebra, the", 2026],
        "categories": ["one", "two"],
        "description": "Two lines that are joined",
    }


def test_front_matter_of_toml_becomes_metadata() -> None:
    document = read_markdown(
        '+++\ntitle = "T"\ndate=2026-01-05T08:30:00Z\ntags = [\n  "a",\n  "b",\n]\n[params]\nx = 1\n+++\nx'
    )
    assert (document.title, document.text) == ("T", "x")
    assert document.metadata == {"date": "2026-01-05T08:30:00Z", "tags": ["a", "b"]}


@pytest.mark.parametrize(
    ("given", "title"), [("1984", "1984"), ("0", "0"), ("2026-1-5", "2026-01-05"), ("[a, b]", "H"), ("true", "H")]
)
def test_a_title_of_front_matter_is_a_text_a_number_or_a_date(given: str, title: str) -> None:
    document = read_markdown(f"---\ntitle: {given}\n---\n# H\n")
    assert (document.title, document.metadata) == (title, {})


@pytest.mark.parametrize(
    "text",
    ["---\nA sentence.\n---\nb\n", "---\na: b\n", "---\n  a\n---\n", f"---\na: {'b' * 10_000}\n---\n", "--- a: b\n---"],
)
def test_lines_that_are_no_front_matter_are_text(text: str) -> None:
    document = read_markdown(text)
    assert (document.text, document.metadata) == (text, {})


def test_chunks_have_the_metadata_of_the_front_matter(tmp_path: Path, index: BM25Index) -> None:
    run(index, write(tmp_path / "a.md", "---\ntags: [shop]\nchunk: 7\n---\nWe open at nine\n"))
    (chunk,) = index.chunks()
    assert (chunk.metadata["tags"], chunk.metadata["chunk"]) == (["shop"], 0)
    assert index.search("nine", filter={"tags": {"$contains": "shop"}})


@given(st.text(alphabet="ab *\\`\n#<!->$", max_size=60))
def test_letters_outside_comments_stay_in_order(text: str) -> None:
    shown = read_markdown(f"x\n{text}").text
    assert "".join(filter(str.isalpha, shown)) == "".join(filter(str.isalpha, f"x\n{text}")) or "<!--" in text


@pytest.mark.parametrize("mark", ["#", "?code="])
@pytest.mark.parametrize(("size", "is_kept"), [(40, True), (400, False)])
def test_the_code_that_a_link_carries_is_no_text(mark: str, size: int, is_kept: bool) -> None:
    code = "eNp9kLsK" * (size // 8)
    text = read_markdown(
        f"[Try it](https://play.example/a{mark}{code}), or `[x](https://b.example/#{code[:40]})`."
    ).text
    assert text.startswith(
        f"[Try it](https://play.example/a{mark}{code})" if is_kept else "[Try it](https://play.example/a)"
    )
    assert text.endswith(f", or `[x](https://b.example/#{code[:40]})`.")
