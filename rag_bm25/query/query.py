"""Queries in parts, each with its own boost: from a mapping, or parsed from text with ``^``, quotes and ``*``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rag_bm25.checks import as_str
from rag_bm25.errors import InputError, short_repr

MIN_BOOST, MAX_BOOST = 0.001, 1000.0
MAX_QUERY_CHARACTERS = 65_535
MAX_QUERY_PARTS = 16_384

_BOOST = r"\^(?P<boost>\d+(?:\.\d+)?|\.\d+)(?![A-Za-z0-9_^]|\.\d)"
_WORD = r"""(?<![^\s"“”])[^\s"“”*^]+"""
_OPERATOR = re.compile(
    rf"""(?: "(?P<quoted>[^"]+)" | “(?P<curled>[^“”]+)” ) {_BOOST}
    | (?P<prefix>{_WORD}) \* (?: {_BOOST.replace("boost", "prefix_boost")} | (?=\s|$) )
    | (?P<word>{_WORD}) {_BOOST.replace("boost", "word_boost")}""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class QueryPart:
    """A part of a query.

    Parameters
    ----------
    text : str
        Any text; it is analysed by itself.
    boost : float
        Factor of the weight of every term in it, in 0.001..1000; an :class:`~rag_bm25.InputError` outside.
    prefix : bool
        Whether to search for every term of the corpus that begins with the text, instead of the text.
    """

    text: str
    boost: float = 1.0
    prefix: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(f"a part of a query must be a str, got {type(self.text).__name__}")
        object.__setattr__(self, "text", as_str(self.text))
        number = isinstance(self.boost, int | float) and not isinstance(self.boost, bool)
        if not (number and MIN_BOOST <= self.boost <= MAX_BOOST):
            boost, text = short_repr(self.boost), short_repr(self.text)
            hint = "; a mapping is text -> boost. Of a chain's input, pass the question alone"
            msg = f"boost of {text} must be a number in {MIN_BOOST:g}..{MAX_BOOST:g}, got {boost}"
            raise InputError(msg + hint if isinstance(self.boost, str) else msg)
        if not isinstance(self.prefix, bool):
            raise InputError(f"prefix of {short_repr(self.text)} must be True or False, got {short_repr(self.prefix)}")


@dataclass(frozen=True)
class Query:
    """A query in parts.

    A plain str is always text: ``2^10`` searches for 2 and for 10. For boosts and prefixes, use this class or the
    option ``syntax=True``.

    Parameters
    ----------
    parts : tuple of QueryPart
        In the order of the query.

    Raises
    ------
    InputError
        The parts are not a tuple of QueryPart, or have more than 65,535 characters together.

    Examples
    --------
    >>> Query.parse('合同^2 解除 "劳动 争议"^0.5 lab*').parts
    (QueryPart(text='合同', boost=2.0, prefix=False),
     QueryPart(text='解除', boost=1.0, prefix=False),
     QueryPart(text='劳动 争议', boost=0.5, prefix=False),
     QueryPart(text='lab', boost=1.0, prefix=True))
    >>> Query.of({"合同": 2.0}) == Query((QueryPart("合同", 2.0),))
    True
    """

    parts: tuple[QueryPart, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple):
            raise InputError(f"parts must be a tuple of QueryPart, got {type(self.parts).__name__}")
        for at, part in enumerate(self.parts):
            if not isinstance(part, QueryPart):
                raise InputError(f"parts[{at}] must be a QueryPart, got {type(part).__name__}")
        _check_size(sum(len(part.text) for part in self.parts), len(self.parts))

    @classmethod
    def of(cls, query: QueryLike, *, syntax: bool = False) -> Query:
        """Make a query of any of its forms.

        Parameters
        ----------
        query : str, mapping of str to float, or Query
            A text, texts with their boosts, or a query, which is returned as it is.
        syntax : bool
            Whether to read a text by :meth:`parse`.

        Raises
        ------
        InputError
            The query has another type, or a boost is out of its range.
        """
        if isinstance(query, cls):
            return query
        if isinstance(query, str):
            return cls.parse(as_str(query)) if syntax else cls((QueryPart(query),))
        if isinstance(query, Mapping):
            return cls(tuple(QueryPart(text, boost) for text, boost in query.items()))
        raise InputError(f"a query must be a str, a mapping of str to float or a Query, got {type(query).__name__}")

    @classmethod
    def parse(cls, text: str) -> Query:
        r"""Read ``word^2``, ``"several words"^0.5`` and ``prefix*``; everything else is text as it is.

        A boost applies to everything since the last white space. To boost a part of a Chinese sentence, put that part
        into quotes: ``解除"合同"^2``. Signs without a meaning, as in ``x^``, ``^2``, ``"quoted"`` or ``C*D``, are text.

        Parameters
        ----------
        text : str
            The query; one without parts if it is blank.

        Raises
        ------
        InputError
            The text is not a str or too long, or a boost is out of its range.
        """
        parts: list[QueryPart] = []
        if not isinstance(text, str):
            raise InputError(f"a query must be a str, got {type(text).__name__}")
        _check_size(len(text))
        while match := _OPERATOR.search(text):
            parts += [*_plain_part(text[: match.start()]), _operator_part(match)]
            text = text[match.end() :]
        return cls((*parts, *_plain_part(text)))

    @property
    def has_prefix(self) -> bool:
        """Whether the query has a prefix to complete from the vocabulary."""
        return any(part.prefix for part in self.parts)

    def __str__(self) -> str:
        return " ".join(part.text for part in self.parts)


QueryLike: TypeAlias = "str | Mapping[str, float] | Query"
"""A query in any of its forms: a text, ``{text: boost}``, or a :class:`Query`."""


def _check_size(characters: int, parts: int = 1) -> None:
    """Refuse documents as queries."""
    for size, limit, what in ((characters, MAX_QUERY_CHARACTERS, "characters"), (parts, MAX_QUERY_PARTS, "parts")):
        if size > limit:
            raise InputError(f"a query must have at most {limit:,} {what}, got {size:,}: shorten it")


def _plain_part(text: str) -> list[QueryPart]:
    """Return the text between operators as a part, unless it is blank."""
    return [QueryPart(text.strip())] if text.strip() else []


def _operator_part(match: re.Match[str]) -> QueryPart:
    found = match.groupdict()
    boost = found["boost"] or found["prefix_boost"] or found["word_boost"] or 1.0
    text = found["quoted"] or found["curled"] or found["prefix"] or found["word"]
    return QueryPart(text, float(boost), found["prefix"] is not None)
