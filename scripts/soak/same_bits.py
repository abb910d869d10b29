"""Check that serial ingestion and ingestion with workers store the same bits.

    python scripts/soak/same_bits.py --chunks 10000

Chunks are words of jieba's dictionary, drawn by their frequency, of 500 characters. Every way fills an index of its own
in a temporary file; then texts, metadata, lengths, vectors, statistics, vocabulary and search results are compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jieba
import numpy as np

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.store.milvus import MilvusStore
from rag_bm25.store.protocol import Store

SIZE = 500
CONFIG = IndexConfig(chunk_size=SIZE)
PART = 2_000  # chunks of a call of add


def generated_rows(number: int) -> list[dict[str, Any]]:
    """Draw chunks of 500 characters; every hundredth has no terms."""
    jieba.initialize()
    words = [(word, frequency) for word, frequency in jieba.dt.FREQ.items() if frequency]
    weights = np.array([frequency for _, frequency in words], float)
    drawn = np.random.default_rng(1).choice(len(words), (number, SIZE), p=weights / weights.sum())
    texts = ("".join(words[word][0] for word in row)[:SIZE] for row in drawn)
    return [
        {"text": "。" if at % 100 == 99 else text, "id": f"chunk {at}", "metadata": {"at": at, "ratio": at / 7}}
        for at, text in enumerate(texts)
    ]


def parts_of(rows: Sequence[dict[str, Any]]) -> list[Sequence[dict[str, Any]]]:
    return [rows[start : start + PART] for start in range(0, len(rows), PART)]


def added(uri: Path, rows: Sequence[dict[str, Any]], workers: int) -> None:
    with BM25Index.open(uri, "docs", config=CONFIG) as index:
        for part in parts_of(rows):
            texts, ids, metadatas = ([row[name] for row in part] for name in ("text", "id", "metadata"))
            index.add(texts, ids=ids, metadatas=metadatas, workers=workers)


def fingerprints(uri: Path, rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return digests of all parts of an index."""
    store = MilvusStore(uri, "docs", read_only=True)
    with BM25Index.from_store(store, read_only=True) as index:
        found = {"rows": digest(stored(store)), **statistics(store)}
        queries = [row["text"][:12] for row in rows[:: max(1, len(rows) // 50)]]
        found["hits"] = digest([[(hit.id, hit.score) for hit in hits] for hits in index.search_batch(queries)])
        found["verified"] = str(index.verify().ok)
    return found


def stored(store: Store) -> list[Any]:
    """Return all rows without the names of their batches."""
    return [
        (
            row.pk, row.id, row.namespace, row.text, row.length, json.dumps(row.metadata, sort_keys=True),
            row.vector.ids.tobytes().hex(), row.vector.values.tobytes().hex(),
        )
        for rows in store.scan_chunks(contents=True, vectors=True) for row in rows
    ]  # fmt: skip


def statistics(store: Store) -> dict[str, str]:
    log = StatisticsLog(store)
    vocabulary = log.vocabulary()
    total = log.statistics.whole.contribution()
    return {
        "statistics": digest([total.num_chunks, total.total_length, total.ids.tolist(), total.df.tolist()]),
        "mean IDF": float(log.statistics.whole.idf_inputs.average_idf).hex(),
        "vocabulary": digest(sorted((term, vocabulary.id(term)) for term in vocabulary)),
        "displaced": digest(log.view.displaced),
    }


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare what serial ingestion and workers store.")
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    rows = generated_rows(given.chunks)
    ways: dict[str, Callable[[Path], None]] = {
        "serial": lambda uri: added(uri, rows, 0),
        "workers": lambda uri: added(uri, rows, given.workers),
    }
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, way in ways.items():
            start = time.perf_counter()
            way(Path(folder, f"{name}.db"))
            print(f"{name}: {given.chunks:,} chunks in {time.perf_counter() - start:.1f} s")
            found[name] = fingerprints(Path(folder, f"{name}.db"), rows)
    for what in found["serial"]:
        print(f"{what:12} " + "  ".join(f"{name} {one[what]}" for name, one in found.items()))
    same = all(one == found["serial"] for one in found.values()) and found["serial"]["verified"] == "True"
    print("the same bits" if same else "NOT the same bits")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
