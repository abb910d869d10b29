"""Rows of a Milvus server as they are some time after their insertion: in sealed segments, with all that is built."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rag_bm25.store.milvus import MilvusStore
from support.clocks import PATIENCE

JSON_SECONDS = 60.0  # for the statistics of JSON, which 2.6 and later build last: no call tells whether they are there
LEAST_ROWS = 1024  # of a segment that gets an index: smaller ones are searched row by row


def seal(client: Any, store: MilvusStore, rows: int) -> None:
    """Wait until all chunks are flushed and indexed; load them again, since nothing tells the end of a handoff."""
    name = store._chunks.name
    client.flush(name)
    await_(lambda: all(_is_indexed(client.describe_index(name, index), rows) for index in client.list_indexes(name)))
    if not client.get_server_version().startswith(("v2.3.", "v2.5.")):
        time.sleep(JSON_SECONDS)
    client.release_collection(name)
    client.load_collection(name)
    await_(lambda: _sealed_rows(client, name) >= rows)
    assert store.count_chunks() == rows


def await_(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "the segments are not sealed and indexed"
        time.sleep(0.2)


def _is_indexed(described: dict[str, Any], rows: int) -> bool:
    return int(described["indexed_rows"]) >= rows and int(described["pending_index_rows"]) == 0


def _sealed_rows(client: Any, name: str) -> int:
    return sum(segment.num_rows for segment in client.list_loaded_segments(name) if segment.state.name == "Sealed")
