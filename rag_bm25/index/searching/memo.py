"""Keep the last weighted queries until the statistics change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")


class QueryMemo(Generic[T]):
    """Least recently used cache of values that are valid for one state of the statistics; not thread-safe.

    A query comes again when its score is explained or divided by its maximum, when more hits are wanted, and from
    other users.

    Examples
    --------
    >>> memo = QueryMemo(size=1)
    >>> now = object()
    >>> memo.get("a", now, lambda: 1), memo.get("a", now, lambda: 2), memo.get("a", object(), lambda: 3)
    (1, 1, 3)
    """

    def __init__(self, size: int = 256) -> None:
        self._size = size  # maximum number of values
        self._kept: dict[Hashable, tuple[object, T]] = {}  # the one used last is last

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._kept)

    def get(self, key: Hashable, state: object, weigh: Callable[[], T]) -> T:
        """Return the kept value or a new one; `state` is another object after every change of the statistics."""
        kept = self._kept.pop(key, None)
        if kept is None or kept[0] is not state:
            kept = state, weigh()
        self._kept[key] = kept
        if len(self._kept) > self._size:
            del self._kept[next(iter(self._kept))]
        return kept[1]
