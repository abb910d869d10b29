from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25 import Analyzer, AnalyzerConfig, InputError, Synonyms
from rag_bm25.query.synonyms import SynonymTable


def table(text: str) -> SynonymTable:
    return SynonymTable(Synonyms.parse(text), str.split)


def found(text: str, query: str) -> list[tuple[str, dict[str, float], bool]]:
    """Source, {target: weight} and whether the source is replaced, for each match."""
    words = query.split()
    return [
        (" ".join(words[m.start : m.end]), {" ".join(s.analysed.words): s.weight for s in m.substitutes}, m.replaced)
        for m in table(text).matches(words)
    ]


def test_equivalent_words_add_each_other() -> None:
    lines = "car, automobile, motor car"
    assert found(lines, "old car") == [("car", {"automobile": 0.8, "motor car": 0.8}, False)]
    assert found(lines, "automobile") == [("automobile", {"car": 0.8, "motor car": 0.8}, False)]


def test_arrow_replaces_unless_the_word_is_repeated() -> None:
    assert found("i-pod, i pod => ipod", "my i pod") == [("i pod", {"ipod": 0.8}, True)]
    assert found("nba => nba, national basketball", "nba") == [("nba", {"national basketball": 0.8}, False)]
    assert found("a => b", "b") == []


@pytest.mark.parametrize("line", ["a, b^0.5, c^1", "a,b|0.5,c|1.0", "a ， b ^ 0.5 ， c^ 1", "a^0.3, b^.5, c^1e0"])
def test_weights_and_separators(line: str) -> None:
    assert found(line, "a") == [("a", {"b": 0.5, "c": 1.0}, False)]


def test_longest_match_wins_and_uses_its_tokens_up() -> None:
    lines = "new york, ny\nyork, yorkshire\nnew york city, nyc"
    assert [source for source, _, _ in found(lines, "new york city york new york")] == [
        "new york city",
        "york",
        "new york",
    ]


def test_rules_for_one_word_add_up_with_the_greater_weight() -> None:
    assert found("a, b^0.5\na, c\nb^0.9, a", "a") == [("a", {"b": 0.9, "c": 0.8}, False)]


def test_a_word_is_kept_where_one_rule_keeps_it() -> None:
    assert found("a => b\na, c", "a") == [("a", {"b": 0.8, "c": 0.8}, False)]


def test_comments_blank_lines_and_escapes() -> None:
    lines = "# a, b\n\n  \nrock\\, paper, game\r\nx\\^2, square\n a \\=> b, c"
    assert found(lines, "a rock, paper x^2") == [("rock, paper", {"game": 0.8}, False), ("x^2", {"square": 0.8}, False)]
    assert found(lines, "a => b") == [("a => b", {"c": 0.8}, False)]


def test_mapping_works_in_one_direction_and_keeps_the_word() -> None:
    made = SynonymTable(Synonyms.of({"a": ["b", "c d"], "x": {"y": 0.3}}), str.split)
    assert [
        (m.replaced, [(s.analysed.words, s.weight) for s in m.substitutes]) for m in made.matches(["a", "x", "b"])
    ] == [
        (False, [(("b",), 0.8), (("c", "d"), 0.8)]),
        (False, [(("y",), 0.3)]),
    ]


def test_chinese_words_of_several_tokens_match_within_a_sentence() -> None:
    analyzer = Analyzer(AnalyzerConfig(query_segmentation="search", question_words=()))
    made = SynonymTable(Synonyms.parse("劳动合同, 雇佣协议\n勞動仲裁 => 劳动争议仲裁"), analyzer)
    words = [token for token in analyzer.query("解除劳动合同要劳动仲裁吗") if token[0] != "\0"]
    matches = list(made.matches(words))
    assert [("".join(m.substitutes[0].analysed.words), m.replaced) for m in matches] == [
        ("雇佣协议", False),
        ("劳动争议仲裁", True),
    ]
    assert words[matches[0].start : matches[0].end] == ["劳动", "合同", "劳动合同"]
    assert "\0合同" in matches[0].source.bigrams


def test_file_with_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "synonyms.txt"
    path.write_bytes("\ufeff合同, 协议\r\n".encode())
    assert Synonyms.read(path) == Synonyms.read(str(path))
    assert [rule.sources for rule in Synonyms.read(path).rules] == [("合同", "协议")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("合同", "a line must have two words with a comma between them, or =>, got '合同'"),
        ("a,,b", "a word must be a str and not blank, got ''"),
        ("a =>", "a word must be a str and not blank, got ''"),
        ("=> b", "a word must be a str and not blank, got ''"),
        ("a, ^0.5", "a word must be a str and not blank, got ''"),
        ("a => b => c", "a line must have at most one =>"),
        ("a, b^2", "weight of 'b' must be a number in 0.001..1, got 2.0"),
        ("a, b^0", "weight of 'b' must be a number in 0.001..1, got 0.0"),
        ("a, b^nan", "weight of 'b' must be a number in 0.001..1, got nan"),
        ("a, b^much", "weight of 'b' must be a number in 0.001..1, got 'much'"),
        (b"a, \xff", "not UTF-8 at byte 3 of the line; `iconv -f gb18030 -t utf-8` converts a file in GBK"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, line: str | bytes, message: str) -> None:
    path = tmp_path / "synonyms.txt"
    path.write_bytes(b"x, y\n# z\n" + (line if isinstance(line, bytes) else line.encode()))
    with pytest.raises(InputError) as caught:
        Synonyms.read(path)
    assert str(caught.value) == f"{path} line 3: {message}"


def test_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Synonyms.read(tmp_path / "none.txt")


def test_word_of_which_nothing_is_left_is_named() -> None:
    with pytest.raises(InputError) as caught:
        SynonymTable(Synonyms.parse("x, y\nthe, a thing"), Analyzer())
    assert str(caught.value) == "synonyms line 2: the analyzer drops all of 'the'"


def test_word_that_an_index_could_not_store_is_refused() -> None:
    for words in ({"a\ud800": ["b"]}, {"b": {"a\ud800": 0.5}}):
        with pytest.raises(InputError, match=r"the word 'a\\ud800' has a lone surrogate at character 1$"):
            Synonyms.of(words)


signs = st.sampled_from(["a", "b c", ",", "，", "=>", "^", "|", "0.5", "\\", "\n", "#", " ", "\ud800", "合同"])


@given(st.lists(signs, max_size=15).map("".join) | st.text(max_size=40))
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    try:
        rules = Synonyms.parse(text).rules
    except InputError as error:
        assert str(error).startswith("synonyms line ")  # noqa: PT017
        return
    for rule in rules:
        assert all(word.strip() for word in rule.sources)
        assert all(0.001 <= weight <= 1 for _, weight in rule.targets)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(content)
    try:
        Synonyms.read(path)
    except InputError as error:
        assert str(error).startswith(f"{path} line ")  # noqa: PT017


words = st.lists(st.sampled_from("abc"), min_size=1, max_size=8)
sources = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(" ".join), min_size=1, max_size=4)


@given(words, sources)
def test_matches_are_those_of_a_greedy_loop(query: list[str], sources: list[str]) -> None:
    made = SynonymTable(Synonyms.of({source: ["z"] for source in sources}), str.split)
    expected, at = [], 0
    while at < len(query):
        fits = [s.split() for s in sources if query[at : at + len(s.split())] == s.split()]
        longest = max(map(len, fits), default=0)
        expected += [(at, at + longest)] if longest else []
        at += longest or 1
    assert [(match.start, match.end) for match in made.matches(query)] == expected
