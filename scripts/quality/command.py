"""The command line: measure sets, and print the tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from quality import ours
from quality.report import Column, put, section
from quality.sets import language, load
from rag_bm25.evaluation import BeirDataset, measure_queries
from rag_bm25.evaluation.running import Run

MEASURES = ("ndcg@10", "recall@100")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the sets that are named."""
    given = _parser().parse_args(arguments)
    columns = [measured(folder, given) for folder in given.sets]
    text = section(columns)
    print(text)
    if given.json:
        put(given.json, [asdict(_means(column)) for column in columns])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python scripts/quality", description=__doc__)
    add = parser.add_argument
    add("sets", type=Path, nargs="+", metavar="FOLDER", help="judged sets in BEIR format, or with spans.tsv")
    add("--kept", type=Path, metavar="FOLDER", help="keep there what was measured, query by query")
    add("--again", nargs="*", default=[], metavar="SYSTEM", help="measure these although they are kept; ours: all ours")
    add("--milvus-python", type=Path, metavar="FILE", help="interpreter of an environment with milvus-lite 3")
    add("--no-peers", action="store_true", help="measure ours alone, beside what is kept of the others")
    add("--json", type=Path, metavar="FILE", help="write the means there")
    return parser


def measured(folder: Path, given: argparse.Namespace) -> Column:
    """Measure every system on a set, as far as it is not kept."""
    name = folder.resolve().name
    dataset = load(folder)
    file = given.kept / f"{name}.json" if given.kept else None
    kept = json.loads(file.read_text()) if file and file.exists() else {}
    again = {*given.again, *(ours.CHOICES if "ours" in given.again else ())}
    column = Column(name, language(dataset), {system: kept[system] for system in kept if system not in again})
    for system, run in ours.runs(dataset, [system for system in ours.CHOICES if system not in column.values]):
        _note(column, system, dataset, run, file)
    if not given.no_peers:
        from quality.peers import searches  # packages that ours need not have

        for system, search in searches(dataset, column.language, given.milvus_python).items():
            if system not in column.values:
                _note(column, system, dataset, search(), file)
    return column


def _note(column: Column, system: str, dataset: BeirDataset, run: Run, file: Path | None) -> None:
    qrels = {query: dataset.qrels[query] for query in run}
    values = measure_queries(qrels, run).values
    column.values[system] = {measure: values[measure].round(6).tolist() for measure in MEASURES}
    means = ", ".join(f"{measure} {values[measure].mean():.4f}" for measure in MEASURES)
    print(f"{column.name}: {system}: {means}", file=sys.stderr, flush=True)
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(column.values))


def _means(column: Column) -> Column:
    means = {
        system: {measure: [round(float(column.of(system, measure).mean()), 4)] for measure in MEASURES}
        for system in column.values
    }
    return Column(column.name, column.language, means)
