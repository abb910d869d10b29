"""Grow an index, use it day by day or for a year, and check after each reopening that nothing was lost.

    python scripts/soak grow --chunks 100000
    python scripts/soak daily --runs 2000 --corpus docs.jsonl
    python scripts/soak yearly --days 365 --chunks 120
    python scripts/soak grow --uri http://localhost:19530

``grow`` adds up to the given number of chunks in steps; ``daily`` writes 1 to 40 chunks a run. Both update and delete
on the way, and open the index again each time in another process. What that process finds is compared with a model of
what was written: ``verify()``, N, chunks by their id, prefixes. From time to time the vocabulary is read, of which no
term may get lost or get another id, all rows are counted as pymilvus alone reads them, and hits compared with BM25 by
loops.

``yearly`` uses the index for many short days: a tenth is changed, some are deleted and new, by two writers at once and
beside ``verify``; a reindex with ``--drop-old`` each week; and on the 60th day somebody else drops the index and makes
it again while it is open.

By default the text is that of the demo, and the engine the installed milvus-lite; ``--uri :memory:`` takes none. Linux
only. Exits with 1 on any difference, and keeps the database; the seed decides what is written, so that the same command
finds it again.
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

from support import engines

from soak.places import MemoryPlace, MilvusBefore24, MilvusPlace, Place
from soak.processes import in_new_process, in_this_one
from soak.soak import ROOM, Soak, SoakFailedError
from soak.texts import DEMO, Texts
from soak.visits import Visitor, preload
from soak.year import DayVisitor, Year


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    workdir = given.workdir or Path(tempfile.mkdtemp(prefix="soak-"))
    workdir.mkdir(parents=True, exist_ok=True)
    if any(workdir.iterdir()) and not given.done:
        raise SystemExit(f"{workdir} is not empty: a soak begins with a new index")
    preload()
    soak = _soak(given, workdir)
    began, fault = time.monotonic(), None
    try:
        _run(soak, given)
    except SoakFailedError as error:
        fault = error
    engine = given.uri or f"milvus-lite {metadata.version('milvus-lite')}"
    print(f"{soak.table()}\n{engine}, {soak.visits:,} openings, {time.monotonic() - began:,.0f} s")
    if fault:
        command = " ".join(["python scripts/soak", *(sys.argv[1:] if arguments is None else arguments)])
        print(f"FAILED: {fault}\nThe index is kept in {workdir}; again: {command} (seed {given.seed})")
        if given.mode != "yearly":
            print(f"To go on from there: --workdir {workdir} --done {soak.visits - 1}")
    return 1 if fault else 0


def _soak(given: argparse.Namespace, workdir: Path) -> Soak:
    place, texts = _place(given, workdir), Texts(given.corpus, given.seed)
    call = in_this_one if isinstance(place, MemoryPlace) else in_new_process
    if given.mode == "yearly":
        return Year(DayVisitor(place, texts, workdir), 2 * given.chunks, given.seed, tell=_tell, call=call)
    capacity = given.chunks if given.mode == "daily" else 2 * given.chunks + 100 * ROOM
    return Soak(Visitor(place, texts, workdir), capacity, given.seed, tell=_tell, call=call, done=given.done)


def _place(given: argparse.Namespace, workdir: Path) -> Place:
    if given.uri == ":memory:":
        return MemoryPlace()
    if given.milvus_python:
        engines.milvus_python = given.milvus_python
        return MilvusBefore24(engines.uri_of(engines.PACKAGED), given.collection)
    return MilvusPlace(given.uri or str(workdir / "soak.db"), given.collection, os.environ.get("MILVUS_TOKEN"))


def _run(soak: Soak, given: argparse.Namespace) -> None:
    if isinstance(soak, Year):
        soak.live(given.days, given.chunks)
    elif given.mode == "grow":
        soak.grow(given.chunks)
    else:
        soak.use_daily(given.runs, given.chunks, given.look_every)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python scripts/soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--corpus", type=Path, default=DEMO, help='JSON lines with "text", or a folder of .txt and .md')
    shared.add_argument("--uri", help="a Milvus server; by default a file of the embedded engine")
    shared.add_argument("--milvus-python", help="a Python that has the package milvus 2.3.5, which is started")
    shared.add_argument("--collection", default="soak", help="name of the index (default: soak)")
    shared.add_argument("--workdir", type=Path, help="an empty folder (default: a temporary one)")
    shared.add_argument("--seed", type=int, default=1, help="decides what is written (default: 1)")
    modes = parser.add_subparsers(dest="mode", required=True)
    grow = modes.add_parser("grow", parents=[shared], help="let an index grow")
    grow.add_argument("--chunks", type=int, default=10_000, help="how many at last (default: 10000)")
    daily = modes.add_parser("daily", parents=[shared], help="use an index in many small runs")
    daily.add_argument("--runs", type=int, default=2_000, help="how many (default: 2000)")
    daily.add_argument("--chunks", type=int, default=2_000, help="how many at most (default: 2000)")
    daily.add_argument("--look-every", type=int, default=20, help="runs after which all is counted (default: 20)")
    for mode in (grow, daily):
        mode.add_argument("--done", type=int, default=0, help="go on after so many openings of a soak that was ended")
    yearly = modes.add_parser("yearly", parents=[shared], help="use an index for many short days")
    yearly.add_argument("--days", type=int, default=365, help="how many (default: 365)")
    yearly.add_argument("--chunks", type=int, default=120, help="how many there are (default: 120)")
    yearly.set_defaults(done=0)
    return parser


def _tell(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)
