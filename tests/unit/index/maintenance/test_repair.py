from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.memory_store import MemoryStore, drop_log

from rag_bm25 import (
    BM25Index,
    ConfigMismatchError,
    FormatError,
    IndexConfig,
    IndexNotFoundError,
    Progress,
    RepairReport,
    StoreError,
)
from rag_bm25.documents.chunks import pk_digest
from rag_bm25.statistics.log.settings import ConfigRow
from rag_bm25.store.rows import ChunkRow
from rag_bm25.vectors.sparse import SparseVector
from rag_bm25.vectors.terms import term_id

QUERY = "apple fig"


@pytest.fixture
def filled(index: BM25Index) -> BM25Index:
    """Two namespaces, some batches, an update, a delete and a chunk without terms."""
    index.add(["apple pie", "banana split", "cherry", ""], ids=["1", "2", "3", "4"])
    index.add(["apple fig"], ids=["1"], namespace="x")
    index.add(["banana bread fig"], ids=["2"])
    index.delete(["3"])
    return index


def lose(store: MemoryStore, kind: str) -> None:
    for key in [key for key in store.log_keys() if key.startswith(kind)]:
        del store.collections.log[key]


def spoil(store: MemoryStore, kind: str, **change: Any) -> None:
    for key, row in store.collections.log.items():
        if row.kind == kind:
            store.collections.log[key] = replace(row, **change)


def mended(store: MemoryStore, config: IndexConfig, was: BM25Index) -> RepairReport:
    """Open with repair, and check that statistics and answers are what they were before the damage."""
    expected = was.search(QUERY, namespace=None), was.stats()
    index = BM25Index.from_store(store.reopen(), config=config, repair=True)
    again = BM25Index.from_store(store.reopen(), config=config)
    for one in (index, again):
        assert one.verify().differences == []
        assert (one.search(QUERY, namespace=None), one.stats()) == expected
    assert index.repaired is not None
    return index.repaired


def test_sound_index_stays_as_it_is(filled: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
    report = mended(store, config, filled)
    assert report == RepairReport(4, 5, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("kind", ["delta", "terms", ""])
def test_lost_rows(filled: BM25Index, store: MemoryStore, config: IndexConfig, kind: str) -> None:
    lose(store, kind)
    report = mended(store, config, filled)
    assert report.recovered_terms == (0 if kind == "delta" else 5)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("delta", {"meta": {}}),
        ("delta", {"meta": {"namespace": "", "chunks_added": "many"}}),
        ("terms", {"packed": "no base64!"}),
        ("terms", {"meta": {}}),
        ("config", {"packed": "AAAA"}),
    ],
)
def test_rows_that_cannot_be_read(
    filled: BM25Index, store: MemoryStore, config: IndexConfig, kind: str, change: dict[str, Any]
) -> None:
    spoil(store, kind, **change)
    with pytest.raises(FormatError, match=r"memory is damaged: its log row '.*' cannot be read .*Run repair"):
        BM25Index.from_store(store.reopen(), config=config).verify()
    mended(store, config, filled)


@pytest.mark.parametrize("kind", ["head", "run"])
def test_damaged_compaction(filled: BM25Index, store: MemoryStore, config: IndexConfig, kind: str) -> None:
    filled.repair()
    filled.search(QUERY, namespace=None)  # has read the counts
    spoil(store, kind, packed="AAAA")
    with pytest.raises(FormatError, match=r"memory is damaged: its log row '.*' cannot be read .*Run repair"):
        BM25Index.from_store(store.reopen(), config=config)
    mended(store, config, filled)


def test_foreign_keys_in_the_log(filled: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
    foreign = replace(next(iter(store.collections.log.values())), key="what:is:this", kind="delta")
    store.collections.log["delta-of-mine"] = replace(foreign, key="delta-of-mine")
    store.collections.log["what:is:this"] = foreign
    index = BM25Index.from_store(store.reopen(), config=config, repair=True)
    assert index.stats() == filled.stats()
    assert not {"delta-of-mine", "what:is:this"} & set(store.log_keys())


def test_two_rows_of_one_chunk_leave_the_newer_one(filled: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
    row = next(row for row in store.collections.chunks.values() if row.text == "apple pie")
    older = replace(row, pk=row.pk[:-1] + "b", batch="0", text="old apple")
    store.collections.chunks[older.pk] = older
    report = mended(store, config, filled)
    assert report.superseded == 1
    assert older.pk not in store.collections.chunks


def test_rows_of_other_tools_are_counted(filled: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
    vector = filled.encode_documents(["apple"])[0]
    store.insert_chunks([ChunkRow("mine", "m", "", 1, "0", "apple", {}, vector)])
    index = BM25Index.from_store(store.reopen(), config=config, repair=True)
    assert index.repaired is not None
    assert (index.repaired.foreign, index.stats().num_chunks) == (1, 5)
    assert [difference.what for difference in index.verify().differences] == ["rows under keys of other tools"]


def test_id_that_no_term_of_the_text_has_is_reported(
    filled: BM25Index, store: MemoryStore, config: IndexConfig
) -> None:
    pk, row = next((pk, row) for pk, row in store.collections.chunks.items() if row.text == "apple pie")
    store.collections.chunks["mine"] = replace(row, pk="mine", text="another text")  # ours would be written again
    del store.collections.chunks[pk]
    lose(store, "terms")
    index = BM25Index.from_store(store.reopen(), config=config, repair=True)
    assert index.repaired is not None
    assert index.repaired.nameless_terms == 1  # pie; apple is in another chunk too
    assert [difference.stored for difference in index.verify().differences] == [0, 0]  # and that of a foreign key


@pytest.mark.parametrize("changed", [{"vector": SparseVector.from_dict({7: 0.5, term_id("pie"): 0.1})}, {"length": 99}])
@pytest.mark.parametrize("lost", ["nothing", "terms", "delta"])
def test_chunks_that_differ_from_their_texts_are_written_again(
    filled: BM25Index, store: MemoryStore, reopened: Callable[..., BM25Index], changed: dict[str, Any], lost: str
) -> None:
    before, hits = filled.stats(), filled.search(QUERY)
    pk, row = next((pk, row) for pk, row in store.collections.chunks.items() if row.text == "apple pie")
    store.collections.chunks[pk] = replace(row, **changed)
    lose(store, lost)
    index = reopened(repair=True)
    assert index.repaired is not None
    assert (index.repaired.rewritten, index.repaired.nameless_terms) == (1, 0)
    assert (index.stats(), index.search(QUERY), index.problems) == (before, hits, [])
    assert index.verify().ok
    assert index.repair().rewritten == 0


def test_displaced_terms_are_found_again(
    tiny_id_space: int, filled: BM25Index, store: MemoryStore, config: IndexConfig
) -> None:
    lose(store, "terms")
    index = BM25Index.from_store(store.reopen(), config=config, repair=True)
    assert index.verify().differences == []
    assert index.search(QUERY) == filled.search(QUERY)


@pytest.mark.parametrize("failing", range(6))
@pytest.mark.parametrize("kind", ["delta", "terms"])
def test_repair_that_fails_at_any_write_can_be_run_again(
    filled: BM25Index, store: MemoryStore, config: IndexConfig, failing: int, kind: str
) -> None:
    lose(store, kind)
    broken, calls = store.reopen(), iter(range(100))

    def fail(method: str) -> None:
        if method.startswith(("insert", "delete")) and next(calls) == failing:
            raise StoreError("lost")

    broken.on_call = fail
    try:
        BM25Index.from_store(broken, config=config, repair=True)
    except StoreError:
        assert failing < 5
    mended(store, config, filled)


def test_lost_config_is_replaced_by_the_given_one(filled: BM25Index, store: MemoryStore, config: IndexConfig) -> None:
    lose(store, "config")
    with pytest.raises(FormatError, match="its config is lost; open it with repair=True and the config that it had"):
        BM25Index.from_store(store.reopen(), config=config)
    mended(store, config, filled)


@pytest.mark.parametrize("given", [True, False])
def test_lost_collection_of_statistics_is_told_and_made_anew(
    filled: BM25Index, store: MemoryStore, config: IndexConfig, given: bool
) -> None:
    drop_log(store)
    with pytest.raises(FormatError) as caught:
        BM25Index.from_store(store.reopen(), config=config if given else None, repair=not given)
    assert str(caught.value) == (
        "memory is damaged: its statistics are lost, with its config; "
        "open it with repair=True and the config that it had, or run `rag-bm25 repair`, with --set for each "
        "parameter that was not the default"
    )
    assert not store.exists()
    mended(store, config, filled)


@pytest.mark.parametrize("change", [{"chunk_size": 5}, {"k1": 1.2}, {"length_unit": "characters"}, {"analyzer": list}])
def test_lost_config_is_not_replaced_by_another(
    filled: BM25Index, store: MemoryStore, config: IndexConfig, change: dict[str, Any]
) -> None:
    drop_log(store)
    with pytest.raises(ConfigMismatchError) as caught:
        BM25Index.from_store(store.reopen(), config=replace(config, **change), repair=True)
    assert str(caught.value) == (
        "the config does not reproduce the vectors of memory: 3 of 4 chunks differ. "
        "Give the config that the index was created with."
    )
    assert not store.exists()


@pytest.mark.parametrize("kind", ["config", "delta"])
def test_statistics_without_chunks_are_no_index(
    filled: BM25Index, store: MemoryStore, config: IndexConfig, kind: str
) -> None:
    filled._live.log.compact(above=0)
    filled.add(["mango"])
    lose(store, kind)
    store.collections.chunks.clear()
    store.collections.exist = False
    with pytest.raises(FormatError, match="rows of an index that was dropped halfway: drop it"):
        BM25Index.from_store(store.reopen(), config=config, repair=True)


def test_index_that_is_not_there_cannot_be_repaired(store: MemoryStore) -> None:
    with pytest.raises(IndexNotFoundError):
        BM25Index.from_store(store, repair=True)


def test_progress_counts_every_row(filled: BM25Index) -> None:
    told: list[Progress] = []
    filled.repair(progress=told.append)
    filled.verify(progress=told.append)
    assert told == [Progress("rows counted", 4, 4)] * 2


@pytest.mark.parametrize(
    "config_row", [{"meta": {}}, {"meta": {"format": "1"}}, {"packed": "?"}, {"key": "config:x:0:1"}]
)
def test_parameters_that_cannot_be_read_are_replaced_by_the_given_ones(
    filled: BM25Index, store: MemoryStore, config: IndexConfig, config_row: dict[str, Any]
) -> None:
    [key] = [key for key in store.log_keys() if key.startswith("config:")]
    row = replace(store.collections.log.pop(key), **config_row)
    store.collections.log[row.key] = row
    with pytest.raises(FormatError):
        BM25Index.from_store(store.reopen(), config=config)
    mended(store, config, filled)


def test_parameters_of_another_shape_are_replaced_by_the_given_ones(
    filled: BM25Index, store: MemoryStore, config: IndexConfig
) -> None:
    [row] = ConfigRow.encode({"document": {}}, filled._live.log.birth)
    store.collections.log[row.key] = row
    with pytest.raises(FormatError, match="the stored parameters are damaged"):
        BM25Index.from_store(store.reopen(), repair=True)
    mended(store, config, filled)


@pytest.mark.parametrize(
    ("version", "way_out"), [(2, "`rag-bm25 reindex --to-collection NAME` makes"), (6, "upgrade rag_bm25")]
)
def test_an_index_of_another_format_is_not_repaired(
    filled: BM25Index, store: MemoryStore, config: IndexConfig, version: int, way_out: str
) -> None:
    spoil(store, "config", meta={"format": version})
    with pytest.raises(FormatError, match=way_out):
        BM25Index.from_store(store.reopen(), config=config, repair=True)


class RepeatingStore(MemoryStore):
    """A server that has stored a row twice: it counts it twice, and reads it once."""

    repeated: frozenset[str] = frozenset()

    def doubled_pks(self) -> list[str]:
        return sorted(self.repeated)

    def count_chunks(self) -> int:
        return super().count_chunks() + len(self.repeated)

    def delete_chunks(self, pks: Sequence[str]) -> None:
        self.repeated = self.repeated.difference(pks)
        super().delete_chunks(pks)


def test_rows_that_a_server_has_stored_twice_are_told_and_stored_once(config: IndexConfig) -> None:
    store = RepeatingStore()
    index = BM25Index.from_store(store, config=config)
    index.add(["apple", "banana"], ids=["a", "b"])
    store.repeated = frozenset({pk_digest("", "a") + "a"})
    damaged = BM25Index.from_store(store, config=config)
    assert damaged.problems == ["the statistics count 2 chunks, but 3 are stored"]
    assert [str(found) for found in damaged.verify().differences] == [
        "chunks stored twice under one key: stored 0, counted 1"
    ]
    assert damaged.repair().superseded == 1
    assert sorted(store.collections.chunks) == sorted([pk_digest("", "a") + "b", pk_digest("", "b") + "a"])
    assert damaged.verify().ok
    assert BM25Index.from_store(store, config=config).problems == []
