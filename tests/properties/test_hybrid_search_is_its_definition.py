"""Property: a hybrid search finds each chunk once, and is the fusion that loops over the stored rows give.

Many chunks tie in either arm, and one update may be unfinished, so that the old and the new row of some chunks are both
stored. Whether the scores of the arms are asked for changes nothing, and neither does k: with more hits, others follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import RRF, BM25Index, IndexConfig, StoreError, Weighted
from rag_bm25.index.searching import hybrid
from rag_bm25.store.rows import ChunkRow, Match, Scope, SearchArm

CONFIG = IndexConfig(chunk_size=4, analyzer=split, idf="lucene", dense_dim=2)
Change: TypeAlias = "dict[str, tuple[str, list[float]]]"
Arms: TypeAlias = "list[list[Match]]"

texts = st.sampled_from(["apple", "apple fig", "fig fig", "plum"])
vectors = st.sampled_from([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 0.5]])
changes = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(texts, vectors), min_size=1)
fusions = st.sampled_from([RRF(), RRF(k=1), Weighted(), Weighted(0.7, 0.3, "min-max"), Weighted(1, 2)])
FIRST = 2  # candidates of an arm that are fused first, in place of a hundred
counts = st.none() | st.integers(1, 9)
limits = st.fixed_dictionaries({"k": st.integers(1, 20), "sparse_k": counts, "dense_k": counts})


def write(index: BM25Index, namespace: str, change: Change) -> None:
    ids, contents = list(change), list(change.values())
    embeddings = [vector for _, vector in contents]
    index.add([text for text, _ in contents], ids=ids, embeddings=embeddings, namespace=namespace)


def lose_deletions(method: str) -> None:
    if method == "delete_chunks":
        raise StoreError("lost")


def stored(first: Change, second: Change, unfinished: Change) -> BM25Index:
    """An index for reading, beside a writer that died between an insertion and the deletion of the old rows."""
    store = MemoryStore()
    index = BM25Index.from_store(store, config=CONFIG)
    write(index, "n", first)
    write(index, "m", second)
    store.on_call = lose_deletions
    with suppress(StoreError):  # without a chunk that was there before, nothing is deleted
        write(index, "n", unfinished)
    return BM25Index.from_store(store.reopen(), config=CONFIG, read_only=True)


def newest(rows: list[ChunkRow]) -> dict[tuple[str, str], str]:
    """The last write of each chunk."""
    batches: dict[tuple[str, str], str] = {}
    for row in rows:
        batches[row.namespace, row.id] = max(batches.get((row.namespace, row.id), ""), row.batch)
    return batches


def candidates(rows: Arms, limits: list[int], namespaces: list[str] | None) -> Arms:
    """What each arm brings; where rows drop out, twice as many are looked at."""
    depths = list(limits)
    while True:
        seen = newest([match.row for arm, depth in zip(rows, depths, strict=True) for match in arm[:depth]])
        brought: Arms = []
        for arm, depth, limit in zip(rows, depths, limits, strict=True):
            shown = [match for match in arm[:depth] if namespaces is None or match.row.namespace in namespaces]
            shown = [match for match in shown if match.row.batch == seen[match.row.namespace, match.row.id]]
            brought.append(shown[:limit])
        lacking = [at for at in range(2) if len(brought[at]) < limits[at] and depths[at] < len(rows[at])]
        if not lacking:
            return brought
        for at in lacking:
            depths[at] *= 2


def by_rank(arm: list[Match], k: float) -> dict[str, float]:
    return {match.row.pk: 1 / (k + rank) for rank, match in enumerate(arm, 1)}


def by_score(arm: dict[str, float], fusion: Weighted, weight: float) -> dict[str, float]:
    scores = list(arm.values())
    if not scores:
        return {}
    unit = np.std(scores) if fusion.normalization == "z-score" else max(scores) - min(scores)
    shares = {}
    for pk, score in arm.items():
        same = max(scores) - min(scores) < 1e-7
        shares[pk] = weight * (1.0 if same else (score - min(scores)) / unit)
    return shares


def scored(brought: Arms, everything: Arms, at: int) -> dict[str, float]:
    """The scores of an arm for all candidates; 0 where there is no word of the query."""
    if not brought[at]:
        return {}
    exact = {match.row.pk: match.score for match in everything[at]}
    return {match.row.pk: exact.get(match.row.pk, 0.0) for arm in brought for match in arm}


def shares_of(brought: Arms, everything: Arms | None, fusion: RRF | Weighted) -> list[dict[str, float]]:
    """What each arm gives, with exact scores of what it has not brought if everything is given."""
    if isinstance(fusion, RRF):
        return [by_rank(arm, fusion.k) for arm in brought]
    arms = [
        {match.row.pk: match.score for match in arm} if everything is None else scored(brought, everything, at)
        for at, arm in enumerate(brought)
    ]
    weights = fusion.sparse, fusion.dense
    return [by_score(arm, fusion, weight) for arm, weight in zip(arms, weights, strict=True)]


def fused(
    brought: Arms, everything: Arms, first: list[int], fusion: RRF | Weighted
) -> list[tuple[str, str, str, float]]:
    """The first candidates of each arm, and below them those that twice as many bring, and so on."""
    rows = {match.row.pk: match.row for arm in brought for match in arm}
    scores: dict[str, float] = {}
    sizes = list(first)
    while True:
        cut = [arm[:size] for arm, size in zip(brought, sizes, strict=True)]
        shares = shares_of(cut, None if scores else everything, fusion)
        found = {match.row.pk for arm in cut for match in arm} - scores.keys()
        new = {pk: sum(share[pk] for share in shares if pk in share) for pk in found}
        if scores and new:
            lowest = min(scores.values())
            shift = max(0.0, max(new.values()) - lowest)
            new = {pk: min(score - shift, np.nextafter(lowest, -np.inf)) for pk, score in new.items()}
        scores |= new
        if all(len(arm) <= size for arm, size in zip(brought, sizes, strict=True)):
            break
        sizes = [2 * size for size in sizes]
    hits = [(rows[pk].id, rows[pk].namespace, rows[pk].text, float(score)) for pk, score in scores.items()]
    return sorted(hits, key=lambda hit: (-hit[3], hit[0], hit[1]))


def ranked(found: list[Match]) -> list[Match]:
    return sorted(found, key=lambda match: (-match.score, match.row.id, match.row.pk))


def depth(limit: int | None, k: int) -> int:
    size = FIRST
    while size < k:
        size *= 2
    return limit or size


@pytest.fixture(autouse=True, scope="module")
def few_candidates() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(hybrid, "CANDIDATES", FIRST)
        yield


@given(
    changes,
    changes,
    changes,
    st.sampled_from(["apple", "fig plum", "apple plum apple", "unknown"]),
    vectors,
    fusions,
    limits,
    st.sampled_from([None, ["n"], ["m"], ["m", "n"]]),
)
def test_hybrid_search_is_its_definition(
    first: Change,
    second: Change,
    unfinished: Change,
    query: str,
    embedding: list[float],
    fusion: RRF | Weighted,
    limits: dict[str, Any],
    namespaces: list[str] | None,
) -> None:
    index = stored(first, second, unfinished)
    asked: dict[str, Any] = {**limits, "fusion": fusion, "namespace": namespaces, "statistics": "all"}
    k, tops = limits["k"], [limits["sparse_k"], limits["dense_k"]]
    hits = index.search_hybrid(query, embedding, **asked)
    (weights,) = index.encode_queries([query], statistics="all", namespace=namespaces)
    scope = Scope(namespaces=None if namespaces is None else tuple(namespaces))
    sparse = index._store.search([weights], SearchArm(1000, scope))[0] if len(weights) else []
    (dense,) = index._store.search(np.array([embedding], np.float32), SearchArm(1000, scope, metric="COSINE"))
    everything = [ranked(sparse), ranked(dense)]
    brought = candidates(everything, [depth(top, k) for top in tops], namespaces)
    expected = fused(brought, everything, [top or FIRST for top in tops], fusion)[:k]
    assert [(hit.id, hit.namespace, hit.text) for hit in hits] == [hit[:3] for hit in expected]
    assert [hit.score for hit in hits] == pytest.approx([hit[3] for hit in expected], rel=1e-9)
    assert len({(hit.namespace, hit.id) for hit in hits}) == len(hits)
    known = [{(match.row.namespace, match.row.id, match.score) for match in arm} for arm in everything]
    for hit in hits:
        assert hit.sparse_score in (None, 0.0) or (hit.namespace, hit.id, hit.sparse_score) in known[0]
        assert hit.dense_score is None or (hit.namespace, hit.id, hit.dense_score) in known[1]
    if len(dense) == len({(match.row.namespace, match.row.id) for match in dense}):  # none is being updated
        assert index.search_hybrid(query, embedding, **{**asked, "k": 4 * k})[:k] == hits
    for hit in [*hits[:3], *hits[-1:]]:
        tree = index.explain_hybrid(query, embedding, hit.id, chunk_namespace=hit.namespace, **asked)
        assert tree.value == pytest.approx(hit.score, rel=1e-9)
