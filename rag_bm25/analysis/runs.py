"""Cut normalised text into runs of one script."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rag_bm25.scripts import IDEOGRAPHS, MARKS, SCRIPTS, SEGMENTED, script_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

IDEOGRAPH_BITS = 18  # every ideograph is below 0x40000
_IDEOGRAPH, _END = 1, 2

WIDE_COMMA = "\uff0c"
"""May separate thousands, but mostly clauses."""
COMMAS = f",{WIDE_COMMA}"
"""All that may separate thousands."""
LETTER = rf"[^\W_{''.join(script.chars for script in SCRIPTS)}]"
"""Pattern of one letter or digit of all scripts that put spaces between words, and of some that do not."""

# Letters that are two in small letters, by Unicode's case folding: l'ß is cut as l'ss.
_DOUBLE = "\u00df\u1e9e\u1f80-\u1faf\u1fb2-\u1fb4\u1fbc\u1fc2-\u1fc4\u1fcc\u1ff2-\u1ff4\u1ffc"


def _number(comma: str) -> str:
    """Return the pattern of a number with thousands separators, all of which are the same."""
    # The look-behind stands after the first digit, so that it is only tried at digits.
    return rf"\d(?<!\d{comma}\d)\d{{0,2}}(?:{comma}\d{{3}})+(?:\.\d+)?(?![,{comma}]?\d)"


def _compound(word: str, commas: str) -> str:
    """Return the pattern of a number with thousands separators, C++, C#, F#, .NET, or words joined by single signs."""
    numbers = "|".join(map(_number, commas))
    # An apostrophe after one letter, or two of a code's prefix, parts: f'text', l'accord; but not I'll and O'Brien.
    # Chinese beside a word is no letter of it, as where a text is cut at it.
    starts, ends = rf"(?<!{LETTER})(?<![_'])", rf"(?!{LETTER}|_)"
    parted = (
        rf"(?:(?<={starts}[A-NP-Za-np-z]')|(?<={starts}(?:rb|br|fr|qu)'))(?!(?i:ll|re|ve){ends})(?:\w\w|[{_DOUBLE}])"
    )
    return rf"{numbers}|[Cc]\+\+|[CcFf]#|{_NET}|{word}(?:(?:[.\-]|'(?!{parted})|_+|{_AMPERSAND}){word})*"


# R&D and at&t, but no parts of a&b&c, of addresses (?a=1&b=2) and of character references (x&lt;y).
_BEFORE = "|".join(rf"(?<=(?<![A-Za-z0-9_&=])[A-Za-z]{{{letters}}}&)" for letters in (1, 2, 3))
_AMPERSAND = rf"&(?:{_BEFORE})(?=[A-Za-z]{{1,3}}\d{{0,4}}(?![A-Za-z0-9_&=])(?!(?<=[a-z]{{2}});))"
_NET = r"\.[Nn][Ee][Tt](?<![A-Za-z0-9_.)\]].{4})(?![A-Za-z0-9_])"
_WORD = rf"{LETTER}+(?:[{MARKS}]+{LETTER}*)*"
_ASCII_RUNS = re.compile(_compound("[A-Za-z0-9]+", ","))
_ASCII_RUNS_AND_SIGNS = re.compile(_ASCII_RUNS.pattern + r"|\S")
_SYLLABLES = re.compile(f".[{MARKS}]*")
_LETTERS = re.compile(rf"[^\W\d_]+(?:[{MARKS}]+[^\W\d_]*)*")
_NEIGHBOURS = re.compile(rf"{LETTER}[{MARKS}]*[\s._\-]+{LETTER}")
_IDEOGRAPHS = re.compile(rf"[{IDEOGRAPHS}]{{2,}}")
_PARTED_IDEOGRAPHS = re.compile(rf"(?<=[{IDEOGRAPHS}])\s+(?=[{IDEOGRAPHS}])")
_SENTENCE_ENDS = "\u3002\uff01\uff1f\uff1b!?;\n"
_SENTENCES = re.compile(rf"[^{_SENTENCE_ENDS}]+")
_FIRST_SEGMENTED = re.compile(f"[{SEGMENTED}]")
_WITHOUT_SEGMENTED = re.compile(f"[^{SEGMENTED}]{{3,}}")
_SEGMENTED_RUNS = re.compile("|".join(script.run for script in SCRIPTS if script.segmenter))


# These take the longest to compile, and texts in ASCII do without them.
@cache
def _runs() -> re.Pattern[str]:
    return re.compile("|".join([*(script.run for script in SCRIPTS), _compound(_WORD, COMMAS)]))


@cache
def _runs_and_signs() -> re.Pattern[str]:
    return re.compile(_runs().pattern + r"|\S")


@cache
def _within_word() -> re.Pattern[str]:
    return re.compile(rf".(?=[{MARKS}])|(?:{LETTER}|[{MARKS}])(?={LETTER})", re.DOTALL)


def find_runs(text: str) -> list[str]:
    """Return the runs: Han, kana or hangul, single other ideographs, numbers, and compounds (``state-of-the-art``)."""
    return (_ASCII_RUNS if text.isascii() else _runs()).findall(text)


def locate_runs(text: str) -> Iterator[re.Match[str]]:
    """Yield the runs with their places."""
    return (_ASCII_RUNS if text.isascii() else _runs()).finditer(text)


def find_runs_and_signs(text: str) -> list[str]:
    """Return the runs, and between them each character that is neither in a run nor a blank."""
    return (_ASCII_RUNS_AND_SIGNS if text.isascii() else _runs_and_signs()).findall(text)


def locate_runs_and_signs(text: str) -> Iterator[re.Match[str]]:
    """Yield the runs and signs with their places."""
    return (_ASCII_RUNS_AND_SIGNS if text.isascii() else _runs_and_signs()).finditer(text)


def split_ideographs(text: str) -> str:
    """Put a sign between ideographs that blanks separate: no bigram spans these."""
    return text if text.isascii() else _PARTED_IDEOGRAPHS.sub("|", text)


def parts_without_segmented(text: str) -> list[str]:
    """Return the parts of a text between runs for segmenters that are long enough for two words."""
    return [text] if text.isascii() else _WITHOUT_SEGMENTED.findall(text)


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


def locate_segmented(text: str) -> Iterator[re.Match[str]]:
    """Yield the runs that segmenters cut, with their places."""
    return _SEGMENTED_RUNS.finditer(text)


def code_points(text: str) -> NDArray[np.uint32]:
    """Return the code points of a text, and of a blank before and after it."""
    return np.array([f" {text} "]).view(np.uint32)


class Kinds(NamedTuple):
    """Masks of ideographs and sentence ends."""

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
    kinds[points_in(IDEOGRAPHS)] = _IDEOGRAPH
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
    return len(run) == 1 and _runs().match(run) is None


def is_segmented(run: str) -> bool:
    """Return whether a segmenter cuts a result of `find_runs`, such as a run of Han characters."""
    return bool(script_of(run[0]).segmenter)


def holds_segmented(text: str) -> bool:
    """Return whether a text has a character that a segmenter knows."""
    return not text.isascii() and _FIRST_SEGMENTED.search(text) is not None


def holds_letters(text: str) -> bool:
    """Return whether a text has a letter or digit of a script that puts spaces between words."""
    return re.search(LETTER, text) is not None


def is_all_segmented(word: str) -> bool:
    """Return whether a segmenter gets a word as a whole: it has no characters of another script."""
    return _SEGMENTED_RUNS.fullmatch(word) is not None


def is_syllabic(run: str) -> bool:
    """Return whether a result of `find_runs` is of a script that is cut into pairs of characters, such as kana."""
    return script_of(run[0]).syllabic


def locate_syllables(run: str) -> list[re.Match[str]]:
    """Return the characters of a run, each with its marks."""
    return list(_SYLLABLES.finditer(run))


def is_within_word(text: str, place: int) -> bool:
    """Return whether there are letters or digits on both sides of a place, or a mark after it."""
    return _within_word().match(text, place - 1) is not None


def is_spelt(word: str) -> bool:
    """Return whether a word has letters and their marks only."""
    return word.isalpha() or (not word.isascii() and _LETTERS.fullmatch(word) is not None)
