"""Ids of batches: hex digits of a clock in microseconds, then of the writer, then the birth id of the index."""

from __future__ import annotations

import secrets
import time

CLOCK_DIGITS, WRITER_DIGITS = 16, 8


class BatchClock:
    """Make ids of batches that rise, even where the machine's clock steps back."""

    def __init__(self, birth: str = "") -> None:
        self.birth = birth  # of the index, once it is known
        self._last = ""
        self._writer = secrets.token_hex(WRITER_DIGITS // 2)

    def observe(self, batch: str) -> None:
        """Make all later ids greater than this one."""
        self._last = max(self._last, batch)

    def new_batch(self) -> str:
        """Return an id greater than all ids that were made or observed."""
        clock = max(time.time_ns() // 1_000, int(self._last[:CLOCK_DIGITS] or "0", 16) + 1)
        self._last = f"{clock:016x}{self._writer}{self.birth}"
        return self._last

    def present(self) -> str:
        """Return an id of the present, also where a wrong clock has made ids of the future."""
        return f"{time.time_ns() // 1_000:016x}{self._writer}{self.birth}"

    def age(self, batch: str) -> float:
        """Return how many seconds ago a batch began, on the clock that all writers share."""
        return (int(self.new_batch()[:CLOCK_DIGITS], 16) - int(batch[:CLOCK_DIGITS], 16)) / 1e6


def time_of(batch: str) -> float:
    """Return when a batch began, in seconds since 1970 on its writer's clock."""
    return int(batch[:CLOCK_DIGITS], 16) / 1e6


def writer_of(batch: str) -> str:
    """Return the writer of a batch."""
    return batch[CLOCK_DIGITS:]


def birth_of(batch: str) -> str:
    """Return the birth id of the index that a batch was written to, "" for a batch without one."""
    return batch[CLOCK_DIGITS + WRITER_DIGITS :]


def earlier(batch: str, seconds: float) -> str:
    """Return the least id of a time before a batch."""
    return f"{max(int(batch[:CLOCK_DIGITS], 16) - int(seconds * 1e6), 0):016x}"
