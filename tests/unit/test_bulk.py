"""Bulk loading: what a part is, what does not fit together, and that half of it is never taken for the whole."""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from dying_analyzer import dies
from faulty_store import FaultyStore, Moment
from memory_store import MemoryStore

from rag_bm25 import (
    BM25Index,
    ConfigMismatchError,
    FieldWeight,
    FormatError,
    IndexConfig,
    InputError,
    MissingExtraError,
    ParameterError,
    StoreError,
    WorkerError,
    bulk,
)
from rag_bm25.bulk import LoadReport, MergeReport, PartReport, encode_part, encode_parts, load, load_by_import, merge
from rag_bm25.bulk.merging import read_manifest
from rag_bm25.bulk.parts import batch_of, read_head, read_terms
from rag_bm25.bulk.rows import read_groups, rows_of
from rag_bm25.chunks import new_chunks
from rag_bm25.copying import drop_index
from rag_bm25.store import ImportState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rag_bm25.store import ChunkRow

pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

ROWS = [
    {"text": "apple pie", "id": "1", "metadata": {"p": 1}},
    {"text": "banana split apple", "id": "2"},
    {"text": "", "id": "3"},
    {"text": "grape"},
    {"text": "fig fig", "id": "'\"\\"},
]
QUERIES = ["apple fig", "banana", "grape", "pie split"]


def letters(text: str) -> list[str]:
    return list(text)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two chunks be a batch, so that there are several."""
    monkeypatch.setattr("rag_bm25.chunks.MAX_BATCH_CHUNKS", 2)


@pytest.fixture
def merged(tmp_path: Path, config: IndexConfig) -> Path:
    """Three parts, merged; the second one is empty."""
    for part, rows in enumerate([ROWS[:3], [], ROWS[3:]]):
        encode_part(rows, config, tmp_path, part)
    merge(tmp_path)
    return tmp_path


def stored_rows(folder: Path) -> list[ChunkRow]:
    parts = read_manifest(folder).parts
    return [row for part in parts for table in read_groups(folder / part.data.name) for row in rows_of(table)]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def answers(store: MemoryStore, config: IndexConfig) -> Any:
    """Everything that can be seen of an index."""
    with BM25Index.from_store(store.reopen(), config=config) as index:
        assert index.verify().differences == []
        return [index.search(query) for query in QUERIES], index.stats(), sorted(c.id for c in index.chunks())


class TestEncoding:
    def test_a_part_is_two_files_and_a_report(self, tmp_path: Path, config: IndexConfig) -> None:
        report = encode_part(ROWS, config, tmp_path / "new", 3)
        size = (tmp_path / "new" / "part-000003.parquet").stat().st_size
        assert report == PartReport(3, 5, 6, size)
        assert sorted(contents(tmp_path / "new")) == ["part-000003.parquet", "part-000003.terms.parquet"]
        assert pickle.loads(pickle.dumps(report)) == report

    def test_its_columns_are_those_that_milvus_reads(self, tmp_path: Path, config: IndexConfig) -> None:
        rows = [{**row, "embedding": [1, 2]} for row in ROWS]
        encode_part(rows, replace(config, dense_dim=2), tmp_path, 0)
        schema = pq.read_schema(tmp_path / "part-000000.parquet")
        assert {field.name: str(field.type).replace("element", "item") for field in schema} == {
            "pk": "string",
            "id": "string",
            "namespace": "string",
            "text": "string",
            "metadata": "string",
            "length": "int64",
            "batch": "string",
            "sparse": "struct<indices: list<item: uint32>, values: list<item: float>>",
            "dense": "list<item: float>",
        }

    def test_its_terms_are_in_the_order_in_which_they_were_seen(self, tmp_path: Path, config: IndexConfig) -> None:
        encode_part(ROWS, config, tmp_path, 0, namespace="x")
        found = read_terms(tmp_path, 0)
        assert dict(zip(found.terms, found.df.tolist(), strict=True)) == {
            "apple": 2, "pie": 1, "banana": 1, "split": 1, "grape": 1, "fig": 1,
        }  # fmt: skip
        assert found.terms == ["apple", "pie", "banana", "split", "grape", "fig"]
        head = read_head(tmp_path, 0)
        assert (head.part, head.namespace, head.length, head.data.rows) == (0, "x", 8, 5)

    def test_encoding_again_gives_the_same_files(self, tmp_path: Path, config: IndexConfig) -> None:
        encode_part(ROWS, config, tmp_path, 0)
        before = contents(tmp_path)
        encode_part(iter(ROWS), config, str(tmp_path), 0)
        assert contents(tmp_path) == before

    def test_chunks_are_taken_one_by_one(self, tmp_path: Path, config: IndexConfig) -> None:
        def rows() -> Iterator[dict[str, Any]]:
            for number in range(7):
                sizes.append(sum(path.stat().st_size for path in tmp_path.glob("*.tmp")))
                yield {"text": f"word{number}"}

        sizes: list[int] = []
        assert encode_part(rows(), config, tmp_path, 0).num_chunks == 7
        assert sizes[0] < sizes[3] < sizes[5]  # batches of two are written while others are read

    def test_the_same_contents_without_id_are_one_chunk(self, tmp_path: Path, config: IndexConfig) -> None:
        twice = {"text": "apple", "metadata": {"p": 1}}
        assert encode_part([twice, {"text": "apple"}, twice], config, tmp_path, 0).num_chunks == 2

    @pytest.mark.parametrize("first", [0, 1])
    def test_an_id_that_is_the_hash_of_another_chunk_is_refused(
        self, tmp_path: Path, config: IndexConfig, first: int
    ) -> None:
        (made,) = new_chunks(["apple"], None, None)
        rows = [{"text": "apple"}, {"text": "fig", "id": made.id}]
        with pytest.raises(InputError, match=f"row 1: the id '{made.id}' was given before in this part"):
            encode_part([rows[first], rows[1 - first]], config, tmp_path, 0)

    @pytest.mark.parametrize(
        ("row", "said"),
        [
            ({"text": "a\0b"}, "has a NUL at character 1"),
            ({"text": 3}, "must be a str, got int"),
            ({"id": "x"}, "must be a mapping with a text, and maybe id, metadata and embedding, got the keys 'id'"),
            ({"text": "a", "meta": {}}, "got the keys 'text', 'meta'"),
            ("apple", "must be a mapping with a text, and maybe id, metadata and embedding, got str"),
            ({"text": "a", "id": ""}, "must not be empty"),
            ({"text": "a", "id": "1"}, "the id '1' was given before in this part"),
            ({"text": "a", "metadata": {"x": float("nan")}}, "which JSON does not have"),
            ({"text": "a", "metadata": {"title": 3}}, "must be a str or a list of str"),
            ({"text": "a", "embedding": [1.0]}, "an embedding must be given where the index has dense vectors"),
        ],
    )
    def test_a_chunk_that_breaks_a_rule_is_named_and_leaves_no_part(
        self, row: Any, said: str, tmp_path: Path, config: IndexConfig
    ) -> None:
        config = replace(config, fields={"title": FieldWeight(chunk_size=3)})
        with pytest.raises(InputError, match=r"part 7, row 5: .*") as caught:
            encode_part([*ROWS, row], config, tmp_path, 7)
        assert said in str(caught.value)
        assert contents(tmp_path) == {}

    def test_embeddings_are_checked(self, tmp_path: Path, config: IndexConfig) -> None:
        dense = replace(config, dense_dim=2)
        with pytest.raises(InputError, match="row 0: an embedding must be given"):
            encode_part([{"text": "a"}], dense, tmp_path, 0)
        with pytest.raises(InputError, match="row 0: embedding must have the index's dimension, 2"):
            encode_part([{"text": "a", "embedding": [1, 2, 3]}], dense, tmp_path, 0)

    @pytest.mark.parametrize("part", [-1, 2**31, True, "1", 1.0])
    def test_the_number_of_a_part_is_checked(self, part: Any, tmp_path: Path, config: IndexConfig) -> None:
        with pytest.raises(ParameterError, match=r"part must be an int in 0\.\.2147483647"):
            encode_part(ROWS, config, tmp_path / "new", part)
        with pytest.raises(InputError, match="namespace must be a str"):
            encode_part(ROWS, config, tmp_path / "new", 0, namespace=None)  # type: ignore[arg-type]
        assert not (tmp_path / "new").exists()

    def test_a_job_that_is_cut_short_leaves_the_part_as_it_was(self, tmp_path: Path, config: IndexConfig) -> None:
        def cut_short() -> Iterator[dict[str, Any]]:
            yield from ROWS
            raise KeyboardInterrupt

        for before in (False, True):
            if before:
                encode_part(ROWS[:2], config, tmp_path, 0)
            files = contents(tmp_path)
            with pytest.raises(KeyboardInterrupt):
                encode_part(cut_short(), config, tmp_path, 0)
            assert contents(tmp_path) == files

    def test_a_part_that_was_replaced_by_half_is_found_when_merging(
        self, tmp_path: Path, config: IndexConfig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encode_part(ROWS[:2], config, tmp_path, 0)

        def die(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("rag_bm25.bulk.encoding.write_terms", die)
        with pytest.raises(KeyboardInterrupt):
            encode_part(ROWS, config, tmp_path, 0)
        with pytest.raises(FormatError, match="of another run than what belongs to it: encode part 0 again"):
            merge(tmp_path)

    def test_without_pyarrow_the_extra_is_named(
        self, tmp_path: Path, config: IndexConfig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(MissingExtraError, match=r'pip install "rag-bm25\[bulk\]"'):
            encode_part(ROWS, config, tmp_path, 0)


class TestProcesses:
    def test_processes_write_the_same_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.undo()  # processes do not see the small batches
        config = IndexConfig(chunk_size=30)
        parts = [[{"text": f"检索 word{n} Running", "id": f"{part}.{n}"} for n in range(20)] for part in range(4)]
        one = list(encode_parts(parts, config, tmp_path / "one", namespace="x"))
        two = list(encode_parts(parts, config, tmp_path / "two", namespace="x", workers=2))
        assert one == two
        assert [report.part for report in one] == [0, 1, 2, 3]
        assert contents(tmp_path / "one") == contents(tmp_path / "two")

    def test_parts_are_taken_as_workers_come_free(self, tmp_path: Path) -> None:
        taken = 0

        def parts() -> Iterator[list[Any]]:
            nonlocal taken
            for taken in range(1, 6):
                yield [{"text": f"word{taken}"}]

        reports = encode_parts(parts(), IndexConfig(chunk_size=30), tmp_path, workers=1)
        next(reports)
        assert taken == 2
        assert len(list(reports)) == 4

    def test_what_is_wrong_with_a_chunk_comes_back(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="part 1, row 0: "):
            list(encode_parts([[], [{"text": 1}]], IndexConfig(chunk_size=30), tmp_path, workers=1))

    def test_a_process_that_dies_is_an_error(self, tmp_path: Path) -> None:
        config = IndexConfig(chunk_size=30, analyzer=dies)
        with pytest.raises(WorkerError, match="a worker process died before its part was encoded"):
            list(encode_parts([[{"text": "a"}]], config, tmp_path, workers=1))

    def test_arguments_are_checked_by_the_call(self, tmp_path: Path) -> None:
        config: Any = IndexConfig(chunk_size=30)
        with pytest.raises(ParameterError, match="workers must be an int"):
            encode_parts([], config, tmp_path, workers=62)
        with pytest.raises(ParameterError, match="workers need an analyzer that can be pickled"):
            encode_parts([], IndexConfig(chunk_size=30, analyzer=lambda text: []), tmp_path, workers=1)
        with pytest.raises(InputError, match="namespace must not have control characters"):
            encode_parts([], config, tmp_path, namespace="a\n")
        with pytest.raises(InputError, match="parts must be an iterable of sequences of mappings, got int"):
            encode_parts(5, config, tmp_path)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="chunks must be an iterable of mappings, got int"):
            encode_part(5, config, tmp_path, 0)  # type: ignore[arg-type]


class TestMerging:
    def test_the_report_counts(self, merged: Path) -> None:
        assert merge(merged) == MergeReport(3, 5, 6, 0)

    def test_progress_is_told(self, merged: Path) -> None:
        told: list[tuple[int, int]] = []
        merge(merged, progress=lambda *args: told.append(args))
        assert told == [(1, 3), (2, 3), (3, 3)]

    def test_rows_say_which_part_brought_them(self, merged: Path) -> None:
        assert [row.batch for row in stored_rows(merged)] == [batch_of(0)] * 3 + [batch_of(2)] * 2

    @pytest.mark.usefixtures("tiny_id_space")
    def test_only_parts_with_ids_that_moved_are_written_again(self, tmp_path: Path, config: IndexConfig) -> None:
        words = [f"w{number}" for number in range(12)]
        for part, some in enumerate([words, words[:1], words[::-1]]):
            encode_part([{"text": " ".join(some), "id": str(part)}], config, tmp_path, part)
        before = contents(tmp_path)
        assert merge(tmp_path).rewritten == 1
        after = contents(tmp_path)
        assert {name: after[name] for name in before} == before
        assert [part.data.name for part in read_manifest(tmp_path).parts] == [
            "part-000000.parquet", "part-000001.parquet", "part-000002.merged.parquet",
        ]  # fmt: skip
        first, _, last = stored_rows(tmp_path)
        assert first.vector == last.vector
        merge(tmp_path)
        assert contents(tmp_path) == after

    def test_gaps_and_missing_ends_are_found(self, merged: Path) -> None:
        with pytest.raises(FormatError, match=r"parts are missing in .*: 3, 4; encode them, 5 parts in all"):
            merge(merged, num_parts=5)
        (merged / "part-000001.terms.parquet").unlink()
        with pytest.raises(FormatError, match=r"parts are missing in .*: 1; encode them, 3 parts in all"):
            merge(merged)
        with pytest.raises(FormatError, match="has 2 parts, not 1: use an empty folder"):
            merge(merged, num_parts=1)

    def test_an_empty_folder_has_nothing_to_merge(self, tmp_path: Path) -> None:
        for folder in (tmp_path, tmp_path / "missing"):
            with pytest.raises(FormatError, match="there is no part in"):
                merge(folder)

    def test_rows_that_are_missing_or_damaged_are_found(self, merged: Path) -> None:
        path = merged / "part-000002.parquet"
        sound = path.read_bytes()
        for damaged in (sound[:-1], sound.replace(b"grape", b"grapf"), b""):
            path.write_bytes(damaged)
            with pytest.raises(FormatError, match=r"part-000002.parquet is damaged, .*: encode part 2 again"):
                merge(merged)
        path.unlink()
        with pytest.raises(FormatError, match=r"part-000002.parquet is missing: encode part 2 again"):
            merge(merged)

    def test_terms_that_are_damaged_are_found(self, merged: Path) -> None:
        path = merged / "part-000000.terms.parquet"
        sound = path.read_bytes()
        for damaged in (sound[:-1], b"no parquet at all", b""):
            path.write_bytes(damaged)
            with pytest.raises(FormatError, match=r"part-000000.terms.parquet is damaged, encode its part again"):
                merge(merged)

    @pytest.mark.parametrize("what", ["term", "id", "df", "length"])
    def test_terms_that_were_changed_are_found(self, what: str, merged: Path) -> None:
        path = merged / "part-000000.terms.parquet"
        table = pq.read_table(path)
        head = json.loads(table.schema.metadata[b"rag_bm25"])
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        if what == "length":
            head["length"] += 1
        else:
            columns[what][0] = {"term": "x", "id": 1, "df": 9}[what]
        metadata = {**table.schema.metadata, b"rag_bm25": json.dumps(head, ensure_ascii=False).encode()}
        pq.write_table(pa.table(columns, schema=table.schema).replace_schema_metadata(metadata), path)
        with pytest.raises(FormatError, match="encode its part again: it holds something else than was written"):
            merge(merged)

    def test_files_cannot_be_renumbered_by_renaming(self, tmp_path: Path, config: IndexConfig) -> None:
        encode_part(ROWS, config, tmp_path, 1)
        (tmp_path / "part-000001.terms.parquet").rename(tmp_path / "part-000000.terms.parquet")
        with pytest.raises(FormatError, match="is part 1: the number of a part is in it"):
            merge(tmp_path)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"kind": "x"}, "is not a file of a rag_bm25 bulk part"),
            ({"format": 2}, "has format 2, this version of rag_bm25 reads up to 1"),
            ({"data": 3}, "is damaged"),
        ],
    )
    def test_parts_of_other_kinds_and_versions_are_refused(
        self, change: dict[str, Any], said: str, merged: Path
    ) -> None:
        path = merged / "part-000000.terms.parquet"
        table = pq.read_table(path)
        head = {**json.loads(table.schema.metadata[b"rag_bm25"]), **change}
        pq.write_table(table.replace_schema_metadata({b"rag_bm25": json.dumps(head).encode()}), path)
        with pytest.raises(FormatError, match=said):
            merge(merged)

    @pytest.mark.parametrize("head", [b"5", b"null", b'"x"', b"[" * 100_000], ids=["5", "null", "x", "deep"])
    def test_parts_whose_head_is_no_object_are_refused(self, head: bytes, merged: Path) -> None:
        path = merged / "part-000000.terms.parquet"
        pq.write_table(pq.read_table(path).replace_schema_metadata({b"rag_bm25": head}), path)
        with pytest.raises(FormatError, match="is damaged, encode its part again"):
            merge(merged)

    @pytest.mark.parametrize(
        ("other", "said"),
        [
            ({"k1": 0.9}, "k1: 1.5 in part 0, 0.9 in part 1"),
            ({"idf": "lucene"}, "idf: 'epsilon' in part 0, 'lucene' in part 1"),
            ({"fields": {"title": FieldWeight(chunk_size=3)}}, "fields: {} in part 0"),
            ({"analyzer": letters}, "tokens of '"),
        ],
    )
    def test_parts_of_different_parameters_are_refused(
        self, other: dict[str, Any], said: str, tmp_path: Path, config: IndexConfig
    ) -> None:
        encode_part(ROWS[:2], config, tmp_path, 0)
        encode_part(ROWS[2:], replace(config, **other), tmp_path, 1)
        with pytest.raises(ConfigMismatchError, match="parts were encoded with different parameters") as caught:
            merge(tmp_path)
        assert said in str(caught.value)

    @pytest.mark.parametrize("part", [0, 1])
    @pytest.mark.parametrize("damage", [3, {}, {"document": 1}, {"document": {}, "query": {}, "analyzer": {"x": 1}}])
    def test_parameters_that_are_none_are_damage(
        self, damage: object, part: int, tmp_path: Path, config: IndexConfig
    ) -> None:
        for number in (0, 1):
            encode_part(ROWS[number : number + 1], config, tmp_path, number)
        path = tmp_path / f"part-00000{part}.terms.parquet"
        table = pq.read_table(path)
        head = {**json.loads(table.schema.metadata[b"rag_bm25"]), "config": damage}
        metadata = {**table.schema.metadata, b"rag_bm25": json.dumps(head).encode()}
        pq.write_table(table.replace_schema_metadata(metadata), path)
        with pytest.raises(FormatError, match="the parameters in part 0 or 1 are damaged, encode them again"):
            merge(tmp_path)

    def test_the_name_of_an_analyzer_is_nothing(self, tmp_path: Path, config: IndexConfig) -> None:
        encode_part(ROWS[:2], config, tmp_path, 0)
        encode_part(ROWS[2:], replace(config, analyzer=lambda text: text.split()), tmp_path, 1)
        assert merge(tmp_path).num_chunks == 5

    def test_a_chunk_in_two_parts_is_named(self, tmp_path: Path, config: IndexConfig) -> None:
        for part, rows in enumerate(
            [ROWS, [{"text": "other", "id": "2"}], [{"text": "grape"}], [{"text": "x", "id": "1"}]]
        ):
            encode_part(rows, config, tmp_path, part)
        with pytest.raises(InputError, match="3 chunks are in two parts: ") as caught:
            merge(tmp_path)
        assert "'1' (parts 0, 3)" in str(caught.value)
        assert "'2' (parts 0, 1)" in str(caught.value)
        assert not (tmp_path / "manifest.json").exists()

    def test_the_same_id_in_two_namespaces_is_two_chunks(self, tmp_path: Path, config: IndexConfig) -> None:
        for part, namespace in enumerate(["", "x"]):
            encode_part(ROWS, config, tmp_path, part, namespace=namespace)
        assert merge(tmp_path).num_chunks == 10

    def test_keys_that_begin_alike_are_not_the_same(self, merged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        read = bulk.merging.read_pks
        monkeypatch.setattr(bulk.merging, "read_pks", lambda path: np.zeros_like(read(path)))
        assert merge(merged).num_chunks == 5

    def test_the_manifest_of_an_earlier_merge_does_not_stay_when_one_fails(self, merged: Path) -> None:
        with pytest.raises(FormatError, match="parts are missing"):
            merge(merged, num_parts=4)
        with pytest.raises(FormatError, match=r"manifest.json is missing: merge the parts first"):
            load(merged, MemoryStore())


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
        told: list[tuple[int, int]] = []
        load(merged, MemoryStore(), progress=lambda *args: told.append(args))
        assert told == [(2, 5), (3, 5), (5, 5)]

    @pytest.mark.parametrize("name", ["../secret.parquet", "/secret.parquet", "a/b.parquet", "", "..", 7, None])
    def test_a_file_outside_of_the_folder_is_not_read(self, merged: Path, name: object) -> None:
        manifest = json.loads((merged / "manifest.json").read_text())
        manifest["parts"][0]["data"]["name"] = name
        (merged / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(FormatError, match=r"must lie in it, got|is missing: "):
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
        with pytest.raises(InputError, match="memory is there already; drop it first"):
            load(merged, store.reopen())
        assert store.collections.chunks == before

    def test_the_beginning_of_another_load_is_refused(self, merged: Path, config: IndexConfig, tmp_path: Path) -> None:
        store = begun(merged)
        encode_part([{"text": "other"}], config, merged, 2)
        merge(merged)
        with pytest.raises(ConfigMismatchError, match="which has other parameters or contents than the files in"):
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

        with pytest.raises(StoreError, match="has 4 chunks of 5 after loading: run the same load again"):
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
                FormatError, match=r"is an unfinished copy of the files in .*: run the same copy or load"
            ):
                BM25Index.from_store(target.reopen(), **options)
    if "config" in kinds and "copy" not in kinds:
        with pytest.raises(InputError, match="memory is there already"):
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
        self._called("start_import")
        self.jobs[len(self.jobs) + 1] = path
        self.asked[len(self.jobs)] = 0
        return len(self.jobs)

    def import_state(self, job: int) -> ImportState:
        self._called("import_state")
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
        server, slept, told = Server(merged.parent), list[float](), list[tuple[int, int]]()
        report = load_by_import(
            merged, server, f"{merged.name}/", sleep=slept.append, progress=lambda *args: told.append(args)
        )
        assert report == LoadReport(5, 6, 5)
        assert list(server.jobs.values()) == [f"{merged.name}/part-00000{part}.parquet" for part in (0, 2)]
        assert (server.refreshed, slept, told) == (True, [2.0, 2.0], [(0, 5), (3, 5), (5, 5)])
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
        with pytest.raises(StoreError, match=r"has 1 of the 3 chunks of part-000000.parquet: drop it, load again"):
            load_by_import(merged, server, ".", sleep=lambda _: None)
