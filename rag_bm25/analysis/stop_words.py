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
    "的", "了", "吗", "呢", "啊", "吧", "么", "呀", "哦", "嘛", "什么", "是什么", "什么是", "有什么", "什么样",
    "什么时候", "怎么", "怎么办", "怎么样", "怎样", "如何", "咋", "啥", "是啥", "啥是", "有啥", "为什么", "为何",
    "何时", "何处", "何种", "哪", "哪个", "哪些", "哪里", "哪儿", "哪种", "谁", "多少", "多久", "几", "几个",
    "是否", "能否", "可否", "是不是", "有没有", "会不会", "能不能", "可不可以", "要不要", "该不该", "行不行",
    "算不算", "应不应该", "需不需要", "请问", "应", "应该", "会", "要", "能", "能够", "可能", "需要", "和", "与",
    "及", "以及", "或", "或者", "如果", "若", "我", "你", "您", "他", "她", "它", "我们", "你们", "他们", "她们",
)
# fmt: on

QUESTION_WORDS = tuple(sorted((*ENGLISH_QUESTION_WORDS, *CHINESE_QUESTION_WORDS)))
"""Words that make a question of a topic. Chunks of text seldom have them, so that their IDF is high for little."""
