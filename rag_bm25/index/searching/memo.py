"""Keep the last weighted queries until the statistics change."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")


class QueryMemo(Generic[T]):
    """Least recently used cache of values that are valid for one view of the statistics, shared by all threads.

    A query comes again when its score is explained or divided by its maximum, when more hits are wanted, and from
    other users.
    """

    def __init__(self, size: int = 256) -> None:
        self._size = size  # maximum number of values
        self._kept: dict[Hashable, T] = {}  # the one used last is last
        self._view: object = None  # of all of them: an older view would stay in memory, as large as the statistics
        self._lock = RLock()  # a signal handler may search, too

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._kept)

    def get(self, key: Hashable, view: object, weigh: Callable[[], T]) -> T:
        """Return the kept value or a new one; `view` is another object after every change of the statistics."""
        with self._lock:
            if self._view is not view:
                self._kept, self._view = {}, view
            value = self._kept.pop(key, None)
        if value is None:
            value = weigh()
        with self._lock:
            if self._view is view:
                self._kept[key] = value
                if len(self._kept) > self._size:
                    del self._kept[next(iter(self._kept))]
        return value
