"""Where the index of a soak is, and its raw rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from rag_bm25 import BM25Index, IndexConfig, QueryExpansion
from rag_bm25.errors import IndexNotFoundError
from rag_bm25.statistics.log.generation import generation_in_force
from rag_bm25.store.memory import MemoryStore
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.milvus.schema import name_generation
from rag_bm25.store.protocol import Store

CONFIG = IndexConfig(chunk_size=150, length_unit="characters", k3=None, expansion=QueryExpansion(numerals=False))
CONNECTING = 5  # attempts


class Place(Protocol):
    """Location of an index."""

    @property
    def shared(self) -> bool:
        """Whether several processes may have it open."""
        ...

    def open(self) -> BM25Index: ...

    def store(self) -> Store:
        """Open the store of the first generation."""
        ...

    def sizes(self, generation: int) -> dict[str, int]:
        """Measure the log of a generation, and the disk; the index must be closed."""
        ...

    def rows(self, generation: int) -> Iterator[dict[str, Any]]:
        """Yield id, namespace, text, length and sparse of each chunk of a generation."""
        ...


@dataclass(frozen=True)
class MilvusPlace:
    """A file of the embedded engine, or a server."""

    uri: str
    collection: str
    token: str | None = None

    @property
    def shared(self) -> bool:
        return "://" in self.uri

    def open(self) -> BM25Index:
        return _open(partial(BM25Index.open, self.uri, self.collection, token=self.token))

    def store(self) -> Store:
        return MilvusStore(self.uri, self.collection, token=self.token)

    def sizes(self, generation: int) -> dict[str, int]:
        log = name_generation(self.collection, generation) + "_bm25"
        with self._pymilvus(log) as client:
            rows = int(client.query(log, filter="", output_fields=["count(*)"])[0]["count(*)"])
        return {"log rows": rows, "generation": generation, **self._disk()}

    def rows(self, generation: int) -> Iterator[dict[str, Any]]:
        fields = ["id", "namespace", "text", "length", "sparse"]
        collection = name_generation(self.collection, generation)
        with self._pymilvus(collection) as client:
            pages = client.query_iterator(collection, batch_size=1_000, filter="", output_fields=fields)
            while page := pages.next():
                yield from page

    @contextmanager
    def _pymilvus(self, collection: str) -> Iterator[Any]:
        """Connect by pymilvus alone; on a busy machine the engine may start too slowly for one attempt."""
        from pymilvus import MilvusClient, MilvusException

        for left in reversed(range(CONNECTING)):
            try:
                client = MilvusClient(self.uri, token=self.token or "")
                break
            except MilvusException:
                if not left:
                    raise
        try:
            client.load_collection(collection)
            yield client
        finally:
            client.close()

    def _disk(self) -> dict[str, int]:
        path = Path(self.uri)
        files = path.rglob("*") if path.is_dir() else path.parent.glob(f"{path.name}*")
        return {} if self.shared else {"disk kB": sum(file.stat().st_size for file in files) // 1_000}


@dataclass(frozen=True)
class MilvusBefore24(MilvusPlace):
    """A Milvus whose sparse vectors only the tests' client can read."""

    def rows(self, generation: int) -> Iterator[dict[str, Any]]:
        with closing(self.store()) as store, generation_in_force(store) as now:
            assert now.generation == generation
            yield from _rows_of(now)


@dataclass(frozen=True)
class MemoryPlace:
    """Rows in dicts, of this process alone."""

    first: MemoryStore = field(default_factory=MemoryStore)
    shared = False

    def open(self) -> BM25Index:
        return _open(lambda **options: BM25Index.from_store(self.store(), **options))

    def store(self) -> MemoryStore:
        return self.first.reopen()

    def sizes(self, generation: int) -> dict[str, int]:
        with generation_in_force(self.store()) as now:
            return {"log rows": len(now.log_keys()), "generation": generation}

    def rows(self, generation: int) -> Iterator[dict[str, Any]]:
        with generation_in_force(self.store()) as now:
            assert now.generation == generation
            yield from _rows_of(now)


def _open(opening: Callable[..., BM25Index]) -> BM25Index:
    """Open an index with its own settings, which a reindex may have changed, or make it."""
    try:
        return opening()
    except IndexNotFoundError:
        return opening(config=CONFIG)


def _rows_of(store: Store) -> Iterator[dict[str, Any]]:
    for page in store.scan_chunks(contents=True, vectors=True):
        for row in page:
            yield {**vars(row), "sparse": row.vector.to_dict()}
