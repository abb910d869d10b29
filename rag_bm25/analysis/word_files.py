"""Read the words of an analyzer from files."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, TypeVar

from rag_bm25.analysis.config import MAX_WORDS, check_user_word, check_word
from rag_bm25.checks import check_path
from rag_bm25.errors import InputError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAX_FILE_BYTES = 64 << 20  # the largest dictionary of jieba has 9 MB

# jieba's format: the word, its frequency, and its part of speech, of which only the word must be there. Without a
# frequency, only a mark of jieba's own is taken for one: the second word of a product's name is none.
_USER_WORD = re.compile(r"(\S+)(?:\s+(\d+)(?:\s+[a-z]{1,4})?|\s+(?:[a-z]{1,2}|nrt|nrfg|eng))?")

_T = TypeVar("_T")


def read_user_words(path: str | Path) -> tuple[tuple[str, int | None], ...]:
    """Read words to keep whole, for `user_words` of an :class:`~rag_bm25.AnalyzerConfig`.

    Parameters
    ----------
    path : str or Path
        A file in UTF-8 with a word a line. A frequency and a part of speech may follow, as in a user dictionary of
        jieba; the latter is not used. Empty lines are skipped, and lines that are ``#``
        or begin with it and a blank.

    Returns
    -------
    tuple of (str, int or None)
        Words with their frequencies, in the order of the file, each once.

    Raises
    ------
    InputError
        A line cannot be read, or a word has two frequencies; the message has file and line.
    OSError
        The file cannot be opened.
    """
    found: dict[str, tuple[int | None, int]] = {}
    for number, (word, frequency) in _read(path, _parse_user_word):
        known, first = found.setdefault(word, (frequency, number))
        if known != frequency:
            raise InputError(f"{path} line {number}: {word!r} has another frequency in line {first}")
    return tuple((word, frequency) for word, (frequency, _) in found.items())


def read_stop_words(path: str | Path) -> tuple[str, ...]:
    """Read words for `stop_words` and `question_words` of an :class:`~rag_bm25.AnalyzerConfig`.

    Parameters
    ----------
    path : str or Path
        A file in UTF-8 with a word a line. Empty lines are skipped, and lines that are ``#`` or begin
        with it and a blank.

    Returns
    -------
    tuple of str
        The words, in the order of the file, each once; none for an empty file.

    Raises
    ------
    InputError
        A line cannot be read; the message has file and line.
    OSError
        The file cannot be opened.
    """
    words = (word for _, word in _read(path, lambda line: check_word("stop_words", line)))
    return tuple(dict.fromkeys(words))


def _parse_user_word(line: str) -> tuple[str, int | None]:
    match = _USER_WORD.fullmatch(line)
    if match is None:
        raise ParameterError(f"user_words must be lines of WORD, or WORD FREQUENCY, got {line!r}")
    return check_user_word((match[1], int(match[2]) if match[2] else None))


def _read(path: str | Path, parse: Callable[[str], _T]) -> Iterator[tuple[int, _T]]:
    """Yield the number and the contents of each line that has any."""
    with check_path("path", path).open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise InputError(f"{path} must have at most {MAX_FILE_BYTES:,} bytes")
    count = 0
    for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).splitlines(), 1):
        try:
            text = line.decode().strip()
            if not text or re.match(r"#(\s|$)", text):
                continue
            yield number, parse(text)
        except UnicodeDecodeError:
            msg = f"{path} line {number}: not UTF-8; `iconv -f gb18030 -t utf-8` converts a file in GBK"
            raise InputError(msg) from None
        except ParameterError as error:
            raise InputError(f"{path} line {number}: {error}") from None
        count += 1
        if count > MAX_WORDS:
            raise InputError(f"{path} must have at most {MAX_WORDS:,} words")
