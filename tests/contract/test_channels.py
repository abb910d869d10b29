"""Bigrams, whose terms begin with a NUL, travel through every engine as words do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.memory_store import MemoryStore
from support.reference import BM25, Corpus, words_and_bigrams

from rag_bm25 import BM25Index, IndexConfig, QueryWeighting
from rag_bm25.vectors.terms import is_bigram

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.store.protocol import Store

TEXTS = ["劳动合同", "合同法", "Milvus 与劳动"]
CONFIG = IndexConfig(chunk_size=5)


def scores(index: BM25Index) -> dict[str, float]:
    return {hit.text: hit.score for query in ("动合", "劳动合同法") for hit in index.search(query)}


@pytest.fixture
def filled(store: Store) -> BM25Index:
    index = BM25Index.from_store(store, config=CONFIG)
    index.add(TEXTS)
    return index


def test_both_channels_are_stored_and_searched(filled: BM25Index, opened: Callable[..., Store]) -> None:
    expected = BM25Index.from_store(MemoryStore(), config=CONFIG)
    expected.add(TEXTS)
    filled.close()
    reader = BM25Index.from_store(opened(), read_only=True)
    assert scores(reader) == pytest.approx(scores(expected), rel=1e-5)
    assert reader.search("动合", weighting=QueryWeighting(bigram_weight=0)) == []
    assert reader.verify().ok


@pytest.mark.usefixtures("tiny_id_space")
def test_displaced_bigrams_come_back(filled: BM25Index, opened: Callable[..., Store]) -> None:
    before, found = dict(filled._live.log.view.displaced), scores(filled)
    assert any(map(is_bigram, before))
    filled.close()
    reader = BM25Index.from_store(opened(), read_only=True)
    assert reader._live.log.view.displaced == before
    assert scores(reader) == found
    assert reader.verify().ok


BY_PAIRS = IndexConfig(chunk_size=5, length_unit="terms", analyzer=words_and_bigrams)


def test_each_channel_has_its_mean(store: Store, opened: Callable[..., Store]) -> None:
    """Whoever adds, updates, deletes and compacts, in this process or the next."""
    index = BM25Index.from_store(store, config=BY_PAIRS)
    index.add(["劳动合同 a", "合同 a", "合同法 a", "合同"], ids=["1", "2", "3", "4"])
    other = BM25Index.from_store(opened(), config=BY_PAIRS)
    other.add(["劳动 a", "合同法 b"], ids=["2", "5"])
    index.delete(["3"])
    left = {"1": "劳动合同 a", "2": "劳动 a", "4": "合同", "5": "合同法 b"}
    analyze = words_and_bigrams
    corpus = Corpus({id_: analyze(text) for id_, text in left.items()})
    expected = BM25(5, bigram_weight=BY_PAIRS.bigram_weight).scores(
        analyze("合同 a"), corpus, {id_: len(text.split()) for id_, text in left.items()}
    )
    assert corpus.average_idfs()[0] != corpus.average_idfs()[1]

    def assert_right(some: BM25Index) -> None:
        some.refresh()
        stats = some.stats()
        assert (stats.average_idf, stats.average_bigram_idf) == pytest.approx(corpus.average_idfs())
        assert {hit.id: hit.score for hit in some.search("合同 a")} == pytest.approx(expected, rel=1e-5)

    assert_right(index)
    assert_right(other)
    index._live.log.compact(above=0)
    assert_right(other)
    index.close()
    other.close()
    reader = BM25Index.from_store(opened(), config=BY_PAIRS, read_only=True)
    assert_right(reader)
    assert reader.verify().ok
