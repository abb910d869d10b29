"""The engines that stores are tested on, and how to open a store on each.

``open_store("embedded", tmp_path)`` works with whatever milvus-lite is installed. ``"server"`` needs a Python that has
milvus-lite 3, named by ``--lite3-python`` or ``RAG_BM25_LITE3_PYTHON``; ``"milvus-2.3.5"``, a Milvus server, one that
has the package `milvus`, named by ``RAG_BM25_MILVUS_PYTHON``. ``"docker-2.6"`` and the like need a Docker engine, and
are those that ``RAG_BM25_MILVUS_VERSIONS`` names: ``2.5,2.6,3.0`` for all of them.
"""

from __future__ import annotations

import functools
import hashlib
import os
import socket
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rag_bm25.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rag_bm25.store.protocol import Store

closing = ExitStack()  # ends what the functions below have started, after the last test
MILVUS = {"2.5": "v2.5.27", "2.6": "v2.6.25", "3.0": "v3.0.2"}
VERSIONS = os.environ.get("RAG_BM25_MILVUS_VERSIONS", "2.6").split(",")
SLOW = [pytest.mark.docker, pytest.mark.timeout(1800)]  # the first one fetches the image
DOCKER = [pytest.param(f"docker-{version}", marks=SLOW) for version in VERSIONS]
PACKAGED = "milvus-2.3.5"  # the newest server that is a package; it has no sparse vectors
SERVERS = [PACKAGED, *DOCKER]
NOT_SHOWN_BY_PACKAGED = {  # tests, by the beginnings of their names, and why
    "test_errors_are_the_same_by_column": "has no sparse field",
    "test_rows_that_lack_a_field": "has no sparse field",
    "test_collections_of_others_are_not_dropped": "has no sparse field",
    "test_scores_do_not_depend_on_the_number_of_shards": "has no sparse field",
    "test_what_is_asked_for_is_built_and_shown": "has no sparse index",
    "test_a_creation_that_was_cut_short": "has no sparse index",
    "test_a_bad_filter_is_a_filter_error": "2.3 has one code for all errors",
    "test_a_bad_expression_is_a_filter_error": "2.3 has one code for all errors",
    "test_every_condition_means_the_same": "2.3 knows patterns of prefixes alone",
    "test_every_opposite_means_the_same": "2.3 knows patterns of prefixes alone",
    "test_a_word_restricts_the_rows": "2.3 knows patterns of prefixes alone",
    "test_every_write_is_visible_at_once": "the reply of 2.3 to a deletion has no time for a session to wait for",
    "test_replacing_and_deleting_move_both_vectors": "as above",
    "test_a_vector_of_zeros_is_like_nothing": "its index leaves out vectors without a direction",
    "test_the_built_in_group": "2.3 has no groups of privileges",
    "test_encrypted_connection": "the certificates are given to a container",
    "test_server_that_asks_for_the_certificate": "the certificates are given to a container",
}
ENGINES = ["memory", "embedded", "server", *SERVERS]
milvus_python = os.environ.get("RAG_BM25_MILVUS_PYTHON", "")
lite3_python = os.environ.get("RAG_BM25_LITE3_PYTHON", "")


def open_store(engine: str, tmp_path: Path, name: str = "docs", **options: Any) -> Store:
    """Open a store; the same engine, folder and name give the same rows."""
    if engine == "memory":
        return _memory(tmp_path, name).reopen()
    from rag_bm25.store.milvus import MilvusStore

    if engine == "embedded":
        return MilvusStore(tmp_path / "test.db", name, **options)
    uri = shared_file() if engine == "shared" else uri_of(engine)
    if engine != "shared":
        options = {"timeout": 60, **options}  # the machine may be busy
    own = hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]
    return MilvusStore(uri, f"{name}_{own}", **options)


def reason_not_shown(test: str) -> str:
    """Return why the packaged Milvus cannot show what a test asserts, "" where it can."""
    return next((reason for name, reason in NOT_SHOWN_BY_PACKAGED.items() if test.startswith(name)), "")


def lite_version() -> str:
    """Version of the milvus-lite that is installed, "" without."""
    try:
        return metadata.version("milvus-lite")
    except metadata.PackageNotFoundError:
        return ""


def dialect_of(engine: str) -> str:
    """Which family of engines answers: memory, lite2, lite3 or milvus."""
    if engine == "embedded":
        return "lite2" if lite_version().startswith("2.") else "lite3"
    return {"memory": "memory", "server": "lite3"}.get(engine, "milvus")


def uri_of(engine: str) -> str:
    """Return the address of a server, started for all tests."""
    return server_uri() if engine == "server" else _milvus_uri(engine)


@functools.cache
def _memory(tmp_path: Path, name: str) -> MemoryStore:
    return MemoryStore(name)


@functools.cache
def shared_file() -> str:
    """Start one embedded engine for all tests that do not need one of their own: it takes half a second."""
    from rag_bm25.store.milvus import MilvusStore

    folder = tempfile.TemporaryDirectory(prefix="lite-")
    keeper = MilvusStore(Path(folder.name) / "test.db", "keeper")
    closing.callback(folder.cleanup)
    closing.callback(keeper.close)
    return f"{folder.name}/test.db"


@functools.cache
def server_uri() -> str:
    """Start one server of milvus-lite 3 for all tests; it ends with them."""
    return _milvus_uri("server")


@functools.cache
def _milvus_uri(engine: str) -> str:
    """Start one Milvus for all tests; it ends with them."""
    from support.milvus_servers import start

    server = start(engine)
    closing.callback(server.close)
    return server.uri


@functools.cache
def shared_socket() -> str:
    """Return the address at which the engine of `shared_file` serves, for other clients; only with milvus-lite 2.5."""
    from rag_bm25.store.milvus import opening

    path = Path(shared_file()).resolve()
    (engine,) = (engine for engine in opening._open.values() if engine.path.resolve() == path)
    return str(engine.client._config.uri)


def raw_client(uri: str) -> Any:
    """Connect with pymilvus alone, which gives up where the embedded engine takes more than a moment to start."""
    from pymilvus import MilvusClient
    from pymilvus.exceptions import MilvusException

    for _ in range(20):
        with suppress(MilvusException):
            return MilvusClient(uri)
        time.sleep(0.5)
    return MilvusClient(uri)


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else gets meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
