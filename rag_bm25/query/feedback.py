r"""Relevance feedback: a query learns from chunks that users marked as relevant.

The binary independence model counts the marked chunks that have a term, and gives the counts to the IDF. Marked chunks
help much. On 567 lay questions about Chinese law with several answers (STARD), with one answer marked, the others are
found with an nDCG@10 of .268, against .164 without feedback. It takes a read of the marked chunks, and no second
search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import numpy as np

from rag_bm25.definitions import FINITE, Between, check_fields
from rag_bm25.documents.checks import check_ids
from rag_bm25.query.terms import QueryTerm, RelevanceCounts, TermOrigin
from rag_bm25.vectors.terms import is_word

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.query.encoder import QueryEncoder
    from rag_bm25.query.query import QueryLike
    from rag_bm25.query.terms import QueryTerms
    from rag_bm25.statistics.corpus import CorpusCounts
    from rag_bm25.vectors.sparse import SparseVector

Marked: TypeAlias = Annotated[Sequence[str], Between(0, 1_000)]
"""Ids of chunks that users marked, in the searched namespaces."""


@dataclass(frozen=True)
class RSJ:
    r"""Relevance weights of Robertson and Spärck Jones: the IDF counts relevant and other chunks apart [1]_.

    This is the binary independence model.

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

    Examples
    --------
    >>> RSJ(["law.txt#3"], fb_terms=10).relevant
    ('law.txt#3',)
    """

    relevant: Marked
    fb_terms: Annotated[int, Between(0, FINITE.high)] = 30
    min_df: Annotated[int, Between(1, FINITE.high)] = 2
    max_df: Annotated[float, Between(0, 1, above=True)] = 0.25

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "relevant", tuple(check_ids(self.relevant, "relevant")))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a query learns from: the marked chunks, and the corpus that they are in."""

    method: RSJ
    relevant: Sequence[SparseVector]  # the marked chunks
    encoder: QueryEncoder
    statistics: CorpusCounts
    term_of: Callable[[int], str | None]  # the term of an id, as the vocabulary has it; ids without one are ignored

    def weigh(self, query: QueryLike) -> QueryTerms:
        """Weigh a query with feedback; without any chunks to learn from, as it is."""
        if not self.relevant:
            return self.encoder.terms(query, self.statistics)
        wanted, group_words = self.encoder.expand(query, self.statistics)
        return self.encoder.weigh([*wanted, *self._offered(wanted)], self.statistics, self.relevant, group_words)

    def _offered(self, wanted: Sequence[QueryTerm]) -> list[QueryTerm]:
        """Return the words of the relevant chunks with the largest offer weights that the query does not have."""
        num_chunks, queried = self.statistics.num_chunks, {term.term for term in wanted}
        ids = np.unique(np.concatenate([vector.ids for vector in self.relevant]))
        df = self.statistics.df(ids)
        may_be_added = (df >= self.method.min_df) & (df <= self.method.max_df * num_chunks)
        ids, df = ids[may_be_added], df[may_be_added]
        counts = RelevanceCounts.of(self.relevant, ids, df, num_chunks)
        offer = counts.r * counts.weights(df, num_chunks)
        best = np.lexsort((ids, -offer))
        named = [(self.term_of(int(ids[at])), int(counts.r[at])) for at in best[offer[best] > 0].tolist()]
        return [
            QueryTerm(term, 1, TermOrigin(f"in {r:,} of {counts.num_relevant:,} relevant chunks"))
            for term, r in named
            if term is not None and is_word(term) and term not in queried
        ][: self.method.fb_terms]
