"""Checks of parameters that users give: a number, a name of several, a switch, a callable."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from rag_bm25.errors import ParameterError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "as_str",
    "check_callable",
    "check_choice",
    "check_int",
    "check_parameter",
    "check_path",
    "check_switch",
    "comparable",
    "is_iterable",
]


def as_str(text: str) -> str:
    """Return a text as a plain ``str``.

    A subclass is taken as the text that it holds, whatever its own ``__str__`` says, which for a member of a ``str``
    Enum is the name of the member. Serialisers and engines look at the type.

    Parameters
    ----------
    text : str
        May be a ``numpy.str_`` or a member of a ``str`` Enum.

    Returns
    -------
    str
        The same characters.
    """
    return str.__str__(text)


def is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Tell whether a value can be iterated over, which a numpy array of no dimension cannot, though it has the method.

    Parameters
    ----------
    value : object
        Anything; nothing is taken from it.

    Returns
    -------
    bool
        Whether it can.
    """
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Refuse a parameter unless it is one of several names.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        What was given.
    choices : sequence of str
        The names.

    Returns
    -------
    str
        The one that was given, as a plain ``str``.

    Raises
    ------
    ParameterError
        It is another one, or no str.

    Examples
    --------
    >>> check_choice("metric", "COSINE", ["COSINE", "IP"])
    'COSINE'
    """
    if not isinstance(value, str) or value not in choices:
        msg = f"{name} must be one of {', '.join(choices)}, got {shown(value)}"
        raise ParameterError(msg)
    return as_str(value)


def check_int(name: str, value: object, least: int, most: int) -> int:
    """Refuse a parameter unless it is an int within its limits.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        What was given.
    least, most : int
        The limits, both allowed.

    Returns
    -------
    int
        As a plain ``int``.

    Raises
    ------
    ParameterError
        It is no int, a bool, or beyond its limits.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        msg = f"{name} must be an int in {least}..{most}, got {shown(value)}"
        raise ParameterError(msg)
    return int(value)


def check_switch(name: str, value: object) -> None:
    """Refuse a parameter unless it is True or False.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        What was given.

    Raises
    ------
    ParameterError
        It is something else, which would count as True or False all the same.
    """
    if not isinstance(value, bool):
        msg = f"{name} must be True or False, got {shown(value)}"
        raise ParameterError(msg)


def check_callable(name: str, value: object) -> None:
    """Refuse a parameter unless it can be called, or is None.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        What was given.

    Raises
    ------
    ParameterError
        It cannot be called.
    """
    if not (value is None or callable(value)):
        msg = f"{name} must be a callable or None, got {shown(value)}"
        raise ParameterError(msg)


def check_path(name: str, value: object) -> Path:
    """Refuse a parameter unless it can name a file.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        What was given.

    Returns
    -------
    Path
        The same.

    Raises
    ------
    ParameterError
        It is neither a str nor a path, is empty, or has a NUL; an int would be taken for a file that is open.
    """
    path = as_str(value) if isinstance(value, str) else value
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        msg = f"{name} must be a str or a Path that can name a file, got {shown(value)}"
        raise ParameterError(msg)
    return Path(path)


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
