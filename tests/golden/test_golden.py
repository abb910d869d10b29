"""Numbers that others printed, and the scores of other BM25 implementations."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, FieldWeight, IndexConfig, QueryWeighting
from rag_bm25.weighting.document import DocumentWeighting
from rag_bm25.weighting.formulas import WeightingName
from rag_bm25.weighting.idf import IdfInputs, IdfName, average_idf, idf, robertson_idf

# Elasticsearch, an _explain of "shane" printed in the blog post "Okapi BM25": df 6 of N 6, tf 1, k1 5, b 1, a field of
# 2 terms where the mean is 3. Elasticsearch multiplied by (k1 + 1) then.


def test_elasticsearch_score_of_an_index() -> None:
    """Six titles of three words on average, all with "shane": the whole explanation, from an index."""
    texts = ["shane connelly", *["shane x y"] * 4, "shane x y z"]
    index = filled(texts, 3, k1=5, b=1, idf="lucene", weighting="elasticsearch")
    explanation = index.explain("shane", "0000")
    assert explanation.value == pytest.approx(0.102611035, rel=1e-6)
    query, document = explanation.details[0].details
    assert query.value == pytest.approx(0.074107975, rel=1e-6)
    assert document.value == pytest.approx(1.3846153, rel=1e-6)
    assert [detail.value for detail in document.details] == [1, 5, 1, 2, 3]


@pytest.mark.parametrize(("df", "printed"), [(4, 0.10536), (2, 0.69314)])
def test_lucene_idf_of_the_same_post(df: int, printed: float) -> None:
    assert float(idf("lucene", df, IdfInputs(4, 0.0))) == pytest.approx(printed, abs=1e-5)


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
    average = average_idf([1, 2, 3], [4, 1, 1], 4)
    assert average == pytest.approx(0.423649, abs=1e-6)
    weights = idf("epsilon", [3, 2, 1], IdfInputs(4, average)).tolist()
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
    config = IndexConfig(chunk_size=chunk_size, length_unit="terms", k3=None, analyzer=split, **options)
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


# What bm25s calls a method is a document side and an IDF of ours. Its BM25L and BM25+, and the BM25+ of rank_bm25, give
# delta to terms that a chunk does not have, too; the papers do not, and nor do we.

BM25S: dict[str, tuple[WeightingName, IdfName, float | None]] = {
    "lucene": ("bm25", "lucene", None),
    "robertson": ("bm25", "zero", None),
    "atire": ("elasticsearch", "plain", None),
    "bm25l": ("bm25l", "lucene", 0.5),
    "bm25+": ("bm25+", "plus", 1.0),
}


def of_absent_terms(form: WeightingName, k1: float, delta: float) -> float:
    """Return what the others add for a term with tf 0."""
    return {"bm25l": (k1 + 1) * delta / (k1 + delta), "bm25+": delta}.get(form, 0.0)


def sum_of_absent(index: BM25Index, query: list[str], tokens: list[str], idf_name: IdfName) -> float:
    """Sum the IDFs of the query terms that a chunk does not have."""
    lacking = [term for term in query if term not in tokens]
    vectors = index.encode_queries([" ".join(lacking)], weighting=QueryWeighting(idf=idf_name)) if lacking else []
    return sum(math.fsum(vector.values.tolist()) for vector in vectors)


@pytest.mark.parametrize(("batches", "k1", "b"), [(1, 1.5, 0.75), (5, 0.9, 0.4)])
@pytest.mark.parametrize("method", BM25S)
def test_scores_are_those_of_bm25s(method: str, batches: int, k1: float, b: float) -> None:
    bm25s = pytest.importorskip("bm25s")
    tokens = corpus(5)
    form, idf_name, delta = BM25S[method]
    other = bm25s.BM25(method=method, k1=k1, b=b, delta=delta or 0.5, dtype="float64")
    other.index(tokens, show_progress=False)
    mean = sum(map(len, tokens)) / len(tokens)
    texts = [" ".join(chunk) for chunk in tokens]
    index = filled(texts, mean, batches, k1=k1, b=b, idf=idf_name, weighting=form, delta=delta)
    absent = of_absent_terms(form, k1, delta or 0.0)
    for chunk in tokens[:20]:
        query = list(dict.fromkeys(chunk))[:6]
        found = by_id(index, " ".join(query))
        scores = np.asarray(other.get_scores(query)).tolist()
        expected = {id_: scores[id_] - absent * sum_of_absent(index, query, tokens[id_], idf_name) for id_ in found}
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
        if method in {"lucene", "atire"}:  # the floor of "zero" breaks ties that "robertson" has
            assert ranking(found) == ranking({id_: score for id_, score in enumerate(scores) if score > 0})


@pytest.mark.parametrize(("k1", "b", "delta"), [(1.5, 0.75, 1.0), (0.9, 0.4, 0.5)])
def test_scores_of_bm25_plus_are_those_of_rank_bm25(k1: float, b: float, delta: float) -> None:
    rank_bm25 = pytest.importorskip("rank_bm25")
    tokens = corpus(6)
    plus = rank_bm25.BM25Plus(tokens, k1=k1, b=b, delta=delta)
    texts = [" ".join(chunk) for chunk in tokens]
    index = filled(texts, plus.avgdl, k1=k1, b=b, idf="plus", weighting="bm25+", delta=delta)
    for chunk in tokens[:40]:
        query = list(dict.fromkeys(chunk))[:6]
        scores = plus.get_scores(query).tolist()
        found = by_id(index, " ".join(query))
        expected = {id_: scores[id_] - delta * sum_of_absent(index, query, tokens[id_], "plus") for id_ in found}
        assert found == pytest.approx(expected, rel=1e-5)


# Worked by hand, for what no other implementation has


@pytest.mark.parametrize(
    ("form", "tf", "length", "expected"),
    [
        ("tf", 3, 250, 3.0),
        ("sqrt", 4, 250, 2.0),
        ("log", 3, 250, 2.098612),  # 1 + ln 3
        ("tf-normalised", 3, 250, 6.0),  # 3 * 500 / 250
        ("sqrt-normalised", 4, 1000, 1.0),  # 2 * 500 / 1000
        ("saturation", 3, 250, 1.0),  # 1.5 * 3 / 4.5
        ("saturation-smoothed", 3, 250, 5.5 / 4.5),  # (1.5 * 3 + 1) / (3 + 1.5)
        ("tfldp", 3, 500, 1.869742),  # 1 + ln(1 + ln(3 / 1 + 1))
        ("bm25l", 3, 500, 1.75),  # 2.5 * 3.5 / 5
        ("bm25+", 3, 500, 2.666667),  # 2.5 * 3 / 4.5 + 1
    ],
)
def test_weights_by_hand(form: WeightingName, tf: int, length: int, expected: float) -> None:
    assert float(DocumentWeighting(500, form=form).weights(tf, length)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("k1", [1.2, 2.0])
def test_smoothed_saturation_of_the_seed_ranks_as_saturation(k1: float) -> None:
    # The seed gives absent terms 1 / k, and
    # (k tf + 1) / (tf + k) - 1 / k = (1 - 1 / k^2) * k tf / (tf + k)
    rng = random.Random(7)
    texts = [" ".join(rng.choices("abcdefgh", k=rng.randint(1, 12))) for _ in range(30)]
    query, n = ["a", "b", "h"], len(texts)
    idfs = {term: math.log(n / sum(term in text for text in texts)) for term in query}
    printed = {
        id_: sum(idf * (k1 * text.count(term) + 1) / (text.count(term) + k1) for term, idf in idfs.items())
        for id_, text in enumerate(texts)
    }
    index = filled(texts, 10, idf="plain", weighting="saturation", k1=k1)
    found = by_id(index, " ".join(query))
    of_absent = sum(idfs.values()) / k1
    assert {id_: of_absent + (1 - 1 / k1**2) * score for id_, score in found.items()} == pytest.approx(
        {id_: printed[id_] for id_ in found}, rel=1e-5
    )
    assert all(printed[id_] == pytest.approx(of_absent) for id_ in printed.keys() - found.keys())


def test_tf_idf_of_the_seed_by_hand() -> None:
    # sqrt(4) / 8 words * ln((3 + 1) / (1 + 1)); the chunk size is a factor of all scores
    index = filled(["a a a a x x x x", "y", "z"], 10, idf="tfidf", weighting="sqrt-normalised")
    assert by_id(index, "a") == pytest.approx({0: 10 * 2 / 8 * math.log(2)})


def test_bm25f_of_the_seed_by_hand() -> None:
    # title: 2 * 1 / (1 - 0.5 + 0.5 * 2 / 4) = 2.666667; text: 1 / (1 - 0.75 + 0.75 * 4 / 8) = 1.6
    # 4.266667 / (1.2 + 4.266667) * ln((3 - 1 + 0.5) / (1 + 0.5)) = 0.780488 * 0.510826
    fields = {"title": FieldWeight(chunk_size=4, weight=2, b=0.5)}
    index = BM25Index.from_store(
        MemoryStore(),
        config=IndexConfig(8, length_unit="terms", k1=1.2, idf="zero", analyzer=split, fields=fields),
    )
    index.add(["a b c d", "b", "c"], ids=["0", "1", "2"], metadatas=[{"title": "a e"}, {"title": "e"}, None])
    assert by_id(index, "a") == pytest.approx({0: 0.398693}, abs=1e-6)
