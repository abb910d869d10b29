from __future__ import annotations

import random
import re

import pytest

from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.analysis.user_words import UserWords


def tokens(text: str, *user_words: str | tuple[str, int]) -> list[str]:
    return Analyzer(AnalyzerConfig(user_words=user_words, bigrams=False, characters=False, word_bigrams=False))(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("user_words", "text", "expected"),
    [
        (["5G网络"], "建设5G网络。", ["建设", "5g网络"]),
        (["5G网络"], "建设５ｇ網絡", ["建设", "5g网络"]),
        (["5G网络"], "15G网络", ["15g", "15", "g", "网络"]),
        (["卡拉OK"], "我们去卡拉ok", ["我们", "去", "卡拉ok"]),
        (["卡拉OK"], "卡拉OKX", ["卡拉", "okx"]),
        (["C端", "C端用户"], "C端用户和C端", ["c端用户", "和", "c端"]),
        (["node.js"], "Use node.js, not node.json", ["use", "node.js", "node.json", "node", "json"]),
        (["running"], "running runs", ["running", "run"]),
        (["Q（A）"], "Q(a)与q（A）", ["q(a)", "与", "q(a)"]),
        (["a.b"], "axb a.b", ["axb", "a.b"]),
        (["ラーメン"], "ラーメンを", ["ラーメン", "を"]),
        (["the"], "the end", ["the", "end"]),
        (["हि", "दी"], "हि हिन्दी", ["हि", "हिन्दी"]),
        (["ſtraße"], "Straße İstraße", ["strasse", "istrass"]),
    ],
)
def test_a_user_word_of_mixed_scripts_is_one_token(user_words: list[str], text: str, expected: list[str]) -> None:
    assert tokens(text, *user_words) == expected


def test_a_user_word_of_han_characters_is_a_word_of_the_dictionary() -> None:
    assert tokens("向量数据库检索") == ["向量", "数据", "据库", "数据库", "检索"]
    assert tokens("向量数据库检索", "向量数据库") == ["向量", "数据", "据库", "数据库", "向量数据库", "检索"]


def test_a_frequency_decides_between_overlapping_words() -> None:
    text = "研究生命"
    assert tokens(text) == ["研究", "生命"]
    assert tokens(text, ("研究生", 10**9)) == ["研究", "研究生", "命"]


def test_spellings_of_one_user_word_share_the_greater_frequency() -> None:
    assert tokens("长江大桥", ("長江大", 2**31 - 1), "长江大") == ["长江", "长江大", "桥"]


def test_user_words_make_no_difference_elsewhere() -> None:
    text = "他们在北京大学研究 GPT-4o 和 1,000 个 state-of-the-art 模型"
    assert tokens(text, "5G网络", "卡拉OK") == tokens(text)


def test_words_are_found_as_by_an_alternation_of_them() -> None:
    draw = random.Random(7)
    words = {"".join(draw.choices("aBé中网.-+]", k=draw.randint(1, 6))) for _ in range(1000)}
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    letter = "[aBbéÉA]"
    alternation = re.compile(
        "|".join(
            (rf"(?<!{letter})" if re.match(letter, word) else "")
            + re.escape(word)
            + (rf"(?!{letter})" if re.match(letter, word[-1]) else "")
            for word in longest_first
        ),
        re.IGNORECASE,
    )
    user_words = UserWords(words)
    for _ in range(500):
        text = "".join(draw.choices("aAbBéÉ中网.-+] ", k=30))
        assert user_words.split(text)[1::2] == alternation.findall(text)
