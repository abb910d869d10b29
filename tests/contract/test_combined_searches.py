"""Searches of many threads find what each finds alone."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.rows import chunk

from rag_bm25.errors import FilterError
from rag_bm25.filters import Expression, parse_filter
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.milvus.limits import ReplyTooLargeError
from rag_bm25.store.rows import DenseField, Scope, SearchArm
from rag_bm25.vectors.sparse import SparseVector

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.store.protocol import Store
    from rag_bm25.store.rows import Match

THREADS = 8
QUERIES = [SparseVector.from_dict({at + 1: 1.0, 5: 0.5}) for at in range(THREADS)]
ODD = Scope(parse_filter({"odd": True}))
ARMS = [
    SearchArm(3),
    SearchArm(10),  # more rows than that share the last score
    SearchArm(4, ODD),
    SearchArm(4, vectors=True),
    SearchArm(40, vectors=True),
    SearchArm(200),
]


@pytest.fixture
def filled(opened: Callable[..., Store]) -> Store:
    """A store of 60 chunks, of which many have equal scores."""
    store = opened()
    store.create(DenseField(4, "COSINE"))
    rng = np.random.default_rng(1)
    rows = [
        chunk(
            at,
            metadata={"odd": at % 2 == 1},
            vector=SparseVector.from_dict({at % THREADS + 1: 0.5, 5: 0.25}),
            dense=rng.standard_normal(4).astype(np.float32),
        )
        for at in range(60)
    ]
    store.insert_chunks(rows)
    return store


def in_threads(store: Store, arm: SearchArm, dense: Any = None) -> list[list[Match]]:
    """Search in threads at once, one query in each."""
    ready = threading.Barrier(THREADS)

    def search(at: int) -> list[Match]:
        ready.wait()
        return store.search([QUERIES[at]] if dense is None else dense[at : at + 1], arm)[0]

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(search, range(THREADS)))


@pytest.mark.parametrize("arm", ARMS)
def test_they_find_what_each_finds_alone(filled: Store, arm: SearchArm) -> None:
    alone = [filled.search([query], arm)[0] for query in QUERIES]
    for _ in range(3):
        assert in_threads(filled, arm) == alone


def test_dense_ones_find_what_each_finds_alone(filled: Store) -> None:
    dense = np.random.default_rng(2).standard_normal((THREADS, 4)).astype(np.float32)
    arm = SearchArm(5, metric="COSINE")
    alone = [filled.search(dense[at : at + 1], arm)[0] for at in range(THREADS)]
    assert in_threads(filled, arm, dense) == alone


def test_each_gets_the_error_of_its_filter(filled: Store) -> None:
    bad = SearchArm(3, Scope(Expression("nosuchfield == 1")))

    def search(arm: SearchArm) -> str:
        try:
            return str(len(filled.search(QUERIES[:1], arm)[0]))
        except FilterError as error:
            return str(error)

    with ThreadPoolExecutor(2 * THREADS) as threads:
        found = list(threads.map(search, [bad, SearchArm(3)] * THREADS))
    assert found[1::2] == ["3"] * THREADS
    assert set(found[::2]) == {search(bad)} != {"3"}


@pytest.fixture
def sizes(filled: Store, monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """Sizes of the searches that the engine gets, by their limit; the first one goes on when all other threads wait."""
    if not isinstance(filled, MilvusStore) or filled._open.searches_at_once is None:
        pytest.skip("this engine gets each search in a call of its own")
    calls, read, taken = filled._searches._calls, filled._open.read, defaultdict[int, list[int]](list)
    assert calls is not None
    monkeypatch.setattr(calls, "_at_once", 1)
    monkeypatch.setattr(calls, "_patience", 60.0)

    def noted(method: str, *args: Any, **options: Any) -> Any:
        if method == "search":
            is_first = not taken
            taken[options["limit"]].append(len(options["data"]))
            while is_first and sum(len(lane.waiting) for lane in list(calls._lanes.values())) < THREADS - 1:
                time.sleep(0.001)
        return read(method, *args, **options)

    monkeypatch.setattr(filled._open, "read", noted)
    return taken


@pytest.mark.parametrize(
    ("arm", "expected"),
    [
        (SearchArm(3), [1, THREADS - 1]),
        (SearchArm(4, ODD), [1, THREADS - 1]),
        (SearchArm(23, vectors=True), [1, 6, 1]),  # of 25 rows with vectors, or more than a call may have
        (SearchArm(200), [1, 4, 3]),
    ],
)
def test_those_that_wait_go_in_one_call(
    filled: Store, sizes: dict[int, list[int]], arm: SearchArm, expected: list[int]
) -> None:
    found = in_threads(filled, arm)
    assert next(iter(sizes.values())) == expected
    assert found == [filled.search([query], arm)[0] for query in QUERIES]


def test_a_reply_that_is_too_large_together_comes_in_parts(
    filled: Store, sizes: dict[int, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(filled, MilvusStore)
    read = filled._open.read

    def limited(method: str, *args: Any, **options: Any) -> Any:
        found = read(method, *args, **options)
        if method == "search" and len(options["data"]) > 1:
            raise ReplyTooLargeError("more than the engine may send")
        return found

    monkeypatch.setattr(filled._open, "read", limited)
    found = in_threads(filled, SearchArm(3))
    assert next(iter(sizes.values()))[:2] == [1, THREADS - 1]
    assert found == [filled.search([query], SearchArm(3))[0] for query in QUERIES]
