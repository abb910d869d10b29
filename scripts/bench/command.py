"""The command line: measure topics and write the results."""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench import (
    costs,
    environment,
    fts5,
    hybrid,
    ingestion,
    opening,
    other_engines,
    peers,
    plots,
    searching,
    serving,
    sizes,
)
from bench.report import HEAD, Results, Row, line
from bench.workbench import QUICK, Bench, Effort

TOPICS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    module.TOPIC: module.rows
    for module in (ingestion, searching, hybrid, serving, sizes, costs, opening, peers, fts5, other_engines)
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    if given.plot:
        plots.draw([row for file in given.results for row in Results.read(file).rows], given.plot)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            Path(folder),
            sorted(given.sizes or ([200] if given.quick else [10_000])),
            QUICK if given.quick else Effort(),
            given.seed,
            given.data,
            given.peers_python,
        )
        results = Results(environment.describe(_as_typed(given), bench.data))
        all_measured = _measure(bench, given.only, results, given.json)
    return 0 if all_measured else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python scripts/bench", description="Measure rag_bm25, and what it compares with."
    )
    add = parser.add_argument
    add("--only", nargs="+", choices=TOPICS, default=list(TOPICS), metavar="TOPIC", help=f"any of {', '.join(TOPICS)}")
    add("--sizes", nargs="+", type=int, metavar="CHUNKS", help="how large the indexes are; default 10000")
    add("--quick", action="store_true", help="a look at whether everything works: 200 chunks, and few repetitions")
    add("--seed", type=int, default=1, help="of all that is generated")
    add("--data", nargs="+", type=Path, default=[], metavar="FILE", help='JSON lines with "text", where they suffice')
    add("--peers-python", default="", metavar="PYTHON", help="an interpreter with milvus-lite 3 and those that need it")
    add("--json", type=Path, metavar="FILE", help="write the results there, row by row")
    add("--plot", type=Path, metavar="FILE", help="measure nothing: draw the files of --results there")
    add("--results", nargs="+", type=Path, default=[], metavar="FILE", help="what --json has written")
    return parser


def _as_typed(given: argparse.Namespace) -> str:
    """Return the command line without local paths."""
    parts = ["python scripts/bench"]
    parts += [f"--only {' '.join(given.only)}"] if list(given.only) != list(TOPICS) else []
    parts += ["--quick"] if given.quick else []
    parts += [f"--sizes {' '.join(map(str, given.sizes))}"] if given.sizes else []
    parts += [f"--data {' '.join(path.name for path in given.data)}"] if given.data else []
    parts += ["--peers-python PYTHON"] if given.peers_python else []
    return " ".join(parts)


def _measure(bench: Bench, topics: Sequence[str], results: Results, file: Path | None) -> bool:
    """Measure topics row by row; return whether all of them succeeded."""
    print("\n".join(f"{name}: {value}" for name, value in results.environment.items()), file=sys.stderr)
    print(*HEAD, sep="\n", flush=True)
    all_measured = True
    for topic in topics:
        for row in _rows_of(topic, bench):
            all_measured &= not row.skipped.startswith(FAILED)
            print(line(row), flush=True)
            results.rows.append(row)
            results.environment |= {"load_after": environment.load(), "peers_versions": bench.peers_versions}
            if file:
                results.write(file)
    return all_measured


FAILED = "failed: "


def _rows_of(topic: str, bench: Bench) -> Iterator[Row]:
    """Yield the rows of a topic, or one row that says why it failed: the other topics still run."""
    try:
        yield from TOPICS[topic](bench)
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        yield Row(topic, "the rest", skipped=f"{FAILED}{type(error).__name__}")
