"""Any text -> tokens: never an error, the same tokens from both segmenters, work in proportion to the text.

Time and memory are the runner's affair: it ends an input that takes too long or too much. Some inputs are repeated
until they are long, so that what grows with the square of a text is noticed.
"""

from __future__ import annotations

import functools
import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fuzz.strategies import FEW, characters, mostly, texts
from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.analysis.normalization import normalize
from rag_bm25.analysis.runs import find_runs, is_han
from rag_bm25.vectors.terms import BIGRAM_MARK, is_bigram

__all__ = ["check"]

LONG = 10_000
IDEOGRAPHS = (  # of CJK, as Unicode has them, and not as the analyzer does
    range(0x3005, 0x3008),
    range(0x3021, 0x302A),
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x40000),
)
PIECES = [
    *(".", ",", "，", "-", "'", "’", "_", "+", "#", "/", " ", "\n", "__", "++", "'s", "\u3000", "\u2028", "\x85", "\0"),
    *("\ud800", "\udfff", "👍", "👩\u200d👩\u200d👧", "🇨🇳", "\u200b", "\u00ad", "\ufe0f", "\ufeff", "\u0301", "\u0308"),
    *("1", "12", "123", "000", "1,234", "3.5", "²", "½", "１", "١", "९", "v1", "Ⅷ", "a", "C", "v", "s", "IT", "the"),
    *("is", "gpt", "café", "ß", "ﬁ", "ﬃ", "ſ", "İ", "ı", "Σ", "ς", "ǅ", "ŉ", "ΐ", "Ａ", "㎏", "ﷺ", "ก", "iPhone15"),
    *("中", "文", "檢", "索", "乾", "隆", "薴", "〇", "㐂", "𠮷", "鿿", "豈", "⼈", "劳动合同", "北京大学", "长江大桥"),
    *("カ", "ｶﾞ", "゙", "ー", "ｰ", "한", "ㄱ", "م", "ہ", "אב", "\u0345", "\u064b", "\u0e31", "\u1100\u1161"),
]
USER_WORDS = ("5G网络", "node.js", ("云计算", 3), ("北京大学生", None), "C", "+1", "the")


SETTINGS = [
    AnalyzerConfig(),
    AnalyzerConfig(segmentation="exact", stem=False, simplify=False, stop_words=()),
    AnalyzerConfig(user_words=USER_WORDS, split_camel_case=True, stop_words=("的", "合同", "the", "don't")),
    AnalyzerConfig(query_segmentation="exact", bigrams=False, split_camel_case=True, compounds="all"),
    AnalyzerConfig(query_segmentation="search", query_stop_words=(), query_stop_structures=False, word_bigrams=False),
]
TEXTS = st.binary(max_size=400).map(lambda data: data.decode(errors="replace"))
TEXTS |= st.lists(characters(), max_size=200).map("".join) | texts(PIECES, 60) | texts(PIECES, 60)


@functools.cache
def _analyzers(config: AnalyzerConfig) -> tuple[Analyzer, Analyzer]:
    """Return an analyzer for each segmenter."""
    return Analyzer(config, segmenter="jieba"), Analyzer(config, segmenter="rjieba")


@FEW
@given(st.sampled_from(SETTINGS), TEXTS, mostly(st.just(1), st.just(LONG), 256))
def check(config: AnalyzerConfig, text: str, times: int) -> None:
    """Analyze a text, which is repeated now and then."""
    check_tokens(*_analyzers(config), (text * times)[: max(LONG, len(text))])


def check_tokens(jieba: Analyzer, rjieba: Analyzer, text: str) -> None:
    """Check the tokens of a text against the promises of the analyzer."""
    tokens = rjieba(text)
    assert tokens == jieba(text), "the segmenters differ"
    assert tokens == rjieba(text), "tokens depend on what was analyzed before"
    normal = normalize(text, simplify=rjieba.config.simplify)
    words = [token for token in tokens if not is_bigram(token)]
    assert all(1 <= len(word) <= 64 for word in words)
    assert all(word.split() == [word] for word in words), "a token with white space"
    assert sum(map(len, words)) <= 16 * len(normal), "more tokens than the text is long"
    bigrams = [token for token in tokens[len(words) :] if " " not in token]
    assert tokens[len(words) : len(words) + len(bigrams)] == bigrams == _bigrams(rjieba, normal)
    _check_word_bigrams(tokens[len(words) + len(bigrams) :], rjieba.config, normal)
    queried = rjieba.query(text)
    assert queried == jieba.query(text), "the segmenters differ in queries"
    config = rjieba.config
    drops = config.query_stop_words or config.query_stop_structures
    if config.query_segmentation == config.segmentation and not drops:
        assert queried == tokens
    rjieba.stop_words_in(text)
    _check_chinese_words(rjieba, normal)


def _check_word_bigrams(bigrams: list[str], config: AnalyzerConfig, normal: str) -> None:
    """Check that word bigrams are of two words, and no more than there are blanks and joints between them."""
    assert all(len(bigram.removeprefix(BIGRAM_MARK).split(" ")) == 2 for bigram in bigrams)
    assert len(bigrams) <= len(re.findall(r"[\s._-]+", normal)) if config.word_bigrams else not bigrams


def _check_chinese_words(analyzer: Analyzer, normal: str) -> None:
    """Check that the words of runs join to the runs."""
    runs = ["".join(words) for words in analyzer.chinese_words(normal)]
    if not analyzer.config.user_words:
        assert runs == [run for run in find_runs(normal) if is_han(run)]
        assert sum(map(len, runs)) == sum("\u4e00" <= character <= "\u9fd5" for character in normal)


def _bigrams(analyzer: Analyzer, normal: str) -> list[str]:
    """Compute bigrams by a loop over all pairs of characters."""
    if not analyzer.config.bigrams:
        return []
    pairs = (a + b for a, b in pairwise(normal) if _is_ideograph(a) and _is_ideograph(b))
    return [BIGRAM_MARK + pair for pair in pairs if pair not in analyzer.config.stop_words]


@functools.cache
def _is_ideograph(character: str) -> bool:
    return any(ord(character) in block for block in IDEOGRAPHS)
