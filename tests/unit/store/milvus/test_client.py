"""Messages made by column are those that pymilvus makes, and vectors are read as they were written."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymilvus import DataType
from pymilvus.client.grpc_handler import GrpcHandler
from pymilvus.client.prepare import Prepare
from pymilvus.client.types import HybridExtraList
from pymilvus.grpc_gen import schema_pb2
from support.strategies import any_terms, metadatas

from rag_bm25.errors import FormatError
from rag_bm25.store.milvus import client
from rag_bm25.store.milvus.messages import insert_request, pack_vector, unpack_vector
from rag_bm25.store.milvus.schema import LOG_FIELDS, as_vector, chunk_entity, chunk_fields, log_entity
from rag_bm25.store.rows import ChunkRow, LogRow
from rag_bm25.vectors.sparse import EMPTY, SparseVector

weights = st.floats(width=32, allow_nan=False, allow_infinity=False)
vectors = st.dictionaries(st.integers(0, 2**32 - 2), weights, min_size=1, max_size=9).map(SparseVector.from_dict)
dense = st.lists(weights, min_size=3, max_size=3).map(lambda values: np.array(values, np.float32))
chunk_rows = st.builds(
    ChunkRow,
    pk=any_terms,
    id=any_terms,
    namespace=any_terms | st.just(""),
    length=st.integers(0, 2**63 - 1),
    batch=any_terms,
    text=any_terms | st.just(""),
    metadata=metadatas,
    vector=vectors,
)
log_rows = st.builds(
    LogRow,
    key=any_terms,
    kind=any_terms,
    meta=metadatas,
    packed=any_terms,
)


def theirs(fields: dict[str, dict[str, Any]], entities: list[dict[str, Any]]) -> Any:
    """The message that pymilvus makes."""
    info = [
        {
            "name": name,
            "type": DataType[field["datatype"]],
            "params": {"dim": field.get("dim"), "max_length": field.get("max_length", 65535)},
            "is_primary": field.get("is_primary", False),
        }
        for name, field in fields.items()
    ]
    return Prepare.row_insert_param("docs", [client._plain(entity) for entity in entities], "", info)


def parts(request: Any) -> tuple[bytes, list[Any]]:
    """A message without its JSON, and the JSON, which may be written in several ways."""
    values = [json.loads(cell) for column in request.fields_data for cell in column.scalars.json_data.data]
    for column in request.fields_data:
        if column.type == DataType.JSON:
            column.scalars.json_data.ClearField("data")
    return request.SerializeToString(deterministic=True), values


class TestInsertRequest:
    @given(st.lists(chunk_rows, min_size=1, max_size=4), st.none() | dense)
    def test_chunks_are_packed_as_by_pymilvus(self, rows: list[ChunkRow], vector: Any) -> None:
        entities = [chunk_entity(row) for row in rows]
        if vector is not None:
            entities = [{**entity, "dense": vector} for entity in entities]
        fields = chunk_fields(None if vector is None else 3)
        assert parts(insert_request("docs", entities)) == parts(theirs(fields, entities))

    @given(st.lists(log_rows, min_size=1, max_size=4))
    def test_log_rows_are_packed_as_by_pymilvus(self, rows: list[LogRow]) -> None:
        entities = [log_entity(row) for row in rows]
        assert parts(insert_request("docs", entities)) == parts(theirs(LOG_FIELDS, entities))


class TestVectors:
    def test_ids_and_weights_take_turns_little_endian(self) -> None:
        vector = SparseVector.from_dict({2**32 - 2: -1.5, 7: 0.1})
        assert pack_vector(vector) == struct.pack("<IfIf", 7, 0.1, 2**32 - 2, -1.5)

    @given(vectors | st.just(EMPTY))
    def test_come_back_bit_for_bit(self, vector: SparseVector) -> None:
        read = unpack_vector(pack_vector(vector))
        assert (read.ids.dtype, read.values.dtype) == (np.uint32, np.float32)
        assert (read.ids.tobytes(), read.values.tobytes()) == (vector.ids.tobytes(), vector.values.tobytes())

    def test_those_of_other_programs_may_be_unsorted(self) -> None:
        assert unpack_vector(struct.pack("<IfIf", 9, 1.0, 7, 2.0)).to_dict() == {7: 2.0, 9: 1.0}

    def test_are_taken_from_either_client(self) -> None:
        vector = SparseVector.from_dict({7: 0.5})
        assert as_vector(vector) is vector
        assert as_vector({9: 1.0, 7: 0.5}).to_dict() == {7: 0.5, 9: 1.0}


class TestReplies:
    def column(self, packed: list[bytes], valid: list[bool]) -> Any:
        column = schema_pb2.FieldData(field_name="sparse", type=DataType.SPARSE_FLOAT_VECTOR, valid_data=valid)
        column.vectors.sparse_float_vector.contents.extend(packed)
        return column

    def test_vectors_are_arrays(self) -> None:
        columns = [self.column([struct.pack("<If", 7, 0.5), struct.pack("<If", 9, 1.0)], [])]
        found = HybridExtraList(columns, [{"pk": "a", "sparse": None}, {"pk": "b", "sparse": None}])
        one, two = SparseVector.from_dict({7: 0.5}), SparseVector.from_dict({9: 1.0})
        assert client._rows(found) == [{"pk": "a", "sparse": one}, {"pk": "b", "sparse": two}]

    def test_columns_with_nulls_are_left_to_pymilvus(self) -> None:
        columns = [self.column([struct.pack("<If", 7, 0.5)], [False, True])]
        found = HybridExtraList(columns, [{"pk": "a", "sparse": None}, {"pk": "b", "sparse": None}])
        assert client._rows(found) == [{"pk": "a", "sparse": None}, {"pk": "b", "sparse": {7: 0.5}}]

    def test_a_vector_of_another_size_is_an_error_of_ours(self) -> None:
        with pytest.raises(FormatError, match="must have 8 bytes for each of its entries, got 7"):
            client.unpack_vector(b"1234567")

    def test_replies_that_pymilvus_has_unpacked_are_left_alone(self) -> None:
        assert client._rows([{"pk": "a", "sparse": {7: 0.5}}]) == [{"pk": "a", "sparse": {7: 0.5}}]


class TestOtherVersions:
    def test_this_one_takes_requests(self) -> None:
        assert client._takes_requests()

    @pytest.mark.parametrize("prepared", [lambda *args, **kwargs: "another", None])
    def test_one_that_does_not_is_noticed(self, prepared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(GrpcHandler, "_prepare_batch_insert_request", prepared)
        assert not client._takes_requests.__wrapped__()
