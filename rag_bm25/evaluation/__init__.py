"""Retrieval quality and speed on judged sets: measuring, comparing, tuning.

Measuring and tuning need the extra ``eval``, drawing the extra ``plot``; without it they raise a ``MissingExtraError``.
"""

from __future__ import annotations

from rag_bm25.evaluation.comparison import PairedTest, holm, paired_test, randomisation_p_value
from rag_bm25.evaluation.counts import CorpusCounts, CountsCache, OfflineScorer
from rag_bm25.evaluation.datasets import BeirDataset, load_beir
from rag_bm25.evaluation.heat_map import draw_heat_map
from rag_bm25.evaluation.measures import MEASURES, MeasureName, Measures, QueryMeasures, measure, measure_queries
from rag_bm25.evaluation.running import (
    EvaluationResult,
    Run,
    add_corpus,
    evaluate,
    evaluate_each,
    mean_length,
    search_queries,
    write_run,
)
from rag_bm25.evaluation.tuning import (
    Axis,
    Fold,
    HeatMap,
    Tuning,
    axes_for,
    coordinate_descent,
    query_folds,
    refine,
    tune,
)
from rag_bm25.index.settings import SETTING_NAMES, config_line, differing, with_settings

__all__ = [
    "MEASURES",
    "SETTING_NAMES",
    "Axis",
    "BeirDataset",
    "CorpusCounts",
    "CountsCache",
    "EvaluationResult",
    "Fold",
    "HeatMap",
    "MeasureName",
    "Measures",
    "OfflineScorer",
    "PairedTest",
    "QueryMeasures",
    "Run",
    "Tuning",
    "add_corpus",
    "axes_for",
    "config_line",
    "coordinate_descent",
    "differing",
    "draw_heat_map",
    "evaluate",
    "evaluate_each",
    "holm",
    "load_beir",
    "mean_length",
    "measure",
    "measure_queries",
    "paired_test",
    "query_folds",
    "randomisation_p_value",
    "refine",
    "search_queries",
    "tune",
    "with_settings",
    "write_run",
]
