"""Jieba's dictionary, read from its file: jieba itself would leave a cache in a shared folder, and log."""

from __future__ import annotations

from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from rag_bm25.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["read_dictionary", "whole_word_frequencies"]


def read_dictionary() -> tuple[dict[str, int], int]:
    """Read every word with its frequency; jieba is found, but not imported.

    Returns
    -------
    words : dict of str to int
        Frequency of each word.
    total : int
        Sum over the lines; a word that has two counts twice, as it does for jieba.

    Raises
    ------
    MissingExtraError
        jieba is not installed.
    """
    spec = find_spec("jieba")
    if spec is None or spec.origin is None:
        msg = "jieba is not installed, and its dictionary is needed: pip install rag-bm25"
        raise MissingExtraError(msg)
    fields = Path(spec.origin).with_name("dict.txt").read_text(encoding="utf-8").split()
    words, frequencies = fields[::3], list(map(int, fields[1::3]))
    return dict(zip(words, frequencies, strict=True)), sum(frequencies)


def whole_word_frequencies(user_words: Mapping[str, int | None], cut: Callable[[str], list[str]]) -> dict[str, int]:
    """Complete the frequencies of user words by the least one that keeps the word whole.

    As jieba's ``suggest_freq``, but worked out from the dictionary alone, so that neither the other user words nor
    the segmenter matter.

    Parameters
    ----------
    user_words : mapping of str to int or None
        Words of Han characters; None where the frequency is to be found.
    cut : callable of str to list of str
        The most probable segmentation by the dictionary without user words.

    Returns
    -------
    dict of str to int
        Every user word with its frequency, >= 1.
    """
    given = {word: frequency for word, frequency in user_words.items() if frequency is not None}
    if len(given) == len(user_words):
        return given
    known, total = read_dictionary()

    def suggested(word: str) -> int:
        parts = cut(word)
        if parts == [word]:
            return known.get(word, 1)
        return int(prod(known.get(part, 1) / total for part in parts) * total) + 1

    return {word: given.get(word) or suggested(word) for word in user_words}
