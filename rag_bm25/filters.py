"""Filters over chunk metadata, as a small tree that every store can translate.

A user writes a mapping or a Milvus expression; :func:`parse_filter` turns either into a :data:`Filter`.

=============================================  =====================================================
``{"source": "law.txt"}``                      equal; the same as ``{"source": {"$eq": "law.txt"}}``
``{"page": {"$gte": 3, "$lt": 9}}``            ``$gt``, ``$gte``, ``$lt``, ``$lte``; all must hold
``{"lang": {"$in": ["zh", "en"]}}``            one of; ``$nin`` none of; ``$ne`` another than
``{"author.name": "Li"}``                      a dot steps into a nested object
``{("a.b",): 1}``                              a tuple is a path as it stands, for keys with a dot
``{"note": {"$exists": True}}``                there, and not ``null`` (not on milvus-lite 2.5)
``{"file": {"$like": "law-%"}}``               ``%`` stands for any characters, none included
``{"tags": {"$contains": "draft"}}``           an array with that element
``{"a": 1, "b": 2}``                           both; also ``{"$and": [...]}``, ``{"$or": [...]}``
``{"$not": {"lang": "zh"}}``                   every other chunk
``'metadata["page"] > 3'``                     a Milvus expression, passed on as it is
=============================================  =====================================================

What holds on every engine:

- A comparison with a missing or ``null`` value is false; ``$ne`` and ``$nin`` are true wherever ``$eq`` and
  ``$in`` are false, a missing value included, and ``$not`` is true wherever its argument is false.
- Values of different types never compare: ``{"page": 3}`` does not find ``"3"`` or ``True``. Integers and
  floats are one type.
- Strings are ordered by code point and matched with their case.

What an engine cannot evaluate exactly is a :class:`~rag_bm25.errors.FilterError` that names it: milvus-lite 2.5
negates nothing but ``$eq``, ``$ne``, ``$in`` and ``$nin``; milvus-lite 3 does not negate comparisons of order.
milvus-lite 3 alone takes ``True`` for 1 and ``False`` for 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rag_bm25.errors import FilterError, shown
from rag_bm25.parameters import as_str

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["And", "Comparison", "Expression", "Filter", "Not", "Or", "Scalar", "both", "parse_filter"]

Scalar: TypeAlias = "str | int | float | bool"
"""A value that metadata is compared with."""
Operator: TypeAlias = Literal["==", "!=", ">", ">=", "<", "<=", "in", "not in", "exists", "like", "contains"]

OPERATORS: dict[str, Operator] = {
    "$eq": "==",
    "$ne": "!=",
    "$gt": ">",
    "$gte": ">=",
    "$lt": "<",
    "$lte": "<=",
    "$in": "in",
    "$nin": "not in",
    "$exists": "exists",
    "$like": "like",
    "$contains": "contains",
}
MAX_EXPRESSION = 1_000_000  # characters
MAX_DEPTH = 32  # engines parse recursively, and one of them dies of it
_TOO_DEEP = f"a filter must not be nested more than {MAX_DEPTH} levels deep"


@dataclass(frozen=True)
class Comparison:
    """One condition on one metadata value.

    Parameters
    ----------
    path : tuple of str
        Keys from the top of the metadata down to the value.
    op : str
        ``==``, ``!=``, ``>``, ``>=``, ``<``, ``<=``, ``in``, ``not in``, ``exists``, ``like`` or
        ``contains``.
    value : str, int, float, bool or tuple of these
        What to compare with; a tuple for ``in`` and ``not in``; True for ``exists``.
    """

    path: tuple[str, ...]
    op: Operator
    value: Scalar | tuple[Scalar, ...]


@dataclass(frozen=True)
class And:
    """Every part holds.

    Parameters
    ----------
    parts : tuple of Filter
        At least one.
    """

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Or:
    """At least one part holds.

    Parameters
    ----------
    parts : tuple of Filter
        At least one.
    """

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Not:
    """The part does not hold.

    Parameters
    ----------
    part : Filter
        What must be false.
    """

    part: Filter


@dataclass(frozen=True)
class Expression:
    """A Milvus expression, passed on as it is.

    Parameters
    ----------
    text : str
        The expression; metadata is read as ``metadata["key"]``.
    """

    text: str


Filter: TypeAlias = "Comparison | And | Or | Not | Expression"
"""A filter that has been read."""


def parse_filter(filter: Mapping[Any, Any] | str | Filter | None) -> Filter | None:
    """Read a filter as users write it; see :mod:`rag_bm25.filters` for the forms and what they mean.

    Parameters
    ----------
    filter : mapping, str, Filter or None
        Conditions on metadata, a Milvus expression, or None or ``{}`` for no filter; also what this function returns.

    Returns
    -------
    Filter or None
        The tree, or None where every chunk passes.

    Raises
    ------
    FilterError
        If an operator is unknown or a value does not suit its operator.

    Examples
    --------
    >>> parse_filter({"page": {"$gte": 3}})
    Comparison(path=('page',), op='>=', value=3)
    >>> parse_filter({"author.name": "Li", "$not": {"lang": "zh"}})
    And(parts=(Comparison(path=('author', 'name'), op='==', value='Li'),
               Not(part=Comparison(path=('lang',), op='==', value='zh'))))
    >>> parse_filter({"page": {"$above": 3}})
    Traceback (most recent call last):
    rag_bm25.errors.FilterError: unknown operator '$above' at 'page', known are $eq, $ne, $gt, ...
    """
    if filter is None:
        return None
    if isinstance(filter, Comparison | And | Or | Not | Expression):
        return _tree(filter, 2 * MAX_DEPTH)  # two of them may have been joined
    if isinstance(filter, str):
        return _expression(filter)
    if not isinstance(filter, Mapping):
        msg = f"a filter must be a mapping, a Milvus expression or None, got {type(filter).__name__}"
        raise FilterError(msg)
    return _mapping(filter, MAX_DEPTH) if filter else None


def both(first: Filter | None, second: Filter | None) -> Filter | None:
    """Join two filters.

    Parameters
    ----------
    first, second : Filter or None
        As returned by :func:`parse_filter`.

    Returns
    -------
    Filter or None
        One that passes what both of them pass.

    Examples
    --------
    >>> both(None, parse_filter({"page": 3}))
    Comparison(path=('page',), op='==', value=3)
    """
    return And((first, second)) if first is not None and second is not None else first or second


def _tree(filter: object, depth: int) -> Filter:
    """Check a tree, which may have been made by hand."""
    if depth == 0:
        raise FilterError(_TOO_DEEP)
    if isinstance(filter, Comparison):
        path = _path(filter.path)
        op = _operator(path, filter.op)
        return _compared(path, op, filter.value, f"{op} at {_dotted(path)}")
    if isinstance(filter, Expression):
        return _expression(filter.text)
    if isinstance(filter, Not):
        return Not(_tree(filter.part, depth - 1))
    if isinstance(filter, And | Or) and isinstance(filter.parts, tuple) and filter.parts:
        return type(filter)(tuple(_tree(part, depth - 1) for part in filter.parts))
    msg = f"a part of a filter must be a Comparison, And, Or, Not or Expression with its parts, got {shown(filter)}"
    raise FilterError(msg)


def _operator(path: tuple[str, ...], op: object) -> Operator:
    """Check the operator of a comparison that may have been made by hand."""
    for known in OPERATORS.values():
        if isinstance(op, str) and op == known:
            return known
    msg = f"the operator at {_dotted(path)} must be one of {', '.join(OPERATORS.values())}, got {shown(op)}"
    raise FilterError(msg)


def _expression(text: object) -> Expression:
    """Check what can be checked without an engine."""
    if not isinstance(text, str) or not text.strip():
        msg = "a filter expression must not be blank; for no filter pass None"
        raise FilterError(msg)
    if len(text) > MAX_EXPRESSION:
        msg = f"a filter expression must have at most {MAX_EXPRESSION:,} characters, got {len(text):,}"
        raise FilterError(msg)
    _check_encodable(text, "the filter expression")
    return Expression(as_str(text))


def _mapping(filter: object, depth: int) -> Filter:
    """Read one mapping; all its entries must hold."""
    if not isinstance(filter, Mapping) or not filter:
        msg = f"a filter inside $and, $or and $not must be a non-empty mapping, got {shown(filter)}"
        raise FilterError(msg)
    if depth == 0:
        raise FilterError(_TOO_DEEP)
    return _all([_entry(key, value, depth - 1) for key, value in filter.items()])


def _all(parts: list[Filter]) -> Filter:
    """Join parts that must all hold, without an And around a single one."""
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _entry(key: object, value: object, depth: int) -> Filter:
    """Read one entry of a mapping: a logical operator or a metadata key."""
    if key == "$not":
        return Not(_mapping(value, depth))
    if key in ("$and", "$or"):
        parts = tuple(_mapping(part, depth) for part in _list(value, str(key)))
        return And(parts) if key == "$and" else Or(parts)
    return _conditions(_path(key), value)


def _list(value: object, name: str) -> list[Any]:
    """Return the members of a logical operator, at least one."""
    if not isinstance(value, (list, tuple)) or not value:
        msg = f"{name} needs a non-empty list of filters, got {shown(value)}"
        raise FilterError(msg)
    return list(value)


def _path(key: object) -> tuple[str, ...]:
    """Split a dotted key; a tuple is a path already."""
    steps = tuple(key.split(".")) if isinstance(key, str) else key
    if not isinstance(steps, tuple) or not steps or not all(isinstance(step, str) and step for step in steps):
        msg = f"a filter key must be a string, dotted for nested values, or a tuple of strings, got {shown(key)}"
        raise FilterError(msg)
    path = tuple(map(as_str, steps))
    if path[0].startswith("$") and isinstance(key, str):
        msg = f"unknown operator {shown(key)}, known here are $and, $or, $not"
        raise FilterError(msg)
    for step in path:
        _check_encodable(step, f"the filter key {shown(key)}")
    return path


def _conditions(path: tuple[str, ...], value: object) -> Filter:
    """Read the value of a key: a plain value, or operators with their values."""
    if not isinstance(value, Mapping):
        return _comparison(path, "$eq", value)
    if not value:
        msg = f"the filter at {_dotted(path)} must name an operator or a value, got {{}}"
        raise FilterError(msg)
    return _all([_comparison(path, operator, operand) for operator, operand in value.items()])


def _comparison(path: tuple[str, ...], operator: object, value: object) -> Filter:
    """Read one operator and its value."""
    name = as_str(operator) if isinstance(operator, str) else ""
    op = OPERATORS.get(name)
    if op is None:
        raise FilterError(_unknown(path, operator))
    return _compared(path, op, value, f"{name} at {_dotted(path)}")


def _compared(path: tuple[str, ...], op: Operator, value: object, where: str) -> Filter:
    """Check the value of a comparison."""
    checked = READERS.get(op, _scalar)(value, where)
    if op == "exists":
        there = Comparison(path, op="exists", value=True)
        return there if checked else Not(there)
    return Comparison(path, op, checked)


def _unknown(path: tuple[str, ...], operator: object) -> str:
    """Say which operators there are, or how to reach a nested value."""
    if isinstance(operator, str) and not operator.startswith("$"):
        return f"a nested value is reached by a dotted key: write {shown('.'.join((*path, operator)))}"
    return f"unknown operator {shown(operator)} at {_dotted(path)}, known are {', '.join(OPERATORS)}"


def _scalar(value: object, where: str) -> Scalar:
    """Check a value that engines can compare exactly."""
    if isinstance(value, str):
        _check_encodable(value, where)
        return as_str(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _integer(value, where)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    hint = "; for a missing value use $exists" if value is None else ""
    hint = "; for one of several values use $in" if isinstance(value, list | tuple | set | frozenset) else hint
    hint = "; call its item() or tolist() first" if type(value).__module__ == "numpy" else hint
    msg = f"{where} needs a string, a finite number or a bool, got {shown(value)}{hint}"
    raise FilterError(msg)


def _integer(value: int, where: str) -> int:
    """Check that an integer fits what engines store."""
    if abs(value) >= 2**63:
        msg = f"{where} needs an integer between -2**63 and 2**63, got {shown(value)}"
        raise FilterError(msg)
    return int(value)


def _ordered(value: object, where: str) -> Scalar:
    """Check a value that has an order."""
    if isinstance(value, bool):
        msg = f"{where} needs a string or a finite number, got {shown(value)}"
        raise FilterError(msg)
    return _scalar(value, where)


def _scalars(value: object, where: str) -> tuple[Scalar, ...]:
    """Check a list of values."""
    if not isinstance(value, (list, tuple, set, frozenset)):
        msg = f"{where} needs a list of values, got {shown(value)}"
        raise FilterError(msg)
    return tuple(_scalar(member, where) for member in value)


def _bool(value: object, where: str) -> bool:
    """Check a yes or no."""
    if not isinstance(value, bool):
        msg = f"{where} needs True or False, got {shown(value)}"
        raise FilterError(msg)
    return value


def _pattern(value: object, where: str) -> str:
    """Check a pattern; engines agree on ``%`` alone."""
    if not isinstance(value, str) or "_" in value or "\\" in value:
        msg = f"{where} needs a string with % as its only wildcard, without _ and backslash, got {shown(value)}"
        raise FilterError(msg)
    _check_encodable(value, where)
    return as_str(value)


READERS: dict[Operator, Callable[[object, str], Scalar | tuple[Scalar, ...]]] = {
    ">": _ordered,
    ">=": _ordered,
    "<": _ordered,
    "<=": _ordered,
    "in": _scalars,
    "not in": _scalars,
    "exists": _bool,
    "like": _pattern,
}


def _check_encodable(text: str, where: str) -> None:
    """Refuse what cannot travel as UTF-8, and NUL, which ends strings in engines."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        msg = f"{where} has a lone surrogate at position {error.start}"
        raise FilterError(msg) from None
    if "\0" in text:
        msg = f"{where} has a NUL character at position {text.index(chr(0))}"
        raise FilterError(msg)


def _dotted(path: tuple[str, ...]) -> str:
    """Show a path the way users write it."""
    return shown(".".join(path))
