"""The short form of scripts/soak: what it does in an hour to a large index, in seconds to one whose rows are tiny."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from soak.model import Model
from soak.places import MemoryPlace
from soak.processes import in_this_one
from soak.soak import Soak, SoakFailedError
from soak.texts import DEMO, Texts
from soak.visits import Visitor
from soak.year import DayVisitor, Year

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


@pytest.fixture(scope="module")
def texts() -> Texts:
    return Texts(DEMO, seed=1)


@pytest.fixture
def place() -> MemoryPlace:
    return MemoryPlace()


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each path that cuts or merges rows run with a few terms."""
    for limit, value in SMALL_LIMITS.items():
        monkeypatch.setattr(f"rag_bm25.{limit}", value)
    monkeypatch.setattr("rag_bm25.statistics.log.log.max_waiting", lambda _: 4)


@pytest.fixture
def soak(tmp_path: Path, texts: Texts, place: MemoryPlace, small_limits: None) -> Soak:
    """A soak in this process."""
    return Soak(Visitor(place, texts, tmp_path), 1_000, seed=1, tell=lambda _: None, call=in_this_one)


@pytest.fixture
def year(tmp_path: Path, texts: Texts, place: MemoryPlace, small_limits: None, monkeypatch: pytest.MonkeyPatch) -> Year:
    """A year of a few days."""
    for name, days in {"WEEK": 2, "MONTH": 2, "MADE_AGAIN": 3}.items():
        monkeypatch.setattr(f"soak.year.{name}", days)
    return Year(DayVisitor(place, texts, tmp_path), 60, seed=1, tell=lambda _: None, call=in_this_one)


@pytest.mark.slow
def test_index_that_is_used_day_by_day_loses_nothing(soak: Soak) -> None:
    soak.use_daily(runs=36, chunks=100, look_every=6)
    assert soak.rows[-1]["chunks"] > 30
    assert soak.rows[-1]["terms"] > 1_000


def test_index_that_grows_loses_nothing(soak: Soak) -> None:
    soak.grow(300)
    assert soak.rows[0]["chunks"] == 300


def test_index_that_lives_long_loses_nothing(year: Year) -> None:
    year.live(days=5, chunks=30)
    assert [(row["day"], row["chunks"], row["generation"]) for row in year.rows] == [
        (1, 30, 1),
        (2, 30, 2),
        (4, 30, 2),
        (5, 30, 2),
    ]
    assert year.totals == {"verified": 10, "inconclusive": 0, "reindexed": 2, "made again": 1}


# What it is for: each fault is told


def lose_a_chunk(place: MemoryPlace) -> None:
    place.first.collections.chunks.pop(next(iter(place.first.collections.chunks)))


def change_a_text(place: MemoryPlace) -> None:
    pk, row = next(iter(place.first.collections.chunks.items()))
    place.first.collections.chunks[pk] = replace(row, text=row.text + "!")


def change_a_weight(place: MemoryPlace) -> None:
    for pk, row in place.first.collections.chunks.items():
        weights = row.vector.values * np.float32(1.01)
        place.first.collections.chunks[pk] = replace(row, vector=SparseVector(row.vector.ids, weights))


def lose_the_vocabulary(place: MemoryPlace) -> None:
    """Make repair forget what no stored chunk has any more: verify cannot know."""
    with place.open() as index:
        for key in [key for key in place.first.collections.log if key.startswith("terms")]:
            del place.first.collections.log[key]
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


def test_a_writer_that_is_not_there_is_told(year: Year, monkeypatch: pytest.MonkeyPatch) -> None:
    work = DayVisitor._work
    monkeypatch.setattr(DayVisitor, "_work", lambda own, writes: work(own, writes[:-1]))
    with pytest.raises(SoakFailedError, match="verify: "):
        year.live(days=2, chunks=30)


def test_an_index_that_is_not_known_to_be_another_is_told(year: Year, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DayVisitor, "_make_again", lambda *_: None)
    with pytest.raises(AssertionError, match="is used as if it were the one that was opened"):
        year.live(days=3, chunks=30)


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
