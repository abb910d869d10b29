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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from rag_bm25.definitions import FINITE, Between, check_fields
from rag_bm25.documents.checks import check_ids
from rag_bm25.errors import InputError

MAX_FACTOR = 1_000

Marked: TypeAlias = Annotated[Sequence[str], Between(0, 1_000)]
"""Ids of chunks that users marked, in the searched namespaces."""

FbDocs: TypeAlias = Annotated[int, Between(1, 1_000)]
FbTerms: TypeAlias = Annotated[int, Between(0, FINITE.high)]
MinDf: TypeAlias = Annotated[int, Between(1, FINITE.high)]
MaxDf: TypeAlias = Annotated[float, Between(0, 1, above=True)]
Factor: TypeAlias = Annotated[float, Between(0, MAX_FACTOR)]


def _check(method: Feedback) -> None:
    """Check the fields of a method, and the ids of marked chunks among them."""
    check_fields(method)
    marked = {name: ids for name in ("relevant", "irrelevant") if (ids := getattr(method, name, None)) is not None}
    for name, ids in marked.items():
        object.__setattr__(method, name, tuple(check_ids(ids, name)))
    if both := sorted(set.intersection(*map(set, marked.values()))) if len(marked) > 1 else []:
        raise InputError(f"the chunk {both[0]!r} is given as relevant and as irrelevant")


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

    The model is one of words, and both sums are over words. It gives other terms no probability: of those in the
    query :math:`\lambda \, qtf_t` is left, so the more the query learns, the less they count against words.

    Parameters
    ----------
    relevant : sequence of str, optional
        Ids of chunks that answer the query, in the searched namespaces. Without, the best chunks of a first search are
        assumed to be relevant; with an empty sequence, the query is searched for as it is.
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

    relevant: Marked | None = None
    fb_docs: FbDocs = 10
    fb_terms: FbTerms = 30
    original_query_weight: Annotated[float, Between(0, 1)] = 0.8
    min_df: MinDf = 2
    max_df: MaxDf = 0.25

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class Rocchio:
    r"""Move the query towards the relevant chunks and away from the irrelevant ones [1]_.

    .. math::

        q' = \alpha \, q + \frac{\beta |q|}{|R|} \sum_{d \in R} \frac{d}{|d|}
           - \frac{\gamma |q|}{|S|} \sum_{d \in S} \frac{d}{|d|}

    in the space of tf-idf vectors, the stored weights times the IDF of now, with their Euclidean lengths; negative
    weights become 0. Of the terms that are not in the query, the `fb_terms` with the largest weights are added. The
    chunks add nothing to other terms than words, of which :math:`\alpha \, q` is left, and lengths do not count them.

    Parameters
    ----------
    relevant : sequence of str, optional
        Ids of chunks that answer the query, in the searched namespaces. Without, the best chunks of a first search are
        assumed to be relevant; with an empty sequence, the query is searched for as it is.
    irrelevant : sequence of str, optional
        Ids of chunks that do not answer the query.
    alpha : float
        Weight of the query, in [0, 1,000].
    beta : float
        Weight of the relevant chunks R, in [0, 1,000]. The default is that of [2]_ for judged chunks; for
        pseudo-feedback, 0.25 does less harm.
    gamma : float
        Weight of the irrelevant chunks S, in [0, 1,000].
    fb_docs : int
        Number of chunks of the first search that are assumed to be relevant, in 1..1,000.
    fb_terms : int
        Maximum number of terms to add to the query; 0 only changes the weights of its own terms.
    min_df : int
        Minimum document frequency of terms to add, >= 1.
    max_df : float
        Maximum document frequency of terms to add, as a share of all chunks, in (0, 1].

    References
    ----------
    .. [1] J. J. Rocchio, "Relevance feedback in information retrieval", in: The SMART Retrieval System, 1971.
    .. [2] G. Salton, C. Buckley, "Improving retrieval performance by relevance feedback", JASIS 41, 1990.

    Examples
    --------
    >>> Rocchio(["law.txt#3"], beta=0.5).relevant
    ('law.txt#3',)
    """

    relevant: Marked | None = None
    irrelevant: Marked | None = None
    alpha: Factor = 1.0
    beta: Factor = 0.75
    gamma: Factor = 0.15
    fb_docs: FbDocs = 10
    fb_terms: FbTerms = 30
    min_df: MinDf = 2
    max_df: MaxDf = 0.25

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class RSJ:
    r"""Relevance weights of Robertson and Spärck Jones: the IDF counts relevant and other chunks apart [1]_.

    This is the binary independence model. It needs chunks that are marked as relevant: with assumed ones, it does harm.

    Every term is weighed by :func:`rag_bm25.weighting.idf.relevance_weight`, in the form and with the floor of the IDF
    in use, see :func:`rag_bm25.weighting.idf.equivalent_df`; without relevant chunks that is the plain IDF. Of the
    other terms of relevant chunks, those with the largest offer weight, r times the relevance weight [2]_, are added.

    Parameters
    ----------
    relevant : sequence of str
        Ids of chunks that answer the query, in the searched namespaces.
    fb_terms : int
        Maximum number of terms to add to the query; 0 gives the model of [1]_ alone.
    min_df : int
        Minimum document frequency of terms to add, >= 1.
    max_df : float
        Maximum document frequency of terms to add, as a share of all chunks, in (0, 1].

    References
    ----------
    .. [1] S. E. Robertson, K. Spärck Jones, "Relevance weighting of search terms", JASIS 27, 1976.
    .. [2] S. E. Robertson, "On term selection for query expansion", Journal of Documentation 46, 1990.
    """

    relevant: Marked
    fb_terms: FbTerms = 30
    min_df: MinDf = 2
    max_df: MaxDf = 0.25

    def __post_init__(self) -> None:
        _check(self)


Feedback: TypeAlias = RM3 | Rocchio | RSJ
"""A method of relevance feedback, with its parameters."""
