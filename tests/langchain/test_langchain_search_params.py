"""Which parameters of the engine reach which search, by every way to ask."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from support.langchain_models import Letters, vector_of

from rag_bm25 import ParameterError
from rag_bm25.langchain import MilvusBM25VectorStore, MilvusHybridRetriever

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.memory_store import MemoryStore

    from rag_bm25 import BM25Index

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
    made = MilvusHybridRetriever(index=index, embedding=model, mode=mode, **options)
    asked = MilvusHybridRetriever(index=index, embedding=model)
    vectors = MilvusBM25VectorStore(index, embedding=model)
    yield lambda: made.invoke("fade")
    yield lambda: asyncio.run(made.ainvoke("fade"))
    yield lambda: made.batch(["fade"])
    yield lambda: asked.invoke("fade", mode=mode, **options)
    yield lambda: vectors.similarity_search("fade", mode=mode, **options)
    yield lambda: vectors.similarity_search_with_score("fade", mode=mode, **options)
    yield lambda: vectors.max_marginal_relevance_search("fade", mode=mode, **options)
    if mode == "dense":
        yield lambda: vectors.similarity_search_by_vector(vector_of("fade"), **options)
        yield lambda: vectors.max_marginal_relevance_search_by_vector(vector_of("fade"), **options)


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
