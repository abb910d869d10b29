"""Cutting normalised text into runs of one script."""

from __future__ import annotations

import re

__all__ = ["LETTER", "find_ideographs", "find_runs", "holds_han", "is_han", "is_only_han", "is_syllabic"]

_HAN = "\u4e00-\u9fd5"  # what jieba's dictionary covers
_OTHER_IDEOGRAPHS = "\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u9fd6-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_HANGUL = "\u1100-\u11ff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"

LETTER = rf"[^\W_{_HAN}{_OTHER_IDEOGRAPHS}{_KANA}{_HANGUL}]"
"""Pattern of one letter or digit of all scripts that put spaces between words, and of some that do not."""


def _compound(word: str) -> str:
    """Pattern of a number with thousands separators, C++, C#, F#, or words joined by single signs."""
    # The look-behind stands after the first digit, so that it is only tried at digits.
    number = r"\d(?<!\d,\d)\d{0,2}(?:,\d{3})+(?:\.\d+)?(?!,?\d)"
    return rf"{number}|[Cc]\+\+|[CcFf]#|{word}(?:(?:[.\-']|_+){word})*"


_ASCII_RUNS = re.compile(_compound("[A-Za-z0-9]+"))
_RUNS = re.compile(
    rf"[{_HAN}]+|[{_OTHER_IDEOGRAPHS}]|[{_KANA}]+|[{_HANGUL}]+|"
    + _compound(rf"{LETTER}+(?:[\u0300-\u036f]+{LETTER}*)*")
)
_IDEOGRAPHS = re.compile(rf"[{_HAN}{_OTHER_IDEOGRAPHS}]{{2,}}")
_FIRST_HAN = re.compile(rf"[{_HAN}]")
_ALL_HAN = re.compile(rf"[{_HAN}]+")
_SYLLABIC = re.compile(rf"[{_KANA}{_HANGUL}]")


def find_runs(text: str) -> list[str]:
    """Return the runs of a text; what stands between them only separates.

    Parameters
    ----------
    text : str
        Normalised text.

    Returns
    -------
    list of str
        Runs of Han characters, single other ideographs, runs of kana or hangul, numbers, and compounds such as
        ``state-of-the-art``, in text order.

    Examples
    --------
    >>> find_runs("支持C++，约1,000万元。")
    ['支持', 'C++', '约', '1,000', '万元']
    """
    return (_ASCII_RUNS if text.isascii() else _RUNS).findall(text)


def find_ideographs(text: str) -> list[str]:
    """Return where several ideographs stand side by side, whichever of them the segmenter knows.

    Parameters
    ----------
    text : str
        Normalised text.

    Returns
    -------
    list of str
        Runs of two and more, in text order.

    Examples
    --------
    >>> find_ideographs("二〇二四年，𠮷野家的 T恤")
    ['二〇二四年', '𠮷野家的']
    """
    return [] if text.isascii() else _IDEOGRAPHS.findall(text)


def is_han(run: str) -> bool:
    """Tell whether a run goes to the segmenter.

    Parameters
    ----------
    run : str
        One of the results of :func:`find_runs`.

    Returns
    -------
    bool
        True for a run of Han characters.
    """
    return "\u4e00" <= run[0] <= "\u9fd5"


def holds_han(text: str) -> bool:
    """Tell whether a text has something for the segmenter.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    bool
        True where there is a Han character of its dictionary's range.
    """
    return _FIRST_HAN.search(text) is not None


def is_only_han(word: str) -> bool:
    """Tell whether the segmenter gets a word as a whole.

    Parameters
    ----------
    word : str
        A normalised word.

    Returns
    -------
    bool
        True where it has no other characters.
    """
    return _ALL_HAN.fullmatch(word) is not None


def is_syllabic(run: str) -> bool:
    """Tell whether a run is cut into pairs of characters.

    Parameters
    ----------
    run : str
        One of the results of :func:`find_runs`.

    Returns
    -------
    bool
        True for kana and hangul.
    """
    return _SYLLABIC.match(run) is not None
