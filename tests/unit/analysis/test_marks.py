"""Marks of places, and of several texts at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rag_bm25.analysis import Analyzer, AnalyzerConfig, locator
from rag_bm25.analysis.marks import MarkArrays, Marks, as_marks, as_sets, merge, split_marks
from rag_bm25.analysis.places import make_marker

if TYPE_CHECKING:
    from rag_bm25.analysis import TextAnalyzer

TEXTS = [
    "劳动",
    "合同\n\0\n劳动合同",
    "information",
    "retrieval, ㎏ ﬁle",
    "",
    "檢索",
    "🙂 information\nretrieval-",
    "\0",
    "retrieval 5G网络",
]
TERMS = ["劳动", "\0动合", "合同", "inform", "retriev", "\0inform retriev", "检索", "kg", "file", "5g网络", "网络"]


def test_places_that_overlap_are_one_mark_and_neighbours_are_two() -> None:
    starts, ends, terms = np.array([[5, 7, 1], [0, 9, 2], [2, 4, 4], [9, 11, 8], [13, 14, 16]]).T
    assert as_marks(merge(starts, ends, terms)) == Marks([0, 9, 13], [9, 11, 14], [7, 8, 16])


@pytest.mark.parametrize("number", [1, 62, 63, 64, 200])
def test_there_may_be_any_number_of_terms(number: int) -> None:
    sets = as_sets([1 << term for term in range(number)])
    marks = as_marks(merge(np.arange(number), np.full(number, number), sets))
    assert marks == Marks([0], [number], [(1 << number) - 1])


@pytest.mark.parametrize("number", [62, 63, 64, 65, 200])
@pytest.mark.parametrize("analyzer", [Analyzer(), str.split])
def test_of_any_number_of_terms_each_is_marked(analyzer: TextAnalyzer, number: int) -> None:
    terms = [f"w{at}" for at in range(number)]
    text = f"㎏ {terms[-1]} w0"  # a text whose form has other places
    start = len("㎏ ")
    expected = Marks([start, start + len(terms[-1]) + 1], [start + len(terms[-1]), len(text)], [1 << number - 1, 1])
    assert make_marker(analyzer, terms)([text]) == [expected]


def test_marks_of_joined_texts_are_those_of_each_one() -> None:
    marks = MarkArrays(np.array([1, 9, 12]), np.array([3, 10, 14]), as_sets([1, 2, 4]))
    assert split_marks(marks, [0, 4, 8, 20]) == [
        Marks([1], [3], [1]),
        Marks([], [], []),
        Marks([1, 4], [2, 6], [2, 4]),
        Marks([], [], []),
    ]


@pytest.mark.parametrize("at_most", [1, 20, 100_000])
@pytest.mark.parametrize("user_words", [[], ["5G网络"]])
def test_no_mark_depends_on_the_texts_beside_its_own(
    user_words: list[str], at_most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locator, "MAX_JOINED", at_most)
    mark = make_marker(Analyzer(AnalyzerConfig(user_words=user_words)), TERMS)
    alone = [mark([text])[0] for text in TEXTS]
    assert mark(TEXTS) == alone
    assert mark(TEXTS[::-1]) == alone[::-1]
    assert mark([]) == []
    assert [
        text[start:end] for text, some in zip(TEXTS, alone, strict=True) for start, end in zip(*some[:2], strict=True)
    ] == [
        *[
            "劳动",
            "合同",
            "劳动合同",
            "information",
            "retrieval",
            "㎏",
            "ﬁle",
            "檢索",
            "information\nretrieval",
            "retrieval",
        ],
        "5G网络" if user_words else "网络",
    ]


def test_a_character_that_becomes_two_terms_is_one_mark() -> None:
    mark = make_marker(Analyzer(), ["劳动", "\0合同", "检索", "合同"])
    assert mark(["勞\u200b動合同檢"]) == [Marks([0, 3], [3, 5], [1, 10])]


def test_an_analyzer_that_locates_nothing_has_no_marks() -> None:
    assert make_marker(str.split, ["a-b"])(["x", "a-b c"]) == [Marks([], [], []), Marks([0], [3], [1])]
