"""What a server ingests while it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rag_bm25.ingestion.files import FileSelection
    from rag_bm25.ingestion.source_roots import SourceRoot


@dataclass(frozen=True)
class Ingestion:
    """The files to ingest.

    Parameters
    ----------
    find : callable of sequence of SourceRoot to FileSelection
        Finds them, given the folders that the index remembers.
    watched : bool
        Whether those that change later are ingested, too.
    options : dict
        Those of :func:`rag_bm25.ingestion.ingest`.
    """

    find: Callable[[Sequence[SourceRoot]], FileSelection]
    watched: bool
    options: dict[str, Any]
