"""An analyzer for tests of what happens when a worker process dies; a module, for workers import it."""

from __future__ import annotations

import multiprocessing
import os
import signal


def dies(text: str) -> list[str]:
    """End the process, where it is a worker."""
    if text == "a" and multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return text.split()
