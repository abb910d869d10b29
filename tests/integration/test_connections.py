"""Connections over TCP: encrypted ones, and ones that are lost and come back."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support import engines, milvus_servers
from support.proxy import Proxy

from rag_bm25 import TLS, BM25Index, IndexConfig, StoreError
from rag_bm25.store.milvus.connection import Connection
from rag_bm25.store.milvus.server import connect

NAME = "milvus.test"
MILVUS_TLS = {"TLS_SERVERPEMPATH": "server.pem", "TLS_SERVERKEYPATH": "server.key", "TLS_CAPEMPATH": "ca.pem"}


def openssl(*arguments: str, folder: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority, and certificates of a server and of a client that it has signed."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")
    new = ("req", "-newkey", "rsa:2048", "-nodes", "-subj")
    openssl(*new, "/CN=authority", "-x509", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem", folder=folder)
    openssl(*new, "/CN=other", "-x509", "-days", "2", "-keyout", "other.key", "-out", "other.pem", folder=folder)
    (folder / "names").write_text(f"subjectAltName=DNS:{NAME}")
    for who in ("server", "client"):
        openssl(*new, f"/CN={who}", "-keyout", f"{who}.key", "-out", f"{who}.csr", folder=folder)
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{who}.csr", "-out", f"{who}.pem", *signing, folder=folder)
    return folder


class TLSProxy(Proxy):
    """Takes the encryption off, and passes on to a server that knows none."""

    def __init__(self, uri: str, certificates: Path, *, ask_for_client: bool = False) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
        self._context.set_alpn_protocols(["h2"])
        if ask_for_client:
            self._context.load_verify_locations(certificates / "ca.pem")
            self._context.verify_mode = ssl.CERT_REQUIRED
        super().__init__(uri)
        self.uri = self.uri.replace("http://", "https://")

    def _accepted(self, client: socket.socket) -> socket.socket:
        return self._context.wrap_socket(client, server_side=True)


@pytest.fixture(params=["server", *engines.SERVERS])
def encrypted(request: pytest.FixtureRequest, certificates: Path) -> Iterator[Callable[..., str]]:
    """Starts servers that encrypt."""
    started: list[TLSProxy | milvus_servers.MilvusServer] = []

    def start(*, ask_for_client: bool = False) -> str:
        if request.param == "server":
            uri = request.getfixturevalue("server_uri")
            started.append(TLSProxy(uri, certificates, ask_for_client=ask_for_client))
        else:
            files = {name: certificates / name for name in MILVUS_TLS.values()}
            settings = {name: f"/milvus/test/{file}" for name, file in MILVUS_TLS.items()}
            settings["COMMON_SECURITY_TLSMODE"] = "2" if ask_for_client else "1"
            started.append(milvus_servers.start(request.param, settings=settings, files=files))
        return started[-1].uri

    yield start
    for one in started:
        one.close()


def search(uri: str, tls: TLS | None, timeout: float = 60) -> list[str]:
    with BM25Index.open(uri, "encrypted", tls=tls, timeout=timeout, config=IndexConfig(chunk_size=9)) as index:
        index.add(["sparse vectors"], ids=["1"])
        return [hit.id for hit in index.search("sparse")]


def test_encrypted_connection(encrypted: Callable[..., str], certificates: Path) -> None:
    uri = encrypted()
    assert search(uri, TLS(ca_file=certificates / "ca.pem", server_name=NAME)) == ["1"]
    for tls in (None, TLS(ca_file=certificates / "other.pem", server_name=NAME), TLS(ca_file=certificates / "ca.pem")):
        with pytest.raises(StoreError, match=r"cannot reach Milvus at https://.* certificates"):
            search(uri, tls, timeout=5)


def test_server_that_asks_for_the_certificate_of_the_client(encrypted: Callable[..., str], certificates: Path) -> None:
    uri = encrypted(ask_for_client=True)
    own = {"cert_file": certificates / "client.pem", "key_file": certificates / "client.key"}
    assert search(uri, TLS(ca_file=certificates / "ca.pem", server_name=NAME, **own)) == ["1"]
    with pytest.raises(StoreError, match="cannot reach Milvus"):
        search(uri, TLS(ca_file=certificates / "ca.pem", server_name=NAME), timeout=5)


@pytest.fixture
def flaky(server_uri: str) -> Iterator[Proxy]:
    proxy = Proxy(server_uri)
    yield proxy
    proxy.close()


def test_reading_goes_on_when_a_lost_connection_comes_back(flaky: Proxy) -> None:
    with BM25Index.open(flaky.uri, "flaky", config=IndexConfig(chunk_size=9), timeout=60, refresh_interval=0) as index:
        index.add(["sparse vectors"], ids=["1"])
        for _ in range(2):
            flaky.cut()
            mending = threading.Timer(0.3, flaky.mend)
            mending.start()
            assert [hit.id for hit in index.search("sparse")] == ["1"]
            mending.join()


def test_writes_are_not_repeated_and_nothing_is_repeated_for_ever(
    flaky: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(connect(Connection(flaky.uri, timeout=60))) as server:
        server.options = {"timeout": 1}
        calls: list[str] = []
        monkeypatch.setattr(type(server), "_call", failing(calls, "StatusCode.UNAVAILABLE"))
        for call in (server.write, server.read):
            with pytest.raises(StoreError, match="UNAVAILABLE"):
                call("query")
            calls.append("|")
        assert calls[:2] == ["query", "|"]
        assert len(calls) > 4
        calls.clear()
        monkeypatch.setattr(type(server), "_call", failing(calls, "no such collection"))
        with pytest.raises(StoreError, match="no such collection"):
            server.read("query")
        assert calls == ["query"]


def failing(calls: list[str], reason: str) -> Callable[..., None]:
    def call(_: object, method: str) -> None:
        calls.append(method)
        raise StoreError(reason)

    return call
