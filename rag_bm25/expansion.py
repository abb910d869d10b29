"""What else to look for: synonyms, near spellings and prefixes of the terms of a query.

An inner product adds up whatever a query asks for, so three rules keep an expansion from drowning the query:

* an addition as a whole weighs at most its weight times what it stands for: rare synonyms, whose IDF is high, do not
  come before the word that was asked for. Lucene does the same by giving all of them the df of the most frequent one
  (``SynonymQuery``, ``TopTermsBlendedFreqScoringRewrite``);
* a term counts for one reason: as part of the query, or else for the one that gives it the greatest weight;
* what was asked for keeps its weight, unless a rule says that it is to be replaced.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from rag_bm25.analysis import query_tokens
from rag_bm25.errors import ParameterError, shown
from rag_bm25.parameters import check_int
from rag_bm25.spelling import MAX_LOOKUPS, MAX_TERMS, Fuzzy, Speller, most_frequent
from rag_bm25.synonyms import Synonyms
from rag_bm25.terms import words_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.lookup import TermLookup
    from rag_bm25.query import Query, QueryPart
    from rag_bm25.spelling import Dfs
    from rag_bm25.synonyms import SynonymMatch, SynonymTable

__all__ = ["Addition", "ExpandedQuery", "Expander", "Prefix", "QueryExpansion"]


@dataclass(frozen=True)
class Prefix:
    """How prefixes such as ``lab*`` are completed.

    All completions weigh the same, by the IDF of the most frequent one: which of them a chunk has says little. Of one
    query, the first 64 prefixes are completed, and any others taken for words.

    Parameters
    ----------
    max_terms : int
        How many completions at most, 1..1024: the most frequent ones.

    Raises
    ------
    ParameterError
        The value breaks its rule.
    """

    max_terms: int = 50

    def __post_init__(self) -> None:
        """Check the value."""
        check_int("max_terms", self.max_terms, 1, MAX_TERMS)


@dataclass(frozen=True)
class QueryExpansion:
    """What to add to queries.

    Parameters
    ----------
    synonyms : Synonyms, optional
        Rules, see :class:`rag_bm25.synonyms.Synonyms`.
    fuzzy : Fuzzy, optional
        Near spellings; needs rapidfuzz.
    prefix : Prefix
        How the prefixes of a query are completed; without any, nothing happens.

    Raises
    ------
    ParameterError
        A value is of another type.

    Examples
    --------
    >>> QueryExpansion(synonyms=Synonyms.of({"合同": ["协议"]}), fuzzy=Fuzzy(max_terms=3)).fuzzy
    Fuzzy(max_edits='auto', prefix_length=1, max_terms=3, terms='unknown')
    """

    synonyms: Synonyms | None = None
    fuzzy: Fuzzy | None = None
    prefix: Prefix = Prefix()

    def __post_init__(self) -> None:
        """Check the types."""
        for name, kind in (("synonyms", Synonyms), ("fuzzy", Fuzzy), ("prefix", Prefix)):
            value = getattr(self, name)
            if not isinstance(value, kind) and (value is not None or name == "prefix"):
                msg = f"{name} must be a {kind.__name__}, got {shown(value)}"
                raise ParameterError(msg)


@dataclass(frozen=True)
class Addition:
    """Terms that are added to a query together.

    Parameters
    ----------
    terms : tuple of str
        The terms; a chunk with all the words among them has what they stand for.
    stands_for : frozenset of str
        Which words of the query.
    reason : str
        As ``explain`` shows it.
    like : tuple of str
        The terms that all the added ones together may weigh no more than.
    factors : tuple of (str, float)
        Further factors of the weights, each with its name.
    """

    terms: tuple[str, ...]
    stands_for: frozenset[str]
    reason: str
    like: tuple[str, ...]
    factors: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ExpandedQuery:
    """The terms of a query and what was added.

    Parameters
    ----------
    own : dict of str to list of float
        Term of the query -> the boost of each of its occurrences.
    additions : Counter of Addition
        What was added, and how often.
    """

    own: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    additions: Counter[Addition] = field(default_factory=Counter)


@dataclass(frozen=True)
class Expander:
    """Analyse a query and add to its terms.

    Parameters
    ----------
    analyzer : callable of str to list of str
        Text -> tokens.
    expansion : QueryExpansion
        What to add.
    synonyms : SynonymTable, optional
        The synonyms, for this analyzer.
    lookup : TermLookup, optional
        The vocabulary; needed for near spellings and prefixes.

    Examples
    --------
    >>> import numpy as np
    >>> from rag_bm25.query import Query
    >>> query = Query.of({"fig": 2.0, "apple fig": 1.0})
    >>> dict(Expander(str.split).expand(query, lambda terms: np.ones(len(terms))).own)
    {'fig': [2.0, 1.0], 'apple': [1.0]}
    """

    analyzer: TextAnalyzer
    expansion: QueryExpansion = QueryExpansion()
    synonyms: SynonymTable | None = None
    lookup: TermLookup | None = None

    def expand(self, query: Query, dfs: Dfs) -> ExpandedQuery:
        """Return the terms of a query with what is added to them.

        Parameters
        ----------
        query : Query
            Its parts are analysed one by one.
        dfs : callable of sequence of str to ndarray of int64
            df of each term.

        Returns
        -------
        ExpandedQuery
            Without weights.
        """
        expanded = ExpandedQuery()
        prefixes = islice(dict.fromkeys(part for part in query.parts if part.prefix), MAX_LOOKUPS)
        completions = {part: self._completions(part, dfs) for part in prefixes}
        speller = self._speller(dfs)
        for part in query.parts:
            if completed := completions.get(part):
                expanded.additions.update(completed)
            else:
                self._add_text(part, expanded, speller)
        return expanded

    def _speller(self, dfs: Dfs) -> Speller | None:
        """Return what finds near spellings, if they are asked for."""
        if self.expansion.fuzzy is None or self.lookup is None:
            return None
        return Speller(self.expansion.fuzzy, self.analyzer, self.lookup, dfs)

    def _add_text(self, part: QueryPart, expanded: ExpandedQuery, speller: Speller | None) -> None:
        """Add the terms of a text, and what is to be added for them."""
        tokens = query_tokens(self.analyzer, part.text)
        words = words_in(tokens)
        counts = Counter(tokens)
        for match in self.synonyms.matches(words) if self.synonyms is not None else ():
            expanded.additions.update(_synonyms(match, words, part.boost))
            counts -= Counter(match.source if match.replaced else ())
        for term, count in counts.items():
            expanded.own[term] += [part.boost] * count
        if speller is not None:
            expanded.additions.update(_respellings(speller, part, words_in(counts)))

    def _completions(self, part: QueryPart, dfs: Dfs) -> list[Addition]:
        """Return the completions of a prefix, as it is written or, where that has none, as it is analysed."""
        if self.lookup is None:
            return []
        reason, stands_for = f"completes '{part.text}*'", frozenset([f"{part.text}*"])
        words = words_in(query_tokens(self.analyzer, part.text))
        for prefix in (part.text.casefold(), *words[-1:]):
            terms = most_frequent(self.lookup.beginning_with(prefix), dfs, self.expansion.prefix.max_terms)
            if terms:
                like = (terms[0],)
                return [Addition((term,), stands_for, reason, like, _boosted(part.boost)) for term in terms]
        return []


def _synonyms(match: SynonymMatch, words: Sequence[str], boost: float) -> Iterator[Addition]:
    """Yield what a match adds."""
    stands_for = words[match.start : match.end]
    reason = f"synonym {'in place of' if match.replaced else 'of'} {' '.join(stands_for)!r}"
    for substitute in match.substitutes:
        factors = (("weight of the synonym", substitute.weight), *_boosted(boost))
        yield Addition(substitute.tokens, frozenset(stands_for), reason, match.source, factors)


def _respellings(speller: Speller, part: QueryPart, words: Sequence[str]) -> Iterator[Addition]:
    """Yield near spellings; those of one word weigh no more than the most frequent one, or the word itself."""
    for found in speller.respellings(part.text, words):
        terms = [term for term, _ in found.terms]
        like = most_frequent([*terms, *(word for word in found.words if word == found.written)], speller.dfs, 1)
        for term, similarity in found.terms:
            factors = (("similarity of the spelling, 1 - edits / length", similarity), *_boosted(part.boost))
            reason = f"near spelling of {found.written!r}"
            yield Addition((term,), frozenset(found.words) & set(words), reason, tuple(like), factors)


def _boosted(boost: float) -> tuple[tuple[str, float], ...]:
    return () if boost == 1 else (("boost in the query", boost),)
