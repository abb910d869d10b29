"""What milvus-lite 3 needs to be told."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support import engines
from support.programs import environment, run_python

from rag_bm25.errors import StoreError
from rag_bm25.store.rows import ChunkRow, SearchArm
from rag_bm25.vectors.sparse import SparseVector

pytestmark = pytest.mark.skipif(
    not engines.lite_version().startswith("3."), reason="milvus-lite 3 is not what is installed"
)

FORKING = environment(GRPC_ENABLE_FORK_SUPPORT="false")  # gRPC's own handlers of forks may hang
ONE = SparseVector.from_dict({1: 1.0})
OPEN = """
import atexit, os, sys
from rag_bm25.store import MilvusStore
from rag_bm25.store.rows import ChunkRow
from rag_bm25.vectors.sparse import SparseVector
store = MilvusStore(sys.argv[1], "docs")

def insert(number):
    store.insert_chunks([ChunkRow(f"{number}a", str(number), "", 1, "b", vector=SparseVector.from_dict({1: 1.0}))])

"""


def test_a_file_is_a_database_of_the_other_engine(tmp_path: Path) -> None:
    (tmp_path / "test.db").touch()
    with pytest.raises(
        StoreError, match=r"is a file, a database of milvus-lite 2\.5; milvus-lite 3 is installed .* pip ins"
    ):
        engines.open_store("embedded", tmp_path)


def test_a_collection_is_not_one_that_is_spelled_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = engines.open_store("embedded", tmp_path)
    store.create()
    monkeypatch.setattr(store._open.client, "has_collection", lambda *_, **__: True)  # as where case is ignored
    other = engines.open_store("embedded", tmp_path, "Docs")
    assert (store.has_collections(), other.has_collections()) == (True, False)
    store.close()
    other.close()


@pytest.mark.parametrize("method", ["flush", "insert", "delete"])
def test_after_a_failure_nothing_is_asked_of_the_engine_until_the_database_is_opened_again(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = engines.open_store("embedded", tmp_path)
    store.create()
    store.insert_chunks([ChunkRow("1a", "first", "", 1, "b", vector=ONE)])
    engine, failing = store._open, [True]
    monkeypatch.setattr(engine.client, method, lambda *_, **__: fail())
    start = engine._start

    def start_again() -> Any:
        if failing:
            raise StoreError("no room")
        return start()

    monkeypatch.setattr(engine, "_start", start_again)
    acts = {
        "flush": lambda: store.search([ONE], SearchArm(9)),
        "insert": lambda: store.insert_chunks([ChunkRow("2a", "second", "", 1, "b", vector=ONE)]),
        "delete": lambda: store.delete_chunks(["1a"]),
    }
    with pytest.raises(
        StoreError, match=rf"{method} failed at .*No space left on device; its disk has [\d,.]+ MiB left"
    ):
        acts[method]()
    for act in (*acts.values(), store.count_chunks):
        with pytest.raises(StoreError, match="no room"):
            act()
    failing.clear()
    (found,) = store.search([ONE], SearchArm(9))
    assert [match.row.id for match in found] == ["first"]
    acts["insert"]()
    store.close()
    store = engines.open_store("embedded", tmp_path)
    assert sorted(row.id for rows in store.scan_chunks() for row in rows) == ["first", "second"]
    store.close()


def fail() -> None:
    from pymilvus import MilvusException

    raise MilvusException(1, "[Errno 28] No space left on device")


def fail_to_flush(**_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the engine forgets the journal of such a flush
def test_rows_that_were_acknowledged_before_a_failed_flush_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from milvus_lite.engine import collection

    store = engines.open_store("embedded", tmp_path)
    store.create()
    store.insert_chunks([ChunkRow("1a", "first", "", 1, "b", vector=ONE)])
    with monkeypatch.context() as full:
        full.setattr(collection, "execute_flush", fail_to_flush)
        for _ in range(2):
            with pytest.raises(StoreError, match="No space left on device; its disk has"):
                store.search([ONE], SearchArm(9))
    store.insert_chunks([ChunkRow("2a", "second", "", 1, "b", vector=ONE)])
    assert store.count_chunks() == 2
    (found,) = store.search([ONE], SearchArm(9))
    assert {match.row.id for match in found} == {"first", "second"}
    store.close()


def test_every_write_is_synced_before_it_is_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = engines.open_store("embedded", tmp_path)
    store.create()
    synced: list[int] = []
    monkeypatch.setattr("milvus_lite.storage.wal.os.fsync", synced.append)
    store.insert_chunks([ChunkRow("1a", "id", "", 1, "b", vector=ONE)])
    inserted = len(synced)
    store.delete_chunks(["1a"])
    assert (inserted, len(synced)) == (1, 2)
    store.close()


def test_a_search_flushes_once_after_each_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = engines.open_store("embedded", tmp_path)
    store.create()
    store.search([ONE], SearchArm(1))
    flushed: list[str] = []
    monkeypatch.setattr(store._open.client, "flush", lambda name, **_: flushed.append(name))
    for number in range(2):
        store.insert_chunks([ChunkRow(f"{number}a", "id", "", 1, "b", vector=ONE)])
        store.search([ONE], SearchArm(1))
        store.search([ONE], SearchArm(1))
    assert flushed == ["docs", "docs"]
    store.close()


def test_a_read_misses_nothing_while_another_thread_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from milvus_lite.engine.collection import Collection

    store = engines.open_store("embedded", tmp_path)
    store.create()
    store.insert_chunks([ChunkRow("0a", "id", "", 1, "b", vector=ONE)])
    snapshot, flushing = Collection._read_snapshot, threading.Thread(target=store._open.read, args=("flush", "docs"))

    def snapshot_and_flush(collection: Collection) -> Any:
        taken = snapshot(collection)  # without the row, which is in memory
        if not flushing.ident:
            flushing.start()
            flushing.join(0.3)  # unless it waits for its turn, the row has left memory now
        return taken

    monkeypatch.setattr(Collection, "_read_snapshot", snapshot_and_flush)
    assert [row.id for row in store.get_chunks(["0a"])] == ["id"]
    flushing.join()
    store.close()


class Counting:
    """Calls a method, and notes how many calls run at once."""

    running = most = 0

    def __init__(self, call: Any) -> None:
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        Counting.running += 1
        Counting.most = max(Counting.most, Counting.running)
        time.sleep(0.02)
        try:
            return self._call(*args, **kwargs)
        finally:
            Counting.running -= 1


def use(store: Any, number: int) -> None:
    """Write, search and delete by turns."""
    for step in range(3):
        store.insert_chunks([ChunkRow(f"{number}{step}a", "id", "", 1, "b", vector=ONE)])
        store.search([ONE], SearchArm(1))
        store.delete_chunks([f"{number}{step}a"])


def test_a_collection_that_was_killed_before_it_had_a_schema_is_made(tmp_path: Path) -> None:
    store = engines.open_store("embedded", tmp_path)
    remains = Path(store._open.path) / "collections" / "docs_bm25"
    remains.mkdir(parents=True)
    (remains / "schema.json.tmp").write_text("{")
    store.create()
    store.insert_chunks([ChunkRow("1a", "id", "", 1, "b", vector=ONE)])
    assert store.count_chunks() == 1
    store.close()


def test_no_call_runs_beside_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = [engines.open_store("embedded", tmp_path) for _ in range(2)]
    stores[0].create()
    client = stores[0]._open.client
    for method in ("insert", "delete", "query", "search", "flush"):
        monkeypatch.setattr(client, method, Counting(getattr(client, method)))
    threads = [threading.Thread(target=use, args=(stores[number % 2], number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counting.most == 1
    for store in stores:
        store.close()


def test_the_first_two_that_use_a_collection_open_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from milvus_lite import db

    stores = [engines.open_store("embedded", tmp_path)]
    stores[0].create()
    stores[0].close()
    stores = [engines.open_store("embedded", tmp_path) for _ in range(2)]
    made: list[str] = []
    make, beside = db.Collection, threading.Thread(target=lambda: stores[1].count_chunks())

    def make_while_another_asks(name: str, *args: Any, **kwargs: Any) -> Any:
        made.append(name)
        if len(made) == 1:
            beside.start()
            beside.join(0.3)  # unless it waits for its turn, it opens the collection as well
        return make(name, *args, **kwargs)

    monkeypatch.setattr(db, "Collection", make_while_another_asks)
    stores[0].count_chunks()
    beside.join()
    assert made == ["docs"]
    for store in stores:
        store.close()


def test_a_forked_child_that_ends_leaves_the_journal_to_its_parent(tmp_path: Path) -> None:
    write = (
        "store.create(); insert(1); child = os.fork();\n"
        "if child == 0: atexit._run_exitfuncs(); os._exit(0)\n"
        "print(os.waitpid(child, 0)[1], flush=True); insert(2); os._exit(0)"  # killed: nothing is flushed
    )
    written = run_python(OPEN + write, tmp_path / "test.db", env=FORKING)
    assert written.stdout == "0\n", written.stderr
    store = engines.open_store("embedded", tmp_path)
    assert sorted(row.id for rows in store.scan_chunks() for row in rows) == ["1", "2"]
    store.close()


def test_a_forked_child_ends_while_a_thread_of_the_parent_was_in_a_call(tmp_path: Path) -> None:
    call = (
        "import threading; taken = threading.Event(); end = threading.Event()\n"
        "def call():\n"
        "    with store._open._turns: taken.set(); end.wait()\n"
        "threading.Thread(target=call).start(); taken.wait(); child = os.fork()\n"
        "if child == 0: threading._shutdown(); os._exit(0)\n"
        "import time; limit = time.monotonic() + 200; ended = 0\n"
        "while not ended and time.monotonic() < limit: time.sleep(0.01); ended = os.waitpid(child, os.WNOHANG)[0]\n"
        "if not ended: os.kill(child, 9)\n"
        "end.set(); print(ended == child, flush=True); store.close()"
    )
    assert run_python(OPEN + call, tmp_path / "test.db", env=FORKING).stdout == "True\n"


def test_a_proxy_is_not_asked_for_the_own_machine(tmp_path: Path) -> None:
    code = "store.create(); print(store.count_chunks()); store.close()"
    with engines.refusing_port() as port:
        proxy = f"http://127.0.0.1:{port}"
        env = environment(http_proxy=proxy, https_proxy=proxy, no_proxy="")
        proxied = run_python(OPEN + code, tmp_path / "test.db", env=env)
    assert proxied.stdout == "0\n", proxied.stderr
