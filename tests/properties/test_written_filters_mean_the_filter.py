"""Property: the expression that an engine gets means the same as the filter, and nothing else.

Each expression that is written is read again by Python's grammar, with the engine's rules for strings, and evaluated on
metadata; the result must be that of the filter itself, within the namespaces that were asked for.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from support.filter_inputs import EXPRESSIONS, MAPPINGS, METADATA

from rag_bm25.errors import FilterError
from rag_bm25.filters import Expression, Not, parse_filter
from rag_bm25.store.memory import matches
from rag_bm25.store.milvus.expressions import Dialect, Lite2Dialect, Lite3Dialect, where_clause
from rag_bm25.store.rows import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACES = ["mine", 'q"uo\\te', "新"]
DIALECTS = (Dialect(), Lite2Dialect(), Lite3Dialect())


@given(
    EXPRESSIONS | MAPPINGS | MAPPINGS,
    st.lists(METADATA, max_size=3),
    st.sampled_from([None, ("mine",), tuple(NAMESPACES)]),
)
def test_a_written_filter_means_the_filter(
    given_filter: Any, rows: list[dict[str, Any]], namespaces: tuple[str, ...] | None
) -> None:
    try:
        where = parse_filter(given_filter)
    except FilterError:
        return
    for dialect in DIALECTS:
        try:
            written = where_clause(dialect, Scope(where, namespaces))
        except FilterError:
            continue
        if isinstance(where, Expression):
            _check_expression(dialect, where.text, namespaces, written)
        else:
            _check_mapping(dialect, where, rows, namespaces, written)


def _check_mapping(
    dialect: Dialect, where: Any, rows: list[Any], namespaces: tuple[str, ...] | None, written: str
) -> None:
    tree = _parse(written, dialect) if written else None
    for metadata in rows:
        for namespace in [*NAMESPACES, "other"]:
            expected = (where is None or matches(where, metadata)) and (namespaces is None or namespace in namespaces)
            row = {"metadata": metadata, "namespace": namespace, "pk": "0a"}
            found = tree is None or _holds(tree, row, dialect) is True
            assert found == expected, f"{dialect.engine}: {written}"


def _check_expression(dialect: Dialect, text: str, namespaces: tuple[str, ...] | None, written: str) -> None:
    """Check that an expression cannot escape from its parentheses."""
    if namespaces is None:
        assert written == text
        return
    assert written == f"({text}) and ({where_clause(dialect, Scope(None, namespaces))})"
    assert _depths(text) == (0, 0), f"{dialect.engine}: {written}"
    try:
        negated = where_clause(dialect, Scope(Not(Expression(text))))
    except FilterError:
        return
    assert negated == f"not ({text})"


def _depths(text: str) -> tuple[int, int]:
    """Return the minimum and the last depth of brackets; -1 for an unterminated string."""
    depth = least = 0
    quote = ""
    characters = iter(text)
    for character in characters:
        if quote:
            if character == "\\":
                next(characters, None)
            elif character == quote:
                quote = ""
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
            least = min(least, depth)
    return least, -1 if quote else depth


_HAN = re.compile(
    "[\u2e80-\u2fd5\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u9fff\uf900-\ufad9\U00020000-\U0003ffff]"
)
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[a-z_]+|==|!=|>=|<=|[<>()\[\],])', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[Uu]([0-9a-f]{8}|[0-9a-f]{4})|(.))")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_PYTHON = {"exists": "~", "like": "@", "true": "True", "false": "False", "null": "None"}


def _parse(text: str, dialect: Dialect) -> ast.expr:
    """Parse an expression as Python: strings as the engine reads them, `~` for exists, `@` for like."""
    python: list[str] = []
    at = 0
    if dialect.engine == "Milvus":
        text = _escape_ideographs(text)
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match, f"nothing that an engine knows at {at} of {text}"
        at, token = match.end(), match[1]
        if token[0] == '"':
            is_key = python[-1] == "[" and python[-2] in ("metadata", "]")
            token = repr(_read_string(token, dialect, is_key=is_key))
        python.append(_PYTHON.get(token, token))
    try:
        return ast.parse(" ".join(python), mode="eval").body
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
        return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES[found[2]], inside)
    if is_key:
        return json.loads(literal)
    assert re.fullmatch(r'(?:[^"\\\r\n]|\\\r\n|\\[^\r])*', inside), "a line break that is not escaped"
    return re.sub(r"\\(\r\n|.)", r"\1", inside, flags=re.DOTALL)


def _escape_ideographs(text: str) -> str:
    """Do what Milvus does before it parses: ideographs become escapes of 16 bits, unless there are other escapes."""
    if any(escaped[1] not in "\\ntrf\"'" for escaped in re.finditer(r"\\(.)", text, re.DOTALL)):
        return text
    return _HAN.sub(lambda han: f"\\u{ord(han[0]) & 0xFFFF:04x}", text)


def _holds(node: ast.expr, row: dict[str, Any], dialect: Dialect) -> bool | None:
    """Evaluate an expression as an engine does: True, False, or None for unknown."""
    match node:
        case ast.BoolOp(ast.Or(), parts):
            return _any([_holds(part, row, dialect) for part in parts])
        case ast.BoolOp(ast.And(), parts):
            return _not(_any([_not(_holds(part, row, dialect)) for part in parts]))
        case ast.UnaryOp(ast.Not(), part):
            return _not(_holds(part, row, dialect))
        case ast.UnaryOp(ast.Invert(), path):
            return _value_at(row, path) is not None
        case ast.Compare(path, [op], [wanted]) | ast.BinOp(path, op, wanted):
            return _compare(type(op), _value_at(row, path), ast.literal_eval(wanted), dialect)
        case ast.Call(ast.Name("json_contains"), [path, wanted]):
            return _compare(ast.Call, _value_at(row, path), ast.literal_eval(wanted), dialect)
    raise AssertionError(f"nothing that an engine knows: {ast.dump(node)}")


def _compare(op: type, value: Any, wanted: Any, dialect: Dialect) -> bool | None:
    if op is ast.Is:
        return value is wanted
    if op in (ast.In, ast.NotIn):
        return any(_same(value, member) for member in wanted) == (op is ast.In)
    if value is None and isinstance(dialect, Lite3Dialect):
        return None
    if op in _ORDERS and _kind(value) != _kind(wanted):
        return None if isinstance(dialect, Lite3Dialect) else False
    if op is ast.MatMult and isinstance(dialect, Lite2Dialect) and wanted and not wanted.strip("%"):
        return False
    return _OPERATORS[op](value, wanted)


def _is_like(value: Any, pattern: str) -> bool:
    wanted = ".*".join(map(re.escape, pattern.split("%")))
    return isinstance(value, str) and re.fullmatch(wanted, value, re.DOTALL) is not None


def _value_at(row: dict[str, Any], path: ast.expr) -> Any:
    match path:
        case ast.Name("namespace" | "pk" | "metadata" as name):
            return row[name]
        case ast.Subscript(ast.Name("metadata") | ast.Subscript() as parent, ast.Constant(str(key))):
            value = _value_at(row, parent)
            return value.get(key) if isinstance(value, dict) else None
    raise AssertionError(f"no path: {ast.dump(path)}")


def _any(parts: list[bool | None]) -> bool | None:
    return True if True in parts else None if None in parts else False


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _same(value: Any, other: Any) -> bool:
    return _kind(value) == _kind(other) and bool(value == other)


_ORDERS = {ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le}
_OPERATORS: dict[type, Callable[[Any, Any], bool]] = {
    **_ORDERS,
    ast.Eq: _same,
    ast.NotEq: lambda value, wanted: not _same(value, wanted),
    ast.MatMult: _is_like,
    ast.Call: lambda value, wanted: isinstance(value, list) and any(_same(member, wanted) for member in value),
}
