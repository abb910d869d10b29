"""BM25 for RAG on Milvus: incremental, exact statistics, explainable scores, Chinese and English.

What the package exports is imported when it is first used: until then, Ctrl-C would interrupt the command line where it
cannot catch that.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rag_bm25._version import __version__

if TYPE_CHECKING:
    from rag_bm25.analysis import Analyzer, AnalyzerConfig
    from rag_bm25.documents.chunks import AddReport, Chunk, Fragment, Hit, HybridHit, Passage
    from rag_bm25.errors import (
        ChunkNotFoundError,
        ClockError,
        ConfigMismatchError,
        FilterError,
        FormatError,
        IndexNotFoundError,
        InputError,
        MissingExtraError,
        ParameterError,
        RagBM25Error,
        ReadOnlyError,
        StoreError,
        StoreLockedError,
        WorkerError,
    )
    from rag_bm25.events import Event, Progress
    from rag_bm25.hits.boosts import Decay, NumberBoost, ValueBoost
    from rag_bm25.hits.highlights import Highlighting
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.index import BM25Index
    from rag_bm25.index.maintenance.reencoding import ReencodeReport
    from rag_bm25.index.maintenance.verification import Difference, RepairReport, VerifyReport
    from rag_bm25.index.searching.fusion import RRF, Weighted
    from rag_bm25.index.searching.term_listing import ChunkTerm, TermStatistics
    from rag_bm25.index.stats import IndexStats
    from rag_bm25.query.diagnosis import Diagnosis, Reason
    from rag_bm25.query.expansion import Prefix, QueryExpansion
    from rag_bm25.query.explanation import Explanation
    from rag_bm25.query.feedback import BIM, BM25PRF, RM3, Axiomatic, Rocchio
    from rag_bm25.query.query import Query, QueryPart
    from rag_bm25.query.scores import Placement, ScoreExplanation, TermScore
    from rag_bm25.query.spelling import Fuzzy
    from rag_bm25.query.synonyms import Synonyms
    from rag_bm25.store.storage import StorageInfo, StorageOptions
    from rag_bm25.store.tls import TLS
    from rag_bm25.weighting.fields import FieldWeight

__all__ = [
    "BIM",
    "BM25PRF",
    "RM3",
    "RRF",
    "TLS",
    "AddReport",
    "Analyzer",
    "AnalyzerConfig",
    "Axiomatic",
    "BM25Index",
    "Chunk",
    "ChunkNotFoundError",
    "ChunkTerm",
    "ClockError",
    "ConfigMismatchError",
    "Decay",
    "Diagnosis",
    "Difference",
    "Event",
    "Explanation",
    "FieldWeight",
    "FilterError",
    "FormatError",
    "Fragment",
    "Fuzzy",
    "Highlighting",
    "Hit",
    "HybridHit",
    "IndexConfig",
    "IndexNotFoundError",
    "IndexStats",
    "InputError",
    "MissingExtraError",
    "NumberBoost",
    "ParameterError",
    "Passage",
    "Placement",
    "Prefix",
    "Progress",
    "Query",
    "QueryExpansion",
    "QueryPart",
    "RagBM25Error",
    "ReadOnlyError",
    "Reason",
    "ReencodeReport",
    "RepairReport",
    "Rocchio",
    "ScoreExplanation",
    "StorageInfo",
    "StorageOptions",
    "StoreError",
    "StoreLockedError",
    "Synonyms",
    "TermScore",
    "TermStatistics",
    "ValueBoost",
    "VerifyReport",
    "Weighted",
    "WorkerError",
    "__version__",
]

_HOMES = {
    "AddReport": "rag_bm25.documents.chunks",
    "Analyzer": "rag_bm25.analysis",
    "AnalyzerConfig": "rag_bm25.analysis",
    "Axiomatic": "rag_bm25.query.feedback",
    "BIM": "rag_bm25.query.feedback",
    "BM25PRF": "rag_bm25.query.feedback",
    "BM25Index": "rag_bm25.index.index",
    "Chunk": "rag_bm25.documents.chunks",
    "ChunkNotFoundError": "rag_bm25.errors",
    "ChunkTerm": "rag_bm25.index.searching.term_listing",
    "ClockError": "rag_bm25.errors",
    "ConfigMismatchError": "rag_bm25.errors",
    "Decay": "rag_bm25.hits.boosts",
    "Diagnosis": "rag_bm25.query.diagnosis",
    "Difference": "rag_bm25.index.maintenance.verification",
    "Event": "rag_bm25.events",
    "Explanation": "rag_bm25.query.explanation",
    "FieldWeight": "rag_bm25.weighting.fields",
    "FilterError": "rag_bm25.errors",
    "FormatError": "rag_bm25.errors",
    "Fragment": "rag_bm25.documents.chunks",
    "Fuzzy": "rag_bm25.query.spelling",
    "Highlighting": "rag_bm25.hits.highlights",
    "Hit": "rag_bm25.documents.chunks",
    "HybridHit": "rag_bm25.documents.chunks",
    "IndexConfig": "rag_bm25.index.config",
    "IndexNotFoundError": "rag_bm25.errors",
    "IndexStats": "rag_bm25.index.stats",
    "InputError": "rag_bm25.errors",
    "MissingExtraError": "rag_bm25.errors",
    "NumberBoost": "rag_bm25.hits.boosts",
    "ParameterError": "rag_bm25.errors",
    "Passage": "rag_bm25.documents.chunks",
    "Placement": "rag_bm25.query.scores",
    "Prefix": "rag_bm25.query.expansion",
    "Progress": "rag_bm25.events",
    "Query": "rag_bm25.query.query",
    "QueryExpansion": "rag_bm25.query.expansion",
    "QueryPart": "rag_bm25.query.query",
    "RM3": "rag_bm25.query.feedback",
    "RRF": "rag_bm25.index.searching.fusion",
    "RagBM25Error": "rag_bm25.errors",
    "ReadOnlyError": "rag_bm25.errors",
    "Reason": "rag_bm25.query.diagnosis",
    "ReencodeReport": "rag_bm25.index.maintenance.reencoding",
    "RepairReport": "rag_bm25.index.maintenance.verification",
    "Rocchio": "rag_bm25.query.feedback",
    "ScoreExplanation": "rag_bm25.query.scores",
    "StorageInfo": "rag_bm25.store.storage",
    "StorageOptions": "rag_bm25.store.storage",
    "StoreError": "rag_bm25.errors",
    "StoreLockedError": "rag_bm25.errors",
    "Synonyms": "rag_bm25.query.synonyms",
    "TLS": "rag_bm25.store.tls",
    "TermScore": "rag_bm25.query.scores",
    "TermStatistics": "rag_bm25.index.searching.term_listing",
    "ValueBoost": "rag_bm25.hits.boosts",
    "VerifyReport": "rag_bm25.index.maintenance.verification",
    "Weighted": "rag_bm25.index.searching.fusion",
    "WorkerError": "rag_bm25.errors",
}

if not TYPE_CHECKING:  # where it would excuse names that do not exist

    def __getattr__(name: str) -> Any:
        """Import a name, or a module, that is used for the first time."""
        if name in _HOMES:
            found = globals()[name] = getattr(import_module(_HOMES[name]), name)
            return found
        if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
