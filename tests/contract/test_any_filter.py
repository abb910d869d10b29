"""Any filter of a user finds rows of the given namespaces, or is an error of ours: it ends no engine."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import engines
from support.filter_inputs import MAPPINGS
from support.milvus_logic import is_out_of_reach
from support.rows import chunk

from rag_bm25.errors import RagBM25Error
from rag_bm25.filters import parse_filter
from rag_bm25.store.memory import matches
from rag_bm25.store.protocol import Store
from rag_bm25.store.rows import ChunkRow, Scope

METADATA: list[dict[str, Any]] = [
    {},
    {"a": 1, "b": "x"},
    {"a": 2.5, "b": "ab", "source": "法律"},
    {"a": "x", "b": {"a": 1, "b": "a%"}},
    {"a": None, "b": [1, 2.5, "a"]},
    {"a": 0, "source": '") or (pk != "', "b": ["x"]},
    {"a": "line\nbreak", "b": "tab\tand \\ and '", "source": "𠮷"},
    {"a": -1, "b": "", "a.b": 1, "%": "法律", "_": "1"},
]
NAMESPACES = ("mine", 'q"uo\\te', "other")
IDS = ["a", "ab", "𠮷野", '"', "\\", "\r\n", '") or (pk != "', "法律"]
ROWS = [
    chunk(at, id=id_, namespace=namespace, metadata=metadata)
    for at, (namespace, (id_, metadata)) in enumerate(product(NAMESPACES, zip(IDS, METADATA, strict=True)))
]


@pytest.fixture
def filled(store: Store) -> Store:
    store.insert_chunks(ROWS)
    return store


@given(given_filter=MAPPINGS, namespaces=st.sampled_from([NAMESPACES[:1], NAMESPACES[1:2], NAMESPACES[::2]]))
@settings(suppress_health_check=list(HealthCheck))
def test_it_finds_its_rows_and_none_of_others(
    filled: Store, engine: str, given_filter: Any, namespaces: tuple[str, ...]
) -> None:
    found: list[ChunkRow] | None = None
    with suppress(RagBM25Error):
        where = parse_filter(given_filter)
        found = [row for page in filled.scan_chunks(Scope(where, namespaces)) for row in page] if where else None
    assert filled.count_chunks() == len(ROWS)
    if found is None:
        return
    assert {row.namespace for row in found} <= set(namespaces)
    if not _may_take_true_for_one(engine, where):
        expected = {row.pk for row in ROWS if row.namespace in namespaces and matches(where, row.id, row.metadata)}
        lost = {row.pk for row in ROWS if is_out_of_reach(engine, where, row.metadata)}
        assert {row.pk for row in found} ^ expected <= lost


def _may_take_true_for_one(engine: str, where: object) -> bool:
    return engines.dialect_of(engine) == "lite3" and any(word in repr(where) for word in ("True", "False"))
