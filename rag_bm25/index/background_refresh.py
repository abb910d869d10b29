"""Refresh the statistics in the background, as searches on a server need it: they wait for nothing."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING

from rag_bm25.errors import IndexGoneError, RagBM25Error

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import MethodType

    from rag_bm25.events import Events

IDLE_INTERVALS = 60
"""Number of intervals without a search after which the thread ends, until the next search."""


class BackgroundRefresh:
    """A thread that reads the log at intervals, for as long as somebody searches."""

    def __init__(self, refresh: Callable[[], None], interval: float, events: Events) -> None:
        ended = threading.Event()
        # Weakly: an index that nobody holds must be collected, with its thread running, which ends then.
        self._refresh: weakref.WeakMethod[MethodType] = weakref.WeakMethod(refresh, lambda _: ended.set())  # type: ignore[arg-type]
        self._interval = min(interval, threading.TIMEOUT_MAX)
        self._events = events
        self._ended = ended
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._last_used = 0.0

    @property
    def is_running(self) -> bool:
        """Whether the thread is there; a forked child does not have it."""
        return self._thread is not None and self._thread.is_alive()

    def use(self) -> None:
        """Keep the thread running."""
        self._last_used = time.monotonic()
        if self.is_running:
            return
        with self._starting:
            if not self.is_running and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, name="rag_bm25-refresh", daemon=True)
                self._thread.start()

    def end(self) -> None:
        """End the thread at its next interval, for ever."""
        self._ended.set()

    def _run(self) -> None:
        is_told = False
        while not self._ended.wait(self._interval) and self._is_used():
            refresh = self._refresh()
            if refresh is None:
                return
            try:
                refresh()
                is_told = False
            except IndexGoneError:
                return  # each call raises it from now on
            except RagBM25Error as error:
                if not self._ended.is_set() and not is_told:
                    self._events.warn("stale", f"searches use older statistics: {error}", failures=1)
                    is_told = True
            del refresh

    def _is_used(self) -> bool:
        return time.monotonic() - self._last_used < IDLE_INTERVALS * self._interval
