"""Clocks that only move when a test moves them, or something sleeps; how long a test waits by the real one."""

from __future__ import annotations

import math
import time

import pytest

PATIENCE = 300.0  # seconds until a test fails that waits for an event, on a machine however busy


class Clocks:
    """The wall clock and the monotonic clock; each look at the wall clock takes a microsecond."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = time.time()
        self.monotonic = float(math.ceil(time.monotonic()))  # whole, so that differences are exact
        patch.setattr(time, "time", self._look)
        patch.setattr(time, "time_ns", lambda: int(self._look() * 1e9))
        patch.setattr(time, "monotonic", lambda: self.monotonic)
        patch.setattr(time, "sleep", self.wait)

    def _look(self) -> float:
        self.now += 2e-6
        return self.now

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.monotonic += seconds
