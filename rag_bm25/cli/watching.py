"""``rag-bm25 ingest --watch`` ends when the process is asked to stop."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rag_bm25.ingestion.watching import Pause


@contextmanager
def stop_by_signals() -> Iterator[Pause]:
    """Yield a pause that ends when the process is asked to stop; a second Ctrl-C interrupts what it does."""
    asked: list[int] = []

    def ask(number: int, _frame: Any) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    def pause(seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not asked and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
        return not asked

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield pause
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
