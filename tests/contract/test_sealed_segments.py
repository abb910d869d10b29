"""A server gives the same answers from growing segments and from sealed ones, with their indexes.

A few rows stay in a growing segment, which is all that other tests see.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import engines, milvus_servers
from support.filter_conditions import CONDITIONS, DOCUMENTS, WITH_BOOLS, A
from support.milvus_logic import is_out_of_reach
from support.programs import environment
from support.reference import split
from support.rows import chunk
from support.sealing import LEAST_ROWS, seal

from rag_bm25 import BM25Index, Hit, IndexConfig, StorageOptions, StoreError
from rag_bm25.checks import kind_of
from rag_bm25.filters import Comparison, Filter, Not, Or
from rag_bm25.store.memory import matches
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.milvus.expressions import TYPES
from rag_bm25.store.milvus.server import Server
from rag_bm25.store.rows import Scope
from rag_bm25.store.storage import ALGOS, MILVUS_2_ALGOS

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
METADATA: dict[str, dict[str, Any]] = {
    **DOCUMENTS,
    "object of null": {"a": {"b": None}},
    "list of null": {"a": [None]},
}
COPIES = LEAST_ROWS // len(METADATA) + 1
SEVERAL_TYPES = [(1.0, 2, 3, 4), (1, "abc", True), (3.5, 3, False, "", "3")]
OF_SEVERAL_TYPES: list[Filter] = [
    *(Comparison(A, "in", values) for values in SEVERAL_TYPES),
    *(Or(tuple(Comparison(A, "==", value) for value in values)) for values in SEVERAL_TYPES),
]
QUERIES = ("t1", "t2 t3", "t1 t4 t17")


@pytest.fixture(scope="module", params=engines.SERVERS)
def server(request: pytest.FixtureRequest) -> str:
    """The engine's name."""
    engines.uri_of(request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def client(server: str) -> Iterator[Any]:
    """A client of pymilvus and nothing of ours."""
    with closing(engines.raw_client(engines.uri_of(server))) as client:
        yield client


@pytest.fixture
def store(server: str, tmp_path: Path) -> Iterator[MilvusStore]:
    """An empty store."""
    with closing(open_store(server, tmp_path)) as store:
        store.create()
        yield store
        store.drop()


@pytest.fixture(scope="module", params=["growing", "sealed"])
def documents(
    request: pytest.FixtureRequest, server: str, client: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MilvusStore]:
    """Metadata of all kinds, often enough for an index."""
    with closing(open_store(server, tmp_path_factory.mktemp("documents"))) as store:
        store.create()
        named = list(METADATA.items()) * COPIES
        store.insert_chunks([chunk(at, id=name, metadata=data) for at, (name, data) in enumerate(named)])
        if request.param == "sealed":
            seal(client, store, len(named))
        yield store
        store.drop()


def open_store(server: str, folder: Path, **options: Any) -> MilvusStore:
    store = engines.open_store(server, folder, **options)
    assert isinstance(store, MilvusStore)
    return store


def size(server: str, rows: int, of_packaged: int) -> int:
    """Choose how much to do: less on the packaged server, whose shim is slow."""
    return of_packaged if server == engines.PACKAGED else rows


# Filters


def test_conditions_mean_the_same_and_so_do_their_opposites(documents: MilvusStore, server: str) -> None:
    known = [where for where in (*CONDITIONS, *WITH_BOOLS, *OF_SEVERAL_TYPES) if is_known(server, where)]
    conditions = [*known, *map(Not, known)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda where: found_ids(documents, where), conditions))
    wrong = {repr(where): wrong_ids(server, where, ids) for where, ids in zip(conditions, found, strict=True)}
    assert {where: ids for where, ids in wrong.items() if ids} == {}


def is_known(server: str, where: Filter) -> bool:
    """Return whether a server reads a condition: 2.3 has no escapes in keys, and patterns of prefixes alone."""
    if server != engines.PACKAGED or not isinstance(where, Comparison):
        return True
    is_pattern = where.op == "like" and "%" in str(where.value)[:-1]
    return not (
        is_pattern or where.op == "exists" or re.search(r'["\\\x00-\x1f\U00010000-\U0010ffff]', "".join(where.path))
    )


def found_ids(store: MilvusStore, where: Filter) -> Counter[str]:
    return Counter(row.id for page in store.scan_chunks(Scope(where)) for row in page)


def wrong_ids(server: str, where: Filter, found: Counter[str]) -> set[str]:
    """List the documents of which not all copies are found, or some that must not be."""
    return {
        name
        for name, data in METADATA.items()
        if found[name] != COPIES * matches(where, name, data) and not is_out_of_reach(server, where, data)
    }


@pytest.mark.parametrize("kind", TYPES)
def test_the_test_of_a_type_finds_its_values_alone(documents: MilvusStore, kind: str) -> None:
    pages = documents._chunks.scan(TYPES[kind].format('metadata["a"]'), ["pk", "id"])
    found = Counter(entity["id"] for page in pages for entity in page)
    values = {name: data.get("a") for name, data in METADATA.items()}
    assert found == {name: COPIES for name, value in values.items() if kind_of(value) == kind and value != []}


# Rows


def test_scan_goes_over_segments_and_partitions_in_the_order_of_keys(
    server: str, client: Any, store: MilvusStore
) -> None:
    rows = [chunk(at, namespace=f"n{at % 50}") for at in range(size(server, 30_000, 3_000))]
    for part in range(3):
        store.insert_chunks(rows[part::4])
        client.flush(store._chunks.name)
    seal(client, store, 3 * len(rows) // 4)
    store.insert_chunks(rows[3::4])
    kept = [row.pk for at, row in enumerate(rows) if at // 4 % 2]
    store.delete_chunks([row.pk for at, row in enumerate(rows) if not at // 4 % 2])
    for page in (97, 10_000):
        assert [entity["pk"] for some in store._chunks.scan("", ["pk"], page) for entity in some] == kept
    assert store.count_chunks() == len(kept)


def algorithms(server: str) -> list[dict[str, Any]]:
    """List the algorithms of searches that a server has, beside its own choice."""
    if server == engines.PACKAGED:
        return [{}]
    names = ALGOS if server == "docker-3.0" else MILVUS_2_ALGOS
    return [{}, *({"inverted_index_algo": name} for name in names)]


def test_hits_and_scores_are_the_same(server: str, client: Any, tmp_path: Path) -> None:
    texts = [
        f"t{at % 7} t{at % 5} t{at % 31} {'t3 ' * (at % 11)}{'pad ' * (at % 97)}"
        for at in range(size(server, 10_000, LEAST_ROWS))
    ]
    for options in algorithms(server):
        store = open_store(server, tmp_path, storage=StorageOptions(**options))
        with BM25Index.from_store(store, config=CONFIG) as index:
            index.add(texts, metadatas=[{"part": at % 3} for at in range(len(texts))])
            growing = answers(index)
            seal(client, store, len(texts))
            for before, after in zip(growing, answers(index), strict=True):
                assert_same(before, after)
            store.drop()


def answers(index: BM25Index) -> list[list[Hit]]:
    filters: list[Any] = [None, {"part": {"$ne": 0}}]
    return [index.search(query, 100, filter=where) for query in QUERIES for where in filters]


def assert_same(before: list[Hit], after: list[Hit]) -> None:
    """Compare scores, and the hits above the last score, of which any may be found."""
    assert [hit.score for hit in after] == pytest.approx([hit.score for hit in before], rel=1e-5)
    least = before[-1].score * (1 + 2e-5)
    assert {hit.id for hit in after if hit.score > least} == {hit.id for hit in before if hit.score > least}
    assert len(before) == 100


# Other processes, and what operators have set

WRITER = """
import sys
from support.reference import split
from rag_bm25 import BM25Index, IndexConfig
config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
with BM25Index.open(sys.argv[1], sys.argv[2], config=config, timeout=60) as index:
    for line in sys.stdin:
        index.add([f"word{line}"], ids=[line.strip()])
        print(flush=True)
"""


def test_strong_searches_miss_no_write_of_another_process(server: str, store: MilvusStore) -> None:
    uri, name = engines.uri_of(server), store._chunks.name
    BM25Index.open(uri, name, config=CONFIG, timeout=60).close()
    with (
        BM25Index.open(uri, name, config=CONFIG, timeout=60, consistency="Strong", read_only=True) as reader,
        subprocess.Popen(
            [sys.executable, "-c", WRITER, uri, name],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        ) as writer,
    ):
        assert writer.stdin is not None
        assert writer.stdout is not None
        for number in range(size(server, 1_000, 40)):
            writer.stdin.write(f"{number}\n")
            assert writer.stdout.readline() == "\n"
            reader.refresh()
            assert [hit.id for hit in reader.search(f"word{number}")] == [str(number)]
        writer.stdin.close()


@pytest.fixture(params=engines.SERVERS)
def own_uri(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server of this test alone."""
    server = milvus_servers.start(request.param)
    yield server.uri
    server.close()


def test_opening_leaves_replicas_where_they_are(own_uri: str) -> None:
    names = ("docs", "docs_bm25")
    with BM25Index.open(own_uri, "docs", config=CONFIG, timeout=60) as index:
        index.add(["apple"], ids=["a"])
    with closing(engines.raw_client(own_uri)) as client:
        client.create_resource_group("own")
        client._get_connection().transfer_node("__default_resource_group", "own", 1)
        for name in names:
            client.release_collection(name)
            client.load_collection(name, resource_groups=["own"])
        before = replicas(client, names)
        for read_only in (True, False):
            with BM25Index.open(own_uri, "docs", config=CONFIG, timeout=60, read_only=read_only) as index:
                assert [hit.id for hit in index.search("apple")] == ["a"]
        assert replicas(client, names) == before
        assert {group for _, group in before} == {"own"}


def replicas(client: Any, names: tuple[str, ...]) -> list[tuple[int, str]]:
    return [(replica.id, replica.resource_group) for name in names for replica in client.describe_replica(name)]


def test_writes_that_a_client_gave_up_leave_no_old_text(
    server: str, store: MilvusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent may take place after the call has failed, and after the next write."""
    monkeypatch.setattr(Server, "late_seconds", 2.0)  # this server is fast, if late; many calls never reach it
    insert, index, lost = store.insert_chunks, BM25Index.from_store(store, config=CONFIG), 0
    for number in range(size(server, 200, 30)):
        with monkeypatch.context() as patch:
            patch.setattr(store, "insert_chunks", partial(impatient, store, insert, number % 8 / 1000 + 0.001))
            try:
                index.add([f"old {number}"], ids=["a"])
            except StoreError:
                lost += 1
        index.add([f"new {number}"], ids=["a"])
        assert [chunk.text for chunk in index.chunks()] == [f"new {number}"]
        assert [hit.text for hit in index.search(f"{number}")] == [f"new {number}"]
        assert index.search("old") == []
    assert index.verify().differences == []
    assert lost


def impatient(store: MilvusStore, insert: Callable[[Any], None], seconds: float, rows: Any) -> None:
    """Insert with a timeout that is over before the server answers, or nearly so."""
    engine, options = store._open, store._open.options
    engine.options = {"timeout": seconds}
    try:
        insert(rows)
    finally:
        engine.options = options
