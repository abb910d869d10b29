"""Promise 2: adds, updates and deletes in any order leave exactly the (N, df) that a recount gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.indexes import CONFIG, counts
from support.memory_store import MemoryStore
from support.reference import recount
from support.strategies import corpora, texts

from rag_bm25 import BM25Index

namespaces = st.sampled_from(["", "law", "中"])
adds = st.tuples(st.just("add"), namespaces, corpora())
deletes = st.tuples(st.just("delete"), namespaces, st.lists(st.sampled_from("abcdefghij"), max_size=5))


def opened(store: MemoryStore) -> BM25Index:
    return BM25Index.from_store(store, config=CONFIG)


@given(st.lists(adds | deletes, max_size=8))
def test_statistics_equal_a_recount_after_every_step(steps: list[tuple[str, str, dict[str, str]]]) -> None:
    store = MemoryStore()
    index = opened(store)
    for kind, namespace, what in steps:
        if kind == "add":
            index.add(list(what.values()), ids=list(what), namespace=namespace)
        else:
            index.delete(list(what), namespace=namespace)
        assert counts(index) == recount(store.collections.chunks.values())
    assert counts(opened(store.reopen())) == counts(index)
    assert index.verify().ok


@given(corpora(min_size=1), st.data())
def test_order_and_batches_make_no_difference(chunks: dict[str, str], data: st.DataObject) -> None:
    one, many = opened(MemoryStore()), opened(MemoryStore())
    one.add(list(chunks.values()), ids=list(chunks))
    for id_ in data.draw(st.permutations(list(chunks))):
        many.add([chunks[id_]], ids=[id_])
    assert counts(one) == counts(many)
    assert one.stats() == many.stats()


@given(corpora(min_size=1), st.lists(st.tuples(st.sampled_from("abcdefghij"), texts()), max_size=10))
def test_history_leaves_no_trace(final: dict[str, str], history: list[tuple[str, str]]) -> None:
    straight, devious = opened(MemoryStore()), opened(MemoryStore())
    straight.add(list(final.values()), ids=list(final))
    for id_, text in history:
        devious.add([text], ids=[id_])
    devious.delete([id_ for id_, _ in history if id_ not in final])
    devious.add(list(final.values()), ids=list(final))
    assert counts(devious) == counts(straight)
    assert devious.stats() == straight.stats()


@given(corpora(min_size=1))
def test_adding_the_same_again_changes_nothing(chunks: dict[str, str]) -> None:
    store = MemoryStore()
    index = opened(store)
    index.add(list(chunks.values()), ids=list(chunks))
    rows, log = dict(store.collections.chunks), dict(store.collections.log)
    index.add(list(chunks.values()), ids=list(chunks))
    assert (store.collections.chunks, store.collections.log) == (rows, log)


@given(st.lists(st.tuples(st.booleans(), corpora()), max_size=6))
def test_two_writers_sum_up(steps: list[tuple[bool, dict[str, str]]]) -> None:
    store = MemoryStore(exclusive=False)
    one, other = opened(store), opened(store.reopen())
    for first, chunks in steps:
        (one if first else other).add(list(chunks.values()), ids=list(chunks))
    one.refresh()
    other.refresh()
    assert counts(one) == counts(other) == recount(store.collections.chunks.values())
