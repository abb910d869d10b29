"""Jobs: long calls that write, and how far they have come."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rag_bm25.errors import RagBM25Error
from rag_bm25.serving.answers import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rag_bm25.events import Progress

MAX_KEPT = 20


@dataclass(eq=False)
class Job:
    """A call that writes."""

    kind: str
    stopped: threading.Event
    state: Literal["running", "done", "failed"] = "running"
    counts: dict[str, tuple[int, int | None]] = field(default_factory=dict)  # done and total, by what is counted
    source: str = ""  # under way
    result: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    started: float = field(default_factory=time.time)
    ended: float | None = None

    def report(self, progress: Progress) -> None:
        """Note the progress: the callback of a long call, which it ends if the server stops."""
        if self.stopped.is_set():
            raise RefusedError(503, "stopping", "the server stopped; everything before is stored")
        self.note(progress)

    def note(self, progress: Progress) -> None:
        """Note the progress of what is done, whether or not the server stops."""
        self.counts[progress.what] = progress.done, progress.total
        self.source = progress.source or self.source

    def to_json(self) -> dict[str, Any]:
        """Return the job as JSON values."""
        answer: dict[str, Any] = {
            "kind": self.kind,
            "state": self.state,
            "started": self.started,
            "seconds": (self.ended or time.time()) - self.started,
            "progress": [
                {"what": what, "done": done, "total": total} for what, (done, total) in list(self.counts.items())
            ],
        }
        optional = {"source": "" if self.ended else self.source, "result": self.result, "reason": self.reason}
        return answer | {name: value for name, value in optional.items() if value}


class Jobs:
    """The jobs under way, and the last ones that have ended; those of a part of an index are among those of all.

    Clients read why one failed: `hide` takes out of a message what they may not know.
    """

    def __init__(self, of_all: Jobs | None = None, hide: Callable[[str], str] = str) -> None:
        self._jobs: deque[Job] = deque(maxlen=MAX_KEPT)
        self._lock = threading.Lock()
        self.stopped: threading.Event = threading.Event() if of_all is None else of_all.stopped
        self._of_all = of_all
        self._hide: Callable[[str], str] = hide if of_all is None else of_all._hide  # noqa: SLF001

    @contextmanager
    def run(self, kind: str, *, repeats: bool = False) -> Iterator[Job]:
        """Note a job for the body of a ``with`` statement; one that `repeats` hides the same failure before it."""
        job = Job(kind, self.stopped)
        self.keep(job)
        try:
            yield job
        except BaseException as error:
            told = isinstance(error, RagBM25Error | RefusedError)
            job.reason = self._hide(str(error)) if told else type(error).__name__
            job.state = "failed"
            if repeats:
                self._forget_same(job)
            raise
        else:
            job.state = "done"
        finally:
            job.ended = time.time()

    def keep(self, job: Job) -> None:
        """Keep a job among the last ones."""
        with self._lock:
            self._jobs.append(job)
        if self._of_all is not None:
            self._of_all.keep(job)

    def _forget_same(self, job: Job) -> None:
        """Leave out earlier failures for the same reason, which would push out other jobs."""

        def is_same(other: Job) -> bool:
            return (other.kind, other.state, other.reason) == (job.kind, job.state, job.reason)

        with self._lock:
            kept = [other for other in self._jobs if other is job or not is_same(other)]
            self._jobs = deque(kept, maxlen=MAX_KEPT)

    def stop(self) -> None:
        """End long calls after the batch that they write."""
        self.stopped.set()

    def to_json(self) -> list[dict[str, Any]]:
        """Return the jobs as JSON values, the newest first."""
        with self._lock:
            jobs = list(self._jobs)
        return [job.to_json() for job in reversed(jobs)]
