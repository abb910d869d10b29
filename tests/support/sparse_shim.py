"""Sparse vectors for a Milvus before 2.4, which has none, and one dense vector a collection.

A sparse field becomes texts of base64 beside a dense vector. A search by inner product reads all rows that pass its
filter, in one query at its level of consistency, and scores them here. Everything else reaches the server as it is.
"""

from __future__ import annotations

import base64
import os
from contextlib import suppress
from typing import Any

import grpc
import numpy as np

from rag_bm25.store.milvus import engine
from rag_bm25.store.milvus.client import Client, pymilvus
from rag_bm25.store.milvus.messages import pack_vector, unpack_vector
from rag_bm25.vectors.sparse import SparseVector

LETTERS = 65_532  # of a piece: a VARCHAR's, as whole groups of base64
PIECES = {"sparse": 16, "vector": 1}  # of each sparse field of an index; that of the log is a stand-in
FILLER = {"shim": {"datatype": "FLOAT_VECTOR", "dim": 2}}
SPARSE_TYPE = pymilvus.DataType.SPARSE_FLOAT_VECTOR

Entity = dict[str, Any]


def install() -> None:
    """Let every client that connects from now on to a Milvus 2.3 have sparse vectors, in programs started here, too."""
    os.environ["SPARSE_SHIM"] = "1"
    engine.Client = _client  # type: ignore[assignment, misc]


def _client(*args: Any, **kwargs: Any) -> Client:
    made = ShimClient(*args, **kwargs)
    version = ""
    with suppress(grpc.RpcError, pymilvus.MilvusException):  # milvus-lite 2.5 has no answer
        version = made.get_server_version()
    if not version.startswith("v2.3."):
        made.__class__ = Client
    return made


def _pieces(name: str) -> list[str]:
    return [f"{name}__{at}" for at in range(PIECES[name])]


def _split(entity: Entity) -> Entity:
    """Return an entity with texts in place of its sparse vectors."""
    made: Entity = {}
    for name, value in entity.items():
        if isinstance(value, SparseVector):
            text, pieces = base64.b64encode(pack_vector(value)).decode(), _pieces(name)
            assert len(text) <= len(pieces) * LETTERS, f"{name} has too many entries for the shim: {len(value)}"
            made |= {piece: text[at * LETTERS : (at + 1) * LETTERS] for at, piece in enumerate(pieces)}
        else:
            made[name] = value
    return made


def _join(row: Entity) -> Entity:
    """Return a row with its sparse vectors."""
    made = dict(row)
    for name in PIECES:
        if f"{name}__0" in made:
            made[name] = unpack_vector(base64.b64decode("".join(made.pop(piece) for piece in _pieces(name))))
    return made


class ShimClient(Client):
    def make_schema(self, fields: Any, *, partition_key: str | None) -> Any:
        texts = {
            name: {piece: {"datatype": "VARCHAR", "max_length": 65_535} for piece in _pieces(name)}
            if field["datatype"] == "SPARSE_FLOAT_VECTOR"
            else {name: field}
            for name, field in fields.items()
        }
        made = {name: field for some in texts.values() for name, field in some.items()}
        return super().make_schema(made if "dense" in made else made | FILLER, partition_key=partition_key)

    def describe_collection(self, collection_name: str, *args: Any, **kwargs: Any) -> Any:
        described = dict(super().describe_collection(collection_name, *args, **kwargs))
        fields = []
        for field in described["fields"]:
            name, _, at = field["name"].partition("__")
            if at == "0":
                fields.append({**field, "name": name, "type": SPARSE_TYPE, "params": {}})
            elif not at and name not in FILLER:
                fields.append(field)
        return {**described, "fields": fields}

    def list_indexes(self, collection_name: str, *args: Any, **kwargs: Any) -> list[str]:
        found = super().list_indexes(collection_name, *args, **kwargs)
        return [*(name for name in found if name not in FILLER), *(self._sparse(collection_name) if found else [])]

    def describe_index(self, collection_name: str, index_name: str, **kwargs: Any) -> Any:
        if index_name in self._sparse(collection_name):
            return {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP", "field_name": index_name}
        return super().describe_index(collection_name, index_name, **kwargs)

    def create_index(self, collection_name: str, index_params: Any, **kwargs: Any) -> None:
        """Index the dense vector in place of the sparse one."""
        (wanted,) = list(index_params)
        if wanted.field_name in self._sparse(collection_name):
            if "dense" in self._names(collection_name) or super().list_indexes(collection_name):
                return
            index_params = self.prepare_index_params()
            index_params.add_index("shim", index_name="shim", index_type="FLAT", metric_type="IP")
        super().create_index(collection_name, index_params=index_params, **kwargs)

    def insert(self, collection_name: str, data: list[Entity], timeout: float | None = None, **kwargs: Any) -> Any:
        names = self._fields.setdefault(collection_name, self._names(collection_name))
        filler = {"shim": np.zeros(2, np.float32)} if "shim" in names else {}
        return super().insert(collection_name, [_split(entity) | filler for entity in data], timeout=timeout, **kwargs)

    def query(self, collection_name: str, *, output_fields: Any = (), **kwargs: Any) -> list[Entity]:
        asked = self._asked(collection_name, output_fields)
        return [_join(row) for row in super().query(collection_name, output_fields=asked, **kwargs)]

    def search(self, collection_name: str, data: Any, *, anns_field: str, limit: int, **asked: Any) -> Any:
        output = asked.pop("output_fields", [])
        if anns_field not in self._sparse(collection_name):
            fields = self._asked(collection_name, output)
            hits = {"anns_field": anns_field, "limit": limit, "output_fields": fields}
            found = super().search(collection_name, data, **hits, **asked)
            return [[{**hit, "entity": _join(hit["entity"])} for hit in some] for some in found]
        where = asked.pop("filter", "") or 'pk != ""'
        options = {name: asked[name] for name in ("timeout", "consistency_level") if asked.get(name) is not None}
        rows = self.query(collection_name, filter=where, output_fields=[*output, anns_field], **options)
        return [_best(vector, rows, anns_field, limit, output) for vector in data]

    def drop_collection(self, collection_name: str, *args: Any, **kwargs: Any) -> None:
        self._known().pop(collection_name, None)
        super().drop_collection(collection_name, *args, **kwargs)

    def _asked(self, collection: str, names: Any) -> list[str]:
        sparse = self._sparse(collection)
        return [each for name in names for each in (_pieces(name) if name in sparse else [name])]

    def _sparse(self, collection: str) -> list[str]:
        """Return the sparse fields of a collection; those of others may have dense ones of the same names."""
        if collection not in self._known():
            names = self._names(collection)
            self._known()[collection] = [name for name in PIECES if f"{name}__0" in names]
        return self._known()[collection]

    def _known(self) -> dict[str, list[str]]:
        known: dict[str, list[str]] = self.__dict__.setdefault("_sparse_fields", {})
        return known

    def _names(self, collection: str) -> set[str]:
        return {field["name"] for field in super().describe_collection(collection)["fields"]}


def _best(vector: SparseVector, rows: list[Entity], name: str, limit: int, output: list[str]) -> list[Entity]:
    """Return the best rows by inner product, best first; a row without a term of the query is none."""
    weights, hits = vector.to_dict(), []
    for row in rows:
        products = [weights[id_] * weight for id_, weight in row[name].to_dict().items() if id_ in weights]
        if products:
            entity = {each: value for each, value in row.items() if each in output}
            hits.append({"distance": float(np.float32(sum(products))), "entity": entity})
    return sorted(hits, key=lambda hit: -hit["distance"])[:limit]
