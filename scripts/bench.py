"""Measure how near the library comes to what the engine allows, as ratios, side by side in one run.

    python scripts/bench.py --chunks 10000 --json bench.json
    python scripts/bench.py --chunks 10000 --corpus docs.jsonl

Text is that of a corpus, one JSON object a line with "text", cut at 500 characters; or it is generated: words of
jieba's dictionary, as often as the dictionary says. What is compared takes turns, and medians are printed. Seconds are
wall time; CPU time beside it, of all processes and with their start, tells how busy others kept the machine. Needs
milvus-lite 2.5, bm25s and rank-bm25.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
import tracemalloc
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import chain, cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bm25s
import jieba
import numpy as np
import pymilvus
from rank_bm25 import BM25Okapi

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.document_encoder import DocumentEncoder
from rag_bm25.milvus_store import MilvusStore
from rag_bm25.milvus_store.engines import open_engine, release_engine
from rag_bm25.milvus_store.schema import CHUNK_CONTENTS, CHUNK_FACTS, SPARSE
from rag_bm25.statistics_log import StatisticsLog
from rag_bm25.store import ChunkRow
from rag_bm25.terms import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SIZE = 500
BATCH = 1_000
K = 10
CONFIG = IndexConfig(chunk_size=SIZE)
PACKAGES = ("rag-bm25", "pymilvus", "milvus-lite", "numpy", "jieba", "rjieba", "bm25s", "rank-bm25")


@dataclass(frozen=True)
class Line:
    """One line of the table: how often the one is the other."""

    measure: str
    one: str
    other: str
    ratio: float
    target: str = ""


@dataclass
class Clock:
    """What a block took, in seconds."""

    wall: float = 0.0
    cpu: float = 0.0


def cpu_seconds() -> float:
    """CPU time of this process, and of those that it has ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@contextmanager
def timed() -> Iterator[Clock]:
    clock = Clock()
    wall, cpu = time.perf_counter(), cpu_seconds()
    yield clock
    clock.wall, clock.cpu = time.perf_counter() - wall, cpu_seconds() - cpu


def median(clocks: Sequence[Clock]) -> Clock:
    return Clock(statistics.median(clock.wall for clock in clocks), statistics.median(clock.cpu for clock in clocks))


def in_turns(ways: dict[str, Callable[[], Clock]], repeats: int) -> dict[str, Clock]:
    """Measure each way in turn, again and again."""
    taken: dict[str, list[Clock]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            taken[name].append(way())
    return {name: median(clocks) for name, clocks in taken.items()}


# Text


def corpus_chunks(path: Path, number: int) -> list[str]:
    """Cut a corpus into chunks; where it is too small, again at other places."""
    with path.open(encoding="utf-8") as lines:
        text = "".join(json.loads(line)["text"] for line in lines)
    starts = chain.from_iterable(range(shift, len(text) - SIZE, SIZE) for shift in range(0, SIZE, 37))
    return [text[start : start + SIZE] for start in islice(starts, number)]


def generated_chunks(number: int) -> list[str]:
    """Draw words of jieba's dictionary by their frequency."""
    jieba.initialize()
    words = [(word, frequency) for word, frequency in jieba.dt.FREQ.items() if frequency]
    weights = np.array([frequency for _, frequency in words], float)
    rng = np.random.default_rng(1)
    drawn = rng.choice(len(words), (number, SIZE), p=weights / weights.sum())
    return ["".join(words[at][0] for at in row)[:SIZE] for row in drawn]


def queries_from(texts: Sequence[str], number: int) -> list[str]:
    """Take passages of 12 characters."""
    rng = np.random.default_rng(2)
    picked = rng.integers(0, len(texts), number)
    return [texts[at][start : start + 12] for at, start in zip(picked, rng.integers(0, SIZE - 12, number), strict=True)]


# Ingestion


def encoded_rows(texts: Sequence[str]) -> list[ChunkRow]:
    encoder = DocumentEncoder(CONFIG.build_analyzer(), CONFIG.document_weighting())
    vectors = encoder.encode(texts).vectors
    return [
        ChunkRow(f"{at:040x}a", str(at), "", len(text), "b", text, {}, vector)
        for at, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]


def ingest_seconds(texts: list[str], **options: Any) -> Clock:
    """Add all chunks to a new index, opening and closing aside for wall time."""
    cpu = cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        with BM25Index.open(Path(folder, "bench.db"), "docs", config=CONFIG) as index:
            index.add(["a first chunk 预热"], workers=options.get("workers", 0))
            with timed() as clock:
                index.add(texts, **options)
        clock.cpu = cpu_seconds() - cpu
    return clock


def insert_seconds(rows: list[ChunkRow], *, plain: bool = False) -> Clock:
    """Insert rows that are ready, in the store's way or in that of pymilvus."""
    cpu = cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bench.db")
        store, engine = MilvusStore(path, "docs"), open_engine(path, token=None, timeout=None, read_only=False)
        store.create()
        entities = [
            {**{name: getattr(row, name) for name in (*CHUNK_FACTS, *CHUNK_CONTENTS)}, SPARSE: row.vector.to_dict()}
            for row in rows
        ]
        with timed() as clock:
            for start in range(0, len(rows), BATCH):
                if plain:
                    pymilvus.MilvusClient.insert(engine.client, "docs", entities[start : start + BATCH])
                else:
                    store.insert_chunks(rows[start : start + BATCH])
        store.close()
        release_engine(engine)
        clock.cpu = cpu_seconds() - cpu
    return clock


def analysis_seconds(texts: list[str]) -> Clock:
    analyzer = CONFIG.build_analyzer()
    with timed() as clock:
        for text in texts:
            analyzer(text)
    return clock


def measure_ingestion(texts: list[str], repeats: int) -> Iterator[Line]:
    rows = encoded_rows(texts)
    taken = in_turns(
        {
            "analysis alone": lambda: analysis_seconds(texts),
            "insertion alone": lambda: insert_seconds(rows),
            "insertion alone by pymilvus": lambda: insert_seconds(rows, plain=True),
            "add": lambda: ingest_seconds(texts),
            "add, assume_new": lambda: ingest_seconds(texts, assume_new=True),
            "add, assume_new, 1 worker": lambda: ingest_seconds(texts, assume_new=True, workers=1),
            "add, assume_new, 2 workers": lambda: ingest_seconds(texts, assume_new=True, workers=2),
        },
        repeats,
    )
    slower = max("analysis alone", "insertion alone", key=lambda name: taken[name].wall)
    for name, clock in taken.items():
        target = "<= 1.25" if name.startswith("add") else ""
        one, other = seconds(clock), f"{slower}: {seconds(taken[slower])}"
        yield Line(
            f"{name}, {len(texts) / clock.wall:,.0f} chunks/s", one, other, clock.wall / taken[slower].wall, target
        )


def measure_encoding(texts: list[str], repeats: int) -> Line:
    """Time tokens to weights, and a sort of the same ids."""
    analyzer = CONFIG.build_analyzer()
    tokens = {text: analyzer(text) for text in texts[:BATCH]}
    encoder = DocumentEncoder(tokens.__getitem__, CONFIG.document_weighting())
    vocabulary = Vocabulary()
    staged = vocabulary.stage()
    encoder.encode(list(tokens), staged)
    ids = np.fromiter((staged[term] for row in tokens.values() for term in row), np.uint64)

    def encoding() -> Clock:
        with timed() as clock:
            encoder.encode(list(tokens), staged)
        return clock

    def sorting() -> Clock:
        with timed() as clock:
            np.sort(ids)
        return clock

    taken = in_turns({"encoding": encoding, "sort": sorting}, 5 * repeats)
    one, other = taken["encoding"].wall, taken["sort"].wall
    return Line(
        f"encoding {len(tokens):,} chunks, {len(ids):,} known tokens",
        f"{1000 * one:.1f} ms",
        f"numpy sort: {1000 * other:.1f} ms",
        one / other,
        "<= 3",
    )


# Search


def quantiles(seconds: Sequence[float]) -> tuple[float, float]:
    return float(np.percentile(seconds, 50)), float(np.percentile(seconds, 95))


def raw_search(client: Any, vectors: list[Any]) -> Any:
    return client.search(
        "docs",
        data=vectors,
        anns_field=SPARSE,
        limit=K,
        output_fields=[*CHUNK_FACTS, *CHUNK_CONTENTS],
        search_params={"metric_type": "IP"},
    )


def each_in_turn(ways: dict[str, Callable[[int], object]], number: int) -> dict[str, list[float]]:
    """Time every query in every way, forwards and backwards by turns: who comes second finds it in the caches."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for at in range(number):
        for name in list(ways)[:: -1 if at % 2 else 1]:
            start = time.perf_counter()
            ways[name](at)
            taken[name].append(time.perf_counter() - start)
    return taken


def measure_search(index: BM25Index, client: Any, texts: list[str], queries: list[str]) -> Iterator[Line]:
    analyzer = CONFIG.build_analyzer()
    tokens = [analyzer(text) for text in texts]
    vectors = [vector.to_dict() for vector in index.encode_queries(queries)]
    okapi = BM25Okapi(tokens)
    library = bm25s.BM25()
    library.index(tokens, show_progress=False)
    ways: dict[str, Callable[[int], object]] = {
        "ours": lambda at: index.search(queries[at], k=K),
        "raw": lambda at: raw_search(client, [vectors[at]]),
        "bm25s": lambda at: library.retrieve([analyzer(queries[at])], k=K, show_progress=False),
    }
    each_in_turn(ways, min(20, len(queries)))
    taken = {name: quantiles(seconds) for name, seconds in each_in_turn(ways, len(queries)).items()}
    slow = quantiles(each_in_turn({"rank_bm25": lambda at: okapi.get_scores(analyzer(queries[at]))}, 10)["rank_bm25"])
    for at, name, target in ((0, "p50", "<= 1.15"), (1, "p95", "<= 1.25")):
        one, other = taken["ours"][at], taken["raw"][at]
        yield Line(f"search, {name}", milliseconds(one), f"raw engine: {milliseconds(other)}", one / other, target)
    one = taken["ours"][0]
    yield Line("rank_bm25, p50", milliseconds(slow[0]), f"ours: {milliseconds(one)}", slow[0] / one, ">= 50")
    yield Line("bm25s, p50", milliseconds(taken["bm25s"][0]), f"ours: {milliseconds(one)}", taken["bm25s"][0] / one)
    yield measure_batches(index, queries)


def measure_batches(index: BM25Index, queries: list[str]) -> Line:
    """Search with 100 queries at once, and with one after the other."""
    some = queries[:100]

    def together() -> Clock:
        with timed() as clock:
            index.search_batch(some, k=K)
        return clock

    def singly() -> Clock:
        with timed() as clock:
            for query in some:
                index.search(query, k=K)
        return clock

    taken = in_turns({"together": together, "singly": singly}, 5)
    batch, single = taken["together"].wall, taken["singly"].wall
    rates = f"{len(some) / batch:,.0f} queries/s", f"single calls: {len(some) / single:,.0f}"
    return Line("rate of a batch", *rates, single / batch, ">= 3")


def seconds(clock: Clock) -> str:
    return f"{clock.wall:.2f} s (CPU {clock.cpu:.2f} s)"


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.2f} ms"


def measure_adding(index: BM25Index, texts: list[str], more: list[str]) -> Iterator[Line]:
    """Add a batch to what is there; the others must rebuild."""
    with timed() as ours:
        index.add(more)
    analyzer = CONFIG.build_analyzer()
    tokens = [analyzer(text) for text in (*texts, *more)]  # not timed: they could be kept
    with timed() as rebuilt:
        bm25s.BM25().index(tokens, show_progress=False)
    with timed() as refit:
        BM25Okapi(tokens)
    for name, clock in (("bm25s, rebuilt", rebuilt), ("rank_bm25, rebuilt", refit)):
        measure = f"{name} for {len(more):,} more, without analysis"
        yield Line(measure, f"{clock.wall:.2f} s", f"ours: {ours.wall:.2f} s", clock.wall / ours.wall)


# Opening


def measure_opening(path: Path, query: str, repeats: int) -> Iterator[Line]:
    """Time until the first answer, and what the statistics and the vocabulary take in memory."""
    with BM25Index.open(path, "docs") as index:
        vector = index.encode_queries([query])[0].to_dict()
        terms = index.stats().num_terms

    def ours() -> Clock:
        with timed() as clock:
            index = BM25Index.open(path, "docs", read_only=True)
            index.search(query, k=K)
        index.close()
        return clock

    def raw() -> Clock:
        with timed() as clock:
            engine = open_engine(path, token=None, timeout=None, read_only=True)
            raw_search(engine.client, [vector])
        release_engine(engine)
        return clock

    taken = in_turns({"ours": ours, "raw": raw}, repeats)
    one, other = taken["ours"].wall, taken["raw"].wall
    measure = f"opening and first answer, {terms:,} terms"
    yield Line(measure, f"{one:.2f} s", f"raw engine: {other:.2f} s", one / other, "<= 1 s more")
    store = MilvusStore(path, "docs")
    for who, target in (("reader", "<= 40"), ("writer", "<= 200")):
        tracemalloc.start()
        log = StatisticsLog(store)
        log.refresh()
        if who == "writer":
            log.vocabulary()
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        yield Line(
            f"memory of a {who}", f"{size / 2**20:.1f} MiB", f"{terms:,} terms: bytes each", size / terms, target
        )
    store.close()


def environment() -> dict[str, str]:
    versions = {name: metadata.version(name) for name in PACKAGES if is_installed(name)}
    return {"python": platform.python_version(), "machine": f"{platform.machine()}, {os.cpu_count()} cores", **versions}


def is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def measure(texts: list[str], repeats: int, number: int) -> Iterator[Line]:
    queries = queries_from(texts, number)
    yield from measure_ingestion(texts, repeats)
    yield measure_encoding(texts, repeats)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bench.db")
        engine = open_engine(path, token=None, timeout=None, read_only=False)
        with BM25Index.open(path, "docs", config=CONFIG) as index:
            index.add(texts, ids=[str(at) for at in range(len(texts))], assume_new=True)
            yield from measure_search(index, engine.client, texts, queries)
            more = [text[::-1] for text in islice(cycle(texts), BATCH)]
            yield from measure_adding(index, texts, more)
        release_engine(engine)
        yield from measure_opening(path, queries[0], repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--corpus", type=Path, help='JSON lines with "text"; by default text is generated')
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    made = corpus_chunks(arguments.corpus, arguments.chunks) if arguments.corpus else generated_chunks(arguments.chunks)
    machine = environment()
    print(", ".join(f"{name} {value}" for name, value in machine.items()), file=sys.stderr)
    print(f"{len(made):,} chunks of {SIZE} characters\n")
    print("| what | | against | ratio | to reach |\n|---|---|---|---|---|")
    lines = []
    for line in measure(made, arguments.repeats, arguments.queries):
        lines.append(line)
        print(f"| {line.measure} | {line.one} | {line.other} | {line.ratio:.2f} | {line.target} |", flush=True)
    if arguments.json:
        figures = {"environment": machine, "chunks": len(made), "lines": [asdict(line) for line in lines]}
        arguments.json.write_text(json.dumps(figures, indent=2, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
