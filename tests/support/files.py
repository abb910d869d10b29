"""Files to ingest, and what became of them."""

from __future__ import annotations

import json
from pathlib import Path

from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.ingestion.files import SourceFile, find_files
from rag_bm25.ingestion.ingesting import IngestReport, ingest
from rag_bm25.ingestion.reading import read_file
from rag_bm25.ingestion.splitting import splitter

CONFIG = IndexConfig(chunk_size=40, analyzer=str.split)


def write(path: Path, contents: str | bytes = "some text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
    return path


def write_rows(path: Path, *rows: object) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def sources(*paths: Path) -> list[str]:
    return [file.source for file in find_files(paths).files]


def pieces(path: Path, config: IndexConfig = CONFIG) -> dict[str, str]:
    file = SourceFile(path, path.name, path.stat().st_size)
    return {piece.id: piece.text for piece in read_file(file, splitter(config))}


def run(
    index: BM25Index, *paths: Path, root: Path | None = None, name: str | None = None, prune: bool = False
) -> IngestReport:
    return ingest(index, find_files(paths, root=root, name=name), prune=prune)


def ids(index: BM25Index) -> list[str]:
    return sorted(chunk.id for chunk in index.chunks())
