"""What only servers have: shards, partitions, levels of consistency, databases, users, and restarts.

Everything that milvus-lite 3 has behind its address is tested there too; the rest needs Milvus.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from pymilvus import DataType
from support import engines, milvus_servers
from support.clocks import PATIENCE
from support.memory_store import MemoryStore
from support.programs import environment
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig, StoreError, budget
from rag_bm25.documents.chunks import pk_digest
from rag_bm25.index.writing import chunk_writer
from rag_bm25.ingestion import CollectionRows
from rag_bm25.store.milvus import MilvusStore, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rag_bm25.store.rows import ConsistencyLevel

    Open = Callable[..., BM25Index]

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
OPTIONS: dict[str, Any] = {"config": CONFIG, "timeout": 60}  # the machine may be busy
TEXTS = {"a": "apple", "b": "apple banana banana", "c": "fig", "d": "banana fig plum plum", "e": "plum"}
NAMESPACES = ["", "law", "中文", "x' or 1"]
SHARDS = 3


@pytest.fixture(params=["server", *engines.SERVERS])
def server(request: pytest.FixtureRequest) -> str:
    """The engine's name."""
    engines.uri_of(request.param)
    return str(request.param)


@pytest.fixture
def uri(server: str) -> str:
    return engines.uri_of(server)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test gives a collection, a database or a user."""
    return f"only_{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]}"


@pytest.fixture
def opened(uri: str, name: str) -> Iterator[Open]:
    """Opens the test's index, and drops it after the test."""
    indexes: list[BM25Index] = []

    def open_(address: str = uri, **options: Any) -> BM25Index:
        indexes.append(BM25Index.open(address, name, **{**OPTIONS, "refresh_interval": 0, **options}))
        return indexes[-1]

    yield open_
    for index in indexes:
        index.close()
    drop(uri, name)


def drop(uri: str, name: str, **options: Any) -> None:
    with closing(MilvusStore(uri, name, timeout=60, **options)) as store:
        store.drop()


@pytest.fixture
def client(uri: str) -> Iterator[Any]:
    """A client of pymilvus and nothing of ours."""
    from pymilvus import MilvusClient

    with closing(MilvusClient(uri)) as client:
        yield client


def fill(index: BM25Index) -> None:
    for namespace in NAMESPACES:
        index.add(list(TEXTS.values()), ids=list(TEXTS), namespace=namespace)
    index.add(["apple apple plum", "fig"], ids=["a", "c"], namespace="law")
    index.delete(["e"], namespace="中文")


def answers(index: BM25Index) -> list[list[tuple[str, float]]]:
    scopes: list[Any] = [*NAMESPACES, NAMESPACES[:2]]
    hits = [index.search(query, k=9, namespace=scope) for scope in scopes for query in ("apple plum", "banana fig")]
    return [[(hit.id, round(hit.score, 5)) for hit in found] for found in hits]


def expected_answers() -> list[list[tuple[str, float]]]:
    with BM25Index.from_store(MemoryStore(), config=CONFIG) as index:
        fill(index)
        return answers(index)


# Shards and partitions


def create_with_shards(client: Any, name: str) -> None:
    """Make the chunks' collection as somebody would who wants more shards."""
    from pymilvus import DataType

    made = client.create_schema(auto_id=False)
    for field, options in schema.chunk_fields(None).items():
        made.add_field(
            field,
            **{**options, "datatype": DataType[options["datatype"]]},
            is_partition_key=field == "namespace",
        )
    client.create_collection(name, schema=made, num_shards=SHARDS, consistency_level="Strong")


def test_scores_do_not_depend_on_the_number_of_shards(server: str, opened: Open, client: Any, name: str) -> None:
    create_with_shards(client, name)
    index = opened()
    fill(index)
    assert answers(index) == expected_answers()
    assert index.verify().ok
    if engines.dialect_of(server) == "milvus":
        assert client.describe_collection(name)["num_shards"] == SHARDS


def test_namespaces_are_partitions_and_each_has_its_own_statistics(opened: Open, client: Any, name: str) -> None:
    index = opened()
    fill(index)
    assert answers(index) == expected_answers()
    fields = client.describe_collection(name)["fields"]
    assert [field["name"] for field in fields if field.get("is_partition_key")] == ["namespace"]
    assert len(client.list_partitions(name)) > 1


# Consistency


@pytest.mark.parametrize("level", ["Strong", "Session"])
def test_own_writes_are_found_at_once(level: ConsistencyLevel, opened: Open) -> None:
    index = opened(consistency=level)
    for number in range(10):
        index.add([f"apple {number}"], ids=["a"])
        assert [hit.text for hit in index.search("apple")] == [f"apple {number}"]
        index.delete(["a"])
        assert index.search("apple") == []


@pytest.mark.parametrize("level", ["Bounded", "Session", "Eventually"])
def test_writes_of_others_are_found_in_the_end_by_all_searches(level: ConsistencyLevel, opened: Open) -> None:
    writer, reader = opened(), opened(consistency=level, read_only=True)
    for number in range(3):
        writer.add([f"apple {number}"], ids=["a"])
        end = time.monotonic() + PATIENCE
        while [hit.text for hit in reader.search("apple")] != [f"apple {number}"]:
            assert time.monotonic() < end


@pytest.mark.parametrize("level", ["Bounded", "Eventually"])
def test_writing_is_exact_whatever_the_level_of_searches(level: ConsistencyLevel, opened: Open) -> None:
    writers = [opened(consistency=level), opened(consistency=level)]
    for number in range(12):
        writers[number % 2].add([f"apple {number}", "fig"], ids=["a", f"x{number}"])
    assert {chunk.id for chunk in writers[0].chunks()} == {"a", *(f"x{number}" for number in range(12))}
    for writer in writers:
        assert writer.verify().ok
        assert writer.stats().num_chunks == 13


# Databases and users


def test_databases_are_apart(opened: Open, client: Any, uri: str, name: str) -> None:
    client.create_database(name)
    try:
        first, second = opened(), opened(f"{uri}/{name}")
        first.add(["apple"], ids=["1"])
        second.add(["apple fig", "fig"], ids=["2", "3"])
        assert [hit.id for hit in first.search("apple")] == ["1"]
        assert [hit.id for hit in second.search("apple")] == ["2"]
        assert (first.stats().num_chunks, second.stats().num_chunks) == (1, 2)
        assert f"{uri}/{name}" in second._store.name
    finally:
        drop(f"{uri}/{name}", name)
        client.drop_database(name)


@pytest.fixture(params=engines.SERVERS)
def guarded(request: pytest.FixtureRequest) -> Iterator[str]:
    """A Milvus that lets nobody in without a password."""
    with milvus_servers.serving(request.param, milvus_servers.AUTHORIZED) as uri:
        yield uri


def test_users(guarded: str, name: str) -> None:
    from pymilvus import MilvusClient

    for token, refused in [(None, "a connection without a token"), ("root:hush", "the token"), ("hush", "the token")]:
        with pytest.raises(StoreError) as caught:
            BM25Index.open(guarded, name, token=token, **OPTIONS)
        assert str(caught.value) == f"Milvus at {guarded} refused {refused}"
    with closing(MilvusClient(guarded, token=milvus_servers.ROOT_TOKEN)) as root:
        root.create_user("kim", "open Sesame/1")
        with pytest.raises(StoreError, match=r"(?i)permission|privilege") as caught:
            BM25Index.open(guarded, name, token="kim:open Sesame/1", **OPTIONS)
        assert "Sesame" not in str(caught.value)
        root.grant_role("kim", "admin")
    quoted = guarded.replace("//", "//kim:open%20Sesame%2F1@")
    for address, token in [(guarded, "kim:open Sesame/1"), (quoted, None)]:
        with BM25Index.open(address, name, token=token, **OPTIONS) as index:
            index.add(["apple"], ids=["1"])
            assert [hit.id for hit in index.search("apple")] == ["1"]
    drop(guarded, name, token=milvus_servers.ROOT_TOKEN)


# Restarts


@pytest.fixture(params=["server", *engines.SERVERS])
def restartable(request: pytest.FixtureRequest) -> Iterator[milvus_servers.Restartable]:
    """A server that only this test uses."""
    server = milvus_servers.restartable(request.param)
    yield server
    server.close()


def test_open_indexes_go_on_after_a_restart(restartable: milvus_servers.Restartable, name: str) -> None:
    with (
        BM25Index.open(restartable.uri, name, **OPTIONS) as writer,
        BM25Index.open(restartable.uri, name, read_only=True, refresh_interval=0, **OPTIONS) as reader,
    ):
        writer.add(["apple", "banana"], ids=["a", "b"])
        assert [hit.id for hit in reader.search("apple")] == ["a"]
        restartable.kill()
        restartable.start()
        assert [hit.id for hit in reader.search("banana")] == ["b"]
        writer.add(["cherry"], ids=["c"])
        assert [hit.id for hit in reader.search("cherry")] == ["c"]
        assert writer.verify().differences == []


def test_a_writer_is_no_difference_and_keeps_repair_away(opened: Open) -> None:
    index, other, stop = opened(), opened(), threading.Event()
    index.add([f"apple {number}" for number in range(300)], ids=[str(number) for number in range(300)])

    def write() -> None:
        for number in count():
            index.add([f"banana {number}", f"fig {number}"], ids=[str(number % 40), f"new{number}"])
            if stop.is_set():
                return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        reports = [other.verify(vectors=False) for _ in range(3)]
        with pytest.raises(StoreError, match="another process writes to"):
            other.repair()
    finally:
        stop.set()
        thread.join()
    assert [(report.differences, report.inconclusive) for report in reports] == [([], "")] * 3
    assert other.verify().ok


def test_opening_waits_for_a_server_that_restarts(
    restartable: milvus_servers.Restartable, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_bm25.store.milvus.server.RETRY_SECONDS", PATIENCE)
    with BM25Index.open(restartable.uri, name, **OPTIONS) as writer:
        writer.add(["apple"], ids=["a"])
    restartable.kill()
    later = threading.Timer(1.0, restartable.start)
    later.start()
    with BM25Index.open(restartable.uri, name, read_only=True, **OPTIONS) as reader:
        assert [hit.id for hit in reader.search("apple")] == ["a"]
    later.join()


class SpentError(Exception):
    """The budget of a request is spent."""


def test_a_request_ends_with_its_budget_where_the_server_is_down(
    restartable: milvus_servers.Restartable, name: str
) -> None:
    """It takes no worker for as long as all of its reads would be repeated."""
    with BM25Index.open(restartable.uri, name, **OPTIONS) as index:
        index.add(["apple"], ids=["a"])
        restartable.kill()
        asked = Mock(side_effect=[None] * 3 + [SpentError] * 99)
        with budget.limited(asked), pytest.raises(SpentError):
            index.search("apple")
        assert asked.call_count == 4


def test_a_collection_whose_vectors_have_the_name_of_ours_is_ingested(uri: str, client: Any, name: str) -> None:
    """As langchain-milvus makes it: `pk`, `text`, `vector`, and a field for each key of the metadata."""
    schema = client.create_schema(auto_id=True, enable_dynamic_field=True)
    schema.add_field("pk", DataType.INT64, is_primary=True)
    schema.add_field("text", DataType.VARCHAR, max_length=65_535)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=2)
    indexes = client.prepare_index_params()
    indexes.add_index("vector", index_type="HNSW", metric_type="L2", params={"M": 8, "efConstruction": 64})
    client.create_collection(f"{name}_theirs", schema=schema, index_params=indexes)
    stored = [{"text": "apple", "vector": [1.0, 0.0], "page": 7}, {"text": "plum", "vector": [0.0, 1.0], "page": 8}]
    client.insert(f"{name}_theirs", stored)
    with (
        CollectionRows(uri, f"{name}_theirs", vector_field="vector") as rows,
        BM25Index.open(uri, name, config=rows.with_dense_field(IndexConfig(50)), timeout=60) as index,
    ):
        assert rows.ingest_into(index).added == 2
        assert index.search_dense([0.9, 0.1])[0].metadata["page"] == 7
    client.drop_collection(f"{name}_theirs")
    drop(uri, name)


def test_open_indexes_go_on_after_their_collections_were_released(opened: Open, client: Any, name: str) -> None:
    index = opened()
    index.add(["apple", "banana"], ids=["a", "b"])
    for collection in (name, f"{name}_bm25"):
        client.release_collection(collection)
    assert [hit.id for hit in index.search("apple")] == ["a"]
    index.add(["cherry"], ids=["c"])
    assert index.verify().differences == []


def test_readers_may_not_load_what_somebody_else_has_loaded(guarded: str, name: str) -> None:
    def grant(root: Any) -> None:
        for privilege in ("Query", "Search", "GetLoadState", "IndexDetail", "DescribeCollection", "ShowCollections"):
            kind = "Global" if privilege in ("DescribeCollection", "ShowCollections") else "Collection"
            root.grant_privilege("reader", kind, privilege, "*")

    search_as_reader(guarded, name, grant)


def test_the_built_in_group_of_readers_is_enough(guarded: str, name: str) -> None:
    search_as_reader(
        guarded, name, lambda root: root.grant_privilege_v2("reader", "CollectionReadOnly", "*", "default")
    )


def search_as_reader(guarded: str, name: str, grant: Callable[[Any], None]) -> None:
    from pymilvus import MilvusClient

    token = milvus_servers.ROOT_TOKEN
    with BM25Index.open(guarded, name, token=token, **OPTIONS) as writer:
        writer.add(["apple", "banana"], ids=["a", "b"])
    with closing(MilvusClient(guarded, token=token)) as root:
        root.create_user("ann", "open Sesame/2")
        root.create_role("reader")
        grant(root)
        root.grant_role("ann", "reader")
    with BM25Index.open(guarded, name, token="ann:open Sesame/2", read_only=True, **OPTIONS) as reader:
        assert [hit.id for hit in reader.search("apple")] == ["a"]
    drop(guarded, name, token=token)


WRITES = ("insert_log", "insert_chunks", "delete_chunks")


@pytest.mark.usefixtures("nothing_late")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_restart_in_the_middle_of_a_write(
    moment: str, restartable: milvus_servers.Restartable, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {"a": "apple", "b": "banana split", "c": "cherry"}
    update = {"a": "apple pie", "b": "banana split", "x": "fig"}
    with BM25Index.open(restartable.uri, name, **OPTIONS) as index:
        index.add(list(before.values()), ids=list(before))
    for method in WRITES:
        with BM25Index.open(restartable.uri, name, **OPTIONS) as index:
            index.add(list(before.values()), ids=list(before))
            index.delete(["x"])
            with monkeypatch.context() as patch:
                patch.setattr(index._store, method, dying(restartable, getattr(index._store, method), moment))
                with pytest.raises(StoreError):
                    index.add(list(update.values()), ids=list(update))
        restartable.start()
        with BM25Index.open(restartable.uri, name, **OPTIONS) as index:
            index.add(list(update.values()), ids=list(update))
            assert {chunk.id: chunk.text for chunk in index.chunks()} == {**before, **update}
            assert index.verify().differences == []


def dying(server: milvus_servers.Restartable, write: Callable[..., None], moment: str) -> Callable[..., None]:
    """A write that the server is killed before or after."""

    def call(rows: Any) -> None:
        if moment == "after":
            write(rows)
        server.kill()
        if moment == "before":
            write(rows)
        raise StoreError("the connection is lost")

    return call


# Writers that die, limits, segments

WRITER = """
import itertools, sys
from support.reference import split
from rag_bm25 import BM25Index, IndexConfig
config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
with BM25Index.open(sys.argv[1], sys.argv[2], config=config, timeout=60) as index:
    for number in itertools.count():
        print("begin", number, flush=True)
        index.add([f"word{number} of {part}" for part in range(3)], ids=[f"{number}.{part}" for part in range(3)])
        index.delete([f"{number}.0"])
        print("done", number, flush=True)
"""


@pytest.mark.usefixtures("nothing_late")
def test_what_a_killed_writer_has_acknowledged_is_counted(
    uri: str, opened: Open, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened()
    for acknowledged in (0, 1, 3):
        command = [sys.executable, "-c", WRITER, uri, name]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            while writer.stdout.readline() != f"done {acknowledged}\n":
                assert writer.poll() is None
            time.sleep(0.05 * acknowledged)
            writer.kill()
        with monkeypatch.context() as later:
            later.setattr(chunk_writer, "LEASE_SECONDS", -1.0)
            index = opened()
        stored = {chunk.id for chunk in index.chunks()}
        assert {f"{number}.{part}" for number in range(acknowledged + 1) for part in (1, 2)} <= stored
        assert stored.isdisjoint(f"{number}.0" for number in range(acknowledged + 1))
        assert index.verify().differences == []
        index.delete(sorted(stored))


@pytest.fixture(params=engines.SERVERS)
def limited(request: pytest.FixtureRequest) -> Iterator[str]:
    """A Milvus that takes 20 KB a second."""
    with milvus_servers.serving(request.param, milvus_servers.LIMITED) as uri:
        yield uri


def test_writes_beyond_the_limit_of_a_server_wait_or_are_refused_and_lose_nothing(limited: str, name: str) -> None:
    written = dict[str, str]()
    with BM25Index.open(limited, name, **OPTIONS) as index:
        for number in range(5):
            texts = {f"{number}.{part}": f"word{part} " * 1_000 for part in range(5)}
            with suppress(StoreError):
                index.add(list(texts.values()), ids=list(texts))
                written |= texts
        stored = {chunk.id: chunk.text for chunk in index.chunks()}
        assert written.items() <= stored.items()
        assert index.verify().differences == []
    drop(limited, name)


def test_rows_stored_twice_are_told_and_repaired(server: str, opened: Open, uri: str, name: str) -> None:
    """As by a server that repeats a write whose answer was lost: it refuses no key that it has."""
    if engines.dialect_of(server) != "milvus":
        pytest.skip("milvus-lite 3 keeps the last row of a key")
    opened().add(["apple", "banana", "fig"], ids=["a", "b", "c"])
    with closing(MilvusStore(uri, name, timeout=60)) as store:
        pks = [pk_digest("", id_) + "a" for id_ in ("a", "c")]
        store.insert_chunks(store.get_chunks(pks, vectors=True))
    damaged = opened()
    assert damaged.problems == ["the statistics count 3 chunks, but 5 are stored"]
    assert [str(found) for found in damaged.verify().differences] == [
        "chunks stored twice under one key: stored 0, counted 2"
    ]
    assert damaged.repair().superseded == 2
    repaired = opened()
    assert (repaired.problems, repaired.verify().differences) == ([], [])
    stored = sorted((chunk.id, chunk.text) for chunk in repaired.chunks())
    assert stored == [("a", "apple"), ("b", "banana"), ("c", "fig")]
