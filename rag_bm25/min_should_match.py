"""How many words of a query a chunk has to have, in the notation of Elasticsearch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rag_bm25.errors import ParameterError, shown
from rag_bm25.parameters import as_str

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_min_should_match", "required_words"]

_COUNT = r"(?P<sign>-?)(?P<count>\d{1,9})(?P<percent>%?)"
_SIMPLE = re.compile(_COUNT)
_SHARE = re.compile(r"(\d+)%")
_CONDITIONAL = re.compile(r"(\d{1,9})<(-?\d{1,9}%?)")


def check_min_should_match(value: object) -> None:
    """Refuse what :func:`required_words` cannot read.

    Parameters
    ----------
    value : object
        Anything.

    Raises
    ------
    ParameterError
        It is neither an int nor a str such as ``"3"``, ``"-1"``, ``"75%"``, ``"-25%"`` or ``"2<-25% 9<-3"``, a number
        in it has more than nine digits, or a share is above 100%.
    """
    number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9
    written = int.__repr__(value) if isinstance(value, int) and number else value
    if not isinstance(written, str) or not (_SIMPLE.fullmatch(written) or _conditions(written)):
        rule = "an int or a str such as '75%', '-1' or '3<90%', of at most nine digits a number"
        msg = f"min_should_match must be {rule}, got {shown(value)}"
        raise ParameterError(msg)
    if any(int(share) > 100 for share in _SHARE.findall(written)):
        msg = f"min_should_match must have no share above 100%, got {shown(value)}"
        raise ParameterError(msg)


def required_words(value: int | str, num_words: int) -> int:
    """Return how many of the words of a query a chunk has to have.

    ``3`` is 3 of them, ``-1`` all but one, ``"75%"`` that share, rounded down, ``"-25%"`` all but that share, rounded
    down. ``"3<90%"``: of at most 3 words all, of more 90%; of several such conditions the last that applies counts.

    Parameters
    ----------
    value : int or str
        As :func:`check_min_should_match` allows.
    num_words : int
        Distinct words of the query, unknown ones included.

    Returns
    -------
    int
        In 1..num_words, 0 for a query without words.

    References
    ----------
    .. [1] Elasticsearch, reference, "minimum_should_match parameter".

    Examples
    --------
    >>> [required_words(value, 5) for value in (3, -1, "75%", "-25%", "3<-25% 9<-3", 99)]
    [3, 4, 3, 4, 4, 5]
    """
    wanted = num_words
    written = as_str(value) if isinstance(value, str) else int.__repr__(value)
    for bound, count in _conditions(written) or [(-1, written)]:
        if num_words <= bound:
            break
        wanted = _counted(count, num_words)
    return min(max(wanted, 1), num_words)


def _conditions(text: str) -> Sequence[tuple[int, str]]:
    """Return the conditions by rising bounds, none where the text is not made of them."""
    found = [_CONDITIONAL.fullmatch(part) for part in text.split()]
    conditions = [(int(match[1]), match[2]) for match in found if match is not None]
    return sorted(conditions) if len(conditions) == len(found) else []


def _counted(text: str, num_words: int) -> int:
    """Read one count, which may be a share and may be counted from the end."""
    match = _SIMPLE.fullmatch(text)
    assert match is not None
    count = int(match["count"]) * (num_words if match["percent"] else 1) // (100 if match["percent"] else 1)
    return num_words - count if match["sign"] else count
