"""Bulk loading, for those who bring millions: independent jobs encode parts of a corpus, and their files are loaded.

:func:`encode_part` for each part, anywhere, in any order, by whatever runs jobs; then :func:`merge`, once; then
:func:`load`, or :func:`load_by_import` on a server that reads the files itself. The index is bit for bit the one that
:meth:`rag_bm25.BM25Index.add` makes, called once for each part in the order of their numbers.
"""

from __future__ import annotations

from rag_bm25.bulk.encoding import PartReport, encode_part
from rag_bm25.bulk.loading import ImportingStore, LoadReport, load, load_by_import
from rag_bm25.bulk.merging import MergeReport, merge
from rag_bm25.bulk.processes import encode_parts

__all__ = [
    "ImportingStore",
    "LoadReport",
    "MergeReport",
    "PartReport",
    "encode_part",
    "encode_parts",
    "load",
    "load_by_import",
    "merge",
]
