"""The engines that stores are tested on, and how to open a store on each.

``open_store("embedded", tmp_path)`` works with whatever milvus-lite is installed. ``"server"`` needs a Python that has
milvus-lite 3, named by ``--lite3-python`` or ``RAG_BM25_LITE3_PYTHON``; ``"docker"`` needs a Docker engine.
"""

from __future__ import annotations

import functools
import hashlib
import os
import socket
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from memory_store import Collections, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rag_bm25.store import Store

ENGINES = ["memory", "embedded", "server", pytest.param("docker", marks=pytest.mark.docker)]
closing = ExitStack()  # ends what the functions below have started, after the last test
# The port is chosen by whoever listens on it, so that nobody else can have it; and the server ends with its parent.
SERVE = """
import sys
from milvus_lite.adapter.grpc.server import start_server_in_thread
started = start_server_in_thread(sys.argv[1])
print(started[2], flush=True)
sys.stdin.read()
"""
lite3_python = os.environ.get("RAG_BM25_LITE3_PYTHON", "")


def open_store(engine: str, tmp_path: Path, name: str = "docs", **options: Any) -> Store:
    """Open a store; the same engine, folder and name give the same rows."""
    if engine == "memory":
        return MemoryStore(collections=_memory(tmp_path, name))
    from rag_bm25.milvus_store import MilvusStore

    if engine == "embedded":
        return MilvusStore(tmp_path / "test.db", name, **options)
    uri = {"server": server_uri, "docker": docker_uri, "shared": shared_file}[engine]()
    if engine != "shared":
        options = {"timeout": 60, **options}  # the machine may be busy
    own = hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]
    return MilvusStore(uri, f"{name}_{own}", **options)


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
    return {"memory": "memory", "server": "lite3", "docker": "milvus"}[engine]


@functools.cache
def _memory(tmp_path: Path, name: str) -> Collections:
    return Collections()


@functools.cache
def shared_file() -> str:
    """Start one embedded engine for all tests that do not need one of their own: it takes half a second."""
    from rag_bm25.milvus_store import MilvusStore

    folder = tempfile.TemporaryDirectory(prefix="lite-")
    keeper = MilvusStore(Path(folder.name) / "test.db", "keeper")
    closing.callback(folder.cleanup)
    closing.callback(keeper.close)
    return f"{folder.name}/test.db"


@functools.cache
def server_uri() -> str:
    """Start one server of milvus-lite 3 for all tests; it ends with them."""
    if not lite3_python:
        pytest.skip("no Python with milvus-lite 3 named by --lite3-python or RAG_BM25_LITE3_PYTHON")
    folder = tempfile.TemporaryDirectory(prefix="lite3-")
    process = subprocess.Popen(
        [lite3_python, "-c", SERVE, folder.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    closing.callback(folder.cleanup)
    closing.enter_context(process)
    closing.callback(process.kill)
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    assert port, f"milvus-lite 3 of {lite3_python} does not start"
    return f"http://127.0.0.1:{port}"


@functools.cache
def docker_uri() -> str:
    """Start one Milvus standalone for all tests."""
    if not os.environ.get("DOCKER_HOST") and not Path("/var/run/docker.sock").exists():
        pytest.skip("no Docker engine here: neither DOCKER_HOST nor /var/run/docker.sock")
    pytest.importorskip("testcontainers.community.milvus")
    from docker.errors import DockerException
    from testcontainers.community.milvus import MilvusContainer

    try:
        container = MilvusContainer("milvusdb/milvus:v2.6.4")
        container.start()
    except DockerException as error:
        pytest.skip(f"no Docker engine answers: {error}")
    closing.callback(container.stop)
    return str(container.get_connection_url())


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else gets meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
