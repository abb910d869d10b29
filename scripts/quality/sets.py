"""Judged sets: in BEIR format, or long documents with judged passages."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rag_bm25.evaluation import BeirDataset, load_beir
from rag_bm25.ingestion.language import MIN_CHUNKS, guess_language

CHUNK_SIZE, OVERLAP = 500, 100  # characters
MIN_SHARE = 0.5  # of a passage, that a relevant chunk has
FEW = 0.1  # of the queries of a set, that may be in another language


def load(folder: Path) -> BeirDataset:
    """Read a judged set; documents with judged passages are cut into chunks."""
    return _load_passages(folder) if (folder / "spans.tsv").exists() else load_beir(folder)


def language(dataset: BeirDataset) -> str:
    """Return the language of the texts, or of nearly all queries: those in Chinese hold a character of it."""
    if other := guess_language(sample(dataset)):
        return other.title()
    chinese = sum(any("\u4e00" <= char <= "\u9fff" for char in query) for query in dataset.queries.values())
    share = chinese / len(dataset.queries)
    return "Chinese" if share > 1 - FEW else "English" if share < FEW else "mixed"


def sample(dataset: BeirDataset) -> list[str]:
    """Return as many texts as it takes to guess their language."""
    return list(dataset.corpus.values())[:MIN_CHUNKS]


def _load_passages(folder: Path) -> BeirDataset:
    corpus: dict[str, str] = {}
    starts: dict[str, range] = {}
    for document in _read_lines(folder / "docs.jsonl"):
        text, name = document["text"], document["_id"]
        starts[name] = range(0, max(len(text), 1), CHUNK_SIZE - OVERLAP)
        corpus |= {f"{name}#{start}": text[start : start + CHUNK_SIZE] for start in starts[name]}
    qrels: dict[str, dict[str, int]] = defaultdict(dict)
    with (folder / "spans.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            begin, end, name = int(row["start"]), int(row["end"]), row["doc-id"]
            for start in starts[name]:
                covered = min(start + CHUNK_SIZE, end) - max(start, begin)
                if covered >= min(MIN_SHARE * (end - begin), OVERLAP):
                    qrels[row["query-id"]][f"{name}#{start}"] = 1
    queries = {query["_id"]: query["text"] for query in _read_lines(folder / "queries.jsonl")}
    return BeirDataset(corpus, {query: queries[query] for query in qrels}, dict(qrels))


def _read_lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
