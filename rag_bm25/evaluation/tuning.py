"""A search for good parameters, honest about what it found: the winner is judged on queries that it has not seen."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.errors import InputError, ParameterError
from rag_bm25.evaluation.comparison import PairedTest, paired_test
from rag_bm25.evaluation.counts import CountsCache
from rag_bm25.evaluation.measures import query_values, require_ir_measures
from rag_bm25.evaluation.settings import Value, differing, require_setting, with_settings
from rag_bm25.similarity import IDF_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.config import IndexConfig
    from rag_bm25.evaluation.datasets import BeirDataset
    from rag_bm25.evaluation.measures import MeasureName

__all__ = ["GRIDS", "Axis", "Fold", "HeatMap", "Tuning", "axes_for", "coordinate_descent", "query_folds", "tune"]

CHUNK_SIZES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
"""Multiples of the base's chunk size that are tried."""

GRIDS: dict[str, tuple[Value, ...]] = {
    "k1": (0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 2.5, 3.0),
    "b": (0.0, 0.2, 0.4, 0.6, 0.75, 0.9, 1.0),
    "chunk_size": CHUNK_SIZES,
    "weighting": ("bm25", "bm25l", "bm25+"),
    "idf": IDF_NAMES,
    "k3": (None, 0.0, 1.0, 8.0),
    "segmentation": ("search", "exact"),
    "query_segmentation": ("search", "exact"),
    "simplify": (True, False),
    "stem": (True, False),
    "bigrams": (True, False),
    "bigram_weight": (0.0, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0),
}
"""What is tried where the caller names no values, in the order of the search."""

_DEFAULT = tuple(name for name in GRIDS if name != "chunk_size")

MIN_GAIN = 1e-4
"""A change that gains less is not worth leaving the base for."""


@dataclass(frozen=True)
class Axis:
    """Parameters that are varied together, over all combinations of their values.

    Parameters
    ----------
    grids : dict of str to tuple of values
        Name of each parameter -> what is tried.

    Raises
    ------
    ParameterError
        There is no such parameter.

    Examples
    --------
    >>> from rag_bm25 import IndexConfig
    >>> [config.k1 for config in Axis({"k1": (0.9, 1.2)}).candidates(IndexConfig(500))]
    [0.9, 1.2]
    """

    grids: dict[str, tuple[Value, ...]]

    def __post_init__(self) -> None:
        """Check the names; whether a value is allowed depends on the other parameters."""
        for name in self.grids:
            require_setting(name)

    def candidates(self, config: IndexConfig) -> Iterator[IndexConfig]:
        """Yield a config with every combination of the values that the other parameters allow.

        A delta, for one, is allowed with some weightings only.

        Parameters
        ----------
        config : IndexConfig
            What the other parameters are.

        Yields
        ------
        IndexConfig
            In the order of the grids, the last one varying fastest.
        """
        for values in product(*self.grids.values()):
            with suppress(ParameterError):
                yield with_settings(config, dict(zip(self.grids, values, strict=True)))


@dataclass(frozen=True)
class HeatMap:
    """The measure over the grid of k1 and b, the other parameters being the winner's.

    Parameters
    ----------
    measure : str
        Which measure.
    k1, b : tuple of float
        The grid, without what the winner's weighting does not allow.
    values : list of list of float, shape (n_k1, n_b)
        Means over the queries that the winner was searched on.
    """

    measure: str
    k1: tuple[float, ...]
    b: tuple[float, ...]
    values: list[list[float]]


@dataclass(frozen=True)
class Fold:
    """One search, and how its winner does on queries that it has not seen.

    Parameters
    ----------
    settings : dict of str to value
        What the winner changes of the base.
    queries : int
        How many queries were held out.
    base, tuned : float
        Means of the base and of the winner over these queries.
    """

    settings: dict[str, Value]
    queries: int
    base: float
    tuned: float


@dataclass(frozen=True)
class Tuning:
    """The result of a search.

    Parameters
    ----------
    base, best : IndexConfig
        Where it began, and the winner over all queries that it may see.
    measure : str
        What was made as great as possible.
    base_mean, held_out_mean : float
        Means over the held-out queries: of the base, and of what tuning found without seeing them. This is what may
        be expected of tuned parameters on new queries.
    best_mean : float
        Mean of the winner over the judged queries. With cross-validation these are the queries that it was searched
        on, which flatters it.
    test : PairedTest
        Of the held-out values against those of the base.
    folds : list of Fold
        The searches behind the held-out mean; one where there was a split of its own for tuning.
    points : list of (dict, float)
        Every configuration tried, as changes of the base, with its mean over the queries of the search.
    heat_map : HeatMap or None
        Where k1 and b were both searched, and the winner's weighting allows some of their values.
    """

    base: IndexConfig
    best: IndexConfig
    measure: str
    base_mean: float
    held_out_mean: float
    best_mean: float
    test: PairedTest
    folds: list[Fold]
    points: list[tuple[dict[str, Value], float]] = field(repr=False)
    heat_map: HeatMap | None = field(repr=False)

    @property
    def settings(self) -> dict[str, Value]:
        """What the winner changes of the base."""
        return differing(self.base, self.best)

    @property
    def pays(self) -> bool:
        """Whether tuning is significantly better than the base on queries that it has not seen."""
        return self.test.difference > 0 and self.test.p_value < 0.05


def axes_for(base: IndexConfig, wanted: Mapping[str, Sequence[Value]] | None = None) -> list[Axis]:
    """Return what is to be varied, k1 and b together.

    Parameters
    ----------
    base : IndexConfig
        Where the search begins; its chunk size is what the multiples of :data:`CHUNK_SIZES` are of.
    wanted : mapping of str to sequence of values, optional
        Parameters to be searched, each with its values; with none, those of :data:`GRIDS`. By default all of
        :data:`GRIDS` but the chunk size, since another one is exactly another k1 and b.

    Returns
    -------
    list of Axis
        In the order of the search.

    Raises
    ------
    ParameterError
        There is no such parameter, it has no values, or the base does not allow one that is named in `wanted`.

    Notes
    -----
    Of the values in :data:`GRIDS`, the search skips those that do not go with the rest of a configuration: where the
    base has a delta, for one, the weightings that have none.

    Examples
    --------
    >>> from rag_bm25 import IndexConfig
    >>> axes_for(IndexConfig(100), {"k1": [0.9], "b": [0.4, 0.75], "chunk_size": [], "idf": ["lucene"]})
    ... # doctest: +NORMALIZE_WHITESPACE
    [Axis(grids={'k1': (0.9,), 'b': (0.4, 0.75)}),
     Axis(grids={'chunk_size': (50, 70, 100, 140, 200, 280, 400)}),
     Axis(grids={'idf': ('lucene',)})]
    """
    names: Mapping[str, Sequence[Value]] = dict.fromkeys(_DEFAULT, ()) if wanted is None else wanted
    grids = {name: tuple(values) or _default_grid(base, name) for name, values in names.items()}
    for name, values in names.items():
        for value in values:
            with_settings(base, {name: value})
    joint: tuple[str, ...] = ("k1", "b")
    together = {name: grids.pop(name) for name in joint if name in grids}
    return [Axis(together)] * bool(together) + [Axis({name: values}) for name, values in grids.items()]


def _default_grid(base: IndexConfig, name: str) -> tuple[Value, ...]:
    if name not in GRIDS:
        msg = f"{name} has no values of its own to be searched over: name some, as in {name}=VALUE,VALUE"
        raise ParameterError(msg)
    if name == "chunk_size":
        return tuple(max(1, round(base.chunk_size * multiple)) for multiple in CHUNK_SIZES)
    return GRIDS[name]


def coordinate_descent(
    base: IndexConfig, axes: Sequence[Axis], objective: Callable[[IndexConfig], float]
) -> IndexConfig:
    """Improve one axis after the other, until none gains anything.

    Parameters
    ----------
    base : IndexConfig
        Where to begin.
    axes : sequence of Axis
        Each is searched over its whole grid.
    objective : callable of IndexConfig to float
        To be made as great as possible; asked for the same config again and again.

    Returns
    -------
    IndexConfig
        No single axis has a better point, by more than a hair's breadth (0.0001).
    """
    best, value = base, objective(base)
    improved = True
    while improved:
        improved = False
        for axis in axes:
            found = max(axis.candidates(best), key=objective, default=best)
            if objective(found) > value + MIN_GAIN:
                best, value, improved = found, objective(found), True
    return best


def query_folds(queries: int, folds: int, seed: int = 0) -> list[NDArray[np.int64]]:
    """Deal queries into folds, at random and evenly.

    Parameters
    ----------
    queries : int
        How many.
    folds : int
        How many, in [2, queries].
    seed : int
        Of the shuffling.

    Returns
    -------
    list of ndarray of int64
        Places of the queries of each fold, rising. Every query is in one of them.

    Raises
    ------
    ParameterError
        The number of folds breaks its rule.

    Examples
    --------
    >>> [fold.tolist() for fold in query_folds(5, 2)]
    [[2, 3, 4], [0, 1]]
    """
    if not 2 <= folds <= queries:
        msg = f"folds must be in [2, {queries}], the number of judged queries, got {folds}"
        raise ParameterError(msg)
    shuffled = np.random.default_rng(seed).permutation(queries)
    return [np.sort(part) for part in np.array_split(shuffled, folds)]


def tune(
    dataset: BeirDataset,
    base: IndexConfig,
    *,
    training: BeirDataset | None = None,
    axes: Sequence[Axis] | None = None,
    measure: MeasureName = "ndcg@10",
    folds: int = 5,
    seed: int = 0,
    progress: Callable[[str, int], object] = lambda _what, _done: None,
) -> Tuning:
    """Search for the parameters that are best for a judged set, on counts, without an index.

    With a training set the search sees its queries, and the winner is judged on those of `dataset`. Without, it is
    cross-validated: each fold's queries are answered with what a search over the other folds found, and the winner
    comes from a last search over all of them.

    Parameters
    ----------
    dataset : BeirDataset
        Corpus and judged queries.
    base : IndexConfig
        What the result is compared with, and where each search begins.
    training : BeirDataset, optional
        Other queries for the same corpus.
    axes : sequence of Axis, optional
        What is varied; by default all of :func:`axes_for`.
    measure : {"ndcg@10", "recall@100", "mrr@10"}
        What is made as great as possible.
    folds : int
        For cross-validation.
    seed : int
        Of the folds and of the paired test.
    progress : callable of (str, int)
        Called with ``"documents"``, while the corpus is analysed, or ``"configurations"``, and how many are done.

    Returns
    -------
    Tuning
        The winner, and what may be expected of it.

    Raises
    ------
    InputError
        `training` has queries of `dataset`.
    MissingExtraError
        ir-measures is not installed.
    ParameterError
        The number of folds breaks its rule.
    """
    require_ir_measures()
    judged = _together(dataset, training)
    trial = _Trial(judged, base, axes_for(base) if axes is None else axes, measure, progress)
    everything = np.arange(len(judged.queries))
    if training is None:
        held_out = query_folds(len(everything), folds, seed)
        splits = [(np.setdiff1d(everything, part), part) for part in held_out]
        seen = everything
    else:
        seen, rest = everything[len(dataset.queries) :], everything[: len(dataset.queries)]
        splits = [(seen, rest)]
    found = [trial.search(train) for train, _ in splits]
    best = trial.search(seen)
    parts = [rest for _, rest in splits]
    tuned = np.concatenate([trial.values(config)[rest] for config, rest in zip(found, parts, strict=True)])
    plain = np.concatenate([trial.values(base)[rest] for rest in parts])
    return Tuning(
        base,
        best,
        measure,
        float(plain.mean()),
        float(tuned.mean()),
        float(trial.values(best)[: len(dataset.queries)].mean()),
        paired_test(plain, tuned, seed=seed),
        [trial.fold(config, rest) for config, rest in zip(found, parts, strict=True)],
        trial.points(seen),
        trial.heat_map(best, seen),
    )


def _together(dataset: BeirDataset, training: BeirDataset | None) -> BeirDataset:
    """Return one set with the queries of both, those of `dataset` first."""
    if training is None:
        return dataset
    shared = sorted(dataset.queries.keys() & training.queries.keys())
    if shared:
        msg = f"the queries to tune on must be others than those to judge by, got {len(shared)} in both: {shared[0]!r}"
        raise InputError(msg)
    queries, qrels = {**dataset.queries, **training.queries}, {**dataset.qrels, **training.qrels}
    return replace(dataset, queries=queries, qrels=qrels)


class _Trial:
    """What every config measures on every query, computed once."""

    def __init__(
        self,
        dataset: BeirDataset,
        base: IndexConfig,
        axes: Sequence[Axis],
        measure: MeasureName,
        progress: Callable[[str, int], object],
    ) -> None:
        self._dataset = dataset
        self._base = base
        self._axes = axes
        self._measure = measure
        self._progress = progress
        self._cache = CountsCache(dataset, lambda done: progress("documents", done))
        self._values: dict[IndexConfig, NDArray[np.float64]] = {}

    def values(self, config: IndexConfig) -> NDArray[np.float64]:
        """Return the measure of each query, in the order of the judgements."""
        if config not in self._values:
            run = self._cache.scorer(config).search_queries(self._dataset.queries)
            self._values[config] = query_values(self._dataset.qrels, run, [self._measure])[self._measure]
            self._progress("configurations", len(self._values))
        return self._values[config]

    def mean(self, config: IndexConfig, queries: NDArray[np.int64]) -> float:
        return float(self.values(config)[queries].mean())

    def search(self, queries: NDArray[np.int64]) -> IndexConfig:
        """Return the config that is best for some queries."""
        return coordinate_descent(self._base, self._axes, lambda config: self.mean(config, queries))

    def fold(self, config: IndexConfig, held_out: NDArray[np.int64]) -> Fold:
        base, tuned = self.mean(self._base, held_out), self.mean(config, held_out)
        return Fold(differing(self._base, config), len(held_out), base, tuned)

    def points(self, queries: NDArray[np.int64]) -> list[tuple[dict[str, Value], float]]:
        return [(differing(self._base, config), self.mean(config, queries)) for config in self._values]

    def heat_map(self, best: IndexConfig, queries: NDArray[np.int64]) -> HeatMap | None:
        """Return the measure over k1 and b, which the last round of the search has tried with the best of the rest."""
        grids: dict[str, Any] = next((axis.grids for axis in self._axes if {"k1", "b"} == axis.grids.keys()), {})
        if not grids:
            return None
        means = {(config.k1, config.b): self.mean(config, queries) for config in Axis(grids).candidates(best)}
        if not means:
            return None
        k1, b = (tuple(dict.fromkeys(column)) for column in zip(*means, strict=True))
        return HeatMap(self._measure, k1, b, [[means[row, column] for column in b] for row in k1])
