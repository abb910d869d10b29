"""Certificates: which connections take them, which refuse them, and what of them is ever shown."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from rag_bm25 import TLS, BM25Index, IndexConfig, ParameterError, StoreError
from rag_bm25.store.milvus import server
from rag_bm25.store.milvus.connection import Connection

SECRET = "-----BEGIN PRIVATE KEY-----"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key")}
    for path in found.values():
        path.write_text(SECRET)
    return found


@pytest.mark.parametrize("given", [{"cert"}, {"key"}, {"cert", "key"}, {"ca", "cert"}, {"ca", "key"}])
def test_half_a_pair_is_refused(files: dict[str, Path], given: set[str]) -> None:
    with pytest.raises(ParameterError, match="cert_file and key_file must be given together, and with ca_file"):
        TLS(**{f"{name}_file": files[name] for name in given})


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"key_file must be a file, got '.*/none\.pem'"):
        TLS(ca_file=__file__, cert_file=__file__, key_file=tmp_path / "none.pem")


@pytest.mark.parametrize("uri", ["http://milvus:19530", "tcp://milvus:19530", "./rag.db"])
def test_certificates_that_would_not_be_used_are_refused(uri: str) -> None:
    with pytest.raises(ParameterError, match=r"tls must be given with an https:// address only, got '.*'"):
        BM25Index.open(uri, "docs", tls=TLS(server_name="x"), config=IndexConfig(chunk_size=9))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), {}),
        (("ca",), {"server_pem_path": "ca"}),
        (("ca", "cert", "key"), {"ca_pem_path": "ca", "client_pem_path": "cert", "client_key_path": "key"}),
    ],
)
def test_files_reach_the_client_under_its_names(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], expected: dict[str, str]
) -> None:
    seen: dict[str, Any] = {}

    def connect_client(uri: str, what: str, **kwargs: Any) -> None:
        seen.update(kwargs)
        raise StoreError(what)

    monkeypatch.setattr(server, "connect_client", connect_client)
    tls = TLS(**{f"{name}_file": files[name] for name in given}, server_name="here")
    with pytest.raises(StoreError, match="certificates") as caught:
        BM25Index.open("https://milvus:19530", "docs", tls=tls)
    expected = {name: str(files[file]) for name, file in expected.items()}
    assert {name: value for name, value in seen.items() if name.endswith("_path")} == expected
    assert seen["server_name"] == "here"
    assert SECRET not in f"{tls!r}{caught.value}"


@pytest.mark.parametrize(
    ("uri", "token"),
    [("http://host", "user:pa ss"), ("http://user:pa%20ss@host", None), ("http://user:other@host", "pa ss")],
)
def test_no_form_of_a_secret_is_in_what_the_server_says(
    uri: str, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "connect_client", lambda *_, **__: None)
    one = server.Server(Connection(uri, token))
    sent = base64.b64encode((token or "user:pa ss").encode()).decode()
    said = one.reason(ValueError(f"refused {token}: pa ss, pa%20ss of {uri}; {sent}"))
    assert "pa ss" not in said
    assert sent not in said
    assert "other" not in said
    assert "***" in said
    assert "pa" not in one.name + repr(one)


@pytest.mark.parametrize(
    ("uri", "token", "expected"),
    [
        ("http://host:1/base", None, ""),
        ("http://host:1/base", "user:pass", "user:pass"),
        ("http://us%40er:pa%20ss%2F%3A@host:1/base", None, "us@er:pa ss/:"),
        ("http://key@host:1/base", None, "key"),
        ("http://user:other@host:1/base", "key", "key"),
    ],
)
def test_the_client_gets_the_token_and_an_address_without_it(
    uri: str, token: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str]] = []
    monkeypatch.setattr(
        server, "connect_client", lambda address, _, **options: seen.append((address, options["token"]))
    )
    server.Server(Connection(uri, token))
    assert seen == [("http://host:1/base", expected)]


@pytest.mark.parametrize(
    ("version", "kind", "pings"), [("milvus_lite 3.2", "Lite3Server", False), ("2.6", "Server", True)]
)
def test_nobody_is_sent_pings_who_does_not_want_them(
    version: str, kind: str, pings: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[Client] = []

    class Client:
        def __init__(self, _: str, __: str, **options: Any) -> None:
            self.pings = options["grpc_options"] != server.NO_PINGS
            self.open = True
            clients.append(self)

        def get_server_version(self, **_: Any) -> str:
            return version

        def close(self) -> None:
            self.open = False

    monkeypatch.setattr(server, "connect_client", Client)
    assert type(server.connect(Connection("http://host"))).__name__ == kind
    assert [(client.pings, client.open) for client in clients] == [(False, False), (pings, True)]
