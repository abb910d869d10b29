"""Find characters in stored texts: places and bounds."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25 import BM25Index, IndexConfig, IndexGroup
from rag_bm25.budget import limited
from rag_bm25.errors import InputError
from rag_bm25.index.arguments import parse_scope
from rag_bm25.index.searching import finding
from rag_bm25.index.searching.finding import Findings, Pattern, find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@given(st.text("ab税\n", min_size=1, max_size=3), st.text("ab税\n", max_size=12), st.integers(0, 12))
def test_a_place_is_that_of_the_first_match(literal: str, text: str, begin: int) -> None:
    expected = re.compile(re.escape(literal)).search(text, begin)
    assert Pattern(literal).first(text, begin) == (expected and expected.span())


@given(st.text(min_size=1, max_size=3), st.text(max_size=20), st.text(max_size=20))
def test_a_literal_is_found_as_it_is_stored(literal: str, before: str, after: str) -> None:
    text = before + literal + after
    start = text.find(literal)
    assert Pattern(literal).first(text) == (start, start + len(literal))


@pytest.mark.parametrize("literal", [*r"\.+*?()|[]{}^$#&-~ /%_\"'", r"\d", "(?i)a", "a\nb", "\0", "𠮷"])
def test_no_character_of_a_literal_is_an_operator(literal: str) -> None:
    assert Pattern(literal).first(f"__{literal}"[1:]) == ((0, 1) if literal == "_" else (1, 1 + len(literal)))
    assert Pattern(literal).first("bd") is None


def test_case_is_ignored_if_asked_for_and_forms_of_characters_never() -> None:
    assert Pattern("error É").first("ERROR é") is None
    assert Pattern("error É", ignore_case=True).first("ERROR é") == (0, 7)
    for stored, other in (("ＡＢＣ", "ABC"), ("國家", "国家"), ("İı", "i"), ("e\u0301", "é"), ("½", "1/2")):
        assert Pattern(other, ignore_case=True).first(stored) is None
        assert Pattern(stored).first(stored) == (0, len(stored))


@given(st.text("aAsSſkKßẞσςΣéÉµμ", min_size=1, max_size=2), st.text("aAsSſkKßẞσςΣéÉµμ", max_size=9))
def test_case_is_ignored_as_by_regular_expressions(literal: str, text: str) -> None:
    expected = re.search(re.escape(literal), text, re.IGNORECASE)
    assert Pattern(literal, ignore_case=True).first(text) == (expected and expected.span())


@given(st.text(max_size=6), st.booleans(), st.text(max_size=3))
def test_the_word_that_the_engine_looks_for_is_in_all_texts_that_match(text: str, ignore: bool, around: str) -> None:
    pattern, stored = Pattern(text, ignore_case=ignore), around + (text.swapcase() if ignore else text) + around
    assert pattern.first(stored) is None or pattern.required in stored


@pytest.mark.parametrize(
    ("text", "options", "word"),
    [
        ("E-404", {}, "404"),
        ("报错 100%_x", {}, "100"),
        ("Art. 12", {"ignore_case": True}, "12"),
        ("Kelvin", {"ignore_case": True}, ""),
    ],
)
def test_the_engine_looks_for_the_longest_word_of_a_pattern(text: str, options: dict[str, Any], word: str) -> None:
    assert Pattern(text, **options).required == word


def test_a_text_is_looked_at_within_the_budget_of_a_request() -> None:
    def check() -> None:
        raise TimeoutError

    with limited(check), pytest.raises(TimeoutError):
        Pattern("a").first("税")


@pytest.fixture(params=[1, 2], ids=["index", "group"])
def index(request: pytest.FixtureRequest) -> Iterator[BM25Index]:
    config = IndexConfig(chunk_size=20)
    parts = [BM25Index.open(":memory:", f"docs{at}", config=config) for at in range(request.param)]
    for part in parts:
        part.add([f"Error E-{number}\nline E-{number + 1}" for number in range(30)], ids=[f"c{n}" for n in range(30)])
        part.add(["Error E-5 of another"], ids=["c0"], namespace="tenant")
        part.add(["Error E-1 again", "Error E-3 again"], ids=["c1", "c3"])  # in the other slots of their keys
    yield parts[0] if len(parts) == 1 else IndexGroup(parts)
    for part in parts:
        part.close()


ALL = parse_scope(None, None)


def pages_of(index: BM25Index, pattern: Pattern, **bounds: Any) -> Iterator[Findings]:
    page = Findings([], 0, "", "begin")
    for _ in range(100):
        page = find(index, pattern, ALL, after=page.after, **{"limit": 10**6, "seconds": 60.0, **bounds})
        yield page
        if not page.reason:
            return


def keys(pages: list[Findings]) -> list[tuple[str, str, int | None]]:
    return [(one.chunk.namespace, one.chunk.id, one.chunk.part) for page in pages for one in page.found]


def ticking() -> Callable[[], float]:
    ticks = count()
    return lambda: float(next(ticks))


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [({"limit": 1}, "limit=1"), ({"limit": 4}, "limit=4"), ({"clock": ticking(), "seconds": 7.0}, "7 seconds")],
    ids=["one", "limit", "time"],
)
def test_a_search_that_stops_says_why_and_goes_on_behind(index: BM25Index, bounds: dict[str, Any], reason: str) -> None:
    (whole,) = pages_of(index, Pattern("E-1"))
    assert (whole.reason, whole.after) == ("", "")
    pages = list(pages_of(index, Pattern("E-1"), **bounds))
    assert len(pages) > 2
    assert {page.reason for page in pages[:-1]} == {reason}
    assert keys(pages) == keys([whole])
    assert len(set(keys(pages))) == len(keys(pages)) == 13 * (2 if isinstance(index, IndexGroup) else 1)


def test_an_answer_has_a_bounded_number_of_characters(index: BM25Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MAX_FOUND", 100)
    first, *others = pages_of(index, Pattern("Error"), around=30)
    assert first.reason == "100 characters"
    assert 100 <= sum(one.size for one in first.found) < 140
    assert len(set(keys([first, *others]))) == index.stats().num_chunks


def test_what_stands_around_a_match_is_cut_and_so_is_a_long_match() -> None:
    with BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=20)) as index:
        index.add(["ab" + "x" * 1_000 + "cd"])
        for written, text in (("x" * 999 + "c", "x" * 202), ("ab", "abx"), ("cd", "xcd"), ("b", "abx")):
            (one,) = find(index, Pattern(written), ALL, 1, 1, seconds=60.0).found
            assert one.text == text


def test_few_chunks_are_read_at_once(index: BM25Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MAX_READ", 10)
    pages = list(pages_of(index, Pattern("!")))
    assert keys(pages) == []
    assert {(page.read, page.reason) for page in pages[:-1]} == {(10, "10 chunks")}
    assert sum(page.read for page in pages) == index.stats().num_chunks


def test_a_chunk_says_whether_a_later_line_matches_too(index: BM25Index) -> None:
    found = find(index, Pattern("E-2"), parse_scope(None, ""), 50, seconds=60.0).found
    more = {f"c{number}": True for number in range(20, 29)}
    assert {one.chunk.id: one.more for one in found} == more | dict.fromkeys(("c2", "c19", "c29"), False)
    (last, *_) = find(index, Pattern("line E-30"), parse_scope(None, ""), 1, seconds=60.0).found
    assert (last.chunk.id, last.start) == ("c29", 11)


@pytest.mark.parametrize("after", ["x", "0" * 41, f"{'0' * 40}a@x", "a'"])
def test_a_key_that_no_answer_gave_is_refused(index: BM25Index, after: str) -> None:
    with pytest.raises(InputError, match="after must be the `next` of an answer, got "):
        find(index, Pattern("a"), ALL, 1, after=after, seconds=1.0)
