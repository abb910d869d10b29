"""The next generation of an index under the same name: nothing is lost, whoever writes, wherever it is cut short."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from support.clocks import Clocks
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, IndexConfig, ParameterError, QueryWeighting, StoreError
from rag_bm25.errors import ConfigMismatchError, IndexNotFoundError, ReadOnlyError
from rag_bm25.events import Progress
from rag_bm25.index import copy_index, drop_former_generations, drop_index, dry_run
from rag_bm25.index.maintenance import generations
from rag_bm25.ingestion import reindex
from rag_bm25.ingestion.source_roots import SourceRoot, read_source_roots, set_source_roots
from rag_bm25.store import memory
from rag_bm25.store.rows import ChunkRow, LogRow

TEXTS = {f"{number}": f"w{number % 7} w{number % 5} w{number}" for number in range(40)}


def reverse(text: str) -> list[str]:
    """Analyse in another way."""
    return [word[::-1] for word in text.split()]


@pytest.fixture
def other(config: IndexConfig) -> IndexConfig:
    return replace(config, chunk_size=9, k1=0.9)


@pytest.fixture(params=[True, False], ids=["embedded", "server"])
def store(request: pytest.FixtureRequest) -> MemoryStore:
    return MemoryStore(exclusive=request.param)


def filled(store: MemoryStore, config: IndexConfig) -> BM25Index:
    index = BM25Index.from_store(store, config=config)
    index.add(list(TEXTS.values()), ids=list(TEXTS))
    index.add(["a tenant"], ids=["1"], namespace="x")
    return index


def texts_of(index: BM25Index) -> dict[str, str]:
    return {chunk.id: chunk.text for chunk in index.chunks()}


def fresh(store: MemoryStore, analyzer: Callable[[str], list[str]] = split) -> BM25Index:
    """Open the index by its name, as another process does."""
    return BM25Index.from_store(store.reopen(), analyzer=analyzer)


def assert_sound(index: BM25Index, expected: dict[str, str] = TEXTS) -> None:
    assert texts_of(index) == expected
    assert index.verify().differences == []
    assert index.problems == []


def test_the_next_generation_is_what_ingesting_anew_gives(store: MemoryStore, config: IndexConfig) -> None:
    index, other = filled(store, config), replace(config, chunk_size=9, analyzer=reverse)
    index.delete(["3"])
    report = reindex(index, other)
    again = BM25Index.from_store(MemoryStore(), config=other)
    again.add([text for id_, text in TEXTS.items() if id_ != "3"], ids=[id_ for id_ in TEXTS if id_ != "3"])
    again.add(["a tenant"], ids=["1"], namespace="x")
    for one in (index, fresh(store, reverse)):
        assert (one.config.chunk_size, one.stats().num_chunks) == (9, 40)
        assert one.search("w3 w9", namespace=None) == again.search("w3 w9", namespace=None)
        assert one.verify().differences == []
    assert (report.num_chunks, report.removed) == (40, 0)


def test_open_indexes_follow(store: MemoryStore, config: IndexConfig, other: IndexConfig) -> None:
    """Those of an embedded engine at once, those of a server when they refresh."""
    index = filled(store, config)
    given = BM25Index.from_store(store.reopen(), config=replace(config, idf="lucene", query_k1=1.2))
    stored = BM25Index.from_store(store.reopen(), read_only=True, analyzer=split)
    before = given.search("w3")
    reindex(index, replace(other, idf="plus"))
    if not store.exclusive:
        assert given.search("w3") == before
        given.refresh()
        stored.refresh()
    index.add(["w3 newest"], ids=["new"])
    if not store.exclusive:
        given.refresh()
        stored.refresh()
    assert [one.config.chunk_size for one in (given, stored)] == [9, 9]
    assert [one.config.idf for one in (given, stored)] == ["lucene", "plus"]  # what was given at opening stays
    assert [(one.config.k1, one.config.query_k1) for one in (given, stored)] == [(0.9, 1.2), (0.9, None)]
    assert given.search("w3", k=99, weighting=QueryWeighting(idf="plus", k1=None)) == stored.search("w3", k=99)
    assert "new" in {hit.id for hit in stored.search("w3", k=99)}


def test_a_dry_run_never_writes_to_the_next_generation(
    store: MemoryStore, config: IndexConfig, other: IndexConfig
) -> None:
    index, writer = filled(store, config), fresh(store)
    with dry_run(index) as trial:
        with pytest.raises(StoreError, match=r"a dry run of .* ends with that generation"):
            reindex(trial, other)
        assert index.config == trial.config == config
        assert not store.successor().has_collections()
        reindex(writer, other)
        with suppress(StoreError):  # on a server it has not looked yet
            trial.refresh()
        with pytest.raises(StoreError, match="begin another dry run"):
            trial.add(["w3 tried"], ids=["tried"])
    with dry_run(index) as trial:
        trial.add(["w3 tried"], ids=["tried"])
        with pytest.raises(StoreError, match=r"generation 1 \(41 rows\)"):  # as the index itself does
            trial.repair(erase=True)
        drop_former_generations(store.reopen())
        trial.repair(erase=True)
        assert "compact" not in store.calls
    index.refresh()
    assert index.config.chunk_size == other.chunk_size
    assert_sound(index)


def test_where_the_next_analyzer_is_not_at_hand_what_analyses_is_refused(
    store: MemoryStore, config: IndexConfig
) -> None:
    index, other = filled(store, config), BM25Index.from_store(store.reopen(), config=config)
    reindex(index, replace(config, analyzer=reverse))
    other.refresh()
    assert texts_of(other) == TEXTS
    assert other.delete(["3"]) == 1
    for refused in (lambda: other.search("w3"), lambda: other.add(["w3"])):
        with pytest.raises(ConfigMismatchError, match="reverse: pass that callable"):
            refused()
    assert fresh(store, reverse).stats().num_chunks == 40


def test_a_config_that_differs_is_refused_when_the_index_is_opened(
    store: MemoryStore, config: IndexConfig, other: IndexConfig
) -> None:
    reindex(filled(store, config), other)
    with pytest.raises(ConfigMismatchError, match="chunk_size: stored 9"):
        BM25Index.from_store(store.reopen(), config=config)


@pytest.mark.parametrize("change", ["add", "delete", "drop_namespace"])
def test_a_write_that_meets_the_switch_is_written_to_the_next_generation(
    change: str, store: MemoryStore, config: IndexConfig, other: IndexConfig
) -> None:
    """Its index knows nothing of the switch, and has everything at hand for the present one."""
    index, late = filled(store, config), BM25Index.from_store(store.reopen(), config=config)
    late.search("w3")
    begun = late._pipeline
    reindex(index, other)
    if change == "add":
        begun.add(["w3 late"], ["late"], None, None, late_options())
        expected = {**TEXTS, "late": "w3 late"}
    elif change == "delete":
        assert begun.delete(["3"], None, "") == 1
        expected = {id_: text for id_, text in TEXTS.items() if id_ != "3"}
    else:
        assert begun.drop_namespace("") == 40
        expected = {}
    assert_sound(fresh(store), expected)
    assert texts_of(late) == expected


def late_options() -> generations.WriteOptions:
    return generations.WriteOptions("", assume_new=True, workers=0)


def test_a_stream_goes_on_in_the_next_generation(store: MemoryStore, config: IndexConfig, other: IndexConfig) -> None:
    index, late = filled(store, config), BM25Index.from_store(store.reopen(), config=config)

    def stream() -> object:
        for number in range(2_500):
            if number == 1_500:
                reindex(index, other)
            yield chunk(f"new-{number}")

    report = late.add_stream(stream())  # type: ignore[arg-type]
    assert report.added == 2_500
    assert_sound(fresh(store), {**TEXTS, **{f"new-{number}": f"w{number}" for number in range(2_500)}})


def chunk(id_: str) -> object:
    from rag_bm25 import Chunk

    return Chunk(id_, f"w{id_.removeprefix('new-')}", {})


@pytest.mark.parametrize("compacted", [False, True])
def test_what_is_written_meanwhile_is_carried_over(
    compacted: bool, store: MemoryStore, config: IndexConfig, other: IndexConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the log no longer tells what that was."""
    index, writer = filled(store, config), BM25Index.from_store(store.reopen(), config=config)
    catch_up, rounds = generations._Copying.catch_up, []

    def writing_meanwhile(copying: generations._Copying) -> int:
        rounds.append(catch_up(copying))
        if len(rounds) == 1:
            writer.add(["w1 updated", "w1 added"], ids=["1", "added"])
            writer._live.log.compact(above=0 if compacted else 99)
            writer.delete(["2"])
            writer._live.log.compact(above=0 if compacted else 99)
        return rounds[-1]

    monkeypatch.setattr(generations._Copying, "catch_up", writing_meanwhile)
    assert reindex(index, other).removed == 1
    assert rounds == [41, 3]
    expected = {**TEXTS, "1": "w1 updated", "added": "w1 added"}
    del expected["2"]
    assert_sound(fresh(store), expected)


def test_source_roots_and_dense_vectors_come_along(store: MemoryStore, config: IndexConfig) -> None:
    dense = replace(config, dense_dim=2)
    index = BM25Index.from_store(store, config=dense)
    index.add(["apple", "fig"], ids=["a", "b"], embeddings=np.array([[1, 0], [0, 1]], np.float32))
    set_source_roots(index, [SourceRoot("docs", "/srv/docs")])
    reindex(index, replace(dense, k1=0.9))
    assert [root.path for root in read_source_roots(index)] == ["/srv/docs"]
    assert index.get_embeddings(["b"])["b"].tolist() == [0, 1]
    with pytest.raises(ParameterError, match="dense_dim and dense_metric of the target must be those of the source"):
        reindex(index, config)


def test_generations_are_dropped_and_copied_and_listed_under_one_name(
    store: MemoryStore, config: IndexConfig, other: IndexConfig
) -> None:
    index = filled(store, config)
    for k1 in (0.7, 0.8):
        reindex(index, replace(other, k1=k1))
    assert drop_former_generations(store.reopen()) == 2 * 41
    assert drop_former_generations(store.reopen()) == 0
    assert store.collections.chunks == {}
    assert_sound(fresh(store))
    copy_index(store.reopen(), copied := MemoryStore())
    assert_sound(fresh(copied))
    assert drop_index(store.reopen(), dry_run=True) == 41
    assert drop_index(store.reopen()) == 41
    with pytest.raises(IndexNotFoundError):
        fresh(store)
    assert BM25Index.from_store(store.reopen(), config=config).stats().num_chunks == 0


def test_what_another_process_stores_beside_chunks_comes_to_the_next_generation(
    store: MemoryStore, config: IndexConfig, other: IndexConfig
) -> None:
    """It has not looked since the reindex; a model is fitted to the next generation."""
    index, model, roots, spaces = (filled(store, config), *(fresh(store) for _ in range(3)))
    set_source_roots(index, [SourceRoot("x", "/x")], namespace="x")
    reindex(index, other)
    assert set_source_roots(roots, [SourceRoot("docs", "/docs")])[0].name == "docs"
    assert spaces.drop_namespace("x") == 1
    queries = list(TEXTS.values())
    is_answer = lambda query, hit: hit.text == query and hit.id not in "01234567"  # noqa: E731
    assert model.calibrate_answers(queries, is_answer).model.weighting == other.query_weighting()
    index.refresh()
    assert [root.path for root in read_source_roots(index)] == ["/docs"]
    assert read_source_roots(index, namespace="x") == []
    assert "x" not in index.stats().namespaces
    for one in (index, fresh(store)):
        assert one.search("w3")[0].confidence is not None
    assert index.verify().differences == []


def test_one_reindexes_at_a_time(store: MemoryStore, config: IndexConfig, other: IndexConfig) -> None:
    index, second = filled(store, config), BM25Index.from_store(store.reopen(), config=config)
    refused = []

    def again(method: str) -> None:
        if method == "scan_chunks" and not refused:
            refused.append(method)
            with pytest.raises(StoreError, match="is being reindexed by another"):
                reindex(second, replace(other, k1=0.5))

    store.on_call = again
    reindex(index, other)
    assert refused
    assert_sound(fresh(store))


def test_two_indexes_of_one_database_are_reindexed_at_a_time(config: IndexConfig, other: IndexConfig) -> None:
    stores = [memory.MemoryStore(name) for name in ("left", "right")]
    stores[1].collections.write_lock = stores[0].collections.write_lock
    left, right = (BM25Index.from_store(store, config=config) for store in stores)
    for index in (left, right):
        index.add(list(TEXTS.values()), ids=list(TEXTS))

    def meanwhile(_: Progress) -> None:
        if right.config != other:
            reindex(right, other)

    reindex(left, other, progress=meanwhile)
    assert [index.config.chunk_size for index in (left, right)] == [9, 9]
    for index in (left, right):
        assert_sound(index)


def test_rows_of_other_tools_come_along(
    store: MemoryStore, config: IndexConfig, other: IndexConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an attempt that was cut short has carried them over."""
    index, again = filled(store, config), filled(MemoryStore(), other)
    again.add(["w3 of theirs"], ids=["theirs"])
    (vector,) = index.encode_documents(["w3 of theirs"])
    store.insert_chunks([ChunkRow(pk, "theirs", "", 3, "0", "w3 of theirs", {}, vector) for pk in ("mine", "m")])
    monkeypatch.setattr(generations, "copy_roots", None)
    with pytest.raises(TypeError):
        reindex(index, other)
    monkeypatch.undo()
    reindex(index, other)
    assert_sound(index, {**TEXTS, "theirs": "w3 of theirs"})
    assert index.search("w3", k=99) == again.search("w3", k=99)


def test_an_index_that_is_behind_reindexes_the_generation_in_force(
    store: MemoryStore, config: IndexConfig, other: IndexConfig
) -> None:
    index, behind = filled(store, config), BM25Index.from_store(store.reopen(), config=config)
    reindex(index, other)
    index.add(["w3 newest"], ids=["new"])
    assert reindex(behind, replace(other, k1=0.5)).num_chunks == 42
    assert_sound(fresh(store), {**TEXTS, "new": "w3 newest"})
    assert fresh(store).config.k1 == 0.5


def test_statistics_of_a_former_generation_are_freed(
    store: MemoryStore, config: IndexConfig, other: IndexConfig
) -> None:
    index = filled(store, config)
    begun, former = index.chunks(), weakref.ref(index._generation.live)
    next(begun)
    reindex(index, other)
    gc.collect()
    assert former() is None
    assert len(list(begun)) == len(TEXTS) - 1
    index.close()
    assert store.closed


def test_what_an_index_is_called_asks_no_engine(store: MemoryStore, config: IndexConfig, other: IndexConfig) -> None:
    index, behind = filled(store, config), BM25Index.from_store(reopened := store.reopen(), config=config)
    reindex(index, other)
    reopened.calls.clear()
    assert repr(behind) == "<BM25Index memory: 41 chunks, open>"
    assert reopened.calls == []


def test_who_may_not_write_may_not_reindex(store: MemoryStore, config: IndexConfig, other: IndexConfig) -> None:
    filled(store, config)
    with pytest.raises(ReadOnlyError):
        reindex(BM25Index.from_store(store.reopen(), config=config, read_only=True), other)


def test_a_name_that_a_generation_could_have_is_refused() -> None:
    with pytest.raises(ParameterError, match="not end in __g and a number"):
        memory.MemoryStore("docs__g2")


def killed_in_the_last_round(store: MemoryStore, config: IndexConfig, other: IndexConfig) -> None:
    """On a server, nobody opens the index to writers after a kill."""
    deaths = [10_000]
    index = BM25Index.from_store(Dying(store, deaths), config=config)
    index.add(["apple"], ids=["a"])
    roots = generations.copy_roots

    def die(*stores: MemoryStore) -> None:
        deaths[0] = 0
        roots(*stores)
        stores[1].insert_log([])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generations, "copy_roots", die)
        with pytest.raises(StoreError, match="dead"):
            reindex(index, other)


def test_writers_of_a_server_wait_for_the_switch_and_refuse_where_it_does_not_come(
    config: IndexConfig, other: IndexConfig, clocks: Clocks
) -> None:
    store = MemoryStore(exclusive=False)
    killed_in_the_last_round(store, config, other)
    writer, began = BM25Index.from_store(store.reopen(), config=config), clocks.monotonic
    with pytest.raises(StoreError, match="has been closed to writers for 60 s, by a reindex that is about to end"):
        writer.add(["fig"])
    assert clocks.monotonic - began >= 60
    assert writer.search("apple")
    with pytest.raises(StoreError, match="killed less than 10 minutes ago"):
        reindex(writer, other)
    clocks.wait(600)
    reindex(writer, config)  # no other settings: it keeps what is there
    writer.add(["fig"], ids=["b"])
    assert_sound(fresh(store), {"a": "apple", "b": "fig"})
    assert fresh(store).config == config


def test_an_index_that_was_interrupted_at_the_switch_finds_out_whether_it_took_place(
    store: MemoryStore, config: IndexConfig, other: IndexConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, supersede = filled(store, config), generations.supersede

    def interrupted(of: MemoryStore) -> None:
        supersede(of)
        raise KeyboardInterrupt

    monkeypatch.setattr(generations, "supersede", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reindex(index, other)
    index.add(["w3 after"], ids=["after"])
    assert_sound(fresh(store), {**TEXTS, "after": "w3 after"})


@pytest.mark.parametrize(("call", "method"), [("add", "insert_chunks"), ("update", "delete_chunks")])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_batch_that_the_last_round_may_have_missed_is_written_again(
    call: str, method: str, moment: str, config: IndexConfig, other: IndexConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a server, where the switch comes between the intent of a batch and its acknowledgement."""
    store = MemoryStore(exclusive=False)
    index, writer = filled(store, config), BM25Index.from_store(store.reopen(), config=config)
    write, done = getattr(writer._store, method), []

    def meet(items: list[object]) -> None:
        monkeypatch.undo()
        if moment == "before":
            reindex(index, other)
        write(items)
        if moment == "after":
            reindex(index, other)
        done.append(method)

    monkeypatch.setattr(writer._store, method, meet)
    id_ = "new" if call == "add" else "3"
    assert writer.add(["w3 met"], ids=[id_]) == [id_]
    assert done == [method]
    assert_sound(fresh(store), {**TEXTS, id_: "w3 met"})
    assert texts_of(writer) == texts_of(fresh(store))


def test_a_reindex_that_was_taken_for_dead_changes_nothing(
    config: IndexConfig, other: IndexConfig, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore(exclusive=False)
    index, second = filled(store, config), BM25Index.from_store(store.reopen(), config=config)
    catch_up, rounds = generations._Copying.catch_up, []

    def sleeping(copying: generations._Copying) -> int:
        carried = catch_up(copying)
        rounds.append(carried)
        if len(rounds) == 2:
            clocks.wait(601)
            reindex(second, replace(other, k1=0.5))
            second.add(["w1 later"], ids=["later"])
        return carried

    monkeypatch.setattr(generations._Copying, "catch_up", sleeping)
    with pytest.raises(StoreError, match="another process has taken over the reindex"):
        reindex(index, other)
    assert_sound(fresh(store), {**TEXTS, "later": "w1 later"})
    assert fresh(store).config.k1 == 0.5


class Dying(MemoryStore):
    """A store of a process that ends at a call: that one and all later ones fail, also those of its other stores."""

    def __init__(self, store: MemoryStore, deaths: list[int]) -> None:
        super().__init__(exclusive=store.exclusive, collections=store.collections)
        self.deaths = deaths

    def reopen(self) -> Dying:
        return Dying(self, self.deaths)

    def insert_log(self, rows: list[LogRow], *, defer: bool = False) -> None:  # type: ignore[override]
        self._die_or(lambda: super(Dying, self).insert_log(rows, defer=defer))

    def delete_log(self, keys: list[str]) -> None:  # type: ignore[override]
        self._die_or(lambda: super(Dying, self).delete_log(keys))

    def insert_chunks(self, rows: list[generations.ChunkRow]) -> None:  # type: ignore[override]
        self._die_or(lambda: super(Dying, self).insert_chunks(rows))

    def delete_chunks(self, pks: list[str]) -> None:  # type: ignore[override]
        self._die_or(lambda: super(Dying, self).delete_chunks(pks))

    def drop_chunks(self) -> None:
        self._die_or(super().drop_chunks)

    def _die_or(self, write: Callable[[], None]) -> None:
        self.deaths[0] -= 1
        if self.deaths[0] < 0:
            raise StoreError("dead")
        write()


def test_killed_at_any_write_it_leaves_a_whole_index_and_comes_to_its_end_when_run_again(
    store: MemoryStore, config: IndexConfig, other: IndexConfig, clocks: Clocks
) -> None:
    for step in count():
        rows = MemoryStore(exclusive=store.exclusive)
        filled(rows, config)
        deaths = [10_000]
        index = BM25Index.from_store(Dying(rows, deaths), config=config)
        deaths[0] = step
        try:
            reindex(index, other)
            drop_former_generations(Dying(rows, deaths))
            break
        except StoreError as error:
            assert "dead" in str(error)  # noqa: PT017 - each step is one
        assert_sound(fresh(rows))
        clocks.wait(601)  # on a server, its claim ends
        again = fresh(rows)
        again.add(["w1 between"], ids=["between"]) if store.exclusive else None
        reindex(again, other)
        drop_former_generations(rows.reopen())
        expected = {**TEXTS, "between": "w1 between"} if store.exclusive else TEXTS
        assert_sound(fresh(rows), expected)
        assert fresh(rows).config.chunk_size == 9
        assert not rows.collections.chunks
    assert step > 8
