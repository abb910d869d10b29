"""Cut ``documents/`` into chunks at blank lines and write ``corpus/`` in BEIR format.

The chunks, and the questions of ``queries.tsv`` with their judgments, are the whole input. Run it after any edit::

    python scripts/demo/make_corpus.py
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCUMENTS = HERE / "documents"
CORPUS = HERE / "corpus"
Row = dict[str, Any]


def chunks_of(document: Path) -> Iterator[Row]:
    """Yield the paragraphs of a document named ``<name>.<language>.<md or txt>``."""
    heading, *paragraphs = document.read_text(encoding="utf-8").strip().split("\n\n")
    metadata = {"source": document.name, "language": document.stem.rpartition(".")[2]}
    for n, text in enumerate(paragraphs, start=1):
        title = heading.removeprefix("# ")
        yield {"_id": f"{document.stem}#{n}", "title": title, "text": text, "metadata": metadata}


def read_queries(path: Path) -> tuple[list[Row], list[tuple[str, str, int]]]:
    """Read the queries and their (query id, chunk id, grade) judgments."""
    queries: list[Row] = []
    qrels: list[tuple[str, str, int]] = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            queries.append({"_id": row["id"], "text": row["text"]})
            for judgment in row["judgments"].split():
                chunk_id, grade = judgment.split("=")
                qrels.append((row["id"], chunk_id, int(grade)))
    return queries, qrels


def write_jsonl(path: Path, rows: Iterable[Row]) -> None:
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def main() -> None:
    chunks = [chunk for document in sorted(DOCUMENTS.glob("*.*.*")) for chunk in chunks_of(document)]
    queries, qrels = read_queries(HERE / "queries.tsv")
    unknown = {chunk_id for _, chunk_id, _ in qrels} - {chunk["_id"] for chunk in chunks}
    if unknown:
        raise ValueError(f"judged chunks must exist, got {sorted(unknown)}")
    write_jsonl(CORPUS / "corpus.jsonl", chunks)
    write_jsonl(CORPUS / "queries.jsonl", queries)
    qrels_lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in qrels)]
    (CORPUS / "qrels").mkdir(parents=True, exist_ok=True)
    (CORPUS / "qrels" / "test.tsv").write_text("\n".join(qrels_lines) + "\n", encoding="utf-8", newline="\n")
    print(f"{len(chunks)} chunks, {len(queries)} queries, {len(qrels)} judgments")


if __name__ == "__main__":
    main()
