"""Make the indexes of version 0.1 in tests/fixtures, and what that version answers from them.

    python scripts/make_old_indexes.py --lite3-python .venv-lite3/bin/python

Needs the history of the repository, and milvus-lite 2.5; with ``--lite3-python`` those of milvus-lite 3 are made, too.
The texts are those of the demo corpus. Each run makes other batch numbers, so the files differ, and the answers do not.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_bm25 import BM25Index, IndexConfig

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "fixtures" / "version_0_1"
COMMITS = {"format-1": "c69fd22", "format-2": "d80c4ae"}  # both call themselves 0.1.0; the log differs
DOCUMENT = "prices.zh.md"
QUERIES = (
    *("S5 的轮胎要打多少气", "S3 充电器 召回 批号", "颱風天不能出發，租車費退不退", "固件升级提示校验错误 0x17"),
    *("how many kilos can go in the box of the M4", "flying with the battery in checked baggage", "E-42"),
    *("plumless", "buckeroo", "𠮷野家 停车", "the battery and the bike"),
)
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"idf": "lucene"}, {"idf": "plus"}, {"bigram_weight": 0.0}, {"k3": 2.0})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Make the indexes of version 0.1 that the tests open.")
    parser.add_argument("--lite3-python", help="a Python with milvus-lite 3")
    parser.add_argument("--inside", choices=("kill", "fill"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.inside:
        {"kill": leave_unfinished, "fill": fill}[given.inside](Path("old.db"))
        return
    FIXTURES.mkdir(parents=True, exist_ok=True)
    for name, commit in COMMITS.items():
        make(name, commit, sys.executable)
    if given.lite3_python:
        make("format-1-lite3", COMMITS["format-1"], given.lite3_python)


def make(name: str, commit: str, python: str) -> None:
    """Run this file with the package of a commit, and keep the database and the answers."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        tree, work = Path(folder, "tree"), Path(folder, "work")
        work.mkdir()
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(tree, filter="data")
        environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        for part, code in (("kill", 9), ("fill", 0)):
            command = [python, str(Path(__file__).resolve()), "--inside", part]
            done = subprocess.run(command, cwd=work, env=environment, check=False).returncode
            if done != code:
                sys.exit(f"{name}, {part}: ended with {done}")
        with tarfile.open(FIXTURES / f"{name}.tar.xz", "w:xz") as kept:
            for file in ("old.db", "words.statistics", "answers.json"):
                kept.add(work / file, file)
    print(f"{name}: {(FIXTURES / f'{name}.tar.xz').stat().st_size:,} bytes")


def corpus() -> list[dict[str, Any]]:
    """Return every twelfth chunk of the demo corpus of the commit."""
    import rag_bm25

    path = Path(rag_bm25.__file__).parents[1] / "scripts" / "demo" / "corpus" / "corpus.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][::12]


def leave_unfinished(path: Path) -> None:
    """Die in the middle of a batch, when the new rows are stored beside those that they replace."""
    from rag_bm25 import BM25Index, IndexConfig

    index = BM25Index.open(path, "unfinished", config=IndexConfig(chunk_size=100))
    index.add(["电池保修两年", "The frame has five years."], ids=["old", "kept"])
    index._store.delete_chunks = lambda _pks: os._exit(9)  # noqa: SLF001
    index.add(["电池保修三年", "A chunk that is new."], ids=["old", "new"])


def fill(path: Path) -> None:
    """Make every other index, and write down what the version answers."""
    answers = {"demo": fill_demo(path), "dense": fill_dense(path), "by_term": fill_by_term(path)}
    answers["words"] = fill_words(path)
    fill_files(path)
    Path("answers.json").write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")


def configs() -> dict[str, IndexConfig]:
    """Return the config that each index is made with, as programs have it written down."""
    from rag_bm25 import AnalyzerConfig, FieldWeight, IndexConfig

    analyzer = AnalyzerConfig(stem=False, query_segmentation="exact", user_words=["轮毂电机"], stop_words=["the", "的"])
    dense = IndexConfig(
        chunk_size=80, length_unit="terms", k1=1.2, b=0.6, idf="lucene", k3=8.0, bigram_weight=0.7, weighting="bm25+",
        delta=0.5, fields={"title": FieldWeight(chunk_size=10, weight=2.0)}, dense_dim=3, analyzer=analyzer,
    )  # fmt: skip
    return {
        "demo": IndexConfig(chunk_size=300),
        "dense": dense,
        "by_term": IndexConfig(chunk_size=300, weighting="bm25-adpt"),
        "words": IndexConfig(chunk_size=300, analyzer=AnalyzerConfig(bigrams=False)),
    }


def fill_demo(path: Path) -> dict[str, Any]:
    """Use the defaults: batches, updates, deletions, two namespaces, a compaction in between, and colliding terms."""
    from rag_bm25 import BM25Index

    rows = corpus()
    with BM25Index.open(path, "demo", config=configs()["demo"]) as index:
        for start in range(0, len(rows), 5):
            batch = rows[start : start + 5]
            for namespace in ("", "英文 en"):
                of_it = [row for row in batch if (".en" in row["_id"]) == (namespace != "")]
                add_rows(index, of_it, namespace)
            if start == 10:
                compact(index)
        special = {"hash": "plumless", "编号 2": "buckeroo plumless", "𠮷": "𠮷野家 的 停车场", "empty": ""}
        index.add(list(special.values()), ids=list(special))
        changed = [row | {"text": row["text"] + " 另外收费，见附表。"} for row in rows[:4] if ".en" not in row["_id"]]
        add_rows(index, changed, "")
        index.add([rows[0]["text"]], ids=[rows[0]["_id"]], metadatas=[{"changed": True}])
        index.delete([rows[4]["_id"], "hash"])
        index.delete(filter={"source": "search-engineering.en.md"}, namespace="英文 en")
        return answers_of(index)


def compact(index: Any) -> None:
    """Fold the deltas, of which there are too few for the version to do so by itself."""
    log = index._live.log if hasattr(index, "_live") else index._log  # noqa: SLF001
    log.compact(above=0)


def fill_dense(path: Path) -> dict[str, Any]:
    """Use dense vectors, fields, and parameters that are not the defaults."""
    from rag_bm25 import BM25Index

    with BM25Index.open(path, "dense", config=configs()["dense"]) as index:
        rows = corpus()[:6]
        add_rows(index, rows, "", embeddings=[[len(row["text"]) % 7 + 1, number, 1] for number, row in enumerate(rows)])
        index.delete([rows[3]["_id"]])
        answers = answers_of(index)
        hits = index.search_dense([1, 2, 3], k=4)
        return {**answers, "dense": [[hit.id, hit.score] for hit in hits]}


def fill_by_term(path: Path) -> dict[str, Any]:
    """Use a weighting with a k1 for each term, whose table is stored."""
    from rag_bm25 import BM25Index

    with BM25Index.open(path, "by_term", config=configs()["by_term"]) as index:
        add_rows(index, corpus()[:6], "")
        index.reencode()
        return answers_of(index)


def fill_words(path: Path) -> dict[str, Any]:
    """Use no bigrams."""
    from rag_bm25 import BM25Index

    with BM25Index.open(path, "words", config=configs()["words"]) as index:
        add_rows(index, corpus()[:6], "")
        return answers_of(index)


def fill_files(path: Path) -> None:
    """Ingest a document on the command line."""
    import rag_bm25

    documents = Path(rag_bm25.__file__).parents[1] / "scripts" / "demo" / "documents"
    folder = Path("documents")
    folder.mkdir()
    (folder / DOCUMENT).write_bytes((documents / DOCUMENT).read_bytes())
    command = ["ingest", str(folder), "--uri", str(path), "--collection", "files", "--chunk-size", "400"]
    subprocess.run([sys.executable, "-m", "rag_bm25", *command], check=True, stdout=subprocess.DEVNULL)


def add_rows(index: BM25Index, rows: Sequence[dict[str, Any]], namespace: str, **options: Any) -> None:
    """Add rows of the corpus, with the title and their metadata."""
    metadatas = [{"title": row["title"], **row["metadata"]} for row in rows]
    ids = [row["_id"] for row in rows]
    index.add([row["text"] for row in rows], ids=ids, metadatas=metadatas, namespace=namespace, **options)


def answers_of(index: BM25Index) -> dict[str, Any]:
    """Return what an index holds, its statistics, and the hits of every query with every option."""
    namespaces = index.stats().namespaces
    stats = {name: index.stats(namespace=name) for name in namespaces}
    return {
        "chunks": {name: {c.id: [c.text, c.metadata] for c in index.chunks(namespace=name)} for name in namespaces},
        "stats": {
            name: {"N": one.num_chunks, "terms": one.num_terms, "length": one.total_length, "mean IDF": one.average_idf}
            for name, one in stats.items()
        },
        "df": document_frequencies(index),
        "weights": {name: {query: weights_of(index, query, name) for query in QUERIES} for name in namespaces},
        "searches": [
            {"query": query, "options": options, "namespace": name, "hits": [[hit.id, hit.score] for hit in hits]}
            for name in namespaces
            for query in QUERIES
            for options in OPTIONS
            if (hits := index.search(query, k=20, namespace=name, **options))
        ],
    }


def weights_of(index: BM25Index, query: str, namespace: str) -> dict[str, float]:
    """Return term id -> weight of a query."""
    (vector,) = index.encode_queries([query], namespace=namespace)
    return {str(id_): weight for id_, weight in vector.to_dict().items()}


def document_frequencies(index: BM25Index) -> dict[str, dict[str, int]]:
    """Return term -> namespace -> df, out of the file that the version exports."""
    import gzip

    index.export_statistics("all.statistics")
    with gzip.open("all.statistics", "rt", encoding="utf-8") as file:
        next(file)
        return {term: df for term, _id, df in map(json.loads, file) if df}


if __name__ == "__main__":
    main()
