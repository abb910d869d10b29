"""The kinds of entries of which the newest alone counts: models of the index, and what queries go by."""

from __future__ import annotations

from typing import Any

from rag_bm25.statistics.log.answers import AnswersRow
from rag_bm25.statistics.log.query_defaults import QueryDefaultsRow
from rag_bm25.statistics.log.term_k1 import TermK1Row

MODELS: dict[str, Any] = {"answers": AnswersRow, "defaults": QueryDefaultsRow, "k1": TermK1Row}
"""Kind of entry -> its codec."""
