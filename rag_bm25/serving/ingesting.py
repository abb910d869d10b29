"""What a server ingests while it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.ingestion.files import Found


@dataclass(frozen=True)
class Ingestion:
    """The files to ingest.

    Parameters
    ----------
    find : callable of () to Found
        Finds them.
    watched : bool
        Whether those that change later are ingested, too.
    options : dict
        Those of :func:`rag_bm25.ingestion.ingest`.
    """

    find: Callable[[], Found]
    watched: bool
    options: dict[str, Any]
