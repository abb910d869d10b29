"""Signs of life of other writers, aged by the clock of this process: their own clocks may be wrong."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


LEASE_SECONDS = 600.0
"""Time after which a writer on a server is taken for dead, and others finish its batch."""

FUTURE_SECONDS = 600.0
"""How far a time may be ahead of the own clock without being taken for that of a wrong one."""


class _Sign(NamedTuple):
    stamp: float | None  # the newest, on its writer's clock, once that has been read
    seen: float | None  # on the monotonic clock; None where it was there when this process first looked


class LifeSigns:
    """When the writers of batches or compactions in progress gave their last signs of life.

    A process ages those that come while it looks by its own clock. Of those that it has found, it only knows the times
    that their writers have noted.
    """

    def __init__(self) -> None:
        self._signs: dict[str, _Sign] | None = None

    def look(self, names: Iterable[str]) -> None:
        """Note all batches or compactions that are in progress now."""
        known = self._signs or {}
        new = _Sign(None, None if self._signs is None else time.monotonic())
        self._signs = {name: known.get(name, new) for name in names}

    def silence(self, name: str, stamps: Sequence[float]) -> float:
        """Return for how many seconds there was no sign, given the times of all, that of the beginning first."""
        now, newest = time.monotonic(), max(stamps)
        signs = self._signs or {}
        sign = signs.get(name, _Sign(None, now))
        if sign.seen is None:
            seen = now - max(0.0, time.time() - last_time(stamps))
        elif newest != (stamps[0] if sign.stamp is None else sign.stamp):
            seen = now
        else:
            seen = sign.seen
        if name in signs:
            signs[name] = _Sign(newest, seen)
        return now - seen

    def any_silent_for(self, seconds: float) -> bool:
        """Return whether one may be silent for so long, as far as that is known without reading its last sign."""
        now = time.monotonic()
        return any(sign.seen is not None and now - sign.seen > seconds for sign in (self._signs or {}).values())


def is_of_the_future(stamp: float) -> bool:
    """Return whether a time is so far ahead that a clock must be wrong."""
    return stamp > time.time() + FUTURE_SECONDS


def last_time(stamps: Sequence[float]) -> float:
    """Return the last time that is not of the future, or else the last one."""
    return max([stamp for stamp in stamps if not is_of_the_future(stamp)] or stamps)
