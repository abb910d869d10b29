"""Check expression strings before an engine parses them.

A Milvus server parses an expression strictly, but some that it takes end it, for everybody who uses it. milvus-lite
2.5.1 guesses: ``n >= 0 andd n == 2`` runs as ``n >= 0``, and a mistyped escape or a division by zero kills the engine.
Only the part of the language that it parses as written is allowed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag_bm25.errors import FilterError, short_repr

STRING = r""""(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*'"""
BRACKETS = {")": "(", "]": "[", "}": "{"}
MAX_CONDITIONS = 50
MAX_DEPTH = 32
OPERATOR = r"\b(?:and|or|not|exists)\b|&&|\|\||\*\*|[=!<>]=|[-+*/%~!^|&<>]"
# What ends or hangs some server of 2.5 or 2.6, outside of strings; with the reports to Milvus's project.
FATAL = {
    # A fraction becomes 0 beside whole numbers, and the least whole number cannot be divided by -1.
    r"[/%](?!\s*[1-9][0-9]{0,17}(?:\.[0-9]+)?(?![\w.]|\s*\*\*))": (
        "a divisor must be a number from 1 on, written in decimals (#47285, #42538)"
    ),
    r"\b(?:true|false)\b[\s)]*[-+*/%]|[-+*/%][\s(]*\b(?:true|false)\b": "true and false are no numbers (#42061)",
    r"\[\s*\]": "a list must not be empty (#41348)",
    r"\brandom_sample\b": "a server may hang over a sample of nothing (#40198)",
}


def check_brackets(text: str) -> None:
    """Check that brackets match outside of string literals: ``a == 1) or (b == 2`` would undo other conditions."""
    opened: list[str] = []
    for match in re.finditer(rf"{STRING}|.", text, re.DOTALL):
        piece = match.group()
        if piece in ('"', "'"):
            raise _error(text, match.start(), "a string that does not end")
        if piece in BRACKETS.values():
            opened.append(piece)
            if len(opened) > MAX_DEPTH:  # servers parse recursively (#53404)
                raise _error(text, match.start(), f"{piece!r}", f"at most {MAX_DEPTH} brackets may be nested")
        elif piece in BRACKETS and (not opened or opened.pop() != BRACKETS[piece]):
            raise _error(text, match.start(), f"{piece!r} that closes nothing")
    if opened:
        raise _error(text, len(text), f"the end, with {opened[-1]!r} still open")


def check_server(text: str) -> None:
    """Check that an expression ends no server, as far as is known, and that its brackets match."""
    check_brackets(text)
    bare = _without_strings(text)
    for pattern, rule in FATAL.items():
        if found := re.search(pattern, bare, re.IGNORECASE):
            raise _error(text, found.start(), short_repr(found[0]), f"{rule}, or Milvus may end")


def count_operators(text: str) -> int:
    """Count what servers parse recursively; the members of lists are not."""
    return len(re.findall(OPERATOR, re.sub(r"\[[^\[\]]*\]", "[]", _without_strings(text)), re.IGNORECASE))


def _without_strings(text: str) -> str:
    """Replace strings, at their length, by what is no part of the language."""
    return re.sub(STRING, lambda string: '"' * len(string[0]), text, flags=re.DOTALL)


def check_lite2(text: str) -> None:
    """Check that milvus-lite 2.5.1 will parse an expression as it is written."""
    _Reader(text).read()


def _error(text: str, position: int, found: str, rule: str = "") -> FilterError:
    hint = f"; {rule}" if rule else ""
    return FilterError(f"cannot read the filter {short_repr(text)}: {found} at position {position}{hint}")


TOKENS = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<path>[A-Za-z_]\w*(?:\[(?:"(?:[^"\\\r\n]|\\["\\])*"|'[^'"\\\r\n]*'|\d+)\])+)
    |(?P<string>"(?:[^"\\\r\n]|\\["'\\])*"|'(?:[^'\\\r\n]|\\["'\\])*')
    |(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<notin>not[ ]in\b)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>==|!=|<=|>=|&&|\|\||[-+*/%<>()\[\],])""",
    re.VERBOSE | re.ASCII,
)
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
FUNCTIONS = frozenset(f"{of}_contains{which}" for of in ("json", "array") for which in ("", "_all", "_any"))
KEYWORDS = frozenset({"and", "or", "not", "in", "like", "exists", "true", "false", "LIKE", "EXISTS"})
BOOLEANS = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int


class _Reader:
    """Recursive-descent parser that only checks; it raises at the first unexpected token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0
        self.conditions = 0

    def read(self) -> None:
        self._disjunction()
        if self._next.kind != "end":
            raise self._unexpected("and, or, or the end")

    @property
    def _next(self) -> _Token:
        return self.tokens[self.at]

    def _take(self, *texts: str) -> bool:
        """Step over the next token if it is one of these signs or words."""
        token = self._next
        found = token.kind in ("sign", "word", "notin") and token.text in texts
        self.at += found
        return found

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected(repr(text))

    def _unexpected(self, wanted: str) -> FilterError:
        token = self._next
        found = short_repr(token.text) if token.text else "the end"
        return _error(self.text, token.position, found, f"milvus-lite 2.5 needs {wanted} here")

    def _disjunction(self) -> None:
        self._condition()  # precedence of "and" and "or" does not matter for a check
        while self._take("and", "or", "&&", "||"):
            self._condition()

    def _condition(self) -> None:
        self._count()
        if self._take("("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise self._unexpected(f"at most {MAX_DEPTH} nested parentheses")
            self._disjunction()
            self._expect(")")
            self.depth -= 1
        elif self._take(*FUNCTIONS, *map(str.upper, FUNCTIONS)):
            self._function()
        elif self._is_literal():
            self._range()
        else:
            self._comparison()

    def _count(self) -> None:
        """Limit a chain to the depth of the engine's stack."""
        self.conditions += 1
        if self.conditions > MAX_CONDITIONS:
            raise self._unexpected(f"at most {MAX_CONDITIONS} conditions")

    def _function(self) -> None:
        self._expect("(")
        self._field()
        self._expect(",")
        self._value()
        self._expect(")")

    def _range(self) -> None:
        """Parse ``1 < field <= 3``; the engine parses ``1 < field`` and ``3 >= field > 1`` wrongly."""
        self._literal()
        for part in (self._field, self._literal):
            if not self._take("<", "<="):
                raise self._unexpected("a field on the left, or a range such as 1 < field < 3")
            part()

    def _comparison(self) -> None:
        if self._take("array_length", "ARRAY_LENGTH"):
            self._expect("(")
            self._field()
            self._expect(")")
        else:
            self._field()
            self._arithmetic()
        if self._take("in", "not in"):
            self._list()
        elif self._take("like", "LIKE"):
            self._string()
        elif self._take(*COMPARISONS):
            self._literal()
        else:
            raise self._unexpected("a comparison, in, not in or like")

    def _arithmetic(self) -> None:
        """Parse ``% 2`` and the like; dividing by zero would kill the engine."""
        operator = self._next.text
        if not self._take("+", "-", "*", "/", "%"):
            return
        if operator in "/%" and not re.fullmatch("[1-9][0-9]*", self._next.text):
            raise self._unexpected("a whole number above 0")
        self._number()

    def _field(self) -> None:
        token = self._next
        if token.kind not in ("word", "path") or token.text in KEYWORDS | BOOLEANS:
            raise self._unexpected("a field or a parenthesis")
        self.at += 1

    def _value(self) -> None:
        if self._next.text == "[":
            self._list()
        else:
            self._literal()

    def _list(self) -> None:
        self._expect("[")
        self._literal()
        while self._take(","):
            self._literal()
        self._expect("]")

    def _is_literal(self) -> bool:
        return self._next.kind in ("number", "string") or self._next.text in BOOLEANS | {"-", "+"}

    def _literal(self) -> None:
        if self._next.kind == "string" or self._next.text in BOOLEANS:
            self.at += 1
        else:
            self._take("-", "+")
            self._number()

    def _string(self) -> None:
        if self._next.kind != "string":
            raise self._unexpected("a string")
        self.at += 1

    def _number(self) -> None:
        """Parse a number that the engine parses as the same number."""
        text = self._next.text
        unsafe = text.isdigit() and (text != text.lstrip("0") or len(text) > 19 or int(text) >= 2**63) and text != "0"
        if self._next.kind != "number" or unsafe:
            raise self._unexpected("a literal: a string, a decimal number below 2**63, true or false")
        self.at += 1


def _tokens(text: str) -> list[_Token]:
    """Split an expression into tokens and an end token."""
    tokens, position = [], 0
    while position < len(text):
        match = TOKENS.match(text, position)
        if match is None:
            rule = "in strings, milvus-lite 2.5 reads no escapes but \\\\, \\\" and \\'"
            raise _error(text, position, repr(text[position]), rule)
        if match.lastgroup != "space":
            tokens.append(_Token(str(match.lastgroup), match.group(), position))
        position = match.end()
    return [*tokens, _Token("end", "", len(text))]
