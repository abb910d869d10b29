"""The kinds of entries of which the newest alone counts: models that were fitted to the index."""

from __future__ import annotations

from typing import Any

from rag_bm25.statistics.log.answers import AnswersRow
from rag_bm25.statistics.log.term_k1 import TermK1Row

MODELS: dict[str, Any] = {"answers": AnswersRow, "k1": TermK1Row}
"""Kind of entry -> its codec."""
