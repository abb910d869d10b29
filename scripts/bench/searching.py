"""Search by text, against the engine's own search for the same vector and the same fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymilvus

from bench.report import Row, ratio
from bench.timing import in_turns, latencies, seconds_of
from bench.workbench import NAME, Bench, K, Opened, batches
from rag_bm25.store.milvus.schema import CHUNK_CONTENTS, CHUNK_FACTS, SPARSE

TOPIC = "search"


def rows(bench: Bench) -> Iterator[Row]:
    for size in bench.sizes:
        with Opened(bench.index(size)) as opened:
            yield from _single(bench, size, opened)
            yield from _batches(bench, size, opened)


def raw_search(client: Any, vectors: list[dict[int, float]]) -> Any:
    """Search with plain pymilvus for the fields of our hits."""
    found = pymilvus.MilvusClient.search(
        client,
        NAME,
        data=vectors,
        anns_field=SPARSE,
        limit=K,
        output_fields=[*CHUNK_FACTS, *CHUNK_CONTENTS],
        search_params={"metric_type": "IP"},
    )
    return [[hit["entity"] for hit in hits] for hits in found]  # metadata is parsed when it is asked for


def _single(bench: Bench, size: int, opened: Opened) -> Iterator[Row]:
    queries = bench.queries(size, bench.effort.queries)
    vectors = [vector.to_dict() for vector in opened.index.encode_queries(queries)]
    ways = {
        "ours": lambda at: opened.index.search(queries[at], k=K),
        "raw": lambda at: raw_search(opened.client, [vectors[at]]),
    }
    taken = latencies(ways, len(queries), bench.effort.rounds)
    ours, raw = taken["ours"], taken["raw"]
    for name, value, reference, at_most in (("p50", ours.p50, raw.p50, 1.15), ("p95", ours.p95, raw.p95, 1.25)):
        measure = f"search with text, k = {K}, {name}"
        yield ratio(TOPIC, measure, size, value, "MilvusClient.search", reference, at_most=at_most)


def _batches(bench: Bench, size: int, opened: Opened) -> Iterator[Row]:
    """Compare a batch of queries with single queries."""
    effort = bench.effort
    queries = [text[::-1] for text in bench.queries(size, 2 * effort.rounds * effort.batch)]  # not asked before
    rounds = list(batches(queries, effort.batch))
    together, singly = iter(rounds[::2]), iter(rounds[1::2])
    ways = {
        "batch": lambda: seconds_of(lambda: opened.index.search_batch(next(together), k=K)),
        "single": lambda: seconds_of(lambda: [opened.index.search(query, k=K) for query in next(singly)]),
    }
    taken = in_turns(ways, effort.rounds)
    yield Row(
        TOPIC,
        f"{effort.batch} queries in one call, {effort.batch / taken['batch'].median:,.0f}/s",
        size,
        value=taken["batch"],
        against="in single calls",
        reference=taken["single"],
        comparison="speedup",
        at_least=3,
    )
