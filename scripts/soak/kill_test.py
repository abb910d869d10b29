"""Kill writers at random moments, and see that no acknowledged chunk is lost and that every count is right.

    python scripts/soak/kill_test.py                     the writer is killed
    python scripts/soak/kill_test.py --engine-kills      its engine, alone or with the writer (milvus-lite 2.5)
    python scripts/soak/kill_test.py --repair-kills      the log is damaged, and the repair is killed

The engine is the milvus-lite of the Python that runs the script; Linux only.

In each round a writer opens the database and adds, updates and deletes small and large batches in three namespaces,
as fast as it can, while the log is compacted all the time; it tells through a pipe what it has begun and what has been
acknowledged. Up to 0.4 s after the first acknowledgement (in every seventh round: up to 0.8 s after it began to open
the database, so that recovery and creation are hit as well) it gets SIGKILL. Then the database is opened again, and

- every chunk is there with the text that was acknowledged last; those of the operation under way may have its text;
- nothing else is there, and what was deleted stays deleted;
- ``verify()`` finds no difference between the statistics and a recount;
- searches give what BM25 with loops gives.

Exits with 1 if any of it does not hold.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass, field, fields
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from reference import BM25, Corpus, split  # noqa: E402

from rag_bm25 import BM25Index, IndexConfig  # noqa: E402
from rag_bm25.errors import StoreError  # noqa: E402
from rag_bm25.milvus_store import MilvusStore  # noqa: E402
from rag_bm25.statistics_log import StatisticsLog  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Key = tuple[str, str]  # namespace and id
Model = dict[Key, str]  # what must be stored

COLLECTION = "docs"
CHUNK_SIZE = 15
CONFIG = IndexConfig(chunk_size=CHUNK_SIZE, length_unit="terms", analyzer=split)
NAMESPACES = ["", "law", "中文"]
IDS = 400
PARTS = 20
WORDS = 2000
COMPACT_ABOVE = 5
EARLY = 7  # of so many kills, one hits the opening
PATIENCE = 180.0


# What a writer does


@dataclass(frozen=True)
class Operation:
    """One call of the index; both sides derive the same ones from a seed."""

    kind: str
    namespace: str
    texts: dict[str, str] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    part: int = 0

    def apply(self, index: BM25Index) -> None:
        """Do it."""
        if self.kind == "add":
            metadatas = [{"part": part_of(id_)} for id_ in self.texts]
            index.add(list(self.texts.values()), ids=list(self.texts), metadatas=metadatas, namespace=self.namespace)
        elif self.kind == "delete":
            index.delete(self.ids, namespace=self.namespace)
        elif self.kind == "delete part":
            index.delete(filter={"part": self.part}, namespace=self.namespace)
        else:
            index.drop_namespace(self.namespace)

    def changes(self, model: Model) -> dict[Key, str | None]:
        """Tell what it leaves of each chunk that it touches, None where the chunk is deleted."""
        if self.kind == "add":
            return {(self.namespace, id_): text for id_, text in self.texts.items()}
        if self.kind == "delete":
            return {(self.namespace, id_): None for id_ in self.ids}
        there = [id_ for namespace, id_ in model if namespace == self.namespace]
        hit = [id_ for id_ in there if self.kind == "drop" or part_of(id_) == self.part]
        return {(self.namespace, id_): None for id_ in hit}


def operations(seed: str) -> Iterator[Operation]:
    """Yield what the writer of one round does, without end."""
    rng = random.Random(seed)
    number = 0
    while True:
        number += 1
        yield operation(rng, f"{seed}-{number}")


def operation(rng: random.Random, name: str) -> Operation:
    """Draw an operation; `name` is a new word, so that no two operations write the same text."""
    kind = rng.choices(["add", "delete", "delete part", "drop"], [75, 15, 8, 2])[0]
    namespace = rng.choice(NAMESPACES)
    if kind == "add":
        size = rng.choices([rng.randint(1, 12), rng.randint(50, IDS), 3 * IDS], [70, 28, 2])[0]
        # The largest ones have ids of their own: they take two batches.
        ids = rng.sample(range(IDS), size) if size <= IDS else range(size)
        return Operation(kind, namespace, {str(id_): draw_text(rng, name) for id_ in ids})
    ids = rng.sample(range(IDS), rng.choice([1, 5, 100]))
    return Operation(kind, namespace, ids=[str(id_) for id_ in ids], part=rng.randrange(PARTS))


def draw_text(rng: random.Random, name: str) -> str:
    """Draw a text of some words, a few of them in most texts; sometimes an old one or none."""
    if rng.random() < 0.05:
        return rng.choice(["", "the same again"])
    words = [f"w{int(WORDS ** rng.random())}" for _ in range(rng.randint(2, 25))]
    return " ".join([*words, name])


def part_of(id_: str) -> int:
    """Return the metadata of a chunk, so that a filter can find it."""
    return zlib.crc32(id_.encode()) % PARTS


# The processes that are killed


def write(uri: str, seed: str, tell: int, *, retry: bool) -> None:
    """Work on the database until killed, or asked to end; start when told to."""
    load()
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    sys.stdin.readline()
    say(tell, "open")
    with BM25Index.open(uri, COLLECTION, config=CONFIG) as index:
        for number, task in enumerate(operations(seed)):
            say(tell, f"start {number}")
            attempt(task, index, tell, attempts=5 if retry else 1)
            say(tell, f"done {number}")
            if stopping:
                return


def attempt(task: Operation, index: BM25Index, tell: int, *, attempts: int) -> None:
    """Do an operation, again where the engine died."""
    try:
        task.apply(index)
    except StoreError:
        if attempts == 1:
            raise
        say(tell, "retry 0")
        attempt(task, index, tell, attempts=attempts - 1)


def repair(uri: str, tell: int) -> None:
    """Repair the database; start when told to."""
    load()
    sys.stdin.readline()
    store = MilvusStore(uri, COLLECTION)
    say(tell, "open")
    BM25Index.from_store(store, config=CONFIG, repair=True).close()
    say(tell, "done 0")


def load() -> None:
    """Load what is loaded on first use otherwise, and let writers sum up after a few deltas."""
    importlib.import_module("rag_bm25.milvus_store.engines")
    StatisticsLog.compact.__kwdefaults__ = {"above": COMPACT_ABOVE}


def say(tell: int, line: str) -> None:
    """Write a line to the pipe, in one piece."""
    os.write(tell, f"{line}\n".encode())


class Victim:
    """A process that tells how far it is, and that can be killed."""

    def __init__(self, role: str, uri: Path, seed: str) -> None:
        self.seed = seed
        self._pipe, tell = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--role", role, "--uri", str(uri), "--seed", seed, "--tell", str(tell)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[tell],
        )
        os.close(tell)
        self.lines: list[str] = []
        self._rest = b""

    def start(self) -> None:
        """Let it begin, now that the database is free."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def wait_for(self, word: str, times: int = 1) -> None:
        """Return once it has said a word so many times."""
        end = time.monotonic() + PATIENCE
        while self.said(word) < times:
            if not self._read(end - time.monotonic()):
                raise RuntimeError(f"the process of seed {self.seed} ended without {word!r}: {self._complaint()}")

    def said(self, word: str) -> int:
        """Count how often it has said a word."""
        return sum(line.split()[0] == word for line in self.lines)

    def kill(self, *, writer: bool = True, engine: bool = False) -> None:
        """Kill it, its engine, or both, with nothing in between."""
        pids = [*(children(self._process.pid) if engine else []), *([self._process.pid] if writer else [])]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def end(self) -> int:
        """Read the rest of what it said, and return its exit code."""
        while self._read(PATIENCE):
            pass
        self._complaint()
        code = self._process.wait(PATIENCE)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        os.close(self._pipe)
        return code

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self.end()

    def _read(self, seconds: float) -> bool:
        """Read what is there; False where it has ended."""
        ready, _, _ = select.select([self._pipe], [], [], max(seconds, 0))
        if not ready:
            raise TimeoutError(f"the process of seed {self.seed} has said nothing for a long time")
        found = os.read(self._pipe, 1 << 16)
        *lines, self._rest = (self._rest + found).split(b"\n")
        self.lines += [line.decode() for line in lines]
        return bool(found)

    def _complaint(self) -> str:
        assert self._process.stderr is not None
        if self._process.stderr.closed:
            return ""
        with self._process.stderr as stream:
            return stream.read().decode()[-2000:]


def children(pid: int) -> list[int]:
    """List the child processes of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            state = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(state[1]) == pid:
                found.append(int(entry.name))
    return found


# Rounds


@dataclass
class Totals:
    """What was seen; the last five must be 0."""

    kills: int = 0
    within_a_write: int = 0
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

    def table(self) -> str:
        """Return one line a figure."""
        return "\n".join(f"{item.name.replace('_', ' '):24}{getattr(self, item.name):12,}" for item in fields(self))


class KillTest:
    """One database, killed again and again.

    Parameters
    ----------
    folder : Path
        Where the database may be.
    what : {"writer", "engine", "repair"}
        What gets killed; ``engine`` alternates between the engine alone and the engine with the writer.
    seed : int
        Decides what the writers do, and when they are killed.
    """

    def __init__(self, folder: Path, what: str, seed: int) -> None:
        self.totals = Totals()
        self.faults: list[str] = []
        self._what = what
        self._uri = folder / "kill.db"
        self._journal = (folder / "journal.jsonl").open("a", encoding="utf-8")
        self._seed = seed
        self._rng = random.Random(f"{what}{seed}")
        self._model: Model = {}
        self._repair_seconds = 0.3

    def run(self, rounds: int) -> Totals:
        """Kill so many times, and check after each."""
        play = self._repair_round if self._what == "repair" else self._writer_round
        self._prepare(0)
        for number in range(rounds):
            play(number)
            if not (number + 1) % 20:
                print(f"{number + 1}/{rounds} rounds, {len(self.faults)} faults", file=sys.stderr, flush=True)
        self._victim.kill()
        self._victim.end()
        self._journal.close()
        return self.totals

    def _prepare(self, number: int) -> None:
        """Start the process of a round early, since loading its modules takes longer than all that it does."""
        self._victim = Victim(self._what, self._uri, f"{self._seed}.{number}")

    def _writer_round(self, number: int) -> None:
        """Let a writer work, kill something, and check what is stored."""
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
            self._fault(f"the writer ended with {code}")
        self.totals.kills += 1
        self._acknowledge(victim)

    def _acknowledge(self, victim: Victim) -> None:
        """Follow what a writer said it did, then look at what is there."""
        done, started = victim.said("done"), victim.said("start")
        for task in islice(operations(victim.seed), done):
            changes = task.changes(self._model)
            update(self._model, changes)
            self.totals.acknowledged_operations += 1
            self.totals.acknowledged_chunks += len(changes)
        self.totals.within_a_write += started > done or victim.said("retry") > 0
        under_way = {}
        if started > done:
            under_way = next(islice(operations(victim.seed), done, None)).changes(self._model)
        self._note(seed=victim.seed, done=done, started=started)
        self._check(under_way)

    def _repair_round(self, number: int) -> None:
        """Write something, damage the log, kill the repair once or twice, and let one come to its end."""
        victim = self._victim
        with BM25Index.open(self._uri, COLLECTION, config=CONFIG) as index:
            for task in islice(operations(victim.seed), 3):
                task.apply(index)
                update(self._model, task.changes(self._model))
                self.totals.acknowledged_operations += 1
        self._damage()
        for one in [victim, *(Victim("repair", self._uri, victim.seed) for _ in range(number % 2))]:
            one.start()
            one.wait_for("open")
            time.sleep(self._rng.uniform(0, self._repair_seconds))
            one.kill()
            one.end()
            self.totals.kills += 1
            self.totals.within_a_write += not one.said("done")
        self._prepare(number + 1)
        self._note(seed=victim.seed)
        self._check({})

    def _damage(self) -> None:
        """Delete some rows of the log."""
        store = MilvusStore(self._uri, COLLECTION)
        keys = [key for key in store.log_keys() if not key.startswith("config")]
        store.delete_log(self._rng.sample(keys, self._rng.randint(1, len(keys))))
        store.close()

    def _check(self, under_way: Mapping[Key, str | None]) -> None:
        """Open the database as the next process would, and compare it with the model."""
        store = MilvusStore(self._uri, COLLECTION)
        if store.exists():
            self.totals.intents_left += sum(key.startswith("intent") for key in store.log_keys())
        began = time.monotonic()
        with BM25Index.from_store(store, config=CONFIG, repair=self._what == "repair") as index:
            self._repair_seconds = time.monotonic() - began
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
        namespace = self._rng.choice(NAMESPACES)
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
        """Keep a line of what happened, whatever happens to this process."""
        print(json.dumps(facts, ensure_ascii=False), file=self._journal, flush=True)
        os.fsync(self._journal.fileno())


def update(model: Model, changes: Mapping[Key, str | None]) -> None:
    """Apply the changes of an operation."""
    for key, text in changes.items():
        if text is None:
            model.pop(key, None)
        else:
            model[key] = text


def close(one: float, other: float) -> bool:
    """Tell whether two scores are equal to 1e-5."""
    return abs(one - other) <= 1e-5 * abs(other)


def main() -> int:
    """Run the rounds and print what was seen, or be one of the processes that are killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--engine-kills", dest="what", action="store_const", const="engine", help="kill the engine")
    what.add_argument("--repair-kills", dest="what", action="store_const", const="repair", help="kill the repair")
    parser.add_argument("--rounds", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--seed", default="1", help="decides what is written (default: 1)")
    parser.add_argument("--role", choices=["writer", "engine", "repair"], help=argparse.SUPPRESS)
    parser.add_argument("--uri", help=argparse.SUPPRESS)
    parser.add_argument("--tell", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role == "repair":
        repair(given.uri, given.tell)
    elif given.role:
        write(given.uri, given.seed, given.tell, retry=given.role == "engine")
    else:
        return report(given.what or "writer", given.rounds, int(given.seed))
    return 0


def report(what: str, rounds: int, seed: int) -> int:
    """Run the rounds and print what was seen."""
    with tempfile.TemporaryDirectory() as folder:
        test = KillTest(Path(folder), what, seed)
        began = time.monotonic()
        totals = test.run(rounds)
    print(f"milvus-lite {metadata.version('milvus-lite')}, killed: {what}, {time.monotonic() - began:.0f} s")
    print(totals.table())
    return 1 if test.faults else 0


if __name__ == "__main__":
    sys.exit(main())
