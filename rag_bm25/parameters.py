"""Checks of numbers that users give: a finite number, for which a rule holds."""

from __future__ import annotations

import math
import sys

from rag_bm25.errors import ParameterError, shown

__all__ = ["check_parameter", "comparable"]


def check_parameter(name: str, value: object, rule: str, holds: bool) -> None:
    """Refuse a parameter unless it is a finite number for which its rule holds.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        What was given.
    rule : str
        What it must be, in words.
    holds : bool
        Whether it is; see :func:`comparable`.

    Raises
    ------
    ParameterError
        It is not; the message has the name, the rule and the value.

    Examples
    --------
    >>> check_parameter("b", 2.0, "in [0, 1]", 0 <= comparable(2.0) <= 1)
    Traceback (most recent call last):
        ...
    rag_bm25.errors.ParameterError: b must be in [0, 1], got 2.0
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and holds and abs(comparable(value)) <= sys.float_info.max):
        msg = f"{name} must be {rule}, got {shown(value)}"
        raise ParameterError(msg)


def comparable(value: object) -> float:
    """Return a number as it is, and NaN for anything else, which then fails every comparison.

    Parameters
    ----------
    value : object
        What was given.

    Returns
    -------
    float
        The same, or NaN.
    """
    return value if isinstance(value, int | float) else math.nan
