"""The channel of each id as the stored terms have it, for counts of older versions of the package, which do not."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.errors import FormatError
from rag_bm25.statistics.count_table import NO_IDS
from rag_bm25.statistics.log.terms import ROWS_AT_ONCE, TermsRow
from rag_bm25.vectors.terms import is_bigram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rag_bm25.statistics.log.table import LogTable


class StoredChannels:
    """Ids of the bigrams among the stored terms, read when they are first asked for: four bytes each."""

    # Several threads may read counts at once, none of which has the log: this reads the terms for itself.

    def __init__(self, table: LogTable) -> None:
        self._table = table
        self._ids = NO_IDS  # of bigrams, rising
        self._read: set[str] = set()  # keys of rows
        self._reading = threading.Lock()

    def are_bigrams(self, ids: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Return whether each id is a bigram's, whose term may have been stored a moment ago."""
        if not len(ids):
            return np.zeros(0, np.bool_)
        with self._reading:
            self._table.read_whole(self._read_new)
            found = self._ids
        return np.isin(ids, found, kind="sort")

    def _read_new(self) -> None:
        """Read the terms that came after those that were read."""
        entries = self._table.list_all("terms").entries("terms")
        keys = [key for parts in entries.values() for key in parts if key not in self._read]
        for start in range(0, len(keys), ROWS_AT_ONCE):
            self._read_rows(keys[start : start + ROWS_AT_ONCE])

    def _read_rows(self, keys: Sequence[str]) -> None:
        rows = self._table.read(keys, packed=True)
        ids = list[int]()
        for row in rows:
            with suppress(FormatError):  # verify reports it: a search goes on without
                ids += [id_ for term, id_ in self._table.decode(TermsRow.decode, row).items() if is_bigram(term)]
        self._ids = np.union1d(self._ids, np.array(ids, np.uint32))
        self._read.update(keys)
