"""Jieba's dictionary, read from its file: jieba itself would leave a cache in a shared folder, and log."""

from __future__ import annotations

from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from rag_bm25.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def dictionary_path() -> Path | None:
    """Find the file of the dictionary, without importing jieba; None where jieba is not installed."""
    spec = find_spec("jieba")
    return None if spec is None or spec.origin is None else Path(spec.origin).with_name("dict.txt")


def read_dictionary() -> tuple[dict[str, int], int]:
    """Read the frequency of every word, and their sum."""
    path = dictionary_path()
    if path is None:
        raise MissingExtraError("jieba is not installed, and its dictionary is needed: pip install jieba")
    fields = path.read_text(encoding="utf-8").split()
    words, frequencies = fields[::3], list(map(int, fields[1::3]))
    return dict(zip(words, frequencies, strict=True)), sum(frequencies)  # a word on two lines counts twice, as in jieba


def whole_word_frequencies(user_words: Mapping[str, int | None], cut: Callable[[str], list[str]]) -> dict[str, int]:
    """Give each user word without a frequency the least that keeps it whole; `cut` segments without user words."""
    # As jieba's `suggest_freq`, but from the dictionary alone, independent of other user words and of the segmenter.
    given = {word: frequency for word, frequency in user_words.items() if frequency is not None}
    if len(given) == len(user_words):
        return given
    known, total = read_dictionary()

    def suggest(word: str) -> int:
        parts = cut(word)
        if parts == [word]:
            return known.get(word, 1)
        return int(prod(known.get(part, 1) / total for part in parts) * total) + 1

    return {word: given.get(word) or suggest(word) for word in user_words}
