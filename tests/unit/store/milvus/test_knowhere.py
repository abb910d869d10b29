"""The sparse indexes of Milvus give our vectors the scores of an independent BM25, as exactly as is promised."""

from __future__ import annotations

import logging
import shlex
import sys
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support import milvus_knowhere, played_knowhere
from support.data import shared_data
from support.milvus_knowhere import KINDS, PROTOCOL, Kind, Rankings
from support.milvus_programs import Program
from support.reference import BM25, Corpus

from rag_bm25 import Analyzer, BM25Index, IndexConfig
from rag_bm25.evaluation import load_beir
from rag_bm25.store.memory import MemoryStore
from rag_bm25.vectors.sparse import SparseVector

LOG = logging.getLogger(__name__)
DEMO = Path(__file__).parents[4] / "scripts/demo/corpus"
SETS = [
    "demo-zh",
    "demo-en",
    *(pytest.param(name, marks=pytest.mark.data) for name in ("cmrc2018", "cacm")),
]
NUM_QUERIES = 50
NOISE = 1e-6  # of sums in float32, beside the tolerance of a weight
PLAYED = Kind("2.6", "raw", "DAAT_MAXSCORE")
NAMED = [
    pytest.param((program, kind), id=f"{program.path.name} {kind.name} {kind.algorithm}")
    for program in milvus_knowhere.programs()
    for kind in KINDS[program.version]
]
needs_programs = pytest.mark.skipif(not NAMED, reason="RAG_BM25_KNOWHERE names no programs: make test-knowhere")
ALL = [pytest.param((None, PLAYED), id="played"), *NAMED]
analyzer = Analyzer()


def tokens(text: str) -> list[str]:
    return analyzer(text)


class Finished(Corpus):
    """A corpus that nothing is added to, and that counts once."""

    dfs = cache(Corpus.dfs)
    __hash__ = object.__hash__


@dataclass(frozen=True)
class Expected:
    """A set: our vectors, those chunks that a filter shows, and the scores of all by the loops."""

    chunks: list[SparseVector]
    queries: list[SparseVector]
    shown: NDArray[np.bool_]
    scores: list[dict[int, float]]

    def ranking(self, query: int, filtered: str) -> dict[int, float]:
        scores = self.scores[query]
        return {id_: score for id_, score in scores.items() if filtered == "all" or self.shown[id_]}


@cache
def expected_of(name: str) -> Expected:
    texts, queries = read(name)
    config = IndexConfig(chunk_size=300, length_unit="characters", analyzer=tokens)
    store = MemoryStore()
    index = BM25Index.from_store(store, config=config)
    index.add(texts, ids=[f"{at:06}" for at in range(len(texts))])
    rows = sorted(chain.from_iterable(store.scan_chunks(vectors=True)), key=lambda row: row.id)
    corpus = Finished({row.id: tokens(text) for row, text in zip(rows, texts, strict=True)})
    lengths = {row.id: len(text) for row, text in zip(rows, texts, strict=True)}
    weights = {name: getattr(config, f"{name}_weight") for name in ("bigram", "character", "word_bigram", "latin")}
    bm25 = BM25(
        300, config.k1, config.b, k3=config.k3, **{f"{name}_weight": weight for name, weight in weights.items()}
    )
    scores = [bm25.scores(tokens(query), corpus, lengths) for query in queries]
    shown = np.random.default_rng(7).random(len(texts)) < 1 / 3
    return Expected(
        [row.vector for row in rows],
        index.encode_queries(queries),
        shown,
        [{int(id_): score for id_, score in found.items() if score} for found in scores],
    )


def read(name: str) -> tuple[list[str], list[str]]:
    """Read a set; the demo's has texts of several languages."""
    dataset = load_beir(DEMO if name.startswith("demo") else shared_data(name))
    language = name.removeprefix("demo-")
    texts = [text for id_, text in dataset.corpus.items() if language == name or f".{language}#" in id_]
    queries = [text for id_, text in dataset.queries.items() if language == name or id_.startswith(language)]
    return texts, queries[:NUM_QUERIES]


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return tmp_path / "task"


def played(folder: Path, fault: str) -> Program:
    """Make a program that plays a knowhere, right but for a fault."""
    program = folder / "2.6"
    command = shlex.join([sys.executable, str(played_knowhere.__file__), fault])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    return Program(program, PROTOCOL)


def worst_error(rankings: Rankings, expected: Expected, k: int) -> float:
    """Return the worst relative error of a score at its rank and of its chunk; fail where the hits are others."""
    worst = 0.0
    for (_, filtered), found in rankings.items():
        for query, hits in enumerate(found):
            scores = expected.ranking(query, filtered)
            best = sorted(scores.values(), reverse=True)[:k]
            found_once = {id_ for id_, _ in hits} & scores.keys()
            assert len(found_once) == len(hits) == len(best), f"wrong hits of query {query}"
            for (id_, score), at_rank in zip(hits, best, strict=True):
                worst = max(worst, abs(score / scores[id_] - 1), abs(score / at_rank - 1))
    return worst


def error_of(program: Program, kind: Kind, expected: Expected, task: Path, k: int) -> float:
    milvus_knowhere.write_task(task, expected.chunks, expected.queries, expected.shown)
    rankings = milvus_knowhere.search(program, task, kind, k, len(expected.queries))
    worst, hits = worst_error(rankings, expected, k), sum(map(len, chain.from_iterable(rankings.values())))
    LOG.info("%s: %d hits of %d chunks, worst error %.1e", kind, hits, len(expected.chunks), worst)
    return worst


def few() -> Expected:
    """Ask little of a program that is slow."""
    expected = expected_of("demo-en")
    return replace(expected, queries=expected.queries[:5])


@needs_programs
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("of", NAMED)
def test_hits_are_those_of_the_loops(of: tuple[Program, Kind], name: str, task: Path) -> None:
    (program, kind), expected = of, expected_of(name)
    for k in (10, len(expected.chunks)):
        assert error_of(program, kind, expected, task, k) <= kind.tolerance + NOISE
    assert kind.tolerance <= kind.promised


def test_a_program_that_sums_exactly_passes(task: Path) -> None:
    expected = few()
    program = played(task.parent, "none")
    assert error_of(program, PLAYED, expected, task, 10) <= PLAYED.tolerance + NOISE
    assert error_of(program, replace(PLAYED, name="growing-fp32"), expected, task, 200) <= PLAYED.tolerance + NOISE


@pytest.mark.parametrize("of", [of for of in ALL if "fp16" not in str(of.id)])
def test_a_weight_off_by_a_thousandth_is_noticed(of: tuple[Program | None, Kind], task: Path) -> None:
    (program, kind), expected = of, few()
    best = max(expected.scores[0], key=lambda id_: expected.scores[0][id_])
    chunk = expected.chunks[best]
    broken = [*expected.chunks]
    broken[best] = replace(chunk, values=(chunk.values * np.float32(1.001)).astype(np.float32))
    error = error_of(program or played(task.parent, "none"), kind, replace(expected, chunks=broken), task, 10)
    assert error > 50 * kind.tolerance


def test_scores_off_by_a_thousandth_are_noticed(task: Path) -> None:
    error = error_of(played(task.parent, "a weight"), PLAYED, few(), task, 10)
    assert error == pytest.approx(1e-3, rel=0.01)


@pytest.mark.parametrize("fault", played_knowhere.FAULTS[1:])
def test_wrong_hits_are_noticed(fault: str, task: Path) -> None:
    with pytest.raises(AssertionError, match=r"wrong hits of query 0|answers other searches than 2\.6 raw"):
        error_of(played(task.parent, fault), PLAYED, few(), task, 10)
