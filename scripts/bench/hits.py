"""What is made of hits, against a search for the same query without."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bench.report import Row
from bench.timing import Spread, latencies, seconds_of
from bench.workbench import CONFIG, NAME, K
from rag_bm25 import BM25Index, Decay, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.workbench import Bench

TOPIC = "hits"
CHUNKS_OF_A_DOCUMENT = 20
GROUPING_AT_MOST = 2
WAYS: dict[str, tuple[dict[str, Any], float | None]] = {
    "grouped by document": ({"group_by": "source"}, GROUPING_AT_MOST),
    "grouped, 3 hits of each": ({"group_by": "source", "group_size": 3}, None),
    "grouped by sums of 100": ({"group_by": "source", "group_score": "sum"}, None),
    "boosted by recency": ({"boosts": [Decay("age", scale=100, origin=0, floor=0.5)]}, None),
    "without near duplicates": ({"near_duplicates": 0.9}, None),
    "chosen from 100 by MMR": ({"mmr": 0.7}, None),
    "with highlights": ({"highlight": True}, None),
    "with neighbours": ({"expand": "neighbors"}, None),
}
CONDITIONS: dict[str, Callable[[str], Query]] = {
    "with a phrase of 12 characters": lambda query: Query(query, phrases=[query]),
    "with a phrase of 4 characters": lambda query: Query(query, phrases=[query[:4]]),
    "with words that must be there": lambda query: Query(query, must=[query[:4]]),
    "without words that must not be there": lambda query: Query(query, must_not=[query[:4]]),
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
            yield from _statistics_of_a_part(bench, size, index)


def _compare(bench: Bench, size: int, index: BM25Index) -> Iterator[Row]:
    queries = bench.queries(size, bench.effort.queries)
    ways = {"alone": lambda at: index.search(queries[at], k=K)}
    ways |= {
        name: lambda at, options=options: index.search(queries[at], k=K, **options)
        for name, (options, _) in WAYS.items()
    }
    ways |= {name: lambda at, make=make: index.search(make(queries[at]), k=K) for name, make in CONDITIONS.items()}
    taken = latencies(ways, len(queries), bench.effort.rounds)
    limits = {name: at_most for name, (_, at_most) in WAYS.items()} | dict.fromkeys(CONDITIONS)
    for name, at_most in limits.items():
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


def _statistics_of_a_part(bench: Bench, size: int, index: BM25Index) -> Iterator[Row]:
    """Search with the statistics of half of the chunks, which the first search counts."""
    queries = bench.queries(size, bench.effort.queries)
    middle = size // CHUNKS_OF_A_DOCUMENT // 2
    halves = [{"age": {"$gte": at, "$lt": at + middle}} for at in range(bench.effort.rounds)]
    counting = [seconds_of(partial(index.search, queries[0], k=K, statistics=half)) for half in halves]
    taken = latencies(
        {
            "alone": lambda at: index.search(queries[at], k=K),
            "of a part": lambda at: index.search(queries[at], k=K, statistics=halves[-1]),
        },
        len(queries),
        bench.effort.rounds,
    )
    first = "search with the statistics of half of the chunks, the first time"
    yield Row(TOPIC, first, size, value=Spread.of_clocks(counting))
    yield Row(
        TOPIC,
        "search with the statistics of half of the chunks, counted before, p50",
        size,
        value=taken["of a part"].p50,
        against="search alone",
        reference=taken["alone"].p50,
        comparison="ratio",
    )
