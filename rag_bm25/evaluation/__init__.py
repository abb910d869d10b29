"""Retrieval quality and speed on judged sets: measuring and comparing.

Measuring needs the extra ``eval``; without it, it raises a ``MissingExtraError``.
"""

from __future__ import annotations

from rag_bm25.evaluation.comparison import holm, paired_test
from rag_bm25.evaluation.datasets import BeirDataset, load_beir
from rag_bm25.evaluation.fusion import calibrate_fusion
from rag_bm25.evaluation.measures import measure, measure_queries
from rag_bm25.evaluation.running import calibrate_answers, evaluate, evaluate_each
from rag_bm25.index.settings import with_settings

__all__ = [
    "BeirDataset",
    "calibrate_answers",
    "calibrate_fusion",
    "evaluate",
    "evaluate_each",
    "holm",
    "load_beir",
    "measure",
    "measure_queries",
    "paired_test",
    "with_settings",
]
