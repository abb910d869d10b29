"""The minimum number of words of a query that a chunk must have, in the notation of Elasticsearch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rag_bm25.checks import as_str, is_int, parameter_error
from rag_bm25.errors import ParameterError, short_repr

if TYPE_CHECKING:
    from collections.abc import Sequence

_COUNT = r"(?P<sign>-?)(?P<count>\d{1,9})(?P<percent>%?)"
_SIMPLE = re.compile(_COUNT)
_SHARE = re.compile(r"(\d+)%")
_CONDITIONAL = re.compile(r"(\d{1,9})<(-?\d{1,9}%?)")


def check_min_should_match(name: str, value: object) -> int | str:
    """Refuse a value that :func:`required_words` cannot read."""
    written = int.__repr__(value) if is_int(value) and abs(value) < 10**9 else value
    if not isinstance(written, str) or not (_SIMPLE.fullmatch(written) or _conditions(written)):
        rule = "an int or a str such as '75%', '-1' or '3<90%', of at most nine digits a number"
        raise parameter_error(name, rule, value)
    if any(int(share) > 100 for share in _SHARE.findall(written)):
        raise ParameterError(f"{name} must have no share above 100%, got {short_repr(value)}")
    return int(value) if is_int(value) else as_str(written)


def required_words(value: int | str, num_words: int) -> int:
    """Return how many of the distinct words of a query a chunk must have.

    ``3`` is 3 of them, ``-1`` all but one, ``"75%"`` that share, rounded down, ``"-25%"`` all but that share, rounded
    down. ``"3<90%"``: of at most 3 words all, of more 90%; of several such conditions the last that applies counts.
    The notation is that of Elasticsearch (reference, "minimum_should_match parameter").
    """
    wanted = num_words
    written = as_str(value) if isinstance(value, str) else int.__repr__(value)
    for bound, count in _conditions(written) or [(-1, written)]:
        if num_words <= bound:
            break
        wanted = _count(count, num_words)
    return min(max(wanted, 1), num_words)


def _conditions(text: str) -> Sequence[tuple[int, str]]:
    """Return the conditions by rising bounds; none if the text has another form."""
    found = [_CONDITIONAL.fullmatch(part) for part in text.split()]
    conditions = [(int(match[1]), match[2]) for match in found if match is not None]
    return sorted(conditions) if len(conditions) == len(found) else []


def _count(text: str, num_words: int) -> int:
    """Read one count, which may be a share, and may be counted from the end."""
    match = _SIMPLE.fullmatch(text)
    assert match is not None
    count = int(match["count"]) * (num_words if match["percent"] else 1) // (100 if match["percent"] else 1)
    return num_words - count if match["sign"] else count
