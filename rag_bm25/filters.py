"""Filters on the metadata and the ids of chunks: a small tree that every store translates.

Users write a mapping; :func:`parse_filter` parses it into a :data:`Filter`.

=============================================  =====================================================
``{"source": "law.txt"}``                      equal; the same as ``{"source": {"$eq": "law.txt"}}``
``{"page": {"$gte": 3, "$lt": 9}}``            ``$gt``, ``$gte``, ``$lt``, ``$lte``; all must hold
``{"lang": {"$in": ["zh", "en"]}}``            one of; ``$nin``: none of; ``$ne``: not equal
``{"author.name": "Li"}``                      a dot steps into a nested object
``{("a.b",): 1}``                              a tuple is a literal path, for keys with a dot
``{"note": {"$exists": True}}``                present and not ``null`` (not on milvus-lite 2.5)
``{"file": {"$like": "law-%"}}``               ``%`` matches any number of characters, also none
``{"tags": {"$contains": "draft"}}``           an array that contains the element
``{"$id": {"$in": ["a", "b"]}}``               chunks by their ids
``{"a": 1, "b": 2}``                           both; also ``{"$and": [...]}``, ``{"$or": [...]}``
``{"$not": {"lang": "zh"}}``                   all other chunks
=============================================  =====================================================

On every engine:

- A comparison with a missing or ``null`` value is false. ``$ne`` and ``$nin`` are true wherever ``$eq`` and ``$in`` are
  false, also for a missing value; ``$not`` is true wherever its argument is false.
- Values of different types are never equal: ``{"page": 3}`` does not match ``"3"`` or ``True``. Integers and floats are
  one type.
- Strings are ordered by code point. Matching is case-sensitive.
- ``$id`` is the id of the chunk, a string: it takes all operators but ``$exists`` and ``$contains``. A metadata key of
  that name is reached by a tuple: ``{("$id",): 1}``.

A condition that an engine cannot evaluate exactly is a :class:`~rag_bm25.errors.FilterError` that names it:

- milvus-lite 2.5 negates only ``$eq``, ``$ne``, ``$in`` and ``$nin``; milvus-lite 3 does not negate comparisons of
  order. Of ids, both negate all conditions, except that milvus-lite 2.5 does not negate ``$like``.
- A Milvus server and milvus-lite 2.5 take whole numbers within a path, as in ``"p.0"``, for places in lists, too.
- A Milvus server cannot read a key that begins with a digit, unless the whole key is a number; nor more than 5,000
  operators. A condition has one or two, but some twelve where it is negated, and a list of ``$in`` has none.

What no expression can say to an engine, it answers differently, without an error:

- milvus-lite 3 treats ``True`` as 1 and ``False`` as 0.
- Milvus 2.6.20 and later, and 3.0: ``$ne``, ``$nin`` and ``$not`` leave out chunks whose value there is an object, such
  as ``{"b": 1}``.
- Milvus 2.6.2 and later: to ``$exists``, ``{}``, ``[]`` and what holds nothing but ``null`` are missing.
- All Milvus engines may take an integer beyond 2**53 for the float next to it.

No filter is known to end a server, unless its operator has added an index: with an NGRAM index on the metadata, 2.6
ends at a ``$like`` of a single Chinese character (milvus#53661).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from rag_bm25.checks import as_str, find_bad_character
from rag_bm25.definitions import Conditions
from rag_bm25.errors import FilterError, short_repr

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["parse_filter"]

FilterMapping: TypeAlias = Annotated[Mapping[str, Any], Conditions()]
"""A filter as an option."""
Scalar: TypeAlias = "str | int | float | bool"
"""An operand of a comparison."""
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
ID_OPERATORS = [name for name in OPERATORS if name not in ("$exists", "$contains")]
OPPOSITES: dict[Operator, Operator] = {"!=": "==", "not in": "in"}
MAX_DEPTH = 32  # engines parse recursively; one of them crashes on deep nesting
ID: tuple[str, ...] = ()
"""The path of what is no metadata: the id of the chunk."""
EXAMPLE = '{"page": {"$gte": 3}}'
_TOO_DEEP = f"a filter must not be nested more than {MAX_DEPTH} levels deep"


@dataclass(frozen=True)
class Comparison:
    """One condition on one metadata value, or on the id."""

    path: tuple[str, ...]  # keys from the root of the metadata to the value, or ID
    op: Operator
    value: Scalar | tuple[Scalar, ...]  # a tuple for ``in`` and ``not in``, True for ``exists``


@dataclass(frozen=True)
class And:
    """Conjunction: all parts are true."""

    parts: tuple[Filter, ...]  # at least one


@dataclass(frozen=True)
class Or:
    """Disjunction: at least one part is true."""

    parts: tuple[Filter, ...]  # at least one


@dataclass(frozen=True)
class Not:
    """Negation: the part is false."""

    part: Filter


Filter: TypeAlias = "Comparison | And | Or | Not"
"""A parsed filter."""


def parse_filter(filter: Mapping[Any, Any] | Filter | None) -> Filter | None:
    """Parse a filter; see :mod:`rag_bm25.filters` for the syntax.

    Parameters
    ----------
    filter : mapping, Filter or None
        Conditions on metadata and ids, or a tree; None or ``{}`` for no filter.

    Returns
    -------
    Filter or None
        The tree; None if every chunk passes.

    Raises
    ------
    FilterError
        The filter is no mapping, an operator is unknown, or an operand is not valid for its operator.

    Examples
    --------
    >>> parse_filter({"author.name": "Li", "$not": {"page": {"$gte": 3}}})
    And(parts=(Comparison(path=('author', 'name'), op='==', value='Li'),
               Not(part=Comparison(path=('page',), op='>=', value=3))))
    >>> parse_filter({"page": {"$above": 3}})
    Traceback (most recent call last):
    rag_bm25.errors.FilterError: unknown operator '$above' at 'page', known are $eq, $ne, $gt, ...
    """
    if filter is None:
        return None
    if isinstance(filter, Comparison | And | Or | Not):
        return _check_tree(filter, 2 * MAX_DEPTH)  # `conjoin` may have joined two of them
    if not isinstance(filter, Mapping):
        raise FilterError(
            f"a filter must be a mapping, such as {EXAMPLE}, and no Milvus expression; the command line "
            f"and query strings take key=value, too; got {short_repr(filter)}"
        )
    return _read_mapping(filter, MAX_DEPTH) if filter else None


def conjoin(first: Filter | None, second: Filter | None) -> Filter | None:
    """Join two filters into their conjunction; None if both are None.

    >>> conjoin(None, parse_filter({"page": 3}))
    Comparison(path=('page',), op='==', value=3)
    """
    return And((first, second)) if first is not None and second is not None else first or second


def _check_tree(filter: object, depth: int) -> Filter:
    """Check a tree that a user may have constructed."""
    if depth == 0:
        raise FilterError(_TOO_DEEP)
    if isinstance(filter, Comparison):
        path = filter.path if filter.path == ID else _read_path(filter.path)
        op = _check_operator(path, filter.op)
        return _make_comparison(path, op, filter.value, f"{op} at {_join_path(path)}")
    if isinstance(filter, Not):
        return Not(_check_tree(filter.part, depth - 1))
    if isinstance(filter, And | Or) and isinstance(filter.parts, tuple) and filter.parts:
        return type(filter)(tuple(_check_tree(part, depth - 1) for part in filter.parts))
    msg = f"a part of a filter must be a Comparison, And, Or or Not with its parts, got {short_repr(filter)}"
    raise FilterError(msg)


def _check_operator(path: tuple[str, ...], op: object) -> Operator:
    """Check the operator of a comparison that a user may have constructed."""
    for known in OPERATORS.values():
        if isinstance(op, str) and op == known:
            return known
    msg = f"the operator at {_join_path(path)} must be one of {', '.join(OPERATORS.values())}, got {short_repr(op)}"
    raise FilterError(msg)


def _read_mapping(filter: object, depth: int) -> Filter:
    """Read a mapping; it is the conjunction of its entries."""
    if not isinstance(filter, Mapping) or not filter:
        raise FilterError(f"a filter inside $and, $or and $not must be a non-empty mapping, got {short_repr(filter)}")
    if depth == 0:
        raise FilterError(_TOO_DEEP)
    return _join([_read_entry(key, value, depth - 1) for key, value in filter.items()])


def _join(parts: list[Filter]) -> Filter:
    """Join parts into a conjunction; a single part needs none."""
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _read_entry(key: object, value: object, depth: int) -> Filter:
    """Read one entry of a mapping: a logical operator or a metadata key."""
    if key == "$not":
        return Not(_read_mapping(value, depth))
    if key in ("$and", "$or"):
        parts = tuple(_read_mapping(part, depth) for part in _check_members(value, str(key)))
        return And(parts) if key == "$and" else Or(parts)
    return _read_conditions(_read_path(key), value)


def _check_members(value: object, name: str) -> list[Any]:
    if not isinstance(value, (list, tuple)) or not value:
        raise _operand_error(name, "a non-empty list of filters", value)
    return list(value)


def _read_path(key: object) -> tuple[str, ...]:
    """Split a dotted key into a path; a tuple is a path already."""
    if key == "$id":
        return ID
    steps = tuple(key.split(".")) if isinstance(key, str) else key
    if not isinstance(steps, tuple) or not steps or not all(isinstance(step, str) and step for step in steps):
        msg = f"a filter key must be a string, dotted for nested values, or a tuple of strings, got {short_repr(key)}"
        raise FilterError(msg)
    path = tuple(map(as_str, steps))
    if path[0].startswith("$") and isinstance(key, str):
        raise FilterError(f"unknown operator {short_repr(key)}, known here are $and, $or, $not, $id")
    for step in path:
        _check_characters(step, f"the filter key {short_repr(key)}")
    return path


def _read_conditions(path: tuple[str, ...], value: object) -> Filter:
    """Read the value of a key: a plain value, or operators with their values."""
    if not isinstance(value, Mapping):
        return _read_comparison(path, "$eq", value)
    if not value:
        raise FilterError(f"the filter at {_join_path(path)} must name an operator or a value, got {{}}")
    return _join([_read_comparison(path, operator, operand) for operator, operand in value.items()])


def _read_comparison(path: tuple[str, ...], operator: object, value: object) -> Filter:
    name = as_str(operator) if isinstance(operator, str) else ""
    op = OPERATORS.get(name)
    if op is None:
        raise FilterError(_unknown_operator(path, operator))
    return _make_comparison(path, op, value, f"{name} at {_join_path(path)}")


def _make_comparison(path: tuple[str, ...], op: Operator, value: object, where: str) -> Filter:
    """Check the operand, and make the comparison."""
    operand = OPERAND_CHECKS.get(op, _check_scalar)(value, where)
    if path == ID:
        _check_id_operand(op, operand, where)
    if op == "exists":
        exists = Comparison(path, op="exists", value=True)
        return exists if operand else Not(exists)
    return Comparison(path, op, operand)


def _check_id_operand(op: Operator, operand: Scalar | tuple[Scalar, ...], where: str) -> None:
    """Refuse what cannot tell ids apart: each chunk has one, and it is a string."""
    if op in ("exists", "contains"):
        raise FilterError(f"{where} tells no ids apart, each is a string; known here are {', '.join(ID_OPERATORS)}")
    for one in operand if isinstance(operand, tuple) else (operand,):
        if not isinstance(one, str):
            raise _operand_error(where, f'the ids as strings, such as "{one}"', one)


def _unknown_operator(path: tuple[str, ...], operator: object) -> str:
    """Describe an unknown operator, which may be meant as the key of a nested value."""
    if isinstance(operator, str) and f"${operator}" in OPERATORS:
        nested = short_repr(".".join((*path, operator)))
        return f"the operator at {_join_path(path)} is written '${operator}' (for a nested value, write {nested})"
    if isinstance(operator, str) and not operator.startswith("$"):
        return f"a nested value is reached by a dotted key: write {short_repr('.'.join((*path, operator)))}"
    return f"unknown operator {short_repr(operator)} at {_join_path(path)}, known are {', '.join(OPERATORS)}"


def _operand_error(where: str, need: str, value: object) -> FilterError:
    return FilterError(f"{where} needs {need}, got {short_repr(value)}")


def _check_scalar(value: object, where: str) -> Scalar:
    """Check an operand that engines can compare exactly."""
    if isinstance(value, str):
        _check_characters(value, where)
        return as_str(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) >= 2**63:
            raise _operand_error(where, "an integer between -2**63 and 2**63", value)
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    hint = "; for a missing value use $exists, which milvus-lite 2.5 lacks" if value is None else ""
    hint = "; for one of several values use $in" if isinstance(value, list | tuple | set | frozenset) else hint
    hint = "; call its item() or tolist() first" if type(value).__module__ == "numpy" else hint
    raise FilterError(f"{where} needs a string, a finite number or a bool, got {short_repr(value)}{hint}")


def _check_ordered(value: object, where: str) -> Scalar:
    if isinstance(value, bool):
        raise _operand_error(where, "a string or a finite number", value)
    return _check_scalar(value, where)


def _check_scalars(value: object, where: str) -> tuple[Scalar, ...]:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise _operand_error(where, "a list of values", value)
    return tuple(_check_scalar(member, where) for member in value)


def _check_bool(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise _operand_error(where, "True or False", value)
    return value


def _check_pattern(value: object, where: str) -> str:
    """Check a pattern; ``%`` is the only wildcard that all engines have."""
    if not isinstance(value, str) or "_" in value or "\\" in value:
        raise _operand_error(where, "a string with % as its only wildcard, without _ and backslash", value)
    _check_characters(value, where)
    return as_str(value)


OPERAND_CHECKS: dict[Operator, Callable[[object, str], Scalar | tuple[Scalar, ...]]] = {
    ">": _check_ordered,
    ">=": _check_ordered,
    "<": _check_ordered,
    "<=": _check_ordered,
    "in": _check_scalars,
    "not in": _check_scalars,
    "exists": _check_bool,
    "like": _check_pattern,
}


def _check_characters(text: str, where: str) -> None:
    if fault := find_bad_character(text):
        raise FilterError(f"{where} has {fault}")


def _join_path(path: tuple[str, ...]) -> str:
    return short_repr(path_name(path))


def path_name(path: tuple[str, ...]) -> str:
    """Write a path as a key of a mapping."""
    return ".".join(path) if path != ID else "$id"
