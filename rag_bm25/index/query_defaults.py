"""The query side of the config of an open index: as it was made, as it was set since, and as it was opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rag_bm25.definitions import given_fields
from rag_bm25.index.config import IndexConfig, query_side, with_query_side
from rag_bm25.index.stored_config import with_stored_query_side
from rag_bm25.query.synonyms import SynonymTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.query.expansion import QueryExpansion
    from rag_bm25.statistics.view import StatisticsView
    from rag_bm25.weighting.query import QueryWeighting


class _InForce(NamedTuple):
    """What holds while the same values are set."""

    values: Mapping[str, Any] | None
    stored: IndexConfig
    config: IndexConfig
    weighting: QueryWeighting


def own_query_side(given: IndexConfig, stored: IndexConfig) -> dict[str, Any]:
    """Return the query-side parameters given on purpose: a value equal to the default or to the stored one is not."""
    usual = query_side(IndexConfig(given.chunk_size)), query_side(stored)
    return {name: value for name, value in query_side(given).items() if all(value != one[name] for one in usual)}


def query_differences(stored: IndexConfig, given: IndexConfig) -> list[str]:
    """Describe each parameter of the query side that differs."""
    was, now = (flat_query_side(config) for config in (stored, given))
    return [f"{name}: {was[name]!r} and {now[name]!r}" for name in now if was[name] != now[name]]


def flat_query_side(config: IndexConfig) -> dict[str, Any]:
    """Return the parameters of the query side, those of the expansion by their own names."""
    flat = query_side(config)
    del flat["expansion"]
    return {**flat, **given_fields(config.expansion)}


def check_expansion(expansion: QueryExpansion, analyzer: TextAnalyzer) -> None:
    """Refuse synonyms of which the analyzer drops all words: otherwise every search would fail."""
    if expansion.rules is not None:
        SynonymTable(expansion.rules, analyzer)


class LiveConfig:
    """The config of an index, whose query side is the one that was set last, as a refresh reads it.

    Overrides given when this process opened the index take precedence.
    """

    def __init__(self, made: IndexConfig, own: Mapping[str, Any] | None = None) -> None:
        self._made = made
        self._own = dict(own or {})
        self._latest = self._set(None)

    def of(self, view: StatisticsView) -> IndexConfig:
        """Return the config for searches with this view."""
        return self._at(view).config

    def stored(self, view: StatisticsView) -> IndexConfig:
        """Return the config of the index for all processes."""
        return self._at(view).stored

    def weighting(self, view: StatisticsView) -> QueryWeighting:
        """Return the weighting of searches with this view."""
        return self._at(view).weighting

    def forget(self, names: Iterable[str]) -> None:
        """Drop overrides of this process, so that the stored values apply again."""
        self._own = {name: value for name, value in self._own.items() if name not in names}
        self._latest = self._set(None)

    def _at(self, view: StatisticsView) -> _InForce:
        latest = self._latest
        if view.query_defaults is not latest.values:
            self._latest = latest = self._set(view.query_defaults)
        return latest

    def _set(self, values: Mapping[str, Any] | None) -> _InForce:
        stored = with_stored_query_side(self._made, values or {})
        config = with_query_side(stored, self._own)
        return _InForce(values, stored, config, config.query_weighting())
