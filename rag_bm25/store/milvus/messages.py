"""Write Milvus's messages, and read its replies, column by column.

pymilvus packs and unpacks entry by entry. That takes longer than to analyse the texts of the entries, and about as long
as an engine takes for a search.
"""

from __future__ import annotations

import json
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rag_bm25.errors import FormatError
from rag_bm25.vectors.sparse import SparseVector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

Entity: TypeAlias = "dict[str, Any]"
Vector: TypeAlias = "SparseVector | NDArray[np.float32]"

ENTRY = np.dtype([("id", "<u4"), ("weight", "<f4")])
VARCHAR, INT64, JSON, FLOAT_VECTOR, SPARSE_FLOAT_VECTOR = 21, 5, 23, 101, 104  # types of fields, and of placeholders


def pack_vector(vector: SparseVector) -> bytes:
    """Pack a sparse vector for a message: alternating ids and weights, four bytes each."""
    entries = np.empty(len(vector), ENTRY)
    entries["id"], entries["weight"] = vector.ids, vector.values
    return entries.tobytes()


def unpack_vector(packed: bytes) -> SparseVector:
    """Unpack a sparse vector; other programs write the ids in any order."""
    if len(packed) % ENTRY.itemsize:
        msg = f"a sparse vector must have {ENTRY.itemsize} bytes for each of its entries, got {len(packed)}"
        raise FormatError(msg)
    entries = np.frombuffer(packed, ENTRY)
    ids, weights = entries["id"].astype(np.uint32), entries["weight"].astype(np.float32)
    if (ids[1:] > ids[:-1]).all():
        return SparseVector(ids, weights)
    return SparseVector.from_dict(dict(zip(ids.tolist(), weights.tolist(), strict=True)))


def insert_request(collection: str, entities: Sequence[Entity]) -> Any:
    """Make the message that inserts entities, which all have the same fields.

    The type of a value is that of its field: str is VARCHAR, int INT64, dict JSON, SparseVector SPARSE_FLOAT_VECTOR,
    and an ndarray of float32 FLOAT_VECTOR.
    """
    from pymilvus.grpc_gen import milvus_pb2

    request = milvus_pb2.InsertRequest(collection_name=collection, num_rows=len(entities))
    for name, first in entities[0].items():
        datatype, fill = FILLERS[type(first)]
        fill(request.fields_data.add(field_name=name, type=datatype), [entity[name] for entity in entities])
    return request


def search_request(
    collection: str,
    vectors: Sequence[Vector],
    *,
    anns_field: str,
    search_params: Mapping[str, Any],
    limit: int,
    filter: str = "",
    output_fields: Sequence[str] = (),
    **stamps: Any,
) -> Any:
    """Make the message that searches for vectors, all of one kind; `stamps` say how fresh the rows must be."""
    from pymilvus.grpc_gen import milvus_pb2
    from pymilvus.grpc_gen.common_pb2 import DslType

    params = {
        "topk": limit,
        "round_decimal": -1,
        "ignore_growing": search_params.get("ignore_growing", False),
        "metric_type": search_params["metric_type"],
        "anns_field": anns_field,
        **{name: search_params[name] for name in ("hints",) if name in search_params},
        "params": _json(dict(search_params)),
    }
    return milvus_pb2.SearchRequest(
        collection_name=collection,
        dsl=filter,
        dsl_type=DslType.BoolExprV1,
        nq=len(vectors),
        placeholder_group=_placeholders(vectors),
        output_fields=output_fields,
        search_params=_pairs(params),
        **stamps,
    )


def search_hits(results: Any) -> list[list[Entity]] | None:
    """Read the hits of each vector from the columns of a reply; None where :func:`_cells` cannot read one."""
    scores = list(results.scores)
    columns = {column.field_name: _cells(column, len(scores)) for column in results.fields_data}
    if None in columns.values():
        return None
    rows = zip(*columns.values(), strict=True) if columns else iter([()] * len(scores))
    hits = [{"distance": score, "entity": dict(zip(columns, row))} for score, row in zip(scores, rows)]  # noqa: B905
    ends = accumulate(results.topks)
    return [hits[end - count : end] for count, end in zip(results.topks, ends, strict=True)]


def _placeholders(vectors: Sequence[Vector]) -> bytes:
    from pymilvus.grpc_gen.common_pb2 import PlaceholderGroup, PlaceholderValue

    is_sparse = isinstance(vectors[0], SparseVector)
    values = [pack_vector(each) if isinstance(each, SparseVector) else each.tobytes() for each in vectors]
    kind = SPARSE_FLOAT_VECTOR if is_sparse else FLOAT_VECTOR
    group: bytes = PlaceholderGroup(
        placeholders=[PlaceholderValue(tag="$0", type=kind, values=values)]
    ).SerializeToString()
    return group


def _pairs(values: Mapping[str, Any]) -> list[Any]:
    from pymilvus.grpc_gen.common_pb2 import KeyValuePair

    return [KeyValuePair(key=key, value=str(value)) for key, value in values.items()]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cells(column: Any, rows: int) -> list[Any] | None:
    """Read a column of a type in `READERS`; None if it has nulls, dynamic fields or another type."""
    if column.type not in READERS or column.is_dynamic or not all(column.valid_data):
        return None
    cells = READERS[column.type](column)
    return cells if len(cells) == rows else None


READERS: dict[int, Callable[[Any], list[Any]]] = {
    VARCHAR: lambda column: list(column.scalars.string_data.data),
    INT64: lambda column: list(column.scalars.long_data.data),
    # A call for each would take longest.
    JSON: lambda column: json.loads(b"[%b]" % b",".join(column.scalars.json_data.data)),
    SPARSE_FLOAT_VECTOR: lambda column: list(map(unpack_vector, column.vectors.sparse_float_vector.contents)),
}


def _fill_dense(column: Any, values: list[NDArray[np.float32]]) -> None:
    column.vectors.dim = len(values[0])
    column.vectors.float_vector.data.extend(np.concatenate(values))


FILLERS: dict[type, tuple[int, Callable[[Any, list[Any]], None]]] = {
    str: (VARCHAR, lambda column, values: column.scalars.string_data.data.extend(values)),
    int: (INT64, lambda column, values: column.scalars.long_data.data.extend(values)),
    dict: (JSON, lambda column, values: column.scalars.json_data.data.extend(_json(each).encode() for each in values)),
    SparseVector: (
        SPARSE_FLOAT_VECTOR,
        lambda column, values: column.vectors.sparse_float_vector.contents.extend(map(pack_vector, values)),
    ),
    np.ndarray: (FLOAT_VECTOR, _fill_dense),
}
