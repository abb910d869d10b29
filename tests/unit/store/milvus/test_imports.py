"""Bulk import by a server: what pymilvus sends for it, and how its replies are read; no server here can do it."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from pymilvus.client.grpc_handler import GrpcHandler
from pymilvus.grpc_gen import common_pb2, milvus_pb2

from rag_bm25 import ReadOnlyError, StoreError
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.milvus.client import Client
from rag_bm25.store.milvus.engine import EmbeddedEngine
from rag_bm25.store.milvus.server import Lite3Server, Server
from rag_bm25.store.rows import ImportState

if TYPE_CHECKING:
    from collections.abc import Iterator

STATES = {
    "ImportPending": ImportState(finished=False),
    "ImportStarted": ImportState(finished=False),
    "ImportPersisted": ImportState(finished=False),
    "ImportCompleted": ImportState(finished=True),
    "ImportFailed": ImportState(finished=False, failure="schema not equal"),
    "ImportFailedAndCleaned": ImportState(finished=False, failure="schema not equal"),
}


class Stub:
    """Milvus's side of the calls; `sent` has the requests."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.states = {7: "ImportStarted"}
        self.reason = "schema not equal"

    def Import(self, request: Any, **_: Any) -> Any:  # noqa: N802 - the name of the call
        self.sent.append(request)
        return milvus_pb2.ImportResponse(tasks=[7])

    def GetImportState(self, request: Any, **_: Any) -> Any:  # noqa: N802
        self.sent.append(request)
        return self.reply(request.task)

    def ListImportTasks(self, request: Any, **_: Any) -> Any:  # noqa: N802
        self.sent.append(request)
        return milvus_pb2.ListImportTasksResponse(tasks=[self.reply(job) for job in self.states])

    def reply(self, job: int) -> Any:
        infos = [common_pb2.KeyValuePair(key="failed_reason", value=self.reason)]
        return milvus_pb2.GetImportStateResponse(
            id=job, state=getattr(common_pb2, self.states[job]), infos=infos if "Failed" in self.states[job] else []
        )


class FakeClient(Client):
    def __init__(self, stub: Stub) -> None:
        self._handler = object.__new__(GrpcHandler)
        self._handler._stub = stub
        self.refreshed: list[str] = []

    def _get_connection(self) -> Any:
        return self._handler

    def _generate_call_context(self, **_: Any) -> None:
        return None

    def close(self) -> None:
        pass

    def refresh_load(self, collection_name: str, **_: Any) -> None:
        self.refreshed.append(collection_name)


@pytest.fixture
def stub() -> Stub:
    return Stub()


@pytest.fixture
def engine(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server that nobody has connected to."""
    engine = object.__new__(Server)
    engine.__dict__.update(place="http://milvus:19530", _pid=os.getpid(), _secrets=[])
    engine.__dict__.update(options={"timeout": 1.0}, client=FakeClient(stub))
    monkeypatch.setattr("rag_bm25.store.milvus.opening.open_engine", lambda *_, **__: engine)
    return engine


@pytest.fixture
def store(engine: Server) -> Iterator[MilvusStore]:
    with closing(MilvusStore("http://milvus:19530", "docs")) as store:
        yield store


def test_a_file_is_a_job(store: MilvusStore, stub: Stub) -> None:
    store.require_imports()
    assert store.start_import("bulk/part-000000.parquet") == 7
    (request,) = stub.sent
    assert (request.collection_name, request.partition_name) == ("docs", "")
    assert list(request.files) == ["bulk/part-000000.parquet"]


@pytest.mark.parametrize("state", STATES)
def test_states_are_read(state: str, store: MilvusStore, stub: Stub) -> None:
    stub.states[7] = state
    assert store.import_state(7) == STATES[state]
    assert stub.sent[0].task == 7


def test_a_failure_without_a_reason_is_one(store: MilvusStore, stub: Stub) -> None:
    stub.states[7], stub.reason = "ImportFailed", ""
    assert store.import_state(7).failure == "unknown"


def test_jobs_under_way_are_those_that_have_not_ended(store: MilvusStore, stub: Stub) -> None:
    stub.states = dict(enumerate(STATES))
    assert store.imports_under_way() == [0, 1, 2]
    assert stub.sent[0].collection_name == "docs"


def test_what_was_imported_is_loaded(store: MilvusStore) -> None:
    store.after_imports()
    assert store._open.client.refreshed == ["docs"]


def test_readers_and_engines_without_it_are_refused(
    engine: Server, store: MilvusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(MilvusStore("http://milvus:19530", "docs", read_only=True)) as reader, pytest.raises(ReadOnlyError):
        reader.start_import("part-000000.parquet")
    assert not EmbeddedEngine.imports
    assert not Lite3Server.imports
    monkeypatch.setattr(engine, "imports", False)
    with pytest.raises(StoreError, match="collection 'docs' has no bulk import: load the files row by row"):
        store.require_imports()
