"""Ingest files, JSON lines and other indexes."""

from __future__ import annotations

from rag_bm25.index.maintenance.former import FormerIndex
from rag_bm25.ingestion.documents import Document, Heading
from rag_bm25.ingestion.files import SUFFIXES, Found, SourceFile, find_files, needs_package
from rag_bm25.ingestion.ingesting import EmbeddingModel, IngestReport, ingest
from rag_bm25.ingestion.reading import Piece, ReadOptions, read_document, read_file, sample
from rag_bm25.ingestion.reindexing import ReindexReport, reindex
from rag_bm25.ingestion.rows import RowFields
from rag_bm25.ingestion.source_roots import read_source_roots
from rag_bm25.ingestion.splitting import DEFAULT_OVERLAP, SEPARATORS, Part, Splitter, splitter
from rag_bm25.statistics.log.source_roots import SourceRoot

__all__ = [
    "DEFAULT_OVERLAP",
    "SEPARATORS",
    "SUFFIXES",
    "Document",
    "EmbeddingModel",
    "FormerIndex",
    "Found",
    "Heading",
    "IngestReport",
    "Part",
    "Piece",
    "ReadOptions",
    "ReindexReport",
    "RowFields",
    "SourceFile",
    "SourceRoot",
    "Splitter",
    "find_files",
    "ingest",
    "needs_package",
    "read_document",
    "read_file",
    "read_source_roots",
    "reindex",
    "sample",
    "splitter",
]
