"""One ranking from several: what a lexical and a dense search found, put together."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rag_bm25.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["check_rrf_k", "check_weights", "reciprocal_ranks", "weighted_scores"]

MAX_RRF_K = 16_383


def reciprocal_ranks(rankings: Sequence[Sequence[str]], k: int) -> dict[str, float]:
    r"""Reciprocal rank fusion, :math:`\sum_i 1 / (k + rank_i)` over the rankings that have a key [1]_.

    Scores play no part, so rankings of any scale can be put together.

    Parameters
    ----------
    rankings : sequence of sequences of str
        Keys, best first.
    k : int
        How little the first ranks stand out; 60 by custom.

    Returns
    -------
    dict of str to float
        Key -> fused score.

    References
    ----------
    .. [1] Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning
       methods", SIGIR 2009.

    Examples
    --------
    >>> reciprocal_ranks([["a", "b"], ["b"]], k=1)
    {'a': 0.5, 'b': 0.8333333333333333}
    """
    fused: dict[str, float] = defaultdict(float)
    for ranking in rankings:
        for rank, key in enumerate(ranking, start=1):
            fused[key] += 1 / (k + rank)
    return dict(fused)


def weighted_scores(
    found: Sequence[Mapping[str, float]], weights: Sequence[float], lowest: Sequence[float]
) -> dict[str, float]:
    r"""Weighted sum of scores brought to one scale, :math:`\sum_i w_i (s_i - min_i) / (max_i - min_i)` [1]_.

    The minimum is the lowest score that there can be, and the maximum the greatest that was found, so that the best of
    each search counts 1. What a search did not find counts 0 there.

    Parameters
    ----------
    found : sequence of mappings of str to float
        Key -> score, for each search.
    weights : sequence of float
        One for each search, >= 0.
    lowest : sequence of float
        The lowest possible score of each search: 0 for BM25, -1 for a cosine.

    Returns
    -------
    dict of str to float
        Key -> fused score, between 0 and the sum of the weights.

    References
    ----------
    .. [1] Bruch, Gai and Ingber, "An analysis of fusion functions for hybrid retrieval", TOIS 42(1), 2023 (TM2C2).

    Examples
    --------
    >>> weighted_scores([{"a": 8.0, "b": 2.0}, {"b": 0.5}], [0.5, 0.5], [0.0, -1.0])
    {'a': 0.5, 'b': 0.625}
    """
    fused: dict[str, float] = defaultdict(float)
    for scores, weight, low in zip(found, weights, lowest, strict=True):
        span = max(scores.values(), default=low) - low
        for key, score in scores.items():
            fused[key] += weight * ((score - low) / span if span else 1.0)
    return dict(fused)


def check_rrf_k(k: int) -> None:
    """Refuse a k of reciprocal rank fusion that engines do not take.

    Parameters
    ----------
    k : int
        As for :func:`reciprocal_ranks`.

    Raises
    ------
    ParameterError
        It is out of its range.
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_RRF_K:
        msg = f"rrf_k must be an int in 1..{MAX_RRF_K}, got {k!r}"
        raise ParameterError(msg)


def check_weights(weights: Sequence[float]) -> None:
    """Refuse weights of a lexical and a dense search that make no sense.

    Parameters
    ----------
    weights : sequence of float
        As for :func:`weighted_scores`.

    Raises
    ------
    ParameterError
        There are not two of them, one is out of its range, or both are 0.
    """
    if len(weights) != 2 or not all(0 <= weight < float("inf") for weight in weights) or not any(weights):
        msg = f"weights must be two finite numbers >= 0, for sparse and dense, not both 0, got {weights!r}"
        raise ParameterError(msg)
