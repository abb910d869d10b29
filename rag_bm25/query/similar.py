"""Weigh the terms of a chunk as a query, to find chunks that resemble it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.query.terms import QueryTerm, TermSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.query.encoder import QueryEncoder
    from rag_bm25.query.terms import QueryTerms
    from rag_bm25.statistics.corpus import CorpusCounts
    from rag_bm25.vectors.sparse import SparseVector

MIN_DF = 2  # a term that only the chunk itself has finds nothing else


def weigh_terms_of(
    chunk: SparseVector,
    encoder: QueryEncoder,
    statistics: CorpusCounts,
    term_of: Callable[[int], str | None],  # the term of an id, as the vocabulary has it
    max_terms: int,
) -> QueryTerms:
    """Weigh the terms of a chunk by stored weight times IDF, and keep the best ones, as Lucene's MoreLikeThis does."""
    common = statistics.df(chunk.ids) >= MIN_DF
    wanted = [
        QueryTerm(term, 1, TermSource("in the chunk", (("weight in the chunk, as stored", weight),)))
        for id_, weight in zip(chunk.ids[common].tolist(), chunk.values[common].tolist(), strict=True)
        if (term := term_of(id_)) is not None and weight > 0
    ]
    weighed = encoder.weigh(wanted, statistics)
    best = np.sort(np.lexsort((weighed.ids, -weighed.weights))[:max_terms])
    return replace(
        weighed,
        terms=[weighed.terms[at] for at in best],
        sources=[weighed.sources[at] for at in best],
        **{name: getattr(weighed, name)[best] for name in ("ids", "qtf", "df", "boost", "weights")},
    )
