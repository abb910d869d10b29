"""Write filter trees as Milvus expressions, in the dialect of each engine.

Every dialect gives a condition the meaning that :mod:`rag_bm25.filters` defines, or refuses it with a ``FilterError``
that names the engine. Negations are pushed down to single conditions, because one engine has no working ``not`` and
others have three-valued logic. All versions of a Milvus server get the same text: the number of a version does not tell
its logic, which hotfixes and managed services have changed, too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rag_bm25.checks import is_int, kind_of
from rag_bm25.errors import FilterError, short_repr
from rag_bm25.filters import ID, OPPOSITES, And, Comparison, Not, Or, path_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from rag_bm25.filters import Filter, Operator, Scalar
    from rag_bm25.store.rows import KeyRange, Scope

NOTHING = 'pk == ""'
EVERYTHING = 'pk != ""'
MAX_LENGTH = 1_000_000
MAX_OPERATORS = 5000
EXACT_FLOAT = 2**53
PLACE = re.compile("0|[1-9][0-9]*")
TYPES = {  # by kind, what is true for its values, and false or unknown for all others
    "number": "{0} >= 0 or {0} < 0",
    "str": '{0} >= ""',
    "bool": "not (not ({0} in [true, false]))",  # apart from other lists
    "list": "array_length({0}) != 0",
}
NEGATED: dict[Operator, Operator] = {"==": "!=", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}  # of ids
STRING = r'"(?:[^"\\]|\\.)*"'
OPERATOR = r"\b(?:and|or|not|exists)\b|[=!<>]=|[-<>]"
FAR = r"[\U00010000-\U0010ffff]"
FAR_HAN = r"[\U00016fe0-\U00016fff\U00020000-\U0003ffff]"


class Dialect:
    """Expressions for a Milvus server, 2.5 and later."""

    engine = "Milvus"
    counts_in_lists: ClassVar[bool] = True  # digits in a path are a key or a place in a list, whichever is there
    rewrites: ClassVar[bool] = True
    escapes: ClassVar[dict[int, str]] = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})

    def quote(self, text: str) -> str:
        """Write a string literal."""
        return f'"{self.escape(text)}"'

    def escape(self, text: str) -> str:
        """Write the inside of a string; Milvus cuts ideographs beyond U+FFFF to 16 bits, unless they are escaped."""
        return re.sub(FAR, lambda char: f"\\U{ord(char[0]):08x}", text.translate(self.escapes))

    def key(self, step: str) -> str:
        """Write a key of a path; Milvus divides it at ``][``, and decodes escapes of 16 bits there, but no others."""
        if re.match("[0-9]+[^0-9]", step):  # from 2.6.20 on, sealed segments read the digits as a place in a list
            msg = f"{self.engine} cannot read a key that begins with a digit; rename the key {short_repr(step)}"
            raise FilterError(msg)
        if "][" in step:
            raise FilterError(f"{self.engine} cannot read a key with ']['; rename the key {short_repr(step)}")
        # An escape leaves all ideographs of an expression as they are, and a key has none for those beyond U+FFFF.
        special = f"(?!{FAR})." if re.search(FAR_HAN, step) else r'["\\\x00-\x1f]'
        written, escapes = re.subn(special, lambda char: f"\\u{ord(char[0]):04x}", step, flags=re.DOTALL)
        if not escapes and re.search(FAR_HAN, step):
            msg = f"{self.engine} cannot read a key of nothing but rare ideographs; rename the key {short_repr(step)}"
            raise FilterError(msg)
        return f'"{written}"'

    def path(self, path: Sequence[str]) -> str:
        if self.counts_in_lists and (place := next(filter(PLACE.fullmatch, path[1:]), None)):
            msg = f"{self.engine} reads a key of digits also as a place in a list; rename {place} in {'.'.join(path)!r}"
            raise FilterError(msg)
        return "metadata" + "".join(f"[{self.key(step)}]" for step in path)

    def literal(self, value: Scalar) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        return self.quote(value) if isinstance(value, str) else repr(value)

    def any_of(self, field: str, values: Sequence[str]) -> str:
        """Restrict one of our own string fields."""
        return f"{field} in [{', '.join(map(self.quote, values))}]" if values else NOTHING

    def in_ranges(self, field: str, ranges: Sequence[KeyRange]) -> str:
        """Restrict a primary key to ranges without their ends."""
        parts = [f"({field} > {self.quote(low)} and {field} < {self.quote(high)})" for low, high in ranges]
        return " or ".join(parts) or f'{field} == ""'

    def of_ids(self, comparison: Comparison, *, negated: bool) -> str:
        """Write a condition on the column of ids, or its opposite: no id is missing, and each is a string."""
        op, value = comparison.op, comparison.value
        if op == "in":
            lists = self.lists("id", "not in" if negated else "in", _scalars(value))
            return lists[0] if lists else EVERYTHING if negated else NOTHING
        if op == "like":
            written = self.like("id", str(value))
            return f"not ({written})" if negated else written
        return f"id {NEGATED[op] if negated else op} {self.literal(_scalar(value))}"

    def condition(self, comparison: Comparison) -> str:
        """Write a condition that is true where it holds, and only there."""
        path, value = self.path(comparison.path), comparison.value
        if comparison.op == "in":
            return self.members(path, _scalars(value))
        if comparison.op == "exists":
            return f"exists {path}"
        if comparison.op == "like":
            return self.like(path, str(value))
        if comparison.op == "contains":
            return f"json_contains({path}, {self.literal(_as_float(_scalar(value)))})"
        return f"{path} {comparison.op} {self.literal(_scalar(value))}"

    def negation(self, comparison: Comparison) -> str:
        """Write the opposite of a condition: true also for missing values, null and other types.

        From 2.6.20 on, a comparison with a value of another type is neither true nor false, and its opposite as well:
        what is true for each other type is added. Nothing is true for objects and not for all that exists.
        """
        path = self.path(comparison.path)
        if comparison.op == "exists":
            return f"not (exists {path})"
        if comparison.value == ():
            return EVERYTHING
        opposites = [f"not (exists {path})", f"not ({self.condition(comparison)})"]
        return _join([*opposites, *self.other_types(path, _by_kind(comparison))], "or")

    def other_types(self, path: str, operands: dict[str, list[Scalar]]) -> list[str]:
        """Match all values of each type, except the operands where there are such of several types."""
        tests = {kind: test.format(path) for kind, test in TYPES.items() if kind not in operands}
        if len(operands) > 1:
            for kind, values in operands.items():
                tests[kind] = f"({TYPES[kind].format(path)}) and not ({self.members(path, values)})"
        return list(tests.values())

    def apart(self, condition: str) -> str:
        """Keep a condition apart from others of its path: 2.6 unites them, whatever their types (#51567, #46588)."""
        return f"not (not ({condition}))" if self.rewrites else condition

    def like(self, path: str, pattern: str) -> str:
        """Match a pattern; servers take an empty one for a prefix, which all strings have."""
        return f"{path} like {self.quote(pattern)}" if pattern else f'{path} == ""'

    def members(self, path: str, values: Sequence[Scalar]) -> str:
        """Match any of `values`."""
        lists = self.lists(path, "in", values)
        return _join(lists if len(lists) < 2 else [*map(self.apart, lists)], "or") or NOTHING

    def lists(self, path: str, operator: str, values: Sequence[Scalar]) -> list[str]:
        """Write a condition for the values of each type: engines take one type in a list."""
        groups: dict[type, list[str]] = {}
        for value in values:
            groups.setdefault(type(value), []).append(self.literal(value))
        return [f"{path} {operator} [{', '.join(group)}]" for group in groups.values()]

    def refuse(self, comparison: Comparison, *, negated: bool) -> FilterError:
        operator = f"not {comparison.op}" if negated else comparison.op
        msg = f"{self.engine} cannot evaluate {operator!r} at {path_name(comparison.path)!r} exactly"
        return FilterError(msg)


class Lite2Dialect(Dialect):
    """Expressions for milvus-lite 2.5.1, whose parser guesses at mistakes and sometimes dies of them."""

    engine = "milvus-lite 2.5"
    rewrites = False
    # Its unquoting drops a backslash and keeps what follows: a newline is written as backslash and newline.
    escapes: ClassVar[dict[int, str]] = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\\n"})

    def escape(self, text: str) -> str:
        return text.translate(self.escapes)

    def quote(self, text: str) -> str:
        """Write a string literal; a lone carriage return cannot be written at all."""
        if re.search(r"\r(?!\n)", text):
            raise FilterError(f"{self.engine} cannot compare with a carriage return, got {text!r}")
        return super().quote(text).replace("\r\\\n", "\\\r\n")

    def key(self, step: str) -> str:
        """Write a key of a path; the engine reads it as JSON, unlike other strings."""
        return json.dumps(step, ensure_ascii=False)

    def of_ids(self, comparison: Comparison, *, negated: bool) -> str:
        """Write a condition on the ids; the engine's ``not`` is broken."""
        if negated and comparison.op == "like":
            raise self.refuse(comparison, negated=True)
        return super().of_ids(comparison, negated=negated)

    def condition(self, comparison: Comparison) -> str:
        """Write a condition; ``exists`` is not implemented in the engine."""
        if comparison.op == "exists":
            raise self.refuse(comparison, negated=False)
        return super().condition(comparison)

    def like(self, path: str, pattern: str) -> str:
        """Match a pattern; those of wildcards alone would match nothing."""
        return super().like(path, pattern) if pattern.strip("%") or not pattern else f'{path} >= ""'

    def negation(self, comparison: Comparison) -> str:
        """Write the opposite: ``!=`` and ``not in`` are right."""
        path = self.path(comparison.path)
        if comparison.op == "==":
            return f"{path} != {self.literal(_scalar(comparison.value))}"
        if comparison.op == "in":
            return _join(self.lists(path, "not in", _scalars(comparison.value)), "and") or EVERYTHING
        raise self.refuse(comparison, negated=True)


class Lite3Dialect(Dialect):
    """Expressions for milvus-lite 3, whose logic has a third value, for missing values and mixed types."""

    engine = "milvus-lite 3"
    counts_in_lists = False
    rewrites = False

    def escape(self, text: str) -> str:
        return text.translate(self.escapes)

    def key(self, step: str) -> str:
        return self.quote(step)

    def members(self, path: str, values: Sequence[Scalar]) -> str:
        """Match any of `values`; ``in`` takes no paths."""
        return _join([f"{path} == {self.literal(value)}" for value in values], "or") or NOTHING

    def condition(self, comparison: Comparison) -> str:
        """Write a condition; a string that holds a JSON array is not an array."""
        written = super().condition(comparison)
        if comparison.op == "contains":
            return f'{written} and not ({self.path(comparison.path)} like "%")'
        return written

    def negation(self, comparison: Comparison) -> str:
        """Write the opposite; comparing an order over mixed types is neither true nor false."""
        path = self.path(comparison.path)
        if comparison.op in (">", ">=", "<", "<="):
            raise self.refuse(comparison, negated=True)
        if comparison.op == "exists":
            return f"{path} is null"
        return f"{path} is null or not ({self.condition(comparison)})"


def where_clause(dialect: Dialect, scope: Scope) -> str:
    """Write the filter of a call; "" if every row passes."""
    parts = [] if scope.where is None else [_Writer(dialect, _mixed(scope.where)).write(scope.where)]
    if scope.namespaces is not None:
        parts.append(dialect.any_of("namespace", scope.namespaces))
    if scope.longer_than is not None:
        parts.append(f"length > {scope.longer_than}")
    if scope.having:
        parts.append(f"text like {dialect.quote(f'%{scope.having}%')}")
    if scope.after:
        parts.append(f"pk > {dialect.quote(scope.after)}")
    clause = _join(parts, "and")
    if len(clause) > MAX_LENGTH:
        msg = f"a filter must not exceed {MAX_LENGTH} characters when written for Milvus, got {len(clause)}"
        raise FilterError(msg)
    if dialect.rewrites and (count := _count_operators(clause)) > MAX_OPERATORS:
        # 2.6 makes a chain of each tree, and as many calls of a function within another as it has parts (#53623).
        msg = f"a filter must not exceed {MAX_OPERATORS:,} operators when written for Milvus, got {count:,}: use $in"
        raise FilterError(msg)
    return clause


@dataclass(frozen=True)
class _Writer:
    """Writes trees; conditions on the paths of `mixed` are kept apart, since their operands are of several types."""

    dialect: Dialect
    mixed: AbstractSet[tuple[str, ...]]

    def write(self, node: Filter, *, negated: bool = False) -> str:
        if isinstance(node, Not):
            return self.write(node.part, negated=not negated)
        if isinstance(node, (And, Or)):
            parts = [self.write(part, negated=negated) for part in node.parts]
            return _join(parts, "and" if isinstance(node, And) != negated else "or")
        return self.comparison(node, negated=negated)

    def comparison(self, comparison: Comparison, *, negated: bool) -> str:
        """Write one condition; ``!=`` and ``not in`` are the opposites of ``==`` and ``in``."""
        if comparison.op in OPPOSITES:
            negated = not negated
            comparison = Comparison(comparison.path, OPPOSITES[comparison.op], comparison.value)
        if comparison.path == ID:
            return self.dialect.of_ids(comparison, negated=negated)
        if negated:
            return self.dialect.negation(comparison)
        written = self.dialect.condition(comparison)
        return self.dialect.apart(written) if comparison.path in self.mixed else written


def _mixed(node: Filter) -> set[tuple[str, ...]]:
    """Find the paths that are compared with literals of several types."""
    types: dict[tuple[str, ...], set[type]] = {}
    for comparison in _comparisons(node):
        types.setdefault(comparison.path, set()).update(map(type, _operands(comparison)))
    return {path for path, found in types.items() if len(found) > 1}


def _comparisons(node: Filter) -> Iterator[Comparison]:
    if isinstance(node, Comparison):
        yield node
    else:
        for part in (node.part,) if isinstance(node, Not) else node.parts:
            yield from _comparisons(part)


def _operands(comparison: Comparison) -> tuple[Scalar, ...]:
    """List what a value is compared with as a whole."""
    if comparison.op in ("exists", "contains"):
        return ()
    return comparison.value if isinstance(comparison.value, tuple) else (comparison.value,)


def _by_kind(comparison: Comparison) -> dict[str, list[Scalar]]:
    """Group the operands by the type of values that they are compared with."""
    if comparison.op == "contains":
        return {"list": []}
    kinds: dict[str, list[Scalar]] = {}
    for value in _operands(comparison):
        kinds.setdefault(kind_of(value), []).append(value)
    return kinds


def _count_operators(clause: str) -> int:
    """Count what servers parse recursively; the members of lists are not."""
    bare = re.sub(STRING, '""', clause, flags=re.DOTALL)
    return len(re.findall(OPERATOR, re.sub(r"\[[^\[\]]*\]", "[]", bare)))


def _join(parts: Sequence[str], operator: str) -> str:
    """Join parts as a balanced tree: engines parse a chain recursively, and fail after about 50."""
    if len(parts) < 2:
        return "".join(parts)
    middle = len(parts) // 2
    left, right = _join(parts[:middle], operator), _join(parts[middle:], operator)
    return f"({left}) {operator} ({right})"


def _as_float(value: Scalar) -> Scalar:
    """Write an integer as a float: only a float finds both 2.0 and 2 in arrays."""
    return float(value) if is_int(value) and abs(value) <= EXACT_FLOAT else value


def _scalar(value: Scalar | tuple[Scalar, ...]) -> Scalar:
    assert not isinstance(value, tuple)
    return value


def _scalars(value: Scalar | tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    assert isinstance(value, tuple)
    return value
