"""What adding, verifying and searching cost, in a file and in memory, each in a process of its own.

CPU time is that of the client; the engine of a file is another process. To compare two versions, run this in a checkout
of each, in turns.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

from bench.report import Row, restored
from bench.sizes import resident_memory
from bench.timing import Clock, Spread, seconds_of
from bench.workbench import BATCH, CONFIG, NAME, Bench, K, batches
from rag_bm25 import BM25Index

TOPIC = "costs"
MEMORY = ":memory:"
THREADS = 16


def rows(bench: Bench) -> Iterator[Row]:
    for size in sorted(bench.sizes):
        task = bench.folder / "costs.json"
        number = bench.effort.queries
        task.write_text(json.dumps({"texts": bench.texts(size), "queries": bench.queries(size, number)}), "utf-8")
        for uri in (str(bench.folder / f"costs{size}.db"), MEMORY):
            command = [sys.executable, "-m", "bench.costs", uri, str(task)]
            with subprocess.Popen(command, env=bench.child_environment(), stdout=subprocess.PIPE, text=True) as process:
                yield from map(restored, map(json.loads, process.stdout or ()))
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, command)


def _measured(uri: str, texts: list[str], queries: list[str]) -> Iterator[Row]:
    where = "in memory" if uri == MEMORY else "in a file"
    row = partial(Row, TOPIC, chunks=len(texts))
    with BM25Index.open(uri, NAME, config=CONFIG) as index:
        index.encode_queries(["loads the analyzer 预热"])
        ids = batches([str(at) for at in range(len(texts))])
        added = [seconds_of(partial(index.add, call, ids=next(ids))) for call in batches(texts)]
        yield row(f"add {where}, a call of {min(BATCH, len(texts)):,}", value=Spread.of_clocks(added))
        yield row(f"add one {where}", value=_each(lambda text: index.add([text], ids=[text[:40]]), queries[:20]))
        yield row(f"first search {where}", value=Spread.of_clocks([seconds_of(lambda: index.search(queries[0]))]))
        search = partial(index.search, k=K)
        yield row(f"search {where}, new queries", value=_each(search, queries[1:]))
        known = queries[:20]
        yield row(f"search {where}, known queries", value=_each(search, known * 10))
        with ThreadPoolExecutor(THREADS) as pool:
            together = seconds_of(lambda: list(pool.map(search, queries)))
        share = Clock(together.wall / len(queries), together.cpu / len(queries))
        yield row(f"search {where}, a query of {THREADS} threads", value=Spread.of_clocks([share]))
        yield row(f"verify {where}", value=Spread.of_clocks([seconds_of(index.verify)]))
        for measure, mebibytes in resident_memory().items():
            yield row(f"{measure}, {where}", value=Spread.of([mebibytes], "MiB"))
    if uri != MEMORY:
        yield row("disk", value=Spread.of([Path(uri).stat().st_size / 2**20], "MiB"))


def _each(call: Callable[[str], object], texts: list[str]) -> Spread:
    return Spread.of_clocks([seconds_of(partial(call, text)) for text in texts])


def main(uri: str, task: str) -> None:
    given = json.loads(Path(task).read_text("utf-8"))
    for row in _measured(uri, given["texts"], given["queries"]):
        print(json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
