"""Indexes of format 1 open as they are, are refused by old programs from the first write on, and lose nothing."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from support.faulty_store import FaultyStore
from support.format_1 import format_that_version_1_reads, rows_of_format_2, take_back_to_format_1
from support.log_writing import kinds
from support.memory_store import MemoryStore, copied
from support.reference import Count, recount
from support.writes import writes

from rag_bm25 import BM25Index
from rag_bm25.errors import StoreError
from rag_bm25.statistics.log import log as statistics_log
from rag_bm25.statistics.log.keys import keys_of
from rag_bm25.statistics.log.settings import FORMAT, ConfigRow, read_config, upgrade_format
from rag_bm25.vectors import terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from support.faulty_store import Moment

    from rag_bm25 import IndexConfig
    from rag_bm25.store.memory import Collections
    from rag_bm25.store.rows import LogRow


class StrictStore(FaultyStore):
    """Refuses keys of a config that are stored already, of which an engine would keep both rows."""

    def insert_log(self, rows: Sequence[LogRow], *, defer: bool = False) -> None:
        double = [row.key for row in rows if row.kind == "config" and row.key in self.collections.log]
        assert not double, double
        super().insert_log(rows, defer=defer)


def fill(index: BM25Index, *, namespaces: Sequence[str] = ("",)) -> None:
    for number in range(6):
        namespace = namespaces[number % len(namespaces)]
        texts = [f"apple w{number} banana", f"cherry w{number % 2} apple apple"]
        index.add(texts, ids=[f"{number}", f"also {number}"], namespace=namespace)
    index.add(["apple fig"], ids=["0"], namespace=namespaces[0])
    index.delete(["also 0"], namespace=namespaces[0])


def leave_intent(index: BM25Index, store: FaultyStore) -> None:
    """The process dies with old and new rows stored."""
    store.fail_at(None)
    store.on_call = die_at_delete
    with pytest.raises(KeyboardInterrupt):
        index.add(["papaya apple", "quince"], ids=["1", "new"])
    store.on_call = None


def die_at_delete(method: str) -> None:
    if method == "delete_chunks":
        raise KeyboardInterrupt


# What there may be: how many deltas are in a snapshot, and the other options.
SHAPES: dict[str, dict[str, Any]] = {
    "deltas alone": {"folded": 0},
    "a snapshot alone": {"folded": 8},
    "a snapshot and deltas": {"folded": 5},
    "an open intent": {"folded": 5, "intent": True},
    "an intent that has ended": {"folded": 5, "keep_ended": True},
    "an intent in the snapshot": {"folded": 8, "keep_ended": True},
    "namespaces": {"folded": 4, "namespaces": ("", "x", "中")},
    "displaced terms": {"folded": 5, "id_space": 45},
    "config of several rows": {"folded": 5, "config_row": 60},
}


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    shape = SHAPES[request.param]
    monkeypatch.setattr("rag_bm25.statistics.log.terms.TERMS_PER_ROW", 2)  # a long vocabulary
    monkeypatch.setattr("rag_bm25.statistics.log.packing.COUNTS_PER_ROW", 3)
    monkeypatch.setattr(terms, "ID_SPACE", shape.get("id_space", terms.ID_SPACE))
    monkeypatch.setattr("rag_bm25.statistics.log.settings.MAX_PACKED", shape.get("config_row", 65_535))
    return shape


@pytest.fixture
def made(shape: dict[str, Any], config: IndexConfig) -> Collections:
    """An index of format 1."""
    store = FaultyStore()
    index = BM25Index.from_store(store, config=config)
    fill(index, namespaces=shape.get("namespaces", ("",)))
    if shape.get("intent"):
        leave_intent(index, store)
    take_back_to_format_1(store, folded=shape["folded"], keep_ended=shape.get("keep_ended", False))
    assert not rows_of_format_2(store)
    assert format_that_version_1_reads(store) == 1
    return store.collections


def expected_of(made: Collections, config: IndexConfig) -> dict[str, object]:
    """Return what an index of format 2 with the same rows tells: it counts them itself."""
    store = MemoryStore(collections=copied(made))
    index = BM25Index.from_store(store, config=config)
    index.repair()
    return told(index)


def told(index: BM25Index) -> dict[str, object]:
    stats = index.stats()
    return {
        "hits": index.search("apple banana w1 fig", k=50, namespace=None),
        "in namespaces": {name: index.search("apple w1", k=50, namespace=name) for name in stats.namespaces},
        "stats": (stats.num_chunks, stats.namespaces, stats.mean_length),
        "terms": sorted(index._live.vocabulary()),
        "displaced": dict(index._live.view.displaced),
    }


def counts(index: BM25Index) -> dict[str, Count]:
    found = {}
    for name, total in index._live.log.statistics.contributions().items():
        df = dict(zip(total.ids.tolist(), total.df.tolist(), strict=True))
        found[name] = Count(total.num_chunks, total.total_length, df)
    return {name: count for name, count in found.items() if count != Count()}


def assert_sound(index: BM25Index, store: MemoryStore) -> None:
    index.refresh()
    assert index.damage == []
    assert counts(index) == recount(store.collections.chunks.values())
    assert index.verify().ok


def compact(index: BM25Index) -> None:
    index._live.log.compact(above=0)


def test_shapes_are_what_they_say(made: Collections, shape: dict[str, Any]) -> None:
    found = [key.split(":")[0] for key in made.log]
    assert ("snapshot" in found, "intent" in found) == (shape["folded"] > 0, "intent" in shape or "keep_ended" in shape)
    assert (found.count("config") > 2) == ("config_row" in shape)
    displaced = [row.meta["displaced"] for row in made.log.values() if row.kind == "terms"]
    assert any(displaced) == ("id_space" in shape)
    assert found.count("terms") >= 8


@pytest.mark.parametrize("exclusive", [True, False])
def test_index_of_format_1_opens_for_reading_without_any_write(
    made: Collections, shape: dict[str, Any], config: IndexConfig, exclusive: bool
) -> None:
    before = dict(made.log)
    store = MemoryStore(exclusive=exclusive, collections=made)
    index = BM25Index.from_store(store, config=config, read_only=True)
    assert index.damage == []
    if not shape.get("intent"):
        assert told(index) == expected_of(made, config)
        assert counts(index) == recount(made.chunks.values())
        assert index.verify().ok
    told(index)
    assert (writes(store), made.log) == ([], before)


def test_index_of_format_1_opens_for_writing_without_any_write(
    made: Collections, shape: dict[str, Any], config: IndexConfig
) -> None:
    store = MemoryStore(collections=made)
    index = BM25Index.from_store(store, config=config)
    assert told(index) == expected_of(made, config)
    if shape.get("intent"):
        assert "insert_log" in writes(store)  # the batch was finished
        assert_sound(index, store)
    else:
        assert writes(store) == []


def watched(made: Collections, *, exclusive: bool = True) -> tuple[StrictStore, list[tuple[str, int | None]]]:
    """Return a store that checks at every call that version 0.1 does not read what it does not know."""
    store = StrictStore(exclusive=exclusive, collections=made)
    seen: list[tuple[str, int | None]] = []

    def check(method: str) -> None:
        seen.append((method, version := format_that_version_1_reads(store)))
        if version == 1:
            assert rows_of_format_2(store) == []

    store.on_call = check
    return store, seen


ACTS: dict[str, Callable[[BM25Index], object]] = {
    "add": lambda index: index.add(["apple mango"], ids=["1"]),
    "delete": lambda index: index.delete(["1"]),
    "compaction": compact,
    "repair": lambda index: index.repair(),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("exclusive", [True, False])
def test_old_programs_refuse_an_index_before_its_first_row_of_format_2(
    made: Collections,
    shape: dict[str, Any],
    config: IndexConfig,
    act: str,
    exclusive: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if act == "compaction" and not (shape["folded"] < 8 or (exclusive and shape.get("intent"))):
        pytest.skip("there is nothing to fold")
    monkeypatch.setattr(statistics_log, "COMPACT_ABOVE", 2)
    store, seen = watched(made, exclusive=exclusive)
    index = BM25Index.from_store(store, config=config)
    ACTS[act](index)
    store.on_call("")
    store.on_call = None
    assert format_that_version_1_reads(store) == FORMAT == 2
    assert seen[0][1] == 1
    assert rows_of_format_2(store)
    if not index._live.log.has_intents:  # of a writer that may be alive
        assert_sound(index, store)
        assert_sound(BM25Index.from_store(store.reopen(), config=config), store)


def test_first_compaction_carries_an_index_over(made: Collections, config: IndexConfig) -> None:
    store, _ = watched(made)
    expected = expected_of(made, config)
    index = BM25Index.from_store(store, config=config)
    compact(index)
    for one in (index, BM25Index.from_store(store.reopen(), config=config)):
        assert told(one) == expected
        assert_sound(one, store)
    for number in range(3):
        index.add([f"mango {number}"], ids=["mango"])
        compact(index)
        assert_sound(BM25Index.from_store(store.reopen(), config=config), store)
        assert "snapshot" not in kinds(store)
    assert all("chunks_added" not in row.meta for row in made.log.values())


def test_reader_follows_a_writer_that_carries_the_index_over(
    made: Collections, shape: dict[str, Any], config: IndexConfig
) -> None:
    store = MemoryStore(exclusive="intent" in shape, collections=made)  # on a server, its writer may be alive
    writer = BM25Index.from_store(store, config=config)
    reader = BM25Index.from_store(store.reopen(), config=config, read_only=True, refresh_interval=0)
    for number in range(4):
        writer.add([f"apple mango {number}"], ids=["mango"])
        compact(writer)
        assert_sound(reader, store)
        assert told(reader) == told(writer)


def work(index: BM25Index) -> None:
    """Two batches and two compactions: what was of format 1 is gone."""
    for number in range(2):
        index.add([f"apple mango{number} durian", "banana fig"], ids=["1", f"new {number}"])
        compact(index)


@pytest.mark.parametrize("moment", ["before", "halfway", "after"])
def test_work_cut_short_at_any_call_loses_nothing(made: Collections, config: IndexConfig, moment: Moment) -> None:
    number_of_configs = len(keys_of(made.log, "config"))
    for call in itertools.count():
        store, _ = watched(copied(made))
        kept = {row.id: row.text for row in made.chunks.values() if row.id not in ("1", "new")}
        store.fail_at(call, moment)
        try:
            work(BM25Index.from_store(store, config=config))
        except StoreError:
            store.fail_at(None)
        else:
            assert call > 30
            return
        again, _ = watched(copied(store.collections))
        reading = BM25Index.from_store(
            MemoryStore(collections=copied(store.collections)), config=config, read_only=True
        )
        assert reading.damage == []
        index = BM25Index.from_store(again, config=config)
        assert_sound(index, again)
        found = {row.id: row.text for row in again.collections.chunks.values()}
        assert kept.items() <= found.items()
        work(index)
        for one in (index, BM25Index.from_store(again.reopen(), config=config)):
            assert_sound(one, again)
            assert {hit.id for hit in one.search("durian", k=9)} == {"1"}
        assert "snapshot" not in kinds(again)
        assert len(keys_of(again.collections.log, "config")) - number_of_configs in (0, 1, 2)
        assert format_that_version_1_reads(again) == FORMAT


# The config


def config_rows(made: Collections) -> set[int | None]:
    store = MemoryStore(collections=made)
    return {row.meta["format"] for key, row in store.collections.log.items() if key.startswith("config")}


def test_upgrade_keeps_the_config(made: Collections) -> None:
    store = StrictStore(collections=made)
    before = read_config(store)
    for _ in range(2):
        upgrade_format(store)
        assert read_config(store) == before
        assert config_rows(made) == {FORMAT}
    assert format_that_version_1_reads(store) == FORMAT


@pytest.mark.parametrize("moment", ["before", "halfway", "after"])
def test_upgrade_cut_short_is_done_by_the_next_one(made: Collections, moment: Moment) -> None:
    for call in itertools.count():
        store = StrictStore(collections=copied(made))
        before = read_config(store)
        store.fail_at(call, moment)
        try:
            upgrade_format(store)
        except StoreError:
            store.fail_at(None)
            assert read_config(store) == before
            upgrade_format(store)
            assert read_config(store) == before
            assert config_rows(store.collections) == {FORMAT}
            assert format_that_version_1_reads(store) == FORMAT
        else:
            assert call > 2
            return


def test_config_is_found_while_another_process_upgrades_it(made: Collections) -> None:
    """Its rows are listed before, and read afterwards."""
    for call in itertools.count():
        store = MemoryStore(exclusive=False, collections=copied(made))
        before = read_config(store.reopen())
        calls = itertools.count()

        def upgrade(_: str, store: MemoryStore = store, calls: itertools.count[int] = calls, call: int = call) -> None:
            if next(calls) == call:
                upgrade_format(store.reopen())

        store.on_call = upgrade
        assert read_config(store) == before, call
        upgrade_format(store)
        assert read_config(store) == before
        assert config_rows(store.collections) == {FORMAT}
        if next(calls) <= call:
            return


def test_config_has_another_number_of_rows_than_the_one_that_it_replaces() -> None:
    for number in (1, 2, 3):
        assert len(ConfigRow.encode({"a": 1}, other_than={1, number})) not in {1, number}
        rows = ConfigRow.encode({"a": 1}, other_than={1, number})
        assert ConfigRow.decode(rows) == {"a": 1}
