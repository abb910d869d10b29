"""The k1 of each term, for weightings that have one for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.statistics.log.keys import make_rows
from rag_bm25.statistics.log.packing import pack_counts, unpack_counts
from rag_bm25.vectors.sparse import SparseVector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rag_bm25.store.rows import LogRow

K1_UNIT = 1e-4


class TermK1Row:
    """Codec of a table of term id -> k1, to four decimals."""

    @staticmethod
    def encode(name: str, term_k1: SparseVector) -> list[LogRow]:
        """Encode a table as rows, all of which a reader needs; later tables have greater names."""
        units = (term_k1.values.astype(np.float64) / K1_UNIT).round().astype(np.int64)
        return make_rows("k1", name, [({}, piece) for piece in pack_counts(term_k1.ids, units)] or [({}, "")])

    @staticmethod
    def decode(rows: Iterable[LogRow]) -> SparseVector:
        """Decode all rows, in order."""
        ids, units = unpack_counts(row.packed for row in rows if row.packed)
        if (units < 0).any():
            raise ValueError("a k1 is below 0")
        return SparseVector(ids, (units * K1_UNIT).astype(np.float32))
