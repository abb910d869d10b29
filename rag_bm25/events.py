"""What an index tells about its work: one logger, and a hook for counters and timings.

Everything goes to the logger ``rag_bm25``, at INFO or DEBUG; no handler is installed, so nothing is printed unless the
program asks for it. Each record has the fields of its event as attributes, for structured logs: ``event``, ``index``,
``seconds`` and the counts. No text, id, metadata, namespace or query of anybody is in them, and no secret.

=============  =====  ======================================  ===================================================
event          level  counts                                  when
=============  =====  ======================================  ===================================================
``batch``      INFO   ``inserted``, ``deleted``, ``terms``    rows of a batch were written; new terms
``recovery``   INFO   ``chunks``                              a batch that another writer left was finished
``compaction`` INFO   ``deltas``                              so many changes of the log were summed up
``repair``     INFO   those of ``RepairReport``               the statistics were replaced by a recount
``verify``     INFO   ``chunks``, ``terms``, ``differences``  the statistics were compared with a recount
``refresh``    DEBUG  ``log_rows``, ``deltas``                the log was read; its rows, and changes not summed up
``search``     DEBUG  ``queries``, ``hits``                   the sparse vectors were searched
``damage``     WARN   ``findings``                            the statistics have lost something: run repair
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

__all__ = ["Event", "Events"]

LOGGER = logging.getLogger("rag_bm25")
DEBUG_EVENTS = frozenset({"refresh", "search"})


@dataclass(frozen=True)
class Event:
    """Something that an index has done.

    Parameters
    ----------
    name : str
        One of those in the table above.
    index : str
        Engine, URI without secrets, and collection.
    seconds : float
        How long it took.
    counts : mapping of str to int
        How much it was.
    """

    name: str
    index: str
    seconds: float
    counts: Mapping[str, int]


class Events:
    """Where the parts of one index tell what they have done.

    Parameters
    ----------
    index : str
        Name of its store.
    on_event : callable of Event to None, optional
        Told of every event, in the thread that it happened in. What it raises is logged, and does not disturb the
        index.
    """

    def __init__(self, index: str, on_event: Callable[[Event], None] | None = None) -> None:
        self._index = index
        self._on_event = on_event
        self._held = threading.local()  # its `events`: those that this thread tells later

    @contextmanager
    def timed(self, name: str) -> Iterator[dict[str, int]]:
        """Tell of what happens in a ``with`` statement, if it ends well and has counted something.

        Parameters
        ----------
        name : str
            Of the event.

        Yields
        ------
        dict of str to int
            For the counts.
        """
        counts: dict[str, int] = {}
        start = time.perf_counter()
        yield counts
        if counts:
            self._tell(Event(name, self._index, time.perf_counter() - start, counts))

    def warn(self, name: str, message: str, **counts: int) -> None:
        """Log a warning, and tell of it as an event.

        Parameters
        ----------
        name : str
            Of the event.
        message : str
            What is wrong and what to do, without anybody's text or secret.
        **counts : int
            How much it is.
        """
        fields = {"event": name, "index": self._index, "seconds": 0.0, **counts}
        LOGGER.warning("%s", message, extra=fields)
        self._report(Event(name, self._index, 0.0, counts))

    def _tell(self, event: Event) -> None:
        level = logging.DEBUG if event.name in DEBUG_EVENTS else logging.INFO
        if LOGGER.isEnabledFor(level):
            shown = ", ".join(f"{name} {count:,}" for name, count in event.counts.items())
            fields = {"event": event.name, "index": event.index, "seconds": event.seconds, **event.counts}
            LOGGER.log(level, "%s: %s in %.3f s, %s", event.name, shown, event.seconds, event.index, extra=fields)
        self._report(event)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Call the hook only after a ``with`` statement, for what happens in it.

        The hook may write, which takes the lock of all writers first: nobody may hold the lock of the statistics alone
        while it is called.
        """
        if getattr(self._held, "events", None) is not None:
            yield
            return
        self._held.events = []
        try:
            yield
        finally:
            events, self._held.events = self._held.events, None
            for event in events:
                self._report(event)

    def _report(self, event: Event) -> None:
        """Call the user's hook, now or when it may be called."""
        if (events := getattr(self._held, "events", None)) is not None:
            events.append(event)
        elif self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                LOGGER.warning("on_event failed at %s", event.name, exc_info=True)
