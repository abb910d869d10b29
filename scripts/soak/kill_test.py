"""Kill writers at random moments, and check that no acknowledged chunk is lost and that all counts are right.

    python scripts/soak/kill_test.py                  the writer is killed
    python scripts/soak/kill_test.py --kill two       a process in which two index objects write at once
    python scripts/soak/kill_test.py --kill engine    the engine, alone or with the writer (milvus-lite 2.5)
    python scripts/soak/kill_test.py --kill repair    the log is damaged, and the repair is killed
    python scripts/soak/kill_test.py --kill copy      likewise reindex, ingest, drop, generation
    python scripts/soak/kill_test.py --kill faults    the writer, beside a full disk and a clock that steps

The engine is the milvus-lite of the Python that runs the script; Linux only.

In each round a writer opens the database and adds, updates and deletes small and large batches in three namespaces,
as fast as it can, while the log is compacted all the time; it tells through a pipe what it has begun and what has been
acknowledged. Up to 0.4 s after the first acknowledgement (in every seventh round: up to 0.8 s after it began to open
the database, so that recovery and creation are hit as well) it gets SIGKILL. Then the database is opened again, and

- every chunk is there with the text that was acknowledged last; those of the operation under way may have its text;
- nothing else is there, and what was deleted stays deleted;
- ``verify()`` finds no difference between the statistics and a recount;
- searches give what BM25 with loops gives.

The long jobs, such as a copy, are killed at a random moment of the time that they take, once or twice. Besides, their
unfinished work must be sound or refused, and when they are run again, they come to their end.

With ``--kill faults``, the disk fills and empties while the writer works, and the clock steps by up to an hour; it
repeats a refused operation until it is acknowledged, and opens the database anew every few operations. In every third
round it ends by itself, in the others it is killed, every other time with its engine.

Exits with 1 if any of it does not hold.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields
from functools import partial
from importlib import metadata
from itertools import islice
from math import isclose
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests")]

from support.reference import BM25, Corpus, split  # noqa: E402

from rag_bm25 import BM25Index  # noqa: E402
from rag_bm25.errors import FormatError, RagBM25Error, StoreError  # noqa: E402
from rag_bm25.statistics.log.log import StatisticsLog  # noqa: E402
from rag_bm25.store.milvus import MilvusStore  # noqa: E402
from soak.jobs import COLLECTION, JOBS, Job  # noqa: E402
from soak.operations import CHUNK_SIZE, CONFIG, NAMESPACES, WORDS, Key, Model, Operation, operations, update  # noqa: E402
from soak.surroundings import Surroundings, enter  # noqa: E402
from soak.victims import Victim, say  # noqa: E402

T = TypeVar("T")
close = partial(isclose, rel_tol=1e-5)  # two scores

COMPACT_ABOVE = 5
EARLY = 7  # of so many kills, one hits the opening
KINDS = ("writer", "two", "engine", "faults", "repair", *JOBS)
ATTEMPTS = {"engine": 5, "faults": 10_000}  # of an operation that is refused; of others one
RETRY_AFTER = 0.05  # seconds
REOPEN_AFTER = 15  # operations beside faults
FAULTS_FOR = 6.0  # seconds, at most


# The processes that are killed


def streams(what: str, seed: str) -> dict[str, Iterator[Operation]]:
    """Return the operations of each writer of a process; two writers have namespaces of their own."""
    if what != "two":
        return {"": operations(seed)}
    return {name: operations(f"{seed}.{name}", [f"{one}{name}" for one in NAMESPACES]) for name in ("a", "b")}


def write(what: str, uri: str, seed: str, tell: int) -> None:
    """Write on command until killed or asked to end."""
    load()
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    if not sys.stdin.readline():
        return  # the test has ended without it
    say(tell, "open")
    threading.excepthook = end_all
    write_all = write_beside_faults if what == "faults" else write_one
    writers = [
        threading.Thread(target=write_all, args=[uri, Stream(name, stream, tell, ATTEMPTS.get(what, 1), stopping)])
        for name, stream in streams(what, seed).items()
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        while writer.is_alive():
            writer.join(1)  # a signal that another thread was given does not wake this one


def end_all(failure: threading.ExceptHookArgs) -> None:
    """End the process: a failed writer must not go unnoticed while another one continues."""
    traceback.print_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
    os._exit(1)


@dataclass
class Stream:
    """The operations of one writer, which it tells when it begins and when it has an answer."""

    name: str
    operations: Iterator[Operation]
    tell: int
    attempts: int  # of an operation, or of opening, that is refused
    stopping: list[int]
    done: int = 0

    def apply_next(self, index: BM25Index) -> None:
        say(self.tell, f"start{self.name} {self.done}")
        task = next(self.operations)
        self.attempt(lambda: task.apply(index))
        say(self.tell, f"done{self.name} {self.done}")
        self.done += 1

    def attempt(self, act: Callable[[], T]) -> T:
        """Try again where the engine died, or refuses what it is asked for."""
        for _ in range(self.attempts - 1):
            with suppress(StoreError):
                return act()
            say(self.tell, "retry 0")
            time.sleep(RETRY_AFTER)
        return act()


def write_one(uri: str, stream: Stream) -> None:
    with BM25Index.open(uri, COLLECTION, config=CONFIG) as index:
        while not stream.stopping:
            stream.apply_next(index)


def write_beside_faults(uri: str, stream: Stream) -> None:
    """Write, and open the database anew from time to time."""
    while not stream.stopping:
        with stream.attempt(lambda: BM25Index.open(uri, COLLECTION, config=CONFIG)) as index:
            for _ in range(REOPEN_AFTER):
                stream.apply_next(index)
                if stream.stopping:
                    return


def repair(uri: str) -> None:
    BM25Index.from_store(MilvusStore(uri, COLLECTION), config=CONFIG, repair=True).close()


def run(work: partial[None], tell: int) -> None:
    """Run one function on command."""
    load()
    if not sys.stdin.readline():
        return  # the test has ended without it
    say(tell, "open")
    work()
    say(tell, "done 0")


def load() -> None:
    """Preload modules, and compact the log after a few deltas."""
    importlib.import_module("rag_bm25.store.milvus.engine")
    StatisticsLog.compact.__kwdefaults__ = {"above": COMPACT_ABOVE}


# Rounds


@dataclass
class Totals:
    """Totals of a run; the last six must be 0."""

    kills: int = 0
    within_a_write: int = 0
    full_disks: int = 0
    clock_steps: int = 0
    refused_calls: int = 0
    intents_left: int = 0
    acknowledged_operations: int = 0
    acknowledged_chunks: int = 0
    checked_chunks: int = 0
    checked_searches: int = 0
    lost_chunks: int = 0
    undead_chunks: int = 0
    wrong_texts: int = 0
    wrong_counts: int = 0
    wrong_searches: int = 0
    broken_jobs: int = 0

    def table(self) -> str:
        return "\n".join(f"{item.name.replace('_', ' '):24}{getattr(self, item.name):12,}" for item in fields(self))


class KillTest:
    """One database, killed again and again."""

    def __init__(self, folder: Path, what: str, seed: int) -> None:
        self.totals = Totals()
        self.faults: list[str] = []
        self._what = what
        self._journal = (folder / "journal.jsonl").open("a", encoding="utf-8")
        self._seed = seed
        self._rng = random.Random(f"{what}{seed}")
        self._surroundings = Surroundings(folder, self._rng) if what == "faults" else None
        self._uri = (self._surroundings.disk if self._surroundings else folder) / "kill.db"
        self._model: Model = {}
        self._seconds = 0.3  # that a repair or a job takes
        self._job: Job | None = JOBS[what](folder) if what in JOBS else None

    def run(self, rounds: int) -> Totals:
        rounds_of = {"repair": self._repair_round, "faults": self._fault_round}
        play = self._job_round if self._job else rounds_of.get(self._what, self._writer_round)
        self._rounds = rounds
        self._prepare(0)
        with self._journal, self._surroundings or nullcontext():
            for number in range(rounds):
                play(number)
                if not (number + 1) % 20:
                    print(f"{number + 1}/{rounds} rounds, {len(self.faults)} faults", file=sys.stderr, flush=True)
        return self.totals

    def _prepare(self, number: int) -> None:
        """Start the process of a round early: loading its modules takes longer than its work."""
        if number < self._rounds:
            self._victim = Victim(self._what, self._uri, f"{self._seed}.{number}")

    def _writer_round(self, number: int) -> None:
        """Kill a writer or its engine at work, then check the database."""
        victim = self._victim
        victim.start()
        alone = self._what == "engine" and number % 2 == 0
        victim.wait_for("open")
        if number % EARLY == EARLY - 1 and not alone:
            time.sleep(self._rng.uniform(0, 0.8))
        else:
            victim.wait_for("done")
            time.sleep(self._rng.uniform(0, 0.4))
        victim.kill(writer=not alone, engine=self._what == "engine")
        if alone:
            victim.wait_for("done", victim.said("done") + 3)
        code = victim.stop() if alone else victim.end()
        self._prepare(number + 1)
        if code != (0 if alone else -signal.SIGKILL):
            self._fault(f"the writer ended with {code}: {victim.complaint}")
        self.totals.kills += 1
        self._acknowledge(victim)

    def _fault_round(self, number: int) -> None:
        """Disturb a writer at work, kill it or let it end, then check the database."""
        assert self._surroundings is not None
        victim = self._victim
        victim.start()
        victim.wait_for("done")
        self._surroundings.disturb(self._rng.uniform(0, FAULTS_FOR))
        if is_killed := number % 3 > 0:
            victim.kill(engine=number % 2 == 0)
        self._surroundings.calm()
        code = victim.end() if is_killed else victim.stop()
        self._prepare(number + 1)
        if code != (-signal.SIGKILL if is_killed else 0):
            self._fault(f"the writer ended with {code}: {victim.complaint}")
        self.totals.kills += is_killed
        self.totals.full_disks, self.totals.clock_steps = self._surroundings.full_disks, self._surroundings.clock_steps
        self.totals.refused_calls += victim.said("retry")
        self._acknowledge(victim)

    def _acknowledge(self, victim: Victim) -> None:
        """Apply acknowledged operations to the model, then check the database."""
        under_way: dict[Key, str | None] = {}
        for name, stream in streams(self._what, victim.seed).items():
            done, started = victim.said(f"done{name}"), victim.said(f"start{name}")
            self._follow(islice(stream, done))
            self.totals.within_a_write += started > done or victim.said("retry") > 0
            if started > done:
                under_way |= next(stream).changes(self._model)
            self._note(seed=victim.seed, writer=name, done=done, started=started)
        self._check(under_way)

    def _follow(self, tasks: Iterator[Operation], index: BM25Index | None = None) -> None:
        """Do what is to be done, where it was not done yet, and note what it leaves."""
        for task in tasks:
            if index is not None:
                task.apply(index)
            changes = task.changes(self._model)
            update(self._model, changes)
            self.totals.acknowledged_operations += 1
            self.totals.acknowledged_chunks += len(changes)

    def _repair_round(self, number: int) -> None:
        """Write, damage the log, kill the repair once or twice, then let it end."""
        self._write_something()
        self._damage()
        victim = self._kill_once_or_twice(number)
        self._prepare(number + 1)
        self._note(seed=victim.seed)
        self._check({})

    def _job_round(self, number: int) -> None:
        """Write, kill the job once or twice, check, then let it end."""
        assert self._job is not None
        self._write_something()
        self._job.prepare(self._rng, self._model)
        victim = self._kill_once_or_twice(number)
        self._note(seed=victim.seed, done=victim.said("done"))
        self._check({})
        self._faults_of(self._job.faults_when_cut())
        self._finish()
        self._faults_of(self._job.faults_when_done())
        self._prepare(number + 1)

    def _finish(self) -> None:
        again = Victim(self._what, self._uri, self._victim.seed)
        again.start()
        again.wait_for("open")
        began = time.monotonic()
        code = again.end()
        self._seconds = time.monotonic() - began
        if code:
            self._fault(f"the second run ended with {code}: {again.complaint}")

    def _write_something(self) -> None:
        with BM25Index.open(self._uri, COLLECTION, config=CONFIG) as index:
            self._follow(islice(operations(self._victim.seed), 3), index)

    def _kill_once_or_twice(self, number: int) -> Victim:
        """Kill the process after a random time; in odd rounds also a second one."""
        victim = self._victim
        for one in [victim, *(Victim(self._what, self._uri, victim.seed) for _ in range(number % 2))]:
            one.start()
            one.wait_for("open")
            time.sleep(self._rng.uniform(0, self._seconds))
            one.kill()
            one.end()
            self.totals.kills += 1
            self.totals.within_a_write += not one.said("done")
        return victim

    def _faults_of(self, faults: Iterator[str]) -> None:
        try:
            found = list(faults)
        except RagBM25Error as error:
            found = [f"{type(error).__name__}: {error}"]
        for fault in found:
            self.totals.broken_jobs += 1
            self._fault(fault)

    def _damage(self) -> None:
        store = MilvusStore(self._uri, COLLECTION)
        keys = [key for key in store.log_keys() if not key.startswith("config")]
        store.delete_log(self._rng.sample(keys, self._rng.randint(1, len(keys))))
        store.close()

    def _check(self, under_way: Mapping[Key, str | None]) -> None:
        """Open the database as the next process would, and compare it with the model."""
        store = MilvusStore(self._uri, COLLECTION)
        if store.exists():
            self.totals.intents_left += num_unfinished(store)
        began = time.monotonic()
        with BM25Index.from_store(store, config=CONFIG, repair=self._what == "repair") as index:
            if self._what == "repair":
                self._seconds = time.monotonic() - began
            self._check_chunks(index, under_way)
            self._check_counts(index)
            for _ in range(3):
                self._check_search(index)

    def _check_chunks(self, index: BM25Index, under_way: Mapping[Key, str | None]) -> None:
        stored = {(chunk.namespace, chunk.id): chunk.text for chunk in index.chunks(namespace=None)}
        for key in {*self._model, *stored, *under_way}:
            possible = {self._model.get(key), under_way.get(key, self._model.get(key))}
            self.totals.checked_chunks += 1
            if stored.get(key) not in possible:
                self._wrong_chunk(key, possible, stored.get(key))
        self._model = stored

    def _wrong_chunk(self, key: Key, possible: set[str | None], found: str | None) -> None:
        if found is None:
            self.totals.lost_chunks += 1
        elif possible == {None}:
            self.totals.undead_chunks += 1
        else:
            self.totals.wrong_texts += 1
        self._fault(f"chunk {key}: stored {found!r}, expected one of {possible}")

    def _check_counts(self, index: BM25Index) -> None:
        report = index.verify()
        if not report.ok or report.num_chunks != len(self._model):
            self.totals.wrong_counts += 1
            self._fault(f"{report.num_chunks} chunks, {[str(found) for found in report.differences[:5]]}")

    def _check_search(self, index: BM25Index) -> None:
        """Compare one search with BM25 written with loops."""
        namespace = self._rng.choice(sorted({key[0] for key in self._model} or {""}))
        query = " ".join(f"w{int(WORDS ** self._rng.random())}" for _ in range(4))
        chunks = {id_: split(text) for (where, id_), text in self._model.items() if where == namespace}
        expected = BM25(CHUNK_SIZE).scores(split(query), Corpus(chunks))
        best = sorted(expected.values(), reverse=True)[:10]
        hits = index.search(query, k=10, namespace=namespace)
        self.totals.checked_searches += 1
        right = len(hits) == len(best) and all(
            close(hit.score, score) and close(hit.score, expected[hit.id])
            for hit, score in zip(hits, best, strict=True)
        )
        if not right:
            self.totals.wrong_searches += 1
            self._fault(f"search {query!r} in {namespace!r}: {[hit.score for hit in hits]}, expected {best}")

    def _fault(self, text: str) -> None:
        self.faults.append(f"round {self.totals.kills}: {text}")
        self._note(fault=text)
        print(self.faults[-1], file=sys.stderr, flush=True)

    def _note(self, **facts: object) -> None:
        """Append a line to the journal, synced to disk."""
        print(json.dumps(facts, ensure_ascii=False), file=self._journal, flush=True)
        os.fsync(self._journal.fileno())


def num_unfinished(store: MilvusStore) -> int:
    """Return how many batches have an intent and no delta, as far as the log can be read."""
    log = StatisticsLog(store)
    with suppress(FormatError):
        log.refresh()
    return len(log.open_batches.batches)


def main() -> int:
    """Run the rounds, or one of the processes that are killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kill", choices=KINDS, default="writer", help="what (default: writer)")
    parser.add_argument("--rounds", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--seed", default="1", help="decides what is written (default: 1)")
    parser.add_argument("--role", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--uri", help=argparse.SUPPRESS)
    parser.add_argument("--tell", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role == "repair":
        run(partial(repair, given.uri), given.tell)
    elif given.role in JOBS:
        run(partial(JOBS[given.role](Path(given.uri).parent).run), given.tell)
    elif given.role:
        write(given.role, given.uri, given.seed, given.tell)
    else:
        return report(given.kill, given.rounds, int(given.seed))
    return 0


def report(what: str, rounds: int, seed: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        if what == "faults":
            enter(Path(folder))
        test = KillTest(Path(folder), what, seed)
        began = time.monotonic()
        totals = test.run(rounds)
    print(f"milvus-lite {metadata.version('milvus-lite')}, killed: {what}, {time.monotonic() - began:.0f} s")
    print(totals.table())
    return 1 if test.faults else 0


if __name__ == "__main__":
    sys.exit(main())
