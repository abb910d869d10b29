"""Dense and hybrid search of an index: the same answers on every engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.reference import split

from rag_bm25 import (
    MMR,
    RRF,
    BM25Index,
    ChunkNotFoundError,
    ConfigMismatchError,
    Explanation,
    FunctionBoost,
    Grouping,
    Hit,
    IndexConfig,
    InputError,
    NearDuplicates,
    ParameterError,
    Query,
    ValueBoost,
    Weighted,
)
from rag_bm25.store.protocol import Store
from rag_bm25.store.rows import DenseMetric


def number_of(metadata: Mapping[str, Any]) -> float:
    return max(metadata.get("n", 1), 0.1)


DIM = 4
CONFIG = IndexConfig(chunk_size=12, analyzer=split, idf="lucene", dense_dim=DIM)
TEXTS = {
    "a": "apple banana",
    "b": "apple cherry cherry",
    "c": "fig",
    "d": "apple apple fig plum",
    "e": "plum",
}
VECTORS = np.array(
    [[1, 0, 0, 0], [0.9, 0.5, 0, 0], [0, 1, 0, 0.1], [0, 0, 1, 0], [-1, 0.2, 0, 0.3]],
    np.float32,
)
QUERY = [0.8, 0.6, 0.1, 0.0]


def cosines(query: list[float]) -> dict[str, float]:
    """Compare with every vector, in plain loops."""
    found = {}
    for id_, vector in zip(TEXTS, VECTORS.tolist(), strict=True):
        dot = sum(x * y for x, y in zip(query, vector, strict=True))
        norms = sum(x * x for x in query) ** 0.5 * sum(y * y for y in vector) ** 0.5
        found[id_] = dot / norms
    return found


@pytest.fixture
def index(new_index: Callable[[IndexConfig], BM25Index]) -> BM25Index:
    index = new_index(CONFIG)
    index.add(list(TEXTS.values()), ids=list(TEXTS), embeddings=VECTORS, metadatas=[{"n": n} for n in range(5)])
    return index


def ranking(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda id_: (-scores[id_], id_))


def test_dense_search_is_the_cosine(index: BM25Index) -> None:
    hits = index.search_dense(QUERY, 5)
    expected = cosines(QUERY)
    assert [hit.id for hit in hits] == ranking(expected)
    assert [hit.score for hit in hits] == pytest.approx([expected[hit.id] for hit in hits], rel=1e-5)
    assert hits[0].text == TEXTS[hits[0].id]


@pytest.mark.parametrize("metric", ["COSINE", "IP"])
def test_vectors_of_all_lengths_that_are_taken_have_the_right_scores(
    new_index: Callable[[IndexConfig], BM25Index], metric: DenseMetric
) -> None:
    direction = np.array([0.1, 0.7, 0.5, 0.5])
    lengths = {"longest": 9.9e18, "shortest": 1.1e-15}
    index = new_index(replace(CONFIG, dense_metric=metric))
    index.add(["apple"] * 2, ids=list(lengths), embeddings=[direction * length for length in lengths.values()])
    for asked in lengths.values():
        scores = {hit.id: hit.score for hit in index.search_dense((direction * asked).tolist())}
        products = {id_: asked * length if metric == "IP" else 1.0 for id_, length in lengths.items()}
        assert scores == pytest.approx(products, rel=1e-5)


def test_dense_search_is_filtered_and_limited(index: BM25Index) -> None:
    assert [hit.id for hit in index.search_dense(QUERY, 2, filter={"n": {"$gte": 2}})] == ["c", "d"]
    assert index.search_dense(QUERY, namespace="other") == []


@pytest.mark.parametrize("limits", [{"sparse_k": 1, "dense_k": 1}, {"sparse_k": 2, "dense_k": 1}, {"dense_k": 2}])
@pytest.mark.parametrize("normalization", ["z-score", "min-max"])
def test_what_one_arm_has_not_found_has_its_exact_score(
    index: BM25Index, limits: dict[str, int], normalization: Any
) -> None:
    lexical = {hit.id: hit.score for hit in index.search("apple cherry")}
    dense = {hit.id: hit.score for hit in index.search_dense(QUERY)}
    fusion = Weighted(0.6, 0.4, normalization=normalization)
    hits = index.search_hybrid("apple cherry", QUERY, fusion=fusion, **limits)  # type: ignore[arg-type]
    scores = {hit.id: (lexical.get(hit.id, 0.0), dense[hit.id]) for hit in hits}
    assert {hit.id: (hit.sparse_score, hit.dense_score) for hit in hits} == {
        id_: pytest.approx(both, rel=1e-6) for id_, both in scores.items()
    }


def test_hits_have_the_score_of_each_arm_that_found_them(index: BM25Index) -> None:
    for fusion in (Weighted(), RRF()):
        hits = index.search_hybrid("apple cherry", QUERY, 1, fusion=fusion)
        assert [bool(hit.sparse_score and hit.dense_score) for hit in hits] == [True]


def test_an_arm_gives_nothing_to_what_its_own_filter_leaves_out(index: BM25Index) -> None:
    asked: Any = {"sparse_filter": {"n": {"$lte": 1}}, "dense_filter": {"n": {"$gte": 1}}}
    hits = {hit.id: hit for hit in index.search_hybrid("apple", QUERY, **asked)}
    assert [hits["d"].sparse_score, hits["a"].dense_score] == [0.0, None]
    for id_, hit in hits.items():
        assert index.explain_hybrid("apple", QUERY, id_, **asked).value == pytest.approx(hit.score, rel=1e-9)


def test_a_chunk_with_a_word_is_above_one_with_none(index: BM25Index) -> None:
    hits = index.search_hybrid("apple", QUERY, fusion=Weighted(1, 0))
    assert [hit.id for hit in hits[:3]] == [hit.id for hit in index.search("apple")]
    assert hits[2].score > hits[3].score == 0


@pytest.mark.parametrize("fusion", [RRF(), Weighted()])
def test_arms_have_limits_and_filters_of_their_own(index: BM25Index, fusion: RRF | Weighted) -> None:
    def found(**options: object) -> set[str]:
        return {hit.id for hit in index.search_hybrid("plum", QUERY, fusion=fusion, **options)}  # type: ignore[arg-type]

    assert found(dense_k=1) == {"b", "d", "e"}
    assert found(dense_k=1, sparse_k=1) == {"b", "e"}
    assert found(sparse_filter={"n": 4}, dense_filter={"n": 0}) == {"e", "a"}
    assert found(filter={"n": {"$lte": 3}}, dense_filter={"n": {"$lte": 1}}) == {"a", "b", "d"}


@pytest.mark.parametrize("fusion", [RRF(), Weighted()])
def test_ties_go_by_id_whatever_the_order_of_the_rows(
    new_index: Callable[[IndexConfig], BM25Index], fusion: RRF | Weighted
) -> None:
    ids = [f"{n:02}" for n in np.random.default_rng(1).permutation(40)]
    index = new_index(CONFIG)
    for start in range(0, 40, 10):
        index.add(["apple"] * 10, ids=ids[start : start + 10], embeddings=np.ones((10, DIM)))
    for limits in ({}, {"sparse_k": 7, "dense_k": 7}, {"sparse_k": 3, "dense_k": 9}):
        hits = index.search_hybrid("apple", QUERY, 5, fusion=fusion, **limits)
        assert [hit.id for hit in hits] == sorted(ids)[:5]


def test_scores_that_differ_by_rounding_are_the_same(index: BM25Index) -> None:
    lengths = (1, 3, 7, 0.3, 1.7, 11)
    direction = np.array([0.1, 0.2, 0.3, 0.4])
    embeddings = [direction * length for length in lengths]
    index.add(["kiwi"] * 6, ids=[f"k{n}" for n in range(6)], embeddings=embeddings, namespace="same")
    hits = index.search_hybrid("kiwi", [0.5, 0.1, 0.9, 0.2], fusion=Weighted(), namespace="same")
    assert [(hit.id, hit.score) for hit in hits] == [(f"k{n}", 1.0) for n in range(6)]


def values_of(tree: Explanation) -> list[float]:
    return [tree.value, *(value for detail in tree.details for value in values_of(detail))]


FUSIONS = [RRF(), RRF(k=1), Weighted(), Weighted(0.3, 2.0, "min-max")]


@pytest.mark.parametrize("normalization", ["z-score", "min-max"])
def test_boosts_keep_hits_with_a_fused_score_of_0_or_less(index: BM25Index, normalization: Any) -> None:
    away: dict[str, Any] = {"fusion": Weighted(0, 1, normalization=normalization)}
    opposite = [-value for value in QUERY]
    plain = index.search_hybrid("fig", opposite, 10, **away)
    assert plain[-1].score <= 0
    for factor in (0.5, 1.0, 3.0):
        boosts = [ValueBoost("no such key", {1: 1}, default=factor)]
        hits = index.search_hybrid("fig", opposite, 10, **away, boosts=boosts)
        wanted = [hit.score * factor if hit.score > 0 else hit.score for hit in plain]
        assert [hit.id for hit in hits] == [hit.id for hit in plain]
        assert [hit.score for hit in hits] == pytest.approx(wanted)
        for hit in hits:
            tree = index.explain_hybrid("fig", opposite, hit.id, 10, **away, boosts=boosts)
            assert tree.value == pytest.approx(hit.score)
    assert not index.search_hybrid("fig", QUERY, 10, boosts=[ValueBoost("no such key", {1: 1}, default=0)])


def test_more_candidates_are_looked_at_where_boosts_leave_chunks_out(
    new_index: Callable[[IndexConfig], BM25Index],
) -> None:
    index, numbers = new_index(CONFIG), range(400)
    kinds = [{"kind": "draft" if at < 300 else "law"} for at in numbers]
    vectors = [[1.0, at, 0, 0] for at in numbers]
    texts = ["fig fig" if at < 300 else "fig plum" for at in numbers]
    index.add(texts, ids=[f"{at:03}" for at in numbers], embeddings=vectors, metadatas=kinds)
    boosts = [ValueBoost("kind", {"draft": 0})]
    for embedding in ([1.0, 0, 0, 0], None):
        hits = index.search_hybrid("fig", embedding, 10, boosts=boosts)
        assert [hit.id for hit in hits] == [f"{at:03}" for at in range(300, 310)]
        doubled = [ValueBoost("kind", {"law": 2})]
        assert len(index.search_hybrid("fig", embedding, 10, boosts=doubled, sparse_k=2, dense_k=2)) <= 4


def test_the_explanation_shows_rank_range_and_weight(index: BM25Index) -> None:
    lexical = index.search("apple cherry")
    by_rank = str(index.explain_hybrid("apple cherry", QUERY, "d", fusion=RRF()))
    assert "by RRF(k=60.0), sum of:\n" in by_rank
    assert "= sparse, 1 / (k + rank) from:\n    60 = k\n" in by_rank
    assert f"{[hit.id for hit in lexical].index('d') + 1} = rank among 3 candidates" in by_rank
    by_score = index.explain_hybrid("apple cherry", QUERY, "d", fusion=Weighted(0.6, 0.4))
    sparse, dense = by_score.details
    weight, normalized = sparse.details
    assert (weight.value, dense.details[0].value) == (0.6, 0.4)
    score, low, deviation = (part.value for part in normalized.details)
    scores = [hit.score for hit in lexical] + [0.0, 0.0]  # two candidates have no word of the query
    assert (low, deviation) == (0, pytest.approx(np.std(scores)))
    assert normalized.value == pytest.approx(score / np.std(scores), rel=1e-5)
    assert "score of chunk 'd' for the query 'apple cherry', sum of:" in str(normalized)
    by_range = str(index.explain_hybrid("apple cherry", QUERY, "d", fusion=Weighted(normalization="min-max")))
    assert f"{lexical[0].score:.6g} = range, from the lowest to the highest" in by_range


def test_the_explanation_says_why_a_chunk_is_not_found(index: BM25Index) -> None:
    tree = index.explain_hybrid("fig", QUERY, "e", 1, dense_k=2)
    assert (tree.value, [arm.value for arm in tree.details]) == (0.0, [0.0, 0.0])
    assert "not found, since it is among the candidates of neither arm" in str(tree)
    assert "sparse: not among its 4 candidates" in str(tree)
    assert "sparse: not among its 2 candidates" in str(index.explain_hybrid("fig", QUERY, "e", fusion=RRF()))
    with pytest.raises(ChunkNotFoundError, match="no chunk 'z'"):
        index.explain_hybrid("fig", QUERY, "z")
    with pytest.raises(InputError, match="chunk_namespace must be one of the namespaces that were searched"):
        index.explain_hybrid("fig", QUERY, "a", chunk_namespace="other")
    with pytest.raises(TypeError, match="unexpected keyword argument 'idff'"):
        index.explain_hybrid("fig", QUERY, "a", idff="lucene")  # type: ignore[call-arg]


def by_id(_query: str, hits: Sequence[Hit]) -> list[float]:
    return [ord(hit.id) for hit in hits]


BOOSTS = [FunctionBoost(number_of, 0.5)]
PLACED: dict[str, dict[str, Any]] = {
    "reranked": {"rerank": by_id, "candidates": 4},
    "reranked and grouped": {"rerank": by_id, "boosts": BOOSTS, "group": Grouping("kind", score="sum")},
    "grouped": {"group": Grouping("kind"), "boosts": BOOSTS},
    "without near duplicates": {"diversity": NearDuplicates(0.9)},
    "chosen": {"diversity": MMR(0.5)},
}


@pytest.mark.parametrize("way", PLACED)
@pytest.mark.parametrize("k", [2, 5])
def test_the_explanation_of_a_hybrid_hit_is_its_score_whatever_is_made_of_the_hits(
    index: BM25Index, way: str, k: int
) -> None:
    placed = PLACED[way]
    kinds = [{"n": n, "kind": n % 2} for n in range(5)]
    index.add(list(TEXTS.values()), ids=list(TEXTS), embeddings=VECTORS, metadatas=kinds)
    hits = index.search_hybrid("apple fig", QUERY, k, **placed)
    assert hits
    for rank, hit in enumerate(hits, 1):
        tree = index.explain_hybrid("apple fig", QUERY, hit.id, k, **placed)
        assert tree.value == pytest.approx(hit.score, rel=1e-9)
        assert f"place: hit {rank}, with k = {k}; from:" in tree.description
        assert "group" not in placed or f"grouped by 'kind': group {hit.metadata['kind']}, of" in tree.description
    for id_ in TEXTS.keys() - {hit.id for hit in hits}:
        what = index.explain_hybrid("apple fig", QUERY, id_, k, **placed).description
        assert f"place: not among the hits, with k = {k}" in what or "best hits, which by_id scores" in what


def test_the_explanation_of_a_hit_on_a_later_page_has_its_place_on_all_pages(index: BM25Index) -> None:
    page: Any = {"rerank": by_id, "offset": 2}
    ids = [hit.id for hit in index.search_hybrid("apple fig", QUERY, 5, rerank=by_id)]
    assert [hit.id for hit in index.search_hybrid("apple fig", QUERY, 1, **page)] == ids[2:3]
    for rank, id_ in enumerate(ids[:3], 1):
        tree = index.explain_hybrid("apple fig", QUERY, id_, 1, **page)
        assert f"place: hit {rank}, with k = 3; from:" in tree.description


def test_the_explanation_says_which_hits_a_reranker_did_not_score(index: BM25Index) -> None:
    asked: Any = {"candidates": 3, "rerank": by_id, "dense_k": 3, "fusion": Weighted(0.5, 0.5, "min-max")}
    assert [hit.id for hit in index.search_hybrid("apple fig", QUERY, 1, **asked)] == ["d"]
    trees = [index.explain_hybrid("apple fig", QUERY, id_, 1, **asked) for id_ in TEXTS]
    left_out = [tree for tree in trees if "is not among the 3 best hits, which by_id scores" in tree.description]
    assert [tree.value for tree in left_out] == [0.0, 0.0]
    assert max(tree.value for tree in trees if tree not in left_out) == ord("d")


def test_the_explanation_of_a_fused_score_says_which_condition_is_not_met(index: BM25Index) -> None:
    asked = Query("apple", must_not=["cherry"])
    tree = index.explain_hybrid(asked, QUERY, "b", 3)
    assert tree.value == 0
    assert "left out, since it has the words of must_not 'cherry'" in tree.description
    hit = index.search_hybrid(asked, QUERY, 3)[0]
    assert index.explain_hybrid(asked, QUERY, hit.id, 3).value == pytest.approx(hit.score, rel=1e-9)


@pytest.mark.parametrize("fusion", FUSIONS, ids=str)
def test_an_arm_of_one_hit_and_an_arm_of_equal_scores(index: BM25Index, fusion: RRF | Weighted) -> None:
    index.add(["kiwi", "kiwi", "lime"], ids=["x", "y", "z"], embeddings=[[1, 0, 0, 0]] * 3, namespace="few")
    for query, best in (("lime", "z"), ("kiwi", "x")):
        hits = index.search_hybrid(query, QUERY, fusion=fusion, namespace="few")
        assert hits[0].id == best
        assert all(math.isfinite(hit.score) and hit.score > 0 for hit in hits)
        tree = index.explain_hybrid(query, QUERY, best, fusion=fusion, namespace="few")
        assert tree.value == pytest.approx(hits[0].score, rel=1e-9)
        if fusion in (Weighted(), Weighted(0.3, 2.0, "min-max")):
            assert "normalized score: the scores of its" in str(tree)
            assert hits[0].score <= fusion.upper_bound(3)


def test_updates_and_deletes_keep_both_vectors_and_the_statistics(index: BM25Index) -> None:
    index.add(["apple kiwi"], ids=["a"], embeddings=[[0, 0, 0, 1]], metadatas=[{"n": 0}])
    index.delete(["b"])
    assert index.search_dense([0, 0, 0, 1], 1)[0].id == "a"
    assert {hit.id for hit in index.search_dense(QUERY, 10)} == {"a", "c", "d", "e"}
    assert [hit.id for hit in index.search("kiwi")] == ["a"]
    assert index.verify().differences == []


def test_a_new_vector_alone_is_an_update(index: BM25Index) -> None:
    index.add([TEXTS["e"]], ids=["e"], embeddings=[QUERY], metadatas=[{"n": 4}])
    assert index.search_dense(QUERY, 1)[0].id == "e"
    assert index.verify().differences == []


def test_stored_vectors_are_returned(index: BM25Index) -> None:
    index.add(["apple"], ids=["a"], embeddings=[[0, 0, 0, 1]], namespace="other")
    found = index.get_embeddings(["d", "nobody", "a"])
    assert {id_: vector.tolist() for id_, vector in found.items()} == {
        "a": VECTORS[0].tolist(),
        "d": VECTORS[3].tolist(),
    }
    assert index.get_embeddings(["a", "b"], namespace="other")["a"].tolist() == [0, 0, 0, 1]
    assert all(vector.dtype == np.float32 for vector in found.values())


def test_only_new_texts_are_embedded(index: BM25Index) -> None:
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> NDArray[np.float64]:
        asked.append(texts)
        return np.ones((len(texts), DIM))

    same = {"texts": list(TEXTS.values()), "ids": list(TEXTS)}
    index.add(**same, metadatas=[{"n": n} for n in range(5)], embeddings=embed)
    assert asked == []
    index.add(["fig", "new"], ids=["c", "f"], metadatas=[{"n": 99}, None], embeddings=embed)
    assert asked == [["new"]]
    (dense,) = [hit.score for hit in index.search_dense(VECTORS[2].tolist(), 1, filter={"n": 99})]
    assert dense == pytest.approx(1.0, rel=1e-5)


def test_opened_again_it_is_the_same(index: BM25Index, opened: Callable[..., Store]) -> None:
    again = BM25Index.from_store(opened(), config=CONFIG)
    assert again.search_hybrid("apple", QUERY) == index.search_hybrid("apple", QUERY)


def test_another_dimension_is_refused(index: BM25Index, opened: Callable[..., Store]) -> None:
    with pytest.raises(ConfigMismatchError, match="dense_dim: stored 4, given 5"):
        BM25Index.from_store(opened(), config=IndexConfig(chunk_size=12, analyzer=split, dense_dim=5))
    with pytest.raises(ConfigMismatchError, match="dense_metric: stored 'COSINE', given 'IP'"):
        BM25Index.from_store(
            opened(), config=IndexConfig(chunk_size=12, analyzer=split, dense_dim=4, dense_metric="IP")
        )


def test_wrong_queries_are_refused(index: BM25Index) -> None:
    with pytest.raises(InputError, match="embedding must have the index's dimension, 4"):
        index.search_dense([1.0])
    for name, limit in (("k", 0), ("sparse_k", 0), ("dense_k", 20_000)):
        with pytest.raises(ParameterError, match=rf"^{name} must be an int in 1..16384, got {limit}"):
            index.search_hybrid("apple", QUERY, **{name: limit})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="fusion must be a Weighted or an RRF, got 'weighted'"):
        index.search_hybrid("apple", QUERY, fusion="weighted")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'idff'"):
        index.search_hybrid("apple", QUERY, idff="lucene")  # type: ignore[call-arg]


def test_an_index_without_dense_vectors_says_so(new_index: Callable[[IndexConfig], BM25Index]) -> None:
    plain = new_index(IndexConfig(chunk_size=12, analyzer=split))
    with pytest.raises(InputError, match=r"embedding given, but .* has no dense vectors: .* without dense_dim"):
        plain.search_dense(QUERY)
    with pytest.raises(InputError, match=r"embeddings given, but .* has no dense vectors"):
        plain.add(["apple"], embeddings=[QUERY])
    assert plain.stats().num_chunks == 0
