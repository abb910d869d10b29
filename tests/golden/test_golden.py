"""Numbers that others printed, and the scores of other BM25 implementations."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from memory_store import MemoryStore
from reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.similarity import CorpusFigures, DocumentWeighting, average_idf, idf, robertson_idf

if TYPE_CHECKING:
    from collections.abc import Sequence

# Elasticsearch, an _explain of "shane" printed in the blog post "Okapi BM25": df 6 of N 6, tf 1, k1 5, b 1, a field of
# 2 terms where the mean is 3. Elasticsearch multiplied by (k1 + 1) then.


def test_elasticsearch_idf() -> None:
    assert float(idf("lucene", 6, CorpusFigures(6, 0.0))) == pytest.approx(0.074107975, rel=1e-7)


def test_elasticsearch_tf_norm() -> None:
    assert 6 * float(DocumentWeighting(3, k1=5, b=1).weights(1, 2)) == pytest.approx(1.3846153, rel=1e-7)


def test_elasticsearch_score() -> None:
    weight = idf("lucene", 6, CorpusFigures(6, 0.0)) * DocumentWeighting(3, k1=5, b=1).weights(1, 2)
    assert 6 * float(weight) == pytest.approx(0.102611035, rel=1e-7)


@pytest.mark.parametrize(("df", "printed"), [(4, 0.10536), (2, 0.69314)])
def test_lucene_idf_of_the_same_post(df: int, printed: float) -> None:
    assert float(idf("lucene", df, CorpusFigures(4, 0.0))) == pytest.approx(printed, abs=1e-5)


# PISA, test_scorer.cpp: df 10 of N 1000, k1 0.9, b 0.4, mean length 50, times (k1 + 1).


@pytest.mark.parametrize(
    ("length", "tf", "printed"), [(50, 10, 7.92568), (50, 20, 8.26697), (40, 10, 7.97838), (40, 20, 8.29555)]
)
def test_pisa_scores(length: int, tf: int, printed: float) -> None:
    weight = DocumentWeighting(50, k1=0.9, b=0.4).weights(tf, length) * robertson_idf(10, 1000)
    assert 1.9 * float(weight) == pytest.approx(printed, rel=1e-5)


# "BM25 for RAG with Milvus": four chunks; a in 3, b in 2, and c, d, e, f in 1 of them. By hand:
#   ln(1.5 / 3.5) = -0.847298,  ln(2.5 / 2.5) = 0,  ln(3.5 / 1.5) = 0.847298;  mean 3 * 0.847298 / 6 = 0.423649


def test_epsilon_floor_by_hand() -> None:
    average = average_idf({3: 1, 2: 1, 1: 4}, 4)
    assert average == pytest.approx(0.423649, abs=1e-6)
    weights = idf("epsilon", [3, 2, 1], CorpusFigures(4, average)).tolist()
    assert weights == pytest.approx([0.105912, 0.105912, 0.847298], abs=1e-6)


def test_epsilon_scores_of_an_index_by_hand() -> None:
    index = filled(["a b", "a b c", "a d", "e f"], chunk_size=2)
    # 0.105912 / (1 + 1.5) for two terms; 0.105912 / (1 + 1.5 * (0.25 + 0.75 * 1.5))
    assert by_id(index, "a") == pytest.approx({0: 0.0423648, 1: 0.0345836, 2: 0.0423648}, abs=1e-6)
    assert by_id(index, "c") == pytest.approx({1: 0.847298 / 3.0625}, abs=1e-6)


def test_chunk_size_of_the_seed_is_the_constant_of_the_formula() -> None:
    # 3 / (3 + 1.5 * (1 - 0.75 + 0.75 * 250 / 500))
    assert float(DocumentWeighting(500).weights(3, 250)) == pytest.approx(3 / 3.9375)


# Other implementations


def corpus(seed: int, size: int = 120) -> list[list[str]]:
    """Draw chunks of 1 to 40 words, few of them common."""
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(300)]
    weights = [1 / (number + 1) for number in range(300)]
    return [rng.choices(words, weights, k=rng.randint(1, 40)) for _ in range(size)]


def filled(texts: Sequence[str], chunk_size: float, batches: int = 1, **options: Any) -> BM25Index:
    config = IndexConfig(chunk_size=chunk_size, length_unit="terms", analyzer=split, **options)
    index = BM25Index.from_store(MemoryStore(), config=config)
    ids = [f"{number:04d}" for number in range(len(texts))]
    for batch in range(batches):
        index.add(texts[batch::batches], ids=ids[batch::batches])
    return index


def by_id(index: BM25Index, query: str) -> dict[int, float]:
    return {int(hit.id): hit.score for hit in index.search(query, 1000)}


def ranking(scores: dict[int, float]) -> list[int]:
    return sorted(scores, key=lambda id_: (-round(scores[id_], 6), id_))


@pytest.mark.parametrize("batches", [1, 7])
@pytest.mark.parametrize(("k1", "b", "epsilon"), [(1.5, 0.75, 0.25), (0.9, 0.4, 0.5), (2.0, 0.0, 0.25)])
def test_scores_are_those_of_rank_bm25(batches: int, k1: float, b: float, epsilon: float) -> None:
    rank_bm25 = pytest.importorskip("rank_bm25")
    tokens = corpus(3)
    okapi = rank_bm25.BM25Okapi(tokens, k1=k1, b=b, epsilon=epsilon)
    assert min(okapi.idf.values()) > 0
    texts = [" ".join(chunk) for chunk in tokens]
    index = filled(texts, okapi.avgdl, batches, k1=k1, b=b, epsilon=epsilon)
    assert index.stats().average_idf == pytest.approx(okapi.average_idf)
    for query in [*(" ".join(chunk[:6]) for chunk in tokens[:40]), "w0", "w0 w1 w1 w299"]:
        expected = dict(enumerate((okapi.get_scores(query.split()) / (k1 + 1)).tolist()))
        expected = {id_: score for id_, score in expected.items() if score > 0}
        found = by_id(index, query)
        assert found == pytest.approx(expected, rel=1e-5)
        assert ranking(found) == ranking(expected)


def test_rank_bm25_before_and_after_more_chunks() -> None:
    """A chunk size equal to the mean is another index for each mean; N, df and avgIDF grow in one."""
    rank_bm25 = pytest.importorskip("rank_bm25")
    tokens = corpus(4)
    mean = sum(map(len, tokens)) / len(tokens)
    index = filled([" ".join(chunk) for chunk in tokens[:61]], mean)
    for size in (61, 91, 119):  # odd: a term of exactly half the chunks weighs 0 there
        more = tokens[61:size]
        index.add([" ".join(chunk) for chunk in more], ids=[f"{number:04d}" for number in range(61, size)])
        okapi = rank_bm25.BM25Okapi(tokens[:size])
        okapi.avgdl = mean
        for query in ("w0", "w3 w7", "w50 w1 w200"):
            expected = {id_: score / 2.5 for id_, score in enumerate(okapi.get_scores(query.split())) if score > 0}
            assert by_id(index, query) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("batches", [1, 5])
@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4)])
def test_scores_are_those_of_bm25s(batches: int, k1: float, b: float) -> None:
    bm25s = pytest.importorskip("bm25s")
    tokens = corpus(5)
    other = bm25s.BM25(method="lucene", k1=k1, b=b, dtype="float64")
    other.index(tokens, show_progress=False)
    mean = sum(map(len, tokens)) / len(tokens)
    index = filled([" ".join(chunk) for chunk in tokens], mean, batches, k1=k1, b=b, idf="lucene")
    for chunk in tokens[:40]:
        query = list(dict.fromkeys(chunk))[:6]
        scores = np.asarray(other.get_scores(query)).tolist()
        expected = {id_: score for id_, score in enumerate(scores) if score > 0}
        found = by_id(index, " ".join(query))
        assert found == pytest.approx(expected, rel=1e-5)
        assert ranking(found) == ranking(expected)


def test_natural_logarithm_is_meant() -> None:
    assert float(robertson_idf(1, 4)) == pytest.approx(math.log(3.5 / 1.5))
