"""Runs: whatever is added up, and however it is cut into rows, each part has the sum of its counts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.log_writing import asked_of, rows
from support.memory_store import MemoryStore

from rag_bm25.errors import FormatError
from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.count_table import Counts as MarkedCounts
from rag_bm25.statistics.log import packing, runs, table
from rag_bm25.statistics.log.runs import HeldSums, Part, PartTotal, Run, Sums, merge, open_runs, write_run
from rag_bm25.statistics.log.stored_statistics import StoredStatistics
from rag_bm25.statistics.log.table import LogTable

TOP = 2**32 - 2


class ByThrees:
    """Channels of ids: each has the rest of a division."""

    def channels(self, ids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        return (ids % 3).astype(np.uint8)


CHANNELS = ByThrees()


@dataclass
class Counts:
    """Sums of a part in a dict, by loops."""

    chunks: int = 0
    length: int = 0
    df: dict[int, int] = field(default_factory=dict)

    def add(self, other: Counts) -> None:
        self.chunks += other.chunks
        self.length += other.length
        for id_, count in other.df.items():
            self.df[id_] = self.df.get(id_, 0) + count
            if not self.df[id_]:
                del self.df[id_]

    def contribution(self) -> Contribution:
        ids = sorted(self.df)
        df = [self.df[id_] for id_ in ids]
        total = Contribution(self.chunks, self.length, np.array(ids, np.uint32), np.array(df, np.int64))
        return total.marked(CHANNELS)


ids = st.sampled_from([1, 2, 3, 2**31, TOP - 1, TOP]) | st.integers(1, TOP)
dfs = st.integers(-3, 3).filter(bool) | st.sampled_from([2**40, -(2**40)])
totals = st.integers(-9, 9) | st.just(2**40)
counts = st.builds(Counts, totals, totals, st.dictionaries(ids, dfs, max_size=12))
histories = st.lists(st.dictionaries(st.sampled_from(["", "a", "中", "z"]), counts, max_size=4), max_size=5)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3))


@pytest.fixture
def log_table(store: MemoryStore) -> LogTable:
    return LogTable(store)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    set_sizes(monkeypatch, (2, 3, 2, 2))


def set_sizes(patch: pytest.MonkeyPatch, chosen: tuple[int, int, int, int]) -> None:
    patch.setattr(packing, "COUNTS_PER_ROW", chosen[0])
    patch.setattr(runs, "COUNTS_AT_ONCE", chosen[1])
    patch.setattr(runs, "ROWS_PER_INSERT", chosen[2])
    patch.setattr(table, "ROWS_PER_INSERT", chosen[2])
    patch.setattr(runs, "NAMESPACES_PER_ROW", chosen[3])


def new_table() -> LogTable:
    store = MemoryStore()
    store.create()
    return LogTable(store)


def held(history: Mapping[str, Counts]) -> HeldSums:
    return HeldSums.of({name: some.contribution() for name, some in history.items()})


def added(history: Sequence[Mapping[str, Counts]]) -> dict[Part, Counts]:
    """Add up by namespace, and the whole; without parts of which nothing is left."""
    sums: dict[Part, Counts] = {None: Counts()}
    for changes in history:
        for name, some in changes.items():
            sums.setdefault(name, Counts()).add(some)
            sums[None].add(some)
    return {part: some for part, some in sums.items() if some != Counts()}


def listed(found: Contribution) -> Counts:
    return Counts(found.num_chunks, found.total_length, dict(pairs(found.counts)))


def read_parts(sums: Sums) -> dict[Part, Counts]:
    """Read each part; the only namespace is the whole."""
    found = {part: listed(sums.read(part)) for part in sums.totals}
    if len(found) == 1:
        found[None] = next(iter(found.values()))
    return {part: some for part, some in found.items() if some != Counts()}


@given(histories, sizes, st.integers(0, 5))
@example([{"a": Counts(1, 2, {5: 1}), "z": Counts(-1, -2, {5: -1})}, {"a": Counts(1, 1, {7: 1})}], (1, 1, 1, 1), 1)
@example([{"a": Counts(1, 2, {1: 1, TOP: 2})}, {"z": Counts(1, 1, {1: 1, TOP: 1})}], (2, 1, 1, 1), 1)
def test_sum_of_runs_is_that_of_what_they_were_made_of(
    history: list[dict[str, Counts]], chosen: tuple[int, int, int, int], cut: int
) -> None:
    expected = added(history)
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, chosen)
        log_table = new_table()
        names = (f"{number:024x}" for number in itertools.count())
        written = [write_run(log_table, next(names), 0, [held(changes)]) for changes in history[:cut]]
        held_ones = [held(changes) for changes in history[cut:]]
        sources = [write_run(log_table, next(names), 1, written), *held_ones] if written else held_ones
        total = write_run(log_table, next(names), 2, sources)
        opened = open_runs(log_table, [total.info])[0][0]
        assert opened.totals == total.totals
        for run in (total, opened):
            assert read_parts(run) == expected
        statistics = StoredStatistics([*written, *held_ones])
        for part, some in expected.items():
            assert listed(statistics._part(part).contribution()) == some  # as a search reads it
        found = {name: listed(some) for name, some in statistics.contributions().items()}
        assert {name: some for name, some in found.items() if some != Counts()} == {
            part: some for part, some in expected.items() if part is not None
        }


@given(histories, sizes, st.integers(1, 7))
def test_stream_has_the_parts_one_after_the_other(
    history: list[dict[str, Counts]], chosen: tuple[int, int, int, int], taken: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, chosen)
        run = write_run(new_table(), "0" * 24, 0, [held(changes) for changes in history])
        every = [run.read(part) for part in run.totals]
        assert [total.num_counts for total in run.totals.values()] == [len(part.ids) for part in every]
        stream = run.stream()
        found = [*iter(lambda: pairs(stream.take(taken)), [])]
        assert max(map(len, found), default=0) <= taken
        assert [pair for some in found for pair in some] == [pair for part in every for pair in pairs(part.counts)]


def pairs(some: MarkedCounts) -> list[tuple[int, int]]:
    if len(some):
        assert some.channels is not None
        assert some.channels.tolist() == (some.ids % 3).tolist()
    return list(zip(some.ids.tolist(), some.df.tolist(), strict=True))


@given(histories, sizes)
def test_merge_yields_rising_ids_without_zeros(
    history: list[dict[str, Counts]], chosen: tuple[int, int, int, int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, chosen)
        for _, _, _, pieces in merge([held(changes) for changes in history]):
            found = [pair for piece in pieces for pair in pairs(piece)]
            assert [id_ for id_, _ in found] == sorted({id_ for id_, _ in found})
            assert all(count for _, count in found)


def test_merge_of_parts_that_nobody_uses_goes_on_with_the_next(tiny: None) -> None:
    history = [{"a": Counts(1, 1, dict.fromkeys(range(1, 20), 1)), "z": Counts(1, 1, {5: 1})}]
    found = {}
    for part, _, _, pieces in merge([held(history[0])]):
        if part == "z":
            found = dict(pair for piece in pieces for pair in pairs(piece))
    assert found == {5: 1}


def test_run_of_one_namespace_is_its_own_whole(log_table: LogTable) -> None:
    run = write_run(log_table, "0" * 24, 0, [held({"a": Counts(2, 3, {1: 1, TOP: 2})})])
    assert run.totals == {"a": PartTotal(2, 3, 2, 0)}
    assert (run.info.pages, run.info.rows) == (1, 2)


def test_nothing_is_a_run_without_rows(log_table: LogTable) -> None:
    run = write_run(log_table, "0" * 24, 0, [held({}), held({"a": Counts()})])
    assert (run.totals, run.info.rows, rows(log_table.store, "run")) == ({}, 0, [])  # type: ignore[arg-type]
    assert open_runs(log_table, [run.info])[0][0].totals == {}


def test_namespaces_share_pages(log_table: LogTable) -> None:
    history = {f"n{number:03}": Counts(1, 2, {number + 1: 1, TOP: 1}) for number in range(500)}
    run = write_run(log_table, "0" * 24, 0, [held(history)])
    assert run.info.pages == 1  # 501 counts of the whole, and twice 500
    assert listed(run.read("n123")) == history["n123"]


@pytest.mark.usefixtures("tiny")
def test_reading_a_part_reads_its_pages_alone(log_table: LogTable, store: MemoryStore) -> None:
    history = {f"n{number}": Counts(1, 2, {number + 1: 1, TOP: 1}) for number in range(20)}
    run = write_run(log_table, "0" * 24, 0, [held(history)])
    found: list[Counts] = []
    assert len(asked_of(store, lambda: found.append(listed(run.read("n7"))))) <= 2
    assert found == [history["n7"]]


@pytest.mark.usefixtures("tiny")
def test_rows_are_inserted_a_few_at_a_time(log_table: LogTable, store: MemoryStore) -> None:
    sizes: list[int] = []
    insert = store.insert_log
    store.insert_log = lambda rows, **_: (sizes.append(len(rows)), insert(rows))[1]  # type: ignore[method-assign]
    write_run(log_table, "0" * 24, 0, [held({"a": Counts(1, 1, dict.fromkeys(range(1, 40), 1))})])
    assert (max(sizes), sum(sizes)) == (2, 21)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("held_too", [False, True])
def test_merge_holds_a_few_counts_at_a_time(log_table: LogTable, store: MemoryStore, held_too: bool) -> None:
    """Rows that are read are written before others are: so much is in memory, and no more."""
    spread = [{place * (TOP // 400) + number: 1 for place in range(1, 400)} for number in range(3)]
    sources: list[Sums] = [
        write_run(log_table, f"{number:024x}", 0, [held({"a": Counts(1, 1, df)})]) for number, df in enumerate(spread)
    ]
    sources += [held({"a": Counts(1, 1, {7: 1})})] * held_too
    balance, most = 0, 0

    def weigh(method: str) -> None:
        nonlocal balance, most
        balance += {"get_log": 2, "insert_log": -4}.get(method, 0)  # counts in a row; rows at a time
        most = max(most, balance)

    store.on_call = weigh
    write_run(log_table, "f" * 24, 1, sources)
    assert most <= 60  # of 1,200


# Damage


def damaged(log_table: LogTable, part: int) -> tuple[Run, list[str]]:
    run = write_run(log_table, "0" * 24, 0, [held({"a": Counts(1, 1, dict.fromkeys(range(1, 8), 1))})])
    return run, [f"run:{'0' * 24}:{part}:{part + 1}"]


@pytest.mark.usefixtures("tiny")
def test_page_of_another_part_is_an_error_that_names_it(log_table: LogTable, store: MemoryStore) -> None:
    run, [key] = damaged(log_table, 1)
    log = store.collections.log
    log[key] = log[f"run:{'0' * 24}:0:1"].__class__(key, "run", packed=log[f"run:{'0' * 24}:0:1"].packed)
    with pytest.raises(FormatError, match=r"its log row .* cannot be read"):
        run.read("a")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "totals",
    [
        {"namespaces": ["a"], "chunks": [1], "lengths": [1], "counts": [-1]},
        {"namespaces": ["a"], "chunks": [1], "lengths": [1], "counts": []},
        {"namespaces": ["a", "a"], "chunks": [1, 1], "lengths": [1, 1], "counts": [0, 0]},
        {"namespaces": [7], "chunks": [1], "lengths": [1], "counts": [0]},
        {"namespaces": ["a"], "chunks": ["1"], "lengths": [1], "counts": [0]},
        {"namespaces": ["a"], "lengths": [1], "counts": [0]},
        {"namespaces": ["a"], "chunks": [1], "lengths": [1], "counts": [9]},
        [],
    ],
)
def test_damaged_totals_are_an_error_that_names_a_row(log_table: LogTable, store: MemoryStore, totals: object) -> None:
    run, [key] = damaged(log_table, 4)
    row = store.collections.log[key]
    store.collections.log[key] = row.__class__(key, "run", packed=packing.pack(packing.json_bytes(totals)))
    with pytest.raises(FormatError, match=r"its log row 'run:.*' cannot be read"):
        open_runs(log_table, [run.info])[0][0].read("a")
