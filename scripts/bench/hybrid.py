"""What both arms of a hybrid search cost beside the dense one alone: on the embedded engines, and on a server over TCP.

Each engine is in a process of its own. `--peers-python` names the interpreter of milvus-lite 3, which is the server.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

from bench.report import Row, ratio, restored
from bench.timing import latencies
from bench.workbench import NAME, Bench, K, batches
from rag_bm25 import BM25Index, IndexConfig

TOPIC = "hybrid"
DIM = 384
SERVE = """
import sys
from milvus_lite.adapter.grpc.server import start_server_in_thread
started = start_server_in_thread(sys.argv[1])
print(started[2], flush=True)
sys.stdin.read()
"""
MILVUS_LITE_2, MILVUS_LITE_3, OVER_TCP = "milvus-lite 2.5", "milvus-lite 3", "a server over TCP"


def rows(bench: Bench) -> Iterator[Row]:
    size = min(bench.sizes)
    task = bench.folder / "hybrid.json"
    given = {"texts": bench.texts(size), "queries": bench.queries(size, bench.effort.other_queries)}
    task.write_text(json.dumps({**given, "rounds": bench.effort.rounds}), "utf-8")
    for engine in (MILVUS_LITE_2, MILVUS_LITE_3, OVER_TCP):
        python = sys.executable if engine == MILVUS_LITE_2 else bench.peers_python
        if not python:
            yield Row(TOPIC, engine, skipped="--peers-python names no interpreter")
            continue
        command = [python, "-m", "bench.hybrid", engine, str(task)]
        done = subprocess.run(command, env=bench.child_environment(), stdout=subprocess.PIPE, text=True, check=True)
        yield from map(restored, map(json.loads, done.stdout.splitlines()))


def main(engine: str, task: str) -> None:
    folder = Path(task).parent / engine.replace(" ", "-")
    folder.mkdir()
    if engine != OVER_TCP:
        _print_rows(engine, task, str(folder / "hybrid.db"))
        return
    command = [sys.executable, "-c", SERVE, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            _print_rows(engine, task, f"http://127.0.0.1:{server.stdout.readline().strip()}")  # type: ignore[union-attr]
        finally:
            server.kill()


def _print_rows(engine: str, task: str, uri: str) -> None:
    given, rng = json.loads(Path(task).read_text("utf-8")), np.random.default_rng(1)
    texts, queries = given["texts"], given["queries"]
    with BM25Index.open(uri, NAME, config=IndexConfig(500, dense_dim=DIM)) as index:
        for some in batches(texts):
            index.add(some, embeddings=rng.normal(size=(len(some), DIM)))
        vectors = rng.normal(size=(len(queries), DIM))
        ways = {
            "both arms": lambda at: index.search_hybrid(queries[at], vectors[at], K),
            "words": lambda at: index.search(queries[at], K),
            "dense vectors": lambda at: index.search_dense(vectors[at], K),
        }
        taken = latencies(ways, len(queries), given["rounds"])
    dense = taken["dense vectors"].p50
    for name in ("both arms", "words"):
        row = ratio(TOPIC, f"{engine}, {name}, p50", len(texts), taken[name].p50, "dense vectors alone", dense)
        print(json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
