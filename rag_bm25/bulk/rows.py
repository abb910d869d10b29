"""Rows as columns of Parquet files, in the form that Milvus's bulk import reads.

A sparse vector is a struct of two lists, ``indices`` and ``values``, which Milvus reads from 2.5.8 on; metadata is
JSON.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.bulk.files import arrow, parquet
from rag_bm25.sparse import SparseBatch
from rag_bm25.store import ChunkRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["read_groups", "read_pks", "rows_of", "rows_table", "rows_writer", "sparse_batch", "sparse_column"]

SHORT = 16  # hex digits of a primary key that are 64 bits


def rows_writer(path: Path, dense_dim: int | None) -> Any:
    """Open a file for rows.

    Parameters
    ----------
    path : Path
        Where to.
    dense_dim : int or None
        Dimension of the dense vectors, None where there are none.

    Returns
    -------
    pyarrow.parquet.ParquetWriter
        To be closed.
    """
    return parquet().ParquetWriter(path, _rows_schema(dense_dim), use_dictionary=["namespace", "batch"])


def rows_table(rows: Sequence[ChunkRow], vectors: SparseBatch, dense_dim: int | None) -> Any:
    """Return rows as columns.

    Parameters
    ----------
    rows : sequence of ChunkRow
        Their sparse vectors are not looked at.
    vectors : SparseBatch
        The sparse vectors, a row each.
    dense_dim : int or None
        Dimension of the dense vectors, None where there are none.

    Returns
    -------
    pyarrow.Table
        For the writer of :func:`rows_writer`.
    """
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
    """Return sparse vectors as Milvus reads them.

    Parameters
    ----------
    vectors : SparseBatch
        A row each.

    Returns
    -------
    pyarrow.StructArray
        Of two lists, ``indices`` and ``values``.
    """
    pa = arrow()
    starts = vectors.indptr.astype(np.int32)  # a batch is far below 2**31 entries
    lists = [pa.ListArray.from_arrays(starts, flat) for flat in (vectors.ids, vectors.values)]
    return pa.StructArray.from_arrays(lists, names=["indices", "values"])


def sparse_batch(table: Any) -> SparseBatch:
    """Return the sparse vectors of a table of rows.

    Parameters
    ----------
    table : pyarrow.Table
        With the column ``sparse``.

    Returns
    -------
    SparseBatch
        A row each.
    """
    column = table.column("sparse").combine_chunks()
    indices, values = (column.field(name) for name in ("indices", "values"))
    starts = indices.offsets.to_numpy().astype(np.int64)
    return SparseBatch(starts - starts[0], indices.flatten().to_numpy(), values.flatten().to_numpy())


def read_groups(path: Path) -> Iterator[Any]:
    """Read the rows of a file, as they were written: batch by batch.

    Parameters
    ----------
    path : Path
        A file that is sound.

    Yields
    ------
    pyarrow.Table
        At most 1,000 rows.
    """
    with parquet().ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group)


def rows_of(table: Any) -> list[ChunkRow]:
    """Return rows from columns.

    Parameters
    ----------
    table : pyarrow.Table
        As made by :func:`rows_table`.

    Returns
    -------
    list of ChunkRow
        With all that they have.
    """
    names = ("pk", "id", "namespace", "length", "batch", "text")
    columns = [table.column(name).to_pylist() for name in names]
    metadatas = map(json.loads, table.column("metadata").to_pylist())
    return list(map(ChunkRow, *columns, metadatas, sparse_batch(table), _dense_rows(table)))


def read_pks(path: Path) -> NDArray[np.uint64]:
    """Read 64 bits of the primary key of each row, and no other column.

    Parameters
    ----------
    path : Path
        A file with rows.

    Returns
    -------
    ndarray of uint64, shape (n_rows,)
        In the order of the rows.
    """
    with parquet().ParquetFile(path) as file:
        keys = file.read(columns=["pk"]).column("pk").to_pylist()
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
