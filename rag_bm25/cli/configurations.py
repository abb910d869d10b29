"""What is evaluated: configs from their settings, each in a temporary index."""

from __future__ import annotations

import secrets
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rag_bm25 import evaluation
from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.cli.console import count_bars
from rag_bm25.cli.options import tls_for
from rag_bm25.config import IndexConfig
from rag_bm25.errors import ParameterError
from rag_bm25.evaluation.settings import parse_field, parse_setting, parse_value
from rag_bm25.index import BM25Index

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rag_bm25.evaluation import BeirDataset, EvaluationResult
    from rag_bm25.evaluation.settings import Value
    from rag_bm25.fields import FieldWeight

__all__ = [
    "AUTO",
    "as_usage",
    "chunk_size_of",
    "config_of",
    "evaluated",
    "fields_of",
    "plain_config",
    "settings_of",
]

AUTO = "auto"


def chunk_size_of(text: str) -> float | str:
    """Read a number, or ``auto``."""
    if text == AUTO:
        return text
    try:
        return float(text)
    except ValueError:
        msg = f"must be a number or 'auto', got {text!r}"
        raise typer.BadParameter(msg) from None


def evaluated(
    configs: Sequence[IndexConfig], dataset: BeirDataset, uri: str | None, token: str | None, progress: bool | None
) -> list[EvaluationResult]:
    """Evaluate configs, each in a temporary index, with bars for what is done."""
    totals = {
        "chunks": len(dataset.texts) * evaluation.num_indexes(configs),
        "queries": len(dataset.queries) * len(configs),
    }
    with count_bars(progress, totals) as move:
        return evaluation.evaluate_each(configs, dataset, partial(_temporary_index, uri, token), move)


def settings_of(text: str, option: str) -> dict[str, Value]:
    """Read ``name=value,name=value``."""
    settings: dict[str, Value] = {}
    for part in filter(None, text.split(",")):
        with as_usage(option):
            name, value = parse_setting(part)
        if not value:
            msg = f"must be NAME=VALUE,..., got {text!r}"
            raise typer.BadParameter(msg, param_hint=option)
        settings[name] = parse_value(value)
    return settings


def fields_of(texts: Sequence[str] | None) -> dict[str, FieldWeight]:
    """Read the values of ``--field``."""
    fields: dict[str, FieldWeight] = {}
    for text in texts or ():
        with as_usage("--field"):
            name, weight = parse_field(text)
        if name in fields:
            msg = f"a field must be given once, got {name!r} again"
            raise typer.BadParameter(msg, param_hint="--field")
        fields[name] = weight
    return fields


@contextmanager
def as_usage(option: str) -> Iterator[None]:
    """Report what cannot be read as wrong usage."""
    try:
        yield
    except ParameterError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def config_of(settings: Mapping[str, Value], dataset: BeirDataset) -> IndexConfig:
    """Return the config with these settings; the chunk size may be the mean of the corpus."""
    given = {name: value for name, value in settings.items() if (name, value) != ("chunk_size", AUTO)}
    config = evaluation.with_settings(IndexConfig(1), given)
    texts, _ = dataset.documents(config.fields)
    if "chunk_size" in given:
        return config
    mean = evaluation.mean_length(texts.values(), config.length_unit, config.build_analyzer())
    return replace(config, chunk_size=mean)


@contextmanager
def _temporary_index(uri: str | None, token: str | None, config: IndexConfig) -> Iterator[BM25Index]:
    """Create an index, and leave nothing of it."""
    from rag_bm25.milvus_store import MilvusStore

    with tempfile.TemporaryDirectory(prefix="rag-bm25-") as folder:
        place = Path(folder, "evaluate.db") if uri is None else uri
        store = MilvusStore(place, f"evaluate_{secrets.token_hex(6)}", token=token, tls=tls_for(place))
        with BM25Index.from_store(store, config=config) as index:
            try:
                yield index
            finally:
                store.drop()


def plain_config(config: IndexConfig) -> dict[str, Any]:
    """Return a config in JSON values."""
    analyzer = config.analyzer
    return {**asdict(config), "analyzer": analyzer.to_dict() if isinstance(analyzer, AnalyzerConfig) else None}
