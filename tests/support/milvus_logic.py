"""How engines evaluate the expressions that are written for them, as read in their sources.

Each expression is read by Python's grammar, with the engine's rules for strings, and evaluated on metadata. Versions of
a Milvus server differ in their logic: since 2.6.20 (and in hotfixes of 2.6.19) a comparison with a value of another
type is neither true nor false, and so is its opposite; 2.6 unites conditions of one path before it evaluates them.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rag_bm25.checks import kind_of
from rag_bm25.filters import ID, And, Comparison, Filter, Not, Or
from rag_bm25.store import memory
from rag_bm25.store.milvus.expressions import Dialect, Lite2Dialect, Lite3Dialect, where_clause
from rag_bm25.store.rows import Scope

ORDERS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}


class FailsError(Exception):
    """The engine refuses the expression, or answers it wrongly."""


@dataclass(frozen=True)
class Logic:
    """The logic of an engine.

    Parameters
    ----------
    name : str
        Of the versions that share it.
    dialect : Dialect
        Writes for them.
    unknown : frozenset of type
        Comparisons that are neither true nor false for a value of another type.
    null_is_unknown : bool
        Whether all comparisons are so for null and missing values.
    counts_in_lists : bool
        Whether digits in a path find a place in a list.
    empty_exists : bool
        Whether objects and lists exist that hold nothing, or nothing but null.
    unites : bool
        Whether conditions of one path are united before their types are looked at.
    reads_digits : bool
        Whether a key may begin with a digit, in a sealed segment.
    """

    name: str
    dialect: Dialect
    unknown: frozenset[type] = frozenset()
    null_is_unknown: bool = False
    counts_in_lists: bool = True
    empty_exists: bool = True
    unites: bool = False
    reads_digits: bool = True

    def finds(self, tree: ast.expr | None, id: str, metadata: dict[str, Any], namespace: str = "") -> bool:
        """Return whether a row is found; raise FailsError for what the engine fails at."""
        row = {"id": id, "metadata": metadata, "namespace": namespace, "pk": "0a"}
        if tree is not None and self.unites:
            _check_united(tree)
        return tree is None or self.holds(tree, row) is True

    def holds(self, node: ast.expr, row: dict[str, Any]) -> bool | None:
        """Evaluate an expression: True, False, or None for unknown."""
        match node:
            case ast.BoolOp(ast.Or(), parts):
                return _any([self.holds(part, row) for part in parts])
            case ast.BoolOp(ast.And(), parts):
                return _not(_any([_not(self.holds(part, row)) for part in parts]))
            case ast.UnaryOp(ast.Not(), part):
                return _not(self.holds(part, row))
            case ast.UnaryOp(ast.Invert(), path):
                value = self._value_at(row, path)
                return value is not None and (self.empty_exists or not _is_empty(value))
            case ast.Compare(ast.Call(ast.Name("array_length"), [path]), [ast.NotEq()], [ast.Constant(0)]):
                return self._has_members(self._value_at(row, path))
            case ast.Compare(path, [op], [wanted]) | ast.BinOp(path, op, wanted):
                return self._compare(type(op), self._value_at(row, path), ast.literal_eval(wanted))
            case ast.Call(ast.Name("json_contains"), [path, wanted]):
                return self._compare(ast.Call, self._value_at(row, path), ast.literal_eval(wanted))
        raise AssertionError(f"nothing that an engine knows: {ast.dump(node)}")

    def _has_members(self, value: Any) -> bool | None:
        """Compare a length with 0, which is also that of what is no list, unless it is unknown."""
        if not isinstance(value, list):
            return None if ast.Call in self.unknown else False
        return value != []

    def _compare(self, op: type, value: Any, wanted: Any) -> bool | None:
        if op is ast.Is:
            return value is wanted
        if not _is_of_type(op, value, wanted):
            if op in self.unknown or (value is None and self.null_is_unknown):
                return None
            if op in ORDERS:
                return False
        if op is ast.MatMult and isinstance(self.dialect, Lite2Dialect) and wanted and not wanted.strip("%"):
            return False
        return OPERATORS[op](value, wanted)

    def _value_at(self, row: dict[str, Any], path: ast.expr) -> Any:
        match path:
            case ast.Name("id" | "namespace" | "pk" | "metadata" as name):
                return row[name]
            case ast.Subscript(ast.Name("metadata") | ast.Subscript() as parent, ast.Constant(str(key))):
                return self._step(self._value_at(row, parent), key)
        raise AssertionError(f"no path: {ast.dump(path)}")

    def _step(self, value: Any, key: str) -> Any:
        if not self.reads_digits and re.match("[0-9]+[^0-9]", key):
            raise FailsError(f"key {key!r}")
        if isinstance(value, list) and self.counts_in_lists and re.fullmatch("0|[1-9][0-9]*", key):
            return value[int(key)] if int(key) < len(value) else None
        return value.get(key) if isinstance(value, dict) else None


def can_tell(logic: Logic, where: Filter, metadata: dict[str, Any]) -> bool:
    """Return whether a version can tell a row's values: not objects, by three-valued logic, and not what is empty."""
    if isinstance(where, Not):
        return can_tell(logic, where.part, metadata)
    if isinstance(where, And | Or):
        return all(can_tell(logic, part, metadata) for part in where.parts)
    assert isinstance(where, Comparison)
    if where.path == ID:
        return True
    value = memory._value(metadata, where.path)
    if where.op == "exists":
        return logic.empty_exists or value is None or not _is_empty(value)
    return ast.Eq not in logic.unknown or not isinstance(value, dict) or _is_empty(value)


def is_out_of_reach(engine: str, where: Filter, metadata: dict[str, Any]) -> bool:
    """Return whether an engine of the tests is known to tell a row wrongly, since no expression is right for it."""
    logic = {"docker-2.6": SERVERS[2], "docker-3.0": SERVERS[3]}.get(engine)
    return logic is not None and not can_tell(logic, where, metadata)


def wrong_rows(
    logic: Logic, where: Filter, documents: dict[str, dict[str, Any]], tree: ast.expr | None = None
) -> set[str]:
    """List the rows that are wrongly found, or wrongly not found; for what fails, all of them.

    The tree of a plan can be given, in place of that of the text.
    """
    tree = tree or parse(where_clause(logic.dialect, Scope(where)), logic.dialect)
    try:
        return {
            name
            for name, data in documents.items()
            if logic.finds(tree, name, data) != memory.matches(where, name, data)
        }
    except FailsError:
        return set(documents)


def _is_of_type(op: type, value: Any, wanted: Any) -> bool:
    """Return whether a value is of the type that an operator compares with its operand."""
    if op is ast.Call:
        return isinstance(value, list)
    operand = wanted[0] if isinstance(wanted, list) else wanted
    return kind_of(value) == kind_of(operand)


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_is_empty, value.values() if isinstance(value, dict) else value))
    return value is None


def _is_like(value: Any, pattern: str) -> bool:
    wanted = ".*".join(map(re.escape, pattern.split("%")))
    return isinstance(value, str) and re.fullmatch(wanted, value, re.DOTALL) is not None


def _any(parts: list[bool | None]) -> bool | None:
    return True if True in parts else None if None in parts else False


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _same(value: Any, other: Any) -> bool:
    return kind_of(value) == kind_of(other) and bool(value == other)


OPERATORS: dict[type, Callable[[Any, Any], bool]] = {
    **ORDERS,
    ast.Eq: _same,
    ast.NotEq: lambda value, wanted: not _same(value, wanted),
    ast.In: lambda value, wanted: any(_same(value, member) for member in wanted),
    ast.NotIn: lambda value, wanted: not any(_same(value, member) for member in wanted),
    ast.MatMult: _is_like,
    ast.Call: lambda value, wanted: isinstance(value, list) and any(_same(member, wanted) for member in value),
}
EVERY = frozenset(OPERATORS)
LITE2 = Logic("milvus-lite 2.5", Lite2Dialect())
LITE3 = Logic("milvus-lite 3", Lite3Dialect(), frozenset(ORDERS), null_is_unknown=True, counts_in_lists=False)
SERVERS = (
    Logic("2.5", Dialect()),
    Logic("2.6.2 to 2.6.18", Dialect(), empty_exists=False, unites=True),
    Logic("2.6.20 and later", Dialect(), EVERY, empty_exists=False, unites=True, reads_digits=False),
    Logic("3.0", Dialect(), EVERY, empty_exists=False, reads_digits=False),
)
LOGICS = (*SERVERS, LITE2, LITE3)


def _check_united(tree: ast.expr) -> None:
    """Fail where conditions of one path would be united whose operands are of several types."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.BoolOp):
            continue
        united = (ast.Eq, ast.In) if isinstance(node.op, ast.Or) else (ast.Eq, ast.In, ast.NotEq, *ORDERS)
        types: dict[str, set[type]] = {}
        for path, operands in _united(node, united):
            types.setdefault(path, set()).update(map(type, operands))
        if mixed := [path for path, found in types.items() if len(found) > 1]:
            raise FailsError(f"several types at {mixed[0]}")


def _united(node: ast.expr, united: tuple[type, ...], op: type | None = None) -> Iterator[tuple[str, list[Any]]]:
    """List what is united of a chain: also the opposite of an equality, which is written as an inequality."""
    match node:
        case ast.BoolOp(chained, parts) if op in (None, type(chained)):
            for part in parts:
                yield from _united(part, united, type(chained))
        case ast.UnaryOp(ast.Not(), ast.Compare(path, [ast.Eq()], [wanted])):
            yield from _united(ast.Compare(path, [ast.NotEq()], [wanted]), united)
        case ast.Compare(path, [one], [wanted]) if isinstance(one, united) and not isinstance(path, ast.Call):
            operands = ast.literal_eval(wanted)
            yield ast.dump(path), operands if isinstance(operands, list) else [operands]


HAN = re.compile(
    "[\u2e80-\u2fd5\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u9fff\uf900-\ufad9\U00020000-\U0003ffff]"
)
TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[a-z_]+|==|!=|>=|<=|[<>()\[\],])', re.DOTALL)
ESCAPE = re.compile(r"\\(?:[Uu]([0-9a-f]{8}|[0-9a-f]{4})|(.))")
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
PYTHON = {"exists": "~", "like": "@", "true": "True", "false": "False", "null": "None"}


def parse(text: str, dialect: Dialect) -> ast.expr | None:
    """Parse an expression as Python: strings as the engine reads them, `~` for exists, `@` for like."""
    python: list[str] = []
    at = 0
    if dialect.engine == "Milvus":
        text = _escape_ideographs(text)
    while at < len(text):
        match = TOKEN.match(text, at)
        assert match, f"nothing that an engine knows at {at} of {text}"
        at, token = match.end(), match[1]
        if token[0] == '"':
            is_key = python[-1] == "[" and python[-2] in ("metadata", "]")
            token = repr(_read_string(token, dialect, is_key=is_key))
        python.append(PYTHON.get(token, token))
    try:
        return ast.parse(" ".join(python), mode="eval").body if python else None
    except SyntaxError as error:
        raise AssertionError(f"{text} is no expression") from error


def _read_string(literal: str, dialect: Dialect, *, is_key: bool) -> str:
    inside = literal[1:-1]
    if not isinstance(dialect, Lite2Dialect):
        assert not re.search(r"[\r\n]", inside), "a string over two lines"
        if is_key and dialect.engine == "Milvus":
            key = re.sub(r"\\u([0-9a-f]{4})", lambda escape: chr(int(escape[1], 16)), inside)
            assert "][" not in key, "Milvus divides the key"
            return key
        return ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else ESCAPES[found[2]], inside)
    if is_key:
        return str(json.loads(literal))
    assert re.fullmatch(r'(?:[^"\\\r\n]|\\\r\n|\\[^\r])*', inside), "a line break that is not escaped"
    return re.sub(r"\\(\r\n|.)", r"\1", inside, flags=re.DOTALL)


def _escape_ideographs(text: str) -> str:
    """Do what Milvus does before it parses: ideographs become escapes of 16 bits, unless there are other escapes."""
    if any(escaped[1] not in "\\ntrf\"'" for escaped in re.finditer(r"\\(.)", text, re.DOTALL)):
        return text
    return HAN.sub(lambda han: f"\\u{ord(han[0]) & 0xFFFF:04x}", text)
