"""Check the arguments of public functions."""

from __future__ import annotations

import math
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from rag_bm25.errors import MissingExtraError, ParameterError, short_repr

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def as_str(text: str) -> str:
    """Convert a subclass of ``str`` to the plain text that it holds."""
    return str.__str__(text)  # its own __str__ may differ: that of a str Enum returns the member's name


def find_bad_character(text: str) -> str | None:
    """Describe a character that UTF-8 or an engine cannot store; NUL ends strings in engines."""
    if "\0" in text:
        return f"a NUL at character {text.index(chr(0))}"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"a lone surrogate at character {error.start}"
    return None


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number; a bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_int(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer; a bool is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def kind_of(value: object) -> str:
    """Return the type of a JSON value as filters and groups tell types apart: 1 is 1.0, and not True."""
    return "number" if is_number(value) else type(value).__name__


def is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Return whether a value can be iterated over."""
    try:
        iter(value)  # type: ignore[call-overload]  # a zero-dimensional array has __iter__ and fails here
    except TypeError:
        return False
    return True


def parameter_error(name: str, rule: str, value: object) -> ParameterError:
    """Return the error for a parameter that breaks its rule."""
    return ParameterError(f"{name} must be {rule}, got {short_repr(value)}")


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Check that a parameter is one of several names."""
    if not isinstance(value, str) or value not in choices:
        raise parameter_error(name, f"one of {', '.join(choices)}", value)
    return as_str(value)


def check_int(name: str, value: object, least: int, most: int) -> int:
    """Check that a parameter is an int in a range."""
    if not is_int(value) or not least <= value <= most:
        raise parameter_error(name, f"an int in {least}..{most}", value)
    return int(value)


def check_switch(name: str, value: object) -> None:
    """Check that a parameter is True or False."""
    if not isinstance(value, bool):
        raise parameter_error(name, "True or False", value)


def check_callable(name: str, value: object) -> None:
    """Check that a parameter is a callable or None."""
    if not (value is None or callable(value)):
        raise parameter_error(name, "a callable or None", value)


def check_path(name: str, value: object) -> Path:
    """Check that a parameter can name a file."""
    path = as_str(value) if isinstance(value, str) else value
    if not isinstance(path, str | Path) or not str(path).strip() or "\0" in str(path) or not _is_encodable(path):
        raise parameter_error(name, "a str or a Path that can name a file", value)
    return Path(path)


def _is_encodable(path: str | Path) -> bool:
    """Return whether the file system can have a name; surrogates stand there for bytes that are not UTF-8 alone."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def check_parameter(name: str, value: object, rule: str, holds: bool) -> None:
    """Check that a parameter is a finite number that satisfies its rule."""
    if not (is_number(value) and holds and abs(comparable(value)) <= sys.float_info.max):
        raise parameter_error(name, rule, value)


@contextmanager
def require_extra(hint: str) -> Iterator[None]:
    """Raise MissingExtraError if an import in the body of a ``with`` statement fails; `hint` begins the message."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"{hint} ({error})") from error


def comparable(value: object) -> float:
    """Return a number unchanged, and NaN, which fails every comparison, for anything else."""
    return value if isinstance(value, int | float) else math.nan
