"""A database on a medium that cannot be written to, such as the image of a container."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import engines
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import StoreError, StoreLockedError
from rag_bm25.store.milvus import opening
from rag_bm25.store.milvus.database_file import DatabaseLock, PrivateCopy, can_be_written

pytestmark = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with one chunk."""
    (tmp_path / "medium").mkdir()
    fill(tmp_path / "medium" / "test.db")
    return tmp_path / "medium" / "test.db"


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, empty, and with a short name, for the engine's socket."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture
def not_writable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the database be on a medium that is only read, for all that the package knows."""
    monkeypatch.setattr(opening, "can_be_written", lambda database: database != path)


def fill(path: Path) -> None:
    with BM25Index.open(path, "docs", config=CONFIG) as index:
        index.add(["t1 t2"], ids=["a"])


def searched(path: Path) -> list[str]:
    with BM25Index.open(path, "docs", config=CONFIG, read_only=True) as index:
        assert f" at a copy of {path}, collection 'docs'" in index._store.name
        assert index.verify().ok
        return [hit.id for hit in index.search("t1")]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=40m", "none", str(folder)]
    if not mount or os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this process may not mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_an_index_on_a_medium_that_is_only_read_is_searched(mounted: Path, temporary: Path) -> None:
    path = mounted / "test.db"
    fill(path)
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    assert not can_be_written(path)
    assert searched(path) == ["a"]
    assert list(temporary.iterdir()) == []
    with pytest.raises(StoreError, match=r"cannot lock .*test\.db: .*or open it with read_only=True, which searches a"):
        BM25Index.open(path, "docs")


@pytest.mark.usefixtures("not_writable")
class TestCopy:
    def test_it_is_searched_and_removed(self, path: Path, temporary: Path) -> None:
        before = sorted(path.parent.iterdir())
        assert searched(path) == ["a"]
        assert list(temporary.iterdir()) == []
        assert sorted(path.parent.iterdir()) == before

    def test_two_that_read_share_it_and_one_that_writes_does_not(self, path: Path, temporary: Path) -> None:
        options: dict[str, Any] = {"config": CONFIG, "read_only": True}
        with BM25Index.open(path, "docs", **options) as one, BM25Index.open(path, "docs", **options):
            assert len(list(temporary.glob("rag-bm25-*"))) == 1
            with BM25Index.open(path, "docs", config=CONFIG) as writer:
                writer.add(["t1"], ids=["b"])
            assert [hit.id for hit in one.search("t1")] == ["a"]
        assert sorted(searched(path)) == ["a", "b"]

    def test_without_room_it_is_refused_with_the_sizes(
        self, path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usage = shutil.disk_usage(temporary)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2**20))
        with pytest.raises(StoreError, match=r"for searching needs \d+ MiB, but \S+ has 1 MiB free: set TMPDIR to"):
            searched(path)
        assert list(temporary.iterdir()) == []

    def test_what_cannot_be_copied_is_named(self, path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(shutil, "copyfile", full)
        with pytest.raises(StoreError, match=r"cannot copy .*test\.db, .* to \S+: .*No space left on device"):
            PrivateCopy(path)
        assert list(temporary.iterdir()) == []

    def test_a_database_that_is_open_elsewhere_is_not_copied(self, path: Path) -> None:
        lock = DatabaseLock(path)
        lock.acquire()
        with pytest.raises(StoreLockedError, match=r"test\.db is open in process \d+"):
            searched(path)
        lock.release()
        assert searched(path) == ["a"]
