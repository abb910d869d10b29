"""Cut runs of a script into words by its segmenter, and Chinese by jieba's dictionary.

Its hidden Markov model is left out: without it a word is cut the same way wherever it stands, and rjieba and jieba
agree on every word.
"""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rag_bm25.analysis.dictionary import whole_word_frequencies
from rag_bm25.analysis.text import Token
from rag_bm25.errors import MissingExtraError, install_extra
from rag_bm25.scripts import SCRIPTS, script_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from rag_bm25.scripts import Script

    _SegmenterClass: TypeAlias = "Callable[[Mapping[str, int | None]], Segmenter]"

SegmenterName = Literal["auto", "jieba", "rjieba"]

COMPILED = "rjieba.rjieba"

RUN_END = " "
"""Stands after the words of a run where several runs are cut at once."""

_IS_ONE_SCRIPT = sum(bool(script.segmenter) for script in SCRIPTS) == 1
_loading = Lock()


class Segmenter(Protocol):
    """Cuts a run of one script. It never changes after loading, so that threads can share it."""

    joins_runs: bool  # whether it cuts several runs with a blank between them, too: as each alone, and the blank

    def exact(self, run: str) -> list[str]:
        """Return the words of the most probable segmentation."""
        ...

    def search(self, run: str) -> list[str]:
        """Return these words, each after the shorter dictionary words that it holds."""
        ...


class Cutters(dict[str, "Callable[[str], list[str]] | None"]):
    """By the first character of a run, what cuts it, if a segmenter does; that is loaded at the first such run."""

    def __init__(self, mode: Literal["exact", "search"], load: Callable[[Script], Segmenter]) -> None:
        super().__init__()
        self._mode, self._load = mode, load

    @classmethod
    def of(cls, name: SegmenterName, user_words: Mapping[str, int | None]) -> tuple[Cutters, Cutters]:
        """Return those of the exact and of the search segmentation."""

        @cache
        def load(script: Script) -> Segmenter:
            words = {word: frequency for word, frequency in user_words.items() if script_of(word[0]) is script}
            segmenter: Segmenter = import_module(script.segmenter).load_segmenter(name, words)
            return segmenter

        return cls("exact", load), cls("search", load)

    def __missing__(self, char: str) -> Callable[[str], list[str]] | None:
        script = script_of(char)
        self[char] = cut = getattr(self._load(script), self._mode) if script.segmenter else None
        return cut

    def cut(self, run: str) -> list[str]:
        """Return the words of a run that a segmenter cuts."""
        cut = self[run[0]]
        assert cut is not None  # or it would be no such run
        return cut(run)

    def cut_all(self, runs: Sequence[str]) -> list[str]:
        """Return the words of such runs, with `RUN_END` after those of each; one call takes less time than many."""
        if runs and _IS_ONE_SCRIPT and self._load(script_of(runs[0][0])).joins_runs:
            return [*self.cut(RUN_END.join(runs)), RUN_END]
        return [word for run in runs for word in (*self.cut(run), RUN_END)]


def place_words(words: Iterable[str], wholes: Iterable[str]) -> Iterator[Token]:
    """Yield the words of either segmentation of a run with their places; `wholes` are those of the exact one."""
    left, end = iter(words), 0
    for whole in wholes:
        start, end = end, end + len(whole)
        at, length = 0, 0
        for word in left:
            if len(word) == len(whole):
                yield Token(word, start, end)
                break
            at = whole.find(word, at + 1 if len(word) == length else 0)  # those of one length are in text order
            length = len(word)
            yield Token(word, start + at, start + at + length)


def load_segmenter(name: SegmenterName, user_words: Mapping[str, int | None]) -> Segmenter:
    """Load a dictionary, or return the one that was loaded last if it is the same.

    ``"auto"`` is rjieba if it is installed, else jieba. User words are of Han characters, each with its frequency, or
    None for the least that keeps the word whole.
    """
    with _loading:
        return _load(_segmenter_class(name), tuple(user_words.items()))


@lru_cache(maxsize=1)
def _load(segmenter_class: _SegmenterClass, user_words: tuple[tuple[str, int | None], ...]) -> Segmenter:
    return segmenter_class(dict(user_words))


def _segmenter_class(name: SegmenterName) -> _SegmenterClass:
    if name == "jieba":
        return _jieba_class()
    try:
        _rjieba()
    except ImportError as error:
        if name == "auto":
            return _jieba_class()
        msg = f'the segmenter "rjieba" needs rjieba 0.2.2 or later: {install_extra("fast")}'
        raise MissingExtraError(msg) from error
    return RjiebaSegmenter


def _jieba_class() -> _SegmenterClass:
    from rag_bm25.analysis.jieba_segmenter import JiebaSegmenter

    return JiebaSegmenter


class RjiebaSegmenter:
    """Cut Chinese by rjieba, in Rust, with a dictionary of its own, which changes of the global one do not reach."""

    joins_runs = True

    def __init__(self, user_words: Mapping[str, int | None]) -> None:
        self._jieba = _rjieba().Jieba()
        for word, frequency in whole_word_frequencies(user_words, self.exact).items():
            self._jieba.add_word(word, frequency, None)

    def exact(self, run: str) -> list[str]:
        words: list[str] = self._jieba.cut(run, False)  # noqa: FBT003
        return words

    def search(self, run: str) -> list[str]:
        words: list[str] = self._jieba.cut_for_search(run, False)  # noqa: FBT003
        return words


def _rjieba() -> Any:
    """Import rjieba's compiled module alone: its package would load a dictionary that nobody uses."""
    package = find_spec("rjieba")
    compiled = package and PathFinder.find_spec(COMPILED, package.submodule_search_locations)
    if not compiled or not compiled.loader:
        return import_module("rjieba")
    if COMPILED not in sys.modules:
        module = module_from_spec(compiled)
        compiled.loader.exec_module(module)
        sys.modules[COMPILED] = module  # where the package finds it, should it be imported
    return sys.modules[COMPILED]
