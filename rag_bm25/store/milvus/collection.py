"""One Milvus collection: create it, check its fields, insert, delete and page through its rows."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rag_bm25.errors import IndexGoneError, StoreError
from rag_bm25.store.milvus.limits import DENIED, MAX_ROWS, MESSAGE_BYTES, ReplyTooLargeError
from rag_bm25.store.milvus.schema import DENSE, check_fields, entity_bytes, vector_fields
from rag_bm25.store.storage import DEFAULT_STORAGE, sparse_params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rag_bm25.store.milvus.engine import Engine
    from rag_bm25.store.milvus.handle import EngineHandle
    from rag_bm25.store.rows import ConsistencyLevel, DenseField
    from rag_bm25.store.storage import StorageOptions

T = TypeVar("T")
U = TypeVar("U")

PAGE = 1000
MAKING_SECONDS = 2.0
HOPELESS = re.compile(rf"{DENIED}|database\S* not found")  # nobody else makes it, either
MISSING = re.compile(r"(?i)collection\b.*\bnot (found|exist)")
STRONG: ConsistencyLevel = "Strong"  # of everything but searches
# The client leaves the level of such a query to the collection, whatever it is told: hence it is created Strong.
IN_KEY_ORDER = {"iterator": "True", "reduce_stop_for_best": "True"}
SPARSE_METRIC = "IP"
SPARSE_INDEX = "SPARSE_INVERTED_INDEX"
MMAP = "mmap.enabled"


class Collection:
    """A collection of an engine; the first of the fields that are read is always its key."""

    def __init__(self, handle: EngineHandle, name: str) -> None:
        self._handle = handle
        self.name = name
        self.is_prepared = False  # for reading and writing; else the first call does that

    @property
    def engine(self) -> Engine:
        """The engine, while the store is open."""
        return self._handle.engine

    def prepare(self) -> Engine:
        """Make the collection ready, once."""
        if not self.is_prepared:
            with self._telling_loss():
                self.engine.prepare(self.name)
            self.is_prepared = True
        return self.engine

    def read(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of the client that reads from the collection."""
        with self._telling_loss():
            return self.engine.read(method, self.name, *args, **options)

    def write(self, method: str, *args: Any, **options: Any) -> None:
        """Call a method of the client that changes the collection."""
        with self._telling_loss():
            self._handle.writable().write(method, self.name, *args, **options)

    @contextmanager
    def _telling_loss(self) -> Iterator[None]:
        """Name the index where the engine says, in its own terms, that the collection is not there."""
        try:
            yield
        except StoreError as error:
            if not MISSING.search(str(error)) or self.exists():
                raise
            raise IndexGoneError(f"{self._handle.name} was dropped while it was open: open it anew") from error

    def exists(self) -> bool:
        return bool(self.engine.read("has_collection", self.name))

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = self.read("describe_collection")
        return described

    def describe_fields(self) -> list[dict[str, Any]]:
        """Describe the fields; an alias is refused, since the two collections of an index have one name."""
        described = self.describe()
        if (real := described["collection_name"]) != self.name:
            raise StoreError(f"{self.name} at {self.engine.place} is an alias of {real}: open {real}")
        fields: list[dict[str, Any]] = described["fields"]
        return fields

    def index_names(self) -> list[str]:
        names: list[str] = self.read("list_indexes")
        return names

    def describe_storage(self, field: str) -> dict[str, Any]:
        """Return the storage options that the engine says the collection has, with the index of a sparse field."""
        collection = self.describe()
        index = self.read("describe_index", field) or {}
        stored = {**collection.get("properties", {}), **index.get("params", {}), **index}
        names = ("index_type", "inverted_index_algo", "quant_type")
        return {
            "shards": collection.get("num_shards") or None,  # 0 for an engine without any
            "mmap": str(stored[MMAP]).lower() == "true" if MMAP in stored else None,
            **{name: stored[name] for name in names if name in stored},
        }

    def find_fields(self) -> list[dict[str, Any]]:
        """Return the fields of the collection, none if it does not exist."""
        return self.describe_fields() if self.exists() else []

    def is_complete(self, fields: Mapping[str, Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether the collection, as found, has its indexes; other fields are a ``FormatError``."""
        if not found:
            return False
        check_fields(self.name, fields, found)
        return set(vector_fields(fields)) <= set(self.index_names())

    def complete(
        self,
        fields: Mapping[str, Mapping[str, Any]],
        dense: DenseField | None = None,
        storage: StorageOptions = DEFAULT_STORAGE,
    ) -> None:
        """Create the collection and its indexes, as far as they are missing."""
        if self.is_complete(fields, self.find_fields()):
            return
        engine = self._handle.writable()
        engine.check_collection(self.name)
        if not self.exists():
            schema = engine.client.make_schema(fields, partition_key="namespace" if engine.partition_key else None)
            options = {"schema": schema, "consistency_level": STRONG, **_collection_options(storage)}
            self._make(self.exists, "create_collection", **options)
        kinds = {DENSE: {"index_type": engine.dense_index, "metric_type": dense.metric}} if dense else {}
        sparse = _sparse_index(storage)
        indexed = self.index_names()  # milvus-lite 3 refuses to make one twice
        for name in (name for name in vector_fields(fields) if name not in indexed):
            index = engine.client.prepare_index_params()
            index.add_index(name, index_name=name, **kinds.get(name, sparse))
            self._make(partial(self._is_indexed, name), "create_index", index_params=index, sync=False)

    def drop(self) -> None:
        """Drop the collection; a missing one is ignored."""
        self._handle.writable().write("drop_collection", self.name)
        self.is_prepared = False

    def insert(self, entities: Iterable[dict[str, Any]]) -> None:
        """Insert entities, in as few messages as the engine takes."""
        self._handle.writable()
        engine = self.prepare()
        for message in split_messages(entities, engine.dense_bytes):
            self.write("insert", message)
            engine.after_write(self.name, len(message))

    def delete(self, keys: Sequence[str]) -> None:
        self._handle.writable()
        engine = self.prepare()
        for page in pages(keys, PAGE):
            self.write("delete", ids=list(page))
            engine.after_write(self.name, 0)

    def num_rows(self) -> int | None:
        """Return the number of rows, if the engine knows it without loading them; else None."""
        with self._telling_loss():
            return self.engine.num_rows(self.name)

    def query(self, clause: str, output: Sequence[str], **options: Any) -> list[dict[str, Any]]:
        """Read the rows that are stored now, those of other writers too."""
        self.prepare()
        found: list[dict[str, Any]] = self.read(
            "query", filter=clause, output_fields=list(output), consistency_level=STRONG, **options
        )
        return found

    def count(self, clause: str = "") -> int:
        return int(self.query(clause, ["count(*)"])[0]["count(*)"])

    def get(self, keys: Iterable[str], output: Sequence[str], page: int | None = None) -> list[dict[str, Any]]:
        """Read rows by key, each key once, page by page."""
        found: dict[str, dict[str, Any]] = {}
        for some in pages(list(dict.fromkeys(keys)), page or self.engine.keys_per_query):
            rows = in_halves(lambda some: self.query(self.engine.dialect.any_of(output[0], some), output), some)
            found.update((entity[output[0]], entity) for entity in rows)
        return list(found.values())

    def keys(self, clause: str, key: str) -> list[str]:
        """Read the keys of all rows that fit: at once, where one reply has room for all of them.

        A server answers each strongly consistent query only after its next tick, and an iterator asks at least twice.
        """
        found = self.query(clause or f'{key} > ""', [key], limit=MAX_ROWS)
        if len(found) == MAX_ROWS:
            found = [entity for page in self.scan(clause, [key], MAX_ROWS) for entity in page]
        return [entity[key] for entity in found]

    def doubled_keys(self, key: str) -> list[str]:
        """Return the keys that several rows have; read as rows, they are one."""
        keys = self.keys("", key)
        if self.count() <= len(keys):
            return []
        return [each for page in pages(keys, PAGE) for each in self._doubled_among(key, page)]

    def _doubled_among(self, key: str, keys: Sequence[str]) -> list[str]:
        if self.count(self.engine.dialect.any_of(key, keys)) <= len(keys):
            return []
        if len(keys) == 1:
            return list(keys)
        middle = len(keys) // 2
        return [each for half in (keys[:middle], keys[middle:]) for each in self._doubled_among(key, half)]

    def scan(self, clause: str, output: Sequence[str], page: int = PAGE) -> Iterator[list[dict[str, Any]]]:
        """Read every row that fits, in the order of the keys."""
        key, last = output[0], ""
        while True:
            rest = f"{key} > {self.engine.dialect.quote(last)}"
            try:
                found = self.query(f"({clause}) and {rest}" if clause else rest, output, limit=page, **IN_KEY_ORDER)
            except ReplyTooLargeError:
                if page == 1:
                    raise
                page //= 2
                continue
            if not found:
                return
            yield found
            last = found[-1][key]

    def _is_indexed(self, field: str) -> bool:
        return field in self.index_names()

    def _make(self, is_made: Callable[[], bool], method: str, **options: Any) -> None:
        """Make a collection or an index, unless another process of several that begin together does."""
        engine = self.engine
        try:
            engine.write(method, self.name, **options)
        except StoreError as error:
            is_alone = engine.exclusive or HOPELESS.search(str(error))
            end = time.monotonic() + (0 if is_alone else MAKING_SECONDS)  # it may have begun just before
            while not is_made():
                if time.monotonic() >= end:
                    raise
                time.sleep(0.05)


def _collection_options(storage: StorageOptions) -> dict[str, Any]:
    """Write storage options as those of a new collection."""
    options: dict[str, Any] = {"num_shards": storage.shards or 1}
    return options if storage.mmap is None else {**options, "properties": {MMAP: _switch(storage.mmap)}}


def _sparse_index(storage: StorageOptions) -> dict[str, Any]:
    """Write storage options as those of an index of sparse vectors."""
    params = sparse_params(storage)
    if storage.mmap is not None:  # what the index is told goes before what the collection is told
        params[MMAP] = _switch(storage.mmap)
    kind = {"index_type": storage.index_type or SPARSE_INDEX, "metric_type": SPARSE_METRIC}
    return {**kind, "params": params} if params else kind


def _switch(value: bool) -> str:
    return str(value).lower()


def in_halves(ask: Callable[[Sequence[T]], list[U]], items: Sequence[T]) -> list[U]:
    """Ask the engine about some items, and about each half of them where its reply would be too large."""
    try:
        return ask(items)
    except ReplyTooLargeError:
        if len(items) == 1:
            raise
    middle = len(items) // 2
    return [*in_halves(ask, items[:middle]), *in_halves(ask, items[middle:])]


def pages(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut a sequence into pages."""
    return (items[start : start + size] for start in range(0, len(items), size))


def split_messages(entities: Iterable[dict[str, Any]], dense_bytes: int) -> Iterator[list[dict[str, Any]]]:
    """Cut entities into messages that the engine takes, and takes fast."""
    message: list[dict[str, Any]] = []
    size = dense = 0
    for entity in entities:
        more, more_dense = entity_bytes(entity), getattr(entity.get(DENSE), "nbytes", 0)
        if message and (size + more > MESSAGE_BYTES or dense + more_dense > dense_bytes):
            yield message
            message, size, dense = [], 0, 0
        message.append(entity)
        size, dense = size + more, dense + more_dense
    if message:
        yield message
