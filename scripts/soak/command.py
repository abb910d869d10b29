"""Grow an index or use it day by day, and check after each reopening that nothing was lost.

    python scripts/soak grow --chunks 100000
    python scripts/soak daily --runs 2000 --corpus docs.jsonl
    python scripts/soak grow --uri http://localhost:19530

``grow`` adds up to the given number of chunks in steps; ``daily`` writes 1 to 40 chunks a run. Both update and delete
on the way, and open the index again each time in another process. What that process finds is compared with a model of
what was written: ``verify()``, N, chunks by their id, prefixes. From time to time the vocabulary is read, of which no
term may get lost or get another id, all rows are counted as pymilvus alone reads them, and hits compared with BM25 by
loops.

By default the text is that of the demo, and the engine the installed milvus-lite. Linux only. Exits with 1 on any
difference, and keeps the database; the seed decides what is written, so that the same command finds it again.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from soak.soak import ROOM, Soak, SoakFailedError
from soak.texts import DEMO, Texts
from soak.visits import MilvusPlace, Visitor, preload


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    workdir = given.workdir or Path(tempfile.mkdtemp(prefix="soak-"))
    workdir.mkdir(parents=True, exist_ok=True)
    if any(workdir.iterdir()) and not given.done:
        raise SystemExit(f"{workdir} is not empty: a soak begins with a new index")
    preload()
    texts = Texts(given.corpus, given.seed)
    place = MilvusPlace(given.uri or str(workdir / "soak.db"), given.collection, os.environ.get("MILVUS_TOKEN"))
    capacity = given.chunks if given.mode == "daily" else 2 * given.chunks + 100 * ROOM
    soak = Soak(Visitor(place, texts, workdir), capacity, given.seed, tell=_tell, done=given.done)
    began, fault = time.monotonic(), None
    try:
        if given.mode == "grow":
            soak.grow(given.chunks)
        else:
            soak.use_daily(given.runs, given.chunks, given.look_every)
    except SoakFailedError as error:
        fault = error
    engine = given.uri or f"milvus-lite {metadata.version('milvus-lite')}"
    print(f"{soak.table()}\n{engine}, {soak.visits:,} openings, {time.monotonic() - began:,.0f} s")
    if fault:
        command = " ".join(["python scripts/soak", *(sys.argv[1:] if arguments is None else arguments)])
        print(f"FAILED: {fault}\nThe index is kept in {workdir}; again: {command} (seed {given.seed})")
        print(f"To go on from there: --workdir {workdir} --done {soak.visits - 1}")
    return 1 if fault else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python scripts/soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--corpus", type=Path, default=DEMO, help='JSON lines with "text", or a folder of .txt and .md')
    shared.add_argument("--uri", help="a Milvus server; by default a file of the embedded engine")
    shared.add_argument("--collection", default="soak", help="name of the index (default: soak)")
    shared.add_argument("--workdir", type=Path, help="an empty folder (default: a temporary one)")
    shared.add_argument("--seed", type=int, default=1, help="decides what is written (default: 1)")
    shared.add_argument("--done", type=int, default=0, help="go on after so many openings of a soak that was ended")
    modes = parser.add_subparsers(dest="mode", required=True)
    grow = modes.add_parser("grow", parents=[shared], help="let an index grow")
    grow.add_argument("--chunks", type=int, default=10_000, help="how many at last (default: 10000)")
    daily = modes.add_parser("daily", parents=[shared], help="use an index in many small runs")
    daily.add_argument("--runs", type=int, default=2_000, help="how many (default: 2000)")
    daily.add_argument("--chunks", type=int, default=2_000, help="how many at most (default: 2000)")
    daily.add_argument("--look-every", type=int, default=20, help="runs after which all is counted (default: 20)")
    return parser


def _tell(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)
