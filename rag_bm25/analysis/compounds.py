"""The names of a query that are several terms, and the ways in which a chunk may have them."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.analysis.runs import is_segmented, is_syllabic
from rag_bm25.analysis.words import words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rag_bm25.analysis.text import TextAnalyzer
    from rag_bm25.analysis.words import TermMemo

MAX_WAYS = 64  # of one name; a name of five parts has fewer


class Way(NamedTuple):
    """Terms that together are all of a name, and the words of it that the analyzer drops."""

    terms: frozenset[str]
    dropped: frozenset[str] = frozenset()  # as phrases have them


class Compound(NamedTuple):
    """A name such as Wi-Fi, which a chunk has as ``wifi``, or as ``wi`` and ``fi``."""

    terms: tuple[str, ...]  # all of them in the order of the analyzer, with repeats
    ways: tuple[Way, ...]


class _Part(NamedTuple):
    way: Way
    place: frozenset[int]


def compounds_of(analyzer: TextAnalyzer, text: str) -> list[Compound]:
    """Return the compounds of a query, if the analyzer has a method ``compounds``."""
    find: Callable[[str], list[Compound]] | None = getattr(analyzer, "compounds", None)
    return [] if find is None else find(text)


def compounds_among(words: Counter[str], compounds: Sequence[Compound]) -> tuple[Counter[str], list[Compound]]:
    """Return the words that stand alone, and the compounds all of whose terms are among the words."""
    alone, found = words.copy(), []
    for compound in compounds:
        terms = Counter(compound.terms)
        if terms <= alone:
            alone -= terms
            found.append(compound)
    return alone, found


def compound_of(run: str, memo: TermMemo) -> Compound | None:
    """Return a run that is a term as a whole, and others; its terms in any way cover each letter and digit of it."""
    if is_segmented(run) or is_syllabic(run):
        return None
    terms: list[str] = []
    parts: list[_Part] = []
    for word, start, end in words_of(run, memo.rules):
        place, made = frozenset(range(start, end)), memo.terms_of(word)
        terms += made
        parts += [_Part(Way(frozenset([term])), place) for term in made]
        parts += [] if made else [_Part(Way(frozenset(), frozenset([memo.stemming.term(word)])), place)]
    if len(terms) < 2:
        return None
    signs = {at for at, character in enumerate(run) if at and not character.isalnum()}
    covered = frozenset().union(*(part.place for part in parts)) - signs
    if not any(part.way.terms and part.place >= covered for part in parts):
        return None
    return Compound(tuple(terms), tuple(islice(_ways(parts, covered), MAX_WAYS)))


def _ways(parts: Sequence[_Part], places: frozenset[int]) -> Iterator[Way]:
    """Yield the ways to cover places by parts, each of which begins where the ones before it end."""
    if not places:
        yield Way(frozenset())
        return
    first = min(places)
    for (terms, dropped), place in parts:
        if min(place) == first:
            for rest in _ways(parts, places - place):
                yield Way(terms | rest.terms, dropped | rest.dropped)
