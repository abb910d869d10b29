r"""Relevance feedback: a query learns from chunks that are relevant, or assumed to be relevant.

Rocchio's centroid and RM3's relevance model add a weighted sum of the chunks' stored vectors to the query, so no text
is analysed again; they differ in the share of each chunk. Without marked chunks, the best ones of a first search are
assumed to be relevant (pseudo-feedback). The stored weight, which saturates with tf, stands for the term frequency of
the textbooks; in measurements it found as much as the frequency itself. The binary independence model counts marked
chunks, and gives the counts to the IDF. :mod:`rag_bm25.query.learning` computes all of them.

Chunks that users marked as relevant help much. On 567 lay questions about Chinese law with several answers (STARD),
with one answer marked, the others are found with an nDCG@10 of .252 by Rocchio's method and .268 by the binary
independence model, against .164 without feedback. Pseudo-feedback finds a little more among the first hundred or
thousand, and ranks the first ten no better or worse: docs/tuning.md. It is off by default. It takes a second search
and a second read, about five times the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rag_bm25.checks import check_parameter, comparable

MAX_FB_DOCS = 1_000
MAX_FACTOR = 1_000


def _is_count(value: object, low: int, high: float = math.inf) -> bool:
    return isinstance(value, int) and low <= value <= high


def _check_fb_docs(fb_docs: object) -> None:
    check_parameter("fb_docs", fb_docs, f"an int in 1..{MAX_FB_DOCS:,}", _is_count(fb_docs, 1, MAX_FB_DOCS))


def _check_selection(method: Feedback) -> None:
    """Check the parameters that all methods have."""
    check_parameter("fb_terms", method.fb_terms, "an int >= 0", _is_count(method.fb_terms, 0))
    check_parameter("min_df", method.min_df, "an int >= 1", _is_count(method.min_df, 1))
    check_parameter("max_df", method.max_df, "in (0, 1]", 0 < comparable(method.max_df) <= 1)


@dataclass(frozen=True)
class RM3:
    r"""Relevance model, mixed with the query (RM3) [2]_.

    .. math::

        P(t|R) = \sum_d P(t|d) \, P(d), \qquad
        qtf'_t = \lambda \, qtf_t + (1 - \lambda) \, |q| \, P(t|R)

    :math:`P(t|d)` is the share of the term in the stored vector of the chunk. :math:`P(d)` stands for the likelihood of
    the query in the relevance model of [1]_: the share of the chunk in the scores of the first search, as in Anserini's
    BM25+RM3 [3]_; marked chunks have equal shares. The model is cut to the terms of the query and the `fb_terms` best
    others, and brought back to a sum of 1. :math:`|q|` is the sum of the :math:`qtf_t`, so that scores keep their
    scale. Irrelevant chunks have no place in the model.

    The model is one of words, and both sums are over words. It gives bigrams no probability: of those in the query
    :math:`\lambda \, qtf_t` is left, so the more the query learns, the less bigrams count against words.

    Parameters
    ----------
    fb_docs : int
        Number of chunks of the first search that are assumed to be relevant, in 1..1,000.
    fb_terms : int
        Maximum number of terms to add to the query; 0 only changes the weights of its own terms.
    original_query_weight : float
        :math:`\lambda`, in [0, 1]; 1 leaves the query as it is. The customary 0.5, with 10 terms, did more harm on
        every set that was measured; for marked chunks it is right.
    min_df : int
        Minimum document frequency of terms to add, >= 1.
    max_df : float
        Maximum document frequency of terms to add, as a share of all chunks, in (0, 1].

    References
    ----------
    .. [1] V. Lavrenko, W. B. Croft, "Relevance-based language models", SIGIR 2001.
    .. [2] N. Abdul-Jaleel et al., "UMass at TREC 2004: novelty and HARD", TREC 2004.
    .. [3] J. Lin, "The neural hype and comparisons against weak baselines", SIGIR Forum 52, 2018.
    """

    fb_docs: int = 10
    fb_terms: int = 30
    original_query_weight: float = 0.8
    min_df: int = 2
    max_df: float = 0.25

    def __post_init__(self) -> None:
        _check_fb_docs(self.fb_docs)
        _check_selection(self)
        weight = self.original_query_weight
        check_parameter("original_query_weight", weight, "in [0, 1]", 0 <= comparable(weight) <= 1)


@dataclass(frozen=True)
class Rocchio:
    r"""Move the query towards the relevant chunks and away from the irrelevant ones [1]_.

    .. math::

        q' = \alpha \, q + \frac{\beta |q|}{|R|} \sum_{d \in R} \frac{d}{|d|}
           - \frac{\gamma |q|}{|S|} \sum_{d \in S} \frac{d}{|d|}

    in the space of tf-idf vectors, the stored weights times the IDF of now, with their Euclidean lengths; negative
    weights become 0. Of the terms that are not in the query, the `fb_terms` with the largest weights are added. The
    chunks add nothing to bigrams, of which :math:`\alpha \, q` is left, and lengths do not count them.

    Parameters
    ----------
    alpha, beta, gamma : float
        Weights of the query, of the relevant chunks R and of the irrelevant chunks S, in [0, 1,000]. The default `beta`
        is that of [2]_ for judged chunks; for pseudo-feedback, 0.25 does less harm.
    fb_docs, fb_terms, min_df, max_df
        As for :class:`RM3`.

    References
    ----------
    .. [1] J. J. Rocchio, "Relevance feedback in information retrieval", in: The SMART Retrieval System, 1971.
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
        _check_fb_docs(self.fb_docs)
        _check_selection(self)
        for name in ("alpha", "beta", "gamma"):
            value = getattr(self, name)
            check_parameter(name, value, f"in [0, {MAX_FACTOR:,}]", 0 <= comparable(value) <= MAX_FACTOR)


@dataclass(frozen=True)
class BIM:
    r"""Binary independence model: the IDF counts relevant and other chunks apart [1]_.

    It needs chunks that are marked as relevant: with assumed ones, it does harm.

    Every term is weighed by :func:`rag_bm25.weighting.idf.relevance_weight`, in the form and with the floor of the IDF
    in use, see :func:`rag_bm25.weighting.idf.equivalent_df`; without relevant chunks that is the plain IDF. Of the
    other terms of relevant chunks, those with the largest offer weight, r times the relevance weight [2]_, are added.
    Irrelevant chunks count like any other chunks.

    Parameters
    ----------
    fb_terms, min_df, max_df
        As for :class:`RM3`; ``fb_terms=0`` gives the model of [1]_ alone.

    References
    ----------
    .. [1] S. E. Robertson, K. Spärck Jones, "Relevance weighting of search terms", JASIS 27, 1976.
    .. [2] S. E. Robertson, "On term selection for query expansion", Journal of Documentation 46, 1990.
    """

    fb_terms: int = 30
    min_df: int = 2
    max_df: float = 0.25

    def __post_init__(self) -> None:
        _check_selection(self)


Feedback: TypeAlias = RM3 | Rocchio | BIM
"""A method of relevance feedback, with its parameters."""

FEEDBACK_METHODS: tuple[type[Feedback], ...] = (RM3, Rocchio, BIM)

FeedbackName = Literal["rm3", "rocchio", "bim"]
"""A method with its default parameters, for requests and the command line."""

METHODS_BY_NAME = {method.__name__.lower(): method for method in FEEDBACK_METHODS}
