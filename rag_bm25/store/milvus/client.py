"""pymilvus's client, with sparse vectors as arrays.

It sends the messages that :mod:`rag_bm25.store.milvus.messages` makes, and reads replies from their columns. If a
version of pymilvus lacks what this needs, its own methods are used: they are slower and give the same rows.
"""

from __future__ import annotations

import functools
import importlib
import os
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np

from rag_bm25.store.milvus.messages import insert_request, search_hits, search_request, unpack_vector
from rag_bm25.vectors.sparse import SparseVector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rag_bm25.store.milvus.messages import Entity


def _import_pymilvus() -> Any:
    """Import pymilvus without MILVUS_URI, which it reads on import and which must not name a file."""
    hidden = os.environ.pop("MILVUS_URI", None)
    try:
        with _no_dotenv():
            return importlib.import_module("pymilvus")
    finally:
        if hidden is not None:
            os.environ["MILVUS_URI"] = hidden


@contextmanager
def _no_dotenv() -> Iterator[None]:
    """Have `load_dotenv` do nothing in this thread: pymilvus calls it on import, and a .env above may be anyone's."""
    try:
        dotenv: Any = importlib.import_module("dotenv")
    except ImportError:  # then pymilvus does without
        yield
        return
    load, thread = dotenv.load_dotenv, get_ident()
    dotenv.load_dotenv = lambda *args, **kwargs: get_ident() != thread and load(*args, **kwargs)
    try:
        yield
    finally:
        dotenv.load_dotenv = load


pymilvus = _import_pymilvus()
_MilvusClient: Any = pymilvus.MilvusClient


class Client(_MilvusClient):  # type: ignore[misc]
    """A client that takes sparse vectors as :class:`SparseVector`, and may return them so."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fields: dict[str, set[str]] = {}
        _give_up_lost_calls(self._get_connection())

    def insert(
        self,
        collection_name: str,
        data: list[Entity],
        timeout: float | None = None,
        **kwargs: Any,
    ) -> Any:
        """Insert entities, each with every field of the collection."""
        if not (_takes_requests() and self._fit(collection_name, data, timeout=timeout, **kwargs)):
            return super().insert(collection_name, [_plain(entity) for entity in data], timeout=timeout, **kwargs)
        return self._get_connection().batch_insert(
            collection_name,
            [],
            timeout=timeout,
            context=self._generate_call_context(**kwargs),
            insert_param=insert_request(collection_name, data),
            schema={"fields": []},  # pymilvus does not check a finished request against it
            **kwargs,
        )

    def query(self, *args: Any, **kwargs: Any) -> list[Entity]:
        return _rows(super().query(*args, **kwargs))

    def search(
        self,
        collection_name: str,
        data: Sequence[Any],
        *,
        timeout: float | None = None,
        consistency_level: str | None = None,
        retry_times: int | None = None,
        **asked: Any,
    ) -> Any:
        """Return the hits of each vector; `asked` goes to ``search_request``."""
        call = {"timeout": timeout, "consistency_level": consistency_level, "retry_times": retry_times}
        if not (_sender() and _are_arrays(data)):
            return super().search(collection_name, _plain_vectors(data), **asked, **call)
        request = partial(search_request, collection_name, data, **asked)
        context = self._generate_call_context(**call)
        return _sender()(self._get_connection(), collection_name, request, context=context, **call)

    def make_schema(self, fields: Mapping[str, Mapping[str, Any]], *, partition_key: str | None) -> Any:
        schema = self.create_schema(auto_id=False)
        for name, field in fields.items():
            datatype = pymilvus.DataType[field["datatype"]]
            schema.add_field(name, **{**field, "datatype": datatype}, is_partition_key=name == partition_key)
        return schema

    def drop_collection(self, collection_name: str, *args: Any, **kwargs: Any) -> None:
        self._fields.pop(collection_name, None)  # the next collection of the name may have others
        super().drop_collection(collection_name, *args, **kwargs)

    def _fit(self, collection: str, entities: Sequence[Entity], **options: Any) -> bool:
        """Return whether all entities have the fields of the collection; else pymilvus raises the error.

        milvus-lite 2.5 dies of a column that is too short.
        """
        if collection not in self._fields:
            described = self.describe_collection(collection, **options)["fields"]
            self._fields[collection] = {field["name"] for field in described}
        fits = all(entity.keys() == self._fields[collection] for entity in entities)
        if not fits:
            del self._fields[collection]
        return fits


def _give_up_lost_calls(connection: Any) -> None:
    """Let a lost call fail; pymilvus would repeat it, writes as well, for as long as a call may take.

    It still connects again before the call fails, and repeats calls that a server refused for its rate limit.
    """
    recover = getattr(connection, "_on_rpc_error", lambda _: False)

    def give_up(error: Exception) -> bool:
        recovered: bool = recover(error)
        if isinstance(error, grpc.RpcError):
            raise error
        return recovered

    connection._on_rpc_error = give_up  # noqa: SLF001


def _plain(entity: Entity) -> Entity:
    return {name: value.to_dict() if isinstance(value, SparseVector) else value for name, value in entity.items()}


def _are_arrays(vectors: Sequence[Any]) -> bool:
    return all(isinstance(vector, SparseVector | np.ndarray) for vector in vectors)


def _plain_vectors(vectors: Sequence[Any]) -> list[Any]:
    return [vector.to_dict() if isinstance(vector, SparseVector) else vector for vector in vectors]


def _rows(found: Sequence[Entity]) -> list[Entity]:
    """Return the rows of a reply; unpack the sparse vectors that pymilvus has left in its columns."""
    lazy: list[Any] = getattr(found, "_lazy_field_data", [])
    columns = [column for column in lazy if _is_plain_sparse(column, len(found))]
    for column in columns:
        lazy.remove(column)
    rows = list(found)
    for column in columns:
        for row, packed in zip(rows, column.vectors.sparse_float_vector.contents, strict=True):
            row[column.field_name] = unpack_vector(packed)
    return rows


def _is_plain_sparse(column: Any, rows: int) -> bool:
    is_sparse = column.type == pymilvus.DataType.SPARSE_FLOAT_VECTOR
    return is_sparse and len(column.vectors.sparse_float_vector.contents) == rows


@functools.cache
def _takes_requests() -> bool:
    """Return whether this pymilvus sends a finished message, by trying all but the sending."""
    try:
        from pymilvus.client.grpc_handler import GrpcHandler

        request = insert_request(
            "", [{"text": "", "number": 1, "json": {}, "vector": SparseVector.from_dict({1: 1.0})}]
        )
        prepare = GrpcHandler._prepare_batch_insert_request  # noqa: SLF001
        return prepare(None, "", [], insert_param=request, schema={"fields": []}) is request
    except Exception:  # noqa: BLE001  # whatever is missing, pymilvus has another way
        return False


@functools.cache
def _sender() -> Any:
    """Return the function that sends a finished search and reads its reply; None if this pymilvus lacks a part."""
    try:
        send = _make_sender()
        from pymilvus.client.call_context import CallContext
        from pymilvus.grpc_gen import milvus_pb2

        vector, params = SparseVector.from_dict({1: 1.0}), {"metric_type": "IP"}
        request = partial(search_request, "", [vector], anns_field="sparse", search_params=params, limit=1)
        stub = SimpleNamespace(Search=lambda request, **_: milvus_pb2.SearchResults() if request.nq else None)
        connection = SimpleNamespace(_stub=stub, server_address="")
        return send if send(connection, "", request, context=CallContext()) == [] else None
    except Exception:  # noqa: BLE001  # whatever is missing, pymilvus has another way
        return None


def _make_sender() -> Any:
    """Return a function that sends a search with pymilvus's freshness, retries, and errors of the engine."""
    from pymilvus.client.search_result import SearchResult
    from pymilvus.client.ts_utils import construct_guarantee_ts
    from pymilvus.client.utils import check_status
    from pymilvus.decorators import retry_on_rpc_failure

    def search(
        connection: Any,
        collection: str,
        request: Callable[..., Any],
        *,
        context: Any,
        timeout: float | None = None,
        consistency_level: str | None = None,
        **_: Any,
    ) -> Any:
        stamps = {"consistency_level": consistency_level}
        default = construct_guarantee_ts(collection, stamps, connection.server_address, context.get_db_name())
        message = request(use_default_consistency=default, **stamps)
        send = connection._stub.Search  # noqa: SLF001  # the only way to the engine
        reply = send(message, timeout=timeout, metadata=context.to_grpc_metadata())
        check_status(reply.status)
        hits = search_hits(reply.results)
        return SearchResult(reply.results) if hits is None else hits

    return retry_on_rpc_failure()(search)
