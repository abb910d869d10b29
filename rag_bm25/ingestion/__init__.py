"""Ingest files, JSON lines and other indexes."""

from __future__ import annotations

from rag_bm25.ingestion.files import SUFFIXES, Found, SourceFile, find_files
from rag_bm25.ingestion.ingesting import IngestReport, ingest
from rag_bm25.ingestion.reading import DEFAULT_OVERLAP, SEPARATORS, Piece, Splitter, read_file, sample, splitter
from rag_bm25.ingestion.reindexing import ReindexReport, reindex
from rag_bm25.statistics.log.source_roots import SourceRoot

__all__ = [
    "DEFAULT_OVERLAP",
    "SEPARATORS",
    "SUFFIXES",
    "Found",
    "IngestReport",
    "Piece",
    "ReindexReport",
    "SourceFile",
    "SourceRoot",
    "Splitter",
    "find_files",
    "ingest",
    "read_file",
    "reindex",
    "sample",
    "splitter",
]
