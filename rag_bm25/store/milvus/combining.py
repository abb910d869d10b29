"""Combine concurrent searches: those that arrive while the engine is busy go to it together.

A call costs the client and the engine more than a search in it does, and all queries of a call share that.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

Q = TypeVar("Q")
A = TypeVar("A")

PATIENCE = 1.0  # seconds; the thread that another one waits for may be stuck, or have been killed


@dataclass(eq=False, slots=True)
class _Lane:
    """The requests of one kind."""

    in_flight: int = 0  # queries
    waiting: dict[_Turn[Any, Any], None] = field(default_factory=dict)  # in the order of their arrival


@dataclass(eq=False, slots=True)
class _Turn(Generic[Q, A]):
    """The queries of one thread, until they are answered."""

    queries: Sequence[Q]
    lane: _Lane = field(default_factory=_Lane)
    in_flight: int = 0  # queries that this thread calls the engine for, while it does
    followers: list[_Turn[Q, A]] = field(default_factory=list)  # whose queries are among them
    answers: list[A] | None = None
    sleep: threading.Lock = field(default_factory=threading.Lock)  # taken until another thread has something for it


class CombinedCalls(Generic[Q, A]):
    """Calls of many threads: a few at once, and those that would be more wait and become one.

    A thread of those that wait calls for all of them. If its call fails or is interrupted, each makes its own: it gets
    the error of its own request, and nobody else's Ctrl-C.

    Parameters
    ----------
    at_once : int
        Queries of a kind that are in flight before the next ones wait.
    patience : float
        Seconds after which a thread that waits makes its own call.
    """

    def __init__(self, at_once: int, patience: float = PATIENCE) -> None:
        self._at_once = at_once
        self._patience = patience
        self._lanes: dict[Hashable, _Lane] = {}
        self._lock = threading.RLock()  # a signal handler may search, too

    def call(self, kind: Hashable, queries: Sequence[Q], most: int, send: Callable[[Sequence[Q]], list[A]]) -> list[A]:
        """Return the answer to each query; `send` answers these, or up to `most` together with others of their kind."""
        turn: _Turn[Q, A] = _Turn(queries)
        try:
            if self._has_to_wait(kind, turn):
                self._await(kind, turn)
                self._gather(turn, most)
            if turn.followers:
                self._call_for_all(turn, send)
            return send(queries) if turn.answers is None else turn.answers
        finally:
            self._leave(kind, turn)

    def _has_to_wait(self, kind: Hashable, turn: _Turn[Q, A]) -> bool:
        with self._lock:
            turn.lane = lane = self._lanes.setdefault(kind, turn.lane)
            if lane.in_flight < self._at_once:
                self._count(turn, len(turn.queries))
                return False
            turn.sleep.acquire()
            lane.waiting[turn] = None
            return True

    def _await(self, kind: Hashable, turn: _Turn[Q, A]) -> None:
        """Wait for the answers, or for permission to call."""
        if not turn.sleep.acquire(timeout=self._patience):
            with self._lock:
                turn.lane.waiting.pop(turn, None)
                self._lanes.pop(kind, None)  # so that nobody else begins to wait for what may never come

    def _gather(self, turn: _Turn[Q, A], most: int) -> None:
        """Add the queries of waiting turns, if this turn is the one that calls."""
        with self._lock:
            if turn.in_flight:
                self._count(turn, len(turn.queries) - turn.in_flight)
            while turn.in_flight and (waiting := turn.lane.waiting):
                following = next(iter(waiting))
                if turn.in_flight + len(following.queries) > most:
                    return
                del waiting[following]
                turn.followers.append(following)
                self._count(turn, len(following.queries))

    def _count(self, turn: _Turn[Q, A], queries: int) -> None:
        turn.in_flight += queries
        turn.lane.in_flight += queries

    def _call_for_all(self, turn: _Turn[Q, A], send: Callable[[Sequence[Q]], list[A]]) -> None:
        turns = [turn, *turn.followers]
        try:
            answers = iter(send(list(chain.from_iterable(each.queries for each in turns))))
        except Exception:  # noqa: BLE001  # the thread that caused it gets it from its own call
            self._wake(turn)
            return
        for each in turns:
            each.answers = list(islice(answers, len(each.queries)))

    def _wake(self, turn: _Turn[Q, A]) -> None:
        """Wake those that this turn has called for."""
        while turn.followers:
            turn.followers.pop().sleep.release()

    def _leave(self, kind: Hashable, turn: _Turn[Q, A]) -> None:
        """Let the first that waits call next, and wake the followers."""
        with self._lock:
            lane = turn.lane
            lane.in_flight -= turn.in_flight
            turn.in_flight = 0
            lane.waiting.pop(turn, None)  # it is there after an interrupt
            if lane.waiting and lane.in_flight < self._at_once:
                following = next(iter(lane.waiting))
                del lane.waiting[following]
                self._count(following, self._at_once)  # until it has gathered others: those that come now wait for it
                following.sleep.release()
            elif not lane.in_flight and self._lanes.get(kind) is lane:
                del self._lanes[kind]
        self._wake(turn)
