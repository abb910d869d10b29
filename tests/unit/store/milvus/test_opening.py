from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import numpy as np
import pytest
from support import engines
from support.programs import environment, run_python
from support.rows import ONE

from rag_bm25 import BM25Index
from rag_bm25.errors import (
    FormatError,
    IndexNotFoundError,
    MissingExtraError,
    ParameterError,
    RagBM25Error,
    ReadOnlyError,
    StoreError,
    StoreLockedError,
)
from rag_bm25.store.milvus import MilvusStore, server
from rag_bm25.store.milvus.address import is_missing_file, login_in, without_secrets
from rag_bm25.store.milvus.connection import Connection
from rag_bm25.store.milvus.database_file import DatabaseLock, require_database
from rag_bm25.store.milvus.foreign import ExternalCollection
from rag_bm25.store.milvus.inode_lock import refusal
from rag_bm25.store.rows import ChunkRow, DenseField, LogRow, SearchArm

SECRET = "hush%20Sesame"
SECRET_PLACES = [
    "http://H",  # as an argument
    *(f"{scheme}://S@H{base}" for scheme in ("http", "https", "tcp") for base in ("", "/base")),
    *(f"http://{login}@H" for login in ("user:S", "S:pass", ":S", "user:S:x", "user:a@S", "user:S/b", "user:a/S")),
    *(f"http://H{rest}" for rest in ("?token=S", "/?token=S", "/base?token=S&x=1", "?S", "?token=a@S", "?token=S@b")),
    *(f"http://H{rest}" for rest in ("#S", "/#S", "#a@S", "#S@b", "?a#S")),
    *(f"http://user:{sign}S@H" for sign in "?#"),
    *(f"http://user:S{sign}@H" for sign in "?#"),
    "unix:/nowhere?token=S",
    "unix:/nowhere#S",
    "ftp://H?token=S",
    "H?token=S",
    "S@H",
    "http:/S@H",
    "http:/H?token=S",
    "http//H#S",
    "http://[S@H?token=S",
    "http://user:S@H:99999?token=S",
]

embedded = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")


def open_external(uri: str, collection: str, **options: Any) -> ExternalCollection:
    return ExternalCollection(Connection(uri, **options), collection)


def fail(why: str) -> None:
    raise StoreError(why)


class TestAddress:
    @pytest.mark.parametrize(
        "uri",
        [
            *(":memory:", "rag", "rag.sqlite", "", "ftp://host/x.db", "file:///x.db", 3, None, "a\0.db", "a\ud800.db"),
            *("root:hush@host:19530", "hush@host", "http:/root:hush@host", "https//a:hush@host", "ftp://a:hush@host/x"),
        ],
    )
    def test_anything_else_is_refused_with_the_rule(self, uri: Any) -> None:
        with pytest.raises(
            ParameterError, match=r"uri must be a path ending in \.db, such as \./rag\.db, or an addre"
        ) as caught:
            MilvusStore(uri, "docs")
        assert "hush" not in str(caught.value)

    @pytest.mark.parametrize(
        ("uri", "shown"),
        [
            ("http://user:pass@host:19530/base", "http://host:19530/base"),
            ("https://token@host", "https://host"),
            ("http://user:pa/ss@host:19530", "http://host:19530"),
            ("http://user:p@ss#?@host/base", "http://***"),
            ("http://host:1/base?token=hush", "http://host:1/base"),
            ("http://host:1#hush", "http://host:1"),
            ("http://host:1?token=hu@sh", "http://***"),
            ("unix:/tmp/a.sock?token=hush", "unix:/tmp/a.sock"),
            ("http://user:pass@[", "http://["),
            ("tcp://host:1", "tcp://host:1"),
            ("unix:/tmp/a@b.sock", "unix:/tmp/a@b.sock"),
        ],
    )
    def test_secrets_are_taken_out(self, uri: str, shown: str) -> None:
        assert without_secrets(uri) == shown

    @pytest.mark.parametrize(
        ("uri", "login"),
        [
            ("http://user:pa/ss@host", "user:pa/ss"),
            ("https://token@host", "token"),
            ("http://host:19530", ""),
            ("./a@b:c.db", ""),
        ],
    )
    def test_user_and_password_are_known_to_be_hidden(self, uri: str, login: str) -> None:
        assert login_in(uri) == login

    @pytest.mark.parametrize("place", ["host:99999", "host:abc", "[::1"])
    def test_an_address_that_cannot_be_read_is_named_without_secrets(self, place: str) -> None:
        with pytest.raises(ParameterError, match="uri must be an address with a host and a port") as caught:
            MilvusStore(f"http://root:hush@{place}", "docs")
        assert f"http://{place}" in str(caught.value)
        assert "hush" not in str(caught.value)

    def test_a_missing_folder_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match=r"the folder \S+/nowhere does not exist; create it first"):
            MilvusStore(tmp_path / "nowhere" / "rag.db", "docs")

    def test_missing_files_are_told_from_addresses(self, tmp_path: Path) -> None:
        assert is_missing_file(tmp_path / "rag.db")
        assert not is_missing_file("tcp://host")
        (tmp_path / "rag.db").touch()
        assert not is_missing_file(str(tmp_path / "rag.db"))


class TestNames:
    @pytest.mark.parametrize("name", ["", "1a", "a b", "a-b", "é", "a" * 241, "a;drop", 'a"', None])
    def test_letters_digits_and_underscores_only(self, tmp_path: Path, name: Any) -> None:
        with pytest.raises(ParameterError, match="collection must be ASCII letters, digits and underscores"):
            MilvusStore(tmp_path / "rag.db", name)

    @pytest.mark.parametrize("name", ["collection_meta", "BM25_stats", "token_doc_count", "sqlite_x"])
    def test_tables_of_the_engine_are_reserved(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(ParameterError, match="collection must not be one of bm25_stats, collection_meta"):
            MilvusStore(tmp_path / "rag.db", name)


class TestServer:
    @pytest.mark.parametrize("level", ["strong", "", "Customized", None])
    def test_a_level_of_consistency_that_there_is_not_is_refused(self, level: Any, tmp_path: Path) -> None:
        with pytest.raises(ParameterError, match=f"consistency must be one of Strong, .*, Eventually, got {level!r}"):
            MilvusStore(tmp_path / "rag.db", "docs", consistency=level)

    def test_an_address_nobody_listens_on_is_named_without_secrets(self) -> None:
        with engines.refusing_port() as port, pytest.raises(StoreError) as caught:
            MilvusStore(f"http://user:hush@127.0.0.1:{port}/base", "docs", token="psst", timeout=0.5)
        place = f"http://127.0.0.1:{port}/base"
        expected = rf"cannot reach Milvus at {place}, tried for \d+\.\d s: nothing listens on that port; check"
        assert re.match(expected, str(caught.value))
        assert not {"hush", "psst"} & set(str(caught.value).replace(":", " ").split())

    def test_a_name_that_nobody_knows_is_told_from_a_port_that_nobody_has(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unknown(*_: object, **__: object) -> None:
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr(server, "connect_client", Mock(side_effect=lambda _, what, **__: fail(what)))
        monkeypatch.setattr(socket, "create_connection", unknown)
        with pytest.raises(StoreError, match=r"at http://nowhere, tried .* s: the name 'nowhere' is not known"):
            MilvusStore("http://nowhere", "docs")

    @pytest.mark.parametrize("uri", ["http://", "https://:19530", "tcp:///base", "http://user:hush@"])
    def test_an_address_without_a_host_is_refused_at_once(self, uri: str) -> None:
        with pytest.raises(
            ParameterError, match="uri must be an address with a host, as in http://localhost"
        ) as caught:
            MilvusStore(uri, "docs")
        assert "hush" not in str(caught.value)

    @pytest.mark.parametrize("form", SECRET_PLACES)
    def test_a_secret_is_never_shown_wherever_it_stands(
        self, form: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        caplog.set_level(1)
        with engines.refusing_port() as port:
            uri = form.replace("H", f"127.0.0.1:{port}").replace("S", SECRET)
            token = SECRET if form == "http://H" else None
            shown: list[str] = []
            for opened in (MilvusStore, BM25Index.open, open_external):
                with pytest.raises(RagBM25Error) as caught:
                    opened(uri, "docs", token=token, timeout=0.2)
                shown += ["".join(traceback.format_exception(caught.value)), repr(caught.value), str(caught.value)]
        assert not [text for text in shown if SECRET in text]
        assert SECRET not in caplog.text
        assert SECRET not in "".join(capfd.readouterr())

    def test_no_connection_shows_its_secrets(self) -> None:
        connection = Connection("http://user:hush@host/base", "psst")
        assert repr(connection) == str(connection) == "Connection('http://host/base')"

    def test_a_server_that_never_answers_is_given_up(self) -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            with pytest.raises(StoreError, match=r"tried for \d\.\d s: something listens"):
                MilvusStore(f"tcp://127.0.0.1:{silent.getsockname()[1]}", "docs", timeout=0.5)

    def test_a_forked_child_leaves_the_connection_to_its_parent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        client = Mock()
        monkeypatch.setattr(server, "connect_client", lambda *_, **__: client)
        one = server.Server(Connection("http://host"))
        with monkeypatch.context() as child:
            child.setattr(os, "getpid", lambda: 0)
            one.close()
            with pytest.raises(StoreError, match="Milvus at http://host was opened before a fork; open it again"):
                one.read("list_collections")
        assert client.mock_calls == []
        one.close()
        assert client.mock_calls == [call.close()]


def assert_waits(second: DatabaseLock, told: str, first: DatabaseLock) -> None:
    """Check that a lock is had while another one is not, and who has it is told."""
    first.acquire()
    with pytest.raises(StoreLockedError, match=told):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


class TestLock:
    def test_a_second_holder_is_refused_and_told_the_first(self, tmp_path: Path) -> None:
        first, second = DatabaseLock(tmp_path / "rag.db"), DatabaseLock(tmp_path / "rag.db")
        told = (
            f"^{tmp_path}/rag.db is open in process {os.getpid()} on {socket.gethostname()}; an embedded database "
            "serves one process at a time: close it there, or use a Milvus server$"
        )
        assert_waits(second, told, first)

    @pytest.mark.skipif(sys.platform != "linux", reason="commands of Linux")
    @pytest.mark.parametrize("of", ["", f" on {socket.gethostname()}", ", maybe under another name", " on elsewhere"])
    @pytest.mark.parametrize("address", ["127.0.0.1:8765", "127.0.0.1:0"])
    def test_a_server_that_holds_it_is_named_with_its_address(self, tmp_path: Path, of: str, address: str) -> None:
        command = [
            sys.executable,
            "-c",
            "print(flush=True); input()",
            "serve",
            "--uri",
            "rag.db",
            "--http",
            address,
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            server.stdout.readline()
            told = refusal(tmp_path, f"process {server.pid}{of}")
            is_known = "elsewhere" not in of and not address.endswith(":0")
            assert ("ask `rag-bm25 serve` at 127.0.0.1:8765" in told) == is_known
            assert ("close it there" in told) != is_known
            server.communicate(b"\n")
        assert "close it there" in refusal(tmp_path, f"process {server.pid}")

    def test_releasing_leaves_no_owner(self, tmp_path: Path) -> None:
        lock = DatabaseLock(tmp_path / "rag.db")
        lock.acquire()
        lock.release()
        lock.release()
        assert [file.name for file in tmp_path.iterdir()] == ["rag.db.lock"]

    @pytest.mark.skipif(sys.platform != "linux", reason="locks of Linux")
    def test_a_hard_link_is_locked_with_its_file(self, tmp_path: Path) -> None:
        (tmp_path / "rag.db").touch()
        (tmp_path / "link.db").hardlink_to(tmp_path / "rag.db")
        first, second = DatabaseLock(tmp_path / "rag.db"), DatabaseLock(tmp_path / "link.db")
        assert_waits(second, rf"link\.db is open in process {os.getpid()}, maybe under another", first)

    @pytest.mark.skipif(sys.platform != "linux", reason="locks of Linux")
    def test_a_folder_is_locked_under_all_its_names(self, tmp_path: Path) -> None:
        (tmp_path / "rag.db").mkdir()
        (tmp_path / "mount.db").symlink_to(tmp_path / "rag.db")  # paths of the package are resolved, mounts are not
        first, second = DatabaseLock(tmp_path / "rag.db"), DatabaseLock(tmp_path / "mount.db")
        assert_waits(second, r"mount\.db is open in another process, maybe under another name", first)

    @pytest.mark.skipif(sys.platform != "linux", reason="locks of Linux")
    def test_it_does_not_meet_the_locks_of_sqlite(self, tmp_path: Path) -> None:
        lock = DatabaseLock(tmp_path / "rag.db")
        (tmp_path / "rag.db").touch()
        lock.acquire()
        lock_all = "begin exclusive; create table t (n); end"
        code = f"import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript({lock_all!r})"
        subprocess.run([sys.executable, "-c", code, tmp_path / "rag.db"], check=True)
        lock.release()

    def test_a_file_system_without_such_locks_has_that_beside_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def control(*_: object) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr("rag_bm25.store.milvus.inode_lock.fcntl.fcntl", control)
        (tmp_path / "rag.db").touch()
        first, second = DatabaseLock(tmp_path / "rag.db"), DatabaseLock(tmp_path / "rag.db")
        assert_waits(second, rf"is open in process {os.getpid()} on", first)

    def test_nothing_is_written_through_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "victim").write_text("kept")
        (tmp_path / "rag.db.owner").symlink_to(tmp_path / "victim")
        lock = DatabaseLock(tmp_path / "rag.db")
        lock.acquire()
        assert (tmp_path / "victim").read_text() == "kept"
        lock.release()
        (tmp_path / "rag.db.lock").unlink()
        (tmp_path / "rag.db.lock").symlink_to(tmp_path / "victim")
        with pytest.raises(StoreError, match=r"cannot lock .*rag\.db: .*symbolic link"):
            lock.acquire()
        assert (tmp_path / "victim").read_text() == "kept"

    def test_a_folder_without_permission_is_a_store_error(self, tmp_path: Path) -> None:
        (tmp_path / "rag.db.lock").mkdir()
        with pytest.raises(StoreError, match=r"cannot lock .*rag\.db: .*; check that its folder is writable"):
            DatabaseLock(tmp_path / "rag.db").acquire()

    @pytest.mark.skipif(sys.platform != "linux", reason="a folder of Linux")
    def test_a_folder_that_takes_no_files_is_told_from_a_lock(self) -> None:
        with pytest.raises(StoreError, match=r"cannot lock /proc/rag\.db: its folder takes no lock file"):
            DatabaseLock(Path("/proc/rag.db")).acquire()


class TestExtras:
    def test_without_milvus_lite_the_extra_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(name: str) -> str:
            raise metadata.PackageNotFoundError(name)

        monkeypatch.setattr(metadata, "version", missing)
        with pytest.raises(MissingExtraError, match="milvus-lite, which is not installed: pip install"):
            MilvusStore(tmp_path / "rag.db", "docs")

    def test_milvus_uri_is_nothing_to_the_library(self) -> None:
        script = "from rag_bm25.store.milvus import engine; import os; print(os.environ['MILVUS_URI'])"
        done = run_python(script, env=environment(MILVUS_URI="./rag.db"))
        assert (done.stdout, done.stderr, done.returncode) == ("./rag.db\n", "", 0)

    def test_importing_the_store_imports_no_client(self) -> None:
        code = "import sys, rag_bm25.store.milvus; print({'pymilvus', 'milvus_lite', 'grpc'} & set(sys.modules))"
        assert run_python(code).stdout == "set()\n"


@embedded
class TestEmbedded:
    def test_another_collection_under_the_name_is_a_format_error(self, tmp_path: Path) -> None:
        docs = MilvusStore(tmp_path / "rag.db", "docs")
        docs.create()
        log = MilvusStore(tmp_path / "rag.db", "docs_bm25")
        with pytest.raises(
            FormatError, match=r"collection 'docs_bm25' is not one of an index .*key \(is VARCHAR, must be absent"
        ):
            log.exists()
        with pytest.raises(FormatError, match=r"pk \(is missing, must be VARCHAR\)"):
            log.create()
        log.close()
        docs.close()

    def test_an_idle_connection_is_not_pinged(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from rag_bm25.store.milvus import engine as module

        given: list[dict[str, Any]] = []
        connect = module.Client
        monkeypatch.setattr(module, "Client", lambda uri, **options: given.append(options) or connect(uri, **options))
        MilvusStore(tmp_path / "rag.db", "docs").close()
        assert [options["grpc_options"]["grpc.keepalive_time_ms"] for options in given] == [2**31 - 1]

    def test_an_interrupted_create_is_completed(self, tmp_path: Path) -> None:
        store = MilvusStore(tmp_path / "rag.db", "docs")
        store.create()
        store._open.write("drop_collection", "docs_bm25")
        assert not store.exists()
        store.create()
        assert store.exists()
        store.close()

    def test_an_interrupted_create_with_dense_vectors_is_completed_with_the_same(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = MilvusStore(tmp_path / "rag.db", "docs")
        engine, write, steps = store._open, store._open.write, iter(["create_collection", "create_index"])
        monkeypatch.setattr(engine, "write", lambda *args, **kwargs: next(steps) and write(*args, **kwargs))
        with pytest.raises(StopIteration):
            store.create(DenseField(4, "IP"))
        monkeypatch.undo()
        assert (store.exists(), store.dense_dim()) == (False, 4)
        for other in (None, DenseField(5, "IP")):
            with pytest.raises(FormatError, match=r"dense \(is FLOAT_VECTOR\(4\), must be"):
                store.create(other)
        store.create(DenseField(4, "IP"))
        assert store.exists()
        store.insert_chunks([ChunkRow("a", "a", "", 1, "b", "", {}, ONE, np.ones(4, np.float32))])
        assert store.search(np.ones((1, 4), np.float32), SearchArm(1, metric="IP"))[0][0].score == 4.0
        store.close()

    def test_reading_only_refuses_every_write(self, tmp_path: Path) -> None:
        store = MilvusStore(tmp_path / "rag.db", "docs")
        store.create()
        store.close()
        store = MilvusStore(tmp_path / "rag.db", "docs", read_only=True)
        assert (store.exists(), store.count_chunks(), store.log_keys()) == (True, 0, [])
        for write in (
            store.create,
            store.drop,
            lambda: store.insert_chunks([ChunkRow("a", "a", "", 1, "b")]),
            lambda: store.insert_log([LogRow("k", "delta")]),
            lambda: store.delete_chunks(["a"]),
            lambda: store.delete_log(["k"]),
        ):
            with pytest.raises(ReadOnlyError, match=r"collection 'docs' was opened read-only"):
                write()
        store.close()

    def test_reading_only_makes_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(IndexNotFoundError, match=r"database .*rag\.db not found"):
            MilvusStore(tmp_path / "rag.db", "docs", read_only=True)
        assert list(tmp_path.iterdir()) == []

    def test_names_have_engine_place_and_collection(self, tmp_path: Path) -> None:
        store = MilvusStore(str(tmp_path / "rag.db"), "docs")
        assert store.exclusive
        assert store.name.endswith(f" at {tmp_path}/rag.db, collection 'docs'")
        store.close()
        assert store.name.startswith("milvus-lite")


class TestOtherContents:
    """What is no database of an embedded engine is refused before one of them starts."""

    @pytest.mark.parametrize("contents", ["notes\n", "SQLite format 2", "\0" * 4096])
    def test_a_file(self, tmp_path: Path, contents: str) -> None:
        path = tmp_path / "notes.db"
        path.write_text(contents)
        for read_only in (False, True):
            with pytest.raises(
                StoreError, match=r"notes\.db is no database: it does not begin as the files of milvus-"
            ):
                MilvusStore(path, "docs", read_only=read_only)
        assert (path.read_text(), list(tmp_path.iterdir())) == (contents, [path])

    def test_a_folder(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.db"
        path.mkdir()
        (path / "notes.txt").touch()
        with pytest.raises(StoreError, match=r"notes\.db is no database: the folder has other files"):
            MilvusStore(path, "docs")
        assert list(tmp_path.rglob("*")) == [path, path / "notes.txt"]

    def test_a_pipe(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.db")
        with pytest.raises(StoreError, match=r"pipe\.db is no database: it is a pipe"):
            MilvusStore(tmp_path / "pipe.db", "docs", read_only=True)

    @pytest.mark.parametrize("name", ["LOCK", "collections", "databases"])
    def test_databases_are_left_to_the_engines(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "folder.db").mkdir()
        require_database(tmp_path / "folder.db")
        (tmp_path / "folder.db" / name).mkdir()
        (tmp_path / "empty.db").touch()
        (tmp_path / "file.db").write_bytes(b"SQLite format 3\0and more")
        for database in ("folder.db", "empty.db", "file.db", "missing.db"):
            require_database(tmp_path / database)
