"""What an index of one engine takes at each size, beside the engine alone: from its ingestion to its verification.

What comes after the ingestion is measured in processes of their own, which hold an opened index and nothing else.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pymilvus

from bench.ingestion import encoded_rows
from bench.report import Row, ratio, restored
from bench.searching import raw_search
from bench.timing import Spread, each_in_turn, seconds_of
from bench.workbench import BATCH, CONFIG, NAME, QUICK, Bench, Effort, Opened, batches
from rag_bm25 import BM25Index
from rag_bm25.documents.chunks import pk_digest
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.milvus.collection import IN_KEY_ORDER
from rag_bm25.store.milvus.connection import Connection
from rag_bm25.store.milvus.opening import open_engine, release_engine
from rag_bm25.store.milvus.schema import CHUNK_CONTENTS, CHUNK_FACTS, SPARSE, chunk_entity

TOPIC = "sizes"
CALL = 10 * BATCH  # chunks added in one call
RAW_UP_TO = 100_000  # rows that the engine alone inserts and reads; of more, as many calls of all that there are
GETS = 25
RAW = "raw"  # batch of rows that are no chunks of the index


def rows(bench: Bench) -> Iterator[Row]:
    for size in sorted(bench.sizes):
        path = bench.folder / f"size{size}.db"
        yield _ingestion(bench, size, path)
        yield from _apart(bench, size, path)
        path.unlink()


# Ingestion


def _ingestion(bench: Bench, size: int, path: Path) -> Row:
    """Add call by call, in turns with the engine, which gets the same rows, of large sizes every so many calls."""
    alone_path = bench.folder / f"alone{size}.db"
    every = max(1, size // RAW_UP_TO)
    taken: dict[str, list[float]] = {"ours": [], "raw": []}
    with BM25Index.open(path, NAME, config=CONFIG) as index, _Alone(alone_path) as alone:
        index.encode_queries(["loads the analyzer 预热"])
        start = 0
        for number, call in enumerate(batches(bench.texts(size), CALL)):
            ids = [str(at) for at in range(start, start + len(call))]
            start += len(call)
            clock = seconds_of(lambda call=call, ids=ids: index.add(call, ids=ids, assume_new=True))
            taken["ours"].append(len(call) / clock.wall)
            if number % every == 0:
                taken["raw"].append(len(call) / alone.insert(call, start))
    return ratio(
        TOPIC,
        f"ingestion, {CALL:,} chunks a call",
        size,
        Spread.of(taken["ours"], "chunks/s"),
        "MilvusClient.insert",
        Spread.of(taken["raw"], "chunks/s"),
    )


class _Alone:
    """A collection of the same fields, filled by the plain client."""

    def __init__(self, path: Path) -> None:
        self._path, self._store = path, MilvusStore(path, NAME)
        self._engine = open_engine(Connection(path), read_only=False)
        self._store.create()

    def __enter__(self) -> _Alone:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()
        release_engine(self._engine)
        self._path.unlink()

    def insert(self, texts: Sequence[str], start: int) -> float:
        """Return the seconds that the insertion takes, without the encoding."""
        entities = _plain_rows(texts, start)
        begin = time.perf_counter()
        for batch in batches(entities):
            pymilvus.MilvusClient.insert(self._engine.client, NAME, batch)
        return time.perf_counter() - begin


def _plain_rows(texts: Sequence[str], start: int) -> list[dict[str, Any]]:
    encoded = encoded_rows(texts)
    entities = [{**chunk_entity(row), SPARSE: row.vector.to_dict(), "batch": RAW} for row in encoded]
    return [{**entity, "pk": f"{start + at:064d}"} for at, entity in enumerate(entities)]


# In processes of their own


def _apart(bench: Bench, size: int, path: Path) -> Iterator[Row]:
    """Run the rest in a process of its own, after another one that has opened the engine alone."""
    query, task = bench.queries(size, 1)[0], bench.folder / "sizes.json"
    quick = bench.effort is QUICK
    given = {"size": size, "seed": bench.seed, "quick": quick, "query": query}
    with BM25Index.open(path, NAME, read_only=True) as index:
        vector = index.encode_queries([query])[0].to_dict()
    task.write_text(json.dumps({**given, "vector": list(vector.items())}), encoding="utf-8")
    alone = next(_told(bench, "alone", path, task))
    for line in _told(bench, "ours", path, task):
        row = restored(line)
        yield replace(row, **_beside(row, alone))


def _beside(row: Row, alone: dict[str, float]) -> dict[str, Any]:
    """Return what the engine alone took for the measures that each need a process."""
    if row.measure not in alone:
        return {}
    unit = row.value.unit if row.value else ""
    return {"against": "the engine alone", "reference": Spread.of([alone[row.measure]], unit), "comparison": "ratio"}


def _told(bench: Bench, who: str, path: Path, task: Path) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "bench.sizes", who, str(path), str(task)]
    with subprocess.Popen(command, env=bench.child_environment(), stdout=subprocess.PIPE, text=True) as process:
        yield from map(json.loads, process.stdout or ())
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


FIRST = "opening and the first search"
OWN_MEMORY = "memory of our process, opened and searched once"
ENGINE_MEMORY = "memory of the engine's process"


def _alone(path: Path, task: dict[str, Any]) -> None:
    """Open the engine and search, without an index."""
    begin = time.perf_counter()
    engine = open_engine(Connection(path), read_only=False)
    raw_search(engine.client, [dict(task["vector"])])
    seconds = time.perf_counter() - begin
    measured = {FIRST: seconds, **resident_memory()}
    release_engine(engine)
    print(json.dumps(measured), flush=True)


def _ours(path: Path, task: dict[str, Any]) -> None:
    for row in _measured(path, task):
        print(json.dumps(asdict(row)), flush=True)


def _measured(path: Path, task: dict[str, Any]) -> Iterator[Row]:
    size, effort = task["size"], QUICK if task["quick"] else Effort()
    bench = Bench(path.parent, [size], effort, task["seed"])
    begin = time.perf_counter()
    with Opened(path) as opened:
        opened.index.search(task["query"])
        yield Row(TOPIC, FIRST, size, value=Spread.of([time.perf_counter() - begin]))
        for measure, mebibytes in resident_memory().items():
            yield Row(TOPIC, measure, size, value=Spread.of([mebibytes], "MiB"))
        yield _gets(opened, size, task["seed"])
        yield from _writes(opened, size, bench)
        yield _verification(opened, size)


def resident_memory() -> dict[str, float]:
    """Return the resident memory of this process and of those that it has started, in MiB, where Linux tells it."""
    if not Path("/proc/self/status").exists():
        return {}
    children = [pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]
    return {OWN_MEMORY: _resident("self"), ENGINE_MEMORY: sum(map(_resident, children))}


def _resident(process: str) -> float:
    lines = Path("/proc", process, "status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def _gets(opened: Opened, size: int, seed: int) -> Row:
    """Read two chunks by id; the engine alone, the same two rows by key."""
    ids = np.random.default_rng(seed).integers(0, size, (GETS, 2)).astype(str).tolist()
    pks = [[f"{pk_digest('', id_)}a" for id_ in some] for some in ids]
    fields = [*CHUNK_FACTS, *CHUNK_CONTENTS]
    ways: dict[str, Callable[[int], object]] = {
        "ours": lambda at: opened.index.get(ids[at]),
        "raw": lambda at: pymilvus.MilvusClient.get(opened.client, NAME, ids=pks[at], output_fields=fields),
    }
    taken = {name: Spread.of(seconds) for name, seconds in each_in_turn(ways, range(GETS)).items()}
    return ratio(TOPIC, "get of two chunks", size, taken["ours"], "MilvusClient.get of two rows", taken["raw"])


# Writes


def _writes(opened: Opened, size: int, bench: Bench) -> Iterator[Row]:
    """Add chunks, and update and delete others that lie anywhere in the index."""
    effort = bench.effort
    many = min(effort.added, size // 4)
    texts = iter(bench.more_texts(1 + many * effort.repeats + effort.rounds, part=11))
    ids = iter(np.random.default_rng(size).permutation(size).astype(str).tolist())
    first = seconds_of(lambda: opened.index.add([next(texts)], ids=[next(ids)]))
    yield Row(TOPIC, "update of one chunk, the first write after opening", size, value=Spread.of([first.wall]))
    raw = _plain_rows(bench.more_texts(many, part=12), 0)
    for number, rounds in ((many, effort.repeats), (1, effort.rounds)):
        taken: dict[str, list[float]] = {}
        for _ in range(rounds):
            _write(
                opened, list(itertools.islice(texts, number)), list(itertools.islice(ids, number)), raw[:number], taken
            )
        spreads = {what: Spread.of(seconds) for what, seconds in taken.items()}
        for what, alone in (("add", "insert"), ("update", "upsert"), ("delete", "delete")):
            measure = f"{what} of {number:,} chunk{'s' if number > 1 else ''}"
            reference = spreads[f"raw {alone}"]
            yield ratio(TOPIC, measure, size, spreads[what], f"MilvusClient.{alone}", reference)


def _write(
    opened: Opened, texts: list[str], ids: list[str], raw: list[dict[str, Any]], taken: dict[str, list[float]]
) -> None:
    """Add chunks, update others and delete these; the engine alone, rows of its own in the same collection."""
    index, client, keys = opened.index, opened.client, [row["pk"] for row in raw]
    acts: dict[str, Callable[[], object]] = {
        "add": lambda: index.add(texts, ids=[f"new {id_}" for id_ in ids]),
        "update": lambda: index.add(texts, ids=ids),
        "raw insert": lambda: pymilvus.MilvusClient.insert(client, NAME, raw),
        "raw upsert": lambda: pymilvus.MilvusClient.upsert(client, NAME, raw),
        "delete": lambda: index.delete(ids),
        "raw delete": lambda: pymilvus.MilvusClient.delete(client, NAME, ids=keys),
    }
    for what, act in acts.items():
        taken.setdefault(what, []).append(seconds_of(act).wall)


# Verification


def _verification(opened: Opened, size: int) -> Row:
    """Recount all chunks; the engine alone reads rows in the order of their keys, page by page."""
    begin = time.perf_counter()
    report = opened.index.verify()
    seconds = time.perf_counter() - begin
    if not report.ok:
        raise RuntimeError(f"the index is not sound: {report.differences[:3]}")
    return ratio(
        TOPIC,
        f"verify, {seconds:,.1f} s in all",
        size,
        Spread.of([report.num_chunks / seconds], "chunks/s"),
        "MilvusClient.query, page by page",
        Spread.of([_raw_reading(opened, size)], "chunks/s"),
    )


def _raw_reading(opened: Opened, size: int) -> float:
    """Return how many rows the engine alone reads in a second, with vectors.

    The pages begin at keys all over the index: to find a page takes longer, the more rows there are before it.
    """
    fields, number = [*CHUNK_FACTS, SPARSE], 0
    pages = max(1, min(size, RAW_UP_TO) // BATCH)
    begin = time.perf_counter()
    for at in range(pages):
        first = f'pk > "{at * 16**4 // pages:04x}"'
        number += len(
            pymilvus.MilvusClient.query(opened.client, NAME, first, output_fields=fields, limit=BATCH, **IN_KEY_ORDER)
        )
    return number / (time.perf_counter() - begin)


def main(who: str, path: str, task: str) -> None:
    {"alone": _alone, "ours": _ours}[who](Path(path), json.loads(Path(task).read_text(encoding="utf-8")))


if __name__ == "__main__":
    main(*sys.argv[1:])
