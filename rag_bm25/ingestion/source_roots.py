"""The folders that sources are named by, in an index."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rag_bm25.documents.checks import check_namespace
from rag_bm25.errors import FormatError, InputError, short_repr
from rag_bm25.statistics.log.generation import generation_in_force
from rag_bm25.statistics.log.source_roots import SourceRoot as SourceRoot  # noqa: PLC0414 - for the command line
from rag_bm25.statistics.log.source_roots import read_roots, remember_roots

if TYPE_CHECKING:
    from rag_bm25.index.generation import Generation
    from rag_bm25.index.index import BM25Index
    from rag_bm25.store.protocol import Store

# ruff: noqa: SLF001 - the rows are in the log of the index, and are written in turn with its own

ATTEMPTS = 10  # to store roots: another process may store one at the same time


def read_source_roots(index: BM25Index, *, namespace: str = "") -> list[SourceRoot]:
    """Return the folders and files that sources are named by.

    Parameters
    ----------
    index : BM25Index
        Open.
    namespace : str
        Namespace of the chunks whose sources they name.

    Returns
    -------
    list of SourceRoot
        By name; empty if no files were ingested.
    """
    return read_roots(index._store, check_namespace(namespace))


def read_stored_roots(store: Store, namespace: str) -> list[SourceRoot]:
    """Return the roots in a store, which may have no index; what is damaged is told of when that is opened."""
    with suppress(FormatError), generation_in_force(store) as newest:
        return read_roots(newest, check_namespace(namespace)) if newest.exists() else []
    return []


def set_source_roots(index: BM25Index, roots: Sequence[SourceRoot], *, namespace: str = "") -> list[SourceRoot]:
    """Store roots, each with the version that it replaces, "" for a new name; return those in force afterwards.

    If another process has stored one of the names, none of the roots is stored.
    """
    index._require_writable()
    namespace = check_namespace(namespace)
    if not isinstance(roots, Sequence) or not all(isinstance(root, SourceRoot) for root in roots):
        raise InputError(f"roots must be a sequence of SourceRoot, got {short_repr(roots)}")

    def write(now: Generation) -> list[SourceRoot]:
        with now.live.writing() as writer:
            stored = remember_roots(now.store, namespace, roots, now.live.log.new_batch)
            writer.confirm()
            return stored

    return index._current().in_force(write)
