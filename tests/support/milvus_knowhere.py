"""Knowhere, Milvus's library of indexes, asked with vectors of ours by a program of support.milvus_programs.

``RAG_BM25_KNOWHERE`` names the folder. The protocol ``knowhere 1``: the arguments are a file, the number of hits k, a
kind of index and its algorithm (``KINDS``). The file has, little-endian and without gaps:

- the chunks and then the queries, each as their number n, int64; n + 1 ends of rows from 0 on, int64; the dimensions of
  all rows, uint32, ascending in each; their weights, float32;
- a bit for each chunk that the filter hides, the lowest of a byte first.

The program builds an index of the chunks (one that grows in two batches), searches it for the best k by the inner
product, stores and loads it, and searches again; one that grows is not stored. It searches without the filter and with
it, and writes a line for each query, with its hits from the best on:
``{"state": "built", "filter": "all", "query": 0, "hits": [[chunk, score], ...]}``. States are ``built`` and ``loaded``,
filters ``all`` and ``some``. A chunk that shares nothing with the query is no hit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_bm25.store.storage import FLOAT32_TOLERANCE, FP16_TOLERANCE, StorageInfo
from rag_bm25.vectors.sparse import SparseVector
from support import milvus_programs
from support.milvus_programs import Program

PROTOCOL = "knowhere 1"

Rankings = dict[tuple[str, str], list[list[tuple[int, float]]]]
"""By state of the index and filter: the hits of each query."""


@dataclass(frozen=True)
class Kind:
    """A kind of index that a Milvus of this version makes."""

    version: str
    name: str
    algorithm: str

    @property
    def states(self) -> list[str]:
        return ["built"] if self.name.startswith("growing") else ["built", "loaded"]

    @property
    def tolerance(self) -> float:
        return FP16_TOLERANCE if self.name.endswith("fp16") else FLOAT32_TOLERANCE

    @property
    def promised(self) -> float:
        """The tolerance that the product tells: for 3.0 always that of fp16, which a client cannot see."""
        return StorageInfo("Milvus", f"{self.version}.0").score_tolerance

    def __str__(self) -> str:
        return f"{self.version} {self.name} {self.algorithm}"


def _kinds(version: str, names: Iterable[str], algorithms: Iterable[str]) -> list[Kind]:
    return [Kind(version, name, algorithm) for name in names for algorithm in algorithms]


PLAIN = ("DAAT_MAXSCORE", "DAAT_WAND", "TAAT_NAIVE")
BLOCKS = ("BLOCK_MAX_MAXSCORE", "BLOCK_MAX_WAND")
KINDS = {
    "2.5": [
        *_kinds("2.5", ["SPARSE_INVERTED_INDEX"], PLAIN),
        *_kinds("2.5", ["SPARSE_WAND"], ["DAAT_WAND"]),
    ],
    "2.6": _kinds("2.6", ["raw", "sections"], PLAIN),  # the formats in which one is stored
    "3.0": [
        *_kinds("3.0", ["flat-fp32", "block-fp32", "block-fp16"], PLAIN + BLOCKS),
        *_kinds("3.0", ["growing-fp32", "growing-fp16"], PLAIN),
        *_kinds("3.0", ["sindi-fp16", "growing-sindi-fp16"], ["SINDI"]),
    ],
}


def programs() -> list[Program]:
    return milvus_programs.named("RAG_BM25_KNOWHERE", PROTOCOL, KINDS)


def write_task(file: Path, chunks: list[SparseVector], queries: list[SparseVector], shown: NDArray[np.bool_]) -> None:
    """Write what a program reads."""
    with file.open("wb") as task:
        for vectors in (chunks, queries):
            ends = np.cumsum([0, *map(len, vectors)], dtype="<i8")
            task.write(np.array(len(vectors), "<i8").tobytes() + ends.tobytes())
            task.write(np.concatenate([vector.ids for vector in vectors]).astype("<u4").tobytes())
            task.write(np.concatenate([vector.values for vector in vectors]).astype("<f4").tobytes())
        task.write(np.packbits(~shown, bitorder="little").tobytes())


def search(program: Program, task: Path, kind: Kind, k: int, num_queries: int) -> Rankings:
    """Have an index built, stored and loaded, and both states searched."""
    answers = program.run(str(task), str(k), kind.name, kind.algorithm)
    rankings: Rankings = {(state, filtered): [] for state in kind.states for filtered in ("all", "some")}
    expected = [(*searched, query) for searched in rankings for query in range(num_queries)]
    assert [_asked(answer) for answer in answers] == expected, f"{program.path} answers other searches than {kind}"
    for answer in answers:
        rankings[answer["state"], answer["filter"]].append([(id_, score) for id_, score in answer["hits"]])
    return rankings


def _asked(answer: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(answer.get(name) for name in ("state", "filter", "query"))
