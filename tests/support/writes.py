"""What an index has written to its store."""

from __future__ import annotations

from rag_bm25.errors import StoreError
from support.memory_store import MemoryStore

WRITES = {"create", "insert_chunks", "delete_chunks", "insert_log", "delete_log"}


def writes(store: MemoryStore) -> list[str]:
    return [call for call in store.calls if call in WRITES]


def fail_at(store: MemoryStore, failing: str) -> None:
    """Let each call of a method fail."""

    def fail(method: str) -> None:
        if method == failing:
            raise StoreError("lost")

    store.on_call = fail
