"""What is stored does not depend on who has packed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rag_bm25.errors import StoreError
from rag_bm25.milvus_store import MilvusStore, client
from rag_bm25.sparse import SparseVector
from rag_bm25.store import ChunkRow, DenseField, LogRow

if TYPE_CHECKING:
    from collections.abc import Callable

TOP = 2**32 - 2


@pytest.fixture
def milvus(engine: str, opened: Callable[..., Any]) -> Callable[..., MilvusStore]:
    """Opens stores that are not in memory."""
    if engine == "memory":
        pytest.skip("there is no client")
    return opened


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
    log = LogRow("k", "delta", {"a": 1.5}, "packed", rows[0].vector, SparseVector.from_dict({5: 2.0}))
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
        assert [match.row.id for match in store.search([rows[3].vector], limit=1)[0]] == [rows[3].id]
        assert sent == [20, 1]
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


def test_fields_are_those_of_the_collection_that_is_there_now(milvus: Callable[..., MilvusStore]) -> None:
    store = milvus("again")
    store.create()
    store.insert_chunks([chunk(1, dense=False)])
    store.drop()
    store.create(DenseField(4, "IP"))
    with pytest.raises(StoreError, match="dense"):
        store.insert_chunks([chunk(2, dense=False)])
    store.insert_chunks([chunk(3)])
    assert store.count_chunks() == 1
    store.drop()
