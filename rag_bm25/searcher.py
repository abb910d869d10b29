"""From queries as users give them to weighted terms, and on to the rows that a store finds for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from rag_bm25.chunks import SLOTS, check_sequence, pk_digest
from rag_bm25.errors import ChunkNotFoundError
from rag_bm25.expansion import Expander, QueryExpansion
from rag_bm25.feedback import Evidence, FeedbackChunk, learn
from rag_bm25.lookup import TermLookup
from rag_bm25.min_should_match import required_words
from rag_bm25.query import Query
from rag_bm25.query_encoder import QueryEncoder
from rag_bm25.query_memo import QueryMemo
from rag_bm25.query_options import QueryOptions, check_options, feedback_of, marked_ids, weighting_of
from rag_bm25.ranking import MAX_K, best
from rag_bm25.spelling import Fuzzy, Speller
from rag_bm25.synonyms import SynonymTable
from rag_bm25.terms import TermIds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from threading import RLock

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.config import IndexConfig
    from rag_bm25.filters import Filter
    from rag_bm25.query import QueryLike
    from rag_bm25.query_encoder import QueryTerms
    from rag_bm25.query_options import StatisticsScope
    from rag_bm25.similarity import CorpusFigures, QueryWeighting
    from rag_bm25.sparse import SparseVector
    from rag_bm25.statistics import CorpusStatistics
    from rag_bm25.statistics_log import StatisticsLog
    from rag_bm25.store import ChunkRow, Match, Store
    from rag_bm25.synonyms import Synonyms

__all__ = ["Asked", "Question", "Searcher", "newest_rows", "rows_by_namespace"]

MAX_KEPT = 1000
"""How many characters a query may have to be remembered as it was weighed."""

OVERFETCH = 4
"""How many times k chunks are asked for at first, where some of them may have too few words of the query."""


@dataclass(frozen=True, eq=False)
class Question:
    """A query on its way to the store.

    Parameters
    ----------
    terms : QueryTerms
        Its terms and what weighs them.
    vector : SparseVector
        Query weights; empty where no term is known.
    """

    terms: QueryTerms
    vector: SparseVector

    @classmethod
    def of(cls, terms: QueryTerms) -> Question:
        """Write terms as a vector.

        Parameters
        ----------
        terms : QueryTerms
            Those of the query.

        Returns
        -------
        Question
            Independent of later writes.
        """
        return cls(terms, terms.vector())


@dataclass(frozen=True, eq=False)
class Asked:
    """Queries on their way to the store, and what weighed them.

    Parameters
    ----------
    questions : list of Question
        One for each query; shared with others who ask the same.
    weighting : QueryWeighting
        The query's side in use.
    figures : CorpusFigures
        N and the mean IDF at that moment.
    """

    questions: list[Question]
    weighting: QueryWeighting
    figures: CorpusFigures


class Searcher:
    """The reading side of an index.

    Parameters
    ----------
    store : Store
        Where the chunks are.
    log : StatisticsLog
        Where the statistics are.
    config : IndexConfig
        Parameters of the index.
    analyzer : callable of str to list of str
        Text -> tokens.
    lock : RLock
        Held while statistics are read, so that no write changes them halfway through.
    refresh : callable of () to None
        Looks for the statistics of other writers, where that is due.
    """

    def __init__(
        self,
        store: Store,
        log: StatisticsLog,
        config: IndexConfig,
        analyzer: TextAnalyzer,
        lock: RLock,
        refresh: Callable[[], None],
    ) -> None:
        self._store = store
        self._log = log
        self._config = config
        self._analyzer = analyzer
        self._lock = lock
        self._refresh = refresh
        self._lookup = TermLookup()
        self._synonyms: tuple[Synonyms, SynonymTable] | None = None
        self._plain = Expander(analyzer)
        self._memo: QueryMemo[Question] = QueryMemo()

    def ask(
        self, queries: Sequence[QueryLike], where: Filter | None, namespaces: list[str] | None, options: QueryOptions
    ) -> Asked:
        """Weigh the terms of each query, with feedback where it is asked for.

        Parameters
        ----------
        queries : sequence of str, mapping or Query
            Any number.
        where : Filter or None
            Condition on the metadata; it matters where there is a first search for feedback.
        namespaces : list of str or None
            What is searched; None for all.
        options : QueryOptions
            What is to differ from the index's config.

        Returns
        -------
        Asked
            Ready for :meth:`search`.

        Raises
        ------
        InputError, ParameterError, TypeError
            A query or an option breaks a rule.
        ChunkNotFoundError
            A marked chunk is not there.
        """
        check_options(options)
        check_sequence("queries", queries, "str")
        asked = [Query.of(query, syntax=options.get("syntax", False)) for query in queries]
        completing, method = any(query.has_prefix for query in asked), feedback_of(options)
        self._refresh()
        # A write in another thread must not change the statistics halfway through.
        with self._log.events.held(), self._lock:
            encoder, corpus = self._query_side(namespaces, options, completing=completing)
            questions = [self._question(query, encoder, corpus, namespaces, options) for query in asked]
            weighed = Asked(questions, encoder.weighting, corpus.figures)
        if method is None:
            return weighed
        relevant = self._relevant(weighed.questions, method.fb_docs, where, namespaces, options)
        irrelevant = self._marked("irrelevant", namespaces, options)
        with self._log.events.held(), self._lock:
            encoder, corpus = self._query_side(namespaces, options, completing=completing)
            term_of = self._log.vocabulary().term
            questions = [
                Question.of(learn(method, query, Evidence(chunks, irrelevant, encoder, corpus, term_of)))
                for query, chunks in zip(asked, relevant, strict=True)
            ]
            return Asked(questions, encoder.weighting, corpus.figures)

    def search(
        self,
        asked: list[Question],
        k: int,
        where: Filter | None,
        namespaces: list[str] | None,
        options: QueryOptions,
    ) -> list[list[Match]]:
        """Find the best k chunks for each query; one without weights finds none, without a call.

        Parameters
        ----------
        asked : list of Question
            As made by :meth:`ask`.
        k : int
            How many chunks at most, in 1..16384.
        where : Filter or None
            Condition on the metadata.
        namespaces : list of str or None
            Whose chunks; None for all.
        options : QueryOptions
            `min_should_match` and `search_params` among them.

        Returns
        -------
        list of list of Match
            One for each query, by falling score.
        """
        with self._log.events.timed("search") as counts:
            found: list[list[Match]] = [[] for _ in asked]
            positions = [position for position, question in enumerate(asked) if len(question.vector)]
            if positions:
                needed, wanted = self.needed(namespaces), options.get("min_should_match")
                answers = best(
                    lambda some, limit: self._store.search(
                        [question.vector for question in some],
                        limit=limit,
                        where=where,
                        namespaces=needed,
                        params=options.get("search_params"),
                    ),
                    [asked[position] for position in positions],
                    k,
                    namespaces,
                    limit=k if wanted is None else min(OVERFETCH * k, MAX_K),
                    keep=None if wanted is None else partial(self._with_enough_words, wanted),
                )
                for position, matches in zip(positions, answers, strict=True):
                    found[position] = matches
            counts.update(queries=len(asked), hits=sum(map(len, found)))
        return found

    def needed(self, namespaces: list[str] | None) -> list[str] | None:
        """Leave out a namespace filter that every row passes; only an embedded engine can be sure of that.

        Parameters
        ----------
        namespaces : list of str or None
            Whose chunks are wanted; None for all.

        Returns
        -------
        list of str or None
            What to tell the store.
        """
        all_of_them = namespaces is not None and set(self._log.statistics.namespaces) <= set(namespaces)
        return None if self._store.exclusive and all_of_them else namespaces

    def corrected(
        self, query: str, fuzzy: Fuzzy, namespaces: list[str] | None, statistics: StatisticsScope
    ) -> str | None:
        """Return a query with its misspelt words corrected by the vocabulary.

        Parameters
        ----------
        query : str
            Any text.
        fuzzy : Fuzzy
            How near spellings are found.
        namespaces : list of str or None
            Whose terms; None for all.
        statistics : {"namespace", "all"}
            Whether df is that of `namespaces`, or of the whole index.

        Returns
        -------
        str or None
            None where there is nothing to correct.
        """
        options: QueryOptions = {"statistics": statistics}
        check_options(options)
        self._refresh()
        with self._log.events.held(), self._lock:
            encoder, corpus = self._query_side(namespaces, options)
            speller = Speller(fuzzy, self._analyzer, self._terms_of_vocabulary(), encoder.dfs_in(corpus))
            return speller.corrected(query)

    def _relevant(
        self,
        asked: list[Question],
        fb_docs: int,
        where: Filter | None,
        namespaces: list[str] | None,
        options: QueryOptions,
    ) -> list[list[FeedbackChunk]]:
        """Return the chunks that each query learns from: those that are marked, or else the best ones."""
        if options.get("relevant") is not None or options.get("irrelevant") is not None:
            return [self._marked("relevant", namespaces, options)] * len(asked)
        found = self.search(asked, fb_docs, where, namespaces, options)
        pks = {match.row.pk for matches in found for match in matches}
        rows = {row.pk: row for row in self._store.get_chunks(sorted(pks), contents=False, vectors=True)}
        return [
            [
                FeedbackChunk(match.row.id, rows[match.row.pk].vector, match.score)
                for match in matches
                if match.row.pk in rows  # it may have been deleted since
            ]
            for matches in found
        ]

    def _marked(
        self, name: Literal["relevant", "irrelevant"], namespaces: list[str] | None, options: QueryOptions
    ) -> list[FeedbackChunk]:
        """Read the chunks that are marked; an id stands for the chunks that have it in any of the namespaces."""
        ids = list(dict.fromkeys(marked_ids(options, name) or []))
        if not ids:
            return []
        spaces = self._log.statistics.namespaces if namespaces is None else dict.fromkeys(namespaces)
        rows = [row for space in spaces for row in newest_rows(self._store, ids, space, vectors=True).values()]
        missing = sorted(set(ids) - {row.id for row in rows})
        if missing:
            msg = f"no chunk {missing[0]!r}, which is given as {name}, in the namespaces of the search"
            raise ChunkNotFoundError(msg)
        return [FeedbackChunk(row.id, row.vector) for row in rows]

    def _query_side(
        self, namespaces: list[str] | None, options: QueryOptions, *, completing: bool = False
    ) -> tuple[QueryEncoder, CorpusStatistics]:
        """Return what weighs a query: the config's side with what was asked to differ, and the statistics."""
        weighting = weighting_of(self._config.query_weighting(), options)
        expander = self._expander(options.get("expansion"), completing=completing)
        encoder = QueryEncoder(self._analyzer, weighting, TermIds(self._log.displaced), expander)
        return encoder, self._log.statistics.of(None if options.get("statistics") == "all" else namespaces)

    def _question(
        self,
        query: Query,
        encoder: QueryEncoder,
        corpus: CorpusStatistics,
        namespaces: list[str] | None,
        options: QueryOptions,
    ) -> Question:
        """Weigh a query, unless that has just been done; what is added to a query may depend on the vocabulary."""
        if encoder.expander is not self._plain or len(str(query)) > MAX_KEPT:
            return Question.of(encoder.terms(query, corpus))
        spaces = None if namespaces is None or options.get("statistics") == "all" else tuple(namespaces)
        key = (query, encoder.weighting, spaces, len(self._log.displaced))
        return self._memo.get(key, corpus.figures, lambda: Question.of(encoder.terms(query, corpus)))

    def _expander(self, expansion: QueryExpansion | None, *, completing: bool) -> Expander:
        """Return what adds terms; the vocabulary is read only where near spellings or prefixes need it."""
        if expansion is None and not completing:
            return self._plain
        expansion = expansion or QueryExpansion()
        lookup = self._terms_of_vocabulary() if completing or expansion.fuzzy is not None else None
        return Expander(self._analyzer, expansion, self._synonym_table(expansion.synonyms), lookup)

    def _synonym_table(self, synonyms: Synonyms | None) -> SynonymTable | None:
        """Return synonyms as tokens; those of the last search are kept."""
        if synonyms is None:
            return None
        if self._synonyms is None or self._synonyms[0] is not synonyms:
            self._synonyms = synonyms, SynonymTable(synonyms, self._analyzer)
        return self._synonyms[1]

    def _terms_of_vocabulary(self) -> TermLookup:
        self._lookup.update(self._log.vocabulary())
        return self._lookup

    def _with_enough_words(self, wanted: int | str, asked: Question, matches: list[Match]) -> list[Match]:
        """Leave out the chunks with too few words of the query, by their stored vectors."""
        least = required_words(wanted, len(asked.terms.words))
        rows = self._store.get_chunks([match.row.pk for match in matches], contents=False, vectors=True)
        enough = {row.pk for row in rows if len(asked.terms.words_had_by(row.vector)) >= least}
        return [match for match in matches if match.row.pk in enough]


def newest_rows(
    store: Store, ids: Sequence[str], namespace: str, *, vectors: bool = False, dense: bool = False
) -> dict[str, ChunkRow]:
    """Read chunks by their ids, of two rows of one chunk the newer.

    Parameters
    ----------
    store : Store
        Where they are.
    ids : sequence of str
        The users' ids.
    namespace : str
        Where the chunks belong.
    vectors, dense : bool
        Whether to read the sparse, and the dense vectors.

    Returns
    -------
    dict of str to ChunkRow
        Id -> row, of those that are there.
    """
    pks = [pk_digest(namespace, id_) + slot for id_ in ids for slot in SLOTS]
    rows = store.get_chunks(pks, contents=True, vectors=vectors, dense=dense)
    return {row.id: row for row in sorted(rows, key=lambda row: row.batch)}


def rows_by_namespace(store: Store, id_: str, namespaces: Iterable[str]) -> dict[str, ChunkRow]:
    """Read the chunks that have one id in some namespaces, with their vectors, of two rows of one chunk the newer.

    Parameters
    ----------
    store : Store
        Where they are.
    id_ : str
        The user's id.
    namespaces : iterable of str
        Where to look.

    Returns
    -------
    dict of str to ChunkRow
        Namespace -> row, of those that have one.
    """
    pks = [pk_digest(namespace, id_) + slot for namespace in dict.fromkeys(namespaces) for slot in SLOTS]
    rows = store.get_chunks(pks, contents=True, vectors=True)
    return {row.namespace: row for row in sorted(rows, key=lambda row: row.batch)}
