"""The default stop words."""

from __future__ import annotations

# fmt: off
LUCENE_33 = (
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
)
# fmt: on
"""Lucene's English stop words. There are no Chinese ones: the usual lists hold 安全, 应用 and 问题, and lose hits."""
