"""Text -> tokens. Jieba, rjieba and PyStemmer are used here and nowhere else, and loaded when they are needed."""

from __future__ import annotations

from rag_bm25.analysis.analyzer import Analyzer
from rag_bm25.analysis.config import AnalyzerConfig
from rag_bm25.analysis.contract import (
    AnalyzerContract,
    MissingAnalyzer,
    contract_of,
    differences,
    require_analyzer,
    stored_analyzer,
)
from rag_bm25.analysis.text import TextAnalyzer, Token, query_tokens
from rag_bm25.analysis.word_files import read_stop_words, read_user_words

__all__ = [
    "Analyzer",
    "AnalyzerConfig",
    "AnalyzerContract",
    "MissingAnalyzer",
    "TextAnalyzer",
    "Token",
    "contract_of",
    "differences",
    "query_tokens",
    "read_stop_words",
    "read_user_words",
    "require_analyzer",
    "stored_analyzer",
]
