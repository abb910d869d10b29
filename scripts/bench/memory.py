"""Peak memory of an ingestion by number of chunks, in processes of their own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.ingestion import write_json_lines
from bench.report import Row, ratio
from bench.timing import Spread
from bench.workbench import CONFIG, NAME, Bench
from rag_bm25 import BM25Index
from rag_bm25.ingestion.files import find_files
from rag_bm25.ingestion.ingesting import ingest

TOPIC = "memory"

WRITER = 200  # bytes a term
TIMES = 3  # so many chunks, several batches of which are under way in both


def rows(bench: Bench) -> Iterator[Row]:
    size = min(max(bench.sizes), bench.effort.repeated_up_to)
    few, many = (_ingest_apart(bench, number) for number in (size, TIMES * size))
    yield ratio(
        TOPIC,
        "greatest memory of an ingestion, above that of an empty index",
        TIMES * size,
        Spread.of([many["mebibytes"]], "MiB"),
        f"of {size:,} chunks",
        Spread.of([few["mebibytes"]], "MiB"),
    )
    terms = many["terms"] - few["terms"]
    grown = 2**20 * (many["mebibytes"] - few["mebibytes"]) / terms
    yield Row(
        TOPIC,
        f"what it grew by, for {terms:,} more terms",
        TIMES * size,
        value=Spread.of([grown], "bytes a term"),
        comparison="value",
        at_most=WRITER,
    )


def _ingest_apart(bench: Bench, number: int) -> dict[str, float]:
    """Ingest chunks in a process of their own."""
    file = write_json_lines(bench.folder / "memory.jsonl", bench.texts(number))
    command = [sys.executable, "-m", "bench.memory", str(file), str(bench.folder / f"memory{number}.db")]
    told = subprocess.run(command, env=bench.child_environment(), check=True, stdout=subprocess.PIPE, text=True).stdout
    measured: dict[str, float] = json.loads(told)
    return measured


def peak_bytes() -> int:
    """Return the peak memory of this process; on Linux without that of its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main(file: str, database: str) -> None:
    with BM25Index.open(database, NAME, config=CONFIG) as index:
        index.add(["a first chunk 预热"])
        before = peak_bytes()
        ingest(index, find_files([Path(file)]))
        grown = (peak_bytes() - before) / 2**20
        print(json.dumps({"mebibytes": grown, "terms": index.stats().num_terms}))


if __name__ == "__main__":
    main(*sys.argv[1:])
