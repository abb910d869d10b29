"""Parts encoded on their own, merged and loaded, are what adding them one after the other gives, bit for bit."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_store import MemoryStore
from support.reference import split
from support.strategies import json_scalars, texts

from rag_bm25 import BM25Index, FieldWeight, IndexConfig
from rag_bm25.bulk import encode_part, load, merge
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.settings import read_config
from rag_bm25.vectors.terms import ID_SPACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25.statistics.corpus import Contribution

pytest.importorskip("pyarrow")

CONFIGS = [
    IndexConfig(chunk_size=4, length_unit="terms", analyzer=split),
    IndexConfig(chunk_size=9, analyzer=split, weighting="bm25-adpt"),
    IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, weighting="bm25+"),
    IndexConfig(chunk_size=9, analyzer=split, fields={"title": FieldWeight(chunk_size=3, weight=2.0)}),
    IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, dense_dim=2, dense_metric="IP"),
]
QUERIES = ["apple fig", "banana", "grape apple 中文", "ü"]


@st.composite
def parts(draw: st.DrawFn) -> list[tuple[str, list[dict[str, Any]]]]:
    """Draw parts with a namespace each; no id is in two of one namespace."""
    drawn, number = [], 0
    for _ in range(draw(st.integers(1, 5))):
        rows: list[dict[str, Any]] = []
        for _ in range(draw(st.integers(0, 5))):
            metadata = {"title": draw(texts(3)), "page": draw(json_scalars), "n": number}
            row: dict[str, Any] = {"text": draw(texts()), "metadata": metadata}
            if draw(st.booleans()):
                row["id"] = f"'{number}\""
            rows.append({**row, "embedding": [number + 1, 0.1]})
            number += 1
        drawn.append((draw(st.sampled_from(["", "x"])), rows))
    return drawn


def without_embeddings(rows: list[dict[str, Any]], config: IndexConfig) -> list[dict[str, Any]]:
    return rows if config.dense_dim else [{k: v for k, v in row.items() if k != "embedding"} for row in rows]


def added(config: IndexConfig, corpus: Sequence[tuple[str, list[dict[str, Any]]]]) -> MemoryStore:
    """Add the parts, one after the other."""
    store = MemoryStore()
    with BM25Index.from_store(store.reopen(), config=config) as index:
        for namespace, rows in corpus:
            index.add(
                [row["text"] for row in rows],
                ids=[row.get("id") for row in rows],
                metadatas=[row["metadata"] for row in rows],
                embeddings=[row["embedding"] for row in rows] if config.dense_dim else None,
                namespace=namespace,
            )
    return store


def loaded(config: IndexConfig, corpus: Sequence[tuple[str, list[dict[str, Any]]]], order: list[int]) -> MemoryStore:
    """Encode the parts in some order, then merge and load them."""
    store = MemoryStore()
    with tempfile.TemporaryDirectory() as folder:
        for part in order:
            namespace, rows = corpus[part]
            encode_part(without_embeddings(rows, config), config, folder, part, namespace=namespace)
        report = merge(folder, num_parts=len(corpus))
        assert report.num_chunks == sum(len(rows) for _, rows in corpus)
        load(folder, store.reopen())
    return store


def rows_of(store: MemoryStore) -> dict[str, Any]:
    """Everything that is stored of the chunks, but for the names of batches."""
    return {
        row.pk: (
            row.id,
            row.namespace,
            row.length,
            row.text,
            row.metadata,
            row.vector.ids.dtype,
            row.vector.ids.tobytes(),
            row.vector.values.dtype,
            row.vector.values.tobytes(),
            None if row.dense is None else (row.dense.dtype, row.dense.tobytes()),
        )
        for row in store.collections.chunks.values()
    }


def plain(total: Contribution) -> tuple[Any, ...]:
    return total.num_chunks, total.total_length, total.ids.tolist(), total.df.tolist()


def statistics_of(store: MemoryStore) -> Any:
    """N, lengths, df, avgIDF; the terms in their order, and those that were displaced."""
    log = StatisticsLog(store.reopen())
    vocabulary = log.vocabulary()
    totals = {name: plain(log.statistics.of_one(name).contribution()) for name in log.statistics.namespaces}
    totals = {name: total for name, total in totals.items() if total[0]}  # an empty snapshot names a namespace
    terms = {term: vocabulary.id(term) for term in vocabulary}
    return totals, log.statistics.whole.collection_stats, list(terms.items()), log.view.displaced, read_config(store)


def answers(store: MemoryStore, config: IndexConfig) -> Any:
    """What can be seen of an index, before and after more is added to it."""
    with BM25Index.from_store(store.reopen(), config=config) as index:
        assert index.verify().differences == []
        before = [index.search(query, namespace=names) for query in QUERIES for names in (None, "", "x")]
        index.add(
            ["fig fig 新", "apple ü"], ids=["new", "'0\""], embeddings=[[1, 2], [3, 4]] if config.dense_dim else None
        )
        assert index.verify().differences == []
        return before, [index.search(query, namespace=None) for query in [*QUERIES, "新"]], index.stats()


@pytest.mark.parametrize("space", [ID_SPACE, 13], ids=["all ids", "12 ids"])
@given(config=st.sampled_from(CONFIGS), corpus=parts(), data=st.data())
def test_bulk_is_sequential_ingestion(
    space: int, config: IndexConfig, corpus: list[tuple[str, list[dict[str, Any]]]], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(corpus))))
    with patch("rag_bm25.vectors.terms.ID_SPACE", space):
        one, other = added(config, corpus), loaded(config, corpus, order)
        assert rows_of(other) == rows_of(one)
        assert statistics_of(other) == statistics_of(one)
        assert answers(other, config) == answers(one, config)
