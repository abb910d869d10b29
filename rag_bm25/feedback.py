r"""Relevance feedback: a query learns from chunks that are relevant, or taken for relevant.

Without marked chunks, the best ones of a first search are taken for relevant (pseudo-feedback). What they add to the
query is a weighted sum of their stored vectors, so that nothing is analysed again: Rocchio's centroid and RM3's
relevance model differ in the share of each chunk. The stored weight, which saturates with tf, stands for the term
frequency of the textbooks; it was measured to find as much as the frequency itself. The binary independence model
counts chunks instead, and gives the counts to the IDF.

Chunks that users marked as relevant help much: of 567 lay questions about Chinese law with several answers (STARD),
one of them marked, the others are found with an nDCG@10 of .252 in place of .164 by Rocchio's method, and .268 by the
binary independence model. Pseudo-feedback is another matter. It is meant for collections with many relevant chunks for
each question; where there are one or two, as in the sets that this library was measured on, it ranks the first ten
worse and finds no more among the first hundred. It is never on by itself. It takes a second search and a second read,
about five times the time.

References
----------
.. [1] S. E. Robertson, K. Spärck Jones, "Relevance weighting of search terms", JASIS 27, 1976.
.. [2] J. J. Rocchio, "Relevance feedback in information retrieval", in: The SMART Retrieval System, 1971.
.. [3] G. Salton, C. Buckley, "Improving retrieval performance by relevance feedback", JASIS 41, 1990.
.. [4] S. E. Robertson, "On term selection for query expansion", Journal of Documentation 46, 1990.
.. [5] V. Lavrenko, W. B. Croft, "Relevance-based language models", SIGIR 2001.
.. [6] N. Abdul-Jaleel et al., "UMass at TREC 2004: novelty and HARD", TREC 2004.
.. [7] J. Lin, "The neural hype and comparisons against weak baselines", SIGIR Forum 52, 2018: BM25+RM3.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rag_bm25.parameters import check_parameter, comparable
from rag_bm25.query_encoder import ChunkShare, FeedbackFactor, Origin, QueryTerm, RelevanceCounts
from rag_bm25.terms import is_bigram

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rag_bm25.query import QueryLike
    from rag_bm25.query_encoder import QueryEncoder, QueryTerms
    from rag_bm25.sparse import SparseVector
    from rag_bm25.statistics import CorpusStatistics

__all__ = ["BIM", "RM3", "Evidence", "Feedback", "FeedbackChunk", "Rocchio", "learn"]

MAX_FB_DOCS = 1_000
MAX_FACTOR = 1_000


def _is_count(value: object, low: int, high: float = math.inf) -> bool:
    return isinstance(value, int) and low <= value <= high


def _check_selection(fb_docs: int, fb_terms: int, min_df: int, max_df: float) -> None:
    """Check the parameters that all methods have."""
    check_parameter("fb_docs", fb_docs, f"an int in 1..{MAX_FB_DOCS:,}", _is_count(fb_docs, 1, MAX_FB_DOCS))
    check_parameter("fb_terms", fb_terms, "an int >= 0", _is_count(fb_terms, 0))
    check_parameter("min_df", min_df, "an int >= 1", _is_count(min_df, 1))
    check_parameter("max_df", max_df, "in (0, 1]", 0 < comparable(max_df) <= 1)


@dataclass(frozen=True)
class FeedbackChunk:
    """A chunk that a query learns from.

    Parameters
    ----------
    id : str
        Its id, for ``explain``.
    vector : SparseVector
        Its stored vector.
    score : float
        Score of the first search, > 0; 1.0 for a chunk that was marked.
    """

    id: str
    vector: SparseVector
    score: float = 1.0


@dataclass(frozen=True, eq=False)
class Evidence:
    """Chunks that a query learns from, and the corpus that they are in.

    Parameters
    ----------
    relevant, irrelevant : sequence of FeedbackChunk
        The chunks.
    encoder : QueryEncoder
        What weighs the query.
    statistics : CorpusStatistics
        The corpus now.
    term_of : callable of int to str or None
        The term of an id; terms without a name are left alone.
    """

    relevant: Sequence[FeedbackChunk]
    irrelevant: Sequence[FeedbackChunk]
    encoder: QueryEncoder
    statistics: CorpusStatistics
    term_of: Callable[[int], str | None]


@dataclass(frozen=True)
class RM3:
    r"""Relevance model, mixed with the query (RM3) [2]_.

    .. math::

        P(t|R) = \sum_d P(t|d) \, P(d), \qquad
        qtf'_t = \lambda \, qtf_t + (1 - \lambda) \, |q| \, P(t|R)

    :math:`P(t|d)` is the share of the term in the stored vector of the chunk. :math:`P(d)` stands for the likelihood
    of the query in the relevance model of [1]_: the share of the chunk in the scores of the first search, as in
    Anserini's BM25+RM3; marked chunks have equal shares. The model is cut to the terms of the query and the
    `fb_terms` best others, and brought back to a sum of 1. :math:`|q|` is the sum of the :math:`qtf_t`, so that
    scores keep their scale. Irrelevant chunks have no place in the model.

    The model is one of words, and both sums are over words. Bigrams are terms that it gives no probability: of those in
    the query :math:`\lambda \, qtf_t` is left, so the more is learnt, the less neighbours count against words.

    Parameters
    ----------
    fb_docs : int
        How many chunks of the first search are taken for relevant, in 1..1,000.
    fb_terms : int
        How many terms are added to the query at most; 0 only weighs its own terms anew.
    original_query_weight : float
        :math:`\lambda`, in [0, 1]; 1 leaves the query as it is. The customary 0.5, with 10 terms, did more harm on
        every set that was measured; for marked chunks it is right.
    min_df : int
        Only terms of at least so many chunks are added, >= 1.
    max_df : float
        Only terms of at most this share of all chunks are added, in (0, 1].

    Raises
    ------
    ParameterError
        A parameter is out of its range.

    References
    ----------
    .. [1] V. Lavrenko, W. B. Croft, "Relevance-based language models", SIGIR 2001.
    .. [2] N. Abdul-Jaleel et al., "UMass at TREC 2004: novelty and HARD", TREC 2004.

    Examples
    --------
    >>> RM3(fb_docs=5).original_query_weight
    0.8
    """

    fb_docs: int = 10
    fb_terms: int = 30
    original_query_weight: float = 0.8
    min_df: int = 2
    max_df: float = 0.25

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check_selection(self.fb_docs, self.fb_terms, self.min_df, self.max_df)
        weight = self.original_query_weight
        check_parameter("original_query_weight", weight, "in [0, 1]", 0 <= comparable(weight) <= 1)

    def expand(self, wanted: Sequence[QueryTerm], evidence: Evidence) -> list[QueryTerm]:
        """Return the terms of the query with what feedback makes of them, and then those that it adds.

        Parameters
        ----------
        wanted : sequence of QueryTerm
            The query.
        evidence : Evidence
            The chunks to learn from; the irrelevant ones are left aside.

        Returns
        -------
        list of QueryTerm
            To be weighed.
        """
        asked = _Asked.of(wanted, evidence)
        table = _Table.of(evidence.relevant, asked, evidence)
        usable = table.queried | table.may_be_added(self.min_df, self.max_df)
        length = table.per_chunk(usable.astype(np.float64))
        scores = np.array([chunk.score for chunk in evidence.relevant])
        prior = scores / scores.sum()
        shares = np.divide(prior, length, out=np.zeros_like(prior), where=length > 0)
        model = np.where(usable, table.per_term(shares), 0.0)
        kept = table.kept(model, self.fb_terms)
        covered = float(model[kept].sum())
        query_length = float(asked.own[asked.is_word].sum()) or 1.0
        scale = (1 - self.original_query_weight) * query_length / covered if covered else 0.0
        formula = "(1 - original_query_weight) * |q| * P(d) / (length * covered)"
        common = (
            ("original_query_weight", self.original_query_weight),
            ("|q|, sum of the query's own weights", query_length),
        )
        chunks = [
            ChunkShare(
                chunk.id,
                float(share * scale),
                formula,
                (
                    *common,
                    ("P(d), share in the scores of the feedback", float(p)),
                    ("length, sum of the stored weights", float(size)),
                    ("covered, probability of the terms that were kept", covered),
                ),
            )
            for chunk, share, p, size in zip(evidence.relevant, shares, prior, length, strict=True)
        ]
        keep = (self.original_query_weight, "original_query_weight")
        return _mixed(wanted, asked, keep, table, kept, chunks, "added by RM3")


@dataclass(frozen=True)
class Rocchio:
    r"""Move the query towards the relevant chunks and away from the irrelevant ones [1]_.

    .. math::

        q' = \alpha \, q + \frac{\beta |q|}{|R|} \sum_{d \in R} \frac{d}{|d|}
           - \frac{\gamma |q|}{|S|} \sum_{d \in S} \frac{d}{|d|}

    in the space of tf-idf vectors, the stored weights times the IDF of now, with their Euclidean lengths; negative
    weights become 0. Of the terms that are not in the query, the `fb_terms` of greatest weight are added. The chunks
    give nothing to bigrams, of which :math:`\alpha \, q` is left, and no length counts them.

    Parameters
    ----------
    alpha : float
        Weight of the query, in [0, 1,000].
    beta : float
        Weight of the relevant chunks R, in [0, 1,000]. The default is that of [2]_ for chunks that were judged; for
        pseudo-feedback, 0.25 does less harm.
    gamma : float
        Weight of the irrelevant chunks S, in [0, 1,000].
    fb_docs, fb_terms, min_df, max_df
        As for :class:`RM3`.

    Raises
    ------
    ParameterError
        A parameter is out of its range.

    References
    ----------
    .. [1] J. J. Rocchio, "Relevance feedback in information retrieval", 1971.
    .. [2] G. Salton, C. Buckley, "Improving retrieval performance by relevance feedback", JASIS 41, 1990.

    Examples
    --------
    >>> Rocchio(beta=0.25)
    Rocchio(alpha=1.0, beta=0.25, gamma=0.15, fb_docs=10, fb_terms=30, min_df=2, max_df=0.25)
    """

    alpha: float = 1.0
    beta: float = 0.75
    gamma: float = 0.15
    fb_docs: int = 10
    fb_terms: int = 30
    min_df: int = 2
    max_df: float = 0.25

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check_selection(self.fb_docs, self.fb_terms, self.min_df, self.max_df)
        for name in ("alpha", "beta", "gamma"):
            value = getattr(self, name)
            check_parameter(name, value, f"in [0, {MAX_FACTOR:,}]", 0 <= comparable(value) <= MAX_FACTOR)

    def expand(self, wanted: Sequence[QueryTerm], evidence: Evidence) -> list[QueryTerm]:
        """Return the terms of the query with what feedback makes of them, and then those that it adds.

        Parameters
        ----------
        wanted : sequence of QueryTerm
            The query.
        evidence : Evidence
            The chunks to learn from.

        Returns
        -------
        list of QueryTerm
            To be weighed.
        """
        judged = [*evidence.relevant, *evidence.irrelevant]
        asked = _Asked.of(wanted, evidence)
        table = _Table.of(judged, asked, evidence)
        norm = float(np.linalg.norm((asked.own * _idf(asked.df, evidence))[asked.is_word])) or 1.0
        chunks = [
            *self._shares("beta", self.beta, norm, evidence.relevant, table.norms()),
            *self._shares("gamma", -self.gamma, norm, evidence.irrelevant, table.norms()[len(evidence.relevant) :]),
        ]
        added = table.per_term(np.array([chunk.share for chunk in chunks]))
        usable = table.queried | table.may_be_added(self.min_df, self.max_df)
        kept = table.kept(np.where(usable, added * table.idf, 0.0), self.fb_terms)
        return _mixed(wanted, asked, (self.alpha, "alpha"), table, kept, chunks, "added by Rocchio")

    def _shares(
        self, name: str, factor: float, norm: float, chunks: Sequence[FeedbackChunk], norms: NDArray[np.float64]
    ) -> list[ChunkShare]:
        """Return what each chunk of one side is multiplied by."""
        sign, side = ("-", "S") if name == "gamma" else ("", "R")
        return [
            ChunkShare(
                chunk.id,
                factor * norm / (len(chunks) * length) if length else 0.0,
                f"{sign}{name} * |q| / (|{side}| * |d|)",
                (
                    (name, abs(factor)),
                    ("|q|, length of the query's vector", norm),
                    (f"|{side}|, number of chunks", len(chunks)),
                    ("|d|, length of the chunk's vector", length),
                ),
            )
            for chunk, length in zip(chunks, norms.tolist(), strict=False)
        ]


@dataclass(frozen=True)
class BIM:
    r"""Binary independence model: the IDF counts relevant and other chunks apart [1]_.

    Meant for marked chunks: where the best chunks of a search are taken for relevant, it was measured to do harm.

    Every term is weighed by :func:`rag_bm25.similarity.relevance_weight`, in the form and with the floor of the IDF in
    use, see :func:`rag_bm25.similarity.equivalent_df`; without relevant chunks that is the plain IDF. Of the other
    terms of relevant chunks, those of the greatest offer weight, r times the relevance weight [2]_, are added.
    Irrelevant chunks count as all other ones do.

    Parameters
    ----------
    fb_docs, fb_terms, min_df, max_df
        As for :class:`RM3`; ``fb_terms=0`` gives the model of [1]_ alone.

    Raises
    ------
    ParameterError
        A parameter is out of its range.

    References
    ----------
    .. [1] S. E. Robertson, K. Spärck Jones, "Relevance weighting of search terms", JASIS 27, 1976.
    .. [2] S. E. Robertson, "On term selection for query expansion", Journal of Documentation 46, 1990.

    Examples
    --------
    >>> BIM(fb_terms=0)
    BIM(fb_docs=10, fb_terms=0, min_df=2, max_df=0.25)
    """

    fb_docs: int = 10
    fb_terms: int = 30
    min_df: int = 2
    max_df: float = 0.25

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check_selection(self.fb_docs, self.fb_terms, self.min_df, self.max_df)

    def expand(self, wanted: Sequence[QueryTerm], evidence: Evidence) -> list[QueryTerm]:
        """Return the terms of the query as they are, and then those that feedback adds.

        Parameters
        ----------
        wanted : sequence of QueryTerm
            The query.
        evidence : Evidence
            The chunks to learn from; the irrelevant ones are left aside.

        Returns
        -------
        list of QueryTerm
            To be weighed with the vectors of the relevant chunks.
        """
        asked = _Asked.of(wanted, evidence)
        table = _Table.of(evidence.relevant, asked, evidence)
        num_relevant = len(evidence.relevant)
        r = np.bincount(table.column, minlength=len(table.ids))
        new = ~table.queried & table.may_be_added(self.min_df, self.max_df)
        offer = np.zeros(len(table.ids))
        counts = RelevanceCounts.within(r[new], num_relevant, table.df[new], table.num_chunks)
        offer[new] = counts.r * counts.weights(table.df[new], table.num_chunks)
        added = [
            QueryTerm(table.terms[at], 1, Origin(f"in {r[at]:,} of {num_relevant:,} relevant chunks"))
            for at in table.kept(offer, self.fb_terms).tolist()
            if new[at]
        ]
        return [*wanted, *added]


Feedback: TypeAlias = RM3 | Rocchio | BIM
"""A method of feedback."""


def learn(method: Feedback, query: QueryLike, evidence: Evidence) -> QueryTerms:
    """Weigh a query with what feedback makes of it; without any chunks, as it is.

    Parameters
    ----------
    method : RM3, Rocchio or BIM
        How to learn.
    query : str, mapping of str to float, or Query
        The query.
    evidence : Evidence
        What to learn from.

    Returns
    -------
    QueryTerms
        The terms of the query and those that were added.
    """
    encoder, corpus = evidence.encoder, evidence.statistics
    if not evidence.relevant and not evidence.irrelevant:
        return encoder.terms(query, corpus)
    wanted, alternatives = encoder.wanted(query, corpus)
    counted = [chunk.vector for chunk in evidence.relevant] if isinstance(method, BIM) else None
    learnt = encoder.weigh(method.expand(wanted, evidence), corpus, counted)
    return replace(learnt, alternatives=alternatives)


@dataclass(frozen=True, eq=False)
class _Asked:
    """The terms of a query: ids, df, what the query itself gives them before IDF, and which of them are words."""

    ids: NDArray[np.uint32]
    df: NDArray[np.int64]
    own: NDArray[np.float64]
    is_word: NDArray[np.bool_]

    @classmethod
    def of(cls, wanted: Sequence[QueryTerm], evidence: Evidence) -> _Asked:
        """Look the terms up."""
        ids = np.array([evidence.encoder.ids[asked.term] for asked in wanted], np.uint32)
        boost = np.array([asked.origin.boost for asked in wanted], np.float64)
        qtf = np.array([asked.qtf for asked in wanted], np.int64)
        own = boost * evidence.encoder.weighting.term_weights(qtf)
        is_word = np.array([not is_bigram(asked.term) for asked in wanted], np.bool_)
        return cls(ids, evidence.statistics.df(ids), own, is_word)


@dataclass(frozen=True, eq=False)
class _Table:
    """The known words of some chunks: a row for each chunk, a column for each word, an entry for each stored weight."""

    terms: list[str]
    ids: NDArray[np.uint32]
    df: NDArray[np.int64]
    idf: NDArray[np.float64]
    queried: NDArray[np.bool_]
    num_chunks: int
    rows: int
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    stored: NDArray[np.float64]

    @classmethod
    def of(cls, chunks: Sequence[FeedbackChunk], asked: _Asked, evidence: Evidence) -> _Table:
        """Lay out the vectors of the chunks, without bigrams, and terms that have no name or no df."""
        flat = np.concatenate([chunk.vector.ids for chunk in chunks] or [np.empty(0, np.uint32)])
        stored = np.concatenate([chunk.vector.values for chunk in chunks] or [np.empty(0, np.float32)])
        row = np.repeat(np.arange(len(chunks)), [len(chunk.vector) for chunk in chunks])
        ids, column = np.unique(flat, return_inverse=True)
        df = evidence.statistics.df(ids)
        terms = [evidence.term_of(id_) for id_ in ids.tolist()]
        known = (df > 0) & np.array([term is not None and not is_bigram(term) for term in terms], np.bool_)
        entries = known[column]
        place = np.cumsum(known) - 1
        return cls(
            [term for term, is_known in zip(terms, known, strict=True) if term is not None and is_known],
            ids[known],
            df[known],
            _idf(df[known], evidence),
            np.isin(ids[known], asked.ids),
            evidence.statistics.num_chunks,
            len(chunks),
            row[entries],
            place[column[entries]],
            stored[entries].astype(np.float64),
        )

    def may_be_added(self, min_df: int, max_df: float) -> NDArray[np.bool_]:
        """Tell which terms are neither too rare nor too common to be added to a query."""
        return (self.df >= min_df) & (self.df <= max_df * self.num_chunks)

    def per_chunk(self, factors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the stored weights of each chunk, each times the factor of its term."""
        return np.bincount(self.row, self.stored * factors[self.column], self.rows).astype(np.float64)

    def per_term(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the stored weights of each term, each times the share of its chunk."""
        return np.bincount(self.column, self.stored * shares[self.row], len(self.ids)).astype(np.float64)

    def norms(self) -> NDArray[np.float64]:
        """Return the Euclidean length of each chunk's tf-idf vector."""
        squares = (self.stored * self.idf[self.column]) ** 2
        return np.sqrt(np.bincount(self.row, squares, self.rows))

    def kept(self, worth: NDArray[np.float64], fb_terms: int) -> NDArray[np.intp]:
        """Return the columns of the query's terms and of the others of greatest worth above 0, the best first."""
        order = np.lexsort((self.ids, -worth))
        new = order[~self.queried[order] & (worth[order] > 0)]
        return np.concatenate((order[self.queried[order]], new[:fb_terms]))


def _idf(df: NDArray[np.int64], evidence: Evidence) -> NDArray[np.float64]:
    """Return the query weight of terms that occur once, 0 for those that no chunk has."""
    weights = np.zeros(len(df))
    known = df > 0
    once = np.ones(np.count_nonzero(known), np.int64)
    weights[known] = evidence.encoder.weighting.weights(once, df[known], evidence.statistics.figures)
    return weights


def _mixed(
    wanted: Sequence[QueryTerm],
    asked: _Asked,
    keep: tuple[float, str],
    table: _Table,
    kept: NDArray[np.intp],
    chunks: Sequence[ChunkShare],
    reason: str,
) -> list[QueryTerm]:
    """Add a weighted sum of chunks, cut to some columns, to a query."""
    shares: defaultdict[int, list[tuple[ChunkShare, float]]] = defaultdict(list)
    for entry in np.flatnonzero(np.isin(table.column, kept)).tolist():
        shares[int(table.ids[table.column[entry]])].append((chunks[table.row[entry]], float(table.stored[entry])))
    terms = []
    for term, id_, own in zip(wanted, asked.ids.tolist(), asked.own.tolist(), strict=True):
        factor = FeedbackFactor(*keep, own, tuple(shares.pop(id_, ())))
        terms.append(replace(term, origin=replace(term.origin, feedback=factor)))
    for at in kept.tolist():
        if added := shares.get(int(table.ids[at])):
            factor = FeedbackFactor(*keep, 0.0, tuple(added))
            terms.append(QueryTerm(table.terms[at], 1, Origin(reason, (), factor)))
    return terms
