"""A search for good parameters, whose winner is evaluated on queries that the search has not seen."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.errors import InputError, ParameterError
from rag_bm25.evaluation.comparison import PairedTest, paired_test
from rag_bm25.evaluation.counts import CountsCache
from rag_bm25.evaluation.measures import query_values, require_ir_measures
from rag_bm25.events import report_progress
from rag_bm25.index.settings import Value, differing, get_setting, require_setting, with_settings
from rag_bm25.weighting.idf import IDF_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rag_bm25.evaluation.datasets import BeirDataset
    from rag_bm25.evaluation.measures import MeasureName
    from rag_bm25.events import Progress
    from rag_bm25.index.config import IndexConfig

CHUNK_SIZES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)  # multiples of the base's chunk size

# Values that are tried by default, in the order of the search.
GRIDS: dict[str, tuple[Value, ...]] = {
    "k1": (0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 2.5, 3.0),
    "b": (0.0, 0.2, 0.4, 0.6, 0.75, 0.9, 1.0),
    "chunk_size": CHUNK_SIZES,
    "weighting": ("bm25", "bm25l", "bm25+", "tfldp", "bm25t"),
    "delta": (None, 0.25, 0.5, 1.0, 1.5, 2.0),  # None: that of the weighting
    "idf": IDF_NAMES,
    "k3": (None, 0.0, 1.0, 8.0),
    "segmentation": ("search", "exact"),
    "query_segmentation": ("search", "exact"),
    "simplify": (True, False),
    "stem": (True, False),
    "bigrams": (True, False),
    "bigram_weight": (0.0, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0),
    "word_bigram_weight": (0.0, 0.1, 0.2, 0.3, 0.5),
    "latin_weight": (1.0, 1.5, 2.0, 3.0),
}
JOINT = (("k1", "b"), ("weighting", "delta"))  # searched over all combinations
HALVINGS = 2  # of the steps around the best values: down to .075 of k1, .04 of b
REFINED = frozenset({"k1", "b", "chunk_size", "delta", "bigram_weight", "word_bigram_weight"})
MIN_GAIN = 1e-4  # a smaller gain is not worth a change


@dataclass(frozen=True)
class Axis:
    """Parameters that are varied together, over all combinations of their values.

    Parameters
    ----------
    grids : dict of str to tuple of values
        Name of each parameter -> its values.
    refined : frozenset of str
        Parameters of which values between these are tried, too, around the best ones.

    Raises
    ------
    ParameterError
        There is no such parameter.
    """

    grids: dict[str, tuple[Value, ...]]
    refined: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Check the names; whether a value is allowed depends on the other parameters."""
        for name in self.grids:
            require_setting(name)

    def candidates(self, config: IndexConfig) -> Iterator[IndexConfig]:
        """Yield a config for every combination of values that the other parameters allow; the last grid varies fastest.

        A delta, for instance, is allowed with some weightings only.

        Parameters
        ----------
        config : IndexConfig
            The other parameters.
        """
        for values in product(*self.grids.values()):
            with suppress(ParameterError):
                yield with_settings(config, dict(zip(self.grids, values, strict=True)))

    def halved(self) -> Axis:
        """Return the axis with a value in the middle of every two numbers of the refined parameters.

        Returns
        -------
        Axis
            The others are as they are.

        Examples
        --------
        >>> Axis({"k1": (0.5, 1.0, 2.0)}, frozenset({"k1"})).halved().grids
        {'k1': (0.5, 0.75, 1.0, 1.5, 2.0)}
        """
        finer = {name: _halved(grid) if name in self.refined else grid for name, grid in self.grids.items()}
        return replace(self, grids=finer)

    def around(self, config: IndexConfig) -> Axis:
        """Return the values next to those of a config, and these.

        Parameters
        ----------
        config : IndexConfig
            A config with values of the grids; only the refined parameters are varied.

        Returns
        -------
        Axis
            At most three values of each parameter.
        """
        return replace(self, grids={name: self._around(name, get_setting(config, name)) for name in self.grids})

    def _around(self, name: str, value: Value) -> tuple[Value, ...]:
        grid = self.grids[name]
        if name not in self.refined or value not in grid:
            return (value,)
        at = grid.index(value)
        return grid[max(at - 1, 0) : at + 2]


@dataclass(frozen=True)
class HeatMap:
    """The measure over the grid of k1 and b, with the other parameters of the winner.

    Parameters
    ----------
    measure : str
        Name of the measure.
    k1, b : tuple of float
        The grid, without values that the winner's weighting does not allow.
    values : list of list of float, shape (n_k1, n_b)
        Means over the queries that the winner was searched on.
    """

    measure: str
    k1: tuple[float, ...]
    b: tuple[float, ...]
    values: list[list[float]]


@dataclass(frozen=True)
class Fold:
    """One search, and the evaluation of its winner on held-out queries.

    Parameters
    ----------
    settings : dict of str to value
        The winner's differences from the base.
    queries : int
        Number of held-out queries.
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
        The start, and the winner over all queries of the search.
    measure : str
        Name of the measure that was maximised.
    base_mean, held_out_mean : float
        Means over the held-out queries: of the base, and of the parameters that were found without them. The latter
        may be expected of tuned parameters on new queries.
    best_mean : float
        Mean of the winner over the judged queries; biased upwards by cross-validation, which chose it on them.
    test : PairedTest
        The held-out values against those of the base.
    folds : list of Fold
        The searches behind the held-out mean; a single one with a training set.
    points : list of (dict, float)
        Every configuration that was tried, as differences from the base, with its mean over the queries of the search.
    heat_map : HeatMap or None
        None unless k1 and b were both searched, and the winner's weighting allows some of their values.
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
        """The winner's differences from the base."""
        return differing(self.base, self.best)

    @property
    def pays(self) -> bool:
        """Whether tuning is significantly better than the base on held-out queries."""
        return self.test.difference > 0 and self.test.p_value < 0.05


def axes_for(base: IndexConfig, wanted: Mapping[str, Sequence[Value]] | None = None) -> list[Axis]:
    """Return the axes of a search; k1 and b are varied together.

    Parameters
    ----------
    base : IndexConfig
        Start of the search; default chunk sizes are multiples of its own.
    wanted : mapping of str to sequence of values, optional
        Parameters to vary -> their values; an empty sequence for the default ones, between which numbers are tried,
        too. By default, all parameters that have default values, without the chunk size, since another one is exactly
        another k1 and b.

    Returns
    -------
    list of Axis
        In the order of the search.

    Raises
    ------
    ParameterError
        There is no such parameter, it has no default values, or the base does not allow a value of `wanted`.

    Examples
    --------
    >>> from rag_bm25 import IndexConfig
    >>> axes_for(IndexConfig(100), {"k1": [0.9], "b": [0.4, 0.75], "chunk_size": []})
    [Axis(grids={'k1': (0.9,), 'b': (0.4, 0.75)}, refined=frozenset()),
     Axis(grids={'chunk_size': (50, 70, 100, 140, 200, 280, 400)}, refined=frozenset({'chunk_size'}))]
    """
    default = [name for name in GRIDS if name != "chunk_size"]
    names: Mapping[str, Sequence[Value]] = dict.fromkeys(default, ()) if wanted is None else wanted
    grids = {name: tuple(values) or _default_grid(base, name) for name, values in names.items()}
    for name, values in names.items():
        for value in values:
            with_settings(base, {name: value})
    refined = frozenset(name for name, values in names.items() if not values and name in REFINED)
    groups = [*JOINT, *((name,) for name in grids)]
    together = [{name: grids.pop(name) for name in names if name in grids} for names in groups]
    return [Axis(some, refined.intersection(some)) for some in together if some]


def _default_grid(base: IndexConfig, name: str) -> tuple[Value, ...]:
    if name not in GRIDS:
        raise ParameterError(f"{name} has no default values to search: give some, as in {name}=VALUE,VALUE")
    if name == "chunk_size":
        return tuple(max(1, round(base.chunk_size * multiple)) for multiple in CHUNK_SIZES)
    return GRIDS[name]


def coordinate_descent(
    base: IndexConfig, axes: Sequence[Axis], objective: Callable[[IndexConfig], float]
) -> IndexConfig:
    """Maximise an objective along one axis after the other, until none improves it.

    Parameters
    ----------
    base : IndexConfig
        Start of the search.
    axes : sequence of Axis
        The axes; each is searched over its whole grid.
    objective : callable of IndexConfig to float
        The function to maximise. It is called with the same configs again and again.

    Returns
    -------
    IndexConfig
        A config that no single axis improves by more than 0.0001.
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


def refine(base: IndexConfig, axes: Sequence[Axis], objective: Callable[[IndexConfig], float]) -> IndexConfig:
    """Halve the steps around the best values of each axis, twice, and take what improves the objective.

    Parameters
    ----------
    base : IndexConfig
        The best of a coarse search.
    axes, objective
        As for :func:`coordinate_descent`.

    Returns
    -------
    IndexConfig
        `base`, or a config that is better by more than 0.0001.
    """
    best, value = base, objective(base)
    finer = [axis for axis in axes if axis.refined]
    for _ in range(HALVINGS):
        finer = [axis.halved() for axis in finer]
        for axis in finer:
            found = max(axis.around(best).candidates(best), key=objective, default=best)
            if objective(found) > value + MIN_GAIN:
                best, value = found, objective(found)
    return best


def _halved(grid: tuple[Value, ...]) -> tuple[Value, ...]:
    """Put the middle between every two numbers; others have none."""
    halved = list(grid[:1])
    for one, other in pairwise(grid):
        if isinstance(one, int | float) and isinstance(other, int | float):
            halved.append(round((one + other) / 2, 6))
        halved.append(other)
    return tuple(halved)


def query_folds(queries: int, folds: int, seed: int = 0) -> list[NDArray[np.int64]]:
    """Split queries into folds of equal size, at random.

    Parameters
    ----------
    queries, folds, seed : int
        Numbers of queries and of folds, of which there are 2..queries, and seed of the shuffling.

    Returns
    -------
    list of ndarray of int64
        Places of the queries of each fold, sorted. Every query is in one fold.

    Raises
    ------
    ParameterError
        `folds` is out of range.
    """
    if not 2 <= folds <= queries:
        raise ParameterError(f"folds must be in [2, {queries}], the number of judged queries, got {folds}")
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
    progress: Callable[[Progress], None] | None = None,
) -> Tuning:
    """Search for the best parameters for a judged set, on counts, without an index.

    With a training set, the search uses its queries, and the winner is evaluated on those of `dataset`. Without, it is
    cross-validated: the queries of each fold are answered with the parameters that a search over the other folds found,
    and the winner is that of a last search over all queries.

    Parameters
    ----------
    dataset
        As for :func:`evaluate`.
    base : IndexConfig
        Start of each search, which the result is compared with.
    training : BeirDataset, optional
        Other queries for the same corpus.
    axes : sequence of Axis, optional
        Parameters to vary; by default those of :func:`axes_for`.
    measure : {"ndcg@10", "recall@100", "mrr@10"}
        The measure to maximise.
    folds, seed
        As for :func:`query_folds`, for cross-validation; `seed` is that of the paired test, too.
    progress : callable of Progress to None, optional
        Called with ``"documents"`` analysed and ``"configurations"`` tried; the total of the latter is not known.

    Returns
    -------
    Tuning
        The winner, and the quality to be expected of it.

    Raises
    ------
    InputError
        `training` has queries of `dataset`.
    ParameterError
        `folds` is out of range.
    """
    require_ir_measures()
    judged = _join_queries(dataset, training)
    trial = _Trial(judged, base, axes_for(base) if axes is None else axes, measure, progress)
    everything = np.arange(len(judged.queries))
    if training is None:
        parts, seen = query_folds(len(everything), folds, seed), everything
    else:
        parts, seen = [everything[: len(dataset.queries)]], everything[len(dataset.queries) :]
    found = [(trial.search(np.setdiff1d(everything, part)), part) for part in parts]
    best = trial.search(seen)
    tuned = np.concatenate([trial.values(config)[part] for config, part in found])
    plain = np.concatenate([trial.values(base)[part] for part in parts])
    return Tuning(
        base,
        best,
        measure,
        float(plain.mean()),
        float(tuned.mean()),
        float(trial.values(best)[: len(dataset.queries)].mean()),
        paired_test(plain, tuned, seed=seed),
        [trial.fold(config, part) for config, part in found],
        trial.points(seen),
        trial.heat_map(trial.coarse(seen), seen),
    )


def _join_queries(dataset: BeirDataset, training: BeirDataset | None) -> BeirDataset:
    """Return one set with the queries of both, those of `dataset` first."""
    if training is None:
        return dataset
    shared = sorted(dataset.queries.keys() & training.queries.keys())
    if shared:
        msg = f"tuning needs other queries than those of the result, got {len(shared)} in both: {shared[0]!r}"
        raise InputError(msg)
    queries, qrels = {**dataset.queries, **training.queries}, {**dataset.qrels, **training.qrels}
    return replace(dataset, queries=queries, qrels=qrels)


@dataclass(eq=False)
class _Trial:
    """The measure of every config on every query, each computed once."""

    dataset: BeirDataset
    base: IndexConfig
    axes: Sequence[Axis]
    measure: MeasureName
    progress: Callable[[Progress], None] | None

    def __post_init__(self) -> None:
        self._cache = CountsCache(self.dataset, self.progress)
        self._values: dict[IndexConfig, NDArray[np.float64]] = {}

    def values(self, config: IndexConfig) -> NDArray[np.float64]:
        """Return the measure of each query, in the order of the judgements."""
        if config not in self._values:
            run = self._cache.scorer(config).search_queries(self.dataset.queries)
            self._values[config] = query_values(self.dataset.qrels, run, [self.measure])[self.measure]
            report_progress(self.progress, "configurations", len(self._values))
        return self._values[config]

    def mean(self, config: IndexConfig, queries: NDArray[np.int64]) -> float:
        return float(self.values(config)[queries].mean())

    def search(self, queries: NDArray[np.int64]) -> IndexConfig:
        """Return the best config for some queries."""
        return refine(self.coarse(queries), self.axes, lambda config: self.mean(config, queries))

    def coarse(self, queries: NDArray[np.int64]) -> IndexConfig:
        """Return the best config of the grids as they are given."""
        return coordinate_descent(self.base, self.axes, lambda config: self.mean(config, queries))

    def fold(self, config: IndexConfig, held_out: NDArray[np.int64]) -> Fold:
        base, tuned = self.mean(self.base, held_out), self.mean(config, held_out)
        return Fold(differing(self.base, config), len(held_out), base, tuned)

    def points(self, queries: NDArray[np.int64]) -> list[tuple[dict[str, Value], float]]:
        return [(differing(self.base, config), self.mean(config, queries)) for config in self._values]

    def heat_map(self, best: IndexConfig, queries: NDArray[np.int64]) -> HeatMap | None:
        # The last round of the search has tried k1 and b with the best of the other parameters.
        grids: dict[str, Any] = next((axis.grids for axis in self.axes if {"k1", "b"} == axis.grids.keys()), {})
        if not grids:
            return None
        means = {(config.k1, config.b): self.mean(config, queries) for config in Axis(grids).candidates(best)}
        if not means:
            return None
        k1, b = (tuple(dict.fromkeys(column)) for column in zip(*means, strict=True))
        return HeatMap(self.measure, k1, b, [[means[row, column] for column in b] for row in k1])
