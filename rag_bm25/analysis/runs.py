"""Cut normalised text into runs of one script."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

HAN = "\u4e00-\u9fd5"  # the range of jieba's dictionary
IDEOGRAPH_BITS = 18  # every ideograph is below 0x40000
_IDEOGRAPH, _END = 1, 2
_OTHER_IDEOGRAPHS = "\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u9fd6-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_HANGUL = "\u1100-\u11ff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"

_MARK = "\u0300-\u036f"  # diacritics
LETTER = rf"[^\W_{HAN}{_OTHER_IDEOGRAPHS}{_KANA}{_HANGUL}]"
"""Pattern of one letter or digit of all scripts that put spaces between words, and of some that do not."""


def _compound(word: str) -> str:
    """Return the pattern of a number with thousands separators, C++, C#, F#, or words joined by single signs."""
    # The look-behind stands after the first digit, so that it is only tried at digits.
    number = r"\d(?<!\d,\d)\d{0,2}(?:,\d{3})+(?:\.\d+)?(?!,?\d)"
    return rf"{number}|[Cc]\+\+|[CcFf]#|{word}(?:(?:[.\-']|_+){word})*"


_ASCII_RUNS = re.compile(_compound("[A-Za-z0-9]+"))
_RUNS = re.compile(
    rf"[{HAN}]+|[{_OTHER_IDEOGRAPHS}]|[{_KANA}]+|[{_HANGUL}]+|" + _compound(rf"{LETTER}+(?:[{_MARK}]+{LETTER}*)*")
)
_ASCII_RUNS_AND_SIGNS = re.compile(_ASCII_RUNS.pattern + r"|\S")
_RUNS_AND_SIGNS = re.compile(_RUNS.pattern + r"|\S")
_NEIGHBOURS = re.compile(rf"{LETTER}[{_MARK}]*[\s._\-]+{LETTER}")
_IDEOGRAPHS = re.compile(rf"[{HAN}{_OTHER_IDEOGRAPHS}]{{2,}}")
_PARTED_IDEOGRAPHS = re.compile(rf"(?<=[{HAN}{_OTHER_IDEOGRAPHS}])\s+(?=[{HAN}{_OTHER_IDEOGRAPHS}])")
_SENTENCE_ENDS = "\u3002\uff01\uff1f\uff1b!?;\n"
_SENTENCES = re.compile(rf"[^{_SENTENCE_ENDS}]+")
_FIRST_HAN = re.compile(rf"[{HAN}]")
_WITHOUT_HAN = re.compile(rf"[^{HAN}]{{3,}}")
_ALL_HAN = re.compile(rf"[{HAN}]+")
_SYLLABIC = re.compile(rf"[{_KANA}{_HANGUL}]")


def find_runs(text: str) -> list[str]:
    """Return the runs: Han, kana or hangul, single other ideographs, numbers, and compounds (``state-of-the-art``)."""
    return (_ASCII_RUNS if text.isascii() else _RUNS).findall(text)


def locate_runs(text: str) -> Iterator[re.Match[str]]:
    """Yield the runs with their places."""
    return (_ASCII_RUNS if text.isascii() else _RUNS).finditer(text)


def find_runs_and_signs(text: str) -> list[str]:
    """Return the runs, and between them each character that is neither in a run nor a blank."""
    return (_ASCII_RUNS_AND_SIGNS if text.isascii() else _RUNS_AND_SIGNS).findall(text)


def locate_runs_and_signs(text: str) -> Iterator[re.Match[str]]:
    """Yield the runs and signs with their places."""
    return (_ASCII_RUNS_AND_SIGNS if text.isascii() else _RUNS_AND_SIGNS).finditer(text)


def split_ideographs(text: str) -> str:
    """Put a sign between ideographs that blanks separate: no bigram spans these."""
    return text if text.isascii() else _PARTED_IDEOGRAPHS.sub("|", text)


def parts_without_han(text: str) -> list[str]:
    """Return the parts of a text between Han characters that are long enough for two words."""
    return [text] if text.isascii() else _WITHOUT_HAN.findall(text)


def may_hold_word_bigrams(text: str) -> bool:
    """Return whether two words may stand side by side; many Chinese texts have none that do."""
    return _NEIGHBOURS.search(text) is not None


def find_ideographs(text: str) -> list[str]:
    """Return the runs of two or more ideographs, those that the segmenter does not know included."""
    return [] if text.isascii() else _IDEOGRAPHS.findall(text)


def split_sentences(text: str) -> list[str]:
    """Return the parts of a Chinese text between the ends of sentences and of lines."""
    return _SENTENCES.findall(text)


def locate_ideographs(text: str) -> Iterator[re.Match[str]]:
    """Yield the runs of two or more ideographs with their places."""
    return _IDEOGRAPHS.finditer(text)


def locate_han(text: str) -> Iterator[re.Match[str]]:
    """Yield the runs of Han characters, which the segmenter cuts, with their places."""
    return _ALL_HAN.finditer(text)


def code_points(text: str) -> NDArray[np.uint32]:
    """Return the code points of a text, and of a blank before and after it."""
    return np.array([f" {text} "]).view(np.uint32)


class Kinds(NamedTuple):
    """What characters are."""

    are_ideographs: NDArray[np.bool_]
    are_ends: NDArray[np.bool_]  # of sentences and of lines


def kinds_of(points: NDArray[np.uint32]) -> Kinds:
    """Return which characters `find_ideographs` finds, and at which ones `split_sentences` splits."""
    kinds = _kinds().take(points, mode="clip")
    return Kinds(kinds == _IDEOGRAPH, kinds == _END)


@cache
def _kinds() -> NDArray[np.uint8]:
    """Return the kind of each code point; that of the last one is that of all above it."""
    kinds = np.zeros((1 << IDEOGRAPH_BITS) + 1, np.uint8)
    kinds[points_in(HAN + _OTHER_IDEOGRAPHS)] = _IDEOGRAPH
    kinds[points_in(_SENTENCE_ENDS)] = _END
    return kinds


def points_in(ranges: str) -> list[int]:
    """Expand ``a-c`` as in a regular expression's set."""
    points: list[int] = []
    for char in ranges:
        if points and points[-1] == ord("-"):
            points.pop()
            points.extend(range(points[-1] + 1, ord(char) + 1))
        else:
            points.append(ord(char))
    return points


def is_sign(run: str) -> bool:
    """Return whether a result of `find_runs_and_signs` is none of `find_runs`."""
    return len(run) == 1 and _RUNS.match(run) is None


def is_han(run: str) -> bool:
    """Return whether a result of `find_runs` is a run of Han characters, which the segmenter cuts."""
    return "\u4e00" <= run[0] <= "\u9fd5"


def holds_han(text: str) -> bool:
    """Return whether a text has a Han character that the segmenter knows."""
    return not text.isascii() and _FIRST_HAN.search(text) is not None


def is_only_han(word: str) -> bool:
    """Return whether a word has no other characters than Han, so that the segmenter gets it as a whole."""
    return _ALL_HAN.fullmatch(word) is not None


def is_syllabic(run: str) -> bool:
    """Return whether a result of `find_runs` is kana or hangul, which is cut into pairs of characters."""
    return not run.isascii() and _SYLLABIC.match(run) is not None
