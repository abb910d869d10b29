"""An index that is served: its operations, the gate before them, and what observes them."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rag_bm25.errors import InputError, RagBM25Error, StoreError
from rag_bm25.events import Events
from rag_bm25.index.scoped import narrow
from rag_bm25.index.searching.memo import QueryMemo
from rag_bm25.ingestion.source_roots import read_source_roots
from rag_bm25.ingestion.watching import Watcher, message_of
from rag_bm25.serving.access import ACCESS
from rag_bm25.serving.answers import LOGGER, RefusedError, to_refusal
from rag_bm25.serving.gate import Gate
from rag_bm25.serving.jobs import Jobs
from rag_bm25.serving.operations import Operations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rag_bm25.index.index import BM25Index
    from rag_bm25.ingestion.files import FileSelection
    from rag_bm25.ingestion.source_roots import SourceRoot
    from rag_bm25.serving.access import Access
    from rag_bm25.serving.fields import Request
    from rag_bm25.serving.ingesting import Ingestion
    from rag_bm25.serving.observing import Observer
    from rag_bm25.serving.operations import Call
    from rag_bm25.serving.settings import Limits

R = TypeVar("R")

MAX_PARTS = 64
"""Number of parts of the index that are kept ready, for tokens with a scope."""
GENERATION = ", generation [0-9]+"
"""What the name of an index has from its second generation on."""


class Served:
    """Index, request gate and metrics of a server, and the files to ingest while it serves.

    `observer` is the ``on_event`` of the index. Clients know it by `title`: its own name tells a path or an address.
    """

    def __init__(
        self, index: BM25Index, observer: Observer, limits: Limits, title: str, plan: Ingestion | None = None
    ) -> None:
        self._hide = partial(_names_of(getattr(index, "parts", (index,))).sub, "the index")
        self.operations = Operations(index, title, limits.work / 2, Jobs(hide=self._hide))
        self._of_parts: QueryMemo[Operations] = QueryMemo(MAX_PARTS)
        self.observer = observer
        self.gate = Gate(limits)
        self.events = Events("server", observer)
        self._index = index
        self._plan = plan
        self._ingestion: asyncio.Task[None] | None = None

    def check(self, access: Access) -> None:
        """Raise FilterError if the engine cannot evaluate the filter of an access; one that is down cannot tell."""
        if access.filter is not None:
            part = narrow(self._index, filter=access.filter, namespace=access.namespaces)
            with suppress(StoreError):
                next(part.chunks(namespace=None), None)

    async def ask(self, call: Call, read: Callable[[], Request], finish: Callable[[Any, dict[str, Any]], R]) -> R:
        """Answer a request in a thread of the gate, where it is read, too; `finish` makes of both what is sent.

        All that clients ask of the index passes here, and sees no more of it than the access of the request.
        """
        access = ACCESS.get()
        if call.writes and not access.writes:
            raise RefusedError(403, "read_only", "this access token only reads")

        def answer() -> R | RefusedError:
            try:
                operations, asked = self._operations_for(access), access.place(read())
                return finish(asked, call.method(operations, asked))
            except Exception as error:  # noqa: BLE001 - each becomes an answer
                return _detach(self.to_refusal(error))

        answered = await (self.gate.write if call.writes else self.gate.read)(answer)
        if isinstance(answered, RefusedError):
            raise answered
        return answered

    def _operations_for(self, access: Access) -> Operations:
        """Return the operations on the part of the index that is seen."""
        if access.is_whole:
            return self.operations
        return self._of_parts.get(
            repr((access.namespaces, access.filter)),  # 1 == True, and the filters differ
            self,
            lambda: self.operations.within(narrow(self._index, filter=access.filter, namespace=access.namespaces)),
        )

    def to_refusal(self, error: Exception) -> RefusedError:
        """Return the refusal for an error; it does not tell where the index is."""
        refusal = to_refusal(error)
        refusal.message = self._hide(refusal.message)
        return refusal

    def start(self) -> None:
        """Begin to ingest, if there is something; nobody waits for it."""
        if self._plan is not None:
            self._ingestion = asyncio.create_task(asyncio.to_thread(self._keep_up, self._plan))

    def _keep_up(self, plan: Ingestion) -> None:
        """Ingest, and go on with the files that change if they are watched, until the server stops."""
        stopped, files = self.operations.jobs.stopped, Watcher(partial(self._find, plan), self._tell)
        try:
            self._ingest_changes(plan, files)
        except (RagBM25Error, OSError) as error:
            self._tell(message_of(error))
        if plan.watched:
            files.watch(partial(self._ingest_changes, plan, files), lambda seconds: not stopped.wait(seconds))

    def _ingest_changes(self, plan: Ingestion, files: Watcher) -> None:
        """Ingest the files that differ from what the index has, with the options that it remembers by now."""
        files.catch_up(read_source_roots(self._index), lambda found: files.note(self._ingest(plan, found)))

    def _find(self, plan: Ingestion, roots: Sequence[SourceRoot]) -> FileSelection:
        """Find the files; that it fails is shown as a job, too, without the way to the folder."""
        try:
            return plan.find(roots)
        except (RagBM25Error, OSError) as error:
            shown = f"{Path(error.filename).name}: {error.strerror}" if isinstance(error, OSError) else str(error)
            with suppress(InputError), self.operations.jobs.run("ingest", repeats=True):
                raise InputError(shown) from None
            raise

    def _ingest(self, plan: Ingestion, found: FileSelection) -> list[str]:
        """Ingest after the writes that wait, and return the sources that failed; no error may end the watch."""
        try:
            return self.gate.write_in_turn(partial(self.operations.ingest, found, **plan.options))
        except (RagBM25Error, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - of any kind
            raise StoreError(self.to_refusal(error).message) from None

    def _tell(self, reason: str) -> None:
        if not self.operations.jobs.stopped.is_set():
            LOGGER.error("an ingestion failed: %s", reason)

    def stop(self) -> None:
        """Refuse what comes and what waits; reads end with their step, an ingestion with its batch."""
        self.operations.jobs.stop()
        self.gate.stop()

    async def close(self) -> None:
        """Stop, finish what runs, and close the index."""
        self.stop()
        await self.gate.close()
        self._index.close()


def _names_of(indexes: Sequence[BM25Index]) -> re.Pattern[str]:
    """Match the names of indexes, in this generation and in later ones."""
    names = {re.sub(f"{GENERATION}$", "", index.stats().name) for index in indexes}
    return re.compile(f"(?:{'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})(?:{GENERATION})?")


def _detach(refusal: RefusedError) -> RefusedError:
    """Return a refusal without what led to it: frames that hold the request, until the next collection of garbage."""
    refusal.__context__ = None
    return refusal.with_traceback(None)
