"""A server that is not ready, and collections that somebody else loads and releases; the server is a stand-in."""

from __future__ import annotations

import re
import socket
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import grpc
import pytest
from grpc import StatusCode as Status
from pymilvus import MilvusException
from pymilvus.client.types import LoadState

from rag_bm25.budget import limited
from rag_bm25.errors import StoreError
from rag_bm25.store.milvus.collection import Collection, in_halves
from rag_bm25.store.milvus.connection import Connection
from rag_bm25.store.milvus.schema import LOG_FIELDS
from rag_bm25.store.milvus.searching import ChunkSearch
from rag_bm25.store.milvus.server import UNREADY, Server
from rag_bm25.store.protocol import AmbiguousWriteError


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Mock:
    made = Mock()
    monkeypatch.setattr("rag_bm25.store.milvus.server.connect_client", lambda *_, **__: made)
    monkeypatch.setattr("rag_bm25.store.milvus.server.FIRST_PAUSE", 0.0)
    monkeypatch.setattr("rag_bm25.store.milvus.server.LONGEST_PAUSE", 0.0)
    return made


def served(timeout: float = 60) -> Server:
    return Server(Connection("http://127.0.0.1:1", timeout=timeout))


def failing_once(code: int, answer: Any) -> list[Any]:
    return [MilvusException(code, "not now"), answer]


@pytest.mark.parametrize("code", sorted(UNREADY))
def test_reads_are_repeated_while_the_server_is_not_ready(client: Mock, code: int) -> None:
    client.get_load_state.return_value = {"state": LoadState.Loaded}
    client.query.side_effect = failing_once(code, ["row"])
    assert served().read("query", "docs") == ["row"]


def test_writes_are_not_repeated(client: Mock) -> None:
    client.insert.side_effect = failing_once(503, {})
    with pytest.raises(StoreError, match="not now"):
        served().write("insert", "docs", [])


class CallError(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """How a call ended."""

    def __init__(self, status: grpc.StatusCode) -> None:
        self._status = status

    def code(self) -> grpc.StatusCode:
        return self._status

    def details(self) -> str:
        return "the call failed"


def failed_write(client: Mock, error: Exception) -> StoreError:
    client.insert.side_effect = error
    with pytest.raises(StoreError) as caught:
        served().write("insert", "docs", [])
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        *(MilvusException(code, "request is rejected") for code in (8, 9, 100, 1100, 1401)),
        MilvusException(8, "[insert] Retry timeout: 60s, message=rate limit exceeded"),
        MilvusException(65535, "PrivilegeInsert: permission deny to ann"),
        *(CallError(status) for status in (Status.PERMISSION_DENIED, Status.RESOURCE_EXHAUSTED)),
    ],
)
def test_a_refused_write_does_not_take_place_later(client: Mock, error: Exception) -> None:
    assert not isinstance(failed_write(client, error), AmbiguousWriteError)


def test_nor_does_a_write_that_was_not_sent(client: Mock) -> None:
    server = served()
    server._pid += 1
    with pytest.raises(StoreError, match="before a fork") as caught:
        server.write("insert", "docs", [])
    assert not isinstance(caught.value, AmbiguousWriteError)
    assert client.insert.call_count == 0


@pytest.mark.parametrize(
    "error",
    [
        *(MilvusException(code, "context deadline exceeded") for code in (1, 2, 10000, 10001, 65535)),
        MilvusException(Status.UNAVAILABLE, "[insert] Retry timeout: 60s"),
        *(CallError(status) for status in (Status.DEADLINE_EXCEEDED, Status.UNAVAILABLE, Status.CANCELLED)),
    ],
)
def test_any_other_failed_write_may_take_place_later(client: Mock, error: Exception) -> None:
    assert isinstance(failed_write(client, error), AmbiguousWriteError)


@pytest.mark.usefixtures("client")
def test_a_write_may_take_place_for_a_minute_after_its_last_attempt() -> None:
    """pymilvus begins no attempt after the timeout, and gives each as long."""
    assert served(timeout=5).late_seconds == 5 + 5 + 60


def test_a_read_is_given_up_after_the_timeout(client: Mock) -> None:
    client.query.side_effect = MilvusException(106, "on recovering")
    with pytest.raises(StoreError, match="on recovering"):
        served(timeout=0.01).read("query", "docs")


def test_other_errors_are_raised_at_once(client: Mock) -> None:
    client.query.side_effect = failing_once(65535, ["row"])
    with pytest.raises(StoreError, match="not now"):
        served().read("query", "docs")


def test_a_released_collection_is_loaded_again(client: Mock) -> None:
    client.query.side_effect = failing_once(101, ["row"])
    client.get_load_state.return_value = {"state": LoadState.NotLoad}
    assert served().read("query", "docs") == ["row"]
    assert client.load_collection.call_count == 1


@pytest.mark.parametrize("state", [LoadState.Loaded, LoadState.Loading])
def test_a_loaded_collection_keeps_its_replicas(client: Mock, state: LoadState) -> None:
    """Loading it again, as by default, would leave it one replica, in the default resource group."""
    client.get_load_state.return_value = {"state": state}
    served().prepare("docs")
    assert client.load_collection.call_count == 0


def test_a_role_that_may_not_even_ask_reads_what_others_have_loaded(client: Mock) -> None:
    client.get_load_state.side_effect = MilvusException(65535, "PrivilegeLoad: permission deny to ann")
    served().prepare("docs")
    assert client.load_collection.call_count == 0


@pytest.mark.parametrize(
    "reason", ["PrivilegeCreateCollection: permission deny to ann", "database:other not found", "database not found"]
)
def test_what_cannot_be_made_is_not_waited_for(client: Mock, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several processes that begin together, the others wait for the one that makes a collection."""
    monkeypatch.setattr("rag_bm25.store.milvus.collection.MAKING_SECONDS", 1e9)
    client.has_collection.return_value = False
    client.create_collection.side_effect = MilvusException(65535, reason)
    server = served()
    handle: Any = SimpleNamespace(engine=server, writable=lambda: server)
    with pytest.raises(StoreError, match=re.escape(reason)):
        Collection(handle, "docs").complete(LOG_FIELDS)


def test_queries_whose_keys_are_too_many_for_one_reply_are_asked_in_parts(client: Mock) -> None:
    hit = {"distance": 1.0, "entity": {"pk": "1a", "batch": "b"}}
    client.search.side_effect = lambda _, data, **__: (
        [[hit]] * len(data) if len(data) < 3 else raise_(MilvusException(65535, "message larger than max"))
    )
    server = served()
    chunks: Any = SimpleNamespace(read=lambda method, **options: server.read(method, "docs", **options))
    search = ChunkSearch(chunks, "Strong")
    assert in_halves(lambda some: search._hits(some, {}), [1, 2, 3, 4, 5]) == [[(1.0, hit["entity"])]] * 5


def raise_(error: Exception) -> Any:
    raise error


def test_connecting_is_tried_again_while_the_server_restarts(client: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Mock(side_effect=[StoreError("cannot reach Milvus"), StoreError("cannot reach Milvus"), client])
    monkeypatch.setattr("rag_bm25.store.milvus.server.connect_client", connect)
    assert served().client is client
    assert connect.call_count == 3


@pytest.mark.usefixtures("client")
def test_a_name_that_nobody_knows_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Mock(side_effect=StoreError("cannot reach Milvus"))
    monkeypatch.setattr("rag_bm25.store.milvus.server.connect_client", connect)
    monkeypatch.setattr("socket.create_connection", Mock(side_effect=socket.gaierror(-2, "not known")))
    with pytest.raises(StoreError, match=r"cannot reach Milvus, tried for \d\.\d s: the name .* is not known"):
        served()
    assert connect.call_count == 1


class SpentError(Exception):
    """The budget of a request is spent."""


@pytest.mark.parametrize("error", [MilvusException(503, "not now"), MilvusException(2, "Fail connecting to server")])
def test_a_request_waits_for_a_server_no_longer_than_its_budget(client: Mock, error: Exception) -> None:
    client.query.side_effect = error
    check = Mock(side_effect=[None, None, SpentError])
    with limited(check), pytest.raises(SpentError):
        served().read("query", "docs")
    assert client.query.call_count == 3
