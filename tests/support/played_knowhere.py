"""Plays a program of the protocol "knowhere 1": exact sums, and a fault that the tests must notice."""

from __future__ import annotations

import json
import struct
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

FAULTS = ("a weight", "no filter", "a hit left out", "a hit twice", "no loaded index")


def read_array(task: BinaryIO, kind: str, size: int) -> tuple[Any, ...]:
    layout = f"<{size}{kind}"
    return struct.unpack(layout, task.read(struct.calcsize(layout)))


def read_rows(task: BinaryIO) -> list[dict[int, float]]:
    (size,) = read_array(task, "q", 1)
    ends = read_array(task, "q", size + 1)
    dimensions = read_array(task, "I", ends[-1])
    weights = read_array(task, "f", ends[-1])
    return [dict(zip(dimensions[start:end], weights[start:end], strict=True)) for start, end in pairwise(ends)]


def best_of(chunks: list[dict[int, float]], query: dict[int, float], k: int, hidden: bytes) -> list[list[float]]:
    scores = [sum(weight * chunk.get(term, 0) for term, weight in query.items()) for chunk in chunks]
    found = [[at, score] for at, score in enumerate(scores) if score and not hidden[at // 8] >> at % 8 & 1]
    return sorted(found, key=lambda hit: -hit[1])[:k]


def spoiled(hits: list[list[float]], fault: str) -> list[list[float]]:
    """Spoil the hits of a query."""
    match fault:
        case "a weight":
            return [[at, score * 1.001] for at, score in hits]
        case "a hit left out":
            return hits[:-1]
        case "a hit twice":
            return [*hits[:1], *hits[:1], *hits[2:]]
    return hits


def write(line: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(line)}\n")


def main(fault: str, path: str, limit: str, kind: str, algorithm: str) -> None:
    write({"protocol": "knowhere 1"})
    with Path(path).open("rb") as task:
        chunks, queries = read_rows(task), read_rows(task)
        hidden = task.read()
    nothing = bytes(len(hidden))
    filters = {"all": nothing, "some": nothing if fault == "no filter" else hidden}
    for state in ("built",) if kind.startswith("growing") or fault == "no loaded index" else ("built", "loaded"):
        for name, bits in filters.items():
            for query, vector in enumerate(queries):
                hits = spoiled(best_of(chunks, vector, int(limit), bits), fault)
                write({"state": state, "filter": name, "query": query, "hits": hits})


if __name__ == "__main__":
    main(*sys.argv[1:])
