"""Hybrid search with what a RAG application asks of it, on every engine: tenants, filters, limits, failing models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.reference import split

from rag_bm25 import (
    RRF,
    AsyncBM25Index,
    BM25Index,
    Event,
    Grouping,
    HybridHit,
    IndexConfig,
    InputError,
    ParameterError,
    Weighted,
)
from rag_bm25.hits.fusion import Fusion
from rag_bm25.index.maintenance.copying import copy_index
from rag_bm25.index.maintenance.generations import make_next_generation
from rag_bm25.store import MemoryStore
from rag_bm25.store.protocol import Store

CONFIG = IndexConfig(chunk_size=12, analyzer=split, idf="lucene", dense_dim=3)
WORDS = ["apple", "fig", "plum", "kiwi"]
RNG = np.random.default_rng(5)
TEXTS = [" ".join(RNG.choice(WORDS, RNG.integers(1, 5))) for _ in range(24)]
VECTORS = RNG.normal(size=(24, 3))
KINDS = [{"kind": "even" if at % 2 == 0 else "odd", "file": f"f{at % 5}"} for at in range(24)]
QUERY, VECTOR = "apple plum", [0.3, -0.4, 0.8]
OTHERS = Weighted(0.9, 0.1, "min-max")


def fill(index: BM25Index, places: range = range(24), namespace: str = "") -> BM25Index:
    metadatas = [KINDS[at] for at in places]
    texts, ids = [TEXTS[at] for at in places], [f"c{at:02}" for at in places]
    index.add(texts, ids=ids, metadatas=metadatas, embeddings=VECTORS[list(places)], namespace=namespace)
    return index


@pytest.fixture
def index(new_index: Callable[[IndexConfig], BM25Index]) -> BM25Index:
    return fill(new_index(CONFIG))


def alone(places: range) -> list[tuple[str, Any]]:
    """What an index of these chunks alone finds."""
    return found(fill(BM25Index.from_store(MemoryStore(), config=CONFIG), places).search_hybrid(QUERY, VECTOR, 30))


def found(hits: list[HybridHit]) -> list[tuple[str, Any]]:
    return [(hit.id, pytest.approx(hit.score, rel=1e-4)) for hit in hits]


def test_a_tenant_has_the_hits_and_scores_of_an_index_of_its_own(index: BM25Index) -> None:
    fill(index, range(3, 15), namespace="tenant")
    assert found(index.search_hybrid(QUERY, VECTOR, 30, namespace="tenant")) == alone(range(3, 15))
    assert found(index.search_hybrid(QUERY, VECTOR, 30)) == alone(range(24))


def test_a_part_with_its_own_statistics_is_an_index_of_its_own(index: BM25Index) -> None:
    part: Any = {"filter": {"kind": "even"}, "statistics": {"kind": "even"}}
    assert found(index.search_hybrid(QUERY, VECTOR, 30, **part)) == alone(range(0, 24, 2))


def test_a_filter_that_leaves_few_orders_them_by_z_scores(index: BM25Index) -> None:
    hits = index.search_hybrid(QUERY, VECTOR, filter={"file": "f1"}, fusion=Weighted(0.4, 0.6))
    arms = np.array([[hit.sparse_score, hit.dense_score] for hit in hits], float)
    z_scores = (arms - arms.mean(axis=0)) / arms.std(axis=0) @ [0.4, 0.6]
    assert len(hits) == 5
    assert z_scores.tolist() == sorted(z_scores, reverse=True)


def test_a_minimum_score_cuts_the_same_list(index: BM25Index) -> None:
    every = index.search_hybrid(QUERY, VECTOR, 30)
    least = every[4].score
    assert index.search_hybrid(QUERY, VECTOR, 30, min_score=least) == every[:5]
    assert index.search_hybrid(QUERY, VECTOR, min_score=index.config.fusion.upper_bound(48) + 1e-6) == []


def test_words_of_both_arms_hits_are_highlighted(index: BM25Index) -> None:
    marked = {hit.id: hit.highlights for hit in index.search_hybrid(QUERY, VECTOR, 30, highlight=True)}
    for at, text in enumerate(TEXTS):
        has_word = bool({"apple", "plum"} & {*text.split()})
        assert any(fragment.marks for fragment in marked[f"c{at:02}"] or ()) == has_word


def test_groups_are_those_of_the_whole_list(index: BM25Index) -> None:
    first: dict[str, str] = {}
    for hit in index.search_hybrid(QUERY, VECTOR, 30):
        first.setdefault(hit.metadata["file"], hit.id)
    assert [hit.id for hit in index.search_hybrid(QUERY, VECTOR, 3, group=Grouping("file"))] == [*first.values()][:3]


def test_a_confidence_is_of_words_and_refused(index: BM25Index) -> None:
    with pytest.raises(ParameterError, match="min_confidence is not supported here: a confidence is of the BM25"):
        index.search_hybrid(QUERY, VECTOR, min_confidence=0.5)
    assert {hit.confidence for hit in index.search_hybrid(QUERY, VECTOR)} == {None}


@pytest.mark.parametrize("vectors", [None, [None], [[]], [[0.0, 0.0, 0.0]]])
def test_a_chunk_without_a_vector_is_refused_and_nothing_written(index: BM25Index, vectors: Any) -> None:
    with pytest.raises(InputError, match="embeddings"):
        index.add(["lime"], embeddings=vectors)
    assert index.stats().num_chunks == 24


def test_a_model_of_another_dimension_is_refused_with_both(index: BM25Index) -> None:
    for use in (
        lambda: index.search_hybrid(QUERY, [1.0, 0.0]),
        lambda: index.add(["lime"], embeddings=[[1.0, 0.0]]),
        lambda: index.add(["lime"], embeddings=lambda texts: [[1.0, 0.0] for _ in texts]),
    ):
        with pytest.raises(InputError, match=r"the index's dimension, 3, got shape \(2,\): embed by the model that"):
            use()
    assert index.search("lime") == []


def test_without_an_embedding_the_words_alone_answer_and_an_event_says_so(opened: Callable[..., Store]) -> None:
    events: list[Event] = []
    with BM25Index.from_store(opened(), config=CONFIG, on_event=events.append) as index:
        fill(index)
        hits = index.search_hybrid(QUERY, None, 30, filter={"kind": "odd"})
        assert [hit.id for hit in hits] == [hit.id for hit in index.search(QUERY, 30, filter={"kind": "odd"})]
        assert [hit.dense_score for hit in hits] == [None] * len(hits)
        assert [dict(event.counts) for event in events if event.name == "no_vector"] == [{"queries": 1}]
        tree = index.explain_hybrid(QUERY, None, hits[0].id, 30, filter={"kind": "odd"})
        assert tree.value == pytest.approx(hits[0].score, rel=1e-9)
        with pytest.raises(InputError):
            index.search_dense(None)  # type: ignore[arg-type]


def test_coroutines_find_the_same_side_by_side(index: BM25Index) -> None:
    queries = [*WORDS, QUERY]

    async def ask() -> list[list[HybridHit]]:
        both = AsyncBM25Index(index)
        return await asyncio.gather(*(both.search_hybrid(query, VECTOR) for query in queries))

    assert asyncio.run(ask()) == [index.search_hybrid(query, VECTOR) for query in queries]


@pytest.mark.parametrize("fusion", [OTHERS, RRF(7), Weighted(0, 1)], ids=str)
def test_the_fusion_that_was_set_is_every_handles_until_a_search_gives_another(
    opened: Callable[..., Store], fusion: Fusion
) -> None:
    with (
        BM25Index.from_store(opened(), config=CONFIG) as writer,
        BM25Index.from_store(opened(), config=CONFIG) as reader,
    ):
        before, after = (fill(writer).search_hybrid(QUERY, VECTOR, fusion=one) for one in (Weighted(), fusion))
        writer.set_query_defaults(fusion=fusion)
        reader.refresh()
        assert reader.config.fusion == fusion
        for index in (writer, reader):
            assert index.search_hybrid(QUERY, VECTOR) == after
            assert index.search_hybrid(QUERY, VECTOR, fusion=Weighted()) == before
            assert index.explain_hybrid(QUERY, VECTOR, after[0].id).value == pytest.approx(after[0].score, rel=1e-9)


def test_copies_and_generations_keep_the_fusion(opened: Callable[..., Store]) -> None:
    with BM25Index.from_store(opened(), config=CONFIG) as index:
        fill(index).set_query_defaults(fusion=OTHERS)
        target = MemoryStore()
        copy_index(index._store, target)
        assert BM25Index.from_store(target, config=CONFIG).config.fusion == OTHERS
        make_next_generation(index, replace(index.config, k1=1.2))
        assert (index.config.k1, index.config.fusion) == (1.2, OTHERS)
