"""Bytes of sparse vectors, as a server may send them: ids in rising order with their weights, or an error of ours."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fuzz.strategies import FEW
from rag_bm25.errors import RagBM25Error
from rag_bm25.store.milvus.messages import pack_vector, unpack_vector

__all__ = ["check"]


@FEW
@given(st.binary(max_size=400))
def check(data: bytes) -> None:
    """Read bytes, and write what was read."""
    try:
        vector = unpack_vector(data)
    except RagBM25Error:
        assert len(data) % 8
        return
    entries = [data[at : at + 8] for at in range(0, len(data), 8)]
    by_id = {int.from_bytes(entry[:4], "little"): entry[4:] for entry in entries}
    assert vector.ids.tolist() == sorted(by_id)
    stored = vector.values.view(np.uint32).tolist()
    for id_, bits in zip(vector.ids.tolist(), stored, strict=True):
        assert bits == int.from_bytes(by_id[id_], "little") or np.isnan(np.frombuffer(by_id[id_], "<f4")).all()
    assert unpack_vector(pack_vector(vector)).ids.tolist() == vector.ids.tolist()
