"""Synonyms of the words of a query: read from a file or a mapping, and matched with the words of a query."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from rag_bm25.analysis.lines import decode_lines, read_lines
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.budget import check_budget
from rag_bm25.checks import as_str, find_bad_character, is_iterable, is_number
from rag_bm25.errors import InputError, short_repr

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from rag_bm25.analysis import TextAnalyzer

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
    """Words or phrases, and those to search for if a query has one of them: in its place, unless it is among them."""

    sources: tuple[str, ...]
    targets: _Words  # with their weights, in 0.001..1
    where: str = field(compare=False)  # place of the rule, for messages


@dataclass(frozen=True)
class Synonyms:
    r"""Rules for synonyms, independent of any index; no chunk has to be indexed again for them.

    Parameters
    ----------
    rules : tuple of SynonymRule
        At most 100,000, in any order, of at most 256 words on each side. Those for one word add up; of several matches
        at one place of a query the longest counts. Too many rules are an :class:`~rag_bm25.InputError`.

    Examples
    --------
    >>> Synonyms.parse("car, automobile^0.9\nNBA => NBA, National Basketball Association")
    Synonyms(2 rules)
    >>> Synonyms.of({"合同": {"协议": 0.8}, "NBA": ["美国职业篮球联赛"]})
    Synonyms(2 rules)
    """

    rules: tuple[SynonymRule, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.rules, tuple) or not all(isinstance(rule, SynonymRule) for rule in self.rules):
            raise InputError(f"rules must be a tuple of SynonymRule, got {short_repr(self.rules)}")
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

        Raises
        ------
        InputError
            A line cannot be read; the message has file and line.
        OSError
            The file cannot be opened.
        """
        return cls(tuple(_parse_lines(read_lines(path, MAX_FILE_BYTES), str(path))))

    @classmethod
    def parse(cls, text: str, name: str = "synonyms") -> Synonyms:
        r"""Read lines such as ``a, b c, d`` and ``a, b => c, d``; ``#`` begins a comment.

        ``a, b, c``: if the query has one of them, the others are added. ``a, b => c``: `a` and `b` are replaced by `c`;
        to keep them, repeat them on the right. ``b^0.5``, or Solr's ``b|0.5``, is the weight of `b` wherever it is
        added, at most 1; the default is 0.8. Commas may be full-width ones. A backslash takes the meaning from the sign
        after it: ``\,``.

        Parameters
        ----------
        text, name : str
            The lines, and the name that messages give them beside the number of the line.

        Raises
        ------
        InputError
            A line cannot be read.
        """
        if not isinstance(text, str):
            raise InputError(f"synonyms must be a str, got {type(text).__name__}")
        lines = decode_lines(as_str(text).encode(errors="surrogatepass"), name)
        return cls(tuple(_parse_lines(lines, name)))

    @classmethod
    def of(cls, mapping: Mapping[str, Iterable[str] | Mapping[str, float]]) -> Synonyms:
        """Return rules that add synonyms to single words, in one direction.

        Parameters
        ----------
        mapping : mapping of str to iterable of str, or to mapping of str to float
            Word or phrase -> its synonyms, each with a weight in 0.001..1 or the default 0.8.

        Raises
        ------
        InputError
            A word is blank, or a weight is out of its range.
        """
        if not isinstance(mapping, Mapping):
            raise InputError(f"synonyms must be a mapping, got {type(mapping).__name__}")
        return cls(tuple(_make_rule(source, targets) for source, targets in mapping.items()))

    def to_lists(self) -> list[Any]:
        """Return the rules as JSON has them: the words on the left, and those on the right with their weights.

        Returns
        -------
        list
            For :meth:`from_lists`.
        """
        return [[list(rule.sources), list(map(list, rule.targets))] for rule in self.rules]

    @classmethod
    def from_lists(cls, rules: Iterable[Any]) -> Synonyms:
        """Return the rules of :meth:`to_lists`.

        Parameters
        ----------
        rules : iterable of list
            As they were returned.

        Raises
        ------
        InputError
            A word is blank, or a weight is out of its range.
        """
        made = []
        for number, (sources, targets) in enumerate(rules, 1):
            where = f"synonyms rule {number}"
            words = tuple(_check_word(text, weight, where) for text, weight in targets)
            made.append(SynonymRule(tuple(_check_word(text, 1.0, where)[0] for text in sources), words, where))
        return cls(tuple(made))

    def __repr__(self) -> str:
        return f"Synonyms({len(self.rules)} rules)"


def _check_size(where: str, size: int, limit: int, what: str) -> None:
    if size > limit:
        raise InputError(f"{where} must have at most {limit:,} {what}, got {size:,}")


@dataclass(frozen=True)
class Substitute:
    """A synonym of a piece of a query."""

    analysed: AnalysedText
    weight: float  # of the synonym as a whole, in 0.001..1


@dataclass(frozen=True)
class SynonymMatch:
    """A piece of a query that has synonyms: its words from `start` to `end`, which is not included."""

    start: int
    end: int
    substitutes: tuple[Substitute, ...]
    source: AnalysedText  # the piece
    replaced: bool  # whether the query drops the piece


class SynonymTable:
    """Synonyms as the words of one analyzer, so that phrases and Chinese words of several tokens match, too."""

    def __init__(self, synonyms: Synonyms, analyzer: TextAnalyzer) -> None:
        self._entries: dict[tuple[str, ...], _Entry] = {}
        for rule in synonyms.rules:
            check_budget()
            self._add(rule, analyzer)
        lengths: dict[str, set[int]] = defaultdict(set)
        for words in self._entries:
            lengths[words[0]].add(len(words))
        self._lengths = {first: sorted(of_first, reverse=True) for first, of_first in lengths.items()}

    def matches(self, words: Sequence[str]) -> Iterator[SynonymMatch]:
        """Yield the pieces of a query that have synonyms, from left to right, the longest first; none overlap."""
        start = 0
        while start < len(words):
            end = self._end_of_longest(words, start)
            if end > start:
                entry = self._entries[tuple(words[start:end])]
                yield SynonymMatch(start, end, tuple(entry.substitutes.values()), entry.source, not entry.kept)
            start = max(end, start + 1)

    def _add(self, rule: SynonymRule, analyzer: TextAnalyzer) -> None:
        """Enter a rule under each of its sources."""
        targets = [Substitute(_analyse(text, analyzer, rule), weight) for text, weight in rule.targets]
        for source in (_analyse(text, analyzer, rule) for text in rule.sources):
            entry = self._entries.setdefault(source.words, _Entry(source))
            for target in targets:
                entry.add(target)

    def _end_of_longest(self, words: Sequence[str], start: int) -> int:
        """Return the end of the longest piece that begins at a word, `start` if there is none."""
        lengths = (length for length in self._lengths.get(words[start], ()) if start + length <= len(words))
        return next((start + n for n in lengths if tuple(words[start : start + n]) in self._entries), start)


@dataclass
class _Entry:
    """The rules for one source."""

    source: AnalysedText
    kept: bool = False
    substitutes: dict[AnalysedText, Substitute] = field(default_factory=dict)

    def add(self, target: Substitute) -> None:
        known = self.substitutes.get(target.analysed)
        if target.analysed == self.source:
            self.kept = True
        elif known is None or known.weight < target.weight:
            self.substitutes[target.analysed] = target


def _analyse(text: str, analyzer: TextAnalyzer, rule: SynonymRule) -> AnalysedText:
    analysed = AnalysedText.of_query(analyzer, text)
    if not analysed.words:
        raise InputError(f"{rule.where}: the analyzer drops all of {short_repr(text)}")
    return analysed


def _parse_lines(lines: Iterable[tuple[int, str]], name: str) -> Iterator[SynonymRule]:
    for number, text in lines:
        if text and not text.startswith("#"):
            yield _parse_line(text, f"{name} line {number}")


def _parse_line(text: str, where: str) -> SynonymRule:
    sides = [_parse_side(side, where) for side in _ARROW.split(text)]
    if len(sides) > 2:
        raise InputError(f"{where}: a line must have at most one =>")
    if len(sides) == 1 and len(sides[0]) == 1:
        msg = f"{where}: a line must have two words with a comma between them, or =>, got {short_repr(text)}"
        raise InputError(msg)
    return SynonymRule(tuple(word for word, _ in sides[0]), sides[-1], where)


def _parse_side(side: str, where: str) -> _Words:
    return tuple(_parse_word(entry.strip(), where) for entry in _SEPARATOR.split(side))


def _parse_word(entry: str, where: str) -> tuple[str, float]:
    """Read a word with or without its weight."""
    weighted = _WEIGHT.search(entry)
    text = entry[: weighted.start()] if weighted else entry
    weight = _parse_number(weighted[1]) if weighted else DEFAULT_WEIGHT
    return _check_word(_ESCAPED.sub(r"\1", text).strip(), weight, where)


def _parse_number(text: str) -> float | str:
    """Read a number; return any other text as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def _check_word(text: Any, weight: Any, where: str) -> tuple[str, float]:
    """Refuse blank words, those that cannot be stored, and weights out of range."""
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where}: a word must be a str and not blank, got {short_repr(text)}")
    if fault := find_bad_character(text):  # the index may have to store it
        raise InputError(f"{where}: the word {short_repr(text)} has {fault}")
    if not (is_number(weight) and MIN_WEIGHT <= weight <= MAX_WEIGHT):
        rule = f"a number in {MIN_WEIGHT:g}..{MAX_WEIGHT:g}"
        raise InputError(f"{where}: weight of {short_repr(text)} must be {rule}, got {short_repr(weight)}")
    return as_str(text), float(weight)


def _make_rule(source: Any, targets: Any) -> SynonymRule:
    where = f"synonyms of {short_repr(source)}"
    if isinstance(targets, str) or not is_iterable(targets):
        raise InputError(f"{where} must be a collection of str or a mapping of str to float, got {short_repr(targets)}")
    weighted = targets.items() if isinstance(targets, Mapping) else ((text, DEFAULT_WEIGHT) for text in targets)
    words = [_check_word(text, weight, where) for text, weight in weighted]
    checked, _ = _check_word(source, 1.0, where)
    return SynonymRule((checked,), ((checked, 1.0), *words), where)
