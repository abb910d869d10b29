"""Retrieval quality and speed on judged sets: measuring and comparing.

Measuring needs the extra ``eval``; without it, it raises a ``MissingExtraError``.
"""

from __future__ import annotations

from rag_bm25.evaluation.comparison import PairedTest, holm, paired_test, randomisation_p_value
from rag_bm25.evaluation.datasets import BeirDataset, load_beir
from rag_bm25.evaluation.measures import MEASURES, MeasureName, Measures, QueryMeasures, measure, measure_queries
from rag_bm25.evaluation.running import (
    EvaluationResult,
    Run,
    add_corpus,
    evaluate,
    evaluate_each,
    in_memory,
    mean_length,
    search_queries,
    write_run,
)
from rag_bm25.index.settings import SETTING_NAMES, with_settings

__all__ = [
    "MEASURES",
    "SETTING_NAMES",
    "BeirDataset",
    "EvaluationResult",
    "MeasureName",
    "Measures",
    "PairedTest",
    "QueryMeasures",
    "Run",
    "add_corpus",
    "evaluate",
    "evaluate_each",
    "holm",
    "in_memory",
    "load_beir",
    "mean_length",
    "measure",
    "measure_queries",
    "paired_test",
    "randomisation_p_value",
    "search_queries",
    "with_settings",
    "write_run",
]
