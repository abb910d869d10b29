"""Events of an index: log records, and a callback for counters and timings.

All records go to the logger ``rag_bm25``. The package installs no handler, so nothing is printed unless the program
configures logging. Each record has the fields of its event as attributes, for structured logs: ``event``, ``index``,
``seconds`` and the counts. They never contain a text, id, metadata, namespace, query or secret.

=============  =====  ======================================  ===================================================
event          level  counts                                  when
=============  =====  ======================================  ===================================================
``batch``      INFO   ``inserted``, ``deleted``, ``terms``    a batch was written: rows, and new terms
``recovery``   INFO   ``chunks``                              an unfinished batch of another writer was finished;
                                                              WARN: it cannot be finished yet, ``chunks`` is 0
``compaction`` INFO   ``deltas``                              deltas of the log were folded into a run
``repair``     INFO   those of ``RepairReport``               the statistics were replaced by a recount
``verify``     INFO   ``chunks``, ``terms``, ``differences``  the statistics were compared with a recount
``refresh``    DEBUG  ``log_rows``, ``deltas``                the log was read: rows, and deltas not merged yet
``count``      INFO   ``chunks``, ``terms``                   N and df of the chunks that fit a filter were counted
``search``     DEBUG  ``queries``, ``hits``                   the sparse vectors were searched
``request``    DEBUG  ``status_200`` and so on                a server answered a request over HTTP
``tool``       DEBUG  the name of the tool                    a server answered an agent
``recut``      WARN   ``files``, ``chunks``                   files that are the same are cut anew by an ingestion
``stale``      WARN   ``failures``                            a refresh in the background failed
``damage``     WARN   ``findings``                            the statistics are damaged: run repair
``incomplete`` WARN   ``candidates``                          so many chunks do not decide which hits are first
``no_vector``  WARN   ``queries``                             a hybrid search had no embedding, but words alone
``unlike``     WARN   ``questions``                           so many are unlike those of the calibration
=============  =====  ======================================  ===================================================
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Event", "Progress"]

LOGGER = logging.getLogger("rag_bm25")
DEBUG_EVENTS = frozenset({"refresh", "search", "request", "tool"})


@dataclass(frozen=True)
class Event:
    """An operation of an index.

    Parameters
    ----------
    name, index : str
        Name of the operation, from the table above; engine, URI without secrets, and collection of the index.
    seconds : float
        Duration.
    counts : mapping of str to int
        Counts by name.
    """

    name: str
    index: str
    seconds: float
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Progress:
    """Progress of a long call: the argument of every `progress` callback.

    Parameters
    ----------
    what : str
        Unit of the count, such as ``"rows counted"`` or ``"chunks"``. A call may count several units.
    done : int
        Number of units done.
    total : int or None
        Number of all units; None if it is not known.
    source : str
        File that is under way, "" if none is.

    Examples
    --------
    >>> def show(progress):
    ...     print(f"{progress.done} of {progress.total} {progress.what}")
    >>> show(Progress("rows counted", 1_000, 5_000))
    1000 of 5000 rows counted
    """

    what: str
    done: int
    total: int | None
    source: str = ""


def report_progress(
    progress: Callable[[Progress], None] | None, what: str, done: int, total: int | None = None, source: str = ""
) -> None:
    """Call a progress callback, if there is one.

    Parameters
    ----------
    progress : callable of Progress to None, or None
        The callback.
    what, done, total, source
        As for :class:`Progress`. A total that was estimated too low is raised to `done`.
    """
    if progress is not None:
        progress(Progress(what, done, None if total is None else max(total, done), source))


class Events:
    """Log the events of one index, and pass them to a callback.

    Parameters
    ----------
    index : str
        Name of its store.
    on_event : callable of Event to None, optional
        Called with each event, in the thread of the operation. Its exceptions are logged and do not disturb the index.
    """

    def __init__(self, index: str, on_event: Callable[[Event], None] | None = None) -> None:
        self._index = index
        self._on_event = on_event
        self._deferred = threading.local()  # its `events`: those that this thread reports later

    @contextmanager
    def measure(self, name: str) -> Iterator[dict[str, int]]:
        """Report the body of a ``with`` statement as an event, if it succeeds and fills the yielded dict with counts.

        Parameters
        ----------
        name : str
            Name of the event.
        """
        counts: dict[str, int] = {}
        start = time.perf_counter()
        yield counts
        if counts:
            self._log(Event(name, self._index, time.perf_counter() - start, counts))

    def warn(self, name: str, message: str, **counts: int) -> None:
        """Log a warning, and report it as an event.

        Parameters
        ----------
        name, message : str
            Name of the event; the problem and its remedy, without texts or secrets.
        **counts : int
            Counts by name.
        """
        if self.is_muted:
            return
        fields = {"event": name, "index": self._index, "seconds": 0.0, **counts}
        LOGGER.warning("%s", message, extra=fields)
        self._report(Event(name, self._index, 0.0, counts))

    @property
    def is_muted(self) -> bool:
        """Whether this thread reports nothing now, see :meth:`mute`."""
        return getattr(self._deferred, "muted", False)

    @contextmanager
    def mute(self) -> Iterator[None]:
        """Report nothing of what this thread does within a ``with`` statement, as to look for a reason."""
        before, self._deferred.muted = self.is_muted, True
        try:
            yield
        finally:
            self._deferred.muted = before

    def _log(self, event: Event) -> None:
        if self.is_muted:
            return
        level = logging.DEBUG if event.name in DEBUG_EVENTS else logging.INFO
        if LOGGER.isEnabledFor(level):
            counts = ", ".join(f"{name} {count:,}" for name, count in event.counts.items())
            fields = {"event": event.name, "index": event.index, "seconds": event.seconds, **event.counts}
            LOGGER.log(level, "%s: %s in %.3f s, %s", event.name, counts, event.seconds, event.index, extra=fields)
        self._report(event)

    @contextmanager
    def defer(self) -> Iterator[None]:
        """Call the callback only at the end of a ``with`` statement."""
        # The callback may write, which takes the lock of all writers before that of the statistics. A thread that
        # holds the latter alone must not call it, lest the two deadlock.
        if getattr(self._deferred, "events", None) is not None:
            yield
            return
        self._deferred.events = []
        try:
            yield
        finally:
            events, self._deferred.events = self._deferred.events, None
            for event in events:
                self._report(event)

    def _report(self, event: Event) -> None:
        """Call the user's callback, or defer it."""
        if (events := getattr(self._deferred, "events", None)) is not None:
            events.append(event)
        elif self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                LOGGER.warning("on_event failed at %s", event.name, exc_info=True)
