"""Which parameters of the engine reach which search, by every way to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from support.langchain_models import Letters, vector_of
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, Diagnosis, ParameterError
from rag_bm25.index.arguments import parse_scope
from rag_bm25.langchain import MilvusBM25VectorStore, MilvusHybridRetriever
from rag_bm25.store.rows import Scope, SearchArm

LEXICAL, DENSE = {"drop_ratio_search": 0.1}, {"ef": 200}
BOTH: dict[str, Any] = {"search_params": LEXICAL, "dense_search_params": DENSE}


@pytest.fixture
def store(dense_index: BM25Index, dense_store: MemoryStore) -> MemoryStore:
    dense_index.add(["fade bead", "gag"], ids=["a", "b"], embeddings=[vector_of("fade bead"), vector_of("gag")])
    dense_store.params.clear()
    return dense_store


def searches(index: BM25Index, mode: str, options: dict[str, Any]) -> Iterator[Callable[[], object]]:
    """Every way to ask."""
    model = Letters()
    asked = MilvusHybridRetriever(index=index, embedding=model)
    made = MilvusHybridRetriever(index=index, embedding=model, mode=mode, **options)
    yield partial(made.invoke, "fade")
    yield partial(run, made.ainvoke, "fade")
    yield partial(made.batch, ["fade"])
    yield partial(run, made.abatch, ["fade"])
    yield lambda: asked.invoke("fade", mode=mode, **options)
    yield lambda: run(asked.abatch, ["fade"], mode=mode, **options)
    store = MilvusBM25VectorStore(index, embedding=model)
    asking: Any = {"mode": mode, **options}
    for name in (
        "similarity_search",
        "similarity_search_with_score",
        "similarity_search_with_relevance_scores",
        "max_marginal_relevance_search",
    ):
        yield partial(getattr(store, name), "fade", **asking)
        yield partial(run, getattr(store, f"a{name}"), "fade", **asking)
    for kind_of_search in ("similarity", "mmr"):
        yield partial(store.as_retriever(search_type=kind_of_search, search_kwargs=asking).invoke, "fade")
    if mode == "dense":
        vector = vector_of("fade")
        yield partial(store.similarity_search_with_score_by_vector, vector, **options)
        for name in ("similarity_search_by_vector", "max_marginal_relevance_search_by_vector"):
            yield partial(getattr(store, name), vector, **options)
            yield partial(run, getattr(store, f"a{name}"), vector, **options)


def run(method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return asyncio.run(method(*args, **options))


@pytest.mark.parametrize(
    ("mode", "options", "reaching"),
    [
        ("sparse", BOTH, [LEXICAL]),
        ("sparse", {"dense_search_params": DENSE}, [None]),
        ("dense", BOTH, [DENSE]),
        ("dense", {"search_params": DENSE}, [DENSE]),
        ("dense", {"dense_search_params": DENSE, "search_params": None}, [DENSE]),
        ("hybrid", BOTH, [LEXICAL, DENSE]),
        ("hybrid", {"search_params": LEXICAL}, [LEXICAL, {}]),
        ("hybrid", {"dense_search_params": DENSE}, [None, DENSE]),
    ],
)
def test_they_reach_the_search_they_are_for(
    dense_index: BM25Index, store: MemoryStore, mode: str, options: dict[str, Any], reaching: list[Any]
) -> None:
    for search in searches(dense_index, mode, options):
        search()
        assert store.params == reaching
        store.params.clear()


@pytest.mark.parametrize(
    ("mode", "arms"), [("sparse", ["sparse"]), ("dense", ["dense"]), ("hybrid", ["sparse", "dense"])]
)
def test_filters_and_the_namespace_reach_the_arm_they_are_for(
    dense_index: BM25Index, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, mode: str, arms: list[str]
) -> None:
    filters = {"filter": {"page": 1}, "sparse_filter": {"lexical": True}, "dense_filter": {"dense": True}}
    monkeypatch.setattr(type(dense_index), "diagnose", lambda *_, **__: Diagnosis(""))
    scopes = {arm: parse_scope({"$and": [filters["filter"], filters[f"{arm}_filter"]]}, "one") for arm in arms}
    reached: list[Scope] = []
    dense_index.add(["fade"], embeddings=[vector_of("fade")], namespace="one")

    def search(self: MemoryStore, queries: Sequence[Any], arm: SearchArm) -> list[list[Any]]:
        reached.append(arm.scope)
        return [[] for _ in queries]

    monkeypatch.setattr(type(store), "search", search)
    for ask in searches(dense_index, mode, {**filters, "namespace": "one"}):
        ask()
        assert reached == list(scopes.values())
        reached.clear()


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("sparse", "search_params"),
        ("dense", "search_params"),
        ("dense", "dense_search_params"),
        ("hybrid", "search_params"),
        ("hybrid", "dense_search_params"),
    ],
)
def test_wrong_ones_are_refused_where_they_have_an_effect(
    dense_index: BM25Index, store: MemoryStore, mode: str, name: str
) -> None:
    for search in searches(dense_index, mode, {name: {"metric_type": "L2"}}):
        with pytest.raises(ParameterError, match="search_params must not have 'metric_type'"):
            search()
    assert store.params == []
