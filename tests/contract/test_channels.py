"""Bigrams, whose terms begin with a NUL, travel through every engine as words do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig, QueryWeighting
from rag_bm25.store.protocol import Store
from rag_bm25.vectors.terms import is_bigram

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
    assert [hit.text for hit in reader.search("同")] == [hit.text for hit in expected.search("同")] != []
    assert [hit.text for hit in reader.search("法")] == ["合同法"]
    assert reader.verify().ok


def test_each_channel_of_a_counted_part_has_a_mean_of_its_own(store: Store) -> None:
    texts = [f"劳动合同 {number}" for number in range(6)]
    index, alone = (BM25Index.from_store(one, config=CONFIG) for one in (store, MemoryStore()))
    index.add([*texts, *["天气预报"] * 9], metadatas=[{"law": at < 6} for at in range(15)])
    alone.add(texts)
    query = "劳动合同"  # in all of them, so that its IDF comes from the means
    found = {hit.text: hit.score for hit in index.search(query, filter={"law": True}, statistics={"law": True})}
    assert found == pytest.approx({hit.text: hit.score for hit in alone.search(query)}, rel=1e-5)
    assert len(found) == 6


@pytest.mark.usefixtures("tiny_id_space")
def test_displaced_bigrams_come_back(filled: BM25Index, opened: Callable[..., Store]) -> None:
    before, found = dict(filled._live.log.view.displaced), scores(filled)
    assert any(map(is_bigram, before))
    filled.close()
    reader = BM25Index.from_store(opened(), read_only=True)
    assert reader._live.log.view.displaced == before
    assert scores(reader) == found
    assert reader.verify().ok
