"""Ingestion from text to a stored index, against the slower of analysis alone and insertion alone."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymilvus

from bench import environment
from bench.report import Row
from bench.timing import Clock, cpu_seconds, in_turns, timed
from bench.workbench import CONFIG, NAME, Bench, batches
from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.analysis import Analyzer
from rag_bm25.ingestion.files import find_files
from rag_bm25.ingestion.ingesting import ingest
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.milvus.connection import Connection
from rag_bm25.store.milvus.opening import open_engine, release_engine
from rag_bm25.store.milvus.schema import chunk_entity
from rag_bm25.store.rows import ChunkRow

TOPIC = "ingestion"
WARM_UP = ["a first chunk 预热"]
OVERLAPPED = 1.25  # of the slower stage, with the client's own insertion
OURS = "our insertion alone"


def rows(bench: Bench) -> Iterator[Row]:
    for size in bench.sizes:
        yield from _pipeline(bench, size)
    yield from _segmenters(bench, min(*bench.sizes, bench.effort.repeated_up_to))


def _pipeline(bench: Bench, size: int) -> Iterator[Row]:
    """Measure each stage alone and the whole pipeline; large sizes skip the rarer ways."""
    texts = bench.texts(size)
    stored = encoded_rows(texts)
    file = write_json_lines(bench.folder / f"{size}.jsonl", texts)
    stages: dict[str, Callable[[], Clock]] = {
        "analysis alone": lambda: analysis(texts),
        "MilvusClient.insert alone": lambda: insertion(stored, plain=True),
        OURS: lambda: insertion(stored),
    }
    whole: dict[str, Callable[[], Clock]] = {
        "add": lambda: added(texts),
        "add, assume_new": lambda: added(texts, assume_new=True),
    }
    if size <= bench.effort.repeated_up_to:
        whole["add, assume_new, workers=1"] = lambda: added(texts, assume_new=True, workers=1)
        whole["add, assume_new, workers=2"] = lambda: added(texts, assume_new=True, workers=2)
        whole["ingest a file"] = lambda: ingested(file)
    taken = in_turns({**stages, **whole}, bench.repeats(size))
    raw = max(stages.keys() - {OURS}, key=lambda name: taken[name].median)
    for name, value in taken.items():
        row = Row(TOPIC, f"{name}, {size / value.median:,.0f} chunks/s", size, value=value)
        if name in whole:
            yield replace(row, against=raw, reference=taken[raw], comparison="ratio", at_most=OVERLAPPED)
            row = replace(row, against=OURS, reference=taken[OURS], comparison="ratio")
        yield row


def _segmenters(bench: Bench, size: int) -> Iterator[Row]:
    """Measure the same ingestion by rjieba and by jieba."""
    measure = "add, assume_new, by rjieba"
    if reason := environment.missing("rjieba", "rjieba"):
        yield Row(TOPIC, measure, size, skipped=reason)
        return
    texts = bench.texts(size)
    ways = {name: IndexConfig(CONFIG.chunk_size, analyzer=Analyzer(segmenter=name)) for name in ("rjieba", "jieba")}
    taken = in_turns(
        {name: lambda config=config: added(texts, config, assume_new=True) for name, config in ways.items()},
        bench.repeats(size),
    )
    yield Row(
        TOPIC,
        measure,
        size,
        value=taken["rjieba"],
        against="by plain jieba",
        reference=taken["jieba"],
        comparison="speedup",
        at_least=3,
    )


# The ways


def encoded_rows(texts: Sequence[str], config: IndexConfig = CONFIG) -> list[ChunkRow]:
    encoder = config.document_encoder()
    made = []
    for batch in batches(texts):
        vectors = encoder.encode(batch).vectors
        made += [
            ChunkRow(f"{len(made) + at:040x}a", str(len(made) + at), "", len(text), "b", text, {}, vector)
            for at, (text, vector) in enumerate(zip(batch, vectors, strict=True))
        ]
    return made


def write_json_lines(path: Path, texts: Sequence[str]) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": str(at), "text": text}) + "\n" for at, text in enumerate(texts))
    return path


def analysis(texts: Sequence[str]) -> Clock:
    analyzer = CONFIG.build_analyzer()
    analyzer(WARM_UP[0])
    with timed() as clock:
        for text in texts:
            analyzer(text)
    return clock


def insertion(stored: Sequence[ChunkRow], *, plain: bool = False) -> Clock:
    """Insert encoded rows through the store, or through plain pymilvus."""
    cpu = cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bench.db")
        store, engine = MilvusStore(path, NAME), open_engine(Connection(path), read_only=False)
        store.create()
        entities = [{**chunk_entity(row), "sparse": row.vector.to_dict()} for row in stored] if plain else []
        with timed() as clock:
            for batch in batches(entities):
                pymilvus.MilvusClient.insert(engine.client, NAME, batch)
            for batch in batches(() if plain else stored):
                store.insert_chunks(batch)
        store.close()
        release_engine(engine)
    clock.cpu = cpu_seconds() - cpu
    return clock


def added(texts: Sequence[str], config: IndexConfig = CONFIG, **options: Any) -> Clock:
    return _written(lambda index: index.add(texts, **options), config, options.get("workers", 0))


def ingested(file: Path, **options: Any) -> Clock:
    return _written(lambda index: ingest(index, find_files([file]), **options), CONFIG, options.get("workers", 0))


def _written(write: Callable[[BM25Index], object], config: IndexConfig, workers: int) -> Clock:
    """Write to a new index; opening, closing and starting workers count as CPU time only."""
    cpu = cpu_seconds()
    with tempfile.TemporaryDirectory() as folder, BM25Index.open(Path(folder, "b.db"), NAME, config=config) as index:
        index.add(WARM_UP, workers=workers)
        with timed() as clock:
            write(index)
    clock.cpu = cpu_seconds() - cpu
    return clock
