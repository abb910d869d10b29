"""Whether scores are right after adds, updates and deletes: ``python scripts/exactness.py [ENGINE...]``.

Each engine gets 400 texts, 100 longer ones, 40 updates and 195 deletions, and is asked three queries. Its scores are
compared with those of a fresh index of the same engine, filled once with the 305 texts that are left: no formula is
compared. Engines that are not installed are skipped; ``pip install lancedb tantivy qdrant-client qdrant-edge-py`` and
milvus-lite 3 bring all. The exit code is 1 where rag_bm25 is not exact, or one fails.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from functools import partial
from importlib import metadata
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

Texts = dict[int, str]
Scores = dict[int, float]

QUERIES = ("apple", "apple pear", "oak long")
TREES = ("ash", "elm", "fig", "fir", "oak", "pine", "yew")
MOST = 1_000  # hits, which is all
BEST = 10
SAME = 1e-6  # engines compute in single precision


def text_of(number: int, more: str = "") -> str:
    fruit = "pear" if number % 2 else "apple"
    return f"{fruit} {TREES[number % 7]} {'tree ' * (number % 5)}{more}".strip()


BASE = {number: text_of(number) for number in range(400)}
LONG = {number: text_of(number, "long " * 30) for number in range(400, 500)}
UPDATED = {number: text_of(number + 1, "updated") for number in range(1, 80, 2)}  # pears become apples
DELETED = list(range(0, 390, 2))  # nearly all apples of the base
LEFT = {number: text for number, text in {**BASE, **LONG, **UPDATED}.items() if number not in DELETED}


class Ours:
    def __init__(self, folder: Path) -> None:
        from rag_bm25 import AnalyzerConfig, BM25Index, IndexConfig

        config = IndexConfig(chunk_size=60, k3=None, analyzer=AnalyzerConfig(split_camel_case=False))
        self._index = BM25Index.open(folder / "ours.db", "texts", config=config)

    def write(self, texts: Texts) -> None:
        self._index.add(list(texts.values()), ids=list(map(str, texts)))

    def delete(self, numbers: Collection[int]) -> None:
        self._index.delete(list(map(str, numbers)))

    def search(self, query: str) -> Scores:
        return {int(hit.id): hit.score for hit in self._index.search(query, k=MOST)}

    def close(self) -> None:
        self._index.close()


class FTS5:
    def __init__(self, _folder: Path) -> None:
        self._database = sqlite3.connect(":memory:")
        self._database.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")

    def write(self, texts: Texts) -> None:
        self._database.executemany("INSERT OR REPLACE INTO texts(rowid, text) VALUES (?, ?)", texts.items())

    def delete(self, numbers: Collection[int]) -> None:
        self._database.executemany("DELETE FROM texts WHERE rowid = ?", [(number,) for number in numbers])

    def search(self, query: str) -> Scores:
        asked = "SELECT rowid, -bm25(texts) FROM texts WHERE texts MATCH ?"
        return dict(self._database.execute(asked, [query.replace(" ", " OR ")]))


class LanceDB:
    def __init__(self, folder: Path) -> None:
        import lancedb
        from lancedb.index import FTS

        self._database, self._table, self._index = lancedb.connect(folder), None, FTS()

    def write(self, texts: Texts) -> None:
        rows = [{"id": number, "text": text} for number, text in texts.items()]
        if self._table:
            self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)
        else:
            self._table = self._database.create_table("texts", rows)
            self._table.create_index("text", config=self._index)

    def delete(self, numbers: Collection[int]) -> None:
        self._table.delete(f"id IN ({', '.join(map(str, numbers))})")

    def search(self, query: str) -> Scores:
        hits = self._table.search(query, query_type="fts").limit(MOST).to_list()
        return {hit["id"]: hit["_score"] for hit in hits}

    def tidy(self) -> None:
        self._table.optimize()


class Tantivy:
    def __init__(self, _folder: Path) -> None:
        import tantivy

        schema = tantivy.SchemaBuilder()
        schema.add_integer_field("id", stored=True, indexed=True)
        schema.add_text_field("text")
        self._document, self._index = tantivy.Document, tantivy.Index(schema.build())
        self._writer = self._index.writer(num_threads=1)

    def write(self, texts: Texts) -> None:
        self.delete(texts)
        for number, text in texts.items():
            self._writer.add_document(self._document(id=number, text=text))
        self._writer.commit()

    def delete(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self._writer.delete_documents_by_term("id", number)
        self._writer.commit()

    def search(self, query: str) -> Scores:
        self._index.reload()
        searcher = self._index.searcher()
        hits = searcher.search(self._index.parse_query(query, ["text"]), MOST).hits
        return {searcher.doc(address)["id"][0]: score for score, address in hits}


class QdrantLocal:
    def __init__(self, _folder: Path) -> None:
        from qdrant_client import QdrantClient, models

        self._models, self._client = models, QdrantClient(":memory:")
        self._client.create_collection("texts", vectors_config={})
        self._client.create_payload_index("texts", "text", models.TextIndexParams(type="text", scoring=True))

    def write(self, texts: Texts) -> None:
        point = partial(self._models.PointStruct, vector={})
        self._client.upsert("texts", [point(id=number, payload={"text": text}) for number, text in texts.items()])

    def delete(self, numbers: Collection[int]) -> None:
        self._client.delete("texts", list(numbers))

    def search(self, query: str) -> Scores:
        asked = self._models.TextQuery(text=self._models.TextQueryInput(query=query))
        hits = self._client.query_points("texts", asked, using="text", limit=MOST).points
        return {hit.id: hit.score for hit in hits}


class QdrantEdge:
    """Optimizing has thresholds low enough for so few texts; a server optimizes by itself."""

    def __init__(self, folder: Path, *, sparse: bool = False, optimizing: bool = False) -> None:
        import qdrant_edge as edge

        self._edge, self._sparse, self._optimizing, self._model = edge, sparse, optimizing, edge.Bm25()
        config = edge.EdgeConfig(
            vectors={"unused": edge.EdgeVectorParams(1, edge.Distance.Dot)},
            sparse_vectors={"sparse": edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
            optimizers=edge.EdgeOptimizersConfig(vacuum_min_vector_number=100, indexing_threshold=1),
        )
        self._shard = edge.EdgeShard.create(str(folder), config)
        self._shard.update(edge.UpdateOperation.create_field_index("text", edge.TextIndexParams(scoring=True)))

    def write(self, texts: Texts) -> None:
        vectors = {number: {"unused": [1.0], "sparse": self._model.embed_document(texts[number])} for number in texts}
        points = [self._edge.Point(number, vectors[number], {"text": texts[number]}) for number in texts]
        self._shard.update(self._edge.UpdateOperation.upsert_points(points))
        if self._optimizing:
            self._shard.optimize()

    def delete(self, numbers: Collection[int]) -> None:
        self._shard.update(self._edge.UpdateOperation.delete_points(list(numbers)))

    def search(self, query: str) -> Scores:
        nearest = self._edge.Query.Nearest(self._model.embed_query(query), using="sparse")
        asked = nearest if self._sparse else self._edge.TextQuery("text", query)
        return {hit.id: hit.score for hit in self._shard.query(self._edge.QueryRequest(limit=MOST, query=asked))}

    def tidy(self) -> None:
        self._shard.optimize()


class MilvusFunction:
    def __init__(self, folder: Path) -> None:
        from pymilvus import DataType, Function, FunctionType, MilvusClient

        self._client = MilvusClient(str(folder / "function.db"))
        schema = self._client.create_schema()
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("text", DataType.VARCHAR, max_length=1_000, enable_analyzer=True)
        schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(Function("bm25", FunctionType.BM25, ["text"], ["sparse"]))
        indexes = self._client.prepare_index_params()
        indexes.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
        self._client.create_collection("texts", schema=schema, index_params=indexes)

    def write(self, texts: Texts) -> None:
        self._client.upsert("texts", [{"id": number, "text": text} for number, text in texts.items()])
        self._client.flush("texts")

    def delete(self, numbers: Collection[int]) -> None:
        self._client.delete("texts", ids=list(numbers))
        self._client.flush("texts")

    def search(self, query: str) -> Scores:
        (hits,) = self._client.search("texts", [query], anns_field="sparse", limit=MOST)
        return {hit["id"]: abs(hit["distance"]) for hit in hits}

    def close(self) -> None:
        self._client.close()


class Engine(NamedTuple):
    """How an engine is made, and what brings it."""

    package: str
    make: Callable[[Path], Any]
    upkeep: str = ""
    at_least: int = 0  # the version

    @property
    def version(self) -> str:
        """The version of SQLite or of the package, or an empty string where none is installed that has BM25."""
        if not self.package:
            return sqlite3.sqlite_version
        try:
            version = metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return ""
        return version if int(version.partition(".")[0]) >= self.at_least else ""


OURS = "rag_bm25"
ENGINES = {
    OURS: Engine("milvus-lite", Ours),
    "sqlite": Engine("", FTS5),
    "lancedb": Engine("lancedb", LanceDB, "optimize()"),
    "tantivy": Engine("tantivy", Tantivy),
    "qdrant-local": Engine("qdrant-client", QdrantLocal),
    "qdrant-edge-text": Engine("qdrant-edge-py", QdrantEdge),
    "qdrant-edge-text-optimized": Engine("qdrant-edge-py", partial(QdrantEdge, optimizing=True), "a vacuum"),
    "qdrant-edge-sparse": Engine("qdrant-edge-py", partial(QdrantEdge, sparse=True), "a vacuum"),
    "milvus-function": Engine("milvus-lite", MilvusFunction, at_least=3),
}

HEAD = (
    "| engine | version | | greatest relative error of a score | changed among 3 × 10 best |",
    "|---|---|---|---|---|",
)


class Result(NamedTuple):
    """The greatest relative error of a score, and how many of the ten best hits of all queries should not be there."""

    error: float
    changed: int


def measure(engine: Engine) -> Iterator[tuple[str, Result]]:
    """Yield a result right after the changes, and another after the upkeep."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        changed, fresh = engine.make(Path(one)), engine.make(Path(other))
        for texts in BASE, {**LONG, **UPDATED}:
            changed.write(texts)
        changed.delete(DELETED)
        fresh.write(LEFT)
        yield "at once", compare(changed, fresh)
        if engine.upkeep:
            changed.tidy()
            yield f"after {engine.upkeep}", compare(changed, fresh)
        for each in changed, fresh:
            getattr(each, "close", bool)()


def compare(changed: Any, fresh: Any) -> Result:
    results = [compare_scores(changed.search(query), fresh.search(query)) for query in QUERIES]
    return Result(max(result.error for result in results), sum(result.changed for result in results))


def compare_scores(scores: Scores, right: Scores) -> Result:
    """Compare the hits of a query. All hits that are as good as the tenth belong to the ten best."""
    errors = [abs(scores.get(number, 0.0) - score) / abs(score) for number, score in right.items()]
    error = inf if scores.keys() - right.keys() else max(errors)
    tenth = sorted(right.values(), reverse=True)[:BEST][-1] * (1 - SAME)
    best = sorted(scores, key=lambda number: -scores[number])[:BEST]
    return Result(error if error > SAME else 0.0, sum(right.get(number, 0.0) < tenth for number in best))


def main(names: Collection[str]) -> int:
    print(*HEAD, sep="\n")
    return max(report(name, ENGINES[name]) for name in names or ENGINES)


def report(name: str, engine: Engine) -> int:
    """Print the rows of an engine; return 1 where it fails, or ours is not exact."""
    if not engine.version:
        print(f"| {name} | | skipped: not installed | | |")
        return 0
    try:
        results = list(measure(engine))
    except Exception as error:  # noqa: BLE001
        print(f"| {name} | {engine.version} | failed: {error!r} | | |")
        return 1
    for when, result in results:
        print(f"| {name} | {engine.version} | {when} | {result.error:.2g} | {result.changed} |")
    return int(name == OURS and any(result != Result(0.0, 0) for _, result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
