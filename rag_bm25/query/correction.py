"""Corrected queries: "did you mean ...?", in words that the texts have."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_bm25.analysis.places import locate_terms
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.analysis.words import MAX_TOKEN_LENGTH
from rag_bm25.query.lookup import TermLookup
from rag_bm25.query.spelling import HAN_RUN, LETTERS, NAME, Speller, most_frequent

if TYPE_CHECKING:
    from collections.abc import Callable

SHORTEST_STEM = 3
"""Minimum length of a stem that a word is completed from."""
MAX_COMPLETED = 2
"""Number of terms whose forms are looked up for a beginning."""


@dataclass(frozen=True)
class Corrector:
    """Correct the misspelt words of a query, and complete the last one, which may not have been typed to its end."""

    speller: Speller
    texts_with: Callable[[str], list[str]]  # returns texts of some chunks with a term

    def correct(self, text: str) -> str | None:
        """Put the likeliest word in the place of each one that no chunk has; return None if nothing changes."""
        spelt = HAN_RUN.sub(lambda run: self._correct_run(run[0]), text)
        corrected = NAME.sub(lambda name: self._correct_name(name[0], is_last=name.end() == len(spelt)), spelt)
        return corrected if corrected != text else None

    def _correct_run(self, run: str) -> str:
        """Correct a run of Chinese: the longest pieces first, and none twice."""
        for respelling in sorted(self.speller.respell_pieces(run), key=lambda found: -len(found.written)):
            if respelling.written in run:
                form = self._nearest_form(respelling.terms[0][0], respelling.written)
                run = run.replace(respelling.written, form or respelling.written)
        return run

    def _correct_name(self, name: str, *, is_last: bool) -> str:
        """Correct a word; a name with digits becomes one that chunks have, or stays: 0SAA is not 0SAYS."""
        if LETTERS.fullmatch(name):
            return self._correct_word(name, is_last=is_last)
        if self._is_known(name):  # its words alone may be unknown: 3rdparty is one term
            return name
        corrected = LETTERS.sub(
            lambda word: self._correct_word(word[0], is_last=is_last and word.end() == len(name)), name
        )
        return corrected if self._is_known(corrected) else name

    def _is_known(self, name: str) -> bool:
        terms = AnalysedText.of_query(self.speller.analyzer, name).words
        return bool(terms) and bool(self.speller.dfs(terms[:1])[0])

    def _correct_word(self, word: str, *, is_last: bool) -> str:
        """Complete or correct a word of letters that is one unknown term, in its own letter case."""
        terms = AnalysedText.of_query(self.speller.analyzer, word).words
        if len(terms) != 1 or not self.speller.fuzzy.edits(terms[0]) or self.speller.dfs(terms)[0]:
            return word
        form = self._likeliest_form(word.casefold(), terms[0], is_last=is_last)
        return _match_case(word, form) if form else word

    def _likeliest_form(self, word: str, term: str, *, is_last: bool) -> str:
        """Return a form of a longer term, one with a near spelling or, if there is neither, one of a stem."""
        longer = self._longer_than(word) if is_last else []
        stems = self._stems_of(word) if is_last else []
        completed = self._complete(word, [*longer, *stems]) if longer else ""
        return completed or self._respell(word, term) or self._complete(word, stems)

    def _longer_than(self, word: str) -> list[str]:
        """Return the known terms that begin with a word, the most frequent ones."""
        longer = list(filter(LETTERS.fullmatch, self.speller.lookup.beginning_with(word)))
        return most_frequent(longer, self.speller.dfs, MAX_COMPLETED)

    def _stems_of(self, word: str) -> list[str]:
        """Return the longest known term that a word begins with: of ``runnin``, ``run``."""
        shorter = [word[:end] for end in range(len(word) - 1, SHORTEST_STEM - 1, -1)]
        return [term for term, df in zip(shorter, self.speller.dfs(shorter).tolist(), strict=True) if df][:1]

    def _complete(self, word: str, terms: list[str]) -> str:
        """Return the form of the most frequent term that has one with this beginning."""
        frequent = most_frequent(terms, self.speller.dfs, MAX_COMPLETED)
        return next(filter(None, (self._nearest_form(term, word, beginning=word) for term in frequent)), "")

    def _respell(self, word: str, term: str) -> str:
        """Return the form nearest to a word, among those that texts have of the terms near it."""
        forms = (self._nearest_form(near, word) for near in self.speller.terms_near(word, term))
        edits = {form: _edits([form], word).get(form, 0) for form in forms if form and self._is_near(form, word)}
        return min(edits, key=edits.__getitem__, default="")

    def _is_near(self, form: str, word: str) -> bool:
        """Return whether a form, or its beginning, is a near spelling of a word, or of its beginning."""
        small, limit, shorter = form.casefold(), self.speller.fuzzy.edits(word), min(len(form), len(word))
        pairs = ((small, word), (small[:shorter], word[:shorter]))
        return any(one == other or _edits([one], other).get(one, 0) <= limit for one, other in pairs)

    def _nearest_form(self, term: str, word: str, beginning: str = "") -> str:
        """Return the form of a term with the fewest edits, and of these the most frequent one; "" if there is none."""
        forms = self._forms_of(term)
        edits = _edits([form for form in forms if form.casefold().startswith(beginning)], word)
        return min(edits, key=lambda form: (edits[form], -forms[form], form), default="")

    def _forms_of(self, term: str) -> Counter[str]:
        """Count how texts write a term: a term is a stem."""
        forms: Counter[str] = Counter()
        for part, count in Counter(self._parts_with(term)).items():
            for _, start, end in locate_terms(self.speller.analyzer, {term}, part):
                forms[self._in_small_letters(part[start:end], term)] += count
        return forms

    def _parts_with(self, term: str) -> list[str]:
        """Return the parts of texts that may have a term; to analyse all words would take longer than the search."""
        texts = self.texts_with(term)
        if not LETTERS.fullmatch(term):
            return texts
        initial = term[0].casefold()
        return [word for text in texts for word in LETTERS.findall(text) if word[0].casefold().startswith(initial)]

    def _in_small_letters(self, form: str, term: str) -> str:
        """Return a form in small letters, unless it is another term, or none, in these: IT."""
        small = form.lower()
        return small if term in AnalysedText.of_query(self.speller.analyzer, small).words else form


def _edits(forms: list[str], word: str) -> dict[str, int]:
    """Return how many edits some other words are from a word."""
    return TermLookup().plus(forms).within(word, MAX_TOKEN_LENGTH, 0)


def _match_case(word: str, spelt: str) -> str:
    if word.isupper():
        return spelt.upper()
    return spelt[0].upper() + spelt[1:] if word[0].isupper() else spelt
