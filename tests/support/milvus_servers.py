"""Servers that a test can lose and bring back: milvus-lite 3 and Milvus 2.3.5 in a process, others in a container."""

from __future__ import annotations

import gc
import http.client
import os
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol
from urllib.request import urlopen

import pytest

from support import engines, sparse_shim
from support.engines import MILVUS
from support.proxy import Proxy

PORT, HEALTH_PORT = 19530, 9091
SECONDS = 300  # that a container may take to start, on a machine with much else to do
# The port is chosen by whoever listens on it, so that nobody else can have it; and the server ends with its parent.
SERVE = """
import sys
from milvus_lite.adapter.grpc.server import start_server_in_thread
started = start_server_in_thread(sys.argv[1])
print(started[2], flush=True)
sys.stdin.read()
"""
# As Milvus's own script for one container has it: etcd within, and files in place of MinIO.
STANDALONE = {
    "ETCD_USE_EMBED": "true",
    "ETCD_DATA_DIR": "/var/lib/milvus/etcd",
    "ETCD_CONFIG_PATH": "/milvus/test/etcd.yaml",
    "COMMON_STORAGETYPE": "local",
    "DEPLOY_MODE": "STANDALONE",
}
ETCD = """
listen-client-urls: http://0.0.0.0:2379
advertise-client-urls: http://0.0.0.0:2379
quota-backend-bytes: 4294967296
auto-compaction-mode: revision
auto-compaction-retention: '1000'
"""
AUTHORIZED = {"COMMON_SECURITY_AUTHORIZATIONENABLED": "true"}
LIMITED = {
    "QUOTAANDLIMITS_ENABLED": "true",
    "QUOTAANDLIMITS_DML_ENABLED": "true",
    "QUOTAANDLIMITS_DML_INSERTRATE_MAX": "0.02",  # MB a second
}
QUICK = {  # milliseconds between two ticks, which each strongly consistent read waits for, and between two checks
    "PROXY_TIMETICKINTERVAL": "20",
    "QUERYCOORD_CHECKINTERVAL": "50",
    "QUERYCOORD_DISTPULLINTERVAL": "50",
}
# Seconds until a part of it is taken for dead: many on a busy machine, few where the next start waits for that.
PATIENT, KILLED = {"COMMON_SESSION_TTL": "600"}, {"COMMON_SESSION_TTL": "20"}
ROOT_TOKEN = "root:Milvus"


class MilvusServer(Protocol):
    """A server that can be ended and started again; its address may change with that."""

    uri: str

    def kill(self) -> None:
        """End it at once, whatever it is doing."""

    def start(self) -> None:
        """Start it, with what it has stored, and wait until it answers."""

    def close(self) -> None:
        """End it, and forget what it has stored."""


class Restartable:
    """A server behind an address that stays the same."""

    def __init__(self, server: MilvusServer) -> None:
        self._server = server
        self._proxy = Proxy(server.uri)
        self.uri = self._proxy.uri

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        self._proxy.cut()
        self._server.kill()

    def start(self) -> None:
        """Start it, with what it has stored, and wait until it answers."""
        self._server.start()
        self._proxy.mend(self._server.uri)

    def close(self) -> None:
        """End it, and forget what it has stored."""
        self._proxy.close()
        self._server.close()


class ProcessServer:
    """A server in a process, with what it has stored in a temporary folder."""

    _folder: tempfile.TemporaryDirectory[str]
    _process: subprocess.Popen[str]

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        self.kill()
        self._folder.cleanup()


class LiteServer(ProcessServer):
    """milvus-lite 3, run by another Python."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._folder = tempfile.TemporaryDirectory(prefix="lite3-")
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [self._python, "-c", SERVE, self._folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip()
        assert port, f"milvus-lite 3 of {self._python} does not start"
        self.uri = f"http://127.0.0.1:{port}"


class PackagedServer(ProcessServer):
    """Milvus 2.3.5 of the package `milvus`, alone in a network of its own; `settings` are environment variables."""

    def __init__(self, python: str, settings: Mapping[str, str]) -> None:
        sparse_shim.install()
        self._python = python
        self._settings = {**QUICK, **PATIENT, **settings}
        self._folder = tempfile.TemporaryDirectory(prefix="milvus-")
        self.start()

    def start(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.uri = f"http://127.0.0.1:{listener.getsockname()[1]}"
            program = [self._python, str(Path(__file__).with_name("milvus_235.py"))]
            self._process = subprocess.Popen(
                ["unshare", "--map-root-user", "--net", *program, self._folder.name, str(listener.fileno())],
                env={**os.environ, **self._settings},
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            pytest.fail(f"Milvus 2.3.5 does not start: {self._process.communicate()[1][-2000:]}")


class ContainerServer:
    """Milvus standalone in a container of its own.

    Parameters
    ----------
    version : str
        One of those in ``engines.MILVUS``.
    settings : dict of str to str
        Of Milvus, as environment variables.
    files : dict of str to Path
        What is put under ``/milvus/test``, by name.
    """

    def __init__(self, version: str, *, settings: Mapping[str, str], files: Mapping[str, Path]) -> None:
        from testcontainers.core.container import DockerContainer

        self._folder = tempfile.TemporaryDirectory(prefix="milvus-")
        folder = Path(self._folder.name)
        contents = {"etcd.yaml": ETCD, **{name: path.read_text() for name, path in files.items()}}
        for name, text in contents.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o644)  # Milvus 3 is not root in there
        folder.chmod(0o755)
        container = DockerContainer(f"milvusdb/milvus:{MILVUS[version]}").with_command("milvus run standalone")
        container.with_kwargs(security_opt=["seccomp=unconfined"]).with_volume_mapping(
            str(folder), "/milvus/test", "ro"
        )
        container.with_exposed_ports(PORT, HEALTH_PORT)
        for name, value in {**STANDALONE, **settings}.items():
            container.with_env(name, value)
        self._container = container.start()
        self._scheme = "https" if "COMMON_SECURITY_TLSMODE" in settings else "http"
        self._wait()

    def kill(self) -> None:
        self._container.get_wrapped_container().kill()

    def start(self) -> None:
        self._container.get_wrapped_container().start()
        self._wait()

    def close(self) -> None:
        self._container.stop()
        self._folder.cleanup()

    def _wait(self) -> None:
        """Return once Milvus says that it is well; start it again where it has given up over its own etcd."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            container = self._container.get_wrapped_container()
            container.reload()
            if container.status == "exited":
                container.start()
            elif self._is_well():
                self.uri = f"{self._scheme}://{self._place(PORT)}"
                return
            time.sleep(1)
        pytest.fail(f"Milvus is not well after {SECONDS} s:\n{self._container.get_wrapped_container().logs(tail=50)}")

    def _is_well(self) -> bool:
        try:
            with urlopen(f"http://{self._place(HEALTH_PORT)}/healthz", timeout=5) as answer:
                return bool(answer.status == http.client.OK)
        except (OSError, http.client.HTTPException):  # that of Docker's client among them
            return False

    def _place(self, port: int) -> str:
        """Return host and port: Docker chooses another one whenever it starts the container."""
        return f"{self._container.get_container_host_ip()}:{self._container.get_exposed_port(port)}"


def restartable(engine: str) -> Restartable:
    """Start a server of an engine for one test, or skip it."""
    return Restartable(start(engine, settings=KILLED))


def start(
    engine: str, *, settings: Mapping[str, str] = MappingProxyType({}), files: Mapping[str, Path] | None = None
) -> MilvusServer:
    """Start a server of an engine, or skip the test where it cannot be had."""
    if engine == "server":
        if not engines.lite3_python:
            pytest.skip("no Python with milvus-lite 3 named by --lite3-python or RAG_BM25_LITE3_PYTHON")
        return LiteServer(engines.lite3_python)
    if engine == engines.PACKAGED:
        return _packaged(settings)
    return _container(engine.removeprefix("docker-"), settings=settings, files=files or {})


@contextmanager
def serving(engine: str, settings: Mapping[str, str]) -> Iterator[str]:
    """Start a server for one test, and give its address."""
    server = start(engine, settings=settings)
    yield server.uri
    server.close()


def _packaged(settings: Mapping[str, str]) -> PackagedServer:
    if not engines.milvus_python:
        pytest.skip("no Python with the package milvus 2.3.5 named by RAG_BM25_MILVUS_PYTHON")
    made = subprocess.run(["unshare", "--map-root-user", "--net", "true"], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no leave to make a network for the server alone: {made.stderr.strip()}")
    return PackagedServer(engines.milvus_python, settings)


def _container(version: str, **options: Any) -> ContainerServer:
    """Start a container, or skip the test where there is no Docker engine."""
    if not os.environ.get("DOCKER_HOST") and not Path("/var/run/docker.sock").exists():
        pytest.skip("no Docker engine here: neither DOCKER_HOST nor /var/run/docker.sock")
    pytest.importorskip("testcontainers.core.container")
    if not _docker_answers():
        pytest.skip("no Docker engine answers")
    return ContainerServer(version, **options)


def _docker_answers() -> bool:
    import docker

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the client leaves its socket open where nobody answers
        with suppress(docker.errors.DockerException):
            return bool(docker.from_env().ping())
        gc.collect()
    return False
