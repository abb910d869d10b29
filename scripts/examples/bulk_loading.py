"""Load a large corpus with processes of this machine: encode parts of it, merge them, load the files.

    python scripts/examples/bulk_loading.py corpus.jsonl --workers 4 --uri ./rag.db

Each line of the corpus is a JSON object with "text", and maybe "id" and "metadata". Needs rag-bm25[lite,bulk].
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.bulk import encode_parts, load, merge
from rag_bm25.store.milvus import MilvusStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONFIG = IndexConfig(chunk_size=500)


def parts(corpus: Path, size: int) -> Iterator[list[dict[str, Any]]]:
    """Cut the corpus into parts, one of which is read at a time."""
    with corpus.open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        while part := list(islice(rows, size)):
            yield part


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Load a corpus in bulk.")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--uri", default="./rag.db", help="a file, or the address of a Milvus server")
    parser.add_argument("--collection", default="docs")
    parser.add_argument("--part-size", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for report in encode_parts(parts(given.corpus, given.part_size), CONFIG, folder, workers=given.workers):
            print(f"part {report.part}: {report.num_chunks} chunks, {report.num_terms} terms")
        merge(folder)
        with closing(MilvusStore(given.uri, given.collection)) as target:
            load(folder, target)
    with BM25Index.open(given.uri, given.collection) as index:
        print(f"{index.stats().num_chunks} chunks in the index; verified: {index.verify().ok}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
