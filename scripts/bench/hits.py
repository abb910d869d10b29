"""What is made of hits, against a search for the same query without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.report import Row
from bench.timing import latencies
from bench.workbench import CONFIG, NAME, K
from rag_bm25 import BM25Index, Decay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.workbench import Bench

TOPIC = "hits"
CHUNKS_OF_A_DOCUMENT = 20
GROUPING_AT_MOST = 2
HIGHLIGHTS_AT_MOST = 1.5
WAYS: dict[str, tuple[dict[str, Any], float | None]] = {
    "grouped by document": ({"group_by": "source"}, GROUPING_AT_MOST),
    "grouped, 3 hits of each": ({"group_by": "source", "group_size": 3}, None),
    "grouped by sums of 100": ({"group_by": "source", "group_score": "sum"}, None),
    "boosted by recency": ({"boosts": [Decay("age", scale=100, origin=0, floor=0.5)]}, None),
    "without near duplicates": ({"near_duplicates": 0.9}, None),
    "chosen from 100 by MMR": ({"mmr": 0.7}, None),
    "with highlights": ({"highlight": True}, HIGHLIGHTS_AT_MOST),
    "with neighbours": ({"expand": "neighbors"}, None),
}


def rows(bench: Bench) -> Iterator[Row]:
    """Search documents of 20 consecutive chunks each."""
    for size in bench.sizes:
        path = bench.folder / f"hits-{size}.db"
        with BM25Index.open(path, NAME, config=CONFIG) as index:
            places = [divmod(at, CHUNKS_OF_A_DOCUMENT) for at in range(size)]
            index.add(
                bench.texts(size),
                ids=[f"{document}.md#{number}" for document, number in places],
                metadatas=[{"source": f"{one}.md", "chunk": number, "age": one} for one, number in places],
                assume_new=True,
            )
            yield from _compare(bench, size, index)


def _compare(bench: Bench, size: int, index: BM25Index) -> Iterator[Row]:
    queries = bench.queries(size, bench.effort.queries)
    ways = {"alone": lambda at: index.search(queries[at], k=K)}
    ways |= {
        name: lambda at, options=options: index.search(queries[at], k=K, **options)
        for name, (options, _) in WAYS.items()
    }
    taken = latencies(ways, len(queries), bench.effort.rounds)
    for name, (_, at_most) in WAYS.items():
        yield Row(
            TOPIC,
            f"search {name}, k = {K}, p50",
            size,
            value=taken[name].p50,
            against="search alone",
            reference=taken["alone"].p50,
            comparison="ratio",
            at_most=at_most,
        )
