"""Indexes that version 0.1 made, kept by `scripts/make_old_indexes.py`: what they hold, and what becomes of them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tarfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import make_old_indexes
import pytest
from make_old_indexes import DOCUMENT, QUERIES, add_rows, answers_of, configs, corpus
from support import engines
from typer.testing import CliRunner

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.cli.app import app
from rag_bm25.errors import ConfigMismatchError
from rag_bm25.index.stored_config import renew_defaults
from rag_bm25.ingestion import find_files, ingest, reindex

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "version_0_1"
OF_LITE2, OF_LITE3 = ("format-1", "format-2"), ("format-1-lite3",)
NAMES = ("demo", "dense", "by_term", "words")


class Old(NamedTuple):
    """A database of version 0.1, and what that version answered."""

    name: str
    folder: Path
    answers: dict[str, Any]

    @property
    def uri(self) -> str:
        return str(self.folder / "old.db")

    def copied(self, folder: Path) -> Old:
        """Return a copy, to write to."""
        shutil.copytree(self.folder, folder / "copy")
        return self._replace(folder=folder / "copy")


@pytest.fixture(scope="module", params=[*OF_LITE2, *OF_LITE3])
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Old:
    if request.param not in (OF_LITE2 if engines.lite_version().startswith("2.") else OF_LITE3):
        pytest.skip("the file is that of another milvus-lite")
    if metadata.version("PyStemmer").split(".")[:2] < ["3", "1"]:
        pytest.skip("before 3.1, PyStemmer has other stems: it cannot open an index that was made with 3.1")
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(FIXTURES / f"{request.param}.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # not in every Python 3.10
        archive.extractall(folder)
    return Old(request.param, folder, json.loads((folder / "answers.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def place(old: Old, tmp_path_factory: pytest.TempPathFactory) -> Old:
    """The copy for the tests that only read."""
    return old.copied(tmp_path_factory.mktemp("read"))


@pytest.fixture(scope="module")
def read_only(place: Old) -> Iterator[dict[str, BM25Index]]:
    """Every index of the file, opened without a config."""
    indexes = {name: BM25Index.open(place.uri, name, read_only=True) for name in NAMES}
    yield indexes
    for index in indexes.values():
        index.close()


def document_frequencies(index: BM25Index) -> dict[str, dict[str, int]]:
    """Return term -> namespace -> df."""
    found: dict[str, dict[str, int]] = {}
    for name, total in index._live.view.statistics.contributions().items():
        for id_, df in zip(total.ids.tolist(), total.df.tolist(), strict=True):
            found.setdefault(str(index._live.vocabulary().term(id_)), {})[name] = df
    return found


@pytest.mark.parametrize("name", NAMES)
class TestReading:
    def test_chunks_and_statistics_are_those_of_before(
        self, old: Old, read_only: dict[str, BM25Index], name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(make_old_indexes, "document_frequencies", document_frequencies)
        index, before = read_only[name], old.answers[name]
        now = json.loads(json.dumps(answers_of(index)))
        assert index.damage == []
        assert index.verify().ok
        assert (now["chunks"], now["df"]) == (before["chunks"], before["df"])
        for namespace, stats in before["stats"].items():
            assert {**now["stats"][namespace], "mean IDF": 0} == {**stats, "mean IDF": 0}

    def test_weights_of_queries_are_those_of_before_but_for_the_floor(
        self, old: Old, read_only: dict[str, BM25Index], name: str
    ) -> None:
        """Terms in more than half of the chunks weigh by the mean IDF, which is that of their channel since 0.2."""
        index, floors = read_only[name], 0
        for namespace, queries in old.answers[name]["weights"].items():
            mean, stats = old.answers[name]["stats"][namespace]["mean IDF"], index.stats(namespace=namespace)
            factors = [stats.average_idf / mean, stats.average_bigram_idf / mean]
            for query, before in queries.items():
                (vector,) = index.encode_queries([query], namespace=namespace)
                now = vector.to_dict()
                assert {str(id_) for id_ in now} == set(before)
                for id_, weight in now.items():
                    factor = weight / before[str(id_)]
                    floors += factor != pytest.approx(1, rel=1e-6)
                    assert any(factor == pytest.approx(one, rel=1e-6) for one in (1, *factors)), (query, id_)
        assert (floors > 0) == (name in ("demo", "by_term"))

    def test_hits_are_those_of_before(self, old: Old, read_only: dict[str, BM25Index], name: str) -> None:
        index, compared = read_only[name], set()
        for search in old.answers[name]["searches"]:
            query, namespace, options = search["query"], search["namespace"], search["options"]
            hits = index.search(query, k=20, namespace=namespace, **options)
            assert {hit.id for hit in hits} == {id_ for id_, _ in search["hits"]}
            (now,) = index.encode_queries([query], namespace=namespace, **options)
            before = old.answers[name]["weights"][namespace][query]
            if options == {} and list(now.to_dict().values()) != pytest.approx(
                [before[str(id_)] for id_ in now.to_dict()]
            ):
                continue  # another mean IDF, see above
            if options.keys() <= {"idf"}:
                compared.add((query, options.get("idf")))
                assert_same_hits([[hit.id, hit.score] for hit in hits], search["hits"])
        assert len(compared) > len(QUERIES) / 2

    def test_config_of_the_program_fits(self, place: Old, read_only: dict[str, BM25Index], name: str) -> None:
        """It is written down as for 0.1, and has today's defaults for what it does not name."""
        index, config = read_only[name], configs()[name]
        with BM25Index.open(place.uri, name, config=config, read_only=True) as again:
            assert again.config == index.config
        with pytest.raises(ConfigMismatchError, match="chunk_size"):
            BM25Index.open(place.uri, name, config=replace(config, chunk_size=299), read_only=True)


def assert_same_hits(hits: list[Any], expected: list[Any]) -> None:
    assert [score for _, score in hits] == pytest.approx([score for _, score in expected], rel=1e-5)
    assert dict(hits) == pytest.approx(dict(expected), rel=1e-5)


def test_dense_vectors_are_there(old: Old, read_only: dict[str, BM25Index]) -> None:
    hits = read_only["dense"].search_dense([1, 2, 3], k=4)
    assert_same_hits([[hit.id, hit.score] for hit in hits], old.answers["dense"]["dense"])


@pytest.mark.parametrize(("name", "compacts"), [("demo", False), ("demo", True), ("dense", True)])
def test_written_index_is_as_one_that_is_made_anew(old: Old, tmp_path: Path, name: str, compacts: bool) -> None:
    own = old.copied(tmp_path)
    rows, more = corpus_of(name), [{"_id": "new", "title": "新", "text": "轮毂电机 new words plumless", "metadata": {}}]
    with BM25Index.open(own.uri, name) as index:
        add_rows(index, rows[:1] + more, "", **dense_of(name, 2))
        index.delete([rows[2]["_id"]])
        if compacts:
            index._live.log.compact(above=0)
        assert index.verify().ok
    with BM25Index.open(own.uri, name) as index, BM25Index.open(":memory:", name, config=index.config) as anew:
        assert index.damage == []
        assert index.verify().ok
        for namespace in index.stats().namespaces:
            chunks = list(index.chunks(namespace=namespace))
            texts, ids, metadatas = zip(*[(chunk.text, chunk.id, chunk.metadata) for chunk in chunks], strict=True)
            anew.add(texts, ids=ids, metadatas=metadatas, namespace=namespace, **dense_of(name, len(ids)))
        for namespace in index.stats().namespaces:
            for query in (*QUERIES, "new words", "轮毂电机"):
                found, expected = ([[hit.id, hit.score] for hit in some.search(query, k=30)] for some in (index, anew))
                assert_same_hits(found, expected)
            one, other = index.stats(namespace=namespace), anew.stats(namespace=namespace)
            assert replace(one, name="", storage=None) == replace(other, name="", storage=None)


def corpus_of(name: str) -> list[dict[str, Any]]:
    """Return rows that the index has."""
    return corpus() if name == "demo" else corpus()[:3]


def dense_of(name: str, number: int) -> dict[str, Any]:
    return {"embeddings": [[1.0, 2.0, at] for at in range(number)]} if name == "dense" else {}


def test_interrupted_batch_is_finished(old: Old, tmp_path: Path) -> None:
    own = old.copied(tmp_path)
    expected = {"old": "电池保修三年", "kept": "The frame has five years.", "new": "A chunk that is new."}
    with BM25Index.open(own.uri, "unfinished", read_only=True) as index:
        assert {chunk.id: chunk.text for chunk in index.chunks()} == expected
        assert index.stats().num_chunks == 3
    with BM25Index.open(own.uri, "unfinished") as index:
        assert {hit.id: hit.text for hit in index.search("电池 三年 years new")} == expected
        assert index.verify().ok


def test_weights_of_terms_stay_until_they_are_estimated_again(old: Old, tmp_path: Path) -> None:
    own = old.copied(tmp_path)
    with BM25Index.open(own.uri, "by_term") as index:
        index.add(["电池 battery"], ids=["new"])
        assert index.verify().ok
        index.reencode()
        assert index.verify().ok


def test_texts_are_encoded_again_with_the_defaults_of_today(old: Old, tmp_path: Path) -> None:
    own = old.copied(tmp_path)
    with (
        BM25Index.open(own.uri, "demo") as index,
        BM25Index.open(own.uri, "better", config=renew_defaults(index.config)) as better,
    ):
        reindex(index, better)
        assert better.config == IndexConfig(chunk_size=300) != index.config
        assert {chunk.id: chunk.text for chunk in better.chunks(namespace=None)} == {
            chunk.id: chunk.text for chunk in index.chunks(namespace=None)
        }
        assert better.verify().ok


def test_ingesting_the_documents_again_replaces_their_chunks(old: Old, tmp_path: Path) -> None:
    own = old.copied(tmp_path)
    documents = tmp_path / "documents"
    documents.mkdir()
    shutil.copy(ROOT / "scripts" / "demo" / "documents" / DOCUMENT, documents)
    found = find_files([documents], name="documents")  # the folder has moved
    with BM25Index.open(own.uri, "files") as index, BM25Index.open(":memory:", "files", config=index.config) as anew:
        before = {chunk.text for chunk in index.chunks()}
        first, second = (ingest(index, found, prune=True) for _ in range(2))
        ingest(anew, found)
        after, expected = ({chunk.id: chunk.text for chunk in some.chunks()} for some in (index, anew))
        assert index.verify().ok
    assert before != set(after.values())
    assert after == expected
    assert (first.unchanged, bool(first.notes)) == (0, True)
    assert (second.added, second.updated, second.deleted, second.notes) == (0, 0, 0, [])


def test_the_page_on_upgrading(old: Old, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run its commands as printed, on the index `demo`."""
    page = (ROOT / "docs" / "upgrading.md").read_text(encoding="utf-8")
    said: list[str] = []
    lines = re.findall(r"^ *rag-bm25 (.*--uri rag.db.*)$", page, re.MULTILINE)
    own = old.copied(tmp_path)
    monkeypatch.chdir(own.folder)
    Path("old.db").rename("rag.db")
    for line in lines:
        ended = CliRunner().invoke(app, shlex.split(line.replace("laws", "demo")))
        assert ended.exit_code == 0, (line, ended.output)
        said += ended.stdout.splitlines()
    for block in re.findall(r"```text\n(.*?) *```", page, re.DOTALL):
        assert block.strip() in said
    assert len(lines) == 4
