"""Query expansion: synonyms, near spellings, numbers, completed prefixes and single characters.

:mod:`rag_bm25.query.additions` has the rules for what is added.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.analysis.runs import is_syllabic
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.budget import check_budget
from rag_bm25.definitions import UNSET, check_fields, fill, repr_of_given
from rag_bm25.query.additions import Addition, ExpandedQuery
from rag_bm25.query.spelling import MAX_LOOKUPS, Fuzzy, Speller, most_frequent
from rag_bm25.query.synonyms import Synonyms
from rag_bm25.scripts import HAN_NUMERALS, han_number, read_han_number
from rag_bm25.vectors.terms import BIGRAM_MARK, is_single, is_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.query.lookup import TermLookup
    from rag_bm25.query.query import Query, QueryPart
    from rag_bm25.query.spelling import DfLookup
    from rag_bm25.query.synonyms import SynonymMatch, SynonymTable


MAX_COMPLETIONS = 50
"""Maximum number of completions of a prefix such as ``lab*``: the most frequent ones.

All have the same weight, by the IDF of the most frequent one: which of them a chunk has says little. The first 64
prefixes of a query are completed; any others are words like all others.
"""

_TWO, _FIRST_YEAR = 2, 1000
_QUANTITY = re.compile(
    rf"(?<![\d.,第月{HAN_NUMERALS}两])(?:(\d{{1,3}})|([{HAN_NUMERALS}两]{{1,6}}))\s?"
    "(个月|[年天日周岁倍元级届]|小时|分钟|万元|亿元)(?![代度份级])"
)


@dataclass(frozen=True, repr=False)
class QueryExpansion:
    """Terms to add to queries. What is not given is as in the index; None takes what the index has away.

    Parameters
    ----------
    synonyms : Synonyms, mapping of str to sequence of str, or None
        Synonyms by the words that they stand for, see :class:`rag_bm25.query.synonyms.Synonyms`; a mapping is kept as
        these.
    fuzzy : Fuzzy, bool or None
        Near spellings to search for, too; True for those of ``Fuzzy()``. They need rapidfuzz.
    synonym_phrases : bool
        Whether a synonym of several words is searched for as a phrase: by the bigrams across its words, if the index
        has these for all of them. If not, each of its words counts by itself.
    numerals : bool
        Whether a quantity is also searched for in its other spelling: 十年 for 10年, and the reverse.

    Examples
    --------
    >>> QueryExpansion(fuzzy=True, synonyms={"合同": ["协议"]}).spelling
    Fuzzy(max_edits='auto', prefix_length=1, max_terms=5, terms='unknown')
    >>> QueryExpansion(synonyms=None)
    QueryExpansion(synonyms=None)
    """

    synonyms: Synonyms | Mapping[str, Sequence[str]] | None = UNSET
    fuzzy: Fuzzy | bool | None = UNSET
    synonym_phrases: bool = UNSET
    numerals: bool = UNSET

    def __post_init__(self) -> None:
        check_fields(self)
        if isinstance(self.synonyms, Mapping):
            object.__setattr__(self, "synonyms", Synonyms.of(self.synonyms))

    def __repr__(self) -> str:
        return repr_of_given(self)

    def over(self, base: QueryExpansion) -> QueryExpansion:
        """Return this expansion, with the values of `base` where it has none.

        Parameters
        ----------
        base : QueryExpansion
            That of the index.

        Returns
        -------
        QueryExpansion
            All of its values are given if those of `base` are.
        """
        return fill(self, base)

    @property
    def spelling(self) -> Fuzzy | None:
        """How near spellings are found, if they are."""
        if isinstance(self.fuzzy, Fuzzy):
            return self.fuzzy
        return Fuzzy() if self.fuzzy is True else None

    @property
    def rules(self) -> Synonyms | None:
        """The synonyms, if they are given."""
        return self.synonyms if isinstance(self.synonyms, Synonyms) else None


DEFAULT_EXPANSION = QueryExpansion(synonyms=None, fuzzy=None, synonym_phrases=True, numerals=True)
"""The expansion of an index whose config names no other."""


@dataclass(frozen=True)
class Expander:
    """Analyse a query and add to its terms."""

    analyzer: TextAnalyzer
    expansion: QueryExpansion = DEFAULT_EXPANSION
    synonyms: SynonymTable | None = None  # those of the expansion, for this analyzer
    look_up: Callable[[], TermLookup] | None = None  # reads the vocabulary, where a query asks for it
    has_own_synonyms: bool = True  # given with the search, and not those of the index

    def __post_init__(self) -> None:
        object.__setattr__(self, "expansion", self.expansion.over(DEFAULT_EXPANSION))

    def expand(self, query: Query, dfs: DfLookup) -> ExpandedQuery:
        """Analyse the parts of a query one by one, and collect their terms and the additions."""
        expanded = ExpandedQuery()
        prefixes = islice(dict.fromkeys(part for part in query.parts if part.prefix), MAX_LOOKUPS)
        completions = {part: self._complete(part, dfs) for part in prefixes}
        speller = self._speller(dfs)
        for part in query.parts:
            check_budget()
            if completed := completions.get(part):
                expanded.additions.update(completed)
            else:
                self._add_text(part, expanded, speller)
        return expanded

    def _speller(self, dfs: DfLookup) -> Speller | None:
        if self.expansion.spelling is None or self.look_up is None:
            return None
        return Speller(self.expansion.spelling, self.analyzer, self.look_up(), dfs)

    def _add_text(self, part: QueryPart, expanded: ExpandedQuery, speller: Speller | None) -> None:
        """Add the terms of a text, its synonyms, its near spellings and its numbers in other characters."""
        text = AnalysedText.of_query(self.analyzer, part.text)
        counts = Counter(text.terms)
        for match in self.synonyms.matches(text.words) if self.synonyms is not None else ():
            expanded.additions.update(self._synonyms(match, text.words, part.boost))
            counts -= Counter(match.source.terms if match.replaced else ())
        expanded.own.update(counts)
        expanded.texts.append(part.text)
        for term, count in counts.items() if part.boost != 1 else ():
            expanded.boosts[term] += [part.boost] * count
        for term in text.question_terms:
            expanded.questions[term].append(part.boost)
        if speller is not None:
            words = list(filter(is_word, counts))
            expanded.additions.update(_respellings(speller, part, words))
        if self.expansion.numerals:
            expanded.additions.update(self._spelt_numbers(part))

    def _synonyms(self, match: SynonymMatch, words: Sequence[str], boost: float) -> Iterator[Addition]:
        """Yield the synonyms of a piece of a query."""
        stands_for = words[match.start : match.end]
        of_index = "" if self.has_own_synonyms else ", from the index"
        reason = f"synonym {'in place of' if match.replaced else 'of'} {' '.join(stands_for)!r}{of_index}"
        for substitute in match.substitutes:
            factors = (("synonym_weight", substitute.weight), *_boost(boost))
            phrase = substitute.analysed.phrase if self.expansion.synonym_phrases else ()
            yield Addition(substitute.analysed, frozenset(stands_for), reason, match.source.words, factors, phrase)

    def _spelt_numbers(self, part: QueryPart) -> Iterator[Addition]:
        """Yield the quantities in their other spelling, which weighs no more than what is written."""
        for number in spell_numbers(part.text):
            written, spelling = (AnalysedText.of_query(self.analyzer, text) for text in number)
            if written.words and spelling.words:
                phrase = spelling.phrase if self.expansion.synonym_phrases else ()
                reason = f"{number.written!r} as {number.spelling!r}"
                stands_for, boost = frozenset(written.words), _boost(part.boost)
                yield Addition(spelling, stands_for, reason, written.words, boost, phrase, is_numeral=True)

    def _complete(self, part: QueryPart, dfs: DfLookup) -> list[Addition]:
        """Return the completions of a prefix as it is written or, if it has none, as it is analysed."""
        if self.look_up is None:
            return []
        lookup = self.look_up()
        reason, stands_for = f"completes '{part.text}*'", frozenset([f"{part.text}*"])
        words = AnalysedText.of_query(self.analyzer, part.text).words
        for prefix in (part.text.casefold(), *words[-1:]):
            terms = most_frequent(lookup.beginning_with(prefix), dfs, MAX_COMPLETIONS)
            if terms:
                like, factors = (terms[0],), _boost(part.boost)
                return [Addition(AnalysedText((term,)), stands_for, reason, like, factors) for term in terms]
        return []

    def pairs(self, expanded: ExpandedQuery, known: set[str], dfs: DfLookup) -> Iterator[Addition]:
        """Yield the pairs that hold a character of the query, where chunks have no term for it wherever it stands.

        That is a common ideograph, if chunks have nothing else of the query, beside which it says little; or a syllable
        of kana or hangul, also if none has it as a word. Chunks have those terms of the query that are known.
        """
        own = expanded.own
        alone = [word for word in own if is_single(word) and BIGRAM_MARK + word not in own]
        if not alone or self.look_up is None:
            return
        if expanded.additions or not known & own.keys() <= set(alone):
            alone = [word for word in alone if is_syllabic(word) and word not in known]
        for word in alone[:MAX_LOOKUPS]:
            check_budget()
            pairs = most_frequent(self.look_up().pairs_with(word), dfs, MAX_COMPLETIONS)
            like = tuple(most_frequent([*pairs, word], dfs, 1))
            factors = expanded.mean_boost(word)
            for pair in pairs:
                yield Addition(AnalysedText(()), frozenset([word]), f"holds {word!r}", like, factors, phrase=(pair,))


def _respellings(speller: Speller, part: QueryPart, words: Sequence[str]) -> Iterator[Addition]:
    """Yield near spellings; those of one word weigh no more than the most frequent one, or the word itself."""
    for found in speller.respell(part.text, words):
        terms = [term for term, _ in found.terms]
        like = most_frequent([*terms, *(word for word in found.words if word == found.written)], speller.dfs, 1)
        for term, similarity in found.terms:
            factors = (("similarity, 1 - edits / length", similarity), *_boost(part.boost))
            reason = f"near spelling of {found.written!r}"
            stands_for = frozenset(found.words) & set(words)
            yield Addition(AnalysedText((term,)), stands_for, reason, tuple(like), factors)


def _boost(boost: float) -> tuple[tuple[str, float], ...]:
    return () if boost == 1 else (("boost, in the query", boost),)


class SpeltNumber(NamedTuple):
    """A quantity, in digits or in characters."""

    written: str
    spelling: str  # all of what is written, with the number in characters, or in digits


def spell_numbers(text: str) -> Iterator[SpeltNumber]:
    """Yield the quantities of a text in their other spelling: 10年 is 十年, and 2年 is 二年 and 两年."""
    for match in _QUANTITY.finditer(text):
        digits, characters, unit = match.groups()
        number = int(digits) if digits else read_han_number(characters.replace("两", "二"))
        if not 0 < number < _FIRST_YEAR:
            continue
        spellings = [han_number(number), *(["两"] if number == _TWO else [])] if digits else [str(number)]
        for spelling in spellings:
            yield SpeltNumber(match[0], spelling + unit)
