"""Property: a search without hits has reasons, and so has every chunk that is not among the hits; others have none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.answers import give_model
from support.memory_store import MemoryStore
from support.reference import in_all_channels
from support.strategies import corpora, texts, words

from rag_bm25 import MMR, RSJ, BM25Index, Grouping, IndexConfig, NearDuplicates, Query, ValueBoost

SPACES = ["", "x", "y"]


def by_length(_: str, hits: Any) -> list[float]:
    return [len(hit.text) for hit in hits]


some_words = st.lists(words, max_size=1)
searches = st.fixed_dictionaries(
    {
        "k": st.sampled_from([1, 2, 100]),
        "namespace": st.none() | st.sampled_from([*SPACES, "none"]) | st.just(["", "x"]),
    },
    optional={
        "statistics": st.sampled_from(["all", {"n": 0}]),
        "filter": st.sampled_from([{"n": 1}, {"n": 7}, {"m": 1}, {"n": 0, "m": {"$exists": False}}]),
        "min_should_match": st.sampled_from([1, 2, "75%"]),
        "feedback": st.integers(1, 2),  # chunks that are marked
        "boosts": st.sampled_from([[ValueBoost("n", {1: 0})], [ValueBoost("n", {1: 2.5})]]),
        "rerank": st.just(by_length),
        "group": st.builds(Grouping, st.just("n"), st.integers(1, 2)),
        "diversity": st.sampled_from([NearDuplicates(0.9), MMR(0.5)]),
        "min_score": st.sampled_from([0.3, 2.0]),
        "min_confidence": st.sampled_from([0.05, 0.5]),
    },
)


@given(st.tuples(*[corpora(max_size=4)] * 3), st.builds(Query, texts(4), some_words, some_words, some_words), searches)
def test_what_is_not_found_has_a_reason(
    chunks: tuple[dict[str, str], ...], query: Query, search: dict[str, Any]
) -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(4, length_unit="terms", analyzer=in_all_channels))
    for namespace, some in zip(SPACES, chunks, strict=True):
        metadatas = [{"n": number % 2} for number in range(len(some))]
        index.add(list(some.values()), ids=list(some), namespace=namespace, metadatas=metadatas)
    give_model(index, -3.0, share=5.0, coverage=2.0)
    given_spaces = search["namespace"]
    searched = SPACES if given_spaces is None else [given_spaces] if isinstance(given_spaces, str) else given_spaces
    if marked := search.get("feedback"):
        ids = [id_ for namespace, some in zip(SPACES, chunks, strict=True) if namespace in searched for id_ in some]
        search["feedback"] = RSJ(ids[:marked], min_df=1, max_df=1.0)
    hits = index.search(query, **search)
    nothing = index.diagnose(query, **search)
    assert (nothing.num_hits, bool(nothing.reasons)) == (len(hits), not hits)
    assert "unclear" not in [reason.code for reason in nothing.reasons]
    found = {(hit.namespace, hit.id): hit for hit in hits}
    for namespace, some in zip(SPACES, chunks, strict=True):
        for id_ in some if namespace in searched else ():
            diagnosis = index.diagnose(query, id_, chunk_namespace=namespace, **search)
            hit = found.get((namespace, id_))
            assert bool(diagnosis.reasons) == (hit is None)
            if "the last of" in str(diagnosis):
                assert diagnosis.score <= diagnosis.last_score
            if hit is not None:
                assert diagnosis.score == pytest.approx(hit.score, rel=1e-6)
