"""The settings that docs/weightings.md gives for the formula of "BM25 for RAG with Milvus" are exactly that formula."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rag_bm25 import AnalyzerConfig, BM25Index, IndexConfig

ROOT = Path(__file__).resolve().parents[3]
K, B, EPSILON = 1.5, 0.75, 0.25
QUERIES = [
    "S5 电池多久能充满",
    "退货要多少钱 退货",
    "，。的",
    "我想了解一下 battery 的 warranty",
    "I am looking for papers on how the battery is charged",
]


def configs() -> list[IndexConfig]:
    """Run the code of the page, and return its configs."""
    section = (ROOT / "docs" / "weightings.md").read_text("utf-8").split("\n### Exactly the formula")[1]
    code = section.split("```python\n")[1].split("```")[0]
    made: list[IndexConfig] = []
    names = {"IndexConfig": lambda **options: made.append(IndexConfig(**options))}
    exec(code, names)
    return made


def chunks() -> list[str]:
    folder = ROOT / "scripts" / "demo" / "documents"
    texts = [(folder / f"{name}.md").read_text("utf-8") for name in ("s5-manual.zh", "cargo-m4-manual.en")]
    return [piece for text in texts for piece in re.findall(".{1,150}", text)]


def words_of(config: IndexConfig, query: str) -> list[str]:
    """Return the words of a query, cut as a chunk of which nothing is dropped."""
    if isinstance(config.analyzer, AnalyzerConfig):
        config = replace(config, analyzer=replace(config.analyzer, segmentation="exact"))
    return config.build_analyzer()(query)


def source_text(query: list[str], corpus: list[list[str]], chunk_size: float) -> dict[str, float]:
    """Score as the text prints it: TF of a chunk times IDF of a word, for each word of the query that the chunk has."""
    df = {word: sum(word in words for words in corpus) for word in {word for words in corpus for word in words}}
    logarithm = {word: math.log((len(corpus) - n + 0.5) / (n + 0.5)) for word, n in df.items()}
    mean = sum(logarithm.values()) / len(logarithm)
    scores: dict[str, float] = {}
    for at, words in enumerate(corpus):
        for word in query:
            if tf := words.count(word):
                idf = logarithm[word] if logarithm[word] >= 0 else EPSILON * mean
                tf_of_chunk = tf / (tf + K * (1 - B + B * len(words) / chunk_size))
                scores[str(at)] = scores.get(str(at), 0) + tf_of_chunk * idf
    return scores


@pytest.mark.parametrize("config", configs(), ids=["jieba", "built-in"])
def test_the_settings_of_the_page_are_the_formula(config: IndexConfig) -> None:
    texts, analyze = chunks(), config.build_analyzer()
    corpus = [analyze(text) for text in texts]
    index = BM25Index.open(":memory:", "docs", config=config)
    index.add(texts, ids=[str(at) for at in range(len(texts))])
    for query in QUERIES:
        expected = source_text(words_of(config, query), corpus, config.chunk_size)
        assert {hit.id: hit.score for hit in index.search(query, k=len(texts))} == pytest.approx(expected, rel=1e-6)
