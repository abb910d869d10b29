"""Names are found as people write them, and meet the conditions that are written as they are searched for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.indexes import filled

from rag_bm25 import BM25Index, IndexConfig, Query, QueryExpansion
from rag_bm25.analysis import Analyzer

CONFIG = IndexConfig(chunk_size=20)
SPELLINGS = [  # of one name each, which find each other
    ("Wi-Fi", "WiFi"),
    ("e-mail", "email"),
    ("3GB", "3 GB"),
    ("GPT-4", "GPT4", "GPT 4"),
    ("B-12", "B12", "B 12"),
    ("H.264", "H264"),
    ("Node.js", "nodejs"),
    ("Ph.D", "PhD", "phd"),
    ("10x20mm", "10 × 20 mm", "10×20mm"),
    ("R&D", "r&d", "R & D"),
    ("第47条", "第四十七条"),
]
PAIRS = [(one, other) for spellings in SPELLINGS for one in spellings for other in spellings]


def index_of(*texts: str) -> BM25Index:
    return filled({str(number): text for number, text in enumerate(texts)}, CONFIG)


def found(index: BM25Index, query: Query | str, **options: Any) -> list[str]:
    return [hit.id for hit in index.search(query, **options)]


@pytest.mark.parametrize(
    ("query", "wrong", "right"),
    [
        ("AIDS", "first aid kit", "AIDS is caused by a virus"),
        ("aids", "nothing", "AIDS is caused by a virus"),
        ("LLMs", "nothing", "an LLM is dear"),
        ("LLM", "nothing", "LLMs are dear"),
        ("llms", "nothing", "LLMs are dear"),
        ("iOS app", "IO app", "the iOS app is in the store of the maker"),
        ("user name by id", "nothing", "getUserNameById(long id)"),
        ("R&D spending", "spending on vitamin D in R, by R and D", "R&D spending grew"),
        ("at&t", "T cells", "AT&T sells telephones in America"),
        ("vitamin B12", "vitamin B6 in fish", "vitamin B-12 in meat"),
        ("10x20mm", "board 10x30mm", "board 10 x 20 mm"),
        (".NET", "net profit", "the .NET runtime of the servers"),
        ("12V", "第12条", "12 V battery"),
        ("core", "nothing", "Core™ i7"),
    ],
)
def test_the_name_is_found_first(query: str, wrong: str, right: str) -> None:
    assert found(index_of(wrong, right), query)[0] == "1"


@pytest.mark.parametrize(("asked", "written"), PAIRS)
def test_what_is_found_by_another_spelling_meets_conditions_on_it(asked: str, written: str) -> None:
    index = index_of(f"{written} contract", "another contract")
    assert found(index, asked)[:1] == ["0"]
    assert found(index, Query("contract", must=[asked])) == ["0"]
    assert found(index, Query("contract", must_not=[asked])) == ["1"]
    assert found(index, asked, min_should_match="100%") == ["0"]


@pytest.mark.parametrize(("asked", "written"), [pair for pair in PAIRS if "×" not in "".join(pair)])
def test_phrases_are_found_in_another_spelling(asked: str, written: str) -> None:
    index = index_of(f"a {written} contract", f"contract of {written}", "another contract")
    assert found(index, Query("contract", phrases=[f"{asked} contract"])) == ["0"]


@given(st.sampled_from(PAIRS), st.lists(st.sampled_from(["wi", "fi", "GB", "gpt", "B", "47", "10", "d", "x", "条"])))
def test_what_a_search_ranks_first_by_a_name_is_not_excluded_by_must(pair: tuple[str, str], others: list[str]) -> None:
    index = index_of(" ".join(others) or "none", f"{pair[1]} contract")
    first = found(index, pair[0])[0]
    assert first in found(index, Query(pair[0], must=[pair[0]])) or first == "0"
    assert "1" in found(index, Query(pair[0], must=[pair[0]]))


@pytest.mark.parametrize(
    ("asked", "written"),
    [("3GB", "5 GB, 2 of 3"), ("2.5.1", "2.5.0"), ("at&t", "T cells"), (".NET", "net"), ("AT&T", "T cells")],
)
def test_a_part_of_a_name_is_not_the_name(asked: str, written: str) -> None:
    index = index_of(f"{written} contract")
    expected = ["0"] if asked == "3GB" else []  # both parts are there
    assert found(index, Query("contract", must=[asked])) == expected


def test_a_name_counts_once() -> None:
    index = index_of("WiFi router", "Wi router", "router of 第四十七条")
    assert found(index, "Wi-Fi router", min_should_match=2) == ["0"]
    assert "it has 1 of the 2 words of the query, not 'wifi'" in str(
        index.explain("Wi-Fi router", "1", min_should_match=2)
    )


def test_conditions_spell_numbers_as_the_search_does() -> None:
    index, query = index_of("十年 contract"), Query("contract", must=["10年"])
    assert found(index, query) == ["0"]
    assert found(index, query, expansion=QueryExpansion(numerals=False)) == []


def test_the_ways_of_a_name_cover_each_letter_and_digit_of_it() -> None:
    (compound,) = Analyzer().compounds("GPT-4o")
    assert compound.terms == ("gpt-4o", "gpt", "4o", "4", "o")
    assert [set(way.terms) for way in compound.ways] == [{"gpt-4o"}, {"gpt", "4o"}, {"gpt", "4", "o"}]


@pytest.mark.parametrize(
    "text", ["plain words", "2024", "ラーメンを", "全文检索", "C++", "state-of-the-art", "1-b-c-d-e-f"]
)
def test_what_is_no_word_as_a_whole_is_no_compound(text: str) -> None:
    assert Analyzer().compounds(text) == []
