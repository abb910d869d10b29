"""What is stored does not depend on who has packed it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rag_bm25.errors import FilterError, StoreError
from rag_bm25.filters import parse_filter
from rag_bm25.store.milvus import MilvusStore, client, searching
from rag_bm25.store.rows import ChunkRow, DenseField, LogRow, Scope, SearchArm
from rag_bm25.vectors.sparse import EMPTY, SparseVector

TOP = 2**32 - 2


def chunk(number: int, *, dense: bool = True) -> ChunkRow:
    random = np.random.default_rng(number)
    ids = np.unique(random.integers(1, TOP, 300)).astype(np.uint32)
    vector = SparseVector(np.append(ids, np.uint32(TOP)), random.random(len(ids) + 1, np.float32))
    return ChunkRow(
        f"{number:08x}a",
        f"id '{number}'",
        "ns",
        number,
        "b1",
        f'文本 "{number}"\n',
        {"n": number, "x": [1.5, None, True], "文": {"a": "ü"}},
        vector,
        random.random(4, np.float32) if dense else None,
    )


def bits(row: ChunkRow) -> tuple[Any, ...]:
    assert row.dense is not None
    arrays = (row.vector.ids, row.vector.values, row.dense)
    return (row.pk, row.id, row.namespace, row.length, row.text, row.metadata, *(array.tobytes() for array in arrays))


def test_rows_are_the_same_bits_by_column_and_by_pymilvus(
    milvus: Callable[..., MilvusStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [chunk(number) for number in range(20)]
    log = LogRow("k", "delta", {"a": 1.5}, "packed")
    sent: list[int] = []
    make = client.insert_request
    monkeypatch.setattr(client, "insert_request", lambda name, some: (sent.append(len(some)), make(name, some))[1])
    for name, by_column in (("fast", True), ("slow", False)):
        monkeypatch.setattr(client, "_takes_requests", lambda by_column=by_column: by_column)
        monkeypatch.setattr(client, "_rows", client._rows if by_column else list)
        store = milvus(name)
        store.create(DenseField(4, "IP"))
        store.insert_chunks(rows)
        store.insert_log([log])
        read = store.get_chunks([row.pk for row in rows], vectors=True, dense=True)
        assert sorted(map(bits, read)) == sorted(map(bits, rows))
        assert store.get_log(["k"]) == [log]
        assert [match.row.id for match in store.search([rows[3].vector], SearchArm(1))[0]] == [rows[3].id]
        assert sent == [20, 1]
        store.drop()


def found(store: MilvusStore, rows: list[ChunkRow]) -> list[Any]:
    """What searches of all kinds find, with scores to the bit."""
    sparse, dense = rows[3].vector, rows[3].dense
    assert dense is not None
    odd = parse_filter({"n": {"$gte": 5}})
    some = SearchArm(16_384, Scope(odd, ("ns", "other")))
    return [
        *store.search([row.vector for row in rows], SearchArm(5)),
        *store.search([sparse, SparseVector.from_dict({12345: 1.0})], some),
        *store.search([sparse], SearchArm(5, params={"ignore_growing": False})),
        *store.search(np.stack([dense, -dense]), SearchArm(7, Scope(odd), metric="IP")),
    ]


def test_hits_are_the_same_by_column_and_by_pymilvus(
    milvus: Callable[..., MilvusStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [chunk(number) for number in range(20)]
    store = milvus("hits")
    store.create(DenseField(4, "IP"))
    store.insert_chunks(rows)
    ours = found(store, rows)
    assert [matches[0].row.id for matches in ours[:20]] == [row.id for row in rows]
    assert ours[3][0].row == replace(rows[3], vector=EMPTY)
    assert ours[21] == []
    assert all(ours[20])
    assert all(ours[22:])
    monkeypatch.setattr(client, "_sender", lambda: None)
    assert found(store, rows) == ours
    store.drop()


@pytest.mark.parametrize(("rows", "calls"), [(10, 1), (11, 1), (12, 2), (60, 3)])
def test_a_shared_last_score_seldom_takes_another_call(
    milvus: Callable[..., MilvusStore], monkeypatch: pytest.MonkeyPatch, rows: int, calls: int
) -> None:
    store = milvus(f"ties{rows}")
    store.create()
    store.insert_chunks(
        [replace(chunk(at, dense=False), vector=SparseVector.from_dict({5: 1.0})) for at in range(rows)]
    )
    limits: list[int] = []
    search = store._open.client.search
    monkeypatch.setattr(
        store._open.client, "search", lambda *args, **asked: (limits.append(asked["limit"]), search(*args, **asked))[1]
    )
    (matches,) = store.search([SparseVector.from_dict({5: 1.0})], SearchArm(10))
    assert [match.row.id for match in matches] == sorted(f"id '{at}'" for at in range(rows))[:10]
    assert limits == [12, 48, 192][:calls]
    store.drop()


def test_errors_are_the_same_by_column_and_by_pymilvus(
    milvus: Callable[..., MilvusStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = milvus("errors")
    store.create()
    store.insert_chunks([chunk(1, dense=False)])
    messages = []
    monkeypatch.setattr(searching, "where_clause", lambda dialect, scope: 'nothing_of_this_name == "a"')
    for sender in (client._sender, lambda: None):
        monkeypatch.setattr(client, "_sender", sender)
        with pytest.raises(FilterError) as caught:
            store.search([chunk(1).vector], SearchArm(1))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "search" not in messages[0]
    store.drop()


def test_rows_that_lack_a_field_are_refused_before_they_are_sent(milvus: Callable[..., MilvusStore]) -> None:
    store = milvus("dense")
    store.create(DenseField(4, "IP"))
    store.insert_chunks([chunk(1)])
    with pytest.raises(StoreError, match="dense"):
        store.insert_chunks([chunk(2), chunk(3, dense=False)])
    store.insert_chunks([chunk(4)])
    assert store.count_chunks() == 2
    store.drop()
