"""A Store whose calls run one at a time, whichever thread or process they come from; between calls, anything goes."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, cast

from rag_bm25.store.protocol import Store


class SerializedStore:
    """Passes each call on under a lock; `before`, where given, is called without it.

    Dicts do not bear threads that iterate and change them, and the server of milvus-lite 3 is documented for one
    writer. A lock for each call, and not for each batch, leaves the steps of the write protocol free to interleave.
    """

    def __init__(
        self,
        store: Store,
        locked: Callable[[], AbstractContextManager[Any]],
        before: Callable[[str], None] | None = None,
    ) -> None:
        self._store = store
        self._locked = locked
        self._before = before

    def successor(self) -> Store:
        return serialized(self._store.successor(), self._locked, self._before)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        return self._guarded(name, value) if callable(value) else value

    def _guarded(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._before is not None:
                self._before(name)
            with self._locked():
                result = method(*args, **kwargs)
                return iter(list(result)) if name == "scan_chunks" else result

        return call


def serialized(
    store: Store, locked: Callable[[], AbstractContextManager[Any]], before: Callable[[str], None] | None = None
) -> Store:
    """Return a store that passes each call on under a lock."""
    return cast("Store", SerializedStore(store, locked, before))


@contextmanager
def file_locked(path: Path) -> Iterator[None]:
    """Hold a lock that processes share."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
