"""The statistics of an open index while others search and write: the log, its refresh, its locks and its problems.

Readers take the view of the log, which is exchanged as a whole, and wait for no writer. The log itself is read and
written under locks, taken in this order: that of all writers of an engine, that of refreshing, that of the log. A
writer has read everything before it takes the log, and shows what it writes: where a writer has the log, a reader need
not refresh.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rag_bm25.errors import IndexGoneError, StoreError
from rag_bm25.index.background_refresh import BackgroundRefresh
from rag_bm25.index.writing.chunk_writer import ChunkWriter, count_unfinished
from rag_bm25.statistics.damage import FIND_ROWS, REPAIR, damage_message
from rag_bm25.statistics.log.generation import SupersededError
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.meanwhile import read_written
from rag_bm25.statistics.log.table import RowsMovedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rag_bm25.documents.encoder import DocumentEncoder
    from rag_bm25.statistics.corpus import CountsReader
    from rag_bm25.statistics.log.meanwhile import Moment, Written
    from rag_bm25.statistics.view import StatisticsView
    from rag_bm25.store.protocol import Store, WriteLock
    from rag_bm25.vectors.terms import Vocabulary
    from rag_bm25.weighting.confidence import AnswerModel
    from rag_bm25.weighting.term_k1 import TermK1

COUNT_ATTEMPTS = 3  # other writers may be at work between two of its calls
LOADING_SECONDS = 5.0  # a server that has just started may give fewer rows than it has
LOADING_PAUSE = 0.5


class LiveStatistics:
    """Give readers statistics of one moment, and let writers change them one after the other."""

    how_to_learn_k1 = "run `rag-bm25 calibrate --k1-of-terms`, or call learn_k1()"
    """What to do where a search needs a k1 of each term."""

    def __init__(
        self,
        store: Store,
        log: StatisticsLog,
        encoder: DocumentEncoder,
        *,
        read_only: bool = False,
        refresh_interval: float = 1.0,  # seconds
    ) -> None:
        self.log = log
        self._store = store
        self._encoder = encoder
        self._writer = ChunkWriter(store, log, encoder)
        self.events = log.events
        self._read_only = read_only
        self._refresh_interval = refresh_interval
        self._log_lock = threading.RLock()
        self._log_user = 0  # thread that has the log, if any
        self._refreshing = threading.RLock()  # one thread refreshes, for all
        self._next_refresh = 0.0
        self._next_recovery = 0.0
        # With an embedded engine only this process writes, and a search refreshes when another index has.
        in_background = refresh_interval > 0 and not store.exclusive
        self._background = (
            BackgroundRefresh(self._refresh_in_background, refresh_interval, self.events) if in_background else None
        )
        self._seen_writes = 0  # of other stores of this process, as of the last refresh
        self._looked_for = store.writes_of_others  # as of the last look for the next generation
        # In an index that was opened for reading: rows of unfinished batches that are not counted; None without such.
        self._num_superseded: int | None = None
        self._wrong_count, self._has_fewer = "", False
        self._gone = ""  # why the index that was opened is not there any more
        self._reported: list[str] | None = None  # problems; None until the index has been opened

    @property
    def problems(self) -> list[str]:
        """Faults of the statistics, one clause each."""
        return [*self.view.problems, *([self._wrong_count] if self._wrong_count else [])]

    def is_superseded(self) -> bool:
        """Return whether the next generation is in force: with an embedded engine now, else as of the last refresh.

        Raise where the index was dropped or made again, which a refresh in the background may have found.
        """
        if self._gone:
            raise IndexGoneError(self._gone)
        if self._store.exclusive and self._looked_for != (written := self._store.writes_of_others):
            with self._noting_loss():
                self.log.look_for_successor()
            self._looked_for = written
        return self.log.is_superseded

    @contextmanager
    def _noting_loss(self) -> Iterator[None]:
        """Note that the index is gone, for all later calls."""
        try:
            yield
        except IndexGoneError as error:
            self._gone = str(error)
            raise

    def look_anew(self) -> None:
        """Have the next call look whether the next generation is in force, which this index itself may have done."""
        self._looked_for = self._seen_writes = -1

    @property
    def writer_name(self) -> str:
        """Name of the writer of this index, in its intents."""
        return self._writer.name

    # For readers

    @property
    def view(self) -> StatisticsView:
        """The statistics of the last moment that was read or written."""
        return self.log.view

    def current(self, namespaces: Sequence[str] | None = None) -> StatisticsView:
        """Return the statistics of now, as far as the refresh interval asks, with some namespaces read."""
        self.refresh_if_due()
        view = self.view
        try:
            view.statistics.of(namespaces)
        except RowsMovedError:  # this process has not refreshed for two compactions
            self.refresh()
            view = self.view
        return view

    def vocabulary(self) -> Vocabulary:
        """Return every term ever seen; the first call reads them all."""
        if (vocabulary := self.view.vocabulary) is not None:
            return vocabulary
        if self._has_log:
            return self.log.vocabulary()
        with self.events.defer(), self._refreshing, self._using_log():
            return self.log.vocabulary()

    def refresh(self) -> None:
        """Read the changes of other writers now, and finish a failed batch."""
        self._catch_up()
        self.finish_failed_batch()

    def refresh_if_due(self) -> None:
        """Refresh if the interval has passed; with an embedded engine, if another index of this process has written.

        On a server that happens in the background, except for the first search in a while.
        """
        is_left_alone = self._background is not None and self._background.is_running
        if not is_left_alone and self._is_due() and not self._has_log:
            # With an embedded engine a search sees what this process wrote before: there it waits for another reader.
            with self.events.defer(), _acquired(self._refreshing, wait=self._store.exclusive) as free:
                if free and self._is_due():
                    self._read_unless_written()
        if self._background is not None:
            self._background.use()
        self.finish_failed_batch()

    def _is_due(self) -> bool:
        return self._others_wrote() if self._store.exclusive else time.monotonic() >= self._next_refresh

    def _refresh_in_background(self) -> None:
        with self.events.defer(), self._refreshing:
            self._read_unless_written()

    def _read_unless_written(self) -> None:
        """Read the log, unless a writer of this index has it."""
        with _acquired(self._log_lock, wait=False) as free:
            if free:
                self._read()

    def finish_failed_batch(self) -> None:
        """Finish a batch of this process that failed or was interrupted: until then, N and df are not those stored.

        An index that was opened for reading counts it as it is. If that fails, for instance on a full disk, or a server
        may still be storing the batch, searches go on with the present statistics.
        """
        if self._has_log or not self._has_failed_batch() or time.monotonic() < self._next_recovery:
            return
        with _acquired(self._store.write_lock, wait=False) as free:
            if not free:  # another thread writes, which begins or ends with a recovery
                return
            try:
                self._read()
                with self._using_log():
                    self._recover(wait=False)
            except IndexGoneError:
                raise
            except StoreError as error:
                self.events.warn("recovery", f"a batch that failed cannot be finished yet: {error}", chunks=0)
            if self._has_failed_batch():
                self._next_recovery = time.monotonic() + self._refresh_interval

    def _recover(self, *, wait: bool = True) -> None:
        """Finish batches that failed, or count them where nothing may be written."""
        if self._read_only:
            self._num_superseded = count_unfinished(self._store, self.log)
        else:
            self._writer.recover(wait=wait)

    # For writers

    @contextmanager
    def writing(self) -> Iterator[ChunkWriter]:
        """Exclude other writers of this process for a batch, after reading their changes."""
        with self._store.write_lock, self._noting_loss():
            changed = self._store.exclusive and (self._others_wrote() or self.log.has_intents)
            if changed:
                self._catch_up()
            self._require_in_force()
            with self._using_log():
                if changed:
                    self._writer.recover()  # the last batch of another index may have failed halfway
                yield self._writer

    def write_answers(self, model: AnswerModel) -> None:
        """Replace the stored model of the confidence of hits."""
        with self.writing() as writer:
            self.log.write_answers(model)
            writer.confirm()

    def write_k1(self, table: TermK1) -> None:
        """Replace the stored k1 of each term."""
        with self.writing() as writer:
            self.log.write_k1(table)
            writer.confirm()

    @contextmanager
    def at_rest(self) -> Iterator[tuple[CountsReader, Vocabulary, Moment]]:
        """Keep writers of this process out, with everything read and no batch of theirs unfinished."""
        with self._store.write_lock:
            self._catch_up()
            self._require_in_force()
            with self._using_log():
                if self._has_failed_batch():
                    self._recover()  # else its rows would be taken for a difference
                vocabulary = self.log.vocabulary()
                statistics, moment = self.view.statistics, self.log.moment
            yield statistics, vocabulary, moment

    def written_since(self, moment: Moment) -> Written | None:
        """Return what other processes have written since; None where the log does not tell any more."""
        if not self._store.exclusive:
            self._catch_up()
            self._require_in_force()
        batches = self.log.batches_since(moment)
        return None if batches is None else read_written(self._store, batches)

    def _require_in_force(self) -> None:
        if self.log.is_superseded:
            raise SupersededError(self._store.name)

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """Exclude other writers of this process while the log is overwritten, and read it anew afterwards."""
        with self._store.write_lock:
            yield
            self._reload()

    def _reload(self) -> None:
        """Forget the statistics and read them from the store."""
        log = self._new_log()
        log.refresh()
        writer = ChunkWriter(self._store, log, self._encoder)
        with self._using_log():
            self.log, self._writer = log, writer  # only now: searches go on with the old statistics
        self._wrong_count = ""
        self.refresh()
        if self._reported is not None:
            self._look_for_damage()

    # Life

    def start(self) -> None:
        """Finish the batches of dead writers, read the statistics, and look for damage."""
        if not self._read_only:
            self._writer.recover()
        self.refresh()
        self._look_for_damage()

    def close(self) -> None:
        """End what runs in the background."""
        if self._background is not None:
            self._background.end()

    def accept_count(self) -> None:
        """Withdraw the notice that N is not the number of rows: a recount has found them equal."""
        self._wrong_count = ""

    @property
    def _has_log(self) -> bool:
        """Whether this thread has the log: it may be in the middle of reading it, and a signal handler asks."""
        return self._log_user == threading.get_ident()

    @contextmanager
    def _using_log(self) -> Iterator[None]:
        """Have the log alone."""
        with self._log_lock:
            before, self._log_user = self._log_user, threading.get_ident()
            try:
                yield
            finally:
                self._log_user = before

    def _catch_up(self) -> None:
        """Read the log, unless this thread has it: a second read within the first would count changes twice."""
        if not self._has_log:
            self._read()

    def _read(self) -> None:
        """Read the log, and report new damage."""
        seen = self._store.writes_of_others  # before the locks, taken for ever in a forked child, which is refused here
        with self.events.defer(), self._refreshing, self._using_log(), self._noting_loss():
            self._next_refresh = time.monotonic() + self._refresh_interval  # first: a hook may search meanwhile
            self._refresh_log()
            self._seen_writes = seen
            if self._reported is not None:
                self._report_damage()

    def _new_log(self) -> StatisticsLog:
        """Return a log that has read nothing, of the same index."""
        return StatisticsLog(self._store, self.events, self.log.birth)

    def _refresh_log(self) -> None:
        """Read what is new; everything, where somebody may have finished a batch that is counted unfinished."""
        log = self.log if self._num_superseded is None else self._new_log()
        log.refresh()
        if log.is_superseded:
            self.log.is_superseded = True  # and keep what was read before, for the searches that have begun
        else:
            self.log, self._num_superseded = log, None

    def _others_wrote(self) -> bool:
        """Whether another index of this process has written to the log since the last refresh."""
        return self._store.writes_of_others != self._seen_writes

    def _has_failed_batch(self) -> bool:
        """Whether a batch of this process is unfinished and no thread works on it."""
        if self._writer.is_busy:  # a signal handler may read in the middle of a batch
            return False
        return self._writer.has_unfinished_batch or (self._store.exclusive and self.log.has_intents)

    def _look_for_damage(self) -> None:
        with self.events.defer(), self._refreshing, self._using_log():
            self.log.check_terms()
            self._check_count()
            self._report_damage()

    def _check_count(self) -> None:
        """Compare N with the number of stored rows, which are equal whenever no write is under way."""
        attempts, loaded_by = COUNT_ATTEMPTS, time.monotonic() + (0.0 if self._store.exclusive else LOADING_SECONDS)
        while attempts and not self.log.has_intents:
            position, counted = self.log.position, self.log.statistics.num_chunks
            if counted == (stored := self._store.count_unloaded() - (self._num_superseded or 0)):
                return
            self.log.refresh()
            if self.log.position != position:  # something was written in between
                attempts -= 1
            elif stored < counted and time.monotonic() < loaded_by:
                time.sleep(LOADING_PAUSE)
            else:
                self._wrong_count = f"the statistics count {counted:,} chunks, but {stored:,} are stored"
                self._has_fewer = stored < counted
                return

    def _report_damage(self) -> None:
        """Log the damage as a warning, once."""
        problems, reported = self.problems, self._reported
        self._reported = problems  # first: a hook may read meanwhile
        if problems and problems != reported:
            remedy = FIND_ROWS if self._has_fewer and not self.view.problems else REPAIR
            self.events.warn("damage", damage_message(self._store.name, problems, remedy), findings=len(problems))


@contextmanager
def _acquired(lock: WriteLock, *, wait: bool) -> Iterator[bool]:
    """Hold a lock if it is free, or in any case where it is worth waiting for; say whether it is held."""
    held: list[bool] = []
    try:
        held.extend(map(lock.acquire, [wait]))  # in one step: Ctrl-C after the call would leave the lock taken for ever
        yield held[0]
    finally:
        if held and held[0]:
            lock.release()
