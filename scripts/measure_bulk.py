"""Measure bulk loading beside `add`, in turns in one run: encoding on one core, merging, loading, adding.

    python scripts/measure_bulk.py --chunks 8000 --corpus docs.jsonl

Text is that of a corpus, one JSON object a line with "text", cut at 500 characters; or it is generated, see
scripts/soak/same_bits.py. Seconds are wall time; CPU time beside it, of this process, tells how busy others kept the
machine: the embedded engine has a process of its own. Medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soak.same_bits import CONFIG, SIZE, added, generated_rows

from rag_bm25.bulk import encode_part, load, merge
from rag_bm25.store.milvus import MilvusStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PARTS = 2


def corpus_rows(path: Path, number: int) -> list[dict[str, Any]]:
    """Cut a corpus into chunks."""
    with path.open(encoding="utf-8") as lines:
        text = "".join(json.loads(line)["text"] for line in lines)
    starts = islice(range(0, len(text) - SIZE, SIZE), number)
    return [{"text": text[start : start + SIZE], "id": f"chunk {start}", "metadata": {"at": start}} for start in starts]


def encode(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    for part in range(PARTS):
        encode_part(rows[part::PARTS], CONFIG, folder, part)


def load_files(folder: Path, uri: Path) -> None:
    with closing(MilvusStore(uri, "docs")) as target:
        load(folder, target)


def measured(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Run all steps once; return the wall and CPU seconds of each."""
    taken: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps: dict[str, Callable[[], object]] = {
            "encode": lambda: encode(rows, folder / "parts"),
            "merge": lambda: merge(folder / "parts"),
            "load": lambda: load_files(folder / "parts", folder / "load.db"),
            "add": lambda: added(folder / "add.db", rows, 0),
        }
        for step, do in steps.items():
            wall, cpu = time.perf_counter(), time.process_time()
            do()
            taken[step] = time.perf_counter() - wall, time.process_time() - cpu
    return taken


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure bulk loading beside add.")
    parser.add_argument("--chunks", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--corpus", type=Path)
    given = parser.parse_args(arguments)
    rows = corpus_rows(given.corpus, given.chunks) if given.corpus else generated_rows(given.chunks)
    with tempfile.TemporaryDirectory() as folder:  # loads the dictionary
        encode(rows[:10], Path(folder))
    rounds = [measured(rows) for _ in range(given.rounds)]
    median = {step: [statistics.median(one[step][at] for one in rounds) for at in (0, 1)] for step in rounds[0]}
    for step, (wall, cpu) in median.items():
        rates = f"{len(rows) / wall:8,.0f} chunks/s  {len(rows) / cpu:8,.0f} a CPU second"
        print(f"{step:7} {wall:7.2f} s  {cpu:7.2f} s CPU  {rates}")
    ratios = [one["load"][0] / one["add"][0] for one in rounds]
    print(f"load / add: {statistics.median(ratios):.3f} ({', '.join(f'{ratio:.3f}' for ratio in ratios)})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
