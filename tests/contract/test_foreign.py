"""Collections that other software fills, made here by pymilvus alone, on every engine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support import engines
from support.programs import environment

from rag_bm25 import (
    BM25Index,
    FormatError,
    IndexConfig,
    IndexNotFoundError,
    ParameterError,
    StoreError,
    StoreLockedError,
)
from rag_bm25.adapters import BM25Encoder
from rag_bm25.ingestion import CollectionRows
from rag_bm25.ingestion.ingesting import IngestReport
from rag_bm25.store.milvus.foreign import ExternalCollection
from rag_bm25.vectors.sparse import SparseVector

CONFIG = IndexConfig(chunk_size=30)
WORDS = [
    *("milvus", "stores", "sparse", "vectors", "battery", "charging", "v2.5.1"),
    *("检索", "劳动", "合同", "解除", "电池"),
]
HOSTILE = [
    *("", " ", "it's", 'q"q', "\\", "a\\n", 'end\\"', "a\nb", "a\r\nb", "a\tb", "a\rb", "a\rc", "\r"),
    *("中文", "é", "\u2028", "👩", "\x01", "\x7f", "{x}", "%_", "x') OR ('1'='1", "n\0ul", "zz"),
]
KEYS = {
    "negative ints": [-(2**63), -(2**63) + 1, -1000, -1, 0, 1, 2**63 - 1],
    "hostile strings": HOSTILE,
    "carriage returns": [f"\r{number}" for number in range(8)],
}


def is_lite2() -> bool:
    return engines.lite_version().startswith("2.")


@pytest.fixture(params=["embedded", "server", *engines.DOCKER])
def engine(request: pytest.FixtureRequest) -> str:
    """The engine's name."""
    if request.param == "embedded" and not engines.lite_version():
        pytest.skip("milvus-lite is not installed")
    return str(request.param)


@dataclass
class Others:
    """Other software, with a client of pymilvus and nothing of ours, and its collection."""

    uri: str
    name: str
    socket: str = ""  # of an engine that serves the file already

    @contextmanager
    def client(self) -> Iterator[Any]:
        client = engines.raw_client(self.socket or self.uri)
        try:
            yield client
        finally:
            client.close()
            if self.uri.endswith(".db") and not self.socket:
                release(self.uri)

    def create(
        self, client: Any, key: str = "INT64", *, auto_id: bool = False, nullable: bool = False, sparse: bool = True
    ) -> None:
        from pymilvus import DataType

        schema = client.create_schema(auto_id=auto_id, enable_dynamic_field=True)
        schema.add_field("key", DataType[key], is_primary=True, **({"max_length": 512} if key == "VARCHAR" else {}))
        schema.add_field("text", DataType.VARCHAR, max_length=65535, **({"nullable": True} if nullable else {}))
        if sparse:
            schema.add_field("weights", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_field("dense", DataType.FLOAT_VECTOR, dim=2)
        indexes = client.prepare_index_params()
        if sparse:
            indexes.add_index("weights", index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
        indexes.add_index("dense", index_type="FLAT", metric_type="L2")
        client.create_collection(self.name, schema=schema, index_params=indexes)

    def fill(self, texts: Sequence[str | None], keys: Sequence[Any] | None = None, *, auto_id: bool = False) -> None:
        """Create the collection with rows of these texts, and vectors made by our encoder."""
        keys = range(len(texts)) if keys is None else keys
        vectors = BM25Encoder(CONFIG).encode_documents([text or "" for text in texts])
        with self.client() as client:
            nullable = None in texts
            self.create(client, "VARCHAR" if isinstance(keys[0], str) else "INT64", auto_id=auto_id, nullable=nullable)
            rows = [
                {
                    **({} if auto_id else {"key": key}),
                    "text": text,
                    "weights": vector.to_dict(),
                    "dense": [0.0, 1.0],
                    "n": at,
                }
                for at, (key, text, vector) in enumerate(zip(keys, texts, vectors, strict=True))
            ]
            for start in range(0, len(rows), 2_000):
                client.insert(self.name, rows[start : start + 2_000])

    def state(self) -> Any:
        """All that others can see of the collection."""
        with self.client() as client:
            described = client.describe_collection(self.name)
            described.pop("schema_version", None)
            client.load_collection(self.name)
            output = ["key", "text", "weights", "dense", "n"]
            rows = client.query(self.name, filter="n >= 0", output_fields=output, consistency_level="Strong")
            rows = sorted(rows, key=lambda row: str(row["key"]))
            return repr(described), repr(rows), client.list_indexes(self.name), sorted(client.list_collections())

    def opened(self) -> ExternalCollection:
        from rag_bm25.store.milvus.connection import Connection
        from rag_bm25.store.milvus.foreign import ExternalCollection

        return ExternalCollection(Connection(self.uri), self.name)

    def read(self) -> list[str]:
        with closing(self.opened()) as collection:
            return [row["text"] for page in collection.rows(["text"]) for row in page]


def release(path: str) -> None:
    from milvus_lite.server_manager import server_manager_instance

    server_manager_instance.release_server(path)


@pytest.fixture
def others(engine: str, tmp_path: Path) -> Others:
    name = "theirs_" + re.sub(r"\W", "_", tmp_path.name)
    if engine != "embedded":
        return Others(engines.uri_of(engine), name)
    if is_lite2():  # starting and stopping an engine for each client takes most of the time of a test
        return Others(engines.shared_file(), name, engines.shared_socket())
    return Others(str(tmp_path / "test.db"), name)


def sentences(number: int) -> list[str]:
    """Texts that differ, with terms of all frequencies."""
    return [
        " ".join(WORDS[at] for at in range(len(WORDS)) if number_ % (at + 2) == 0) + f" unique{number_}"
        for number_ in range(number)
    ]


class TestReading:
    def test_auto_ids(self, others: Others) -> None:
        texts = sentences(25)
        others.fill(texts, auto_id=True)
        assert sorted(others.read()) == sorted(texts)

    @pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
    def test_every_key_once_whatever_it_is(
        self, others: Others, keys: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        texts = [f"text {number}" for number in range(len(keys))]
        others.fill(texts, keys)
        with closing(others.opened()) as collection:
            for page in (1, 3, 1000):
                monkeypatch.setattr("rag_bm25.store.milvus.foreign.FIRST_PAGE", page)
                monkeypatch.setattr("rag_bm25.store.milvus.foreign.PAGE_BYTES", page * 100)
                found = [row["text"] for rows in collection.rows(["text"]) for row in rows]
                assert sorted(found) == sorted(texts), page

    @pytest.mark.slow
    def test_more_rows_than_an_engine_gives_at_once(self, others: Others) -> None:
        texts = [f"t{number}" for number in range(20_000)]
        others.fill(texts)
        with closing(others.opened()) as collection:
            pages = list(collection.rows(["text"]))
            assert collection.count() == 20_000
        assert sorted(row["text"] for page in pages for row in page) == sorted(texts)
        assert max(map(len, pages)) <= 10_000

    @pytest.mark.slow
    def test_replies_that_would_be_too_large(self, others: Others, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag_bm25.store.milvus.foreign.FIRST_PAGE", 1_250)  # 75 MB
        with others.client() as client:
            others.create(client)
            row = {"weights": {1: 1.0}, "dense": [0.0, 1.0]}
            for start in range(0, 1_300, 260):
                client.insert(
                    others.name, [{**row, "key": key, "text": f"{key:<60000}"} for key in range(start, start + 260)]
                )
        with closing(others.opened()) as collection:
            pages = [[int(row["text"]) for row in page] for page in collection.rows(["text"])]
        assert [key for page in pages for key in page] == list(range(1_300))
        assert max(map(len, pages[1:])) <= 70

    def test_texts_with_nul_and_without_text(self, others: Others) -> None:
        texts = ["a\0b", "", "  ", "\0"]
        others.fill(texts)
        assert others.read() == texts

    def test_a_key_of_several_rows_counts_once(self, others: Others) -> None:
        others.fill(["apple"] * 3, [1, 1, 2])
        assert others.read() == ["apple", "apple"]

    def test_an_empty_collection(self, others: Others) -> None:
        with others.client() as client:
            others.create(client)
        assert others.read() == []


class TestRefusals:
    def test_what_is_not_there(self, others: Others, tmp_path: Path) -> None:
        replace(others, name=f"{others.name}_other").fill(sentences(3))
        with pytest.raises(IndexNotFoundError, match=f"collection '{others.name}' not found at "):
            others.opened()
        with pytest.raises(IndexNotFoundError, match=r"database .* not found"):
            replace(others, uri=str(tmp_path / "other.db")).opened()
        assert not (tmp_path / "other.db").exists()

    def test_fields(self, others: Others) -> None:
        others.fill(sentences(3))
        for field in ("key", "weights"):
            with pytest.raises(ParameterError, match=rf"text_field must be a VARCHAR field .*\(text\), got '{field}'"):
                CollectionRows(others.uri, others.name, text_field=field)
        with pytest.raises(ParameterError, match=r"vector_field must be a FLOAT_VECTOR .*\(dense\), got 'weights'"):
            CollectionRows(others.uri, others.name, vector_field="weights")

    def test_an_index(self, others: Others) -> None:
        with BM25Index.open(others.uri, others.name, config=CONFIG) as index:
            index.add(["apple"])
        for name in (others.name, f"{others.name}_bm25"):
            with pytest.raises(ParameterError, match=f"'{name}' is of an index of rag_bm25"):
                replace(others, name=name).opened()
        with BM25Index.open(others.uri, others.name) as index:
            assert index.verify().ok

    def test_an_index_in_the_place_of_the_collection(self, others: Others) -> None:
        others.fill(sentences(3))
        before = others.state()
        for options in ({}, {"config": CONFIG}, {"config": CONFIG, "repair": True}):
            with pytest.raises(FormatError, match="is not one of an index"):
                BM25Index.open(others.uri, others.name, **options)
        assert others.state() == before


class TestIngesting:
    """An index of the rows, in the database where they are."""

    def ingest(self, others: Others, **options: Any) -> tuple[IngestReport, list[Any]]:
        with CollectionRows(others.uri, others.name, vector_field="dense") as rows:
            config = rows.with_dense_field(CONFIG)
            assert (config.dense_dim, config.dense_metric) == (2, "COSINE")
            with BM25Index.open(others.uri, f"{others.name}_own", config=config) as index:
                report = rows.ingest_into(index, **options)
                assert index.verify().ok
                return report, contents(index)

    def test_it_is_an_index_of_the_same_chunks(self, others: Others, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag_bm25.store.milvus.foreign.FIRST_PAGE", 7)
        monkeypatch.setattr("rag_bm25.store.milvus.foreign.PAGE_BYTES", 3_000)
        texts = sentences(60)
        others.fill(texts)
        *before, names = others.state()
        report, imported = self.ingest(others)
        assert (report.added, report.rejected, report.failed, report.notes) == (60, {}, {}, [])
        again, unchanged = self.ingest(others, prune=True)
        assert (again.unchanged, again.chunks, again.deleted, unchanged) == (60, 60, 0, imported)
        config = replace(CONFIG, dense_dim=2)
        with BM25Index.open(others.uri, f"{others.name}_added", config=config) as index:
            metadatas = [{"n": at, "source": f"milvus://{others.name}"} for at in range(60)]
            index.add(texts, ids=list(map(str, range(60))), metadatas=metadatas, embeddings=[[0.0, 1.0]] * 60)
            assert imported == contents(index)
        assert others.state()[:-1] == tuple(before)
        assert set(names) < set(others.state()[-1])

    def test_what_others_did_meanwhile(self, others: Others) -> None:
        others.fill(sentences(12))
        self.ingest(others)
        row = {"weights": {1: 1.0}, "text": sentences(12)[5], "n": 5}
        with others.client() as client:
            client.load_collection(others.name)
            client.delete(others.name, ids=[0, 1])
            client.upsert(others.name, [{**row, "key": 5, "dense": [1.0, 0.0]}])
            client.insert(others.name, [{**row, "key": 100, "dense": [3.0, 0.0], "text": "long vector"}])
            client.insert(others.name, [{**row, "key": 101, "dense": [0.6, 0.8], "text": "added milvus"}])
        report, chunks = self.ingest(others)
        assert (report.added, report.updated, report.unchanged, report.stale, report.deleted) == (1, 1, 9, 2, 0)
        assert "row 100: the collection compares by L2" in report.reasons[0]
        report, pruned = self.ingest(others, prune=True)
        assert (report.unchanged, report.deleted) == (11, 2)
        assert [id_ for id_, *_ in chunks if id_ not in {one for one, *_ in pruned}] == ["0", "1"]

    @pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
    def test_a_row_of_any_key_is_a_chunk_or_is_told(self, others: Others, keys: list[Any]) -> None:
        others.fill([f"text {number}" for number in range(len(keys))], keys)
        report, chunks = self.ingest(others)
        wrong = [key for key in map(str, keys) if not key or "\0" in key]
        assert sorted(id_ for id_, *_ in chunks) == sorted(key for key in map(str, keys) if key not in wrong)
        assert sum(report.rejected.values()) == len(wrong)
        assert all(any(f"row {key!r}: " in reason for reason in report.reasons) for key in wrong)

    def test_null_is_told_by_its_key(self, others: Others, engine: str) -> None:
        if engines.dialect_of(engine) == "lite2":
            pytest.skip("milvus-lite 2.5 has no null")
        others.fill(["apple", None, "fig"])
        report, chunks = self.ingest(others)
        assert [id_ for id_, *_ in chunks] == ["0", "2"]
        assert 'row 1: a row needs a "text"' in report.reasons[0]

    def test_an_empty_collection(self, others: Others) -> None:
        with others.client() as client:
            others.create(client, sparse=False)
        report, chunks = self.ingest(others, prune=True)
        assert (report.chunks, report.failed, chunks) == (0, {}, [])

    def test_a_text_that_the_schema_does_not_name(self, others: Others) -> None:
        others.fill(sentences(3))
        with others.client() as client:
            client.load_collection(others.name)
            row = {"weights": {1: 1.0}, "text": "", "dense": [0.0, 1.0], "body": "dynamic", "m": {"a": [1]}}
            client.insert(others.name, [{**row, "key": 9, "n": 9}])
        with (
            CollectionRows(others.uri, others.name, text_field="body") as rows,
            BM25Index.open(others.uri, f"{others.name}_own", config=CONFIG) as index,
        ):
            assert rows.ingest_into(index).rejected == {rows.source: 3}
            (chunk,) = index.chunks()
        assert (chunk.id, chunk.text) == ("9", "dynamic")
        assert chunk.metadata == {"text": "", "n": 9, "m": {"a": [1]}, "source": rows.source}


def contents(index: BM25Index) -> list[Any]:
    chunks = sorted(index.chunks(), key=lambda chunk: chunk.id)
    dense = index.get_embeddings([chunk.id for chunk in chunks])
    return [(chunk.id, chunk.text, chunk.metadata, dense[chunk.id].tolist()) for chunk in chunks]


class TestRanking:
    def test_searching_with_pymilvus_ranks_and_scores_as_an_index_does(self, others: Others) -> None:
        texts = sentences(300)
        others.fill(texts)
        encoder = BM25Encoder(CONFIG)
        with others.client() as client:
            client.load_collection(others.name)
            pages = client.query_iterator(others.name, batch_size=100, output_fields=["text"])
            for page in iter(pages.next, []):
                encoder.learn([row["text"] for row in page])
            pages.close()
        queries = [
            "milvus 检索",
            "解除劳动合同",
            "charging battery v2.5.1",
            "unique17 sparse",
            "nowhere",
            "电池 电池 stores",
        ]
        with BM25Index.open(others.uri, f"{others.name}_own", config=CONFIG) as index:
            index.add(texts, ids=[f"{at:03}" for at in range(len(texts))])
            expected = [index.search(query, 20) for query in queries]
        assert [bool(hits) for hits in expected] == [True, True, True, True, False, True]
        with others.client() as client:
            client.load_collection(others.name)
            for query, vector, hits in zip(queries, encoder.encode_queries(queries), expected, strict=True):
                found = searched(client, others.name, vector) if len(vector) else []
                assert [score for _, score in found] == pytest.approx([hit.score for hit in hits], rel=1e-5), query
                # Rows of one score come in any order from an engine, and in the order of ids from an index.
                last = hits[-1].score if hits else 0.0
                clear = [(hit.id, round(hit.score, 4)) for hit in hits if hit.score > last * 1.0001]
                assert sorted((at, round(score, 4)) for at, score in found if score > last * 1.0001) == sorted(clear)


def searched(client: Any, name: str, vector: SparseVector) -> list[tuple[str, float]]:
    """Search as other software does."""
    found = client.search(
        name,
        data=[vector.to_dict()],
        anns_field="weights",
        search_params={"metric_type": "IP"},
        limit=20,
        output_fields=["n"],
    )[0]
    return [(f"{hit['entity']['n']:03}", hit["distance"]) for hit in found]


class TestEnginesOfOthers:
    def test_one_of_milvus_lite_2_in_this_process_is_refused_and_goes_on(self, tmp_path: Path) -> None:
        if not is_lite2():
            pytest.skip("milvus-lite 2.5 is not what is installed")
        others = Others(str(tmp_path / "test.db"), "theirs")
        others.fill(sentences(5))
        with others.client() as client:
            for _ in range(2):
                with pytest.raises(StoreLockedError, match="is open in this process through pymilvus"):
                    others.read()
            assert len(client.query("theirs", filter="key >= 0", output_fields=["key"])) == 5
        assert len(others.read()) == 5

    def test_one_of_milvus_lite_3_in_this_process_is_shared_and_goes_on(self, tmp_path: Path) -> None:
        if not engines.lite_version() or is_lite2():
            pytest.skip("milvus-lite 3 is not what is installed")
        others = Others(str(tmp_path / "test.db"), "theirs")
        others.fill(sentences(5))
        with others.client() as client:
            client.load_collection("theirs")
            assert len(others.read()) == 5
            assert len(client.query("theirs", filter="key >= 0", output_fields=["key"])) == 5

    @pytest.mark.slow
    def test_one_in_another_process_keeps_its_lock(self, tmp_path: Path) -> None:
        if not engines.lite_version():
            pytest.skip("milvus-lite is not installed")
        others = Others(str(tmp_path / "test.db"), "theirs")
        others.fill(sentences(5))
        code = (
            "import sys, warnings; warnings.simplefilter('ignore')\n"
            "from support import engines\n"
            "client = engines.raw_client(sys.argv[1]); print('open', flush=True); sys.stdin.readline()\n"
            "client.load_collection('theirs')\n"
            "print(len(client.query('theirs', filter='key >= 0', output_fields=['key'])), client.list_collections())\n"
        )
        holder = subprocess.Popen(
            [sys.executable, "-c", code, others.uri],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        for _ in range(3):  # the refused one used to remove the lock, and the next one then wrote beside the holder
            with pytest.raises(StoreError):
                others.read()
        assert holder.communicate("go on\n")[0] == "5 ['theirs']\n"
        assert len(others.read()) == 5

    def test_a_collection_that_a_server_has_not_loaded_is_not_loaded(self, others: Others, engine: str) -> None:
        if engine == "embedded":
            pytest.skip("what an embedded engine loads is nobody else's business")
        others.fill(sentences(5))
        with others.client() as client:
            client.release_collection(others.name)
            with pytest.raises(StoreError, match=r"is not loaded \(its state is NotLoad\): load it"):
                others.read()
            assert client.get_load_state(others.name)["state"].name == "NotLoad"
