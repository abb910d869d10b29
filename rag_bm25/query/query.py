"""Queries in parts, each with its own boost: from a mapping, or parsed from text with ``^``, quotes and ``*``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rag_bm25.analysis.normalization import normalize
from rag_bm25.checks import as_str, check_int, is_number
from rag_bm25.errors import InputError, short_repr

MIN_BOOST, MAX_BOOST = 0.001, 1000.0
MAX_QUERY_CHARACTERS = 65_535
MAX_QUERY_PARTS = 16_384

_QUOTES = '"＂“”„«»「」『』'
_QUOTED = r"""(?: "[^"]+" | “[^“”]+” | ["＂“][^"＂“”]+["＂”] | ”[^“”]+” | „[^"“”„]+["“”]
    | «[^«»]+» | »[^«»]+« | 「[^「」]+」 | 『[^『』]+』 )"""
"""A text in quotes of any language, or of a keyboard that opens with one kind and closes with another."""
_BOOST = r"[\^＾](?P<boost>\d+(?:\.\d+)?|\.\d+)(?![A-Za-z0-9_^＾]|\.\d)"
_WORD = rf"(?<![^\s{_QUOTES}])[^\s{_QUOTES}*＊^＾]+"
_NO_CONDITION = r"[!-/:-@\[-`{-~]+(?!\S)"  # an arrow or a face
_ALL, _NONE = "+＋", "-－"
_OPERATOR = re.compile(
    rf"""(?<!\S) (?P<sign>[{_ALL}\{_NONE}])
        (?: (?P<signed_quoted>{_QUOTED})
          | (?P<signed>(?!{_NO_CONDITION})[^\s{_QUOTES}{_ALL}\{_NONE}][^\s{_QUOTES}^＾]*) )
        (?: {_BOOST.replace("boost", "signed_boost")} )?
    | (?<![A-Za-z0-9\\]) (?P<quoted>{_QUOTED}) (?: {_BOOST} )?
    | (?P<prefix>{_WORD}) [*＊] (?: {_BOOST.replace("boost", "prefix_boost")} | (?=\s|$) )
    | (?P<word>{_WORD}) {_BOOST.replace("boost", "word_boost")}""",
    re.VERBOSE,
)


_ESCAPED = re.compile(rf"(?<!\S)\\(?=[{_ALL}\{_NONE}{_QUOTES}])")
MAX_SLOP = 1000


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
        if not (is_number(self.boost) and MIN_BOOST <= self.boost <= MAX_BOOST):
            boost, text = short_repr(self.boost), short_repr(self.text)
            hint = "; a mapping is text -> boost. Of a chain's input, pass the question alone"
            msg = f"boost of {text} must be a number in {MIN_BOOST:g}..{MAX_BOOST:g}, got {boost}"
            raise InputError(msg + hint if isinstance(self.boost, str) else msg)
        if not isinstance(self.prefix, bool):
            raise InputError(f"prefix of {short_repr(self.text)} must be True or False, got {short_repr(self.prefix)}")


@dataclass(frozen=True, init=False)
class Query:
    """A query in parts, with conditions that its hits must meet.

    A plain str is always text: ``2^10`` searches for 2 and for 10. Boosts, prefixes and conditions need this class;
    :meth:`parse` reads them from a text. Conditions select hits and do not change their scores. Stop words, and
    whatever else the analyzer drops, are no condition beside other words in `must` and `must_not`. Where a text has
    nothing else, stop words are compared as the other words of phrases are, and signs such as 😀 as they are written.
    A word of one ideograph, kana or syllable of hangul is found within longer words, too.

    Parameters
    ----------
    text : str, mapping of str to float, or tuple of QueryPart
        What hits are ranked by: every hit has a term of it. Without any, they are ranked by the words of `must` and
        `phrases`.
    must : sequence of str
        Every hit has all words of each of these texts, in its text or its fields. A word that no chunk has leaves no
        hits.
    must_not : sequence of str
        No hit has all words of one of these texts.
    phrases : sequence of str
        Each of these texts is written in every hit, in its text or in a field, of a list in one item: the same words,
        stemmed, in this order, and nothing between them. Ideographs are compared one by one. A sign, or a blank between
        ideographs, is something between them unless the phrase has it, too.
    slop : int
        Maximum number of words, ideographs and signs that a phrase may have between its words besides its own, in
        0..1000.

    Attributes
    ----------
    parts : tuple of QueryPart
        The text, in the order of the query.

    Raises
    ------
    InputError
        The text has another type, a condition is not a sequence of str or a text of it is blank, or all of it has more
        than 65,535 characters.

    Examples
    --------
    >>> Query.parse('合同^2 解除 "劳动 争议"^0.5 lab*').parts
    (QueryPart(text='合同', boost=2.0, prefix=False),
     QueryPart(text='解除', boost=1.0, prefix=False),
     QueryPart(text='劳动 争议', boost=0.5, prefix=False),
     QueryPart(text='lab', boost=1.0, prefix=True))
    >>> Query("解除", must=["劳动合同"]).must
    ('劳动合同',)
    >>> Query.of({"合同": 2.0}) == Query((QueryPart("合同", 2.0),))
    True
    """

    parts: tuple[QueryPart, ...]
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    slop: int = 0

    def __init__(
        self,
        text: str | Mapping[str, float] | tuple[QueryPart, ...] = "",
        must: Sequence[str] = (),
        must_not: Sequence[str] = (),
        phrases: Sequence[str] = (),
        slop: int = 0,
    ) -> None:
        given = {"must": must, "must_not": must_not, "phrases": phrases}
        conditions = {name: _check_condition(name, texts) for name, texts in given.items()}
        parts = _to_parts(text)
        if not any(part.text.strip() for part in parts):
            ranked_by = dict.fromkeys((*conditions["must"], *conditions["phrases"]))
            parts = tuple(map(QueryPart, ranked_by)) or parts
        size = sum(map(len, [part.text for part in parts])) + sum(
            len(each) for of in conditions.values() for each in of
        )
        _check_size(size, len(parts) + sum(map(len, conditions.values())))
        object.__setattr__(self, "parts", parts)
        for name, texts in conditions.items():
            object.__setattr__(self, name, texts)
        object.__setattr__(self, "slop", check_int("slop", slop, 0, MAX_SLOP))

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
            return cls.parse(as_str(query)) if syntax else cls(query)
        if isinstance(query, Mapping):
            return cls(query)
        raise InputError(f"a query must be a str, a mapping of str to float or a Query, got {type(query).__name__}")

    @classmethod
    def parse(cls, text: str) -> Query:
        r"""Read boosts, prefixes and conditions; everything else is text as it is.

        ``word^2`` and ``"several words"^0.5`` are boosts, ``prefix*`` is a prefix. ``+word`` is text and a member of
        `must`, ``-word`` one of `must_not`, and ``"a phrase"`` is text and one of `phrases`; so is ``+"a phrase"``,
        while ``-"several words"`` leaves out chunks with all of them.

        A boost applies to everything since the last white space. To boost a part of a Chinese sentence, put that part
        into quotes: ``解除"合同"^2``. Quotes may be “ ”, „ “, « », 「 」, 『 』, or straight at one end and curled at
        the other, and signs full-width: ``－word``. Signs without a meaning, as in ``x^``, ``^2``, ``C*D``, ``a-b``,
        ``--all`` or ``->``, are text, and so is a sign after a backslash: ``\-5``, ``\"quoted"``.

        Parameters
        ----------
        text : str
            The query; one without parts if it is blank.

        Raises
        ------
        InputError
            The text is not a str or too long, or a boost is out of its range.
        """
        if not isinstance(text, str):
            raise InputError(f"a query must be a str, got {type(text).__name__}")
        _check_size(len(text))
        parts: list[QueryPart] = []
        conditions: dict[str, list[str]] = {"must": [], "must_not": [], "phrases": []}
        is_rest = False
        while match := _OPERATOR.search(text, int(is_rest and text[:1] in _ALL + _NONE)):
            parts += _plain_part(text[: match.start()])
            part, condition = _operator_part(match)
            if condition is not None and not _is_blank(part.text):
                conditions[condition].append(part.text)
            if condition != "must_not":
                parts.append(part)
            text, is_rest = text[match.end() :], True
        ranked_by = (*parts, *_plain_part(text))
        return cls(ranked_by, conditions["must"], conditions["must_not"], conditions["phrases"])

    def with_conditions(
        self,
        must: Sequence[str] = (),
        must_not: Sequence[str] = (),
        phrases: Sequence[str] = (),
        slop: int | None = None,
    ) -> Query:
        """Return the query with further conditions.

        Parameters
        ----------
        must, must_not, phrases
            As for the constructor; added to those of the query.
        slop : int, optional
            By default that of the query.

        Returns
        -------
        Query
            Another query; this one stays as it is.
        """
        return Query(
            self.parts,
            (*self.must, *_check_condition("must", must)),
            (*self.must_not, *_check_condition("must_not", must_not)),
            (*self.phrases, *_check_condition("phrases", phrases)),
            self.slop if slop is None else slop,
        )

    @property
    def has_conditions(self) -> bool:
        """Whether hits must meet a condition."""
        return bool(self.must or self.must_not or self.phrases)

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
    return [QueryPart(_ESCAPED.sub("", text.strip()))] if text.strip() else []


def _operator_part(match: re.Match[str]) -> tuple[QueryPart, str | None]:
    """Return a part, and the condition that it is as well."""
    found = match.groupdict()
    boost = found["signed_boost"] or found["boost"] or found["prefix_boost"] or found["word_boost"] or 1.0
    phrase, signed_phrase = (text and text[1:-1] for text in (found["quoted"], found["signed_quoted"]))
    signed = signed_phrase or found["signed"]
    part = QueryPart(signed or phrase or found["prefix"] or found["word"], float(boost), found["prefix"] is not None)
    if signed:
        required = "must" if found["signed"] else "phrases"
        return part, required if found["sign"] in _ALL else "must_not"
    return part, "phrases" if phrase and not found["boost"] else None


def _to_parts(text: object) -> tuple[QueryPart, ...]:
    """Read the text of a query in any of its forms."""
    if isinstance(text, str):
        return (QueryPart(text),)
    if isinstance(text, Mapping):
        return tuple(QueryPart(each, boost) for each, boost in text.items())
    if not isinstance(text, tuple):
        raise InputError(f"text must be a str, a mapping or a tuple of QueryPart, got {type(text).__name__}")
    for at, part in enumerate(text):
        if not isinstance(part, QueryPart):
            raise InputError(f"text[{at}] must be a QueryPart, got {type(part).__name__}")
    return text


def _is_blank(text: str) -> bool:
    """Return whether a text has only blanks and characters that are not seen."""
    return not normalize(text).strip()


def _check_condition(name: str, texts: object) -> tuple[str, ...]:
    if texts == ():
        return ()
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        hint = f"; for a single one, pass a list: [{short_repr(texts)}]" if isinstance(texts, str) else ""
        raise InputError(f"{name} must be a sequence of str, got {short_repr(texts)}{hint}")
    for at, text in enumerate(texts):
        if not isinstance(text, str) or _is_blank(text):
            raise InputError(f"{name}[{at}] must be a str that is not blank, got {short_repr(text)}")
    return tuple(map(as_str, texts))
