"""Words of an analyzer from files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25 import Analyzer, AnalyzerConfig, InputError
from rag_bm25.analysis import read_stop_words, read_user_words, user_words


def written(folder: Path, text: str | bytes) -> Path:
    file = folder / "words.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_user_words_are_in_the_format_of_jieba(tmp_path: Path) -> None:
    file = written(tmp_path, "# products\n\n云计算 5 n\n创新办 3\r\n凱特琳 nz\nK8s\n  台中  \n#\n云计算 5\n")
    assert read_user_words(file) == (("云计算", 5), ("创新办", 3), ("凱特琳", None), ("K8s", None), ("台中", None))


def test_stop_words_keep_signs(tmp_path: Path) -> None:
    file = written(tmp_path, b"\xef\xbb\xbf" + "的\n# comment\nthe\n——\nC#\n#hash\n的\n".encode())
    assert read_stop_words(file) == ("的", "the", "——", "C#", "#hash")


@pytest.mark.parametrize("read", [read_user_words, read_stop_words])
def test_an_empty_file_has_no_words(tmp_path: Path, read: type) -> None:
    assert read(written(tmp_path, "\n\n")) == ()


def test_words_reach_the_analyzer(tmp_path: Path) -> None:
    user, stop = tmp_path / "user", tmp_path / "stop"
    user.write_text("小助手宝", encoding="utf-8")
    stop.write_text("可以\n", encoding="utf-8")
    config = AnalyzerConfig(user_words=read_user_words(user), stop_words=read_stop_words(stop))
    plain, told = Analyzer()("小助手宝可以 the"), Analyzer(config)("小助手宝可以 the")
    assert ("小助手宝" in plain, "小助手宝" in told) == (False, True)
    assert ("可以" in plain, "可以" in told) == (True, False)
    assert ("the" in plain, "the" in told) == (False, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("好\n云 计算\n", "line 2: user_words must be lines of WORD, or WORD FREQUENCY, got '云 计算'"),
        ("Glide Pay", "line 1: user_words must be lines of WORD, or WORD FREQUENCY, got 'Glide Pay'"),
        ("好 0", "line 1: frequency of a user word must be None or in [1, 2147483647], got 0"),
        ("好 -1", "line 1: user_words must be lines of WORD, or WORD FREQUENCY, got '好 -1'"),
        ("\n\n——", "line 3: user_words must be words with a letter or digit"),
        ("x" * 300, "line 1: user_words must be words of 1 to "),
        ("好 3\n坏\n好 4\n", "line 3: '好' has another frequency in line 1"),
        (
            "好\n".encode("gbk"),
            "line 1: not UTF-8 at byte 0 of the line; `iconv -f gb18030 -t utf-8` converts a file in GBK",
        ),
    ],
)
def test_a_line_that_is_no_user_word_is_named(tmp_path: Path, text: str | bytes, says: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InputError) as refused:
        read_user_words(file)
    assert str(refused.value).startswith(f"{file} ")
    assert says in str(refused.value)


def test_a_line_that_is_no_stop_word_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2: stop_words must be words of 1 to .* without white space, got 'a b'"):
        read_stop_words(written(tmp_path, "a\na b\n"))


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "a\nb\nc\n")
    monkeypatch.setattr(user_words, "MAX_WORDS", 3)
    assert len(read_stop_words(file)) == 3
    monkeypatch.setattr(user_words, "MAX_WORDS", 2)
    with pytest.raises(InputError, match="at most 2 words"):
        read_stop_words(file)
    monkeypatch.setattr(user_words, "MAX_FILE_BYTES", 5)
    with pytest.raises(InputError, match="at most 5 bytes"):
        read_stop_words(file)


@given(st.lists(st.tuples(st.text("合同法云计算abc1", min_size=1, max_size=5), st.none() | st.integers(1, 9999))))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, int | None]]) -> None:
    words = dict(pairs)
    lines = [word if frequency is None else f"{word}\t{frequency} n" for word, frequency in words.items()]
    file = written(tmp_path_factory.getbasetemp(), "\n".join(lines))
    assert read_user_words(file) == tuple(words.items())
