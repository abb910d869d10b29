"""Filters of users: the expression that an engine gets means the same as the filter, and nothing else.

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

from fuzz.strategies import FEW, json_values, mostly, scalars, texts
from rag_bm25.errors import FilterError
from rag_bm25.filters import Expression, Not, parse_filter
from rag_bm25.store.memory import matches
from rag_bm25.store.milvus.expressions import Dialect, Lite2Dialect, Lite3Dialect, where_clause
from rag_bm25.store.rows import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EXPRESSIONS", "MAPPINGS", "check"]

KEYS = ["a", "b", "a.b", "source", "x", "ab", "法律", "𠮷", "𠮷野", "%", '"']
WORDS = [
    *(*KEYS, "a%", "%b%", "_", "", " ", "1", "true", "null", "namespace", "\n", "\r", "\r\n", "\t", "\0", "\x1f"),
    *('"', "'", "\\", "\\\\", '\\"', *"][)({},", "\u2028", "\ud800", "\\n", "\\u0041", "//", "/*", "#", ";"),
    *('") or (pk != "', "' or '1'=='1", '"] or true or metadata["'),
]
PIECES = [
    *('metadata["a"]', "metadata['b']", "namespace", "pk", "id", "length", "metadata", '["a"]', "[0]", "exists "),
    *("like ", " in ", " not in ", " and ", " or ", " not ", "&&", "||", "==", "!=", ">=", "<=", "**", *"><!+-*/%"),
    *("1", "0", "2.5", "9" * 5000, "9" * 19, "1e3", "0x1", "true", "'x'", '"x"', "[1]", "法", *"'\"\\()[]{}, \n#;\0"),
    *("json_contains(", "array_length(", "json_contains_any(", "text_match(", 'metadata["a"], ', "is null"),
    *('(metadata["a"] == 1)', ' or pk != ""', ") or (", '"other"', "1 < ", " < 3"),
]
CONDITIONS = [
    *('metadata["a"] == 1', "metadata['b'] != 'x'", 'metadata["a"] in [1, 2.5]', 'metadata["b"] not in ["x", "ab"]'),
    *('metadata["b"] like "a%"', 'json_contains(metadata["b"], 1)', 'array_length(metadata["b"]) > 1', "pk != ''"),
    *('0 <= metadata["a"] < 2', 'metadata["a"] % 2 == 1', 'metadata["a"] + 1 >= 2', "namespace == 'other'", "1 == 1"),
    *('metadata["b"]["a"] == 1', 'metadata["b"][0] == 1', 'namespace in ["other"]', "id like '%'", "-1 < length <= 1"),
    *('metadata["source"] == "\\") or (pk != \\""', "true == true", "namespace like '%'", 'pk > "0"', 'text == "text"'),
    *(
        'json_contains_any(metadata["b"], [1, "x"])',
        "metadata['a'] * 2 == 2",
        "metadata['a'] / 2 == 0.5",
        "length == 1",
    ),
]
NAMESPACES = ["mine", 'q"uo\\te', "新"]
DIALECTS = (Dialect(), Lite2Dialect(), Lite3Dialect())
HUGE = 10**5000  # which Python does not write in decimals
NUMBERS = [0, 1, 2, -1, 0.5, 1.0, -0.0, 1e300, 5e-324, 2**53 + 1, 2**63 - 1, -(2**63) + 1, True, False]

NAMES = st.sampled_from(WORDS)
SCALARS = texts(WORDS, 3) | texts(WORDS, 3) | st.sampled_from(NUMBERS) | mostly(scalars(WORDS), st.just(HUGE))
BESIDE_SETS = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$like", "$contains", "$above", "a"])
CONDITION = mostly(
    st.dictionaries(BESIDE_SETS, SCALARS, min_size=1, max_size=2)
    | st.dictionaries(st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, max_size=3), min_size=1)
    | st.dictionaries(st.just("$exists"), st.booleans(), min_size=1),
    st.dictionaries(BESIDE_SETS, json_values(WORDS), max_size=2),
    16,
)
LEAVES = st.dictionaries(mostly(NAMES, st.tuples(NAMES, NAMES), 5), SCALARS | CONDITION, min_size=1, max_size=2)
MAPPINGS = mostly(
    st.recursive(
        LEAVES,
        lambda inner: (
            st.dictionaries(st.just("$not"), inner, min_size=1)
            | st.dictionaries(st.sampled_from(["$and", "$or"]), st.lists(inner, max_size=3), min_size=1)
        ),
        max_leaves=6,
    ),
    json_values(WORDS),
    40,
)
METADATA = st.dictionaries(
    st.sampled_from(KEYS),
    st.recursive(
        st.none() | st.sampled_from([0, 1, 2, -1, 0.5, 1e300, True, False]) | texts(WORDS, 3),
        lambda inner: (
            st.dictionaries(st.sampled_from(KEYS), inner, max_size=2)
            | st.lists(st.sampled_from([1, 1.0, "a", "x", True, 0.5]), max_size=2)
        ),
        max_leaves=3,
    ),
    max_size=3,
)


@st.composite
def _conditions(draw: Callable[[Any], Any]) -> str:
    """Draw conditions, joined, with something put in or taken out."""
    text, *others = draw(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=4))
    for other in others:
        joined = f"{text}{draw(st.sampled_from([' and ', ' or ', '&&', ' || ']))}{other}"
        text = draw(st.sampled_from([joined, f"({joined})"]))
    at = draw(st.integers(0, len(text)))
    return draw(st.just(text) | texts(PIECES, 2).map(lambda put: text[:at] + put + text[at + len(put) % 4 :]))


EXPRESSIONS = mostly(_conditions(), texts(PIECES, 16), 4)


@FEW
@given(
    EXPRESSIONS | MAPPINGS | MAPPINGS,
    st.lists(METADATA, max_size=3),
    st.sampled_from([None, ("mine",), tuple(NAMESPACES)]),
)
def check(given_filter: Any, rows: list[dict[str, Any]], namespaces: tuple[str, ...] | None) -> None:
    """Write a filter, or an expression, for every engine."""
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
