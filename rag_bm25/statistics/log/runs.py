"""Runs: the sums of many deltas, by namespace and term id, of which a reader reads the pages that it needs.

The rows of a run are pages of counts, and then its totals: N, length and number of counts of each namespace, in the
order of the pages. The head of the log names the runs in force; several together hold the statistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from rag_bm25.errors import FormatError
from rag_bm25.statistics.corpus import Contribution, add_up
from rag_bm25.statistics.count_table import NO_COUNTS, NO_IDS, Counts
from rag_bm25.statistics.log import packing
from rag_bm25.statistics.log.head import RunInfo, read_head
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.packing import (
    check_counts,
    check_dict,
    json_bytes,
    pack_in_pieces,
    pack_pages,
    unpack_json,
    unpack_page,
)
from rag_bm25.statistics.log.table import ROWS_PER_INSERT, RowsMovedError
from rag_bm25.store.rows import LogRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rag_bm25.statistics.log.table import LogTable

NONE = Counts(NO_IDS, NO_COUNTS)

Part = str | None
"""A namespace, or None for all namespaces together, which a run of several has as well."""

NAMESPACES_PER_ROW = 2_000
COUNTS_AT_ONCE = 1 << 19  # about as many are in memory of each run while runs are merged


class PartTotal(NamedTuple):
    """Totals of a part, and where its counts begin in the pages."""

    num_chunks: int = 0
    total_length: int = 0
    num_counts: int = 0
    start: int = 0


class Sums(Protocol):
    """Sums of some deltas, by part."""

    @property
    def level(self) -> int: ...

    @property
    def totals(self) -> Mapping[Part, PartTotal]: ...

    def read(self, part: Part) -> Contribution:
        """Return the sums of a part that `totals` has."""
        ...

    def stream(self) -> CountStream:
        """Return a stream of all counts, part by part in the order of `totals`."""
        ...


class CountStream(Protocol):
    """Counts that are read once, in order."""

    def take(self, number: int) -> Counts:
        """Return the next counts, at most a number of them."""
        ...


@dataclass(frozen=True)
class HeldSums:
    """Sums in memory."""

    parts: Mapping[Part, Contribution]  # all namespaces first, then in the order of their names
    level: int = 0

    @classmethod
    def of(cls, by_namespace: Mapping[str, Contribution], level: int = 0) -> HeldSums:
        """Hold the sums of namespaces, and those of all together where there are several."""
        parts: dict[Part, Contribution] = {}
        if len(by_namespace) > 1:
            parts[None] = add_up(by_namespace.values())
        return cls(parts | {name: by_namespace[name] for name in sorted(by_namespace)}, level)

    @property
    def totals(self) -> Mapping[Part, PartTotal]:
        return {part: PartTotal(t.num_chunks, t.total_length, len(t.ids)) for part, t in self.parts.items()}

    def read(self, part: Part) -> Contribution:
        return self.parts[part]

    def stream(self) -> CountStream:
        return _Buffer(total.counts for total in self.parts.values())


@dataclass(frozen=True)
class Run:
    """Sums in the log."""

    table: LogTable
    info: RunInfo
    totals: Mapping[Part, PartTotal]

    @property
    def level(self) -> int:
        return self.info.level

    def read(self, part: Part) -> Contribution:
        """Read the pages of a part."""
        return read_part([self], part)[0]

    def pages_of(self, part: Part) -> range:
        """Return the places of the pages of a part."""
        total, size = self.totals[part], self.info.page_size
        return range(total.start // size, -(-(total.start + total.num_counts) // size) if total.num_counts else 0)

    def decode(self, part: Part, rows: Sequence[LogRow]) -> Contribution:
        """Decode the pages of a part."""
        total = self.totals[part]
        if not total.num_counts:
            return Contribution(total.num_chunks, total.total_length)
        return self.table.decode(partial(_decode_part, total, total.start % self.info.page_size), rows)

    def stream(self) -> CountStream:
        size = max(1, COUNTS_AT_ONCE // self.info.page_size)
        starts = range(0, self.info.pages, size)
        return _Buffer(
            page for start in starts for page in self._pages(range(start, min(start + size, self.info.pages)))
        )

    def _pages(self, places: Iterable[int]) -> Iterator[Counts]:
        rows, _ = _read_rows(self.table, {self.info: places})
        return (self.table.decode(_decode_page, row) for row in rows[self.info])


def open_runs(table: LogTable, infos: Iterable[RunInfo], others: Sequence[str] = ()) -> tuple[list[Run], list[LogRow]]:
    """Read the totals of runs, and other rows by their keys, all at once: on a server each query waits."""
    totals, rows = _read_rows(table, {info: range(info.pages, info.rows) for info in infos}, others)
    runs = [
        Run(table, info, table.decode(partial(_decode_totals, info), some) if some else {})
        for info, some in totals.items()
    ]
    return runs, rows


def read_part(sums: Sequence[Sums], part: Part) -> list[Contribution]:
    """Read the part of each of the sums that has it, all at once; their only namespace is all of them."""
    found = [(some, own) for some in sums if (own := _own_part(some, part)) in some.totals]
    runs = [(run, own) for run, own in found if isinstance(run, Run)]
    rows = _read_rows(runs[0][0].table, {run.info: run.pages_of(own) for run, own in runs})[0] if runs else {}
    return [some.decode(own, rows[some.info]) if isinstance(some, Run) else some.read(own) for some, own in found]


def _own_part(some: Sums, part: Part) -> Part:
    return next(iter(some.totals), None) if part is None and len(some.totals) == 1 else part


def _read_rows(
    table: LogTable, places: Mapping[RunInfo, Iterable[int]], others: Sequence[str] = ()
) -> tuple[dict[RunInfo, list[LogRow]], list[LogRow]]:
    """Read the rows at some places of runs, and others by their keys."""
    keys = {run: [str(LogKey.row("run", run.name, place)) for place in some] for run, some in places.items()}
    try:
        rows = {row.key: row for row in table.read([*chain(*keys.values()), *others], packed=True)}
    except RowsMovedError:
        if others:
            _read_rows(table, places)  # where rows of runs are missing, the error is another one
        elif places.keys() <= set(read_head(table).runs):
            msg = f"{table.store.name} is damaged: rows of its statistics are missing. Run repair."
            raise FormatError(msg) from None
        raise
    return {run: [rows[key] for key in some] for run, some in keys.items()}, [rows[key] for key in others]


def _decode_page(row: LogRow) -> Counts:
    return unpack_page(row.packed)


def _decode_part(total: PartTotal, start: int, rows: Sequence[LogRow]) -> Contribution:
    """Decode the counts of a part, which begin at a place in the first of its pages."""
    counts = Counts.joined(map(_decode_page, rows))[start : start + total.num_counts]
    if len(counts) < total.num_counts or (counts.ids[1:] <= counts.ids[:-1]).any():
        raise ValueError("it has too few counts, or their ids do not rise")
    return Contribution.of_counts(total.num_chunks, total.total_length, counts)


def _decode_totals(run: RunInfo, rows: Sequence[LogRow]) -> dict[Part, PartTotal]:
    totals: dict[Part, PartTotal] = {}
    start = 0
    for row in rows:
        columns = check_dict(unpack_json(row.packed), "totals")
        numbers = (check_counts(columns[name], name) for name in ("chunks", "lengths", "counts"))
        for part, num_chunks, length, num_counts in zip(columns["namespaces"], *numbers, strict=True):
            if not isinstance(part, Part) or num_counts < 0 or part in totals:
                raise ValueError("its namespaces must be distinct strings, with numbers of counts")
            totals[part] = PartTotal(num_chunks, length, num_counts, start)
            start += num_counts
    if -(-start // run.page_size) != run.pages:
        raise ValueError(f"it has {start:,} counts, which do not fill {run.pages:,} pages")
    return totals


class _Buffer:
    """A stream of counts that come in pieces of any size."""

    def __init__(self, pieces: Iterable[Counts]) -> None:
        self._pieces = iter(pieces)
        self._waiting = NONE

    def take(self, number: int) -> Counts:
        pieces, size = [self._waiting], len(self._waiting)
        while size < number and (piece := next(self._pieces, None)) is not None:
            pieces.append(piece)
            size += len(piece)
        counts = Counts.joined(pieces)
        self._waiting = counts[number:]
        return counts[:number]


class _PartReader:
    """The counts of one part of a stream, in slices of the ids."""

    def __init__(self, stream: CountStream, num_counts: int) -> None:
        self._stream = stream
        self._left = num_counts  # in the stream
        self._waiting = NONE

    def take_below(self, end: int) -> Counts:
        """Return the counts of the ids below `end`."""
        while self._left and (not len(self._waiting) or self._waiting.ids[-1] < end):
            piece = self._stream.take(min(self._left, COUNTS_AT_ONCE))
            self._left -= len(piece) or self._left  # a damaged run may have fewer
            self._waiting = Counts.joined([self._waiting, piece])
        at = int(np.searchsorted(self._waiting.ids, end))
        found, self._waiting = self._waiting[:at], self._waiting[at:]
        return found


def merge(sources: Sequence[Sums]) -> Iterator[tuple[Part, int, int, Iterator[Counts]]]:
    """Add sums up: yield each part with its N, its length, and its counts, to be used before the next part."""
    names = sorted({part for source in sources for part in source.totals if part is not None})
    streams = [source.stream() for source in sources]
    for part in [None, *names] if len(names) > 1 else names:
        parts = [(*_part_of(source, part, stream), source) for source, stream in zip(sources, streams, strict=True)]
        totals = [source.totals[key] for key, _, source in parts if key in source.totals]
        readers = [
            _PartReader(stream, source.totals[key].num_counts) for key, stream, source in parts if key in source.totals
        ]
        num_counts = sum(total.num_counts for total in totals)
        num_chunks, length = sum(total.num_chunks for total in totals), sum(total.total_length for total in totals)
        if num_counts or num_chunks or length:
            counts = _merged(readers, num_counts)
            yield part, num_chunks, length, counts
            for _ in counts:  # the next part follows in the streams
                pass


def _part_of(source: Sums, part: Part, stream: CountStream) -> tuple[Part, CountStream]:
    """Return the part of a source and its stream; the only namespace of a source is all of it, and is read twice."""
    if part is None and len(source.totals) == 1:  # of several that cancel each other, there is no whole
        return next(iter(source.totals), None), source.stream()
    return part, stream


def _merged(readers: Sequence[_PartReader], num_counts: int) -> Iterator[Counts]:
    """Yield sums by rising id, in slices: ids are hashes, so that each slice has about as many."""
    slices = num_counts // COUNTS_AT_ONCE + 1
    for number in range(1, slices + 1):
        pieces = [piece for reader in readers if len(piece := reader.take_below((number << 32) // slices))]
        if pieces:
            yield Counts.joined(pieces).summed() if len(pieces) > 1 else pieces[0]


def write_run(table: LogTable, name: str, level: int, sources: Sequence[Sums]) -> Run:
    """Write the sum of some sums as one run; without the head that names it, it does not count."""
    writer = _RunWriter(table, name)
    for part, num_chunks, length, counts in merge(sources):
        before = writer.num_counts
        for piece in counts:
            writer.add(piece)
        writer.totals[part] = PartTotal(num_chunks, length, writer.num_counts - before, before)
    return writer.finish(level)


class _RunWriter:
    """A run that is being written."""

    def __init__(self, table: LogTable, name: str) -> None:
        self._table = table
        self._name = name
        self._waiting: list[Counts] = []
        self._num_waiting = 0
        self._num_rows = 0
        self.num_counts = 0
        self.totals: dict[Part, PartTotal] = {}

    def add(self, counts: Counts) -> None:
        self._waiting.append(counts)
        self.num_counts += len(counts)
        self._num_waiting += len(counts)
        if self._num_waiting >= ROWS_PER_INSERT * packing.COUNTS_PER_ROW:
            self._write_pages(self._num_waiting // packing.COUNTS_PER_ROW * packing.COUNTS_PER_ROW)

    def finish(self, level: int) -> Run:
        self._write_pages(self._num_waiting)
        info = RunInfo(self._name, level, self._num_rows, packing.COUNTS_PER_ROW, self._num_rows)
        parts = list(self.totals)
        for start in range(0, len(parts), NAMESPACES_PER_ROW):
            self._write(_packed_totals({part: self.totals[part] for part in parts[start : start + NAMESPACES_PER_ROW]}))
        return Run(self._table, info._replace(rows=self._num_rows), self.totals)

    def _write_pages(self, number: int) -> None:
        """Write the counts that wait, up to a number of them."""
        counts = Counts.joined(self._waiting)
        self._write(list(pack_pages(counts[:number])))
        self._waiting, self._num_waiting = [counts[number:]], len(counts) - number

    def _write(self, packed: Sequence[str]) -> None:
        rows = [
            LogRow(str(LogKey.row("run", self._name, part)), "run", packed=piece)
            for part, piece in enumerate(packed, self._num_rows)
        ]
        self._table.insert(rows)
        self._num_rows += len(rows)


def _packed_totals(totals: Mapping[Part, PartTotal]) -> list[str]:
    """Pack totals into as few rows as they fit into."""

    def to_json(parts: list[Part]) -> bytes:
        some = [totals[part] for part in parts]
        columns = {
            "namespaces": parts,
            "chunks": [total.num_chunks for total in some],
            "lengths": [total.total_length for total in some],
            "counts": [total.num_counts for total in some],
        }
        return json_bytes(columns)

    return [packed for _, packed in pack_in_pieces(list(totals), to_json)]
