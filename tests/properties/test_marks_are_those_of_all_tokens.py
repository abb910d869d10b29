"""Property: marks and fragments are those of all tokens of each text, although few tokens are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_bm25 import Highlighting
from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.hits.highlights import Highlighter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rag_bm25.analysis import Token


class AllTokens(Analyzer):
    """Locates the tokens that are wanted among all of them, one text after the other."""

    def locator(self, wanted: Iterable[str]) -> Callable[[str], list[Token]]:
        terms = set(wanted)
        return lambda text: [token for token in self.locate(text) if token.text in terms]


CONFIGS = {
    "default": AnalyzerConfig(),
    "compounds": AnalyzerConfig(compounds="all", split_camel_case=True, stop_words=("的", "will")),
    "exact, without bigrams": AnalyzerConfig(segmentation="exact", bigrams=False, word_bigrams=False),
    "user words": AnalyzerConfig(user_words=["5G网络", "c++11", "retrieval法", "动合同"]),
}
ANALYZERS = {name: (Analyzer(config), AllTokens(config)) for name, config in CONFIGS.items()}
PIECES = [
    *[
        "劳动合同",
        "勞動",
        "中华人民共和国",
        "人民",
        "合同法",
        "信息检索",
        "法",
        "5G网络",
        "的",
        "解除",
        "\u4e00",
        "㐂",
        "々",
    ],
    *["information", "Retrieval", "informal", "systems", "on-line", "U.S.", "getUserName", "user_id", "C++11", "don't"],
    *["GPT4o", "1,234.5", "v2.5.1", "e\u0301", "ＢＭ２５", "x\u0301y", "한국어", "カタカナ", "\u3099", "willing"],
    *[" ", " ", " ", "  ", "\n", "\n\n", "\u3000", "\x1c", "，", "。", ". ", ", ", "-", "_", "/", "(", "'"],
]
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@given(st.lists(texts, min_size=1, max_size=4), st.data(), st.integers(20, 40))
@example(["information retrieval", "informal retrieval x", "(information retrieval)"], None, 20)
@example(["information retrieval法 information retrieval"], None, 20)
@example(["中华人民共和国人民", "人民，中华人民共和国"], None, 20)
@pytest.mark.parametrize("name", ANALYZERS)
def test_marks_of_texts_are_those_of_all_their_tokens(
    name: str, chunks: list[str], data: st.DataObject | None, size: int
) -> None:
    analyzer, reference = ANALYZERS[name]
    choices = sorted({token for text in chunks for token in analyzer(text)} | {"inform", "\0inform retriev"})
    wanted = set(choices) if data is None else data.draw(st.sets(st.sampled_from(choices)))
    weights = {term: 1.0 + at for at, term in enumerate(sorted(wanted))}
    highlighting = Highlighting(max_fragments=3, size=size)
    quick, slow = (Highlighter(one, weights, highlighting) for one in (analyzer, reference))
    for text in [*chunks, " ".join(chunks)]:  # one highlighter for all of them, as for the hits of a search
        assert quick.highlight(text) == slow.highlight(text)
