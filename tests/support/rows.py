"""Rows for stores, and ways to look at those that come back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rag_bm25.store.protocol import Store
from rag_bm25.store.rows import ALL_CHUNKS, ChunkRow, Match, Scope
from rag_bm25.vectors.sparse import SparseVector

ONE = SparseVector.from_dict({1: 1.0})
TOP = 2**32 - 2
SLOW = bool(os.environ.get("RAG_BM25_SLOW"))

HOSTILE = {
    "quotes": "it's \"quoted\" and 'quoted'",
    "backslashes": "\\ \\\\ \\n \\' \\\" end\\",
    "lines": "a\nb\r\nc\td\n",
    "unicode": "劳动合同 解除 ﷽ 👩‍👩‍👧 é é \u2028 \u0085",
    "rare ideographs": "𠮷野家",
    "controls": "\x01\x1b\x7f",
    "injection": "x') OR ('1'='1",
    "braces": "{x} {{y}} %s %(a)s",
    "wildcards": "%_100%",
    "empty": "",
    "blank": "  ",
}


def chunk(number: int, **changes: Any) -> ChunkRow:
    facts = {"pk": f"{number:08x}a", "id": f"id-{number}", "namespace": "", "length": number, "batch": "b1"}
    return ChunkRow(**{**facts, "text": f"text {number}", "vector": ONE, **changes})


def by_pk(rows: Iterable[ChunkRow]) -> dict[str, ChunkRow]:
    found = list(rows)
    keyed = {row.pk: row for row in found}
    assert len(keyed) == len(found), "a row came twice"
    return keyed


def scanned(store: Store, scope: Scope = ALL_CHUNKS, **options: bool) -> dict[str, ChunkRow]:
    return by_pk(row for batch in store.scan_chunks(scope, **options) for row in batch)


def pks(matches: list[Match]) -> list[str]:
    return [match.row.pk for match in matches]
