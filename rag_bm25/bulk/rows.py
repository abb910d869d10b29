"""Convert rows to and from Parquet columns that Milvus's bulk import reads.

A sparse vector is a struct of two lists, ``indices`` and ``values`` (Milvus 2.5.8 or later); metadata is JSON.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.bulk.files import arrow, parquet, read_columns
from rag_bm25.store.rows import ChunkRow
from rag_bm25.vectors.sparse import SparseBatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

SHORT = 16  # hex digits: the first 64 bits of a primary key


def rows_writer(path: Path, dense_dim: int | None) -> Any:
    return parquet().ParquetWriter(path, _rows_schema(dense_dim), use_dictionary=["namespace", "batch"])


def rows_table(rows: Sequence[ChunkRow], vectors: SparseBatch, dense_dim: int | None) -> Any:
    pa = arrow()
    columns = {
        "pk": [row.pk for row in rows],
        "id": [row.id for row in rows],
        "namespace": [row.namespace for row in rows],
        "text": [row.text for row in rows],
        "metadata": [json.dumps(row.metadata, ensure_ascii=False, separators=(",", ":")) for row in rows],
        "length": [row.length for row in rows],
        "batch": [row.batch for row in rows],
        "sparse": sparse_column(vectors),
    }
    if dense_dim is not None:
        flat = np.concatenate([row.dense for row in rows if row.dense is not None])
        columns["dense"] = pa.ListArray.from_arrays(np.arange(len(rows) + 1, dtype=np.int32) * dense_dim, flat)
    return pa.table(columns, schema=_rows_schema(dense_dim))


def sparse_column(vectors: SparseBatch) -> Any:
    pa = arrow()
    starts = vectors.indptr.astype(np.int32)  # a batch is far below 2**31 entries
    lists = [pa.ListArray.from_arrays(starts, flat) for flat in (vectors.ids, vectors.values)]
    return pa.StructArray.from_arrays(lists, names=["indices", "values"])


def sparse_batch(table: Any) -> SparseBatch:
    """Read the sparse vectors of a table."""
    column = table.column("sparse").combine_chunks()
    indices, values = (column.field(name) for name in ("indices", "values"))
    starts = indices.offsets.to_numpy().astype(np.int64)
    return SparseBatch(starts - starts[0], indices.flatten().to_numpy(), values.flatten().to_numpy())


def read_groups(path: Path) -> Iterator[Any]:
    """Yield the rows of a file, batch by batch as they were written."""
    with parquet().ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group)


def rows_of(table: Any) -> list[ChunkRow]:
    names = ("pk", "id", "namespace", "length", "batch", "text")
    columns = [table.column(name).to_pylist() for name in names]
    metadatas = map(json.loads, table.column("metadata").to_pylist())
    return list(map(ChunkRow, *columns, metadatas, sparse_batch(table), _dense_rows(table)))


def read_pks(path: Path) -> NDArray[np.uint64]:
    """Read 64 bits of each row's primary key, and no other column."""
    keys = read_columns(path, "pk").column("pk").to_pylist()
    return np.frombuffer(bytes.fromhex("".join(key[:SHORT] for key in keys)), ">u8").astype(np.uint64)


def _dense_rows(table: Any) -> Sequence[NDArray[np.float32] | None]:
    if "dense" not in table.column_names:
        return [None] * len(table)
    flat = table.column("dense").combine_chunks().flatten().to_numpy()
    rows: NDArray[np.float32] = flat.reshape(len(table), -1)
    return list(rows)


def _rows_schema(dense_dim: int | None) -> Any:
    pa = arrow()
    names = ("pk", "id", "namespace", "text", "metadata")
    lists = {"indices": pa.list_(pa.uint32()), "values": pa.list_(pa.float32())}
    dense = [] if dense_dim is None else [("dense", pa.list_(pa.float32()))]
    return pa.schema(
        [
            *((name, pa.string()) for name in names),
            ("length", pa.int64()),
            ("batch", pa.string()),
            ("sparse", pa.struct(lists)),
            *dense,
        ]
    )
