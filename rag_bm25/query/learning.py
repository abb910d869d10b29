"""Apply relevance feedback to the terms of a query: the formulas of :mod:`rag_bm25.query.feedback`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.query.evidence import AskedTerms, Evidence, FeedbackChunk, FeedbackTable
from rag_bm25.query.feedback import RM3, RSJ, Rocchio
from rag_bm25.query.terms import ChunkShare, QueryTerm, RelevanceCounts, TermSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rag_bm25.query.feedback import Feedback
    from rag_bm25.query.query import QueryLike
    from rag_bm25.query.terms import QueryTerms


def apply_feedback(method: Feedback, query: QueryLike, evidence: Evidence) -> QueryTerms:
    """Weigh a query with feedback; without any chunks to learn from, as it is."""
    encoder, corpus = evidence.encoder, evidence.statistics
    if not evidence.relevant and not evidence.irrelevant:
        return encoder.terms(query, corpus)
    wanted, group_words = encoder.expand(query, corpus)
    counted = [chunk.vector for chunk in evidence.relevant] if isinstance(method, RSJ) else None
    return encoder.weigh(expand(method, wanted, evidence), corpus, counted, group_words)


def expand(method: Feedback, wanted: Sequence[QueryTerm], evidence: Evidence) -> list[QueryTerm]:
    """Return the terms of a query with their feedback, and then the terms that it adds; to be weighed."""
    if isinstance(method, RM3):
        return _expand_rm3(method, wanted, evidence)
    if isinstance(method, Rocchio):
        return _expand_rocchio(method, wanted, evidence)
    return _expand_rsj(method, wanted, evidence)


def _expand_rm3(method: RM3, wanted: Sequence[QueryTerm], evidence: Evidence) -> list[QueryTerm]:
    """Mix the query with the relevance model of the relevant chunks."""
    asked = AskedTerms.of(wanted, evidence)
    table = FeedbackTable.of(evidence.relevant, asked, evidence)
    usable = table.queried | table.may_be_added(method.min_df, method.max_df)
    length = table.per_chunk(usable.astype(np.float64))
    scores = np.array([chunk.score for chunk in evidence.relevant])
    prior = scores / scores.sum()
    shares = np.divide(prior, length, out=np.zeros_like(prior), where=length > 0)
    model = np.where(usable, table.per_word(shares), 0.0)
    kept = table.select(model, method.fb_terms)
    covered = float(model[kept].sum())
    query_length = float(asked.own[asked.is_word].sum()) or 1.0
    scale = (1 - method.original_query_weight) * query_length / covered if covered else 0.0
    chunks = [
        ChunkShare(
            chunk.id,
            float(share * scale),
            "(1 - original_query_weight) * |q| * P(d) / (length * covered)",
            (
                ("original_query_weight", method.original_query_weight),
                ("|q|, sum of the query's own weights", query_length),
                ("P(d), share in the scores of the feedback", float(p)),
                ("length, sum of the stored weights", float(size)),
                ("covered, probability of the terms that were kept", covered),
            ),
        )
        for chunk, share, p, size in zip(evidence.relevant, shares, prior, length, strict=True)
    ]
    keep = (method.original_query_weight, "original_query_weight")
    return table.add_to(wanted, asked, keep, kept, chunks, "added by RM3")


def _expand_rocchio(method: Rocchio, wanted: Sequence[QueryTerm], evidence: Evidence) -> list[QueryTerm]:
    """Move the query towards the relevant chunks and away from the irrelevant ones."""
    judged = [*evidence.relevant, *evidence.irrelevant]
    asked = AskedTerms.of(wanted, evidence)
    table = FeedbackTable.of(judged, asked, evidence)
    norm = float(np.linalg.norm((asked.own * evidence.idf(asked.df))[asked.is_word])) or 1.0
    chunks = [
        *_rocchio_shares("beta", method.beta, norm, evidence.relevant, table.norms()),
        *_rocchio_shares("gamma", -method.gamma, norm, evidence.irrelevant, table.norms()[len(evidence.relevant) :]),
    ]
    added = table.per_word(np.array([chunk.share for chunk in chunks]))
    usable = table.queried | table.may_be_added(method.min_df, method.max_df)
    kept = table.select(np.where(usable, added * table.idf, 0.0), method.fb_terms)
    return table.add_to(wanted, asked, (method.alpha, "alpha"), kept, chunks, "added by Rocchio")


def _rocchio_shares(
    name: str, factor: float, norm: float, chunks: Sequence[FeedbackChunk], norms: NDArray[np.float64]
) -> list[ChunkShare]:
    """Return the share of each chunk of one side."""
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


def _expand_rsj(method: RSJ, wanted: Sequence[QueryTerm], evidence: Evidence) -> list[QueryTerm]:
    """Add the terms of the relevant chunks with the largest offer weights."""
    table = FeedbackTable.of(evidence.relevant, AskedTerms.of(wanted, evidence), evidence)
    r, num_relevant = np.bincount(table.column, minlength=len(table.ids)), len(evidence.relevant)
    counts = RelevanceCounts.within(r, num_relevant, table.df, table.num_chunks)
    new = ~table.queried & table.may_be_added(method.min_df, method.max_df)
    offer = np.where(new, counts.r * counts.weights(table.df, table.num_chunks), 0.0)
    added = [
        QueryTerm(table.words[at], 1, TermSource(f"in {r[at]:,} of {num_relevant:,} relevant chunks"))
        for at in table.select(offer, method.fb_terms).tolist()
        if new[at]
    ]
    return [*wanted, *added]
