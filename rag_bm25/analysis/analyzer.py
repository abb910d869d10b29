"""The default analyzer."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from itertools import accumulate, chain, filterfalse
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from rag_bm25.analysis.channels import bigrams_of, characters_of, locate_bigrams, locate_characters
from rag_bm25.analysis.compounds import compound_of
from rag_bm25.analysis.config import AnalyzerConfig
from rag_bm25.analysis.normalization import (
    Origins,
    join_lines,
    keeps_places,
    normalize,
    plain_form,
    settle_capitals,
    settle_case,
)
from rag_bm25.analysis.numbers import (
    cut_numbers,
    join_thousands,
    locate_numbers,
    number_terms,
    part_times,
    respell_numbers,
)
from rag_bm25.analysis.phrases import PhraseAnalyzer, PhraseText, PhraseWords
from rag_bm25.analysis.runs import (
    find_runs,
    find_runs_and_signs,
    holds_letters,
    holds_segmented,
    is_all_segmented,
    is_segmented,
    is_syllabic,
    locate_runs,
)
from rag_bm25.analysis.segmentation import RUN_END, Cutters, SegmenterName, place_words
from rag_bm25.analysis.stop_structures import places_in_words, skip_stop_structures
from rag_bm25.analysis.text import Token, shift
from rag_bm25.analysis.user_words import UserWords
from rag_bm25.analysis.word_bigrams import WordBigrams
from rag_bm25.analysis.word_numbers import WordNumbers
from rag_bm25.analysis.words import (
    Stemming,
    TermMemo,
    WordRules,
    is_stop_word,
    without_apostrophes,
    words_of,
)
from rag_bm25.checks import check_choice
from rag_bm25.vectors.terms import BIGRAM_MARK, QUESTION_MARK, is_word, is_word_bigram

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from rag_bm25.analysis.compounds import Compound
    from rag_bm25.analysis.config import Segmentation


class Analyzer(PhraseAnalyzer):
    r"""The default analyzer, for Chinese and English in one text, with versions, numbers and identifiers.

    jieba's dictionary is loaded at the first Chinese text (0.1 s with rjieba, 0.5 s without). Threads can share an
    analyzer. A pickled one loads the dictionary again where it is unpickled.

    Parameters
    ----------
    config : AnalyzerConfig
        The settings.
    segmenter : {"auto", "jieba", "rjieba"}
        Library that cuts Chinese. The words are the same; rjieba is faster, and the default if it is installed.

    Raises
    ------
    ParameterError
        There is no such segmenter.

    Examples
    --------
    >>> analyzer = Analyzer()
    >>> analyzer("Milvus v2.5.1 與全文檢索")
    ['milvus', '2.5.1', '2.5', '与', '全文', '检索', '全文检索', '\x00与全', '\x00全文', '\x00文检', '\x00检索', ...]
    >>> analyzer.query("Can you tell me about the IT department?")
    ['it', 'depart', '\x00it depart']
    >>> analyzer.query("What is the IT department?")
    ['it', 'depart', '\x00it depart', '\x00\x00what']
    >>> analyzer.stop_words_in("What is the IT department?")
    ['is', 'the']
    """

    def __init__(self, config: AnalyzerConfig = AnalyzerConfig(), *, segmenter: SegmenterName = "auto") -> None:  # noqa: B008
        check_choice("segmenter", segmenter, get_args(SegmenterName))
        self.config = config
        self.segmenter = segmenter
        stop_words = frozenset(map(self._stop_form, config.stop_words))
        self._rules = rules = WordRules(stop_words, config.compounds, config.split_camel_case)
        stemming = Stemming(stem=config.stem)
        self._in_chunks = _Kept(stop_words, rules, stemming)
        self._in_queries = _Kept(stop_words.union(map(self._stop_form, config.question_words)), rules, stemming)
        self._word_bigrams = self._in_chunks.word_bigrams
        self._phrase_words = PhraseWords(rules, stemming)
        self._stemming = stemming
        user_words = self._normalized_user_words()
        segmented_words = {word: f for word, f in user_words.items() if is_all_segmented(word)}
        self._exact, self._search = Cutters.of(segmenter, segmented_words)
        other_words = user_words.keys() - segmented_words.keys()
        self._other_words = UserWords(other_words) if other_words else None

    def __call__(self, text: str) -> list[str]:
        """Return the tokens of a chunk, as :meth:`query` returns those of a query."""
        form = self._normal_form(text)
        numbers = number_terms(form, self._hidden_places(form))
        return self._tokens(form, self.config.segmentation, self._in_chunks, numbers)

    @property
    def has_channels(self) -> bool:
        """Whether :meth:`channels` knows the tokens of a chunk: none is dropped by its characters, or spans scripts."""
        return type(self) is Analyzer and self._other_words is None and not self._in_chunks.dropped_chinese

    def channels(self, texts: Iterable[str]) -> tuple[WordNumbers, list[str]]:
        """Return the tokens of chunks by channel, where :attr:`has_channels`.

        Parameters
        ----------
        texts : iterable of str
            Any texts.

        Returns
        -------
        tuple of WordNumbers and list of str
            The words and their bigrams, and the normalised texts, whose ideographs are the other channels.
        """
        config, kept = self.config, self._in_chunks
        words, forms = WordNumbers(kept.word_bigrams), []
        for text in texts:
            form = self._normal_form(text)
            forms.append(form)
            if holds_segmented(form):
                of_chunk = self._tokens_between(form, config.segmentation, kept)
                words.add_tokens(
                    chain(of_chunk, number_terms(form)), kept.word_bigrams.of(form) if config.word_bigrams else ()
                )
            else:
                runs = find_runs_and_signs(form) if config.word_bigrams else find_runs(form)
                words.add_runs(runs, number_terms(form))
        return words, forms

    def query(self, text: str) -> list[str]:
        """Return the tokens of a query.

        Parameters
        ----------
        text : str
            Any text.

        Returns
        -------
        list of str
            Words of 1 to 64 characters in text order, with repeats; after them the bigrams and the characters,
            likewise, each marked by :data:`rag_bm25.vectors.terms.BIGRAM_MARK`; and then those of question words, each
            marked by :data:`~rag_bm25.vectors.terms.QUESTION_MARK`, unless the query has no other words.
        """
        query = self._query(text)
        return [*query.tokens, *(QUESTION_MARK + term for term in query.question_terms)]

    def compounds(self, text: str) -> list[Compound]:
        """Return the names of a query that are several words, as :meth:`query` has them.

        Parameters
        ----------
        text : str
            Any text.

        Returns
        -------
        list of Compound
            In text order, each with the ways in which a chunk may have it.
        """
        query = self._query(text)
        found = (compound_of(run, query.kept.terms) for run in self._runs(query.searched))
        return [compound for compound in found if compound is not None]

    def locate(self, text: str) -> list[Token]:
        r"""Return the tokens of a chunk with their places in its text.

        Parameters
        ----------
        text : str
            Any text.

        Returns
        -------
        list of Token
            The tokens of ``analyzer(text)``, in the same order, each with the `start` and `end` of the part of the text
            that it comes from, so that ``text[start:end]`` may be spelt otherwise. A bigram of words covers both, and
            one of characters, which a sentence has once, is returned at each of its places.

        Examples
        --------
        >>> Analyzer().locate("全文檢索")[:2]
        [Token(text='全文', start=0, end=2), Token(text='检索', start=2, end=4)]
        """
        form, tokens, at = self._normal_form(text), [], 0
        for number, piece in enumerate(self._pieces(form)):
            if number % 2:
                tokens.append(Token(piece.casefold(), at, at + len(piece)))
            else:
                tokens += self._locate_between(piece, at)
            at += len(piece)
        tokens += locate_numbers(form, self._hidden_places(form))
        if self.config.bigrams:
            tokens += locate_bigrams(form, self._in_chunks.dropped_chinese)
        if self.config.characters:
            tokens += locate_characters(form, self._in_chunks.dropped_chinese)
        if self.config.word_bigrams:
            tokens += self._word_bigrams.locate(form)
        if not tokens or form is text or keeps_places(text):
            return tokens
        origins = Origins(text, simplify=self.config.simplify)
        return [Token(token, *origins.of(start, end)) for token, start, end in tokens]

    def stop_words_in(self, text: str, counted: Collection[str] | None = None) -> list[str]:
        """Return the stop words, and the words of stop structures, that are dropped from a query.

        Parameters
        ----------
        text : str
            Any text.
        counted : collection of str, optional
            The terms of its question words that count; by default all.

        Returns
        -------
        list of str
            In text order, without repeats.
        """
        query = self._query(text)
        searched = {word for word in self._words(query.searched) if not is_stop_word(word, query.kept.dropped)}
        terms = query.question_terms if counted is None else counted
        left_out = (word for word in self._words(query.form) if word not in searched)
        return list(dict.fromkeys(word.casefold() for word in left_out if self._stemming.term(word) not in terms))

    def chinese_words(self, text: str) -> list[list[str]]:
        """Return the words of each run of Chinese characters, as the most probable segmentation has them.

        Parameters
        ----------
        text : str
            Any text.

        Returns
        -------
        list of list of str
            A list for each run; its words follow each other without a gap.

        Examples
        --------
        >>> Analyzer().chinese_words("劳动合同 v2 的解除")
        [['劳动合同'], ['的', '解除']]
        """
        return [self._exact.cut(run) for run in self._runs(self._normal_form(text)) if is_segmented(run)]

    def phrase_text(self, text: str) -> PhraseText:
        # Of all plain characters, only an ellipsis becomes another number of signs: three dots.
        return self._phrase_words.of(respell_numbers(self._normal_form(text)).replace("\u2026", "..."))

    def phrase_terms(self, phrase: str) -> list[str]:
        # Without capitals: IT department has a bigram that it department lacks. With them: non-JavaScript is two words.
        rest, numbers = cut_numbers(self._normal_form(phrase), put=" | ")  # no bigram spans a number
        tokens, sure = self(rest.casefold()), set(self.phrase_text(phrase).words)
        marked = set(filterfalse(is_word, self(rest)))
        if any(char.isdigit() or char == "&" for char in rest):  # 3GB drive is 3 GB drive
            marked = set(filterfalse(is_word_bigram, marked))
        if self._other_words is not None or self.config.compounds == "all":
            sure = set()  # a user word hides its parts, and U.S.A is not USA
        return numbers + [
            token
            for token in tokens
            if token in marked
            or (token in sure and token not in self._stop_terms and not is_segmented(token) and not is_syllabic(token))
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {"config": self.config, "segmenter": self.segmenter}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @cached_property
    def _stop_terms(self) -> frozenset[str]:
        """The terms of stop words: will is one, and the term of willing."""
        return frozenset(map(self._stemming.term, self._in_chunks.dropped))

    def _stop_form(self, word: str) -> str:
        """Return a stop word in the form in which it is compared: ``don't`` occurs as ``dont``."""
        return without_apostrophes(self._normalized(word)).casefold()

    def _normalized_user_words(self) -> dict[str, int | None]:
        """Return the user words as they occur in text, with the larger of two frequencies for one word."""
        words: dict[str, int | None] = {}
        for word, frequency in self.config.user_words:
            form = self._normalized(word)
            words[form] = max(frequency or 0, words.get(form) or 0) or None
        return words

    def _normalized(self, text: str) -> str:
        return normalize(text, simplify=self.config.simplify)

    def _normal_form(self, text: str) -> str:
        """Return the text in the form that is cut; user words are found in normalised text only."""
        text, plain = join_thousands(text), self._other_words is None
        form = plain_form(text, simplify=self.config.simplify) if plain else self._normalized(text)
        return part_times(settle_case(join_lines(form)))

    def _pieces(self, text: str) -> list[str]:
        """Split a text at user words of mixed scripts, which are at the odd places."""
        return [text] if self._other_words is None else self._other_words.split(text)

    def _hidden_places(self, text: str) -> set[int]:
        """Return the places of user words of mixed scripts in a text."""
        pieces = self._pieces(text)
        ends = list(accumulate(map(len, pieces)))
        return {place for start, end in zip(ends[::2], ends[1::2], strict=False) for place in range(start, end)}

    def _cutters(self, mode: Segmentation) -> Cutters:
        return self._search if mode == "search" else self._exact

    def _runs(self, text: str) -> Iterator[str]:
        """Return the runs of a normalised text beside user words of mixed scripts."""
        return chain.from_iterable(map(find_runs, self._pieces(text)[::2]))

    def _query(self, text: str) -> _Query:
        """Analyse a query; less is dropped where it has no other words."""
        form, numbers = cut_numbers(self._normal_form(settle_capitals(text)))
        topic = form
        if self.config.query_stop_structures:
            topic = skip_stop_structures(form, self._exact.cut)
        mode = self.config.query_segmentation
        rest, phrases = self._cut_question_words(topic)
        if words := [*self._words_beside_bigrams(rest, mode, self._in_queries), *numbers]:
            every = self._tokens(topic, mode, self._in_chunks, numbers)
            return _Query(form, *_move_question_words(every, words, phrases), rest, self._in_queries)
        for searched in (topic, form):
            tokens = self._tokens(searched, mode, self._in_chunks)
            if tokens and tokens[0][0] != BIGRAM_MARK:
                break
        return _Query(form, tokens, [], searched, self._in_chunks)

    def _cut_question_words(self, text: str) -> tuple[str, list[str]]:
        """Cut out the question words of several ideographs, which may be several words: 能不能 is 能 不能."""
        if text.isascii() or not self._question_phrases.search(text):
            return text, []
        spans = list(self._locate_question_words(text))
        ends = [0, *chain.from_iterable(spans), len(text)]
        rest = " ".join(text[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True))
        return rest, [text[start:end] for start, end in spans]

    def _locate_question_words(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the places of the longest question words that begin and end with words of the dictionary."""
        within, pattern = places_in_words(text, self._exact.cut), self._question_phrases
        for longest in pattern.finditer(text):
            start = longest.start()
            ends = range(longest.end(), start, -1) if start not in within else ()
            if end := next((end for end in ends if end not in within and pattern.fullmatch(text, start, end)), 0):
                yield start, end

    @cached_property
    def _question_phrases(self) -> re.Pattern[str]:
        """Question words of several ideographs, the longest first; within a word of letters, one is no word."""
        phrases = (word for word in self._in_queries.dropped_chinese if len(word) > 1 and not holds_letters(word))
        words = sorted(phrases, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, words)) or r"(?!)")

    def _tokens(self, text: str, mode: Segmentation, kept: _Kept, numbers: Sequence[str] = ()) -> list[str]:
        """Return the tokens of a normalised text and of its numbers; user words are tokens as they are."""
        if self._other_words is None and self.config.word_bigrams and not holds_segmented(text):
            words, word_bigrams = kept.word_bigrams.channels(text)
            return [*words, *numbers, *self._of_characters(text, kept), *word_bigrams]
        tokens = [*self._words_beside_bigrams(text, mode, kept), *numbers]
        tokens += self._of_characters(text, kept)
        if self.config.word_bigrams:
            tokens += self._word_bigrams.of(text)
        return tokens

    def _words_beside_bigrams(self, text: str, mode: Segmentation, kept: _Kept) -> list[str]:
        """Return the words of a normalised text."""
        tokens: list[str] = []
        for place, piece in enumerate(self._pieces(text)):
            tokens += [piece.casefold()] if place % 2 else self._tokens_between(piece, mode, kept)
        return tokens

    def _of_characters(self, text: str, kept: _Kept) -> Iterator[str]:
        """Yield the bigrams of characters, and the single ones."""
        if self.config.bigrams:
            yield from bigrams_of(text, kept.dropped_chinese, distinct=self.config.distinct_bigrams)
        if self.config.characters:
            yield from characters_of(text, kept.dropped_chinese)

    def _tokens_between(self, text: str, mode: Segmentation, kept: _Kept) -> Iterable[str]:
        """Return the tokens of a text without user words of mixed scripts."""
        if not holds_segmented(text):
            return chain.from_iterable(map(kept.terms.__getitem__, find_runs(text)))
        runs, cutters = find_runs(text), self._cutters(mode)
        segmented = [run for run in runs if cutters[run[0]] is not None]
        words = cutters.cut_all(segmented)
        if kept.dropped_chinese:
            words = [word for word in words if word not in kept.dropped_chinese]
        if len(segmented) == len(runs):
            return [word for word in words if word != RUN_END]
        tokens: list[str] = []
        at = 0
        for run in runs:
            if cutters[run[0]] is None:
                tokens += kept.terms[run]
            else:
                end = words.index(RUN_END, at)
                tokens += words[at:end]
                at = end + 1
        return tokens

    def _locate_between(self, text: str, at: int) -> list[Token]:
        """Return the tokens of :meth:`_tokens_between` with their places, where the text itself is at a place."""
        tokens: list[Token] = []
        dropped = self._in_chunks.dropped_chinese
        for match in locate_runs(text):
            run = match[0]
            if is_segmented(run):
                words = place_words(self._cutters(self.config.segmentation).cut(run), self._exact.cut(run))
                tokens += shift((word for word in words if word.text not in dropped), at + match.start())
            else:
                tokens += shift(self._in_chunks.terms.locate(run), at + match.start())
        return tokens

    def _words(self, text: str) -> Iterator[str]:
        """Yield the words of a normalised query before any is dropped."""
        for run in self._runs(text):
            if is_segmented(run):
                yield from self._cutters(self.config.query_segmentation).cut(run)
            else:
                yield from (word.text for word in words_of(run, self._rules))


def _move_question_words(every: list[str], words: list[str], phrases: list[str]) -> tuple[list[str], list[str]]:
    """Return the tokens of a query apart from those of its question words, and these."""
    first = next((at for at, token in enumerate(every) if token[0] == BIGRAM_MARK), len(every))
    if len(words) == first:
        return every, []
    others = iter([*words, ""])  # in the same order
    other, questions = next(others), []
    for word in every[:first]:
        if word == other:
            other = next(others)
        else:
            questions.append(word)
    if not phrases:
        return [*words, *every[first:]], questions
    inside = Counter(token for phrase in phrases for token in (*bigrams_of(phrase), *characters_of(phrase)))
    for token in every[first:]:
        if inside[token]:
            inside[token] -= 1
            questions.append(token)
        else:
            words.append(token)
    return words, questions


class _Query(NamedTuple):
    """An analysed query."""

    form: str  # the normalised text without its numbers
    tokens: list[str]
    question_terms: list[str]  # words and bigrams of its question words
    searched: str  # the text of the words
    kept: _Kept


class _Kept:
    """The words that are kept where some are dropped."""

    def __init__(self, dropped: frozenset[str], rules: WordRules, stemming: Stemming) -> None:
        self.dropped = dropped  # case-folded
        self.dropped_chinese = frozenset(word for word in dropped if not word.isascii())
        self.terms = TermMemo(rules, stemming, dropped)
        self.word_bigrams = WordBigrams(self.terms)
