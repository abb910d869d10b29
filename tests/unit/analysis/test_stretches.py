"""Stretches of a text, where they are, and what they hold."""

from __future__ import annotations

import pytest

from rag_bm25.analysis import Analyzer, stretches
from rag_bm25.analysis.stretches import Stretches, locate_stretches
from rag_bm25.analysis.word_bigrams import WordBigrams
from rag_bm25.analysis.words import Stemming, TermMemo, WordRules


def make_stretches() -> Stretches:
    terms = TermMemo(WordRules(), Stemming(stem=True))
    return Stretches(terms, WordBigrams(terms))


@pytest.mark.parametrize(
    ("text", "found", "starts"),
    [
        ("b-b b  b-b劳b", ["b-b", "b", "b-b", "b"], [0, 4, 7, 11]),
        ("\u3000é\x1cb\u2028,", ["é", "b", ","], [1, 3, 5]),
        ("劳\U0010ffff🙂㐂", ["\U0010ffff🙂㐂"], [1]),
        ("劳动", [], []),
        ("", [], []),
    ],
)
def test_stretches_stand_between_blanks_and_chinese(text: str, found: list[str], starts: list[int]) -> None:
    stretches_of_text, starts_of_text = locate_stretches(text)
    assert (stretches_of_text, starts_of_text.tolist()) == (found, starts)


def test_no_blank_is_missing() -> None:
    blanks = [point for point in range(0x110000) if chr(point).isspace()]
    assert max(blanks) < len(stretches._BLANKS)
    assert locate_stretches("b".join(map(chr, blanks)))[0] == ["b"] * (len(blanks) - 1)


def test_stretches_are_found_by_the_terms_that_they_hold() -> None:
    some = {"information-retrieval", "systems,", "(retrieval)", "-"}
    holders = make_stretches().holders(some)
    assert holders.among(some, ["retriev"]) == {"information-retrieval", "(retrieval)"}
    assert holders.among(some, ["\0inform retriev", "system"]) == {"information-retrieval", "systems,"}
    assert holders.among({"(retrieval)"}, ["system", "never"]) == set()


def test_what_is_forgotten_is_examined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "MEMO_CHARACTERS", 10)
    memo = make_stretches()
    before = memo.holders({"contracts", "notices"})
    after = memo.holders({"notices", "periods"})
    assert after is not before
    assert before.among({"contracts"}, ["contract"]) == {"contracts"}
    assert after.among({"contracts", "notices"}, ["contract", "notic"]) == {"notices"}


def test_a_stretch_that_others_hold_is_no_place_of_them() -> None:
    text = " ".join("-".join("b" * size) for size in range(1, 101))
    found = Analyzer().locator(["b"])(text)
    assert len(found) == 100 * 101 // 2
