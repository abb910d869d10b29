"""Generations change while several writers write and readers read: on a server in any order of calls, and embedded."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support import engines
from support.memory_store import MemoryStore
from support.reference import split
from support.serialized_store import serialized

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.index import drop_former_generations
from rag_bm25.index.maintenance import generations
from rag_bm25.index.writing import chunk_writer
from rag_bm25.ingestion import reindex
from rag_bm25.store.protocol import Store

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
STEADY = {f"s{number}": "steady text" for number in range(20)}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_writer, "POLL_SECONDS", 0.002)
    monkeypatch.setattr(generations, "FEW_CHANGES", 3)


class Writers:
    """Threads that add, update and delete chunks of their own, and note what was acknowledged."""

    def __init__(self, opened: Callable[[str], BM25Index]) -> None:
        self._opened = opened
        self.acknowledged: dict[str, str] = {}
        self.errors: list[Exception] = []
        self.ending = threading.Event()
        self.num_writes = 0

    def write(self, number: int) -> None:
        rng, index = random.Random(number), self._opened(f"writer {number}")
        while not self.ending.is_set():
            ids = [f"{number}-{rng.randrange(12)}" for _ in range(3)]
            if rng.random() < 0.3:
                index.delete(ids)
                for id_ in ids:
                    self.acknowledged.pop(id_, None)
            else:
                texts = {id_: f"w{rng.randrange(40)} w{rng.randrange(40)}" for id_ in ids}
                index.add(list(texts.values()), ids=list(texts))
                self.acknowledged |= texts
            self.num_writes += 1

    def read(self, number: int) -> None:
        """Search all the time: each answer is that of a whole generation."""
        index = self._opened(f"reader {number}")
        while not self.ending.wait(0.01):  # or it would leave the others little of the processor
            hits = index.search("steady", k=50)
            assert {hit.id for hit in hits} == STEADY.keys()
            assert len({hit.score for hit in hits}) == 1

    def guarded(self, task: Callable[[int], None], number: int) -> None:
        try:
            task(number)
        except Exception as error:  # noqa: BLE001 - shown at the end
            self.errors.append(error)
            self.ending.set()


def change_generations(opened: Callable[[str], BM25Index], base: Store, *, writers: int, readers: int) -> None:
    """Reindex again and again meanwhile, and compare what is there with what was acknowledged."""
    opened("first").add(list(STEADY.values()), ids=list(STEADY))
    crowd = Writers(opened)
    tasks = [(crowd.write, number) for number in range(writers)] + [(crowd.read, number) for number in range(readers)]
    threads = [threading.Thread(target=crowd.guarded, args=task, daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    try:
        for k1 in (0.5, 0.6, 0.7):
            seen = crowd.num_writes
            while crowd.num_writes < seen + 2 * writers and not crowd.ending.is_set():
                time.sleep(0.01)
            reindex(opened(f"reindex {k1}"), replace(CONFIG, k1=k1))
    finally:
        crowd.ending.set()
        for thread in threads:
            thread.join()
    assert crowd.errors == []
    fresh = opened("fresh")
    assert fresh.config.k1 == 0.7
    assert {chunk.id: chunk.text for chunk in fresh.chunks()} == STEADY | crowd.acknowledged
    assert fresh.verify().differences == []
    drop_former_generations(base)
    assert {hit.id for hit in opened("later").search("steady", k=50)} == STEADY.keys()


class Opening:
    """Opens indexes in stores, and closes them after the test."""

    def __init__(self, store: Callable[[str], Store]) -> None:
        self._store = store
        self.indexes: list[BM25Index] = []

    def __call__(self, name: str) -> BM25Index:
        given = {"analyzer": split} if self.indexes else {"config": CONFIG}
        self.indexes.append(BM25Index.from_store(self._store(name), refresh_interval=0.1, **given))  # type: ignore[arg-type]
        return self.indexes[-1]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_several_writers_of_a_server_lose_nothing(seed: int) -> None:
    store, lock = MemoryStore(exclusive=False), threading.Lock()

    def slow(name: str) -> Store:
        rng = random.Random(f"{seed} {name}")
        return serialized(store.reopen(), lambda: lock, lambda _: time.sleep(rng.choice([0, 0, 0.0005])))

    opened = Opening(slow)
    change_generations(opened, store.reopen(), writers=3, readers=2)
    for index in opened.indexes:
        index.close()


@pytest.mark.parametrize("engine", ["server", engines.PACKAGED])
def test_writers_in_other_processes_lose_nothing(engine: str, tmp_path: Path) -> None:
    from soak.several_writers import run

    run(engines.uri_of(engine), tmp_path, writers=3, readers=1, operations=6, generations=True)


@pytest.mark.slow
@pytest.mark.usefixtures("embedded")
def test_several_writers_of_an_embedded_engine_lose_nothing(tmp_path: Path) -> None:
    opened = Opening(lambda _: engines.open_store("embedded", tmp_path))
    with closing(engines.open_store("embedded", tmp_path)) as base:
        change_generations(opened, base, writers=2, readers=1)
        for index in opened.indexes:
            index.close()
