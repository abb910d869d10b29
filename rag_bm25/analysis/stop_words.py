"""The default stop words."""

from __future__ import annotations

# fmt: off
LUCENE_33 = (
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
)
"""Lucene's English stop words. There are no Chinese ones: the usual lists hold 安全, 应用 and 问题, and lose hits."""

ENGLISH_QUESTION_WORDS = (
    "am", "been", "being", "can", "could", "did", "do", "does", "had", "has", "have", "having", "he", "here", "how",
    "i", "may", "me", "might", "must", "my", "our", "please", "shall", "she", "should", "us", "we", "were", "what",
    "when", "where", "which", "who", "whom", "whose", "why", "would", "you", "your",
)

CHINESE_QUESTION_WORDS = (
    "的", "了", "吗", "呢", "啊", "吧", "么", "什么", "什么样", "怎么", "怎么办", "怎样", "如何", "为什么", "为何",
    "哪", "哪个", "哪些", "谁", "多少", "是否", "能否", "可否", "是不是", "有没有", "请问", "我", "你", "您", "他",
    "她",
)
# fmt: on

QUESTION_WORDS = tuple(sorted((*ENGLISH_QUESTION_WORDS, *CHINESE_QUESTION_WORDS)))
"""Words that make a question of a topic. Chunks of text seldom have them, so that their IDF is high for nothing."""
