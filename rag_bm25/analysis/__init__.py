"""Text -> tokens. Jieba, rjieba and PyStemmer are used here and nowhere else, and loaded when they are needed."""

from __future__ import annotations

from rag_bm25.analysis.analyzer import Analyzer
from rag_bm25.analysis.config import AnalyzerConfig
from rag_bm25.analysis.text import TextAnalyzer
from rag_bm25.analysis.user_words import read_stop_words, read_user_words

__all__ = ["Analyzer", "AnalyzerConfig", "TextAnalyzer", "read_stop_words", "read_user_words"]
