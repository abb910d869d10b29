"""Synonyms, applied to the query: read from a file or a mapping, and found in the tokens of a query."""

from __future__ import annotations

import codecs
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from rag_bm25.analysis import query_tokens
from rag_bm25.errors import InputError, shown
from rag_bm25.parameters import as_str, check_path, is_iterable
from rag_bm25.terms import words_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from rag_bm25.analysis import TextAnalyzer

__all__ = ["Substitute", "SynonymMatch", "SynonymRule", "SynonymTable", "Synonyms"]

MAX_RULES = 100_000
MAX_WORDS = 256  # of a rule, each of which may add all others
MAX_FILE_BYTES = 16 << 20

DEFAULT_WEIGHT = 0.8
MIN_WEIGHT, MAX_WEIGHT = 0.001, 1.0

_ARROW = re.compile(r"(?<!\\)=>")
_SEPARATOR = re.compile(r"(?<!\\)[,，]")
_WEIGHT = re.compile(r"(?<!\\)[\^|]\s*(\S+)\s*$")
_ESCAPED = re.compile(r"\\(.)")

_Words: TypeAlias = "tuple[tuple[str, float], ...]"


@dataclass(frozen=True)
class SynonymRule:
    """Words, and what else to look for where a query has one of them.

    Parameters
    ----------
    sources : tuple of str
        Words or phrases; each is replaced by, or adds, the others.
    targets : tuple of (str, float)
        Words or phrases with their weights, in 0.001..1.
    where : str
        Where the rule stands, for messages.

    Notes
    -----
    A source that is not among its targets is not searched for any more.
    """

    sources: tuple[str, ...]
    targets: _Words
    where: str


@dataclass(frozen=True)
class Synonyms:
    r"""Rules for synonyms, independent of any index; nothing has to be indexed anew for them.

    Parameters
    ----------
    rules : tuple of SynonymRule
        In any order, at most 100,000, of at most 256 words on each side. Those for one word add up; of several matches
        at one place of a query the longest counts.

    Raises
    ------
    InputError
        They are more, or something else.

    Examples
    --------
    >>> Synonyms.parse("car, automobile^0.9\nNBA => NBA, National Basketball Association")
    Synonyms(2 rules)
    >>> Synonyms.of({"合同": {"协议": 0.8}, "NBA": ["美国职业篮球联赛"]})
    Synonyms(2 rules)
    """

    rules: tuple[SynonymRule, ...]

    def __post_init__(self) -> None:
        """Check the types, and the sizes: each word of a rule may add all others."""
        if not isinstance(self.rules, tuple) or not all(isinstance(rule, SynonymRule) for rule in self.rules):
            msg = f"rules must be a tuple of SynonymRule, got {shown(self.rules)}"
            raise InputError(msg)
        _check_size("synonyms", len(self.rules), MAX_RULES, "rules")
        for rule in self.rules:
            _check_size(rule.where, max(len(rule.sources), len(rule.targets)), MAX_WORDS, "words on a side")

    @classmethod
    def read(cls, path: str | Path) -> Synonyms:
        """Read a file in the format of Solr and Elasticsearch, see :meth:`parse`.

        Parameters
        ----------
        path : str or Path
            A file in UTF-8, with or without a byte order mark.

        Returns
        -------
        Synonyms
            Its rules.

        Raises
        ------
        InputError
            A line cannot be read; the message has file and line.
        OSError
            The file cannot be opened.
        """
        with check_path("path", path).open("rb") as file:
            lines = file.read(MAX_FILE_BYTES + 1)
        _check_size(str(path), len(lines), MAX_FILE_BYTES, "bytes")
        return cls(tuple(_rules(lines.removeprefix(codecs.BOM_UTF8), str(path))))

    @classmethod
    def parse(cls, text: str, name: str = "synonyms") -> Synonyms:
        r"""Read lines such as ``a, b c, d`` and ``a, b => c, d``; ``#`` begins a comment.

        ``a, b, c``: where the query has one of them, the others are added. ``a, b => c``: `a` and `b` are replaced by
        `c`; to keep them, repeat them on the right. ``b^0.5``, or Solr's ``b|0.5``, is the weight of `b` wherever it is
        added, at most 1; without one it is 0.8. Commas may be full-width ones. A backslash takes the meaning from the
        sign after it: ``\,``.

        Parameters
        ----------
        text : str
            The lines.
        name : str
            Stands in messages, before the line.

        Returns
        -------
        Synonyms
            Their rules.

        Raises
        ------
        InputError
            A line cannot be read.
        """
        if not isinstance(text, str):
            msg = f"synonyms must be a str, got {type(text).__name__}"
            raise InputError(msg)
        return cls(tuple(_rules(as_str(text).encode(errors="surrogatepass"), name)))

    @classmethod
    def of(cls, mapping: Mapping[str, Iterable[str] | Mapping[str, float]]) -> Synonyms:
        """Return rules that add synonyms to single words, in one direction.

        Parameters
        ----------
        mapping : mapping of str to iterable of str, or to mapping of str to float
            Word or phrase -> what to add, with a weight in 0.001..1 or the default 0.8.

        Returns
        -------
        Synonyms
            A rule for each word.

        Raises
        ------
        InputError
            A word is blank, or a weight out of its range.
        """
        if not isinstance(mapping, Mapping):
            msg = f"synonyms must be a mapping, got {type(mapping).__name__}"
            raise InputError(msg)
        return cls(tuple(_rule_of(source, targets) for source, targets in mapping.items()))

    def __repr__(self) -> str:
        """Return the number of rules: there may be thousands."""
        return f"Synonyms({len(self.rules)} rules)"


def _check_size(where: str, size: int, limit: int, what: str) -> None:
    if size > limit:
        msg = f"{where} must have at most {limit:,} {what}, got {'more' if what == 'bytes' else f'{size:,}'}"
        raise InputError(msg)


@dataclass(frozen=True)
class Substitute:
    """One alternative to a piece of a query.

    Parameters
    ----------
    text : str
        As the rule has it.
    tokens : tuple of str
        Its tokens, bigrams included.
    weight : float
        Of the alternative as a whole, in 0.001..1.
    """

    text: str
    tokens: tuple[str, ...]
    weight: float


@dataclass(frozen=True)
class SynonymMatch:
    """A piece of a query that has synonyms.

    Parameters
    ----------
    start, end : int
        Which of the tokens, `end` not included.
    substitutes : tuple of Substitute
        What to add.
    source : tuple of str
        The tokens of the piece, bigrams included.
    replaced : bool
        Whether these are not to be searched for.
    """

    start: int
    end: int
    substitutes: tuple[Substitute, ...]
    source: tuple[str, ...]
    replaced: bool


class SynonymTable:
    """Synonyms as the tokens of one analyzer, so that phrases and Chinese words of several tokens are found too.

    Parameters
    ----------
    synonyms : Synonyms
        The rules.
    analyzer : callable of str to list of str
        Their texts are analysed like queries.

    Raises
    ------
    InputError
        The analyzer leaves nothing of a word.

    Examples
    --------
    >>> table = SynonymTable(Synonyms.parse("new york, ny"), str.split)
    >>> [(match.start, match.end, match.substitutes[0].text) for match in table.matches(["in", "new", "york"])]
    [(1, 3, 'ny')]
    """

    def __init__(self, synonyms: Synonyms, analyzer: TextAnalyzer) -> None:
        self._entries: dict[tuple[str, ...], _Entry] = {}
        for rule in synonyms.rules:
            self._add(rule, analyzer)
        lengths: dict[str, set[int]] = defaultdict(set)
        for words in self._entries:
            lengths[words[0]].add(len(words))
        self._lengths = {first: sorted(of_first, reverse=True) for first, of_first in lengths.items()}

    def matches(self, words: Sequence[str]) -> Iterator[SynonymMatch]:
        """Find the pieces that have synonyms, from left to right, the longest first.

        Parameters
        ----------
        words : sequence of str
            Tokens of a query, without bigrams.

        Yields
        ------
        SynonymMatch
            No two of them share a token.
        """
        start = 0
        while start < len(words):
            end = self._end_of_longest(words, start)
            if end > start:
                entry = self._entries[tuple(words[start:end])]
                yield SynonymMatch(start, end, tuple(entry.substitutes.values()), entry.source, not entry.kept)
            start = max(end, start + 1)

    def _add(self, rule: SynonymRule, analyzer: TextAnalyzer) -> None:
        """Enter a rule under each of its sources."""
        targets = [Substitute(text, _tokens(text, analyzer, rule), weight) for text, weight in rule.targets]
        for source in (_tokens(text, analyzer, rule) for text in rule.sources):
            entry = self._entries.setdefault(tuple(words_in(source)), _Entry(source))
            for target in targets:
                entry.add(target)

    def _end_of_longest(self, words: Sequence[str], start: int) -> int:
        """Return where the longest piece that begins at a word ends, `start` where there is none."""
        lengths = (length for length in self._lengths.get(words[start], ()) if start + length <= len(words))
        return next((start + n for n in lengths if tuple(words[start : start + n]) in self._entries), start)


@dataclass
class _Entry:
    """What the rules say of one source."""

    source: tuple[str, ...]
    kept: bool = False
    substitutes: dict[tuple[str, ...], Substitute] = field(default_factory=dict)

    def add(self, target: Substitute) -> None:
        if target.tokens == self.source:
            self.kept = True
        elif target.tokens not in self.substitutes or self.substitutes[target.tokens].weight < target.weight:
            self.substitutes[target.tokens] = target


def _tokens(text: str, analyzer: TextAnalyzer, rule: SynonymRule) -> tuple[str, ...]:
    tokens = tuple(query_tokens(analyzer, text))
    if not words_in(tokens):
        msg = f"{rule.where}: the analyzer leaves nothing of {shown(text)}"
        raise InputError(msg)
    return tokens


def _rules(lines: bytes, name: str) -> Iterator[SynonymRule]:
    for number, line in enumerate(lines.splitlines(), 1):
        where = f"{name} line {number}"
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            msg = f"{where}: not UTF-8 at byte {error.start} of the line"
            raise InputError(msg) from None
        if text and not text.startswith("#"):
            yield _rule(text, where)


def _rule(text: str, where: str) -> SynonymRule:
    """Read one line."""
    sides = [_words(side, where) for side in _ARROW.split(text)]
    if len(sides) > 2:
        msg = f"{where}: more than one =>"
        raise InputError(msg)
    if len(sides) == 1 and len(sides[0]) == 1:
        msg = f"{where}: a line needs two words with a comma between, or =>, got {shown(text)}"
        raise InputError(msg)
    return SynonymRule(tuple(word for word, _ in sides[0]), sides[-1], where)


def _words(side: str, where: str) -> _Words:
    return tuple(_word(entry.strip(), where) for entry in _SEPARATOR.split(side))


def _word(entry: str, where: str) -> tuple[str, float]:
    """Read a word with or without its weight."""
    weighted = _WEIGHT.search(entry)
    text = entry[: weighted.start()] if weighted else entry
    weight = _number(weighted[1]) if weighted else DEFAULT_WEIGHT
    return _checked(_ESCAPED.sub(r"\1", text).strip(), weight, where)


def _number(text: str) -> float | str:
    """Return a number, or the text where it is none."""
    try:
        return float(text)
    except ValueError:
        return text


def _checked(text: Any, weight: Any, where: str) -> tuple[str, float]:
    """Refuse blank words and weights out of range."""
    if not isinstance(text, str) or not text.strip():
        msg = f"{where}: a word must be a str and not blank, got {shown(text)}"
        raise InputError(msg)
    number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not (number and MIN_WEIGHT <= weight <= MAX_WEIGHT):
        msg = (
            f"{where}: weight of {shown(text)} must be a number in {MIN_WEIGHT:g}..{MAX_WEIGHT:g}, got {shown(weight)}"
        )
        raise InputError(msg)
    return as_str(text), float(weight)


def _rule_of(source: Any, targets: Any) -> SynonymRule:
    where = f"synonyms of {shown(source)}"
    if isinstance(targets, str) or not is_iterable(targets):
        msg = f"{where} must be a collection of str or a mapping of str to float, got {shown(targets)}"
        raise InputError(msg)
    weighted = targets.items() if isinstance(targets, Mapping) else ((text, DEFAULT_WEIGHT) for text in targets)
    words = [_checked(text, weight, where) for text, weight in weighted]
    checked, _ = _checked(source, 1.0, where)
    return SynonymRule((checked,), ((checked, 1.0), *words), where)
