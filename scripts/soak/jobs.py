"""Long jobs that are killed: each must leave the index sound, and succeed when it is run again."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from support.reference import split

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.errors import IndexNotFoundError, InputError, RagBM25Error
from rag_bm25.index import drop_former_generations
from rag_bm25.index.maintenance.copying import copy_index, drop_index
from rag_bm25.ingestion.files import find_files
from rag_bm25.ingestion.ingesting import ingest
from rag_bm25.ingestion.reindexing import reindex
from rag_bm25.store.milvus import MilvusStore
from soak.operations import CONFIG, Model, Operation

COLLECTION = "docs"
PARAGRAPHS = re.compile(r"f\d+v\d+p\d+")
FILES = 40
SPARE = 300  # chunks of an index that is dropped or encoded anew


class Job:
    """A job on the database of a kill test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "kill.db"

    def prepare(self, rng: random.Random, model: Model) -> None:
        """Set up the job; `model` is the content of the database."""
        self.rng, self.model = rng, model
        self.write_needs()

    def write_needs(self) -> None:
        """Create the input of the job; by default nothing."""

    def run(self) -> None:
        """Run the job in the process that is killed; it may already be done."""
        raise NotImplementedError

    def faults_when_cut(self) -> Iterator[str]:
        """Yield faults after a kill at any moment."""
        raise NotImplementedError

    def faults_when_done(self) -> Iterator[str]:
        """Yield faults after the job ended."""
        raise NotImplementedError


class Copy(Job):
    """Copy the index to another file."""

    name = "copy.db"

    @property
    def target(self) -> Path:
        return self.folder / self.name

    def write_needs(self) -> None:
        remove(self.target)

    def run(self) -> None:
        source, target = MilvusStore(self.source, COLLECTION), self._store()
        with closing(source), closing(target), suppress(InputError):
            copy_index(source, target)

    def expected(self) -> Model:
        return self.model

    def faults_when_cut(self) -> Iterator[str]:
        """Check that half a copy does not open, and that a whole one is right."""
        with suppress(RagBM25Error):
            yield from self.faults_when_done()

    def faults_when_done(self) -> Iterator[str]:
        yield from faults_of(BM25Index.open(self.target, COLLECTION, config=CONFIG, read_only=True), self.expected())

    def _store(self) -> MilvusStore:
        return MilvusStore(self.target, COLLECTION)


class Reindex(Job):
    """Reindex the texts with other parameters into another index."""

    config = IndexConfig(chunk_size=20, k3=None, k1=1.2, length_unit="terms", analyzer=split)

    def run(self) -> None:
        with BM25Index.open(self.source, COLLECTION, config=CONFIG) as source, self._open() as target:
            reindex(source, target)

    def faults_when_cut(self) -> Iterator[str]:
        """Check that the other index is sound, whatever is missing."""
        yield from faults_of(self._open(), None)

    def faults_when_done(self) -> Iterator[str]:
        yield from faults_of(self._open(), self.model)

    def _open(self) -> BM25Index:
        return BM25Index.open(self.source, "docs_2", config=self.config)


class Ingest(Job):
    """Ingest a folder into an index, and prune deleted files."""

    config = IndexConfig(chunk_size=60, k3=None, length_unit="characters", analyzer=split)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._files = folder / "files"
        self._files.mkdir(exist_ok=True)
        (self._files / "kept.txt").write_text("An empty folder is not pruned.", "utf-8")
        self._before: set[str] = set()
        self._after: set[str] = set()

    def write_needs(self) -> None:
        self._before = self._after
        for number in self.rng.sample(range(FILES), self.rng.randint(1, FILES)):
            path = self._files / f"{number}.txt"
            paragraphs = self.rng.choice([0, 1, 5, 60])
            marks = [f"f{number}v{self.rng.randrange(10**6)}p{at}" for at in range(paragraphs)]
            path.write_text("\n\n".join(f"{mark} and what it says" for mark in marks), "utf-8")
            if not marks:
                path.unlink()
        self._after = {mark for path in self._files.iterdir() for mark in PARAGRAPHS.findall(path.read_text("utf-8"))}

    def run(self) -> None:
        with self._open() as index:
            ingest(index, find_files([self._files]), prune=True, max_delete=1.0)

    def faults_when_cut(self) -> Iterator[str]:
        """Check that chunks are old or new ones, and that none is missing that should stay."""
        with self._open() as index:
            stored = self._stored(index)
            if not self._before & self._after <= stored <= self._before | self._after:
                yield f"ingest: {len(stored)} paragraphs, of {len(self._before)} before and {len(self._after)} after"
            yield from differences(index)

    def faults_when_done(self) -> Iterator[str]:
        with self._open() as index:
            stored = self._stored(index)
            if stored != self._after:
                yield f"ingest: lost {sorted(self._after - stored)[:3]}, too many {sorted(stored - self._after)[:3]}"
            yield from differences(index)

    def _open(self) -> BM25Index:
        return BM25Index.open(self.source, "files", config=self.config)

    def _stored(self, index: BM25Index) -> set[str]:
        return {mark for chunk in index.chunks() for mark in PARAGRAPHS.findall(chunk.text)}


class Drop(Job):
    """Drop another index of the database."""

    def write_needs(self) -> None:
        """Create the index again: nothing of the last one may be left."""
        with BM25Index.open(self.source, "spare", config=CONFIG) as index:
            index.add([f"word{self.rng.randrange(SPARE)}" for _ in range(SPARE)], ids=list(map(str, range(SPARE))))

    def run(self) -> None:
        with closing(MilvusStore(self.source, "spare")) as store, suppress(IndexNotFoundError):
            drop_index(store)

    def faults_when_cut(self) -> Iterator[str]:
        with suppress(RagBM25Error):
            yield from faults_of(BM25Index.open(self.source, "spare", config=CONFIG, read_only=True), None)

    def faults_when_done(self) -> Iterator[str]:
        """Check that a new index of this name is empty."""
        yield from faults_of(BM25Index.open(self.source, "spare", config=CONFIG), {})


class Generation(Job):
    """Replace an index by its next generation, and drop the former one."""

    config = IndexConfig(chunk_size=15, k3=None, length_unit="terms", analyzer=split)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._texts: Model = {}

    @property
    def k1(self) -> float:
        return float((self.folder / "k1").read_text("utf-8"))

    def write_needs(self) -> None:
        """Add and update chunks, and draw the next k1."""
        words = [
            " ".join(f"w{int(100 ** self.rng.random())}" for _ in range(self.rng.randint(2, 40))) for _ in range(SPARE)
        ]
        texts = {str(self.rng.randrange(2 * SPARE)): text for text in words}
        self._texts |= {("", id_): text for id_, text in texts.items()}
        with self._open() as index:
            Operation("add", "", texts).apply(index)
        (self.folder / "k1").write_text(str(self.rng.randint(1, 1_000) / 1_000), "utf-8")

    def run(self) -> None:
        with self._open() as index:
            reindex(index, replace(self.config, k1=self.k1))
        with closing(MilvusStore(self.source, "living")) as store:
            drop_former_generations(store)

    def faults_when_cut(self) -> Iterator[str]:
        """Check that texts, N and df are unchanged."""
        yield from faults_of(self._open(), self._texts)

    def faults_when_done(self) -> Iterator[str]:
        """Check also that the last generation is in force."""
        yield from faults_of(self._open(), self._texts)
        with self._open() as index:
            if index.config.k1 != self.k1:
                yield f"generation: k1 is {index.config.k1}, expected {self.k1}"

    def _open(self) -> BM25Index:
        with suppress(IndexNotFoundError):
            return BM25Index.open(self.source, "living", analyzer=split)
        return BM25Index.open(self.source, "living", config=self.config)


JOBS: dict[str, type[Job]] = {
    "copy": Copy,
    "reindex": Reindex,
    "ingest": Ingest,
    "drop": Drop,
    "generation": Generation,
}


def faults_of(opened: BM25Index, model: Model | None) -> Iterator[str]:
    """Compare the chunks of an index with a model, where one is given, and its statistics with a recount."""
    with opened as index:
        if model is not None:
            stored = {(chunk.namespace, chunk.id): chunk.text for chunk in index.chunks(namespace=None)}
            wrong = [key for key in stored.keys() | model.keys() if stored.get(key) != model.get(key)]
            if wrong:
                yield f"{len(stored)} chunks, expected {len(model)}; wrong are {wrong[:5]}"
        yield from differences(index)


def differences(index: BM25Index) -> Iterator[str]:
    """Yield the first differences between statistics and recount."""
    for difference in index.verify().differences[:5]:
        yield f"verify: {difference}"


def remove(database: Path) -> None:
    """Delete a database of either milvus-lite."""
    if database.is_dir():
        shutil.rmtree(database)
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()
