from __future__ import annotations

import re
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.analysis.stop_words import ENGLISH_QUESTION_WORDS, LUCENE_33
from rag_bm25.analysis.word_bigrams import WordBigrams
from rag_bm25.analysis.words import Stemming, TermMemo, WordRules
from rag_bm25.vectors.terms import BIGRAM_MARK

PLAIN = Analyzer(AnalyzerConfig(stem=False))


def word_bigrams(text: str, analyzer: Analyzer = PLAIN) -> list[str]:
    return [token[1:] for token in analyzer(text) if token[0] == BIGRAM_MARK and " " in token]


def neighbours(text: str) -> list[str]:
    """Pair words as the definition has it, with loops."""
    apart = {*LUCENE_33, *ENGLISH_QUESTION_WORDS}
    found = []
    for phrase in re.split(r"[^a-zA-Z0-9 \n]+", text):
        words = phrase.split()
        for one, other in pairwise(words):
            if not any(len(word) < 2 or word.isdigit() or word.lower() in apart for word in (one, other)):
                found.append(f"{one.lower()} {other.lower()}")
    return found


@given(
    st.lists(
        st.sampled_from(["gas", "Oil", "of", "the", "7", "2024", "x", "x2", "who", ",", "\n", " (", '"']), max_size=9
    )
)
def test_word_bigrams_are_the_neighbours_of_the_definition(pieces: list[str]) -> None:
    text = " ".join(pieces)
    assert word_bigrams(text) == neighbours(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("information-retrieval systems", ["information retrieval", "retrieval systems"]),
        ("on-line systems are e-mail-like", ["online systems"]),
        ("the U.S. Congress", []),  # the dot stands between them
        ("the US Congress", ["us congress"]),
        ("os.path.join", ["os path", "path join"]),
        ("user_id of GPT-4o", ["user id", "gpt 4o"]),
        ("version v2.5.1 of Milvus 2.5", []),
        ("поиск документов", ["поиск документов"]),
        ("Milvus 全文 search engine", ["search engine"]),
        ("C++ code", []),
        ("user's guide", ["user guide"]),
        ("WHO report, the who report", ["who report"]),
    ],
)
def test_signs_and_compounds(text: str, expected: list[str]) -> None:
    assert [bigram for bigram in word_bigrams(text) if bigram != "mail like"] == expected


def test_word_bigrams_are_stemmed_and_can_be_left_out() -> None:
    assert word_bigrams("running tests", Analyzer()) == ["run test"]
    assert word_bigrams("running tests", Analyzer(AnalyzerConfig(word_bigrams=False))) == []


def test_own_stop_words_are_in_no_word_bigram() -> None:
    analyzer = Analyzer(AnalyzerConfig(stop_words=["Running"]))
    assert word_bigrams("fast running tests of the engine room", analyzer) == ["engin room"]


def test_chinese_fills_no_memo() -> None:
    analyzer = Analyzer()
    analyzer("劳动 合同 of labour law")
    assert not any("劳" in run for run in analyzer._word_bigrams)


def test_a_dropped_word_has_bigrams_whatever_is_left_of_it() -> None:
    config = AnalyzerConfig(split_camel_case=True, question_words=("getname", "get"))
    assert Analyzer(config).query("getName parser")[:3] == ["name", "parser", "\0getnam parser"]


@given(
    st.lists(st.sampled_from(["e", "The", "state", "of", "IT", "getUser", "A", "us"]), min_size=2, max_size=7),
    st.lists(st.sampled_from([".", "-", "_", "__"]), min_size=6, max_size=6),
    st.sampled_from(["identifiers", "all"]),
    st.sampled_from(["words", True, False]),
)
def test_compounds_of_letters_are_those_of_any_other_compound(
    words: list[str], signs: list[str], rule: Any, camel: Any
) -> None:
    run = "".join(part for pair in zip(words, signs, strict=False) for part in pair) + words[-1]
    terms = TermMemo(WordRules({"the", "of", "a"}, rule, camel), Stemming(stem=True))
    made = WordBigrams(terms).make(run)
    with patch("rag_bm25.analysis.word_bigrams.joined_letters", return_value=None):
        assert WordBigrams(terms).make(run) == made
