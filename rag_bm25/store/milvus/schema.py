"""The fields of the two collections, and rows as entities of the client."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.checks import parameter_error
from rag_bm25.errors import FormatError, ParameterError
from rag_bm25.store.rows import ChunkRow, LogRow
from rag_bm25.vectors.sparse import EMPTY, SparseVector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

SPARSE, DENSE = "sparse", "dense"
CHUNK_FIELDS: dict[str, dict[str, Any]] = {
    "pk": {"datatype": "VARCHAR", "max_length": 64, "is_primary": True},
    "id": {"datatype": "VARCHAR", "max_length": 512},
    "namespace": {"datatype": "VARCHAR", "max_length": 256},
    "text": {"datatype": "VARCHAR", "max_length": 65535},
    "metadata": {"datatype": "JSON"},
    "length": {"datatype": "INT64"},
    "batch": {"datatype": "VARCHAR", "max_length": 64},
    SPARSE: {"datatype": "SPARSE_FLOAT_VECTOR"},
}
LOG_FIELDS: dict[str, dict[str, Any]] = {
    "key": {"datatype": "VARCHAR", "max_length": 128, "is_primary": True},
    "kind": {"datatype": "VARCHAR", "max_length": 16},
    "meta": {"datatype": "JSON"},
    "packed": {"datatype": "VARCHAR", "max_length": 65535},
    "vector": {"datatype": "SPARSE_FLOAT_VECTOR"},  # of no use, but Milvus demands one
}
CHUNK_FACTS = ("pk", "id", "namespace", "length", "batch")
CHUNK_CONTENTS = ("text", "metadata")
LOG_FACTS = ("key", "kind", "meta")

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
GENERATION = re.compile(r"__g\d+$", re.ASCII)  # ends the names of the collections of a later generation
MAX_NAME = 240
# Tables of milvus-lite 2.5 itself: dropping a collection of such a name destroys other collections.
RESERVED = frozenset({"collection_meta", "bm25_stats", "token_doc_count"})
STAND_IN = SparseVector.from_dict({0: 1.0})  # engines refuse empty vectors; no term has id 0


def check_name(name: str) -> None:
    """Refuse a collection name that some engine cannot hold."""
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > MAX_NAME:
        rule = f"ASCII letters, digits and underscores, not start with a digit and have at most {MAX_NAME} characters"
        raise parameter_error("collection", rule, name)
    if name.lower() in RESERVED or name.lower().startswith("sqlite_"):
        msg = f"collection must not be one of {', '.join(sorted(RESERVED))} or start with sqlite_, got {name!r}"
        raise ParameterError(msg)
    if GENERATION.search(name):
        raise parameter_error("collection", "not end in __g and a number, as the generations of an index do", name)


def name_generation(name: str, generation: int) -> str:
    """Return the name of the chunks' collection of a generation of an index."""
    return name if generation == 1 else f"{name}__g{generation}"


def generation_suffix(generation: int) -> str:
    """Name a generation after the name of its index, in messages; the first one needs none."""
    return "" if generation == 1 else f", generation {generation}"


def chunk_fields(dim: int | None) -> dict[str, dict[str, Any]]:
    """Return the fields of the chunks, with dense vectors if `dim` is given."""
    return CHUNK_FIELDS if dim is None else {**CHUNK_FIELDS, DENSE: {"datatype": "FLOAT_VECTOR", "dim": dim}}


def vector_fields(fields: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [name for name, field in fields.items() if field["datatype"].endswith("FLOAT_VECTOR")]


def dense_dim(described: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the dimension of the dense vectors, None without any."""
    return next((field["params"].get("dim") for field in described if field["name"] == DENSE), None)


def field_types(described: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the type of each field that the client describes; dense vectors have their dimension."""
    return {field["name"]: _type_name(field["type"].name, field["params"].get("dim")) for field in described}


def _type_name(datatype: str, dim: int | None) -> str:
    return datatype if dim is None else f"{datatype}({dim})"


def check_fields(
    collection: str, fields: Mapping[str, Mapping[str, Any]], described: Sequence[Mapping[str, Any]]
) -> None:
    """Compare the wanted fields with those that the client describes; refuse a difference.

    Nullable fields that somebody has added are left alone: a server may not be able to drop them again.
    """
    wanted = {name: _type_name(field["datatype"], field.get("dim")) for name, field in fields.items()}
    found = field_types([field for field in described if field["name"] in wanted or not field.get("nullable")])
    if wanted != found:
        differing = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        shown = ", ".join(
            f"{name} (is {found.get(name, 'missing')}, must be {wanted.get(name, 'absent')})" for name in differing
        )
        msg = f"collection {collection!r} is not one of an index of this version; its fields differ: {shown}"
        raise FormatError(msg)


def chunk_entity(row: ChunkRow) -> dict[str, Any]:
    entity = {
        "pk": row.pk,
        "id": row.id,
        "namespace": row.namespace,
        "text": row.text,
        "metadata": row.metadata,
        "length": row.length,
        "batch": row.batch,
        SPARSE: row.vector,
    }
    # The client refuses an entity without its dense vector; None would kill the engine of milvus-lite 2.5.
    return entity if row.dense is None else {**entity, DENSE: row.dense}


def chunk_output(*, contents: bool, vectors: bool) -> list[str]:
    """Name the fields to read, the key first."""
    return [*CHUNK_FACTS, *(CHUNK_CONTENTS if contents else ()), *([SPARSE] if vectors else ())]


def chunk_row(entity: Mapping[str, Any]) -> ChunkRow:
    """Convert an entity to a row; fields that were not read are empty."""
    vector, dense = entity.get(SPARSE), entity.get(DENSE)
    return ChunkRow(
        pk=entity["pk"],
        id=entity["id"],
        namespace=entity["namespace"],
        length=entity["length"],
        batch=entity["batch"],
        text=entity.get("text", ""),
        metadata=entity.get("metadata", {}),
        vector=as_vector(vector) if vector else EMPTY,
        dense=None if dense is None else np.asarray(dense, np.float32),
    )


def log_entity(row: LogRow) -> dict[str, Any]:
    return {
        "key": row.key,
        "kind": row.kind,
        "meta": row.meta,
        "packed": row.packed,
        "vector": STAND_IN,
    }


def log_row(entity: Mapping[str, Any]) -> LogRow:
    return LogRow(key=entity["key"], kind=entity["kind"], meta=entity["meta"], packed=entity.get("packed", ""))


def as_vector(value: SparseVector | Mapping[int, float]) -> SparseVector:
    """Return a sparse vector of a reply, unpacked by this package or by pymilvus."""
    return value if isinstance(value, SparseVector) else SparseVector.from_dict(value)


def entity_bytes(entity: Mapping[str, Any]) -> int:
    """Return an upper bound of the size of an entity in a message."""
    return sum(_value_bytes(value) for value in entity.values())


def _value_bytes(value: str | SparseVector | Mapping[str, Any] | NDArray[np.float32] | int) -> int:
    if isinstance(value, str):
        return 4 * len(value) + 16
    if isinstance(value, SparseVector):
        return 8 * len(value) + 16
    if isinstance(value, np.ndarray):
        return value.nbytes + 16
    if isinstance(value, int) or not value:
        return 40  # an integer has at most 20 characters
    return len(json.dumps(value)) + 16
