"""Let four processes write to one server while two read, and check every count at every moment.

    python scripts/soak/several_writers.py --lite3-python <a Python that has milvus-lite 3>
    python scripts/soak/several_writers.py --milvus-python <a Python that has the package milvus 2.3.5>

The server of milvus-lite 3.2 is documented for one writer at a time, so each single call of a store takes a file lock;
the steps of different writers' batches still come in any order. A Milvus server needs no lock. Writers add, update and
delete chunks of their own in namespaces that they share, with words that several of them see first, and compact the log
after a few deltas. Each tells in shared memory what it is about to do and what was acknowledged, so that a reader knows
between which bounds N must be at the moment of its question:

    acknowledged additions before it asked - deletions begun when it had the answer  <=  N
    N  <=  additions begun when it had the answer - acknowledged deletions before it asked

With ``--generations``, another process replaces the index by its next generation meanwhile, again and again.

At the end, the chunks are compared with what the writers did, and the statistics with a recount. Exits with 1 if
anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support import engines  # noqa: E402
from support.reference import split  # noqa: E402
from support.serialized_store import file_locked, serialized  # noqa: E402

from rag_bm25 import BM25Index, IndexConfig  # noqa: E402
from rag_bm25.errors import IndexNotFoundError  # noqa: E402
from rag_bm25.index.maintenance.copying import drop_index  # noqa: E402
from rag_bm25.ingestion import reindex  # noqa: E402
from rag_bm25.statistics.log.log import StatisticsLog  # noqa: E402
from rag_bm25.store.milvus import MilvusStore  # noqa: E402
from rag_bm25.store.milvus.server import Lite3Server  # noqa: E402
from rag_bm25.store.protocol import Store  # noqa: E402

COLLECTION = "docs"
CONFIG = IndexConfig(chunk_size=15, k3=None, length_unit="terms", analyzer=split)
NAMESPACES = ["", "law"]
COMPACT_ABOVE = 8
WORDS = 500
COLUMNS = ["additions begun", "additions acknowledged", "deletions begun", "deletions acknowledged", "ended"]
PATIENCE = 300.0


@dataclass(frozen=True)
class Place:
    """Server, folder and counters that the processes share."""

    uri: str
    folder: Path
    writers: int

    def open(self, *, config: IndexConfig | None = None, read_only: bool = False) -> BM25Index:
        """Open the index; where milvus-lite serves it, each call of its store is under the lock."""
        store: Store = MilvusStore(self.uri, COLLECTION, read_only=read_only, timeout=60)
        if store.storage_info().engine == Lite3Server.dialect.engine:
            store = serialized(store, partial(file_locked, self.folder / "lock"))
        analyzer = None if config else split
        return BM25Index.from_store(store, config=config, analyzer=analyzer, read_only=read_only, refresh_interval=0)

    def counters(self) -> NDArray[np.int64]:
        """Return the shared counters: a row for each writer, a column for each of COLUMNS."""
        return np.memmap(self.folder / "counters", np.int64, "r+", shape=(self.writers, len(COLUMNS)))

    def create(self) -> None:
        """Create the index, without what an earlier run has left at this server, and counters of zero."""
        with closing(MilvusStore(self.uri, COLLECTION)) as store, suppress(IndexNotFoundError):
            drop_index(store)
        (self.folder / "counters").write_bytes(bytes(8 * self.writers * len(COLUMNS)))
        self.open(config=CONFIG).close()


@dataclass
class Writer:
    """A writer whose operations follow from its number and the seed."""

    number: int
    seed: int
    stored: dict[tuple[str, str], str] = field(default_factory=dict)  # namespace and id -> text

    def __post_init__(self) -> None:
        self._rng = random.Random(f"{self.seed}.{self.number}")

    def step(self) -> tuple[str, dict[str, str], list[str]]:
        """Draw a namespace, chunks to write and ids to delete, and apply them to the model."""
        namespace = self._rng.choice(NAMESPACES)
        own = [id_ for where, id_ in self.stored if where == namespace]
        if len(own) > 20 and self._rng.random() < 0.25:
            deleted = self._rng.sample(own, self._rng.randint(1, 10))
            for id_ in deleted:
                del self.stored[namespace, id_]
            return namespace, {}, deleted
        ids = [f"{self.number}-{self._rng.randrange(300)}" for _ in range(self._rng.choice([1, 5, 40]))]
        texts = {id_: self._text() for id_ in ids}
        self.stored.update({(namespace, id_): text for id_, text in texts.items()})
        return namespace, texts, []

    def _text(self) -> str:
        """Draw a text, with words that may be new to the corpus."""
        words = [f"w{int(WORDS ** self._rng.random())}" for _ in range(self._rng.randint(2, 20))]
        return " ".join([*words, f"new{self._rng.randrange(10_000)}"])


def write(place: Place, number: int, seed: int, operations: int) -> None:
    """Write, and count each operation before and after it."""
    StatisticsLog.compact.__kwdefaults__ = {"above": COMPACT_ABOVE}
    writer = Writer(number, seed)
    mine = place.counters()[number]
    with place.open() as index:
        for _ in range(operations):
            there = len(writer.stored)
            namespace, texts, deleted = writer.step()
            more = max(len(writer.stored) - there, 0)
            mine[0] += more
            mine[2] += len(deleted)
            if texts:
                index.add(list(texts.values()), ids=list(texts), namespace=namespace)
            else:
                index.delete(deleted, namespace=namespace)
            mine[1] += more
            mine[3] += len(deleted)
        mine[4] = 1


def read(place: Place) -> int:
    """Read N until all writers have ended; raise for an impossible one, return the number of reads."""
    asked, counters = 0, place.counters()
    with place.open(read_only=True) as index:
        while not asked or not counters[:, 4].all():
            before = counters.sum(axis=0)
            index.refresh()
            found = index.stats().num_chunks
            after = counters.sum(axis=0)
            least, most = before[1] - after[2], after[0] - before[3]
            if not least <= found <= most:
                raise AssertionError(f"N was {found}, but must have been in {least}..{most}")
            index.search(f"w{1 + asked % 20}", k=5, namespace=None)
            asked += 1
    return asked


def reindex_meanwhile(place: Place) -> int:
    """Put one generation after the other into force until all writers have ended; return their number."""
    made, counters = 0, place.counters()
    with place.open() as index:
        while not counters[:, 4].all():
            made += 1
            reindex(index, replace(index.config, k1=1 + 0.01 * made))
    return made


def run(uri: str, folder: Path, *, writers: int = 4, readers: int = 2, operations: int = 100, seed: int = 1,
        generations: bool = False) -> str:  # fmt: skip
    """Run the processes, check the result, and return its figures; AssertionError for any fault."""
    place = Place(uri, folder, writers)
    place.create()
    began = time.monotonic()
    shared = ["--uri", uri, "--folder", str(folder), "--writers", str(writers), "--seed", str(seed)]
    roles = [["--role", "write", "--number", str(n), "--operations", str(operations)] for n in range(writers)]
    roles += [["--role", "read"]] * readers + [["--role", "reindex"]] * generations
    processes = [
        subprocess.Popen([sys.executable, __file__, *shared, *role], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for role in roles
    ]
    answers = finish(processes)
    asked = sum(int(answer) for answer in answers[writers:][:readers])
    more = [f"generations {answers[-1].strip()}"] if generations else []
    return "\n".join([check(place, seed, operations), f"reads {asked:,}", *more, f"{time.monotonic() - began:.0f} s"])


def finish(processes: list[subprocess.Popen[bytes]]) -> list[str]:
    """Wait for all processes and return their outputs; if one fails, end the others."""
    try:
        printed = [process.communicate(timeout=PATIENCE) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, complaint) in zip(processes, printed, strict=True):
        assert process.returncode == 0, complaint.decode()[-2000:]
    return [output.decode() for output, _ in printed]


def check(place: Place, seed: int, operations: int) -> str:
    """Compare chunks with the operations of the writers, and statistics with a recount."""
    expected: dict[tuple[str, str], str] = {}
    for number in range(place.writers):
        writer = Writer(number, seed)
        for _ in range(operations):
            writer.step()
        expected |= writer.stored
    with place.open() as index:
        stored = {(chunk.namespace, chunk.id): chunk.text for chunk in index.chunks(namespace=None)}
        report = index.verify()
    lost = len(expected.keys() - stored.keys())
    wrong = sum(stored.get(key) != text for key, text in expected.items()) - lost
    differences = [str(difference) for difference in report.differences]
    assert stored == expected, f"{lost} chunks lost, {wrong} wrong, {len(stored.keys() - expected.keys())} undead"
    assert report.ok, differences
    return f"operations {place.writers * operations:,}, chunks {len(stored):,}, terms {report.num_terms:,}, all right"


def main() -> int:
    """Start a server and the processes, or run one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lite3-python", default=os.environ.get("RAG_BM25_LITE3_PYTHON", ""))
    parser.add_argument("--milvus-python", default=os.environ.get("RAG_BM25_MILVUS_PYTHON", ""))
    parser.add_argument("--operations", type=int, default=100, help="how many each writer does (default: 100)")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--generations", action="store_true", help="reindex all the time, under the same name")
    parser.add_argument("--role", choices=["write", "read", "reindex"], help=argparse.SUPPRESS)
    parser.add_argument("--uri", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role == "write":
        write(Place(given.uri, given.folder, given.writers), given.number, given.seed, given.operations)
    elif given.role == "read":
        print(read(Place(given.uri, given.folder, given.writers)))
    elif given.role == "reindex":
        print(reindex_meanwhile(Place(given.uri, given.folder, given.writers)))
    else:
        engines.lite3_python, engines.milvus_python = given.lite3_python, given.milvus_python
        counts = {"writers": given.writers, "readers": given.readers, "operations": given.operations}
        with tempfile.TemporaryDirectory() as folder:
            uri = engines.uri_of(engines.PACKAGED if given.milvus_python else "server")
            print(run(uri, Path(folder), **counts, seed=given.seed, generations=given.generations))
    return 0


if __name__ == "__main__":
    sys.exit(main())
