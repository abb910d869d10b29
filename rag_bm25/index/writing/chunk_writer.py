"""The write protocol: chunks and statistics change together, or the next writer finishes an interrupted batch.

For each batch: read what its chunks contribute, store an intent of what is about to happen, insert the new rows beside
the old ones, delete the old ones, append a delta of what has changed, drop the intent. No row is deleted before its
successor is stored, and each step may be repeated. A server may still carry out a call that was given up: the batch
stays unfinished, and nobody writes to its chunks, until that is seen or can no longer happen.
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rag_bm25.documents.checks import canonical_json
from rag_bm25.documents.chunks import MAX_BATCH_CHUNKS, AddReport, NewChunk, pk_digest
from rag_bm25.errors import StoreError
from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.log.generation import SupersededError
from rag_bm25.statistics.log.life_signs import LEASE_SECONDS, is_of_the_future
from rag_bm25.statistics.log.writes import Change, Intent
from rag_bm25.store.protocol import AmbiguousWriteError
from rag_bm25.store.rows import SLOTS, ChunkRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rag_bm25.documents.encoder import CountedChunks, DocumentEncoder, EncodedChunks
    from rag_bm25.statistics.log.log import StatisticsLog
    from rag_bm25.statistics.log.open_write import OpenWrite
    from rag_bm25.store.protocol import Store

POLL_SECONDS = 1.0

CLOSED_SECONDS = 60.0
"""Time that a writer on a server waits for the last changes to be carried into the next generation."""

_Rows = dict[str, dict[str, ChunkRow]]  # digest -> slot -> row
NoteBatches: TypeAlias = "Callable[[Mapping[str, str], str], None]"  # chunk id -> batch, batch of the write


class ChunkWriter:
    """Write batches of chunks, and finish those that other writers began."""

    def __init__(self, store: Store, log: StatisticsLog, encoder: DocumentEncoder) -> None:
        self._store = store
        self._log = log
        self._encoder = encoder
        self._writer = secrets.token_hex(8)
        self._unfinished = False
        self._in_doubt: dict[str, bool] = {}  # batches with a call of unknown outcome: whether it deletes
        self.is_busy = False  # whether a batch is in progress

    @property
    def name(self) -> str:
        """Its name in intents."""
        return self._writer

    @property
    def has_unfinished_batch(self) -> bool:
        """Whether a batch of this writer is not finished: it is in progress, failed, or was interrupted."""
        return self._unfinished

    def add(
        self,
        namespace: str,
        chunks: Sequence[NewChunk],
        *,
        count: Callable[[Sequence[int]], CountedChunks] | None = None,
        note: NoteBatches | None = None,
        assume_new: bool = False,
    ) -> AddReport:
        """Insert or update one batch of chunks with distinct ids, few enough for one message.

        `count` counts the terms of the chunks at some places, for instance in another process: it is called at most
        once, for those that are new or have changed. `note` is told the batch that each chunk is stored with, and that
        of this write, "" if nothing had changed. `assume_new` skips reading what is stored.
        """
        by_digest = {pk_digest(namespace, chunk.id): chunk for chunk in chunks}
        with self._writing():
            self._take_over(by_digest)
            stored: _Rows = {} if assume_new else self._settle(namespace, by_digest)
            changed = {
                digest: chunk for digest, chunk in by_digest.items() if not _is_unchanged(chunk, stored.get(digest, {}))
            }
            batch = ""
            if changed:
                changes = [_replacement(digest, stored.get(digest, {})) for digest in changed]
                before = [row for digest in changed for row in stored.get(digest, {}).values()]
                places = [place for place, digest in enumerate(by_digest) if digest in changed]
                counted = None if count is None else count(places)
                batch = self._apply(namespace, changes, before, list(changed.values()), counted)
        if note is not None:
            kept = {row.id: row.batch for digest in by_digest.keys() - changed for row in stored[digest].values()}
            note({chunk.id: kept.get(chunk.id, batch) for chunk in chunks}, batch)
        updated = sum(digest in stored for digest in changed)
        return AddReport(len(changed) - updated, updated, len(chunks) - len(changed))

    def delete(self, namespace: str, ids: Iterable[str]) -> int:
        """Delete chunks, ignoring ids that are not stored; return how many there were."""
        digests = list(dict.fromkeys(pk_digest(namespace, id_) for id_ in ids))
        deleted = 0
        with self._writing():
            for start in range(0, len(digests), MAX_BATCH_CHUNKS):
                page = digests[start : start + MAX_BATCH_CHUNKS]
                self._take_over(page)
                stored = _read_stored(self._store, page)
                changes = [Change(digest, "", "".join(rows)) for digest, rows in stored.items()]
                if changes:
                    self._apply(namespace, changes, _flatten(stored), [])
                deleted += len(changes)
        return deleted

    def rewrite(self, namespace: str, digests: Sequence[str]) -> int:
        """Encode stored chunks, at most 1,000, again; return how many differed and were written."""
        with self._writing():
            self._take_over(digests)
            stored = self._settle(namespace, digests)
            rows = {digest: row for digest, slots in stored.items() for row in slots.values()}
            chunks = {digest: NewChunk(row.id, row.text, row.metadata, 0, row.dense) for digest, row in rows.items()}
            encoded = self._encode(list(chunks.values()), self._log.known_terms().stage())
            results = zip(chunks, encoded.vectors, encoded.lengths.tolist(), strict=True)
            changed = [
                digest
                for digest, vector, length in results
                if vector != rows[digest].vector or length != rows[digest].length
            ]
            if changed:
                changes = [_replacement(digest, stored[digest]) for digest in changed]
                self._apply(
                    namespace, changes, [rows[digest] for digest in changed], [chunks[digest] for digest in changed]
                )
        return len(changed)

    def recover(self, *, wait: bool = True) -> None:
        """Finish the writes of writers that died; without `wait`, those that may go on in the server are left."""
        self._log.refresh()
        self._unfinished = not (self._log.is_superseded or self._finish_dead(wait=wait))

    def _finish_dead(self, *, wait: bool = True) -> bool:
        """Finish the writes of dead writers, as of the last refresh; return whether none is left."""
        # An embedded engine has one process, so that every intent found is a dead one's. On a server an intent may
        # belong to a living writer, and is left alone for the time of its lease.
        none_is_left = True
        for intent in self._log.intents():
            if self._store.exclusive or intent.writer == self._writer or intent.silence > LEASE_SECONDS:
                none_is_left &= self._finish(intent, wait=wait)
            elif is_of_the_future(intent.time):
                self._log.note_sign(intent)
        return none_is_left

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Before a batch: finish a failed one of this writer, read the changes of others, and compact the log."""
        if self._unfinished:
            self.recover()
        self._unfinished = self.is_busy = True
        self._in_doubt.clear()
        try:
            if not self._store.exclusive:
                self._log.refresh()
                self._require_in_force()
                if self._log.may_have_dead_writers(LEASE_SECONDS):
                    self._finish_dead()
            self._log.require_terms()
            self._log.compact()
            yield
            self._unfinished = False
        finally:
            self.is_busy = False

    def _take_over(self, digests: Collection[str]) -> None:
        """Finish the writes of others to the same chunks, whether they are dead or not."""
        # What their batch did to a chunk is counted by comparing it with what is stored; after a batch of ours, that
        # would count ours a second time.
        if self._store.exclusive:
            return
        for intent in self._log.intents():
            if any(change.digest in digests for change in intent.changes):
                self._finish(intent)

    def _finish(self, intent: Intent, *, wait: bool = True) -> bool:
        """Bring a write to its end from wherever it stopped: forwards where its rows landed; return whether it ended.

        Without `wait`, a write that may go on in the server is left.
        """
        self._log.refresh()
        write = self._log.resume_write(intent)
        late_until = time.monotonic() + self._store.late_seconds - intent.silence
        if not self._is_certain(write, late_until):
            if not wait:
                return False
            self._await(write, late_until)
        if write.is_open:
            self._end(write)
        return True

    def _is_certain(self, write: OpenWrite, late_until: float) -> bool:
        """Return whether a write has ended, has done all that it was to do, or can no longer do anything."""
        intent = write.intent
        has_failed = intent.writer == self._writer and intent.batch not in self._in_doubt
        return has_failed or not write.is_open or time.monotonic() >= late_until or self._is_complete(intent)

    def _is_complete(self, intent: Intent) -> bool:
        """Return whether all rows of an unfinished write landed, and those are gone whose deletion may be under way."""
        stored = _read_stored(self._store, [change.digest for change in intent.changes])
        may_delete = self._in_doubt.get(intent.batch, True)
        rows = [(change, stored.get(change.digest, {})) for change in intent.changes]
        return all(
            _has_landed(change, found, intent.batch) and not (may_delete and _leftovers(change, found, intent.batch))
            for change, found in rows
        )

    def _await(self, write: OpenWrite, late_until: float) -> None:
        """Wait until nothing of a write goes on in the server."""
        # A row that lands later would replace a newer one in its slot, and a late deletion would take that away.
        seconds = late_until - time.monotonic()
        message = f"{self._store.name} may still be storing a batch that failed: waiting for up to {seconds:.0f} s"
        self._log.events.warn("recovery", message, chunks=0)
        while not self._is_certain(write, late_until):
            time.sleep(POLL_SECONDS)
            self._log.refresh()

    def _end(self, write: OpenWrite) -> None:
        """Delete what an unfinished write should have deleted, and count what is stored."""
        intent = write.intent
        with self._log.events.measure("recovery") as counts:
            write.drop_remains()
            if not self._store.exclusive:
                self._log.note_sign(intent)  # this deletion may be late, too
            with self._sending(intent, deletes=True):
                delete_leftovers(self._store, intent)
            digests = [change.digest for change in intent.changes]
            write.commit(Contribution.of_rows(_flatten(_read_stored(self._store, digests))))
            counts["chunks"] = len(digests)

    def _settle(self, namespace: str, digests: Iterable[str]) -> _Rows:
        """Read the stored rows of chunks, and delete the older one where a chunk has two."""
        stored = _read_stored(self._store, list(digests), whole=True)  # to be compared
        double = {digest: rows for digest, rows in stored.items() if len(rows) > 1}
        if not double:
            return stored
        older = {digest: min(rows, key=lambda slot: rows[slot].batch) for digest, rows in double.items()}
        changes = [Change(digest, "", slot) for digest, slot in older.items()]
        self._apply(namespace, changes, _flatten(double), [])
        for digest, slot in older.items():
            del stored[digest][slot]
        return stored

    def _apply(
        self,
        namespace: str,
        changes: Sequence[Change],
        before: Sequence[ChunkRow],
        chunks: Sequence[NewChunk],
        counted: CountedChunks | None = None,
    ) -> str:
        """Apply changes, in the order that survives a crash after every step; return the batch.

        `before` are all stored rows of the chunks in `changes`; `chunks` are the new contents of those changes that
        insert, in their order, and `counted` their terms, where they are known.
        """
        with self._log.events.measure("batch") as counts:
            batch = self._log.new_batch()
            staged = self._log.known_terms().stage()
            inserting = [change for change in changes if change.insert]
            encoded = self._encode(chunks, staged, counted)
            rows = _new_rows(namespace, batch, inserting, chunks, encoded)
            deleted = {pk for change in changes for pk in change.deleted_pks}
            kept = [row for row in before if row.pk not in deleted]
            intent = Intent(batch, self._writer, time.time(), namespace, list(changes), Contribution.of_rows(before))

            write = self._log.open_write(intent, staged.new)
            if rows:
                with self._sending(intent):
                    self._store.insert_chunks(rows)
            write.renew(after=LEASE_SECONDS / 30)  # a deletion made later may take place later, too
            with self._sending(intent, deletes=True):
                self._delete([row for row in before if row.pk in deleted])
            write.renew(after=LEASE_SECONDS / 3)
            self._commit(write, Contribution.of_rows([*kept, *rows]))
            counts.update(inserted=len(rows), deleted=len(deleted), terms=len(staged.new))
        return batch

    @contextmanager
    def _sending(self, intent: Intent, *, deletes: bool = False) -> Iterator[None]:
        """Note that a call of a batch may still take place, until it is known that it cannot."""
        self._in_doubt[intent.batch] = deletes
        try:
            yield
        except AmbiguousWriteError:
            raise
        except StoreError:
            del self._in_doubt[intent.batch]
            raise
        del self._in_doubt[intent.batch]

    def _commit(self, write: OpenWrite, after: Contribution) -> None:
        """Store the delta, or a correction if another writer took this one for dead and finished its batch."""
        if self._store.exclusive:
            write.commit(after)
            return
        self._log.refresh()
        if write.is_open:
            write.commit(after)
        elif not self._log.is_superseded:
            self._correct(write, after)
        # Its rows may have come after the last list of rows. Where they did not, to write it again changes nothing.
        self._require_in_force()

    def confirm(self) -> None:
        """Raise ``SupersededError`` where rows of the log may have been stored too late for the next generation."""
        if not self._store.exclusive:
            self._log.refresh()
            self._require_in_force()

    def _require_in_force(self) -> None:
        """Wait while the next generation gets the last changes; raise ``SupersededError`` once it is in force."""
        end = time.monotonic() + CLOSED_SECONDS
        while self._log.is_closing:
            if time.monotonic() >= end:
                raise StoreError(
                    f"{self._store.name} has been closed to writers for {CLOSED_SECONDS:.0f} s, by a reindex that is "
                    "about to end or was killed: run the same `rag-bm25 reindex` again, or one without settings to "
                    "keep this generation"
                )
            time.sleep(POLL_SECONDS)
            self._log.refresh()
        if self._log.is_superseded:
            raise SupersededError(self._store.name)

    def _correct(self, write: OpenWrite, after: Contribution) -> None:
        """Count the rows that were stored after another writer had finished this batch."""
        counted = write.stored_delta()
        if counted is None:
            raise StoreError(
                f"a batch on {self._store.name} took longer than its lease of {LEASE_SECONDS:.0f} s, or met another "
                "writer of the same chunks. Its chunks are stored. Run verify, and repair if it finds differences."
            )
        intent = write.intent
        correction = replace(intent, batch=self._log.new_batch(), before=intent.before + counted)
        self._log.open_write(correction, {}).commit(after)

    def _delete(self, rows: Sequence[ChunkRow]) -> None:
        """Delete rows, except where another writer of the same chunk has put a newer one into the slot meanwhile."""
        # Two writers that read the chunk at different moments would delete each other's rows, and lose the chunk.
        pks = [row.pk for row in rows]
        if pks and not self._store.exclusive:
            batches = {row.pk: row.batch for row in self._store.get_chunks(pks, contents=False)}
            pks = [row.pk for row in rows if batches.get(row.pk) == row.batch]
        if pks:
            self._store.delete_chunks(pks)

    def _encode(
        self, chunks: Sequence[NewChunk], ids: Mapping[str, int], counted: CountedChunks | None = None
    ) -> EncodedChunks:
        texts, metadatas = [chunk.text for chunk in chunks], [chunk.metadata for chunk in chunks]
        return self._encoder.encode(texts, ids, metadatas, counted)


def _new_rows(
    namespace: str, batch: str, changes: Sequence[Change], chunks: Sequence[NewChunk], encoded: EncodedChunks
) -> list[ChunkRow]:
    """Return the row to store of each chunk."""
    return [
        ChunkRow(
            pk=change.inserted_pk,
            id=chunk.id,
            namespace=namespace,
            length=length,
            batch=batch,
            text=chunk.text,
            metadata=chunk.metadata,
            vector=vector,
            dense=chunk.dense,
        )
        for change, chunk, vector, length in zip(
            changes, chunks, encoded.vectors, encoded.lengths.tolist(), strict=True
        )
    ]


def _replacement(digest: str, stored: Mapping[str, ChunkRow]) -> Change:
    """Return the change that puts a chunk into its free slot, and takes it out of the other one."""
    occupied = "".join(stored)
    return Change(digest, free_slot(occupied), occupied)


def free_slot(occupied: str) -> str:
    """Return the slot for the next row of a chunk, given the one that it has, if any."""
    return "b" if occupied == "a" else "a"


def delete_leftovers(store: Store, intent: Intent) -> None:
    """Delete the rows that an unfinished write should have deleted."""
    stored = _read_stored(store, [change.digest for change in intent.changes])
    leftovers = [
        row.pk for change in intent.changes for row in _leftovers(change, stored.get(change.digest, {}), intent.batch)
    ]
    if leftovers:
        store.delete_chunks(leftovers)


def count_unfinished(store: Store, log: StatisticsLog) -> int:
    """Count the batches of dead writers as searches find their chunks; return the number of rows that none finds."""
    superseded = 0
    for intent in log.intents():
        stored = _read_stored(store, [change.digest for change in intent.changes])
        newest = [max(rows.values(), key=lambda row: row.batch) for rows in stored.values()]
        log.count_unfinished(intent, Contribution.of_rows(newest))
        superseded += len(_flatten(stored)) - len(newest)
    return superseded


def _read_stored(store: Store, digests: Sequence[str], *, whole: bool = False) -> _Rows:
    """Read the rows in both slots of each chunk; texts, metadata and dense vectors only if they are wanted `whole`."""
    pks = [digest + slot for digest in digests for slot in SLOTS]
    found: _Rows = defaultdict(dict)
    for row in store.get_chunks(pks, contents=whole, vectors=True, dense=whole):
        found[row.pk[:-1]][row.pk[-1]] = row
    return dict(found)


def _has_landed(change: Change, stored: Mapping[str, ChunkRow], batch: str) -> bool:
    """Return whether the new row of a change, if it has one, is stored."""
    return not change.insert or (change.insert in stored and stored[change.insert].batch == batch)


def _leftovers(change: Change, stored: Mapping[str, ChunkRow], batch: str) -> list[ChunkRow]:
    """Return the rows that an unfinished change should have deleted: none if its new row did not land."""
    if not _has_landed(change, stored, batch):
        return []
    return [stored[slot] for slot in change.delete if slot in stored and stored[slot].batch < batch]


def _is_unchanged(chunk: NewChunk, stored: Mapping[str, ChunkRow]) -> bool:
    return any(
        row.text == chunk.text
        and canonical_json(row.metadata) == canonical_json(chunk.metadata)
        and (chunk.dense is None or (row.dense is not None and np.array_equal(chunk.dense, row.dense)))
        for row in stored.values()
    )


def _flatten(stored: _Rows) -> list[ChunkRow]:
    return [row for rows in stored.values() for row in rows.values()]
