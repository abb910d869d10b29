"""Property: what a dry run gives is, to the bit, what the index gives after the same writes, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.faulty_store import FaultyStore
from support.indexes import counts
from support.memory_store import MemoryStore, copied
from support.reference import split
from support.strategies import texts, words

from rag_bm25 import BM25Index, FieldWeight, IndexConfig, Query, StoreError
from rag_bm25.index import dry_run

CONFIG = IndexConfig(
    chunk_size=4, length_unit="terms", analyzer=split, dense_dim=2, fields={"title": FieldWeight(chunk_size=2)}
)

ids = st.sampled_from("abcdefghij")
namespaces = st.sampled_from(["", "law"])
titles = st.dictionaries(st.just("title"), texts(2), max_size=1)
adds = st.tuples(st.just("add"), namespaces, st.dictionaries(ids, st.tuples(texts(), titles), min_size=1))
deletions = st.tuples(st.just("delete"), namespaces, st.lists(ids, min_size=1))
drops = st.tuples(st.just("drop_namespace"), namespaces, st.none())
writes = st.lists(adds | deletions | drops, max_size=4)
queries = st.builds(Query, texts(3), must=st.lists(words, max_size=1), must_not=st.lists(words, max_size=1))


def write(index: BM25Index, changes: list[tuple[str, str, Any]]) -> None:
    for kind, namespace, what in changes:
        if kind == "add":
            index.add(
                [text for text, _ in what.values()],
                ids=list(what),
                metadatas=[metadata for _, metadata in what.values()],
                embeddings=[[1.0, float(len(text))] for text, _ in what.values()],
                namespace=namespace,
            )
        elif kind == "delete":
            index.delete(what, namespace=namespace)
        else:
            index.drop_namespace(namespace)


def answers(index: BM25Index, asked: list[Query]) -> Any:
    """Ask for everything that an index tells of its chunks and their statistics."""
    scopes: list[Any] = ["", "law", None]
    searches: list[Callable[..., Any]] = [
        lambda query, k, names: index.search(query, k, namespace=names),
        lambda query, k, names: index.search(query, k, namespace=names, statistics="all", min_should_match=1),
        lambda query, k, names: index.search_hybrid(query, [0.5, 1.0], k, namespace=names),
        lambda query, k, names: index.search(query, k, namespace=names, filter={"title": {"$exists": True}}),
    ]
    found = [search(query, 2, names) for search in searches for query in asked for names in scopes]
    stored = [sorted((chunk.id, chunk.text) for chunk in index.chunks(namespace=name)) for name in ("", "law")]
    return found, stored, counts(index), index.verify().differences


@pytest.mark.parametrize("wider", [(2, 8, 32), (1,)], ids=["asks for more", "copies rows"])
@given(before=writes, after=writes, asked=st.lists(queries, min_size=1, max_size=2))
def test_a_dry_run_predicts_every_answer(
    wider: tuple[int, ...], before: list[Any], after: list[Any], asked: list[Query]
) -> None:
    store = MemoryStore()
    with pytest.MonkeyPatch.context() as patch, BM25Index.from_store(store, config=CONFIG) as index:
        patch.setattr("rag_bm25.store.overlay.WIDER", wider)
        write(index, before)
        stored, given_before = copied(store.collections), answers(index, asked)
        with dry_run(index) as trial:
            assert answers(trial, asked) == given_before
            write(trial, after)
            predicted = answers(trial, asked)
        assert copied(store.collections) == stored
        write(index, after)
        assert answers(index, asked) == predicted


@pytest.mark.parametrize("calls", range(4))  # of a write
def test_a_write_that_was_cut_short_is_finished_above(calls: int) -> None:
    store = FaultyStore()
    with BM25Index.from_store(store, config=CONFIG) as index:
        write(index, [("add", "", {"a": ("apple", {}), "b": ("fig", {})})])
        store.fail_at(calls, "full")
        with pytest.raises(StoreError):
            write(index, [("add", "", {"a": ("banana", {}), "c": ("fig", {})})])
        stored = copied(store.collections)
        left = MemoryStore(collections=copied(store.collections))
        with BM25Index.from_store(left, config=CONFIG, read_only=True) as reader, dry_run(reader) as trial:
            assert trial.verify().differences == []
            write(trial, [("add", "", {"a": ("cherry", {})})])
            assert trial.verify().differences == []
            assert [hit.id for hit in trial.search("cherry")] == ["a"]
        assert copied(left.collections) == stored
