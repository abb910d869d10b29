"""Selecting from the beginning of a ranking: if it says that this is enough, the rest changes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_bm25 import MMR, Grouping, Hit, InputError, NearDuplicates, ValueBoost
from rag_bm25.hits.diversity import (
    SparseCosines,
    cosine_similarity,
    diversify,
    scale_to_relevance,
    without_near_duplicates,
)
from rag_bm25.hits.options import SearchOptions, check_options
from rag_bm25.hits.selection import (
    Ranking,
    by_final_score,
    choose,
    flatten,
    form_units,
    lacking,
    num_units,
    rerank,
    shortlist,
)
from rag_bm25.vectors.sparse import EMPTY, SparseVector

BOOSTS = [ValueBoost("kind", {"up": 4.0, "down": 0.5})]

hits = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from("abcd"), st.sampled_from(["up", "down", "as it is"])),
    min_size=10,
    max_size=60,
)
plans = st.sampled_from(
    [
        {"boosts": BOOSTS},
        {"group": Grouping("page")},
        {"group": Grouping("page"), "boosts": BOOSTS},
        {"group": Grouping("page", score="sum"), "candidates": 4},
        {"group": Grouping("page", score="sum"), "candidates": 4, "boosts": BOOSTS},
        {"diversity": NearDuplicates(0.9)},
        {"diversity": NearDuplicates(0.9), "boosts": BOOSTS},
        {"diversity": NearDuplicates(0.9), "group": Grouping("page", 2)},
        {"diversity": MMR(0.5), "candidates": 6, "group": Grouping("page")},
        {"min_score": 20},
        {"min_score": 20, "boosts": BOOSTS},
        {"min_score": 20, "group": Grouping("page"), "boosts": BOOSTS},
    ]
)


def vector(ids: Sequence[int]) -> SparseVector:
    return SparseVector.from_dict(dict.fromkeys(ids, 1.0))


def read_vectors(some: Sequence[Hit]) -> list[SparseVector]:
    """Two hits resemble each other if their scores are the same, before any boost."""
    return [vector([int(hit.text)]) for hit in some]


def read_similarity(some: Sequence[Hit]) -> Any:
    return np.array([[float(one.text == other.text) for other in some] for one in some])


def select(options: SearchOptions, ranking: Ranking[Hit], k: int) -> list[tuple[str, float, float | None]]:
    units = form_units(options, by_final_score(options, ranking), num_units(options, k), read_vectors).units
    chosen = choose(options, units, k, read_similarity)
    return [(hit.id, hit.score, hit.group_score) for hit in flatten(options.get("group"), chosen)]


def ranked(given: list[tuple[int, str, str]]) -> list[Hit]:
    every = [
        Hit(f"{at:02}", float(score), str(score), {"page": page, "kind": kind})
        for at, (score, page, kind) in enumerate(given)
    ]
    return sorted(every, key=lambda hit: (-hit.score, hit.id))


@given(hits, plans, st.integers(1, 4))
def test_what_is_enough_is_enough(given: list[tuple[int, str, str]], options: dict[str, Any], k: int) -> None:
    chosen = check_options(options)
    every = ranked(given)
    whole = select(chosen, Ranking(every), k)
    for read in range(1, len(every)):
        part = Ranking(every[:read], every[read - 1].score, is_all=False)
        if shortlist(chosen, part, k, read_vectors).is_enough:
            assert select(chosen, part, k) == whole, read
    assert shortlist(chosen, Ranking(every), k, read_vectors).is_enough


def test_sums_take_twice_as_many_candidates_while_groups_are_missing() -> None:
    chosen = check_options({"group": Grouping("page", score="sum"), "candidates": 2})
    every = ranked([(20 - at, "a" if at < 5 else "b", "up") for at in range(20)])
    assert select(chosen, Ranking(every), 1) == [("00", 20.0, 39.0)]
    assert select(chosen, Ranking(every), 2) == [("00", 20.0, 90.0), ("05", 15.0, 42.0)]  # 8 candidates: 5 of a, 3 of b


def test_groups_that_may_have_more_members() -> None:
    chosen = check_options({"group": Grouping("page", 2)})
    full, half = (
        [Hit("1", 1.0, "", {"page": "a"}), Hit("2", 1.0, "", {"page": "a"})],
        [Hit("3", 1.0, "", {"page": "b"})],
    )
    assert lacking(chosen, [full, half, [Hit("4", 1.0, "")]]) == [half]


def test_a_reranker_decides_on_the_order_and_ties_stay_as_they_were() -> None:
    some = [Hit(id_, 1.0, id_) for id_ in "cab"]
    assert [(hit.id, hit.score) for hit in rerank(lambda _, hits: np.array([1, 2, 1]), "q", some)] == [
        ("a", 2.0),
        ("c", 1.0),
        ("b", 1.0),
    ]
    assert rerank(lambda _, hits: pytest.fail("no hits, no call"), "q", []) == []
    texts = "123", b"123", ["1", "2", "3"], [1, 2, "3"]
    for wrong in ([1, 2], [1, 2, float("nan")], None, "abc", [[1], [2], [3]], [1, 2, 10**400], [1, 2, 3j], *texts):
        with pytest.raises(InputError, match="rerank must return a finite score for each of 3 hits"):
            rerank(lambda _, hits, wrong=wrong: wrong, "q", some)  # type: ignore[misc]


def test_what_a_generator_of_scores_raises_is_not_hidden() -> None:
    def scores(_: str, hits: Sequence[Hit]) -> Iterator[float]:
        yield 1.0
        raise ValueError(f"halfway of {len(hits)}")

    with pytest.raises(ValueError, match="halfway of 2"):
        rerank(scores, "q", [Hit("a", 1.0, ""), Hit("b", 1.0, "")])  # type: ignore[arg-type]


def test_near_duplicates_are_compared_with_all_that_came_before() -> None:
    items = [("a", vector([1, 2, 3])), ("b", vector([4, 5])), ("c", vector([1, 2, 3])), ("d", EMPTY), ("e", EMPTY)]
    assert list(without_near_duplicates(items, 1.0)) == ["a", "b", "d", "e"]
    assert list(without_near_duplicates([("a", vector([1, 2])), ("b", vector([1, 3]))], 0.5)) == ["a"]
    assert list(without_near_duplicates([("a", vector([1, 2])), ("b", vector([1, 3]))], 0.51)) == ["a", "b"]


@given(
    st.lists(st.dictionaries(st.integers(1, 9), st.sampled_from([0.25, 0.5, 1.0]), max_size=5), max_size=12),
    st.sampled_from([0.1, 0.5, 0.9, 1.0]),
)
def test_no_two_hits_are_near_duplicates_and_each_that_is_left_out_has_one(
    weights: list[dict[int, float]], threshold: float
) -> None:
    def cosine(one: dict[int, float], other: dict[int, float]) -> float:
        product = sum(value * other.get(id_, 0) for id_, value in one.items())
        norms = [math.sqrt(sum(value * value for value in each.values())) for each in (one, other)]
        return product / (norms[0] * norms[1]) if product else 0.0

    kept: list[dict[int, float]] = []
    for own in weights:
        if all(cosine(own, other) < threshold - 1e-6 for other in kept):
            kept.append(own)
    items = [(own, SparseVector.from_dict(own)) for own in weights]
    assert list(without_near_duplicates(items, threshold)) == kept


def test_mmr_counts_the_most_similar_of_all_that_were_chosen() -> None:
    relevance = np.array([1.0, 0.9, 0.8, 0.5])
    similarity = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], np.float64)
    assert diversify(relevance, similarity, 0.5, 4) == [0, 2, 3, 1]
    assert diversify(relevance, similarity, 1.0, 2) == [0, 1]


def test_relevance_is_within_0_and_1() -> None:
    assert scale_to_relevance([4, 2, 1]).tolist() == [1, 0.5, 0.25]
    assert scale_to_relevance([2, -2]).tolist() == [1, 0]
    assert scale_to_relevance([0, 0]).tolist() == [0, 0]
    assert scale_to_relevance([]).tolist() == []
    some = [SparseVector.from_dict(each) for each in ({1: 2.0}, {}, {1: 3.0, 7: 4.0}, {9: 1.0})]
    expected = np.array([[1, 0, 0.6, 0], [0, 0, 0, 0], [0.6, 0, 1, 0], [0, 0, 0, 1]])
    assert np.array([SparseCosines(some)[at] for at in range(4)]) == pytest.approx(expected)
    assert SparseCosines([EMPTY])[0].tolist() == [0.0]
    assert cosine_similarity(np.array([[1.0, 0], [0, 0], [3, 4]])).tolist() == pytest.approx(
        np.array([[1, 0, 0.6], [0, 0, 0], [0.6, 0, 1]])
    )
