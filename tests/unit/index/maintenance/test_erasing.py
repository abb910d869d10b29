"""Deleting for good: no word of a deleted chunk stays in the log."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index
from rag_bm25.statistics.log.packing import unpack_json
from rag_bm25.vectors.terms import term_id

FIRST, DISPLACED = "plumless", "buckeroo"  # which have one hash


def logged(store: MemoryStore) -> str:
    """Return all that the log has of terms."""
    rows = [row for row in store.collections.log.values() if row.kind == "terms"]
    return str([(row.meta, unpack_json(row.packed)) for row in rows])


def ids_of(store: MemoryStore, id_: str) -> set[int]:
    return {term for row in store.collections.chunks.values() if row.id == id_ for term in row.vector.ids.tolist()}


@pytest.mark.parametrize("folded", [False, True])
def test_only_words_that_chunks_have_are_kept(index: BM25Index, store: MemoryStore, folded: bool) -> None:
    index.add(["zebulonka likes tea", "tea"], ids=["1", "2"])
    index.delete(["1"])
    if folded:
        index._live.log.compact(above=0)
    index.repair()
    assert "zebulonka" in logged(store)
    report = index.repair(erase=True)
    assert (report.erased_terms, report.compacted) == (2, True)
    assert "zebulonka" not in logged(store)
    assert "tea" in logged(store)
    assert (index.problems, index.verify().ok) == ([], True)


def test_an_index_without_chunks_keeps_no_word(
    index: BM25Index, store: MemoryStore, reopened: Callable[..., BM25Index]
) -> None:
    index.add(["a secret"], namespace="customer")
    index.drop_namespace("customer")
    assert index.repair(erase=True).erased_terms == 2
    assert logged(store) == "[]"
    assert not any("customer" in str(row) for row in store.collections.log.values())
    again = reopened()
    again.add(["a secret"])
    assert (again.problems, again.verify().ok) == ([], True)


@pytest.mark.parametrize("erased", [[DISPLACED], [FIRST, DISPLACED]])
def test_a_displaced_word_gets_its_id_again(
    index: BM25Index, store: MemoryStore, reopened: Callable[..., BM25Index], erased: list[str]
) -> None:
    assert term_id(FIRST) == term_id(DISPLACED)
    index.add([FIRST, DISPLACED], ids=[FIRST, DISPLACED])
    [former] = ids_of(store, DISPLACED)
    index.delete(erased)
    for _ in range(2):
        index.repair(erase=True)
        assert DISPLACED not in str(list(store.collections.log.values()))
    index.repair()
    other = reopened()
    other.add([DISPLACED], ids=["again"])
    assert ids_of(store, "again") == {former}
    for one in other, reopened(), index:
        one.refresh()
        assert [hit.id for hit in one.search(DISPLACED)] == ["again"]
        assert [hit.id for hit in one.search(FIRST)] == ([] if FIRST in erased else [FIRST])
        assert (one.problems, one.verify().ok) == ([], True)


def test_a_word_that_comes_back_is_stored_again_by_a_writer_that_knew_it(
    index: BM25Index, store: MemoryStore, reopened: Callable[..., BM25Index]
) -> None:
    other = reopened()
    index.add(["zebulonka likes tea", "tea"], ids=["1", "2"])
    other.add(["zebulonka"], ids=["3"])  # so it has loaded the terms
    assert "zebulonka" in other._live.vocabulary()
    index.delete(["1", "3"])
    index.repair(erase=True)
    index.add(["fig"])
    index._live.log.compact(above=0)  # later heads belong to the same epoch
    other.add(["zebulonka"], ids=["4"])
    assert "zebulonka" in logged(store)
    assert "likes" not in other._live.vocabulary()
    for one in other, reopened():
        assert [hit.id for hit in one.search("zebulonka")] == ["4"]
        assert (one.problems, one.verify().ok) == ([], True)


@pytest.mark.usefixtures("tiny_id_space")
@pytest.mark.parametrize("seed", range(20))
def test_two_writers_erase_and_add_at_random(index: BM25Index, reopened: Callable[..., BM25Index], seed: int) -> None:
    drawn, writers, texts = random.Random(seed), [index, reopened()], dict[str, str]()
    for _ in range(40):
        writer, id_ = drawn.choice(writers), drawn.choice("123456")
        match drawn.randrange(5):
            case 0 | 1:
                texts[id_] = " ".join(drawn.sample("abcdefgh", 2))
                writer.add([texts[id_]], ids=[id_])
            case 2 | 3:
                writer.delete([id_])
                texts.pop(id_, None)
            case _:
                writer.repair(erase=True)
    words = set(" ".join(texts.values()).split())
    for one in (*writers, reopened()):
        one.refresh()
        assert (one.problems, one.verify().differences) == ([], [])
        for term in words:  # a reader takes one that no chunk has for that with its hash
            assert {hit.id for hit in one.search(term)} == {id_ for id_, text in texts.items() if term in text}
    writers[0].repair(erase=True)
    assert set(writers[0]._live.vocabulary()) == words


def test_it_is_a_switch(index: BM25Index) -> None:
    with pytest.raises(ValueError, match="erase must be"):
        index.repair(erase="yes")
