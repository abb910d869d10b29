"""Servers that a test can lose and bring back: milvus-lite 3 in a process, Milvus standalone in a container."""

from __future__ import annotations

import gc
import http.client
import os
import subprocess
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.request import urlopen

import pytest

from support import engines
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


class LiteServer:
    """milvus-lite 3, run by another Python."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._folder = tempfile.TemporaryDirectory(prefix="lite3-")
        self.start()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

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

    def close(self) -> None:
        self.kill()
        self._folder.cleanup()


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

    def __init__(
        self, version: str, *, settings: dict[str, str] | None = None, files: dict[str, Path] | None = None
    ) -> None:
        from testcontainers.core.container import DockerContainer

        self._folder = tempfile.TemporaryDirectory(prefix="milvus-")
        folder = Path(self._folder.name)
        contents = {"etcd.yaml": ETCD, **{name: path.read_text() for name, path in (files or {}).items()}}
        for name, text in contents.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o644)  # Milvus 3 is not root in there
        folder.chmod(0o755)
        container = DockerContainer(f"milvusdb/milvus:{MILVUS[version]}").with_command("milvus run standalone")
        container.with_kwargs(security_opt=["seccomp=unconfined"]).with_volume_mapping(
            str(folder), "/milvus/test", "ro"
        )
        container.with_exposed_ports(PORT, HEALTH_PORT)
        for name, value in {**STANDALONE, **(settings or {})}.items():
            container.with_env(name, value)
        self._container = container.start()
        self._scheme = "https" if "COMMON_SECURITY_TLSMODE" in (settings or {}) else "http"
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
    if engine != "server":
        return Restartable(container(engine.removeprefix("docker-")))
    engines.server_uri()  # skips where there is none
    return Restartable(LiteServer(engines.lite3_python))


def container(version: str, **options: Any) -> ContainerServer:
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
