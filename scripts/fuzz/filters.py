"""Filters from a user's hands: what is written for an engine means what was asked for, and nothing else.

Each expression that is written is read again by a reader of its own, with the engine's rules for strings, and evaluated
on metadata; the result must be that of the filter itself, within the namespaces that were asked for.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memory_store import matches

from rag_bm25.errors import FilterError
from rag_bm25.filters import Expression, parse_filter
from rag_bm25.milvus_store.expressions import Dialect, Lite2Dialect, Lite3Dialect, where_clause

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.drawing import Draw
    from rag_bm25.filters import Filter

__all__ = ["WORDS", "check", "drawn_expression", "drawn_filter", "drawn_metadata"]

WORDS = [
    *(
        "a",
        "b",
        "a.b",
        "source",
        "x",
        "ab",
        "法律",
        "𠮷",
        "%",
        "a%",
        "%b%",
        "_",
        "",
        " ",
        "1",
        "true",
        "null",
        "namespace",
    ),
    *(
        '"',
        "'",
        "\\",
        "\\\\",
        '\\"',
        "]",
        "[",
        ")",
        "(",
        "{",
        "}",
        ",",
        "\n",
        "\r",
        "\r\n",
        "\t",
        "\0",
        "\x1f",
        "\u2028",
    ),
    *('") or (pk != "', "' or '1'=='1", '"] or true or metadata["', "\\n", "\\u0041", "\ud800", "//", "/*", "#", ";"),
]
OPERATORS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$like", "$contains", "$above", "a"]
PIECES = [
    *(
        'metadata["a"]',
        "metadata['b']",
        "namespace",
        "pk",
        "id",
        "length",
        "metadata",
        '["a"]',
        "[0]",
        "exists ",
        "like ",
    ),
    *(
        "==",
        "!=",
        ">",
        ">=",
        "<",
        "<=",
        " in ",
        " not in ",
        " and ",
        " or ",
        " not ",
        "&&",
        "||",
        "!",
        "+",
        "-",
        "*",
        "/",
    ),
    *(
        "%",
        "1",
        "0",
        "2.5",
        "9" * 5000,
        "9" * 19,
        "1e3",
        "0x1",
        "true",
        "'x'",
        '"x"',
        "'",
        '"',
        "\\",
        "(",
        ")",
        "[",
        "]",
    ),
    *(
        "[1]",
        "{",
        "}",
        ",",
        " ",
        "\n",
        "json_contains(",
        "array_length(",
        "json_contains_any(",
        'metadata["a"], ',
        "#",
        ";",
    ),
    *(
        '(metadata["a"] == 1)',
        ' or pk != ""',
        ") or (",
        '"other"',
        "法",
        "\0",
        "1 < ",
        " < 3",
        "**",
        "is null",
        "text_match(",
    ),
]
CONDITIONS = [
    *('metadata["a"] == 1', "metadata['b'] != 'x'", 'metadata["a"] in [1, 2.5]', 'metadata["b"] not in ["x", "ab"]'),
    *('metadata["b"] like "a%"', 'json_contains(metadata["b"], 1)', 'array_length(metadata["b"]) > 1', "pk != ''"),
    *(
        '0 <= metadata["a"] < 2',
        'metadata["a"] % 2 == 1',
        'metadata["a"] + 1 >= 2',
        "namespace == 'other'",
        "length == 1",
    ),
    *('metadata["b"]["a"] == 1', 'metadata["b"][0] == 1', 'namespace in ["other"]', "id like '%'", "-1 < length <= 1"),
    *('metadata["source"] == "\\") or (pk != \\""', "true == true", "namespace like '%'", 'pk > "0"', 'text == "text"'),
    *('json_contains_any(metadata["b"], [1, "x"])', "metadata['a'] * 2 == 2", "metadata['a'] / 2 == 0.5", "1 == 1"),
]
NAMESPACES = ["mine", 'q"uo\\te', "新"]
DIALECTS = (Dialect(), Lite2Dialect(), Lite3Dialect())
HUGE = 10**5000  # which Python does not write in decimals


def check(draw: Draw) -> None:
    """Write a filter, or an expression, for every engine."""
    namespaces = draw.choice([None, ["mine"], NAMESPACES])
    if draw.chance(3):
        _check_expression(drawn_expression(draw), namespaces)
    else:
        _check_mapping(drawn_filter(draw), [drawn_metadata(draw) for _ in range(3)], namespaces)


def drawn_filter(draw: Draw, depth: int = 3) -> Any:
    """Return what a user may pass for a mapping, mostly a sound one."""
    if draw.chance(40):
        return draw.json(WORDS)
    return dict(_entry(draw, depth) for _ in range(1 + draw.number(2)))


def drawn_metadata(draw: Draw) -> dict[str, Any]:
    """Return metadata that a filter may fit."""
    return {draw.choice(WORDS[:9]): _value(draw) for _ in range(draw.number(4))}


def drawn_expression(draw: Draw) -> str:
    """Return what a user may pass for an expression: conditions, with something put in or taken out, or any pieces."""
    if draw.chance(4):
        return draw.text(PIECES, 16)
    text = draw.choice(CONDITIONS)
    for _ in range(draw.number(4)):
        joined = f"{text}{draw.choice([' and ', ' or ', '&&', ' || '])}{draw.choice(CONDITIONS)}"
        text = f"({joined})" if draw.chance(2) else joined
    if draw.chance(2):
        return text
    at, removed = draw.number(len(text)), draw.number(4)
    return text[:at] + draw.text(PIECES, 2) + text[at + removed :]


def _entry(draw: Draw, depth: int) -> tuple[Any, Any]:
    kind = draw.number(6) if depth else 5
    if kind == 0:
        return "$not", drawn_filter(draw, depth - 1)
    if kind == 1:
        return draw.choice(["$and", "$or"]), [drawn_filter(draw, depth - 1) for _ in range(draw.number(4))]
    key = (draw.choice(WORDS), draw.choice(WORDS)) if draw.chance(5) else draw.choice(WORDS)
    return key, dict(_condition(draw) for _ in range(1 + draw.number(2))) if draw.chance(2) else _scalar(draw)


def _condition(draw: Draw) -> tuple[str, Any]:
    operator = draw.choice(OPERATORS)
    if draw.chance(16):
        return operator, draw.json(WORDS)
    if operator in ("$in", "$nin"):
        return operator, [_scalar(draw) for _ in range(draw.number(4))]
    return operator, bool(draw.number(2)) if operator == "$exists" else _scalar(draw)


def _scalar(draw: Draw) -> Any:
    kind = draw.number(4)
    if kind < 2:
        return draw.text(WORDS, 3)
    if kind == 2:
        return draw.choice(
            [0, 1, 2, -1, 0.5, 1.0, -0.0, 1e300, 5e-324, 2**53 + 1, 2**63 - 1, -(2**63) + 1, True, False]
        )
    return HUGE if draw.chance(8) else draw.scalar(WORDS)


def _value(draw: Draw, depth: int = 2) -> Any:
    kind = draw.number(6)
    if kind == 0 and depth:
        return {draw.choice(WORDS[:9]): _value(draw, depth - 1) for _ in range(draw.number(3))}
    if kind == 1:
        return [draw.choice([1, 1.0, "a", "x", True, 0.5]) for _ in range(draw.number(3))]
    if kind == 2:
        return None
    return draw.choice([0, 1, 2, -1, 0.5, 1e300, True, False]) if kind == 3 else draw.text(WORDS, 3)


def _check_mapping(given: Any, rows: list[dict[str, Any]], namespaces: list[str] | None) -> None:
    try:
        where = parse_filter(given)
    except FilterError:
        return
    if isinstance(where, Expression):  # a mapping that was no mapping
        return
    for dialect in DIALECTS:
        try:
            written = where_clause(dialect, where, namespaces)
        except FilterError:
            continue
        holds = _Reader(written, dialect).read() if written else lambda _: True
        for metadata in rows:
            for namespace in [*NAMESPACES, "other"]:
                expected = _expected(where, metadata) and (namespaces is None or namespace in namespaces)
                found = holds({"metadata": metadata, "namespace": namespace, "pk": "0a"}) is True
                assert found == expected, f"{dialect.engine}: {written}"


def _expected(where: Filter | None, metadata: dict[str, Any]) -> bool:
    return where is None or matches(where, metadata)


def _check_expression(text: str, namespaces: list[str] | None) -> None:
    """See that an expression cannot get out of the parentheses around it."""
    for dialect in DIALECTS:
        try:
            written = where_clause(dialect, parse_filter(text), namespaces)
        except FilterError:
            continue
        if namespaces is None:
            assert written == text
            continue
        assert written == f"({text}) and ({where_clause(dialect, None, namespaces)})"
        assert _depths(text) == (0, 0), f"{dialect.engine}: {written}"
        parse_filter({"$not": {"a": 1}})
        _is_negated_whole(dialect, text)


def _is_negated_whole(dialect: Dialect, text: str) -> None:
    """See that what is negated is the whole expression."""
    from rag_bm25.filters import Not

    try:
        written = where_clause(dialect, Not(Expression(text)), None)
    except FilterError:
        return
    assert written == f"not ({text})"


def _depths(text: str) -> tuple[int, int]:
    """Return the least depth of brackets, and the last one; -1 for a string that does not end."""
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


_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(
    rf"\s*(?:(?P<string>{_STRING})|(?P<number>-?(?:inf|nan|\d+(?:\.\d+)?(?:e[+-]?\d+)?))"
    r"|(?P<word>[a-z_]+)|(?P<sign>==|!=|>=|<=|[<>()\[\],]))",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}
_MISSING = object()


@dataclass
class _Reader:
    """Reads an expression of ours as an engine would, into a function of a row: True, False, or None for unknown."""

    text: str
    dialect: Dialect
    at: int = 0

    def read(self) -> Callable[[dict[str, Any]], bool | None]:
        holds = self._or()
        assert not self.text[self.at :].strip(), f"{self.text[self.at :]!r} is left of {self.text}"
        return holds

    def _peek(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.at)
        return ("", "") if match is None else (str(match.lastgroup), match[0].strip(" \n\t") if match else "")

    def _take(self, wanted: str) -> bool:
        match = _TOKEN.match(self.text, self.at)
        if match is None or match.group(str(match.lastgroup)) != wanted or match.lastgroup == "string":
            return False
        self.at = match.end()
        return True

    def _expect(self, wanted: str) -> None:
        assert self._take(wanted), f"{wanted!r} is not at {self.at} of {self.text}"

    def _or(self) -> Callable[[dict[str, Any]], bool | None]:
        parts = [self._and()]
        while self._take("or"):
            parts.append(self._and())
        return lambda row: _any([part(row) for part in parts])

    def _and(self) -> Callable[[dict[str, Any]], bool | None]:
        parts = [self._condition()]
        while self._take("and"):
            parts.append(self._condition())
        return lambda row: _not(_any([_not(part(row)) for part in parts]))

    def _condition(self) -> Callable[[dict[str, Any]], bool | None]:
        if self._take("not"):
            part = self._condition()
            return lambda row: _not(part(row))
        if self._take("("):
            part = self._or()
            self._expect(")")
            return part
        if self._take("exists"):
            path = self._path()
            return lambda row: _value_at(row, path) is not None
        if self._take("json_contains"):
            return self._contains()
        return self._comparison()

    def _contains(self) -> Callable[[dict[str, Any]], bool | None]:
        self._expect("(")
        path = self._path()
        self._expect(",")
        wanted = self._literal()
        self._expect(")")
        return lambda row: self._in_array(_value_at(row, path), wanted)

    def _in_array(self, value: Any, wanted: Any) -> bool | None:
        if isinstance(value, list):
            return any(_same(member, wanted) for member in value)
        return None if value is None and isinstance(self.dialect, Lite3Dialect) else False

    def _comparison(self) -> Callable[[dict[str, Any]], bool | None]:
        path = self._path()
        if self._take("is"):
            self._expect("null")
            return lambda row: _value_at(row, path) is None
        negated = self._take("not")
        if self._take("in"):
            members = self._list()
            return lambda row: self._member(_value_at(row, path), members, negated)
        if self._take("like"):
            pattern = self._literal()
            return lambda row: self._like(_value_at(row, path), pattern)
        operator = next(sign for sign in ("==", "!=", ">=", "<=", ">", "<") if self._take(sign))
        wanted = self._literal()
        return lambda row: self._compare(_value_at(row, path), operator, wanted)

    def _member(self, value: Any, members: list[Any], negated: bool) -> bool | None:
        return any(_same(value, member) for member in members) != negated

    def _like(self, value: Any, pattern: str) -> bool | None:
        if not isinstance(value, str):
            return None if value is None and isinstance(self.dialect, Lite3Dialect) else False
        wanted = ".*".join(map(re.escape, pattern.split("%")))
        if isinstance(self.dialect, Lite2Dialect) and pattern and not pattern.strip("%"):
            return False
        return re.fullmatch(wanted, value, re.DOTALL) is not None

    def _compare(self, value: Any, operator: str, wanted: Any) -> bool | None:
        if value is None and isinstance(self.dialect, Lite3Dialect):
            return None
        if operator in _ORDERS:
            if _kind(value) == _kind(wanted):
                return _ORDERS[operator](value, wanted)
            return None if isinstance(self.dialect, Lite3Dialect) else False
        return _same(value, wanted) == (operator == "==")

    def _path(self) -> list[str]:
        kind, name = self._peek()
        assert kind == "word", f"no field at {self.at} of {self.text}"
        assert name in ("metadata", "namespace", "pk")
        self._expect(name)
        path = [name]
        while name == "metadata" and self._take("["):
            path.append(self._string(key=True))
            self._expect("]")
        return path

    def _list(self) -> list[Any]:
        self._expect("[")
        members = [self._literal()]
        while self._take(","):
            members.append(self._literal())
        self._expect("]")
        return members

    def _literal(self) -> Any:
        match = _TOKEN.match(self.text, self.at)
        assert match is not None, f"no literal at {self.at} of {self.text}"
        if match["string"]:
            return self._string(key=False)
        self.at = match.end()
        if match["word"]:
            return {"true": True, "false": False}[match["word"]]
        return float(match["number"]) if set(match["number"]) & set(".en") else int(match["number"])

    def _string(self, *, key: bool) -> str:
        match = _TOKEN.match(self.text, self.at)
        assert match is not None, f"no string at {self.at} of {self.text}"
        self.at = match.end()
        inside = match["string"][1:-1]
        if not isinstance(self.dialect, Lite2Dialect):
            assert not re.search(r"[\r\n]", inside), "a string over two lines"
            return re.sub(r"\\(.)", lambda escape: _ESCAPES[escape[1]], inside)
        assert key or re.fullmatch(r'(?:[^"\\\r\n]|\\\r\n|\\[^\r])*', inside), "a line break that is not escaped"
        return json.loads(match["string"]) if key else re.sub(r"\\(\r\n|.)", r"\1", inside, flags=re.DOTALL)


def _any(parts: list[bool | None]) -> bool | None:
    return True if True in parts else None if None in parts else False


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _value_at(row: dict[str, Any], path: list[str]) -> Any:
    value: Any = row
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _same(value: Any, other: Any) -> bool:
    return _kind(value) == _kind(other) and bool(value == other)
