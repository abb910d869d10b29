"""Corrected queries have the words of texts, and complete what is being typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag_bm25 import Analyzer, Fuzzy
from rag_bm25.analysis import TextAnalyzer
from rag_bm25.query.correction import Corrector
from rag_bm25.query.lookup import TermLookup
from rag_bm25.query.spelling import Speller

pytest.importorskip("rapidfuzz")

TEXTS = [
    "Laboratories of Milvus: the laboratory signs a contract.",
    "Contracts, and the requirements of a contract about batteries.",
    "A battery is charging. Running, she runs; the evolution of requirements.",
    "解除劳动合同，保险。勞動合同保險",
    "THE says so.",
]


def corrector(analyzer: TextAnalyzer = Analyzer(), texts: Sequence[str] = TEXTS) -> Corrector:  # noqa: B008
    tokens = [set(analyzer(text)) for text in texts]
    counts = Counter(term for each in tokens for term in each)

    def dfs(terms: Sequence[str]) -> NDArray[np.int64]:
        return np.array([counts[term] for term in terms], np.int64)

    def texts_with(term: str) -> list[str]:
        return [text for text, each in zip(texts, tokens, strict=True) if term in each]

    return Corrector(Speller(Fuzzy(), analyzer, TermLookup().plus(list(counts)), dfs), texts_with)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("the contarct of MILVSU", "the contract of MILVUS"),
        ("a contarcts", "a contracts"),
        ("Labratories", "Laboratories"),
        ("labratory", "laboratory"),
        ("requiremeents", "requirements"),
        ("解除劳和合同，contarct？", "解除劳动合同，contract？"),
        ("劳和合同劳和合同", "劳动合同劳动合同"),
        ("bm25 contarct-2023", "bm25 contract-2023"),
        ("THW", "THE"),
        ("thw", "THE"),  # in small letters it is a stop word
    ],
)
def test_misspelt_words_become_the_nearest_form_that_texts_have(text: str, meant: str) -> None:
    assert corrector().correct(text) == meant
    assert corrector().correct(meant) is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("athentication", "authentication"),  # its stem is as near that of attention, which is more frequent
        ("certficate", "certificate"),  # its stem is nearer to certfile
        ("migrtion", "migration"),  # it has no stem that any ending is taken from
        ("authentcation", "authentication"),
        ("migrtaions", "migration"),
        ("athentiction tokens", None),
    ],
)
def test_words_are_compared_as_they_are_written_and_not_by_their_stems(text: str, meant: str | None) -> None:
    texts = ["Digest authentication, certificate and migration", *["Pay attention to certfile"] * 5]
    if meant is None:
        texts = ["Pay attention to tokens"]
    assert corrector(texts=texts).correct(text) == meant


def test_a_word_of_texts_in_traditional_characters_is_suggested_in_these() -> None:
    assert corrector(texts=["解除勞動合同"]).correct("劳和合同") == "勞動合同"


@pytest.mark.parametrize(
    "text", ["", "contract", "unknowable things", "劳动合同", "2024", "0SAA", "contarct2", "🙂", "ba", "contr. A"]
)
def test_without_a_better_spelling_there_is_no_suggestion(text: str) -> None:
    assert corrector().correct(text) is None


def test_a_name_with_digits_stays_if_texts_have_it_and_else_becomes_one_that_they_have() -> None:
    made = corrector(texts=["7winter, 7winner", "a winner"])
    assert made.correct("7winter") is None
    assert made.correct("7winnr") == "7winner"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("bat", "battery"),
        ("the Batt", "the Battery"),
        ("lab", "laboratory"),
        ("runnin", "running"),
        ("evolutio", "evolution"),
        ("lab ba", None),
        ("lab contr", "lab contract"),
    ],
)
def test_the_last_word_is_completed_if_nothing_follows_it(typed: str, meant: str | None) -> None:
    assert corrector().correct(typed) == meant


def test_other_analyzers_have_suggestions_for_words_of_letters() -> None:
    made = corrector(str.split, ["contract of Milvus 劳动合同"])
    assert made.correct("contarct 劳和合同") == "contract 劳和合同"
    assert made.correct("Milvsu of") == "Milvus of"


def test_of_forms_that_are_as_near_the_most_frequent_one_is_suggested() -> None:
    assert corrector(texts=["contract", "contracts", "contracts"]).correct("contracs") == "contracts"
    assert corrector(texts=["contract", "contracts", "contract"]).correct("contracs") == "contract"


def test_a_term_that_no_text_has_any_more_is_not_suggested() -> None:
    made = corrector()
    assert Corrector(made.speller, lambda _: []).correct("contarct labo") is None


words = st.lists(st.sampled_from(["contarct", "labo", "requiremeents", "劳和合同", "batt", "x", "，"]), max_size=5)


@given(words.map(" ".join) | st.text(max_size=20) | st.text("劳动和合同的a bc契約", max_size=20))
def test_a_suggestion_has_words_of_the_query_and_of_texts(text: str) -> None:
    corrected = corrector().correct(text)
    assert corrected != text
    texts = " ".join([*TEXTS, text]).casefold()
    assert all(word.strip("，") in texts for word in (corrected or "").casefold().split())
