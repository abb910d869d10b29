"""The parameters of queries that were set after an index was made: JSON values by their names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import ParameterError
from rag_bm25.statistics.log.keys import make_rows
from rag_bm25.statistics.log.packing import MAX_PACKED, check_dict, json_bytes, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rag_bm25.store.rows import LogRow

MAX_DEFAULTS = 1 << 20  # bytes of JSON: every process reads them, and analyses the synonyms


class QueryDefaultsRow:
    """Codec of one entry; the newest counts."""

    @staticmethod
    def encode(name: str, values: Mapping[str, Any]) -> list[LogRow]:
        """Encode values of at most `MAX_DEFAULTS` bytes as rows; later ones have greater names."""
        plain = json_bytes(dict(values))
        if len(plain) > MAX_DEFAULTS:
            raise ParameterError(
                f"the defaults of queries, synonyms among them, must have at most {MAX_DEFAULTS:,} bytes of JSON, got "
                f"{len(plain):,}: give fewer synonyms, or give them with each search"
            )
        packed = pack(plain)
        pieces = [packed[at : at + MAX_PACKED] for at in range(0, len(packed), MAX_PACKED)]
        return make_rows("defaults", name, [({}, piece) for piece in pieces])

    @staticmethod
    def decode(rows: Iterable[LogRow]) -> dict[str, Any]:
        """Decode all rows of an entry, in their order."""
        return check_dict(json.loads(unpack("".join(row.packed for row in rows), MAX_DEFAULTS)), "defaults")
