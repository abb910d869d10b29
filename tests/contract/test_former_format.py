"""An index of an earlier format is refused by name, and `reindex` makes a new one from its texts.

The files were made by commit 8fbae08, whose format is 2: three chunks, of which one was updated, one of the same id in
another namespace, a deleted one, and an older row of "法" that an update has left in the other slot.

The rows in format-4.json were made by commit 5213701d, whose format is 4: a folder in each of two namespaces, ingested
with dense vectors and, of one folder, options; a file of it that has changed between two runs; a chunk that was added
by hand, and an older row of it in the other slot.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from support import engines
from support.former_rows import FILES, Embedder, insert_format_4, write_files
from support.log_writing import read_config
from support.memory_store import MemoryStore
from typer.testing import CliRunner

from rag_bm25 import (
    AnalyzerConfig,
    BM25Index,
    ConfigMismatchError,
    FieldWeight,
    FormatError,
    IndexConfig,
    ParameterError,
    QueryWeighting,
)
from rag_bm25.cli.app import app
from rag_bm25.ingestion import find_files, ingest, reindex
from rag_bm25.ingestion.former import open_former, read_former_config, reindex_former, scan_former
from rag_bm25.ingestion.source_roots import read_source_roots
from rag_bm25.statistics.log.keys import keys_of
from rag_bm25.statistics.log.settings import ConfigRow, write_config
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.protocol import Store

embedded = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")
FIXTURES = Path(__file__).parents[1] / "fixtures"
CONFIG = IndexConfig(
    40,
    k1=1.2,
    idf="lucene",
    k3=None,
    length_unit="characters",
    dense_dim=2,
    fields={"title": FieldWeight(chunk_size=20, weight=2.0)},
    analyzer=AnalyzerConfig(split_camel_case=True),
)
CHUNKS = {
    ("", "法", "劳动合同期满，用人单位解除劳动合同", '{"source": "law/a.md", "title": "劳动合同法"}'),
    ("", "b", "The notice period of a contract is thirty days", '{"year": 2024}'),
    ("", "c", "a new text of camelCase", "{}"),
    ("团队", "b", "the same id in another namespace", "{}"),
}
LEFT_OUT = ["query_stop_words"]  # in its place there are question words
HITS = [("法", 2.41579), ("c", 1.32487)]  # of "劳动合同 text" in all namespaces, as 8fbae08 found them


@pytest.fixture
def uri(tmp_path: Path) -> str:
    suffix = "" if engines.lite_version().startswith("2.") else "-lite3"
    with tarfile.open(FIXTURES / f"format-2{suffix}.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # not in every Python 3.10
        archive.extractall(tmp_path)
    return str(tmp_path / "former.db")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def assert_made_anew(index: BM25Index) -> None:
    assert index.config == CONFIG
    found = index.chunks(namespace=None)
    assert {
        (one.namespace, one.id, one.text, json.dumps(one.metadata, ensure_ascii=False, sort_keys=True)) for one in found
    } == CHUNKS
    assert index.get_embeddings(["法"])["法"].tolist() == [1, 0]
    assert index.verify().ok
    without_characters = QueryWeighting(character_weight=0)  # 8fbae08 had none
    hits = index.search("劳动合同 text", namespace=None, weighting=without_characters)
    assert [hit.id for hit in hits] == [id_ for id_, _ in HITS]
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in HITS], rel=1e-5)


@embedded
class TestFile:
    @pytest.mark.parametrize("options", [{}, {"config": CONFIG}, {"read_only": True}, {"repair": True}])
    def test_is_refused_by_name_with_the_way_out(self, uri: str, options: dict[str, Any]) -> None:
        refusal = (
            r"'docs' has format 2, this version of rag_bm25 reads format 5: `rag-bm25 reindex --to-collection NAME` "
        )
        with pytest.raises(FormatError, match=refusal):
            BM25Index.open(uri, "docs", **options)

    def test_of_a_newer_format_it_is_refused_too(self, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag_bm25.statistics.log.settings.FORMAT", 1)
        with pytest.raises(FormatError, match=r"has format 2, .* reads format 1: upgrade rag_bm25"):
            BM25Index.open(uri, "docs")

    def test_nothing_is_written_to_it_where_its_parameters_are_lost(self, uri: str) -> None:
        with closing(MilvusStore(uri, "docs")) as store:
            store.delete_log(keys_of(store.log_keys(), "config"))
        with pytest.raises(FormatError, match="its fields differ"):
            BM25Index.open(uri, "docs", config=CONFIG, repair=True)
        with closing(MilvusStore(uri, "docs", read_only=True)) as source:
            assert len(list(scan_former(source))) == 4

    def test_reindexing_makes_it_anew(self, uri: str) -> None:
        with closing(MilvusStore(uri, "docs", read_only=True)) as source:
            config, left_out = read_former_config(source)
            assert left_out == LEFT_OUT
            with BM25Index.open(uri, "docs_3", config=config) as target:
                report = reindex_former(source, config, target)
                assert (report.num_chunks, report.removed) == (4, 0)
                assert_made_anew(target)
                target.delete(["c"])
                target.add(["a stray"], ids=["d"], embeddings=[[0, 1]], namespace="elsewhere")
                report = reindex_former(source, config, target)
                assert (report.num_chunks, report.removed) == (4, 1)

    def test_the_command_line_refuses_reindexes_lists_and_drops_it(self, uri: str) -> None:
        place = ("--uri", uri)
        copy = ["copy", "--to-collection", "b", "--to-uri", uri]
        for command in (["stats"], ["verify"], ["repair"], ["search", "a"], copy):
            refused = run(*command, *place)
            assert refused.exit_code == 1
            assert "`rag-bm25 reindex --to-collection NAME` makes a new index from its texts" in refused.stderr
        done = run("reindex", "--to-collection", "docs_3", *place)
        assert done.exit_code == 0
        assert done.stderr.endswith(f"that this version does not have, or refuses, are left out: {LEFT_OUT[0]}\n")
        assert "error" not in done.stderr
        assert "docs_3" in done.stdout
        assert "4 chunks" in done.stdout
        with BM25Index.open(uri, "docs_3") as index:
            assert_made_anew(index)
        assert {"docs", "docs_3"} <= set(run("list", *place).stdout.split())
        assert run("drop", "--yes", *place).exit_code == 0
        assert "docs " not in run("list", *place).stdout


@embedded
def test_parameters_that_the_command_line_cannot_read_must_be_given(tmp_path: Path) -> None:
    place = ("--uri", tmp_path / "rag.db")
    with BM25Index.open(tmp_path / "rag.db", "docs", config=IndexConfig(100, k1=0.7)) as index:
        index.add(["apple pie"], ids=["a"])
    with closing(MilvusStore(tmp_path / "rag.db", "docs")) as store:
        [row] = store.get_log(keys_of(store.log_keys(), "config"))
        store.delete_log([row.key])
        store.insert_log([replace(row, meta={"format": 2}, packed="damaged")])
    refused = run("reindex", "--to-collection", "new", *place)
    assert refused.exit_code == 1
    assert "collection 'docs' cannot be read: give --chunk-size" in refused.stderr
    assert run("reindex", "--to-collection", "new", "--chunk-size", 50, "--k1", 0.9, *place).exit_code == 0
    with BM25Index.open(tmp_path / "rag.db", "new") as index:
        assert index.config == IndexConfig(50, k1=0.9)
        assert index.get(["a"])[0].text == "apple pie"


def former(store: MemoryStore, **changes: Any) -> MemoryStore:
    """Give an index in memory the format before, and other stored parameters."""
    with BM25Index.from_store(store, config=IndexConfig(100)) as index:
        index.add(["apple pie"], ids=["a"])
    opened = store.reopen()
    stored = read_config(opened)
    for part, values in changes.items():
        stored[part] = {**stored[part], **values}
    with pytest.MonkeyPatch.context() as before:
        before.setattr("rag_bm25.statistics.log.settings.FORMAT", 2)
        write_config(opened, stored)
    return opened


def test_settings_that_this_version_does_not_have_are_told() -> None:
    settings = {"analyzer": "rag_bm25", "stem": False, "lemmas": True}
    store = former(
        MemoryStore(), document={"k1": 0.9, "b": -1, "fields": [3]}, query={"k4": 3}, analyzer={"settings": settings}
    )
    config, left_out = read_former_config(store)
    assert config == IndexConfig(100, k1=0.9, analyzer=AnalyzerConfig(stem=False))
    assert left_out == ["lemmas", "b", "fields", "k4"]


def test_the_name_of_a_callable_is_told_as_it_must_be_given_anew() -> None:
    named = {"settings": {"analyzer": "callable", "name": "mine.tok"}}
    config, left_out = read_former_config(former(MemoryStore(), analyzer=named))
    assert (left_out, repr(config.analyzer)) == ([], "mine.tok")
    with pytest.raises(ConfigMismatchError, match=r"the analyzer mine\.tok: pass that callable as analyzer"):
        BM25Index.open(":memory:", "docs", config=config)


def test_parameters_that_cannot_be_read_are_told() -> None:
    store = former(MemoryStore())
    [row] = ConfigRow.encode({}, "")
    store.collections.log[row.key] = row
    with pytest.raises(FormatError, match="the parameters of memory cannot be read"):
        read_former_config(store)


def test_given_parameters_must_have_the_dimension_of_the_stored_vectors() -> None:
    store, given = former(MemoryStore()), IndexConfig(50, dense_dim=2)
    with (
        BM25Index.open(":memory:", "new", config=given) as target,
        pytest.raises(ParameterError, match=r"of the target must be those of the source, None, got DenseField\(dim=2"),
    ):
        reindex_former(store, read_former_config(store)[0], target)


def test_the_generation_in_force_is_read() -> None:
    store = MemoryStore()
    with BM25Index.from_store(store, config=IndexConfig(100)) as index:
        index.add(["apple pie"], ids=["a"])
        reindex(index, IndexConfig(50))
        index.add(["plum cake"], ids=["b"])
    successor = store.reopen().successor()
    stored = read_config(successor)
    with pytest.MonkeyPatch.context() as before:
        before.setattr("rag_bm25.statistics.log.settings.FORMAT", 4)
        write_config(successor, stored)
    with open_former(store.reopen()) as source:
        assert source is not None
        assert {chunk.id for chunk in scan_former(source)} == {"a", "b"}
        assert read_former_config(source)[0].chunk_size == 50


def test_an_index_of_this_format_is_no_former_one() -> None:
    store = MemoryStore()
    with BM25Index.from_store(store, config=IndexConfig(100)) as index:
        index.add(["apple"])
    for other in (store.reopen(), MemoryStore()):
        with open_former(other) as source:
            assert source is None


class TestFormat4:
    @pytest.fixture
    def source(self, opened: Callable[..., Store], tmp_path: Path) -> Iterator[Store]:
        """The store of the rows, and the folder that was ingested."""
        write_files(tmp_path)
        store = opened()
        insert_format_4(store, tmp_path)
        yield store
        opened().drop()

    @pytest.fixture
    def target(self, source: Store) -> Iterator[BM25Index]:
        """An index that was made of them."""
        config, left_out = read_former_config(source)
        assert left_out == []
        with BM25Index.open(":memory:", "new", config=config) as index:
            reindex_former(source, config, index)
            yield index

    def test_is_refused(self, source: Store) -> None:
        with pytest.raises(FormatError, match=r"has format 4, .* `rag-bm25 reindex --to-collection NAME` makes"):
            BM25Index.from_store(source)

    def test_all_chunks_are_there_with_their_vectors(self, target: BM25Index) -> None:
        chunks = list(target.chunks(namespace=None))
        assert {(chunk.namespace, chunk.id): chunk.text for chunk in chunks} == {
            ("", "handbook/leave.md#0"): "# Leave\n\nThirty days of leave a year.",
            ("", "handbook/leave.md#1"): "## Notice\n\nAsk two weeks before.",
            ("", "handbook/劳动.md#0"): "# 劳动合同\n\n劳动合同期满，用人单位解除劳动合同。",
            ("", "r1"): "One A row with an id of its own",
            ("", "h1"): "a chunk added by hand",
            ("团队", "team/plan.txt#0"): "The same words in another namespace.",
        }
        [by_hand] = target.get(["h1"])
        assert by_hand.metadata == {"year": 2024, "tags": ["a", None]}
        assert target.get_embeddings(["h1"])["h1"].tolist() == [1, 0]
        assert target.verify().ok

    def test_it_finds_what_the_former_one_found(self, target: BM25Index) -> None:
        hits = target.search("leave 劳动合同", namespace=None)
        assert [(hit.id, hit.score) for hit in hits] == [
            ("handbook/劳动.md#0", pytest.approx(3.84106, rel=1e-5)),
            ("handbook/leave.md#0", pytest.approx(1.75175, rel=1e-5)),
            ("handbook/leave.md#1", pytest.approx(1.54829, rel=1e-5)),
        ]

    @pytest.mark.parametrize(("folder", "namespace"), [("handbook", ""), ("team", "团队")])
    def test_the_next_run_of_its_folder_embeds_and_changes_nothing(
        self, target: BM25Index, tmp_path: Path, folder: str, namespace: str
    ) -> None:
        roots = read_source_roots(target, namespace=namespace)
        embed = Embedder()
        found = find_files([tmp_path / folder], roots=roots)
        report = ingest(target, found, namespace=namespace, embeddings=embed, prune=True)
        assert (report.added, report.updated, report.deleted, report.stale, embed.texts) == (0, 0, 0, 0, [])
        assert report.unchanged == sum(chunk.id != "h1" for chunk in target.chunks(namespace=namespace))
        assert (report.failed, report.notes) == ({}, [])

    def test_the_folder_keeps_its_options(self, target: BM25Index, tmp_path: Path) -> None:
        [root] = read_source_roots(target)
        assert (root.name, root.path) == ("handbook", str(tmp_path / "handbook"))
        assert root.options == {"split_size": 60, "exclude": ["drafts/"]}
        assert "handbook/drafts/secret.md" in FILES
