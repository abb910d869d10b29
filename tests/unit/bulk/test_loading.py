"""Merged files are loaded, or imported by a server."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from support.bulk_files import answers
from support.faulty_store import FaultyStore, Moment
from support.memory_store import MemoryStore

from rag_bm25 import (
    BM25Index,
    ConfigMismatchError,
    FormatError,
    IndexConfig,
    InputError,
    Progress,
    StoreError,
)
from rag_bm25.bulk import LoadReport, encode_part, load, load_by_import, merge
from rag_bm25.bulk.rows import read_groups, rows_of
from rag_bm25.index.maintenance.copying import drop_index
from rag_bm25.store.rows import ImportState

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyarrow")


class TestLoading:
    def test_a_loaded_index_is_one_like_any_other(self, merged: Path, config: IndexConfig) -> None:
        store = MemoryStore()
        assert load(merged, store.reopen()) == LoadReport(5, 6, 5)
        with BM25Index.from_store(store.reopen(), config=config) as index:
            index.add(["apple tart", "new"], ids=["1", "6"])
            index.delete(["2"])
            assert index.verify().differences == []
            assert [hit.text for hit in index.search("apple")] == ["apple tart"]
            assert index.stats().num_chunks == 5

    def test_progress_is_told(self, merged: Path) -> None:
        told: list[Progress] = []
        load(merged, MemoryStore(), progress=told.append)
        assert told == [Progress("chunks loaded", done, 5) for done in (2, 3, 5)]

    @pytest.mark.parametrize("name", ["../secret.parquet", "/secret.parquet", "a/b.parquet", "", "..", 7, None])
    def test_a_file_outside_of_the_folder_is_not_read(self, merged: Path, name: object) -> None:
        manifest = json.loads((merged / "manifest.json").read_text())
        manifest["parts"][0]["data"]["name"] = name
        (merged / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(FormatError, match=r"must be in that folder, got|is missing: "):
            load(merged, MemoryStore())

    @pytest.mark.parametrize("damage", ["[" * 100_000, '{"kind": "rag_bm25 bulk load", "format": "1"}', "[]"])
    def test_a_manifest_of_another_shape_is_refused(self, merged: Path, damage: str) -> None:
        (merged / "manifest.json").write_text(damage)
        with pytest.raises(FormatError, match=r"manifest\.json (is damaged|has format '1')"):
            load(merged, MemoryStore())

    def test_what_is_damaged_is_not_loaded(self, merged: Path) -> None:
        for name in ("vocabulary.parquet", "statistics.parquet", "part-000002.parquet"):
            sound = (merged / name).read_bytes()
            (merged / name).write_bytes(sound[:-1] + b"?")
            store = MemoryStore()
            with pytest.raises(FormatError, match=f"{name} is damaged"):
                load(merged, store.reopen())
            with pytest.raises(Exception, match=r"there is no index|unfinished copy of the files in"):
                BM25Index.from_store(store)
            (merged / name).write_bytes(sound)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("{", "is damaged"),
            ("[]", "is damaged"),
            ('{"kind": "x", "format": 1}', "is not a file of"),
            ("{}", "damaged"),
        ],
    )
    def test_a_manifest_that_is_none_is_refused(self, text: str, said: str, merged: Path) -> None:
        (merged / "manifest.json").write_text(text)
        with pytest.raises(FormatError, match=said):
            load(merged, MemoryStore())

    def test_a_place_that_is_taken_is_refused(self, merged: Path, index: BM25Index, store: MemoryStore) -> None:
        index.add(["apple"])
        before = dict(store.collections.chunks)
        with pytest.raises(InputError, match=r"memory already exists\. Drop it first"):
            load(merged, store.reopen())
        assert store.collections.chunks == before

    def test_the_beginning_of_another_load_is_refused(self, merged: Path, config: IndexConfig, tmp_path: Path) -> None:
        store = begun(merged)
        encode_part([{"text": "other"}], config, merged, 2)
        merge(merged)
        with pytest.raises(ConfigMismatchError, match="which differs from the files in"):
            load(merged, store.reopen())
        drop_index(store.reopen())
        assert load(merged, store.reopen()).loaded == 4

    def test_running_again_loads_what_is_missing(self, merged: Path, config: IndexConfig) -> None:
        store = begun(merged)
        merge(merged)  # changes nothing
        assert load(merged, store.reopen()).loaded == 3
        assert answers(store, config) == answers(loaded(merged), config)

    @pytest.mark.parametrize("moment", ["before", "halfway", "after"])
    def test_fault_at_any_call(self, merged: Path, config: IndexConfig, moment: Moment) -> None:
        expected, failures = answers(loaded(merged), config), 0
        for call in range(100):
            target = FaultyStore()
            target.fail_at(call, moment)
            try:
                load(merged, target)
            except StoreError:
                failures += 1
                load_or_keep(merged, target)
            else:
                break
            assert answers(target, config) == expected
        assert 5 < failures < 99

    def test_kill_before_any_call(self, merged: Path, config: IndexConfig) -> None:
        expected, failures = answers(loaded(merged), config), 0
        for left in range(100):
            target = MemoryStore()
            target.on_call = partial(die_after, target, left)
            try:
                load(merged, target)
            except KeyboardInterrupt:
                failures += 1
                load_or_keep(merged, target)
            else:
                break
            assert answers(target, config) == expected
        assert 5 < failures < 99

    def test_rows_that_went_missing_are_noticed(self, merged: Path) -> None:
        class Lossy(MemoryStore):
            def count_chunks(self) -> int:
                return max(super().count_chunks() - 1, 0)

        with pytest.raises(StoreError, match=r"has 4 of 5 chunks after loading\. Run the same load again"):
            load(merged, Lossy())


def die_after(store: MemoryStore, left: int, _: str) -> None:
    if len(store.calls) > left:
        raise KeyboardInterrupt


def loaded(folder: Path) -> MemoryStore:
    store = MemoryStore()
    load(folder, store.reopen())
    return store


def begun(folder: Path) -> MemoryStore:
    """A load that ends with its second batch."""
    store = FaultyStore()
    store.on_call = lambda _: stop() if store.calls.count("insert_chunks") == 2 else None
    with pytest.raises(StoreError, match="stop"):
        load(folder, store)
    return store.reopen()


def stop() -> None:
    raise StoreError("stop")


def load_or_keep(folder: Path, target: MemoryStore) -> None:
    """Half a load is nothing; run it again, unless its very last call was done although it failed."""
    kinds = {row.kind for row in target.collections.log.values()}
    if "copy" in kinds:
        for options in ({}, {"read_only": True}):
            with pytest.raises(
                FormatError, match=r"is an unfinished copy of the files in .*\. Run the same copy or load"
            ):
                BM25Index.from_store(target.reopen(), **options)
    if "config" in kinds and "copy" not in kinds:
        with pytest.raises(InputError, match="memory already exists"):
            load(folder, target.reopen())
        return
    load(folder, target.reopen())


class Server(MemoryStore):
    """Reads files from a folder that is its bucket; a job is finished when it was asked for three times."""

    def __init__(self, bucket: Path, **options: Any) -> None:
        super().__init__(**options)
        self.bucket = bucket
        self.jobs: dict[int, str] = {}
        self.asked: dict[int, int] = {}
        self.failing = ""
        self.refreshed = False
        self.visible = set[Any]()

    def require_imports(self) -> None:
        self.calls.append("require_imports")

    def start_import(self, path: str) -> int:
        self._check_call("start_import")
        self.jobs[len(self.jobs) + 1] = path
        self.asked[len(self.jobs)] = 0
        return len(self.jobs)

    def import_state(self, job: int) -> ImportState:
        self._check_call("import_state")
        path = self.jobs[job]
        if self.failing and path.endswith(self.failing):
            return ImportState(finished=False, failure="schema not equal")
        self.asked[job] += 1
        if self.asked[job] == 3:
            for table in read_groups(self.bucket / path):
                self.insert_chunks(rows_of(table))
        return ImportState(finished=self.asked[job] >= 3)

    def imports_under_way(self) -> list[int]:
        return [job for job in self.jobs if not self.import_state(job).finished]

    def after_imports(self) -> None:
        self.refreshed = True
        self.visible = set(self.collections.chunks)

    def count_batch(self, batch: str) -> int:
        """Count what was there when the rows were made visible last."""
        return sum(row.batch == batch for key, row in self.collections.chunks.items() if key in self.visible)


class TestImporting:
    def test_the_server_reads_the_files(self, merged: Path, config: IndexConfig) -> None:
        server, slept, told = Server(merged.parent), list[float](), list[Progress]()
        report = load_by_import(merged, server, f"{merged.name}/", sleep=slept.append, progress=told.append)
        assert report == LoadReport(5, 6, 5)
        assert list(server.jobs.values()) == [f"{merged.name}/part-00000{part}.parquet" for part in (0, 2)]
        assert (server.refreshed, slept) == (True, [2.0, 2.0])
        assert told == [Progress("chunks loaded", done, 5) for done in (0, 3, 5)]
        assert answers(server, config) == answers(loaded(merged), config)

    def test_only_some_jobs_run_at_once(self, merged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag_bm25.bulk.loading.JOBS_AT_ONCE", 1)
        server = Server(merged)
        load_by_import(merged, server, ".", sleep=lambda _: None)
        assert server.calls.index("insert_chunks") < len(server.calls) - server.calls[::-1].index("start_import")

    def test_running_again_waits_and_imports_what_is_missing(self, merged: Path, config: IndexConfig) -> None:
        server = Server(merged)
        server.on_call = lambda _: stop() if server.calls.count("start_import") == 2 else None
        with pytest.raises(StoreError, match="stop"):
            load_by_import(merged, server, ".", sleep=lambda _: None)
        server.on_call = None
        slept: list[float] = []
        assert load_by_import(merged, server, ".", sleep=slept.append) == LoadReport(5, 6, 2)
        assert list(server.jobs.values()) == [f"./part-00000{part}.parquet" for part in (0, 2)]
        assert answers(server, config) == answers(loaded(merged), config)

    def test_a_file_that_is_refused_is_named_with_the_reason(self, merged: Path) -> None:
        server = Server(merged)
        server.failing = "part-000002.parquet"
        with pytest.raises(StoreError, match=r"could not import part-000002.parquet \(job 2\): schema not equal"):
            load_by_import(merged, server, ".", sleep=lambda _: None)
        with pytest.raises(FormatError, match="unfinished copy"):
            BM25Index.from_store(server.reopen())

    def test_half_a_file_is_an_error(self, merged: Path) -> None:
        server = Server(merged, collections=begun(merged).collections)
        server.collections.chunks.popitem()
        with pytest.raises(StoreError, match=r"has 1 of the 3 chunks of part-000000.parquet\. Drop it and load again"):
            load_by_import(merged, server, ".", sleep=lambda _: None)
