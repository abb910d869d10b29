"""The confidence of hits on every engine: the same, kept with the index, and read by other processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.answers import Judged, make_set
from support.memory_store import MemoryStore
from support.programs import run_python

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.index.maintenance.copying import copy_index
from rag_bm25.store.protocol import Store

CONFIG = IndexConfig(40)
CHUNKS, JUDGED = make_set()
QUERIES = list(JUDGED)
OPEN_AND_SEARCH = """
import json, sys
from rag_bm25 import BM25Index
with BM25Index.open(sys.argv[1], "docs", read_only=True) as index:
    hits = index.search(sys.argv[2], 5, min_confidence=float(sys.argv[3]))
    print(json.dumps([[hit.id, hit.confidence] for hit in hits]))
"""


def fill(store: Store) -> BM25Index:
    index = BM25Index.from_store(store, config=CONFIG)
    index.add(list(CHUNKS.values()), ids=list(CHUNKS))
    return index


def answers(index: BM25Index, **options: float) -> list[list[tuple[str, float | None]]]:
    return [[(hit.id, hit.confidence) for hit in hits] for hits in index.search_batch(QUERIES, 5, **options)]  # type: ignore[arg-type]


def test_confidence_is_that_in_memory_and_outlives_the_index(opened: Callable[..., Store]) -> None:
    memory, index, other = fill(MemoryStore()), fill(opened()), BM25Index.from_store(opened())
    for each in (memory, index):
        each.calibrate_answers(QUERIES, Judged(JUDGED))
    least = sorted(confidence for hits in answers(memory) for _, confidence in hits[:1] if confidence)[20]
    for options in ({}, {"min_confidence": least - 1e-6}):
        expected = [[(id_, pytest.approx(one, abs=1e-5)) for id_, one in hits] for hits in answers(memory, **options)]
        assert answers(index, **options) == expected
    other.refresh()
    for kept in (other, BM25Index.from_store(opened())):
        assert kept._live.view.answers == index._live.view.answers is not None
        assert answers(kept, min_confidence=least) == answers(index, min_confidence=least)
    index.calibrate_answers(QUERIES[:30], Judged(JUDGED))
    other.refresh()
    assert other._live.view.answers == index._live.view.answers
    assert sum(key.startswith("answers:") for key in index._store.log_keys()) == 1


def test_repair_and_copies_keep_the_model(opened: Callable[..., Store]) -> None:
    index = fill(opened())
    model = index.calibrate_answers(QUERIES, Judged(JUDGED)).model
    index.repair(erase=False)
    assert index._live.view.answers == model
    copy = MemoryStore()
    copy_index(opened(), copy)
    assert BM25Index.from_store(copy).search(QUERIES[0])[0].confidence is not None
    assert BM25Index.from_store(copy)._live.view.answers == model


def test_a_fresh_process_has_the_model(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite", reason="milvus-lite is not installed")
    path = tmp_path / "answers.db"
    with BM25Index.open(path, "docs", config=CONFIG) as index:
        index.add(list(CHUNKS.values()), ids=list(CHUNKS))
        index.calibrate_answers(QUERIES, Judged(JUDGED))
        hits = index.search(QUERIES[0], 5)
    least = hits[1].confidence
    ended = run_python(OPEN_AND_SEARCH, path, QUERIES[0], least)
    assert ended.returncode == 0, ended.stderr
    expected = [[hit.id, pytest.approx(hit.confidence)] for hit in hits if (hit.confidence or 0) >= (least or 0)]
    assert json.loads(ended.stdout) == expected
