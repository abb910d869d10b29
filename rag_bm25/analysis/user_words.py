"""User words that are not Chinese only, such as 5G网络 or node.js: found before the text is cut into runs."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from rag_bm25.analysis.runs import LETTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["user_word_pattern"]

_LETTER = re.compile(LETTER)


def user_word_pattern(words: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern whose ``split`` has the user words at the odd places.

    Of several words that fit at one place the longest is found, in any letter case, and never one that begins or ends
    within a run of letters and digits. The words share their beginnings in the pattern, so that thousands of them
    cost little more than one.

    Parameters
    ----------
    words : iterable of str
        Normalised words.

    Returns
    -------
    re.Pattern or None
        None where there are no words.

    Examples
    --------
    >>> user_word_pattern(["5g", "5g网络"]).split("用5G网络，15G不是5g。")
    ['用', '5G网络', '，15G不是', '5g', '。']
    """
    lowered = sorted({word.lower() for word in words})
    if not lowered:
        return None
    starts = (_start(head) + _node(head, tails) for head, tails in _heads(lowered))
    return re.compile(f"({'|'.join(starts)})")


def _heads(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Group sorted words by their first character."""
    groups = groupby(filter(None, words), key=lambda word: word[0])
    return [(head, [word[1:] for word in group]) for head, group in groups]


def _node(head: str, tails: Sequence[str]) -> str:
    """Return the pattern of the words that begin with `head`, longest first."""
    branches = [_node(*group) for group in _heads(tails)]
    if "" in tails:
        branches.append(rf"(?!{LETTER})" if _LETTER.match(head) else "")
    return _any_case(head) + (f"(?:{'|'.join(branches)})" if len(branches) > 1 else branches[0])


def _start(head: str) -> str:
    """Return what must hold before a word's first character."""
    return rf"(?<!{LETTER})" if _LETTER.match(head) else ""


def _any_case(char: str) -> str:
    """Return the pattern of a character in both letter cases."""
    forms = dict.fromkeys((char, char.upper()))
    return f"(?:{'|'.join(map(re.escape, forms))})" if len(forms) > 1 else re.escape(char)
