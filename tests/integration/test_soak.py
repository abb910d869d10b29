"""The short form of scripts/soak: what it does in an hour to a large index, in seconds to one whose rows are tiny."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from soak.model import Model
from soak.soak import Soak, SoakFailedError
from soak.texts import DEMO, Texts
from soak.visits import CONFIG, Visitor
from support.memory_store import Collections, MemoryStore

from rag_bm25 import BM25Index
from rag_bm25.vectors.sparse import SparseVector

PROGRAM = Path(__file__).resolve().parents[2] / "scripts" / "soak"
SMALL_LIMITS = {
    "statistics.log.terms.TERMS_PER_ROW": 400,
    "statistics.log.packing.COUNTS_PER_ROW": 300,
    "statistics.log.runs.COUNTS_AT_ONCE": 1000,
    "statistics.log.sums.FAN": 3,
    "statistics.log.terms.FEW_TERMS": 100,
    "statistics.log.table.ROWS_PER_INSERT": 2,
    "documents.chunks.MAX_BATCH_CHUNKS": 20,
    "index.writing.chunk_writer.MAX_BATCH_CHUNKS": 20,
}


class MemoryPlace:
    """Rows in dicts."""

    def __init__(self) -> None:
        self.collections = Collections()

    def open(self) -> BM25Index:
        return BM25Index.from_store(MemoryStore(collections=self.collections), config=CONFIG)

    def log_rows(self) -> int:
        return len(self.collections.log)

    def rows(self) -> Iterator[dict[str, Any]]:
        for row in self.collections.chunks.values():
            yield {**vars(row), "sparse": row.vector.to_dict()}


@pytest.fixture(scope="module")
def texts() -> Texts:
    return Texts(DEMO, seed=1)


@pytest.fixture
def place() -> MemoryPlace:
    return MemoryPlace()


@pytest.fixture
def soak(tmp_path: Path, texts: Texts, place: MemoryPlace, monkeypatch: pytest.MonkeyPatch) -> Soak:
    """A soak in this process, in which each path that cuts or merges rows runs with a few terms."""
    for limit, value in SMALL_LIMITS.items():
        monkeypatch.setattr(f"rag_bm25.{limit}", value)
    monkeypatch.setattr("rag_bm25.statistics.log.log.StatisticsLog.compact.__kwdefaults__", {"above": 4})
    return Soak(
        Visitor(place, texts, tmp_path), 1_000, seed=1, tell=lambda _: None, call=lambda work, *args: work(*args)
    )


@pytest.mark.slow
def test_index_that_is_used_day_by_day_loses_nothing(soak: Soak) -> None:
    soak.use_daily(runs=36, chunks=100, look_every=6)
    assert soak.rows[-1]["chunks"] > 30
    assert soak.rows[-1]["terms"] > 1_000


def test_index_that_grows_loses_nothing(soak: Soak) -> None:
    soak.grow(300)
    assert soak.rows[0]["chunks"] == 300


# What it is for: each fault is told


def lose_a_chunk(place: MemoryPlace) -> None:
    place.collections.chunks.pop(next(iter(place.collections.chunks)))


def change_a_text(place: MemoryPlace) -> None:
    pk, row = next(iter(place.collections.chunks.items()))
    place.collections.chunks[pk] = replace(row, text=row.text + "!")


def change_a_weight(place: MemoryPlace) -> None:
    for pk, row in place.collections.chunks.items():
        weights = row.vector.values * np.float32(1.01)
        place.collections.chunks[pk] = replace(row, vector=SparseVector(row.vector.ids, weights))


def lose_the_vocabulary(place: MemoryPlace) -> None:
    """Make repair forget what no stored chunk has any more: verify cannot know."""
    with place.open() as index:
        for key in [key for key in place.collections.log if key.startswith("terms")]:
            del place.collections.log[key]
        index.repair()


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lose_a_chunk, "verify: "),
        (change_a_text, "version 1"),
        (change_a_weight, "wrong weights of chunk"),
        (lose_the_vocabulary, "terms lost"),
    ],
)
def test_what_is_wrong_is_told(soak: Soak, place: MemoryPlace, harm: Callable[[MemoryPlace], None], told: str) -> None:
    soak.use_daily(runs=10, chunks=40, look_every=5)
    harm(place)
    with pytest.raises(SoakFailedError, match=told):
        soak.look()


# The model


def test_model_draws_what_is_written_next() -> None:
    model = Model(10)
    writes = model.growth(random.Random(1), 8)
    assert [(write.kind, write.namespace, write.numbers.tolist()) for write in writes] == [
        ("stream", "", [0, 1, 2, 4, 5, 6]),
        ("stream", "law", [3, 7]),
    ]
    assert model.stored("law").tolist() == [3, 7]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the engine's process in /proc")
@pytest.mark.usefixtures("embedded")
def test_program_opens_the_index_in_a_process_of_its_own_each_time(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), "daily", "--runs", "2", "--workdir", str(tmp_path / "soak")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "3 openings" in found.stdout
