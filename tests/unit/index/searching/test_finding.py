"""Find patterns in stored texts: places, bounds, and that no pattern takes more than linear time."""

from __future__ import annotations

import re
import sys
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_bm25 import BM25Index, IndexConfig, IndexGroup
from rag_bm25.budget import limited
from rag_bm25.errors import InputError, MissingExtraError, install_extra
from rag_bm25.index.arguments import parse_scope
from rag_bm25.index.searching import finding
from rag_bm25.index.searching.finding import Findings, Pattern, find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ALPHABET = "abct \n1-税ſ"
PATTERNS = (r"ab", r"a+", r"\bcat\b", r"^a", r"b$", r"a\b", r"\Ba", r"a*", r"(a|ab)c?", r"^$", r"\d+-\d+", r"a\s+b")
ENDS = (r"\Aa", r"b\z", r"\A\w*\z", r"[^a]b", r"税.?b")


@given(st.sampled_from(PATTERNS + ENDS), st.text(ALPHABET, max_size=12), st.integers(0, 12))
def test_a_place_is_that_of_the_first_match(pattern: str, text: str, begin: int) -> None:
    begin = min(begin, len(text))
    expected = re.compile(pattern.replace(r"\z", r"\Z"), re.ASCII | re.MULTILINE).search(text, begin)
    assert Pattern(pattern, regex=True).first(text, begin) == (expected and expected.span())


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
    for stored, other in (("ＡＢＣ", "ABC"), ("國家", "国家"), ("e\u0301", "é"), ("½", "1/2")):
        assert Pattern(other, ignore_case=True).first(stored) is None
        assert Pattern(stored).first(stored) == (0, len(stored))


@given(st.text("aAsSſkKßẞσςΣéÉİiıµμ", min_size=1, max_size=2), st.text("aAsSſkKßẞσςΣéÉİiıµμ", max_size=9))
def test_a_literal_and_an_expression_fold_case_alike(literal: str, text: str) -> None:
    place = Pattern(literal, ignore_case=True).first(text)
    assert place == Pattern(literal, regex=True, ignore_case=True).first(text)


MATCHED = {  # parts of a pattern, and a text that each matches
    **dict.fromkeys(["a?", "b*", "税{0,2}", "a??", "b{0}", "(?:ab)?", "[cd]*", "(?i)", "|cdefghi", "^*", r"\b?"], ""),
    **{name: name for name in ("ab", "税法", "1", "_", "%", "𠮷", "-", " ", "bc")},
    "c+": "c",
    r"\d": "7",
    r"\.": ".",
    r"\x61": "a",
    r"\x{7a0e}": "税",
    r"\pL": "é",
    "[ab]": "b",
    ".": "q",
    "b{1}": "b",
    r"\\": "\\",
    r"\?": "?",
    r"\*b": "*b",
    r"\[ab": "[ab",
    "(?i:ab)": "AB",
    "(ab)": "ab",
}


@example(["1", "|cdefghi"], False)
@given(st.lists(st.sampled_from(sorted(MATCHED)), min_size=1, max_size=6), st.booleans())
def test_the_word_that_the_engine_looks_for_is_in_all_texts_that_match(parts: list[str], ignore_case: bool) -> None:
    text = "".join(MATCHED[part] for part in parts)
    text = text.swapcase() if ignore_case else text
    try:
        pattern = Pattern("".join(parts), regex=True, ignore_case=ignore_case)
    except InputError:
        return
    if pattern.first(text) is not None:
        assert pattern.required in text


@pytest.mark.parametrize(
    ("text", "options", "word"),
    [
        ("E-404", {}, "404"),
        ("报错 100%_x", {}, "100"),
        (r"错误码\s*\d+", {"regex": True}, "错误码"),
        (r"colou?r-7(a|b)", {"regex": True}, ""),
        (r"colou?r-7(a)", {"regex": True}, "colo"),
        ("Art. 12", {"ignore_case": True}, "12"),
        ("Kelvin", {"ignore_case": True}, ""),
    ],
)
def test_the_engine_looks_for_the_longest_word_of_a_pattern(text: str, options: dict[str, Any], word: str) -> None:
    assert Pattern(text, **options).required == word


HOSTILE = (
    r"(a+)+$",
    r"(.*)*x",
    r"(a|aa)+$",
    r"(a|a?)+$",
    r"([a-zA-Z]+)*$",
    r"^(\w+\s?)*$",
    r"(x+x+)+y",
    r"(.*a){20}x",
    r"(?:a?){300}a{300}$",
    r"((a*)*)*b",
    r"(?:.*,){11}P",
    r"(a{0,30}){30}c",
)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_pattern_takes_more_than_linear_time(hostile: str) -> None:
    """A backtracking engine does not come back."""
    assert Pattern(hostile, regex=True).first("a" * 20_000 + "!") in (None, (20_001, 20_001))


def test_a_text_is_looked_at_within_the_budget_of_a_request() -> None:
    def check() -> None:
        raise TimeoutError

    with limited(check), pytest.raises(TimeoutError):
        Pattern("a").first("税")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)b", "invalid perl operator: (?="),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("税(", "missing ): 税("),
        ("a)(b", "unexpected ): a)(b"),
        (r"\pL{1000}", "pattern too large - compile failed"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("\ud800", "it is no text"),
    ],
)
def test_a_bad_pattern_is_named_with_its_fault(pattern: str, reason: str) -> None:
    with pytest.raises(InputError) as error:
        Pattern(pattern, regex=True)
    assert str(error.value) == f"pattern is no regular expression that can be searched for: {reason}"


def test_without_the_extra_a_regular_expression_is_refused_and_a_literal_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MissingExtraError, match=re.escape(f"needs google-re2: {install_extra('regex')}")):
        Pattern("a", regex=True)
    assert Pattern("a", ignore_case=True).first("bA") == (1, 2)


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
        for written, text in (("x{999}c", "x" * 202), (r"\Aab", "abx"), (r"cd\z", "xcd"), ("b", "abx")):
            (one,) = find(index, Pattern(written, regex=True), ALL, 1, 1, seconds=60.0).found
            assert one.text == text


def test_few_chunks_are_read_at_once(index: BM25Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MAX_READ", 10)
    pages = list(pages_of(index, Pattern("[Z]", regex=True)))
    assert keys(pages) == []
    assert {(page.read, page.reason) for page in pages[:-1]} == {(10, "10 chunks")}
    assert sum(page.read for page in pages) == index.stats().num_chunks


def test_a_chunk_says_whether_a_later_line_matches_too(index: BM25Index) -> None:
    found = find(index, Pattern(r"E-\d+$", regex=True), parse_scope(None, ""), 1, seconds=60.0).found
    assert [(one.start, one.more) for one in found] == [(6, True)]
    (last, *_) = find(index, Pattern("line E-30"), parse_scope(None, ""), 1, seconds=60.0).found
    assert (last.chunk.id, last.start, last.more) == ("c29", 11, False)


@pytest.mark.parametrize("after", ["x", "0" * 41, f"{'0' * 40}a@x", "a'"])
def test_a_key_that_no_answer_gave_is_refused(index: BM25Index, after: str) -> None:
    with pytest.raises(InputError, match="after must be the `next` of an answer, got "):
        find(index, Pattern("a"), ALL, 1, after=after, seconds=1.0)
