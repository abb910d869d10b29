"""The k1 of each term, as it was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.statistics.log.keys import make_rows
from rag_bm25.statistics.log.packing import get_count, get_time, pack, unpack
from rag_bm25.vectors.terms import MAX_ID
from rag_bm25.weighting.term_k1 import COLUMNS, TermK1

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rag_bm25.store.rows import LogRow

TERMS_PER_ROW = 3_000  # 16 bytes each: fits even where nothing can be compressed
_SHAPE = (1 + len(COLUMNS), -1)


class TermK1Row:
    """Codec of a table, which is an entry of as many rows as it takes."""

    @staticmethod
    def encode(name: str, table: TermK1) -> list[LogRow]:
        """Encode a table; later ones have greater names."""
        cells = np.vstack([table.ids.astype("<u4"), table.values.astype("<f4").view("<u4")])
        pieces = [cells[:, at : at + TERMS_PER_ROW] for at in range(0, max(len(table.ids), 1), TERMS_PER_ROW)]
        meta = {"chunks": table.num_chunks, "time": table.time}
        return make_rows("k1", name, [(meta, pack(piece.tobytes())) for piece in pieces])

    @staticmethod
    def decode(rows: Iterable[LogRow]) -> TermK1:
        """Decode all rows, in order."""
        rows = list(rows)
        cells = np.concatenate([np.frombuffer(unpack(row.packed), "<u4").reshape(_SHAPE) for row in rows], axis=1)
        ids, values = cells[0].astype(np.uint32), cells[1:].view("<f4").astype(np.float32)
        if (ids[1:] <= ids[:-1]).any() or (len(ids) and not 0 < ids[0] <= ids[-1] <= MAX_ID):
            raise ValueError("its ids do not rise, or are out of range")
        if np.isinf(values).any() or (values[:2] < 0).any():
            raise ValueError("a k1 is below 0, or not finite")
        return TermK1(ids, values, get_count(rows[0].meta, "chunks"), get_time(rows[0].meta))
