"""An embedded database from opening to its end: moved, deleted, replaced, forgotten, forked, or left by a thread."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from support import engines
from support.programs import environment, run_python
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import ParameterError, StoreError, StoreLockedError
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.milvus import engine as engine_module

pytestmark = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.db"


def opened(path: Path | str, **options: Any) -> BM25Index:
    return BM25Index.open(path, "docs", config=CONFIG, **options)


def stored(path: Path | str) -> list[str]:
    """The ids of the chunks in a database, after a recount."""
    with opened(path) as index:
        assert index.verify().ok
        return sorted(chunk.id for chunk in index.chunks())


def run(code: str, path: Path, *flags: str) -> Any:
    """Run code in another process."""
    begin = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); path = sys.argv[1]\n"
    env = environment(GRPC_ENABLE_FORK_SUPPORT="false")  # gRPC's own handlers of forks may hang
    return run_python(begin + code, path, flags=flags, env=env)


class TestMoved:
    """What was acknowledged is in the database that was opened; what is not there is not acknowledged."""

    def test_a_write_to_a_database_that_was_moved_is_refused(self, path: Path, tmp_path: Path) -> None:
        moved = tmp_path / "moved.db"
        index = opened(path)
        index.add(["t1 t2", "t3"], ids=["a", "b"])
        path.rename(moved)
        with pytest.raises(
            StoreError, match=r"test\.db was moved or deleted while it was open\. The last write may be"
        ):
            index.add(["t4"], ids=["c"])
        for call in (lambda: index.add(["t5"]), lambda: index.delete(["a"]), lambda: index.search("t1")):
            with pytest.raises(
                StoreError, match="close the index, then move that database back, or open it at its new path"
            ):
                call()
        moved.rename(path)
        with pytest.raises(StoreError, match="was moved or deleted"):  # its memory has what the file has not
            index.add(["t6"], ids=["d"])
        index.close()
        assert {"a", "b"} <= set(stored(path)) <= {"a", "b", "c"}

    def test_a_write_to_a_database_that_was_deleted_is_refused(self, path: Path, tmp_path: Path) -> None:
        index = opened(path)
        path.rename(tmp_path.parent / f"{tmp_path.name}.gone")  # as good as deleted, and cannot fail halfway
        with pytest.raises(StoreError, match="was moved or deleted while it was open"):
            index.add(["t1"], ids=["a"])
        with pytest.raises(StoreError, match="was moved or deleted while it was open"):
            opened(path)
        index.close()
        assert not path.exists()
        assert stored(path) == []

    def test_a_database_put_in_the_place_of_another_is_not_written_to(self, path: Path, tmp_path: Path) -> None:
        other = tmp_path / "other.db"
        with opened(other) as index:
            index.add(["t9"], ids=["other"])
        index = opened(path)
        index.add(["t1"], ids=["a"])
        path.rename(tmp_path / "moved.db")
        other.rename(path)
        with pytest.raises(StoreError, match=r"test\.db was replaced by another one while it was open"):
            index.add(["t2"], ids=["b"])
        index.close()
        assert stored(path) == ["other"]

    def test_a_second_index_of_the_process_is_refused_too(self, path: Path, tmp_path: Path) -> None:
        index = opened(path)
        path.rename(tmp_path / "moved.db")
        path.touch()
        with pytest.raises(StoreError, match="was replaced by another one"):
            opened(path)
        index.close()

    def test_a_write_costs_one_look_at_the_path(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        index = opened(path)
        looks: list[Path] = []
        calls: list[str] = []
        engine = index._store._open  # type: ignore[attr-defined]
        identity, call = engine_module._identity, engine._call
        monkeypatch.setattr(engine_module, "_identity", lambda path: (looks.append(path), identity(path))[1])
        monkeypatch.setattr(
            engine, "_call", lambda name, *args, **kwargs: (calls.append(name), call(name, *args, **kwargs))[1]
        )
        index.add(["t1"], ids=["a"])
        assert len(looks) == sum(name in {"insert", "delete", "flush"} for name in calls)
        index.close()


@pytest.mark.slow
class TestForgotten:
    def test_an_index_that_was_not_closed_gives_the_file_back(self, path: Path) -> None:
        index = opened(path)
        index.add(["t1"], ids=["a"])
        indexes = [index]
        del index
        with pytest.warns(ResourceWarning, match=r"an index at milvus-lite .*test\.db was not closed"):
            forget(indexes)
        wait_for_release()
        assert run("from test_lifetime import stored; print(stored(path))", path).stdout == "['a']\n"

    def test_the_last_of_two_gives_it_back(self, path: Path) -> None:
        index, others = opened(path), [opened(path)]
        with pytest.warns(ResourceWarning, match="was not closed"):
            forget(others)
        wait_for_release()
        index.add(["t1"], ids=["a"])
        index.close()
        assert stored(path) == ["a"]

    def test_a_closed_index_is_given_back_once(self, path: Path) -> None:
        index, other = opened(path), opened(path)
        other.close()
        del other
        gc.collect()
        index.add(["t1"], ids=["a"])
        index.close()

    def test_a_program_that_ends_without_closing_is_quiet(self, path: Path) -> None:
        code = "from test_lifetime import opened\nindex = opened(path); index.add(['t1'], ids=['a'])"
        ended = run(code, path, "-W", "error")
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
        assert stored(path) == ["a"]

    def test_a_thread_that_writes_while_the_program_ends_is_quiet(self, path: Path) -> None:
        code = """
import threading, time
from contextlib import suppress
from rag_bm25.errors import StoreError
from test_lifetime import opened
index, begun = opened(path), threading.Event()
def write():
    while True:
        with suppress(StoreError):
            index.add([f"t{time.time()}"])
        begun.set()
threading.Thread(target=write, daemon=True).start()
begun.wait()
"""
        for _ in range(3):
            ended = run(code, path)
            assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a matter of forks")
class TestForked:
    def test_a_child_is_told_to_open_the_index_itself(self, path: Path) -> None:
        code = """
import os
from rag_bm25.errors import StoreError
from test_lifetime import opened
index = opened(path)
index.add(["t1"], ids=["a"])
index._store._open.write_lock.acquire()  # by a thread that the child does not have, for all it knows
import threading
held, enough = threading.Event(), threading.Event()
def hold():
    with index._live._log_lock:
        held.set()
        enough.wait()
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    for call in (lambda: index.search("t1"), lambda: index.add(["t2"]), lambda: index.get(["a"]), index.refresh):
        try:
            call()
        except StoreError as error:
            print(str(error).partition("test.db")[2])
    try:
        opened(path)
    except StoreError as error:
        print(type(error).__name__)
    del index
    import gc; gc.collect()
    sys.stdout.flush()
    os._exit(0)
print(os.waitpid(child, 0)[1])
enough.set()
index._store._open.write_lock.release()
index.add(["t3"], ids=["b"])
print([hit.id for hit in index.search("t3")])
index.close()
"""
        ended = run(code, path)
        wanted = " was opened before a fork; open it again in this process\n" * 4 + "StoreLockedError\n0\n['b']\n"
        assert ended.stdout == wanted, ended.stderr
        assert stored(path) == ["a", "b"]

    def test_a_child_that_was_forked_while_a_thread_opened_another_index_ends(self, path: Path) -> None:
        code = """
import os, threading
from rag_bm25.store.milvus import opening
from test_lifetime import opened
index, other = opened(path), path.replace("test.db", "other.db")
begun, forked, require = threading.Event(), threading.Event(), opening.require_database
def wait(path):
    begun.set()
    forked.wait()
    require(path)
opening.require_database = wait
thread = threading.Thread(target=lambda: opened(other).close())
thread.start()
begun.wait()
if os.fork() == 0:
    sys.exit()
print(os.wait()[1])
forked.set()
thread.join()
index.close()
"""
        ended = run(code, path)
        assert ended.stdout == "0\n", ended.stderr

    @pytest.mark.parametrize("method", ["spawn", "fork"])
    def test_workers_that_open_a_file_themselves_are_told_who_has_it(self, path: Path, method: str) -> None:
        code = f"""
import multiprocessing
from test_lifetime import opened_by_a_worker
if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(1) as pool:
        first = pool.apply(opened_by_a_worker, (path, True))
        with multiprocessing.get_context({method!r}).Pool(1) as other:
            print(first, other.apply(opened_by_a_worker, (path, False)))
"""
        ended = run(code, path)
        assert ended.stdout == "1 StoreLockedError\n", ended.stderr


_kept: list[BM25Index] = []


def opened_by_a_worker(path: str, keep: bool) -> object:
    """Open an index, and leave it open where the worker is to go on with it."""
    try:
        index = opened(path)
    except StoreLockedError as error:
        return type(error).__name__
    index.add(["t1"], ids=["a"])
    if keep:
        _kept.append(index)
    return len(index.search("t1"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"token": 12345}, "token must be a str, got int"),
        ({"token": b"hush"}, "token must be a str, got bytes"),
        ({"timeout": "5"}, "timeout must be a number greater than 0, got '5'"),
        ({"timeout": True}, "timeout must be a number greater than 0, got True"),
        ({"timeout": 0}, "timeout must be a number greater than 0, got 0"),
        ({"timeout": float("nan")}, "timeout must be a number greater than 0, got nan"),
        ({"tls": "ca.pem"}, "tls must be a TLS, got str"),
    ],
)
@pytest.mark.parametrize("uri", ["http://127.0.0.1:1", "rag.db"])
def test_what_is_not_of_its_type_is_named(uri: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=f"^{message}$"):
        MilvusStore(tmp_path / uri if uri == "rag.db" else uri, "docs", **options)


def forget(indexes: list[BM25Index]) -> None:
    """Let indexes become garbage, and be collected."""
    indexes.clear()
    gc.collect()


def wait_for_release() -> None:
    """Wait for the threads that give engines back."""
    for thread in [thread for thread in threading.enumerate() if thread.name == "rag_bm25-release"]:
        thread.join()
