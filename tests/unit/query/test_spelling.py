from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag_bm25 import Analyzer, AnalyzerConfig, Fuzzy
from rag_bm25.analysis import TextAnalyzer
from rag_bm25.query.correction import Corrector
from rag_bm25.query.lookup import TermLookup
from rag_bm25.query.spelling import Speller, most_frequent

pytest.importorskip("rapidfuzz")

WORDS = {
    "contract": 9,
    "contact": 4,
    "contrast": 0,
    "laboratori": 3,
    "milvus": 5,
    "2023": 7,
    "劳动合同": 20,
    "合同": 30,
}
WORDS |= {"二手车": 8, "第三人": 4, "劳动": 25, "四十二": 5, "监事会": 6, "保险": 9, "解除": 9, "协议书": 5}
ANALYZER = Analyzer(AnalyzerConfig(bigrams=False, characters=False))


def speller(fuzzy: Fuzzy | None = None, words: dict[str, int] = WORDS, analyzer: TextAnalyzer = ANALYZER) -> Speller:
    lookup = TermLookup().plus(words)

    def dfs(terms: Sequence[str]) -> NDArray[np.int64]:
        return np.array([words.get(term, 0) for term in terms], np.int64)

    return Speller(fuzzy or Fuzzy(), analyzer, lookup, dfs)


def near(text: str, fuzzy: Fuzzy | None = None) -> dict[str, dict[str, float]]:
    found = speller(fuzzy).respell(text, list(dict.fromkeys(ANALYZER.query(text))))
    return {respelling.written: dict(respelling.terms) for respelling in found}


@pytest.mark.parametrize(
    ("word", "edits"), [("it", 0), ("cat", 1), ("apple", 1), ("milvus", 2), ("2023", 0), ("bm25", 0), ("a-b-c", 0)]
)
def test_edits_depend_on_the_length_as_in_elasticsearch(word: str, edits: int) -> None:
    assert Fuzzy().edits(word) == edits
    assert Fuzzy(max_edits=1).edits(word) == min(edits, 1) or word == "it"


def test_unknown_words_are_looked_for_among_known_terms_the_nearest_first() -> None:
    # contarct -> contract swaps two letters, -> contact drops one; "contrast" is in no chunk.
    assert near("contarct") == {"contarct": {"contract": 1 - 1 / 8, "contact": 1 - 1 / 8}}
    assert list(near("contarct")["contarct"]) == ["contract", "contact"]
    assert near("contarct", Fuzzy(max_terms=1)) == {"contarct": {"contract": 1 - 1 / 8}}


@pytest.mark.parametrize("text", ["contract", "2024", "xontract", "of", "milvus2", ""])
def test_what_is_known_or_no_word_or_begins_otherwise_is_left_alone(text: str) -> None:
    assert near(text) == {}


def test_prefix_length_and_terms_are_options() -> None:
    assert list(near("xontract", Fuzzy(prefix_length=0))["xontract"]) == ["contract", "contact"]
    assert near("contract", Fuzzy(terms="all")) == {"contract": {"contact": 1 - 1 / 8}}
    assert near("contarct", Fuzzy(max_edits=0)) == {}


def test_misspelt_chinese_is_what_the_dictionary_does_not_know() -> None:
    assert near("解除劳和合同吗") == {"劳和合同": {"劳动合同": 0.75}}
    assert near("监市会的决议") == {"监市会": {"监事会": 1 - 1 / 3}}


@pytest.mark.parametrize(
    "text",
    [
        "二手房",  # a word of the dictionary is no misspelling of another one
        "四十三天",  # nor is a number
        "第吗人",  # and no letter stands for one
        "订协议吗",  # 协议吗 has a single character alone, which is a word of its own
        "保合同",  # 合同 in it is all that there is
    ],
)
def test_chinese_that_is_no_error_is_left_alone(text: str) -> None:
    assert near(text) == {}


def test_other_analyzers_know_no_piece_of_chinese() -> None:
    assert speller(analyzer=str.split).respell("劳和合同", ["劳和合同"]) == []


PAIRS = [one + other for one in "abcdefghijkl" for other in "abcdefghijkl"]


def count_lookups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have what is looked for in the vocabulary noted."""
    asked: list[str] = []
    within, one_off = TermLookup.within, TermLookup.one_off

    def noted_within(lookup: TermLookup, word: str, max_edits: int, prefix_length: int) -> dict[str, int]:
        if lookup.seen == len(WORDS):  # the forms of a term are few
            asked.append(word)
        return within(lookup, word, max_edits, prefix_length)

    def noted_one_off(lookup: TermLookup, word: str) -> list[str]:
        asked.append(word)
        return one_off(lookup, word)

    monkeypatch.setattr(TermLookup, "within", noted_within)
    monkeypatch.setattr(TermLookup, "one_off", noted_one_off)
    return asked


@pytest.mark.parametrize(
    ("document", "found", "begins"),
    [
        (" ".join(f"qx{letters}" for letters in PAIRS), ["contarct"], "contract qxaa qxab"),
        ("劳和合同，" * 100, ["contarct", "milvsu", "劳和合同"], "contarct 劳动合同，劳动合同"),  # Chinese is first
    ],
    ids=["letters", "Chinese"],
)
def test_query_that_is_a_document_is_looked_for_in_part(
    document: str, found: list[str], begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = count_lookups(monkeypatch)
    assert list(near(f"contarct {document} milvsu")) == found
    assert len(asked) == 64
    asked.clear()
    corrected = Corrector(speller(), lambda term: [term]).correct(f"contarct {document} milvsu")
    assert len(asked) == 64
    assert corrected is not None
    assert corrected.startswith(begins)
    assert corrected.endswith("milvsu")


def test_most_frequent_terms_by_df_then_by_name() -> None:
    df = {"a": 1, "b": 3, "c": 0, "d": 3}
    assert most_frequent(list(df), lambda terms: np.array([df[term] for term in terms]), 3) == ["b", "d", "a"]


@given(st.text(max_size=20) | st.text("劳动和合同的a bc契約", max_size=20))
def test_any_text_can_be_looked_at(text: str) -> None:
    made = speller()
    for respelling in made.respell(text, list(dict.fromkeys(ANALYZER.query(text)))):
        assert all(WORDS[term] > 0 and 0 < similarity < 1 for term, similarity in respelling.terms)
