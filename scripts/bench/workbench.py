"""Sizes, texts, queries and indexes that the topics share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from bench.corpus import SIZE, Generator, queries_from, real_chunks
from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.store.milvus.connection import Connection
from rag_bm25.store.milvus.opening import open_engine, release_engine

BATCH = 1_000
K = 10
NAME = "docs"
CONFIG = IndexConfig(chunk_size=SIZE)


@dataclass(frozen=True)
class Effort:
    """Amounts to measure; QUICK only sees that the suite works."""

    repeats: int = 3  # of what takes seconds; where it takes minutes, once
    repeated_up_to: int = 10_000  # chunks
    rounds: int = 5
    queries: int = 550  # all rounds together, and a tenth to warm up
    batch: int = 100  # queries
    seconds: float = 8.0  # of searching while others work
    added: int = BATCH
    adds: int = 9
    terms: int = 1_000_000  # of the index that is opened
    openings: int = 5
    other_engines_up_to: int = 10_000  # chunks
    other_queries: int = 220


QUICK = Effort(
    repeats=1,
    rounds=2,
    queries=22,
    other_queries=22,
    batch=5,
    seconds=0.1,
    added=50,
    adds=2,
    terms=5_000,
    openings=1,
)


@dataclass
class Bench:
    """Sizes, texts, queries and indexes, made on first use."""

    folder: Path  # of databases and files, deleted afterwards
    sizes: Sequence[int]  # in chunks
    effort: Effort = field(default_factory=Effort)
    seed: int = 1
    files: Sequence[Path] = ()  # JSON lines with "text", used for sizes that they suffice for
    peers_python: str = ""  # interpreter with milvus-lite 3 and perhaps langchain-milvus
    peers_versions: dict[str, str] = field(default_factory=dict)
    _texts: dict[int, list[str]] = field(default_factory=dict)
    _indexes: dict[int, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._generator = Generator(self.seed)

    @property
    def data(self) -> str:
        """Describe the source of the texts."""
        names = ", ".join(path.name for path in self.files)
        generated = f"text generated with seed {self.seed}"
        return f"text of {names} for as many chunks as it has, else {generated}" if names else generated

    def repeats(self, size: int) -> int:
        """Return the number of repetitions for a number of chunks."""
        return self.effort.repeats if size <= self.effort.repeated_up_to else 1

    def texts(self, size: int) -> list[str]:
        """Return chunks of the corpus if it has enough, otherwise generated ones."""
        if size not in self._texts:
            real = list(islice(real_chunks(self.files), size))
            self._texts[size] = real if len(real) == size else list(self._generator.chunks(size))
        return self._texts[size]

    def more_texts(self, number: int, part: int = 1) -> list[str]:
        """Return generated chunks that no index holds."""
        return list(self._generator.chunks(number, part))

    def queries(self, size: int, number: int) -> list[str]:
        return queries_from(self.texts(size), number, self.seed)

    def child_environment(self) -> dict[str, str]:
        """Return environment variables under which a child process imports the suite and the package."""
        scripts = Path(__file__).resolve().parents[1]
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(scripts), str(scripts.parent)])}

    def index(self, size: int) -> Path:
        """Return the database of an index of this size; topics may have added a few thousand chunks."""
        if size not in self._indexes:
            path = self.folder / f"{size}.db"
            with BM25Index.open(path, NAME, config=CONFIG) as index:
                index.add(self.texts(size), ids=[str(at) for at in range(size)], assume_new=True)
            self._indexes[size] = path
        return self._indexes[size]


class Opened:
    """An open index and the plain client of its engine."""

    def __init__(self, path: Path, **options: Any) -> None:
        self._engine = open_engine(Connection(path), read_only=False)
        self.client = self._engine.client
        self.engine: str = self._engine.dialect.engine
        self.index = BM25Index.open(path, NAME, **options)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.index.close()
        release_engine(self._engine)


def batches(items: Sequence[Any], size: int = BATCH) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
