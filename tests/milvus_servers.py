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
from urllib.error import URLError
from urllib.request import urlopen

import engines
import pytest
from engines import MILVUS, free_port, wait_for_port

SECONDS = 300  # that a container may take to start, on a machine with much else to do
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
    """A server with an address that outlives a restart."""

    uri: str

    def kill(self) -> None:
        """End it at once, whatever it is doing."""

    def start(self) -> None:
        """Start it, with what it has stored, and wait until it answers."""

    def close(self) -> None:
        """End it, and forget what it has stored."""


class LiteServer:
    """milvus-lite 3, run by another Python."""

    def __init__(self, python: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lite3-")
        self._port = free_port()
        place = ["--host", "127.0.0.1", "--port", str(self._port), "--data-dir", self._folder.name]
        self._command = [python, "-m", "milvus_lite", "server", *place]
        self.uri = f"http://127.0.0.1:{self._port}"
        self.start()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(self._command, **quiet)
        wait_for_port(self._port)

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
        port, self._health_port = free_port(), free_port()  # chosen here, since Docker would choose anew at a restart
        container = DockerContainer(f"milvusdb/milvus:{MILVUS[version]}").with_command("milvus run standalone")
        container.with_kwargs(security_opt=["seccomp=unconfined"]).with_volume_mapping(
            str(folder), "/milvus/test", "ro"
        )
        container.with_bind_ports(19530, port).with_bind_ports(9091, self._health_port)
        for name, value in {**STANDALONE, **(settings or {})}.items():
            container.with_env(name, value)
        self._container = container.start()
        self._host = self._container.get_container_host_ip()
        scheme = "https" if "COMMON_SECURITY_TLSMODE" in (settings or {}) else "http"
        self.uri = f"{scheme}://{self._host}:{port}"
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
            if self._is_well():
                return
            container = self._container.get_wrapped_container()
            container.reload()
            if container.status == "exited":
                container.start()
            time.sleep(1)
        pytest.fail(
            f"{self.uri} is not well after {SECONDS} s:\n{self._container.get_wrapped_container().logs(tail=50)}"
        )

    def _is_well(self) -> bool:
        try:
            with urlopen(f"http://{self._host}:{self._health_port}/healthz", timeout=5) as answer:
                return bool(answer.status == http.client.OK)
        except (URLError, OSError, http.client.HTTPException):
            return False


def start(engine: str) -> MilvusServer:
    """Start a server of an engine for one test, or skip it."""
    if engine != "server":
        return container(engine.removeprefix("docker-"))
    engines.server_uri()  # skips where there is none
    return LiteServer(engines.lite3_python)


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
