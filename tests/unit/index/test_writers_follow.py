"""Whoever takes the lock of writing goes on in the next generation, where that comes into force just then."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from support.answers import Judged, give_model, make_set
from support.files import run, write
from support.indexes import CONFIG, filled
from support.memory_store import MemoryStore

import rag_bm25
from rag_bm25 import BM25Index, QueryWeighting
from rag_bm25.index.live_statistics import LiveStatistics
from rag_bm25.index.writing.chunk_writer import ChunkWriter
from rag_bm25.ingestion import reindex
from rag_bm25.ingestion.reindexing import _copy_answers, _copy_k1
from rag_bm25.ingestion.source_roots import SourceRoot, read_source_roots, set_source_roots
from rag_bm25.vectors.sparse import SparseVector

CHUNKS, JUDGED = make_set()
OTHER = replace(CONFIG, k1=0.9)


def ingest_twice(index: BM25Index, folder: Path) -> None:
    run(index, write(folder / "a.txt", "first"), write(folder / "b.txt", "second"))


def take_answers(index: BM25Index, folder: Path) -> None:
    with filled(CHUNKS) as source:
        give_model(source)
        _copy_answers(source, index)
    assert index._live.view.answers is None  # that generation weighs otherwise


def take_k1(index: BM25Index, folder: Path) -> None:
    with filled(CHUNKS) as source:
        source.learn_k1()
        _copy_k1(source, index)
    assert index._live.view.term_k1 is not None


def learn(index: BM25Index, folder: Path) -> None:
    learned = index.learn_k1()
    table = index._live.view.term_k1
    assert table is not None
    assert len(table.ids) == learned.num_terms


def calibrate(index: BM25Index, folder: Path) -> None:
    model = index.calibrate_answers(list(JUDGED), Judged(JUDGED)).model
    assert index._live.view.answers == model
    assert model.weighting == OTHER.query_weighting()


def name_root(index: BM25Index, folder: Path) -> None:
    roots = set_source_roots(index, [SourceRoot("docs", str(folder))])
    assert read_source_roots(index) == roots != []


def mend_a_vector(index: BM25Index, folder: Path) -> None:
    chunks = index._store.collections.chunks  # type: ignore[attr-defined]
    pk, row = next(iter(chunks.items()))
    chunks[pk] = replace(row, vector=SparseVector(row.vector.ids, row.vector.values * 2))
    index.repair()


WRITERS: dict[str, Callable[[BM25Index, Path], object]] = {
    "rag_bm25/index/live_statistics.py write_answers": calibrate,
    "rag_bm25/index/live_statistics.py write_k1": learn,
    "rag_bm25/index/maintenance/rewriting.py _rewrite": mend_a_vector,
    "rag_bm25/index/maintenance/setting.py change_query_defaults": lambda index, _: index.set_query_defaults(
        weighting=QueryWeighting(k3=2.0)
    ),
    "rag_bm25/index/writing/pipeline.py add": lambda index, _: index.add(["w1 new"]),
    "rag_bm25/index/writing/pipeline.py _delete": lambda index, _: index.delete(["d1"]),
    "rag_bm25/index/writing/pipeline.py _drop_namespace": lambda index, _: index.drop_namespace(""),
    "rag_bm25/ingestion/source_roots.py write": name_root,
    "rag_bm25/ingestion/unchanged.py _store_digests": ingest_twice,
}
TAKING = {
    "rag_bm25/index/live_statistics.py write_answers of another index": take_answers,
    "rag_bm25/index/live_statistics.py write_k1 of another index": take_k1,
}
SWITCH = "rag_bm25/index/maintenance/generations.py _switching"  # which puts the next generation into force


def test_all_entry_points_are_walked() -> None:
    """A new one needs an entry in `WRITERS`, and must call within `in_force`."""
    root = Path(rag_bm25.__file__).parent
    found = {
        f"{path.relative_to(root.parent)} {function.name}"
        for path in root.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef) and any(map(takes_the_lock, ast.iter_child_nodes(function)))
    }
    assert found == WRITERS.keys() | {SWITCH}


def takes_the_lock(node: ast.AST) -> bool:
    """Whether a statement calls `writing`, other functions in it left out."""
    if isinstance(node, ast.FunctionDef):
        return False
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "writing"
    return is_call or any(map(takes_the_lock, ast.iter_child_nodes(node)))


@pytest.fixture(params=[True, False], ids=["embedded", "server"])
def index(request: pytest.FixtureRequest) -> Iterator[BM25Index]:
    with filled(CHUNKS, store=MemoryStore(exclusive=request.param)) as opened:
        yield opened


@pytest.mark.parametrize("place", [*WRITERS, *TAKING])
def test_a_writer_follows(place: str, index: BM25Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Just before it takes the lock, another index object reindexes twice."""
    take, call = LiveStatistics.writing, {**WRITERS, **TAKING}[place]

    def writing(live: LiveStatistics) -> AbstractContextManager[ChunkWriter]:
        if sys._getframe(1).f_code.co_name == place.split()[1]:
            monkeypatch.setattr(LiveStatistics, "writing", take)
            with BM25Index.from_store(index._store.reopen(), analyzer=CONFIG.analyzer) as other:  # type: ignore[attr-defined, arg-type]
                reindex(other, replace(CONFIG, k1=1.2))
                reindex(other, OTHER)
        return take(live)

    monkeypatch.setattr(LiveStatistics, "writing", writing)
    call(index, tmp_path)
    index.refresh()  # of digests it is not asked: in a next generation they count for nothing
    assert (index._store.generation, index.config.k1) == (3, OTHER.k1)
    assert index.verify().ok
