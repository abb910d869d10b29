"""Ingest files, JSON lines, collections of other software, and other indexes."""

from __future__ import annotations

from rag_bm25.ingestion.collection_rows import CollectionRows
from rag_bm25.ingestion.files import find_files
from rag_bm25.ingestion.ingesting import ingest
from rag_bm25.ingestion.reading import ReadOptions, read_document
from rag_bm25.ingestion.reindexing import reindex
from rag_bm25.ingestion.rows import RowFields
from rag_bm25.ingestion.source_roots import read_source_roots
from rag_bm25.ingestion.splitting import splitter

__all__ = [
    "CollectionRows",
    "ReadOptions",
    "RowFields",
    "find_files",
    "ingest",
    "read_document",
    "read_source_roots",
    "reindex",
    "splitter",
]
