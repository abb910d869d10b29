"""Single calls of a server: lost ones, refused ones, and what each of them asks for."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.grpc_proxy import GrpcProxy
from support.proxy import Proxy
from support.reference import split

import rag_bm25
from rag_bm25 import BM25Index, IndexConfig, StoreError
from rag_bm25.store.rows import ConsistencyLevel

Proxied = Callable[..., GrpcProxy]

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, dense_dim=2)
BEFORE = {"a": "apple", "b": "banana split"}
UPDATE = {"a": "apple pie", "b": "banana split", "x": "fig"}
GUARANTEES = {"Strong": 0, "Eventually": 1, "Bounded": 2}  # what Milvus has in place of a time
FIRST_STAMP = 1000
LEVELS = ["Strong", "Session", "Bounded", "Eventually"]
TOKEN = "kim:open sesame"


@pytest.fixture
def proxied(server_uri: str) -> Iterator[Proxied]:
    proxies: list[GrpcProxy] = []

    def start(kind: type[GrpcProxy] = GrpcProxy, **options: Any) -> GrpcProxy:
        proxies.append(kind(server_uri, **options))
        return proxies[-1]

    yield start
    for proxy in proxies:
        proxy.close()


@pytest.fixture
def opened(request: pytest.FixtureRequest, server_uri: str) -> Iterator[Callable[..., BM25Index]]:
    """Opens the test's own index through a proxy."""
    name = f"calls_{os.getpid()}_{abs(hash(request.node.nodeid))}"
    indexes: list[BM25Index] = []

    def open_(uri: str, **options: Any) -> BM25Index:
        options = {"config": CONFIG, "refresh_interval": 0, "timeout": 60, **options}  # the machine may be busy
        indexes.append(BM25Index.open(uri, name, **options))
        return indexes[-1]

    yield open_
    for index in indexes:
        index.close()
    from rag_bm25.store.milvus import MilvusStore

    store = MilvusStore(server_uri, name)
    store.drop()
    store.close()


def add(index: BM25Index, chunks: dict[str, str]) -> None:
    index.add(list(chunks.values()), ids=list(chunks), embeddings=np.ones((len(chunks), 2), np.float32))


def assert_sound(index: BM25Index, expected: dict[str, str]) -> None:
    assert {chunk.id: chunk.text for chunk in index.chunks()} == expected
    assert index.verify().differences == []


# Lost calls


@pytest.mark.usefixtures("nothing_late")
@pytest.mark.parametrize("fault", ["before", "after"])
@pytest.mark.parametrize("method", ["Insert", "Delete"])
def test_a_lost_write_is_an_error_sent_once_and_can_be_called_again(
    method: str, fault: Any, proxied: Proxied, opened: Callable[..., BM25Index]
) -> None:
    proxy = proxied()
    index = opened(proxy.uri)
    add(index, BEFORE)
    number = 0
    while True:
        add(index, BEFORE)
        index.delete(["x"])
        proxy.calls.clear()
        proxy.fail(method, *[None] * number, fault)
        try:
            add(index, UPDATE)
        except StoreError as error:
            assert f"UNAVAILABLE, lost {fault}" in str(error)  # noqa: PT017  # the last round has none
        else:
            break
        sent = proxy.messages(method)
        assert (len(sent), len(set(sent))) == (number + 1, number + 1)
        add(index, UPDATE)
        assert_sound(index, UPDATE)
        number += 1
    assert number == {"Insert": 3, "Delete": 1}[method]
    proxy.fail(method)
    assert_sound(index, UPDATE)


def everything_read(index: BM25Index) -> tuple[Any, ...]:
    index.refresh()
    hits = index.search("apple"), index.search_dense([1.0, 0.5]), index.search_hybrid("fig", [1.0, 0.5])
    return [[(hit.id, hit.score) for hit in some] for some in hits], index.verify().differences


def test_lost_reads_are_asked_again(proxied: Proxied, opened: Callable[..., BM25Index]) -> None:
    proxy = proxied()
    with opened(proxy.uri) as index:
        add(index, UPDATE)
        expected = everything_read(index)
    proxy.calls.clear()
    with opened(proxy.uri) as index:
        assert everything_read(index) == expected
    methods = {name for name, _ in proxy.calls} - {"Connect"}
    assert methods >= {"GetVersion", "DescribeCollection", "LoadCollection", "Query", "Search"}
    for method in methods:
        proxy.fail(method, "before", "after")
    with opened(proxy.uri) as index:
        assert everything_read(index) == expected
        for method in methods:
            proxy.fail(method, "after")
        assert everything_read(index) == expected


def add_and_search(index: BM25Index) -> None:
    add(index, BEFORE)
    index.search("apple")


@pytest.mark.usefixtures("nothing_late")
@pytest.mark.parametrize("method", ["Insert", "Search"])
def test_a_call_that_nothing_comes_back_from_is_given_up(
    method: str, proxied: Proxied, opened: Callable[..., BM25Index]
) -> None:
    proxy = proxied()
    index = opened(proxy.uri)
    index._store._open.options = {"timeout": 5}
    proxy.fail(method, "silent")
    with pytest.raises(StoreError, match="DEADLINE_EXCEEDED"):
        add_and_search(index)
    again = opened(proxy.uri)
    add(again, BEFORE)
    assert_sound(again, BEFORE)


# Refused calls


@pytest.mark.parametrize(("method", "others"), [("Insert", 1), ("Delete", 0)])  # the first row is the intent
def test_the_next_write_does_not_wait_for_one_beyond_a_limit(
    method: str, others: int, proxied: Proxied, opened: Callable[..., BM25Index], caplog: pytest.LogCaptureFixture
) -> None:
    proxy = proxied()
    index = opened(proxy.uri)
    add(index, BEFORE)
    index._store._open.options = {"timeout": 0.5}
    proxy.fail(method, *[None] * others, *["limited"] * 1000)
    with pytest.raises(StoreError, match="rate limit exceeded"):
        add(index, UPDATE)
    index._store._open.options = {"timeout": 60}
    proxy.fail(method)
    add(index, UPDATE)
    assert not [message for message in caplog.messages if "waiting" in message]
    assert_sound(index, UPDATE)


@pytest.mark.parametrize(
    ("token", "refused"),
    [(None, "a connection without a token"), ("kim:wrong word", "the token"), ("wrong word", "the token")],
)
def test_a_wrong_token_is_named_and_not_shown(
    token: str | None, refused: str, proxied: Proxied, opened: Callable[..., BM25Index]
) -> None:
    proxy = proxied(token=TOKEN)
    with pytest.raises(StoreError) as caught:
        opened(proxy.uri, token=token)
    assert str(caught.value) == f"Milvus at {proxy.uri} refused {refused}"
    assert "wrong word" not in "".join(traceback.format_exception(caught.value))
    assert {name for name, _ in proxy.calls} == {"Connect"}


@pytest.mark.parametrize("way", ["token", "uri"])
def test_the_right_token_is_let_in_and_never_shown(
    way: str, proxied: Proxied, opened: Callable[..., BM25Index], caplog: pytest.LogCaptureFixture
) -> None:
    proxy = proxied(token=TOKEN)
    address, token = (proxy.uri, TOKEN) if way == "token" else (proxy.uri.replace("//", "//kim:open%20sesame@"), None)
    shown: list[Any] = []
    with caplog.at_level(logging.DEBUG):
        index = opened(address, token=token, on_event=shown.append)
        add(index, UPDATE)
        shown += everything_read(index)
        proxy.fail("Insert", "after")
        with pytest.raises(StoreError) as caught:
            add(index, BEFORE)
    assert {"batch", "search"} <= {event.name for event in shown if hasattr(event, "name")}
    shown += [index, index._store, index._store.name, index.stats(), caught.value, vars(caught.value)]
    shown += [caplog.text, *(vars(record) for record in caplog.records), *traceback.format_exception(caught.value)]
    assert caplog.records
    assert "sesame" not in f"{shown}{shown!r}"


def test_what_an_index_starts_and_stores_has_no_token(proxied: Proxied, opened: Callable[..., BM25Index]) -> None:
    index = opened(proxied(token=TOKEN).uri, token=TOKEN)
    index.add(["apple", "fig"], ids=["1", "2"], embeddings=np.ones((2, 2), np.float32), workers=2)
    children = multiprocessing.active_children()
    assert children
    if sys.platform == "linux":
        shown = [
            Path(f"/proc/{child.pid}/{what}").read_bytes() for child in children for what in ("cmdline", "environ")
        ]
        assert b"spawn" in b"".join(shown)
        assert b"sesame" not in b"".join(shown)
    for thing in (index, index._store, index._store._open):
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError)) as caught:
            pickle.dumps(thing)
        assert "sesame" not in str(caught.value)
    rows = [row for page in index._store.scan_chunks(contents=True) for row in page]
    assert "sesame" not in f"{rows}{index._store.get_log(index._store.log_keys())}"


def test_command_line_shows_no_token(proxied: Proxied, opened: Callable[..., BM25Index], tmp_path: Path) -> None:
    proxy = proxied(token=TOKEN)
    name = opened(proxy.uri, token=TOKEN)._store._chunks.name
    opened(proxy.uri, token=TOKEN)._store.drop()
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("apple fig")
    (tmp_path / "right").write_text(f"{TOKEN}\n")
    (tmp_path / "wrong").write_text("kim:wrong sesame")

    def run(*arguments: str, token: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rag_bm25", *arguments, "--uri", proxy.uri, "--collection", name]
        variables = {**os.environ, "PYTHONPATH": str(Path(rag_bm25.__file__).parents[1]), "MILVUS_TOKEN": token}
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        assert "sesame" not in done.stdout + done.stderr
        return done

    right, wrong = f"@{tmp_path}/right", f"@{tmp_path}/wrong"
    for arguments in (["ingest", str(texts), "--chunk-size", "500"], ["search", "apple"], ["stats", "--json"]):
        assert run(*arguments, token=right).returncode == 0
    assert run("search", "apple", token=TOKEN).returncode == 0
    for command in (["search", "apple"], ["ingest", str(texts)]):
        refused = run(*command, token=wrong)
        assert (refused.returncode, refused.stderr) == (1, f"error: Milvus at {proxy.uri} refused the token\n")


# What is asked for


class Stamping(GrpcProxy):
    """Tells when a write took place, as Milvus does and milvus-lite does not."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._stamps: list[str] = []

    def last_stamp(self, collection: str) -> int:
        """When a collection was written last."""
        return FIRST_STAMP + max(at for at, name in enumerate(self._stamps) if name == collection)

    def _pass_on(self, path: str, message: bytes, context: Any) -> bytes:
        from pymilvus.grpc_gen import milvus_pb2

        answer = super()._pass_on(path, message, context)
        method = path.rpartition("/")[2]
        if method not in ("Insert", "Delete"):
            return answer
        self._stamps.append(getattr(milvus_pb2, f"{method}Request").FromString(message).collection_name)
        return answer + milvus_pb2.MutationResult(timestamp=FIRST_STAMP + len(self._stamps) - 1).SerializeToString()


def asked(proxy: GrpcProxy, method: str) -> list[Any]:
    """The messages of a method's calls."""
    from pymilvus.grpc_gen import milvus_pb2

    kind = getattr(milvus_pb2, f"{method}Request")
    return [kind.FromString(message) for message in proxy.messages(method)]


@pytest.mark.parametrize("level", LEVELS)
def test_the_level_is_that_of_searches_and_all_else_is_strong(
    level: ConsistencyLevel, proxied: Proxied, opened: Callable[..., BM25Index]
) -> None:
    from pymilvus.grpc_gen.common_pb2 import ConsistencyLevel as Level

    proxy = proxied(Stamping)
    index = opened(proxy.uri, consistency=level)
    add(index, BEFORE)
    add(index, UPDATE)
    index.delete(["b"])
    everything_read(index)
    index.repair()
    assert {one.consistency_level for one in asked(proxy, "CreateCollection")} == {Level.Strong}
    queries = asked(proxy, "Query")
    assert {(one.consistency_level, one.guarantee_timestamp) for one in queries} == {(Level.Strong, 0)}
    assert {bool(one.use_default_consistency) for one in queries} == {True, False}  # that of the collection, or its own
    searches = asked(proxy, "Search") + asked(proxy, "HybridSearch")
    assert not any(one.use_default_consistency for one in searches)
    assert {one.consistency_level for one in searches} == {Level.Value(level)}
    times = {one.guarantee_timestamp for one in searches}
    assert times == {GUARANTEES.get(level, proxy.last_stamp(index._store._chunks.name))}


@pytest.mark.parametrize(
    ("query", "texts", "searches"),
    [
        ("apple", 300, 4),  # what one arm has found alone, the other is asked for in one call
        ("fig", 300, 2),  # there is no other chunk with a word of the query, and all of these are among the first
        ("kiwi", 300, 1),
        ("apple", 50, 2),
    ],
)
def test_a_hybrid_search_asks_each_arm_at_most_twice(
    query: str, texts: int, searches: int, proxied: Proxied, opened: Callable[..., BM25Index]
) -> None:
    proxy = proxied()
    index = opened(proxy.uri, refresh_interval=3600)
    angles = np.linspace(0, 3, texts)
    words = ["fig" if at < 3 else f"apple {'pie ' * at}" if at % 2 else "plum" for at in range(texts)]
    ids = list(map(str, range(texts)))
    index.add(words, ids=ids, embeddings=np.stack([np.cos(angles), np.sin(angles)], 1))
    index.search_hybrid(query, [1.0, 0.5])
    proxy.calls.clear()
    hits = index.search_hybrid(query, [1.0, 0.001])
    assert hits
    assert [name for name, _ in proxy.calls] == ["Search"] * searches


def test_all_threads_share_one_connection(proxied: Proxied, opened: Callable[..., BM25Index]) -> None:
    proxy = proxied()
    index = opened(proxy.uri)
    add(index, UPDATE)
    expected = everything_read(index)
    connections = proxy.messages("Connect")
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: everything_read(index), range(16)))
    assert found == [expected] * 16
    assert proxy.messages("Connect") == connections


def test_a_slow_connection_gives_the_same(server_uri: str, opened: Callable[..., BM25Index]) -> None:
    slow = Proxy(server_uri, delay=0.01)
    with opened(slow.uri) as index:
        add(index, UPDATE)
        expected = everything_read(index)
    slow.close()
    with opened(server_uri) as index:
        assert everything_read(index) == expected
