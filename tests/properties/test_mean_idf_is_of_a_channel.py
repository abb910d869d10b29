"""Words, bigrams and characters have a mean IDF each: after any history, by any writer, on any format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lazy_store import LazyStore
from support.memory_store import MemoryStore
from support.reference import BIGRAM, BM25, Corpus, in_all_channels

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.index.maintenance.copying import copy_index
from rag_bm25.statistics.log.keys import keys_of
from rag_bm25.statistics.log.packing import MARKED, pack_page, unpack_page

CONFIG = IndexConfig(
    chunk_size=4, length_unit="terms", analyzer=in_all_channels, bigram_weight=0.5, character_weight=0.3
)
NAMESPACES = ("", "law")

# Texts of which some words and some bigrams are in more than half of the chunks.
texts = st.lists(st.sampled_from(["合同", "合同法", "同法", "劳动", "法", "a", "ab"]), max_size=4).map(" ".join)
ids = st.sampled_from("abcdef")
adds = st.tuples(st.just("add"), st.sampled_from(NAMESPACES), st.dictionaries(ids, texts, max_size=4))
deletes = st.tuples(st.just("delete"), st.sampled_from(NAMESPACES), st.dictionaries(ids, texts, max_size=3))
steps = st.tuples(adds | deletes, st.integers(0, 1), st.sampled_from([False, False, True]))
histories = st.lists(steps, max_size=9)


class Model:
    """The chunks of each namespace."""

    def __init__(self) -> None:
        self.chunks: dict[str, dict[str, str]] = {name: {} for name in NAMESPACES}

    def apply(self, step: tuple[str, str, dict[str, str]]) -> None:
        kind, namespace, what = step
        for id_, text in what.items():
            if kind == "add":
                self.chunks[namespace][id_] = text
            else:
                self.chunks[namespace].pop(id_, None)

    def corpus(self, namespaces: Sequence[str] = NAMESPACES) -> Corpus:
        return Corpus({name + id_: in_all_channels(t) for name in namespaces for id_, t in self.chunks[name].items()})


def apply(index: BM25Index, step: tuple[str, str, dict[str, str]]) -> None:
    kind, namespace, what = step
    if kind == "add":
        index.add(list(what.values()), ids=list(what), namespace=namespace)
    else:
        index.delete(list(what), namespace=namespace)


def assert_right(index: BM25Index, model: Model) -> None:
    """The means, and the scores, whose floor is by them."""
    index.refresh()
    for names in ((*NAMESPACES,), ("",), ("law",)):
        corpus = model.corpus(names)
        stats = index._live.view.statistics.of(names).idf_inputs
        found = stats.average_idf, stats.average_bigram_idf, stats.average_character_idf
        assert found == pytest.approx(corpus.average_idfs(), abs=1e-12)
    query = "合同法 a 劳动"
    expected = BM25(4, bigram_weight=0.5, character_weight=0.3).scores(
        in_all_channels(query),
        corpus := model.corpus(),
        {id_: words_of(chunk) for id_, chunk in corpus.chunks.items()},
    )
    hits = index.search(query, k=50, namespace=None)
    assert {hit.namespace + hit.id: hit.score for hit in hits} == pytest.approx(expected, rel=1e-5)


def words_of(tokens: list[str]) -> int:
    return sum(not token.startswith(BIGRAM) for token in tokens)


def opened(store: MemoryStore, **options: Any) -> BM25Index:
    return BM25Index.from_store(store, config=CONFIG, **options)


@given(histories, st.booleans())
def test_two_writers_and_a_new_process_have_the_means(history: list[Any], by_search: bool) -> None:
    """On a server, each writer has a log of its own, and compacts now and then."""
    store, model = MemoryStore(exclusive=False), Model()
    writers = [opened(store), opened(store.reopen())]
    for step, writer, compacts in history:
        apply(writers[writer], step)
        model.apply(step)
        if compacts:
            writers[writer]._live.log.compact(above=0)
        if by_search:  # counts are read at once, and changed from then on
            assert_right(writers[1 - writer], model)
    for index in (*writers, opened(store.reopen()), opened(store.reopen(), read_only=True)):
        assert_right(index, model)
        assert index.verify().ok


def test_new_counts_have_marks() -> None:
    """Additions, updates and deletions, and what a writer of another process left."""
    store, model = MemoryStore(), Model()
    for step in [("add", "", {"a": "合同 a", "b": "合同法"}), ("add", "", {"b": "合同 a"}), ("delete", "", {"a": ""})]:
        index = opened(store.reopen())
        apply(index, step)  # type: ignore[arg-type]
        model.apply(step)  # type: ignore[arg-type]
        assert_right(index, model)
    deltas = [row for key, row in store.collections.log.items() if key.startswith("delta")]
    assert all(row.packed.startswith(MARKED) for row in deltas)


def test_batch_that_only_a_reader_counts_has_marks() -> None:
    """The delta of the last batch of a killed process was not stored."""
    store, model = LazyStore(), Model()
    index = opened(store)
    for step in [("add", "", {"a": "合同 a", "b": "法 a"}), ("add", "", {"b": "合同法 a", "c": "a"})]:
        apply(index, step)  # type: ignore[arg-type]
        model.apply(step)  # type: ignore[arg-type]
    assert_right(opened(store.reopen(), read_only=True), model)


def test_repair_export_and_copy_keep_the_means(tmp_path: Path) -> None:
    store, model = MemoryStore(), Model()
    index = opened(store)
    for step in [("add", "", {"a": "合同 a", "b": "合同法", "c": "合同 法 a"}), ("add", "law", {"a": "a 合同"})]:
        apply(index, step)  # type: ignore[arg-type]
        model.apply(step)  # type: ignore[arg-type]
    index.repair()
    assert_right(index, model)
    copy_index(store, target := MemoryStore())
    assert_right(opened(target), model)
    log = store.collections.log
    for key in keys_of(log, "terms", "run", "head", "delta"):
        del log[key]
    index = opened(store.reopen(), repair=True)  # the terms come from the texts
    assert_right(index, model)


def test_verify_finds_wrong_marks() -> None:
    store = MemoryStore()
    index = opened(store)
    index.add(["合同 a"], ids=["a"])
    log = store.collections.log
    [key] = keys_of(log, "delta")
    counts = unpack_page(log[key].packed)
    assert counts.channels is not None
    wrong = replace(counts, channels=np.zeros(len(counts), np.uint8))
    log[key] = replace(log[key], packed=pack_page(wrong))
    found = opened(store.reopen()).verify().differences
    assert [str(difference) for difference in found] == [
        "channel of bigram '合同': stored 0, counted 1",
        "channel of character '合': stored 0, counted 2",
        "channel of character '同': stored 0, counted 2",
    ]
    opened(store.reopen()).repair()
    assert opened(store.reopen()).verify().ok
