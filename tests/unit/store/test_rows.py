from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from pymilvus import DataType
from support.rows import ONE

from rag_bm25.errors import FormatError, ParameterError
from rag_bm25.store.milvus.collection import split_messages
from rag_bm25.store.milvus.schema import CHUNK_FIELDS, check_fields, chunk_entity, chunk_fields, chunk_row, entity_bytes
from rag_bm25.store.rows import ChunkRow, DenseField


def row(dense: Any = None) -> ChunkRow:
    return ChunkRow("a", "1", "", 1, "b", "text", {"k": 1}, ONE, dense)


class TestDenseField:
    @pytest.mark.parametrize("dim", [2, 384, 32768])
    def test_dimensions_that_milvus_takes(self, dim: int) -> None:
        assert (DenseField(dim, "COSINE").dim, DenseField(dim, "IP").metric) == (dim, "IP")

    @pytest.mark.parametrize("dim", [1, 0, -1, 32769, 2.0, "384", True, None])
    def test_others_are_refused(self, dim: Any) -> None:
        with pytest.raises(ParameterError, match=rf"dim must be an int in 2\.\.32768, got {dim!r}"):
            DenseField(dim, "IP")

    @pytest.mark.parametrize("metric", ["L2", "cosine", "", None])
    def test_only_metrics_of_which_more_is_better(self, metric: Any) -> None:
        with pytest.raises(ParameterError, match=f"metric must be one of COSINE, IP, got {metric!r}"):
            DenseField(384, metric)


class TestRows:
    def test_rows_with_dense_vectors_can_be_compared(self) -> None:
        assert row(np.ones(3, np.float32)) == row(np.ones(3, np.float32)) == row()

    def test_a_dense_vector_is_handed_on_as_it_is_and_no_vector_is_not(self) -> None:
        dense = np.array([0.1, -0.0, 3e38], np.float32)
        assert chunk_entity(row(dense))["dense"] is dense
        assert "dense" not in chunk_entity(row())

    def test_a_dense_vector_is_read_exactly(self) -> None:
        dense = np.array([0.1, -0.0, 3e38], np.float32)
        read = chunk_row({**chunk_entity(row(dense)), "dense": dense.tolist()}).dense
        assert read is not None
        assert (read.dtype, read.tobytes()) == (np.float32, dense.tobytes())
        assert chunk_row(chunk_entity(row())).dense is None


class TestMessages:
    def test_dense_vectors_count(self) -> None:
        more = entity_bytes(chunk_entity(row(np.ones(1000, np.float32)))) - entity_bytes(chunk_entity(row()))
        assert 4000 <= more < 4100

    def test_messages_are_cut_at_32_mb(self) -> None:
        entity = chunk_entity(row(np.ones(32_768, np.float32)))
        cut = [len(message) for message in split_messages([entity] * 600, 10**9)]
        assert (sum(cut), cut[0]) == (600, 255)  # 32 MB are 256 of the vectors, without the rest of a row

    def test_messages_are_cut_at_the_engine_s_limit(self) -> None:
        entities = [chunk_entity(row(np.ones(dim, np.float32))) for dim in (10, 10, 10, 30, 10)]
        assert [len(message) for message in split_messages(entities, 80)] == [2, 1, 1, 1]
        assert list(split_messages([chunk_entity(row())] * 3, 0)) == [[chunk_entity(row())] * 3]


def described(fields: Mapping[str, Mapping[str, Any]], **more: Any) -> list[dict[str, Any]]:
    """Describe fields as the client does."""
    return [
        {"name": name, "type": DataType[field["datatype"]], "params": {"dim": field.get("dim")}, **more}
        for name, field in fields.items()
    ]


class TestFields:
    def test_nullable_fields_that_somebody_has_added_are_left_alone(self) -> None:
        """A server of 2.6 cannot drop them again."""
        added = {"owner": {"datatype": "VARCHAR"}}
        check_fields("docs", CHUNK_FIELDS, [*described(CHUNK_FIELDS), *described(added, nullable=True)])
        with pytest.raises(FormatError, match=r"differ: owner \(is VARCHAR, must be absent\)$"):
            check_fields("docs", CHUNK_FIELDS, [*described(CHUNK_FIELDS), *described(added)])

    def test_another_dimension_is_named(self) -> None:
        found = described(chunk_fields(None))
        check_fields("docs", chunk_fields(None), found)
        with pytest.raises(FormatError, match=r"differ: dense \(is FLOAT_VECTOR\(8\), must be FLOAT_VECTOR\(16\)\)$"):
            check_fields("docs", chunk_fields(16), [*found, *described({"dense": chunk_fields(8)["dense"]})])
        with pytest.raises(FormatError, match=r"differ: dense \(is missing, must be FLOAT_VECTOR\(16\)\)$"):
            check_fields("docs", chunk_fields(16), found)
