"""Several that create one index at once: each gets it, and there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import engines
from support.clocks import PATIENCE
from support.programs import environment, run_python
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import ConfigMismatchError
from rag_bm25.store.milvus import MilvusStore

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
WORKER = """
import sys, time
from pathlib import Path
from support.reference import split
from rag_bm25 import BM25Index, IndexConfig
uri, name, number, folder = sys.argv[1:]
config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
Path(folder, number).touch()
while len(list(Path(folder).iterdir())) < 3:
    time.sleep(0.01)
with BM25Index.open(uri, name, config=config, timeout=60) as index:
    pass
"""

PREFORKING = """
import os, sys
from support.reference import split
from rag_bm25 import BM25Index, IndexConfig, StoreError
uri, name = sys.argv[1:]
config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
index = BM25Index.open(uri, name, config=config, timeout=60)
index.add(["t1"], ids=["a"])
children = []
for number in range(2):
    child = os.fork()
    if child == 0:
        try:
            index.search("t1")
        except StoreError as error:
            print(str(error).partition(" at ")[2].partition(" ")[2], flush=True)
        with BM25Index.open(uri, name, timeout=60, config=config) as own:
            own.add([f"t2 {number}"], ids=[f"c{number}"])
            os._exit(len(own.search("t1")))
    children.append(child)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
index.refresh()
print([hit.id for hit in index.search("t2")], index.verify().ok)
index._store.drop()
index.close()
"""


def looking_too_early(store: MilvusStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what another one has created from the first looks of a store."""
    engine = store._open
    read, asked = engine.read, Counter[tuple[str, ...]]()

    def stale(method: str, *args: Any, **kwargs: Any) -> Any:
        asked[(method, *args[:1])] += 1
        if method == "has_collection" and asked[(method, *args[:1])] <= 2:
            return False
        if method == "list_indexes" and asked[(method, *args[:1])] <= 1:
            return []
        return read(method, *args, **kwargs)

    monkeypatch.setattr(engine, "read", stale)


def test_collections_that_another_one_makes_meanwhile_are_taken(
    milvus: Callable[..., MilvusStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, late = milvus("race"), milvus("race")
    first.create()
    with monkeypatch.context() as patch:
        looking_too_early(late, patch)
        late.create()
    assert late.exists()
    first.drop()


@pytest.mark.parametrize("chunk_size", [4, 5])
def test_an_index_that_another_one_creates_meanwhile_is_opened(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, chunk_size: int
) -> None:
    store, late = opened("race"), opened("race")
    exists = late.exists

    def looked_too_early() -> bool:
        monkeypatch.undo()
        assert not exists()
        BM25Index.from_store(store, config=CONFIG).add(["t1 t2"], ids=["a"])
        return False

    monkeypatch.setattr(late, "exists", looked_too_early)
    config = IndexConfig(chunk_size=chunk_size, length_unit="terms", analyzer=split)
    if chunk_size == CONFIG.chunk_size:
        index = BM25Index.from_store(late, config=config)
        assert [hit.id for hit in index.search("t2")] == ["a"]
        assert index.verify().ok
    else:
        with pytest.raises(ConfigMismatchError, match="chunk_size: stored 4, given 5"):
            BM25Index.from_store(late, config=config)
    opened("race").drop()


def test_workers_that_open_a_new_index_on_a_server_at_once_all_get_it(engine: str, tmp_path: Path) -> None:
    if engine in {"memory", "embedded"}:
        pytest.skip("serves one process")
    uri, name = engines.uri_of(engine), f"workers_{os.getpid()}"
    commands = [[sys.executable, "-c", WORKER, uri, name, str(number), str(tmp_path)] for number in range(3)]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) for command in commands]
    assert [worker.communicate(timeout=PATIENCE)[1] for worker in workers] == ["", "", ""]
    with BM25Index.open(uri, name, config=CONFIG, timeout=60) as index:
        index.add(["t1"], ids=["a"])
        assert (index.config.chunk_size, index.stats().num_chunks, index.verify().ok) == (4, 1, True)
        index._store.drop()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a matter of forks")
def test_forked_workers_open_an_index_of_a_server_themselves(engine: str) -> None:
    if engine in {"memory", "embedded"}:
        pytest.skip("serves one process: test_lifetime.py")
    ended = run_python(PREFORKING, engines.uri_of(engine), f"forked_{os.getpid()}")
    child = "was opened before a fork; open it again in this process\n1\n"
    assert ended.stdout == f"{child * 2}['c0', 'c1'] True\n", ended.stderr
