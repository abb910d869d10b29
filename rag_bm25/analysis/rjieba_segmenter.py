"""Segmentation by rjieba, in Rust: the same words, faster. Importing this module imports rjieba."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rjieba import Jieba

if TYPE_CHECKING:
    from collections.abc import Mapping


class RjiebaSegmenter:
    """A dictionary of its own, which changes of rjieba's global one do not reach."""

    def __init__(self, user_words: Mapping[str, int]) -> None:
        self._jieba = Jieba()
        for word, frequency in user_words.items():
            self._jieba.add_word(word, frequency, None)

    def exact(self, run: str) -> list[str]:
        words: list[str] = self._jieba.cut(run, False)  # noqa: FBT003
        return words

    def search(self, run: str) -> list[str]:
        words: list[str] = self._jieba.cut_for_search(run, False)  # noqa: FBT003
        return words
