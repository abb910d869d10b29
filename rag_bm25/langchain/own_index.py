"""The index of a retriever that is made of texts alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from rag_bm25.analysis.contract import contract_of
from rag_bm25.checks import check_callable
from rag_bm25.documents.lengths import chunk_length
from rag_bm25.errors import IndexNotFoundError, InputError
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.owning import IndexOwner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.documents.lengths import LengthUnit

Owner = TypeVar("Owner", bound=IndexOwner)


@dataclass(frozen=True)
class OwnIndex:
    """Where it is, and its parameters."""

    uri: str | Path = ":memory:"
    collection: str = "docs"
    config: IndexConfig | None = None
    bm25_params: Mapping[str, Any] | None = None
    preprocess_func: TextAnalyzer | None = None

    def __post_init__(self) -> None:
        check_callable("preprocess_func", self.preprocess_func)

    def opened(self, from_uri: Callable[..., Owner], texts: Sequence[str], options: Mapping[str, Any]) -> Owner:
        """Return the owner of the index that is there, or of a new one for some texts."""
        make = partial(from_uri, self.uri, self.collection, **options)
        if self.config is not None:
            return make(config=self._changed(self.config))
        try:
            kept = make(analyzer=self.preprocess_func)
        except IndexNotFoundError:
            return make(config=self._config_for(texts))
        if not self.bm25_params:
            return kept
        with kept:  # opened again, lest other parameters than the stored ones pass unnoticed
            config = kept.index.config
        return make(config=self._changed(config))

    def _config_for(self, texts: Sequence[str]) -> IndexConfig:
        """Return a config whose chunk size is the mean length of the texts."""
        # A function's tokens may be anything, so they are counted; those of the built-in analyzer need no second run.
        unit: LengthUnit = "estimated_characters" if self.preprocess_func is None else "terms"
        config = self._changed(IndexConfig(1, length_unit=unit))
        lengths = _term_counts(texts, config.build_analyzer()) if config.length_unit == "terms" else map(len, texts)
        return replace(config, chunk_size=_mean(list(lengths)))

    def _changed(self, config: IndexConfig) -> IndexConfig:
        changes: dict[str, Any] = {} if self.preprocess_func is None else {"analyzer": self.preprocess_func}
        changes |= self.bm25_params or {}
        return replace(config, **changes) if changes else config


def _term_counts(texts: Sequence[str], analyzer: TextAnalyzer) -> list[int]:
    contract_of(analyzer)  # refuses one that returns no list of str
    return [chunk_length(text, analyzer(text), "terms") for text in texts]


def _mean(lengths: Sequence[int]) -> float:
    if not any(lengths):
        msg = "texts must have a word, since their mean length becomes the chunk size"
        raise InputError(f"{msg}; without texts, pass config=IndexConfig(chunk_size=...)")
    return fmean(lengths)
