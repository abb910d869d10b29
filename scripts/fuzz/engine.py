"""The embedded engine itself: it finds what a filter means, and never anything outside of the namespaces asked for.

Whichever milvus-lite is installed is asked, in a database of its own. An expression that it cannot evaluate is an error
of ours; it must not end the engine, which the next input would notice.
"""

from __future__ import annotations

import functools
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_store import matches

from fuzz.filters import drawn_expression, drawn_filter
from rag_bm25.errors import FilterError, RagBM25Error
from rag_bm25.filters import Expression, parse_filter
from rag_bm25.milvus_store import MilvusStore
from rag_bm25.milvus_store.expressions import Lite3Dialect
from rag_bm25.sparse import SparseVector
from rag_bm25.store import ChunkRow

if TYPE_CHECKING:
    from fuzz.drawing import Draw

__all__ = ["check"]

NAMESPACES = ["mine", 'q"uo\\te', "other"]
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


def check(draw: Draw) -> None:
    """Ask for the rows that fit a mapping or an expression."""
    given = drawn_expression(draw) if draw.chance(2) else drawn_filter(draw)
    namespaces = draw.choice([["mine"], ['q"uo\\te'], ["mine", "other"]])
    with suppress(RagBM25Error):
        where = parse_filter(given)
        if where is None:
            return
        found = _found(where, namespaces)
        if found is None:
            return
        assert {row.namespace for row in found} <= set(namespaces), f"rows of others, by {given!r}"
        if not isinstance(where, Expression) and not _may_take_true_for_one(where):
            _check_rows(where, namespaces, found)


def _may_take_true_for_one(where: Any) -> bool:
    """Tell what milvus-lite 3 is known, and documented, to find too much of."""
    dialect = _store()._open.dialect  # noqa: SLF001
    return isinstance(dialect, Lite3Dialect) and any(word in repr(where) for word in ("True", "False"))


def _check_rows(where: Any, namespaces: list[str], found: list[ChunkRow]) -> None:
    expected = {row.pk for row in _rows() if row.namespace in namespaces and matches(where, row.metadata)}
    assert {row.pk for row in found} == expected, f"{where}: {sorted(row.pk for row in found)}, not {sorted(expected)}"


def _found(where: Any, namespaces: list[str]) -> list[ChunkRow] | None:
    try:
        return [row for page in _store().scan_chunks(where=where, namespaces=namespaces) for row in page]
    except FilterError:
        return None
    finally:
        assert _store().count_chunks() == len(_rows()), "the engine has lost its rows"


@functools.cache
def _store() -> MilvusStore:
    store = MilvusStore(Path(_folder().name, "f.db"), "docs")
    store.create()
    store.insert_chunks(_rows())
    return store


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fz-", dir="/tmp")  # the engine needs a short path


@functools.cache
def _rows() -> list[ChunkRow]:
    one = SparseVector.from_dict({1: 1.0})
    return [
        ChunkRow(f"{place:02x}a", f"{place}", namespace, 1, "0" * 24, "text", metadata, one)
        for place, (namespace, metadata) in enumerate((n, m) for n in NAMESPACES for m in METADATA)
    ]
