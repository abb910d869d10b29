"""Parts are merged."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.bulk_files import ROWS, contents, letters, stored_rows
from support.memory_store import MemoryStore

from rag_bm25 import (
    ConfigMismatchError,
    FieldWeight,
    FormatError,
    IndexConfig,
    InputError,
    Progress,
    bulk,
)
from rag_bm25.bulk import MergeReport, encode_part, load, merge
from rag_bm25.bulk.merging import read_manifest
from rag_bm25.bulk.parts import batch_of

if TYPE_CHECKING:
    from pathlib import Path

pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")


class TestMerging:
    def test_the_report_counts(self, merged: Path) -> None:
        assert merge(merged) == MergeReport(3, 5, 6, 0)

    def test_progress_is_told(self, merged: Path) -> None:
        told: list[Progress] = []
        merge(merged, progress=told.append)
        assert told == [Progress("parts merged", done, 3) for done in (1, 2, 3)]

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
            with pytest.raises(FormatError, match="no parts were found in"):
                merge(folder)

    def test_rows_that_are_missing_or_damaged_are_found(self, merged: Path) -> None:
        path = merged / "part-000002.parquet"
        sound = path.read_bytes()
        for damaged in (sound[:-1], sound.replace(b"grape", b"grapf"), b""):
            path.write_bytes(damaged)
            with pytest.raises(FormatError, match=r"part-000002.parquet is damaged .*: encode part 2 again"):
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
        with pytest.raises(FormatError, match="encode its part again: its digest does not match its contents"):
            merge(merged)

    def test_files_cannot_be_renumbered_by_renaming(self, tmp_path: Path, config: IndexConfig) -> None:
        encode_part(ROWS, config, tmp_path, 1)
        (tmp_path / "part-000001.terms.parquet").rename(tmp_path / "part-000000.terms.parquet")
        with pytest.raises(FormatError, match="is part 1: renaming a file"):
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
