"""The last queries as they were weighed, for those that come again before the statistics change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["QueryMemo"]

T = TypeVar("T")


class QueryMemo(Generic[T]):
    """Values by key, each as long as the statistics are what it was worked out from; the ones used last are kept.

    A query comes again when its score is explained or set in relation to the greatest one, when it is asked for more
    hits, and from other users. Whoever shares a memo between threads holds a lock.

    Parameters
    ----------
    size : int
        How many values are kept, > 0.

    Examples
    --------
    >>> memo = QueryMemo(size=1)
    >>> now = object()
    >>> memo.get("a", now, lambda: 1), memo.get("a", now, lambda: 2), memo.get("a", object(), lambda: 3)
    (1, 1, 3)
    """

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._kept: dict[Hashable, tuple[object, T]] = {}  # the one used last is last

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._kept)

    def get(self, key: Hashable, figures: object, weigh: Callable[[], T]) -> T:
        """Return a value, the kept one or a new one.

        Parameters
        ----------
        key : hashable
            What it depends on, the statistics aside.
        figures : object
            What stands for the statistics: another object after every change of them.
        weigh : callable of () to T
            Works it out.

        Returns
        -------
        T
            Not to be changed.
        """
        kept = self._kept.pop(key, None)
        if kept is None or kept[0] is not figures:
            kept = figures, weigh()
        self._kept[key] = kept
        if len(self._kept) > self._size:
            del self._kept[next(iter(self._kept))]
        return kept[1]
