"""An index whose analyzer is not given: all works that analyses nothing, and the rest says how to give it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.memory_store import MemoryStore
from support.writes import writes

from rag_bm25 import BM25Index, ConfigMismatchError
from rag_bm25.index.maintenance.copying import copy_index

NAMED = r"the analyzer support\.reference\.split: pass that callable as analyzer, or as preprocess_func"


@pytest.fixture
def bare(filled: BM25Index, reopened: Callable[..., BM25Index]) -> BM25Index:
    return reopened(config=None)


@pytest.mark.parametrize(
    "read",
    [
        lambda index: index.stats(),
        lambda index: index.get(["1", "2"]),
        lambda index: list(index.chunks(filter={"page": 2})),
        lambda index: index.neighbors(index.get(["1"])[0]),
        lambda index: index.terms(prefix="ap"),
        lambda index: index.chunk_terms("2"),
        lambda index: index.more_like_this("1"),
        lambda index: index.verify(vectors=False),
        lambda index: index.problems,
    ],
)
def test_reading_needs_no_analyzer(bare: BM25Index, filled: BM25Index, read: Callable[[BM25Index], Any]) -> None:
    assert read(bare) == read(filled)


def test_deleting_needs_no_analyzer(bare: BM25Index, reopened: Callable[..., BM25Index]) -> None:
    assert bare.delete(["1"]) == 1
    assert bare.delete(filter={"page": 2}) == 1
    assert bare.drop_namespace("") == 1
    assert reopened().verify().ok


def test_an_index_is_copied_without_it(filled: BM25Index, store: MemoryStore) -> None:
    target = MemoryStore()
    copy_index(store.reopen(), target)
    copied = BM25Index.from_store(target, analyzer=filled.config.analyzer)
    assert copied.search("apple") == filled.search("apple")


@pytest.mark.parametrize(
    "analyse",
    [
        lambda index: index.search("apple"),
        lambda index: index.explain("apple", "1"),
        lambda index: index.diagnose("apple"),
        lambda index: index.highlight("apple", "an apple"),
        lambda index: index.encode_queries(["apple"]),
        lambda index: index.encode_documents(["apple"]),
        lambda index: index.term_statistics("apple"),
        lambda index: index.add(["grape"]),
        lambda index: index.add(["apple banana"], ids=["1"], metadatas=[{"page": 1}]),  # as it is stored
        lambda index: index.add(["grape"], workers=1),
        lambda index: index.add_stream(iter([])),
        lambda index: index.verify(),
        lambda index: index.repair(),
    ],
)
def test_what_analyses_names_the_callable_and_writes_nothing(
    bare: BM25Index, store: MemoryStore, analyse: Callable[[BM25Index], Any]
) -> None:
    before = dict(store.collections.log), dict(store.collections.chunks)
    with pytest.raises(ConfigMismatchError, match=NAMED):
        analyse(bare)
    assert (dict(store.collections.log), dict(store.collections.chunks)) == before


def test_a_repair_is_refused_before_it_deletes_anything(bare: BM25Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.index.maintenance.verification.salvage", None)  # its first step
    with pytest.raises(ConfigMismatchError, match=NAMED):
        bare.repair()


def test_its_config_creates_no_index(bare: BM25Index) -> None:
    target = MemoryStore()
    with pytest.raises(ConfigMismatchError, match=NAMED):
        BM25Index.from_store(target, config=bare.config)
    assert (target.collections.exist, writes(target)) == (False, [])


def test_its_config_opens_the_index_again(bare: BM25Index, reopened: Callable[..., BM25Index]) -> None:
    assert reopened(config=replace(bare.config, idf="plus")).stats().num_chunks == 3
