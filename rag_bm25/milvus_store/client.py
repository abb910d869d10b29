"""The client: pymilvus's own, with sparse vectors as arrays.

pymilvus packs and unpacks them entry by entry, which takes longer than analysing the text they come from. Here a
message is made column by column and sent by the way that pymilvus has for messages made elsewhere; rows are read from
the columns of a reply. Where a version of pymilvus lacks the parts this needs, its own way is taken: slower, the same
rows.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rag_bm25.sparse import SparseVector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["Client", "insert_request", "packed_vector", "pymilvus", "unpacked_vector"]

Entity: TypeAlias = "dict[str, Any]"

ENTRY = np.dtype([("id", "<u4"), ("weight", "<f4")])


def _imported_pymilvus() -> Any:
    """Import the client without MILVUS_URI, which it reads only then, and which stops it where a file is named."""
    hidden = os.environ.pop("MILVUS_URI", None)
    try:
        return importlib.import_module("pymilvus")
    finally:
        if hidden is not None:
            os.environ["MILVUS_URI"] = hidden


pymilvus = _imported_pymilvus()
_MilvusClient: Any = pymilvus.MilvusClient


class Client(_MilvusClient):  # type: ignore[misc]
    """A client that takes sparse vectors as :class:`~rag_bm25.sparse.SparseVector`, and may give them so."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fields: dict[str, set[str]] = {}

    def insert(
        self,
        collection_name: str,
        data: list[Entity],
        timeout: float | None = None,
        **kwargs: Any,
    ) -> Any:
        """Insert entities that all have every field of the collection."""
        if not (_takes_requests() and self._fit(collection_name, data, timeout=timeout, **kwargs)):
            return super().insert(collection_name, [_plain(entity) for entity in data], timeout=timeout, **kwargs)
        return self._get_connection().batch_insert(
            collection_name,
            [],
            timeout=timeout,
            context=self._generate_call_context(**kwargs),
            insert_param=insert_request(collection_name, data),
            schema={"fields": []},  # what a request made elsewhere is not checked against
            **kwargs,
        )

    def query(self, *args: Any, **kwargs: Any) -> list[Entity]:
        """Return the rows that fit."""
        return _rows(super().query(*args, **kwargs))

    def start_import(self, collection_name: str, path: str, timeout: float | None = None, **kwargs: Any) -> int:
        """Have the server read a file of its object storage; return the number of the job."""
        context = self._generate_call_context(**kwargs)
        job: int = self._get_connection().do_bulk_insert(collection_name, "", [path], timeout=timeout, context=context)
        return job

    def import_state(self, job: int, timeout: float | None = None, **kwargs: Any) -> Any:
        """Return how far a job has come."""
        context = self._generate_call_context(**kwargs)
        return self._get_connection().get_bulk_insert_state(job, timeout=timeout, context=context)

    def list_imports(self, collection_name: str, timeout: float | None = None, **kwargs: Any) -> list[Any]:
        """Return how far each job of a collection has come."""
        context = self._generate_call_context(**kwargs)
        states: list[Any] = self._get_connection().list_bulk_insert_tasks(
            0, collection_name, timeout=timeout, context=context
        )
        return states

    def drop_collection(self, collection_name: str, *args: Any, **kwargs: Any) -> None:
        """Drop a collection, and forget its fields: the next one of the name may have others."""
        self._fields.pop(collection_name, None)
        super().drop_collection(collection_name, *args, **kwargs)

    def _fit(self, collection: str, entities: Sequence[Entity], **options: Any) -> bool:
        """Tell whether the engine can take the entities as they are; else pymilvus says what is wrong with them.

        milvus-lite 2.5 dies of a column that is too short.
        """
        if collection not in self._fields:
            described = self.describe_collection(collection, **options)["fields"]
            self._fields[collection] = {field["name"] for field in described}
        fits = all(entity.keys() == self._fields[collection] for entity in entities)
        if not fits:
            del self._fields[collection]
        return fits


def insert_request(collection: str, entities: Sequence[Entity]) -> Any:
    """Make the message that inserts entities.

    Parameters
    ----------
    collection : str
        Where they go.
    entities : sequence of dict
        One or more, all with the same fields. The type of a value says that of its field: str is VARCHAR, int is INT64,
        dict is JSON, SparseVector is SPARSE_FLOAT_VECTOR, ndarray of float32 is FLOAT_VECTOR.

    Returns
    -------
    InsertRequest
        What pymilvus would have made of them.
    """
    from pymilvus.grpc_gen import milvus_pb2

    request = milvus_pb2.InsertRequest(collection_name=collection, num_rows=len(entities))
    for name, first in entities[0].items():
        column = request.fields_data.add(field_name=name)
        FILLERS[type(first)](column, [entity[name] for entity in entities])
    return request


def packed_vector(vector: SparseVector) -> bytes:
    """Write a sparse vector as Milvus has it in messages: ids and weights by turns, four bytes each."""
    entries = np.empty(len(vector), ENTRY)
    entries["id"], entries["weight"] = vector.ids, vector.values
    return entries.tobytes()


def unpacked_vector(packed: bytes) -> SparseVector:
    """Read what :func:`packed_vector` has written, or another program, in whatever order."""
    entries = np.frombuffer(packed, ENTRY)
    ids, weights = entries["id"].astype(np.uint32), entries["weight"].astype(np.float32)
    if (ids[1:] > ids[:-1]).all():
        return SparseVector(ids, weights)
    return SparseVector.from_dict(dict(zip(ids.tolist(), weights.tolist(), strict=True)))


def _fill_strings(column: Any, values: list[str]) -> None:
    column.type = pymilvus.DataType.VARCHAR
    column.scalars.string_data.data.extend(values)


def _fill_integers(column: Any, values: list[int]) -> None:
    column.type = pymilvus.DataType.INT64
    column.scalars.long_data.data.extend(values)


def _fill_json(column: Any, values: list[Any]) -> None:
    column.type = pymilvus.DataType.JSON
    column.scalars.json_data.data.extend(
        json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() for value in values
    )


def _fill_sparse(column: Any, values: list[SparseVector]) -> None:
    column.type = pymilvus.DataType.SPARSE_FLOAT_VECTOR
    column.vectors.sparse_float_vector.contents.extend(map(packed_vector, values))


def _fill_dense(column: Any, values: list[NDArray[np.float32]]) -> None:
    column.type = pymilvus.DataType.FLOAT_VECTOR
    column.vectors.dim = len(values[0])
    column.vectors.float_vector.data.extend(np.concatenate(values))


FILLERS: dict[type, Callable[[Any, list[Any]], None]] = {
    str: _fill_strings,
    int: _fill_integers,
    dict: _fill_json,
    SparseVector: _fill_sparse,
    np.ndarray: _fill_dense,
}


def _plain(entity: Entity) -> Entity:
    """Return an entity as pymilvus takes it."""
    return {name: value.to_dict() if isinstance(value, SparseVector) else value for name, value in entity.items()}


def _rows(found: Sequence[Entity]) -> list[Entity]:
    """Return the rows of a reply, with the sparse vectors read from its columns where pymilvus has left them there."""
    lazy: list[Any] = getattr(found, "_lazy_field_data", [])
    columns = [column for column in lazy if _is_plain_sparse(column, len(found))]
    for column in columns:
        lazy.remove(column)
    rows = list(found)
    for column in columns:
        for row, packed in zip(rows, column.vectors.sparse_float_vector.contents, strict=True):
            row[column.field_name] = unpacked_vector(packed)
    return rows


def _is_plain_sparse(column: Any, rows: int) -> bool:
    """Tell sparse vectors none of which is null."""
    is_sparse = column.type == pymilvus.DataType.SPARSE_FLOAT_VECTOR
    return is_sparse and len(column.vectors.sparse_float_vector.contents) == rows


@functools.cache
def _takes_requests() -> bool:
    """Tell whether this pymilvus sends a message as it was made elsewhere, by trying all but the sending."""
    try:
        from pymilvus.client.grpc_handler import GrpcHandler

        request = insert_request(
            "", [{"text": "", "number": 1, "json": {}, "vector": SparseVector.from_dict({1: 1.0})}]
        )
        prepare = GrpcHandler._prepare_batch_insert_request  # noqa: SLF001
        return prepare(None, "", [], insert_param=request, schema={"fields": []}) is request
    except Exception:  # noqa: BLE001  # whatever is missing, there is another way
        return False
