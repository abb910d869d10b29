"""Parts are encoded, in one process or in several."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.bulk_files import ROWS, contents
from support.dying_analyzer import dies

from rag_bm25 import (
    FieldWeight,
    FormatError,
    IndexConfig,
    InputError,
    MissingExtraError,
    ParameterError,
    WorkerError,
)
from rag_bm25.bulk import PartReport, encode_part, encode_parts, merge
from rag_bm25.bulk.parts import read_head, read_terms
from rag_bm25.documents.checks import check_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pq = pytest.importorskip("pyarrow.parquet")


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
        (made,) = check_chunks(["apple"], None, None)
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
            ({"text": "a", "embedding": [1.0]}, "an embedding is required if the index has dense vectors"),
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
        with pytest.raises(InputError, match="row 0: an embedding is required"):
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
        with pytest.raises(FormatError, match="is damaged or of another run: encode part 0 again"):
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
