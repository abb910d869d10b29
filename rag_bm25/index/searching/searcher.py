"""Weigh queries, search the store, and explain scores."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, compress, islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from rag_bm25.analysis.contract import MissingAnalyzer, list_differences
from rag_bm25.analysis.places import locate_terms, written_form
from rag_bm25.analysis.text import AnalysedText
from rag_bm25.budget import check_budget
from rag_bm25.definitions import given_fields
from rag_bm25.documents.checks import check_sequence
from rag_bm25.documents.chunks import Hit
from rag_bm25.documents.encoder import FieldCounts
from rag_bm25.documents.reweighing import Reweigher
from rag_bm25.errors import ChunkNotFoundError, InputError, ParameterError, short_repr
from rag_bm25.hits.highlights import Highlighting, highlight_hits, make_highlighter
from rag_bm25.hits.options import Effect, options_that, refuse
from rag_bm25.index.searching.group_store import GroupStore
from rag_bm25.index.searching.judging import Judges, RecentQuestions
from rag_bm25.index.searching.ranking import OVERFETCH, Candidates, find_candidates
from rag_bm25.index.searching.rescoring import Rescorer
from rag_bm25.index.searching.rows import latest_rows, read_newest, read_one
from rag_bm25.index.searching.weigher import WeightedQuery
from rag_bm25.query.conditions import CheckedChunk
from rag_bm25.query.correction import Corrector
from rag_bm25.query.explanation import ChunkFacts, QueryFacts
from rag_bm25.query.feedback import Evidence
from rag_bm25.query.min_should_match import required_words
from rag_bm25.query.query import Query
from rag_bm25.query.scores import ScoreExplanation, explain_score, with_factors
from rag_bm25.query.spelling import Fuzzy, Speller
from rag_bm25.query.stop_words import stop_words_in
from rag_bm25.store.rows import MAX_K, Match, Scope, SearchArm
from rag_bm25.store.storage import FP16_TOLERANCE
from rag_bm25.vectors.sparse import SparseVector
from rag_bm25.vectors.terms import BIGRAM_MARK, is_single, term_text
from rag_bm25.weighting.fields import field_items

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rag_bm25.documents.encoder import DocumentEncoder
    from rag_bm25.hits.highlights import Highlighter
    from rag_bm25.hits.options import SearchOptions
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.live_statistics import LiveStatistics
    from rag_bm25.index.searching.weigher import QueryContext, QueryWeigher
    from rag_bm25.query.conditions import Conditions
    from rag_bm25.query.feedback import RSJ
    from rag_bm25.query.query import QueryLike
    from rag_bm25.query.spelling import DfLookup
    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import ChunkRow
    from rag_bm25.weighting.confidence import AnswerModel
    from rag_bm25.weighting.document import DocumentWeighting
    from rag_bm25.weighting.idf import IdfInputs
    from rag_bm25.weighting.query import QueryWeighting

    SparseSearch: TypeAlias = Callable[[Sequence[SparseVector], SearchArm], list[list[Match]]]

H = TypeVar("H", bound=Hit)

CHUNKS_WITH_TERM = 10  # whose texts are read for the forms of a term
SPARE_ROWS = 16  # asked for beyond df: two rows of a chunk while it is updated, and chunks added meanwhile


@dataclass(frozen=True, eq=False)
class PreparedQueries:
    """Weighted queries, and the weighting and statistics that were used."""

    queries: list[WeightedQuery]
    weighting: QueryWeighting
    idf_inputs: IdfInputs  # of that moment

    @property
    def vectors(self) -> list[SparseVector]:
        """The vector of each query."""
        return [query.vector for query in self.queries]


class Searcher:
    """Weigh queries by live statistics, search the store, and explain scores."""

    def __init__(
        self, store: Store, config: IndexConfig, encoder: DocumentEncoder, live: LiveStatistics, weigher: QueryWeigher
    ) -> None:
        self._store = store
        self._config = config
        self._encoder = encoder
        self.analyzer = encoder.analyzer
        self._live = live
        self.weigher = weigher
        self._recent = RecentQuestions(live.events)
        self._tolerance: float | None = None  # of the engine's scores, once it has been read

    # Weights

    def prepare(self, queries: Sequence[QueryLike], scope: Scope, options: SearchOptions) -> PreparedQueries:
        """Weigh the terms of each query, with feedback if the options ask for it."""
        check_sequence("queries", queries, "str")
        parsed, method = list(map(Query.of, queries)), options.get("feedback")
        context = self.weigher.context_for(scope, options)
        weighted = [self.weigher.prepare(context, query) for query in parsed]
        if method is not None:
            weighted = self._learn(method, context, parsed, weighted, scope)
        return PreparedQueries(weighted, context.encoder.weighting, context.corpus.idf_inputs)

    def vectors(self, queries: Sequence[QueryLike], scope: Scope, options: SearchOptions) -> list[SparseVector]:
        """Return the vectors that a search sends to Milvus."""
        refuse(options, not_in_vectors(), "a vector cannot express it. Use a search, or explain")
        weighed = self.prepare(queries, scope, options)
        if weighed.weighting.reweighs:
            raise ParameterError(
                "k1, b and length are not supported here: a vector of a query has no weights of chunks. Use a search "
                "or explain; QueryWeighting(k1=None, b=None, length='chunk_size') takes the stored ones"
            )
        if any(query.conditions is not None for query in weighed.queries):
            raise ParameterError(
                "must, must_not and phrases are not supported here: a vector cannot express them. "
                "Use search, search_batch, search_hybrid or explain"
            )
        return weighed.vectors

    def max_score(self, query: WeightedQuery) -> float:
        """Return the upper bound of a query's scores; `inf` if the weighting is unbounded."""
        return float(query.documents.upper_bounds(query.vector.ids) @ query.vector.values.astype(np.float64))

    def max_scores(self, queries: Sequence[QueryLike], scope: Scope, options: SearchOptions) -> list[float]:
        """Return the upper bound of each query's scores, if the weighting has one."""
        self.require_bound()
        return list(map(self.max_score, self.prepare(queries, scope, options).queries))

    def require_bound(self) -> None:
        """Refuse a weighting that has no upper bound."""
        if math.isinf(self._encoder.weighting.bounds[1]):
            name = self._config.weighting
            msg = "maximum scores, and relevance scores and confidences by them, need a weighting with an upper bound"
            raise ParameterError(f"{msg}, got {name!r}")

    def judges(self, prepared: PreparedQueries, options: SearchOptions) -> Judges:
        """Return the judges of the scores of queries, with the index's model if these are weighed as it asks."""
        model, weighting = self._live.view.answers, prepared.weighting
        is_fit = model is not None and model.weighting == weighting
        is_gated = options.get("min_confidence") is not None
        if is_gated and not is_fit:
            raise ParameterError(_no_model(self._store, model, weighting))
        recent = self._recent if is_gated else None
        return Judges(self.max_score, weighting, prepared.idf_inputs, model if is_fit else None, recent)

    def doubt_of_confidence(self) -> str | None:
        """Return how the questions of today differ from those that the confidence model was fitted to, if they do."""
        return self._recent.doubt(self._live.view.answers)

    # Search

    def candidates(
        self,
        queries: list[WeightedQuery],
        limit: int,  # rows to ask for at first
        enough: Callable[[WeightedQuery, Candidates], bool],
        scope: Scope,
        options: SearchOptions,
        *,
        vectors: bool = False,
        at_most: int | None = None,  # candidates that conditions are checked for
    ) -> list[Candidates]:
        """Find the best chunks for each query until there are enough, with their vectors if these are needed."""
        with self._live.events.measure("search") as counts:
            found = [Candidates([], 0.0, is_all=True) for _ in queries]
            positions = [position for position, query in enumerate(queries) if len(query.vector)]
            if positions:
                known = [queries[position] for position in positions]
                wider = OVERFETCH * limit if drops_hits(known, options) else limit
                arm = SearchArm(min(wider, MAX_K), scope, vectors=vectors)
                answers = self._search_known(known, arm, enough, options, at_most)
                for position, candidates in zip(positions, answers, strict=True):
                    found[position] = candidates
            counts.update(queries=len(queries), hits=sum(len(candidates.matches) for candidates in found))
        return found

    def _search_known(
        self,
        queries: list[WeightedQuery],
        arm: SearchArm,
        enough: Callable[[WeightedQuery, Candidates], bool],
        options: SearchOptions,
        at_most: int | None,
    ) -> list[Candidates]:
        """Search for queries that have weights."""
        find, params = self.sparse_search(queries[0], options), engine_params(options)
        drops = drops_hits(queries, options)
        stored = SearchArm(arm.limit, self.stored_scope(arm.scope), params, vectors=arm.vectors or drops)

        def search(some: list[WeightedQuery], limit: int) -> list[list[Match]]:
            check_budget()
            asked = stored if limit == stored.limit else replace(stored, limit=limit)
            return find([query.vector for query in some], asked)

        keep = partial(self.keep, options.get("min_should_match"), at_most) if drops else None
        decide = partial(self._find_by_rarest_term, stored, arm.scope.namespaces, keep) if keep and not params else None
        return find_candidates(search, queries, arm.limit, enough, arm.scope.namespaces, keep, decide)

    def _find_by_rarest_term(
        self,
        arm: SearchArm,
        namespaces: tuple[str, ...] | None,
        keep: Callable[[WeightedQuery, list[Match]], list[Match]],
        query: WeightedQuery,
        limit: int,
    ) -> Candidates | None:
        """Find all chunks that meet the conditions among those with their rarest term; None if these are too many."""
        if query.conditions is None or not query.conditions.needed:
            return None
        ids = np.array(sorted(query.conditions.needed), np.uint32)
        df = self._live.view.statistics.of(namespaces).df(ids)
        rarest = int(df.argmin())
        asked = int(df[rarest]) + SPARE_ROWS
        if asked > min(OVERFETCH * limit, MAX_K):
            return None
        term = SparseVector.from_dict({int(ids[rarest]): 1.0})
        (matches,) = self._store.search([term], replace(arm, limit=asked))
        if len(matches) == asked:
            return None
        scored = self._rescorer(query).score(query.vector, [match.row for match in matches])
        return Candidates(keep(query, latest_rows(scored, namespaces)), 0.0, is_all=True)

    def sparse_search(self, query: WeightedQuery, options: SearchOptions) -> SparseSearch:
        """Return the function that searches the store as a query of the search and the options ask for."""
        rescorer = self._rescorer(query)
        return rescorer.search if rescorer.reweigher or is_rescored(options) else self._store.search

    def _rescorer(self, query: WeightedQuery) -> Rescorer:
        return Rescorer(self._store, self._live.events, self._reweigher(query.documents), query.mean_length)

    def _reweigher(self, documents: DocumentWeighting) -> Reweigher | None:
        """Return what weighs chunks anew; None if the stored weights are wanted."""
        if documents == self._encoder.weighting:
            return None
        return Reweigher(self._encoder, documents, self._live.view.ids)

    def vectors_of(self, rows: Sequence[ChunkRow], documents: DocumentWeighting) -> list[SparseVector]:
        """Return the vectors of rows as they are stored, or as they are weighed anew."""
        reweigher = self._reweigher(documents)
        return [row.vector for row in rows] if reweigher is None else reweigher.vectors(rows)

    def stored_scope(self, scope: Scope) -> Scope:
        """Leave out a namespace filter that every row passes; only an embedded engine can be sure of that."""
        names = scope.namespaces
        all_of_them = names is not None and self._live.view.statistics.are_all(names)
        return Scope(scope.where) if self._store.exclusive and all_of_them else scope

    def keep(
        self, wanted: int | str | None, at_most: int | None, query: WeightedQuery, matches: list[Match]
    ) -> list[Match]:
        """Drop the chunks with too few words of the query, and those that do not meet its conditions."""
        if wanted is not None:
            least = required_words(wanted, len(query.terms.words))
            matches = [match for match in matches if len(query.terms.words_had_by(match.row.vector)) >= least]
        return list(islice((match for match in matches if not self.unmet(query.conditions, match.row)), at_most))

    def unmet(self, conditions: Conditions | None, row: ChunkRow) -> str:
        """Return which condition a chunk does not meet; "" if it meets all."""
        if conditions is None:
            return ""
        return conditions.failure(CheckedChunk(row.vector, self._texts_of(row), self.analyzer))

    def _texts_of(self, row: ChunkRow) -> list[str]:
        """Return the text of a chunk and those of its fields, each item of a list by itself."""
        items = (field_items(row.metadata, name) for name in self._encoder.weighting.fields)
        return [row.text, *chain.from_iterable(items)]

    # Other spellings

    def correct(self, query: str, fuzzy: Fuzzy | None, scope: Scope, options: SearchOptions) -> str | None:
        """Correct the misspelt words of a query by the vocabulary; None if there is nothing to correct."""
        if not isinstance(query, str):
            raise InputError(f"a query must be a str, got {type(query).__name__}")
        if not isinstance(fuzzy, Fuzzy | None):
            raise ParameterError(f"fuzzy must be a Fuzzy or None, got {short_repr(fuzzy)}")
        text, context = str(Query.of(query)), self.weigher.context_for(scope, options)
        dfs, lookup = context.encoder.df_lookup(context.corpus), self.weigher.expanders.look_up()
        speller = Speller(fuzzy or Fuzzy(), self.analyzer, lookup, dfs)
        return Corrector(speller, partial(self._texts_with, context)).correct(text)

    def unknown_words(self, query: Query, namespaces: tuple[str, ...] | None) -> tuple[list[str], list[str]]:
        """Return the words of a query that no chunk has, as written there, and those that are only parts of others."""
        context = self.weigher.context_for(Scope(None, namespaces), {})
        dfs = context.encoder.df_lookup(context.corpus)
        texts = [part.text for part in query.parts if not part.prefix]
        words = dict(chain.from_iterable(self._words_without_df(text, dfs) for text in texts))
        singles = [written for written, word in words.items() if is_single(word)]
        are_parts = dfs([BIGRAM_MARK + words[written] for written in singles]) > 0
        parts = list(compress(singles, are_parts.tolist()))
        return [written for written in words if written not in parts], parts

    def _words_without_df(self, text: str, dfs: DfLookup) -> list[tuple[str, str]]:
        words = AnalysedText.of_query(self.analyzer, text).words
        unknown = dict.fromkeys(word for word, df in zip(words, dfs(words).tolist(), strict=True) if not df)
        tokens = sorted(locate_terms(self.analyzer, unknown.keys(), text), key=lambda token: token.start)
        located = [(text[token.start : token.end], token.text) for token in tokens]
        return located or [(term_text(word), word) for word in unknown]

    def written_form(self, namespaces: tuple[str, ...] | None, term: str) -> str:
        """Return how chunks write a term, or the term itself if its analyzer is not there."""
        if isinstance(self.analyzer, MissingAnalyzer):
            return term_text(term)
        context = self.weigher.context_of(Scope(namespaces=namespaces))
        return written_form(self.analyzer, self._texts_with(context, term), term)

    def _texts_with(self, context: QueryContext, term: str) -> list[str]:
        """Return the texts of the chunks in which a term weighs most."""
        check_budget()
        vector = SparseVector.from_dict({context.encoder.ids[term]: 1.0})
        arm = SearchArm(CHUNKS_WITH_TERM, self.stored_scope(context.counted))
        return [text for match in self._store.search([vector], arm)[0] for text in self._texts_of(match.row)]

    # Highlights

    def highlighter(self, query: WeightedQuery, highlighting: Highlighting) -> Highlighter:
        """Return a highlighter of the terms of a query."""
        return make_highlighter(query.terms, query.conditions, self.analyzer, highlighting)

    def highlight(self, query: WeightedQuery, hits: list[H], options: SearchOptions) -> list[H]:
        """Give each hit its highlights, if the options ask for them."""
        highlighting = options.get("highlight")
        if not isinstance(highlighting, Highlighting):
            return hits
        return highlight_hits(self.highlighter(query, highlighting), hits, self._encoder.weighting.fields)

    # Explanations

    def explain(
        self,
        query: QueryLike,
        id_: str,
        scope: Scope,
        chunk_namespace: str | None,
        options: SearchOptions,
        part: int | None = None,
    ) -> ScoreExplanation:
        """Explain the score of a stored chunk, whose namespace may be left out if it is the only one with that id."""
        parsed, boosts = Query.of(query), options.get("boosts") or ()
        weighted = self.prepare([parsed], scope, options)
        names = scope.namespaces if chunk_namespace is None else (chunk_namespace,)
        row = read_one(self._store, self._live.view, id_, names, part)
        text, terms, wanted = str(parsed), weighted.queries[0].terms, options.get("min_should_match")
        weighting, stats = weighted.weighting, weighted.idf_inputs
        unmet = self.unmet(weighted.queries[0].conditions, row)
        documents = weighted.queries[0].documents
        dropped, tolerance = stop_words_in(self.analyzer, parsed, terms), self._score_tolerance(documents, options)
        learned = self._live.view.term_k1
        facts = QueryFacts(text, terms, dropped, weighting, stats, wanted, tolerance, unmet, learned)
        explained = explain_score(facts, self._chunk_facts(row, documents), row.namespace)
        return with_factors(explained, [boost.explain(row.metadata) for boost in boosts])

    def _score_tolerance(self, documents: DocumentWeighting, options: SearchOptions) -> float | None:
        """Return how far the scores of a search may be from the exact ones; None if the engine does not round them."""
        if is_rescored(options) or self._store.exclusive or documents != self._encoder.weighting:
            return None
        if self._tolerance is None:
            self._tolerance = self._store.storage_info().score_tolerance
        return self._tolerance if self._tolerance == FP16_TOLERANCE else None

    def _chunk_facts(self, row: ChunkRow, documents: DocumentWeighting) -> ChunkFacts:
        text = FieldCounts(Counter(self.analyzer(row.text)), row.length)
        fields, stored = self._encoder.field_counts(row.metadata), self._encoder.weighting
        ((vector,), unit) = self.vectors_of([row], documents), self._config.length_unit
        return ChunkFacts(row.id, text, fields, vector, documents, unit, stored)

    # Chunks that resemble others

    def weigh_like(
        self, id_: str, max_terms: int, scope: Scope, options: SearchOptions
    ) -> tuple[WeightedQuery, ChunkRow]:
        """Weigh the terms of a stored chunk as a query, and return its row as well."""
        context = self.weigher.context_for(scope, options)
        row = read_one(self._store, context.view, id_, scope.namespaces, takes_place=False)
        (vector,) = self.vectors_of([row], context.documents)
        terms = context.encoder.weigh_chunk(vector, context.corpus, self._live.vocabulary().term, max_terms)
        return WeightedQuery.of(terms, context), row

    # Feedback

    def _learn(
        self, method: RSJ, context: QueryContext, queries: list[Query], weighted: list[WeightedQuery], scope: Scope
    ) -> list[WeightedQuery]:
        """Weigh queries anew, by what their relevant chunks tell."""
        relevant = self._read_relevant(method, scope)
        evidence = Evidence(method, relevant, context.encoder, context.corpus, self._live.vocabulary().term)
        return [
            WeightedQuery.of(evidence.weigh(query), context, before.conditions)
            for query, before in zip(queries, weighted, strict=True)
        ]

    def _read_relevant(self, method: RSJ, scope: Scope) -> list[SparseVector]:
        """Read the marked chunks; an id stands for the chunks that have it in any of the namespaces."""
        ids = list(dict.fromkeys(method.relevant))
        names = self._live.view.statistics.namespaces if scope.namespaces is None else dict.fromkeys(scope.namespaces)
        keys = [[(space, id_, None) for id_ in ids] for space in names] if ids else []
        found = [read_newest(self._store, some, contents=False, vectors=True) for some in keys]
        rows = [row for some in found for row in some.values()]
        missing = sorted(set(ids) - {row.id for row in rows})
        if missing:
            msg = f"no chunk {missing[0]!r}, which is given as relevant, in the namespaces of the search"
            raise ChunkNotFoundError(msg)
        return [row.vector for row in rows]


def _no_model(store: Store, model: AnswerModel | None, weighting: QueryWeighting) -> str:
    """Say why a search has no confidence, and how to get one."""
    name = store.name
    if model is None:
        is_group = isinstance(store, GroupStore)
        fit = "fit one with `rag-bm25 calibrate-answers` (one of another version is not read), or "
        advice = "in a group, " if is_group else fit
        return f"min_confidence needs a confidence model, and {name} has none: {advice}compare the score_share of hits"
    fitted, used = given_fields(model.weighting), given_fields(weighting)
    return (
        f"min_confidence needs the weighting that the confidence model of {name} was fitted with: "
        f"{'; '.join(list_differences(fitted, used, {**fitted, **used}))}. Search with that weighting, or run "
        "`rag-bm25 calibrate-answers` again"
    )


def not_in_vectors() -> set[str]:
    """Return the names of the options that no vector can hold; those of the engine concern none."""
    return {*options_that(~Effect.WEIGHS), "candidates"} - {*options_that(Effect.WEIGHS), "search_params"}


def is_rescored(options: SearchOptions) -> bool:
    """Return whether scores are computed again from the stored vectors."""
    return bool((options.get("search_params") or {}).get("rescore"))


def engine_params(options: SearchOptions) -> dict[str, Any] | None:
    """Return the search parameters that the engine gets."""
    params = {name: value for name, value in (options.get("search_params") or {}).items() if name != "rescore"}
    return params or None


def drops_hits(queries: Sequence[WeightedQuery], options: SearchOptions) -> bool:
    """Return whether some hits of a search may be dropped."""
    return options.get("min_should_match") is not None or any(query.conditions is not None for query in queries)
