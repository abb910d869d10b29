"""Ids of batches: 24 hex digits, a clock in microseconds and then random ones."""

from __future__ import annotations

import secrets
import time


class BatchClock:
    """Make ids of batches that rise, even where the machine's clock steps back."""

    def __init__(self) -> None:
        self._last = ""

    def observe(self, batch: str) -> None:
        """Make all later ids greater than this one."""
        self._last = max(self._last, batch)

    def new_batch(self) -> str:
        """Return an id greater than all ids that were made or observed."""
        clock = max(time.time_ns() // 1_000, int(self._last[:16] or "0", 16) + 1)
        self._last = f"{clock:016x}{secrets.token_hex(4)}"
        return self._last

    def age(self, batch: str) -> float:
        """Return how many seconds ago a batch began, on the clock that all writers share."""
        return (int(self.new_batch()[:16], 16) - int(batch[:16], 16)) / 1e6
