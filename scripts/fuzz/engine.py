"""The embedded engine itself: it finds the rows of a filter, and none outside of the given namespaces.

Whichever milvus-lite is installed is asked, in a database of its own. An expression that it cannot evaluate is an error
of ours; it must not end the engine, which the next input would notice.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fuzz.filters import EXPRESSIONS, MAPPINGS
from fuzz.strategies import FEW
from rag_bm25.errors import RagBM25Error
from rag_bm25.filters import Expression, parse_filter
from rag_bm25.store.memory import matches
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.milvus.expressions import Lite3Dialect
from rag_bm25.store.rows import ChunkRow, Scope
from rag_bm25.vectors.sparse import SparseVector

__all__ = ["check"]

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
ROWS = [
    ChunkRow(f"{place:02x}a", f"{place}", namespace, 1, "0" * 24, "text", metadata, SparseVector.from_dict({1: 1.0}))
    for place, (namespace, metadata) in enumerate((n, m) for n in ("mine", 'q"uo\\te', "other") for m in METADATA)
]


@FEW
@given(EXPRESSIONS | MAPPINGS, st.sampled_from([["mine"], ['q"uo\\te'], ["mine", "other"]]))
def check(given_filter: Any, namespaces: list[str]) -> None:
    """Query the rows that match a mapping or an expression."""
    try:
        where = parse_filter(given_filter)
        found = [] if where is None else _find(where, namespaces)
    except RagBM25Error:
        return
    assert {row.namespace for row in found} <= set(namespaces), f"rows of others, by {given_filter!r}"
    if where is not None and not isinstance(where, Expression) and not _may_take_true_for_one(where):
        expected = {row.pk for row in ROWS if row.namespace in namespaces and matches(where, row.metadata)}
        assert {row.pk for row in found} == expected, f"{where}: {sorted(row.pk for row in found)}"


def _may_take_true_for_one(where: Any) -> bool:
    """Tell whether milvus-lite 3 is documented to find too much: it takes true for 1."""
    dialect = _store()._open.dialect  # noqa: SLF001
    return isinstance(dialect, Lite3Dialect) and any(word in repr(where) for word in ("True", "False"))


def _find(where: Any, namespaces: list[str]) -> list[ChunkRow]:
    try:
        return [row for page in _store().scan_chunks(Scope(where, tuple(namespaces))) for row in page]
    finally:
        assert _store().count_chunks() == len(ROWS), "the engine has lost its rows"


@functools.cache
def _store() -> MilvusStore:
    store = MilvusStore(Path(_folder().name, "f.db"), "docs")
    store.create()
    store.insert_chunks(ROWS)
    return store


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fz-", dir="/tmp")  # the engine needs a short path
