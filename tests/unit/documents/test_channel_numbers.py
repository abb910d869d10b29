"""Tokens numbered channel by channel, against the tokens that the analyzer returns, numbered by a dictionary."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.documents.channel_numbers import number_channels

PIECES = [
    *"合同法律的增值税𠮷々〇㐂、。；！\n ",
    "劳动合同",
    "state-of-the-art",
    "the law",
    "iPhone15 Pro",
    "カｶ",
    "１",
    "é",
]
TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=20).map("".join) | st.text(max_size=6), max_size=6)
CONFIGS = st.builds(
    AnalyzerConfig, bigrams=st.booleans(), characters=st.booleans(), word_bigrams=st.booleans(),
    distinct_bigrams=st.booleans(),
)  # fmt: skip


def numbered(texts: list[str], config: AnalyzerConfig) -> tuple[list[str], list[Counter[str]]]:
    """The terms in the order of their numbers, and those of each chunk."""
    found = number_channels(*Analyzer(config).channels(texts), config)
    assert len(found.numbers) == found.per_chunk.sum()
    rows = [{found.terms[number]: int(tf) for number, tf in row.to_dict().items()} for row in found.frequencies()]
    return found.terms, list(map(Counter, rows))


@given(TEXTS, CONFIGS)
@example(["合同法", "", "law", "法合同。合同合同"], AnalyzerConfig())
@example(["合同", "同法合"], AnalyzerConfig(distinct_bigrams=False))  # no bigram spans two chunks
def test_terms_and_counts_are_those_of_the_tokens(texts: list[str], config: AnalyzerConfig) -> None:
    tokens = list(map(Analyzer(config), texts))
    terms, rows = numbered(texts, config)
    assert terms == list(dict.fromkeys(token for chunk in tokens for token in chunk))
    assert rows == list(map(Counter, tokens))


class Louder(Analyzer):
    def __call__(self, text: str) -> list[str]:
        return [token.upper() for token in super().__call__(text)]


@pytest.mark.parametrize(
    ("analyzer", "expected"),
    [
        (Analyzer(), True),
        (Analyzer(AnalyzerConfig(stop_words=["the"])), True),  # type: ignore[arg-type]
        (Analyzer(AnalyzerConfig(stop_words=["合同"])), False),  # type: ignore[arg-type]
        (Analyzer(AnalyzerConfig(user_words=["C++标准"])), False),  # type: ignore[arg-type]
        (Louder(), False),
    ],
)
def test_analyzers_that_drop_or_change_tokens_are_asked_for_them(analyzer: Any, expected: bool) -> None:
    assert analyzer.has_channels is expected
