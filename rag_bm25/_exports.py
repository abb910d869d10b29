"""The names that the package exports; the package imports them when the first of them is used."""

from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.documents.chunks import Chunk, Fragment, Hit, HybridHit, Passage
from rag_bm25.errors import (
    ChunkNotFoundError,
    ClockError,
    ConfigMismatchError,
    FilterError,
    FormatError,
    IndexGoneError,
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
from rag_bm25.hits.boosts import Decay, FunctionBoost, ValueBoost
from rag_bm25.hits.diversity import MMR, NearDuplicates
from rag_bm25.hits.fusion import RRF, Weighted
from rag_bm25.hits.groups import Grouping
from rag_bm25.hits.highlights import Highlighting
from rag_bm25.hits.options import SearchOptions
from rag_bm25.hits.proximity import Proximity
from rag_bm25.index.async_index import AsyncBM25Index
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.group import IndexGroup
from rag_bm25.index.index import BM25Index
from rag_bm25.index.maintenance.verification import RepairReport, VerifyReport
from rag_bm25.index.searching.hybrid import FusionOptions
from rag_bm25.index.stats import IndexStats
from rag_bm25.query.diagnosis import Diagnosis
from rag_bm25.query.expansion import QueryExpansion
from rag_bm25.query.explanation import Explanation
from rag_bm25.query.feedback import RSJ
from rag_bm25.query.query import Query, QueryPart
from rag_bm25.query.scores import ScoreExplanation
from rag_bm25.query.spelling import Fuzzy
from rag_bm25.query.synonyms import Synonyms
from rag_bm25.store.storage import StorageOptions
from rag_bm25.store.tls import TLS
from rag_bm25.weighting.fields import FieldWeight
from rag_bm25.weighting.query import QueryWeighting

__all__ = [
    "MMR",
    "RRF",
    "RSJ",
    "TLS",
    "Analyzer",
    "AnalyzerConfig",
    "AsyncBM25Index",
    "BM25Index",
    "Chunk",
    "ChunkNotFoundError",
    "ClockError",
    "ConfigMismatchError",
    "Decay",
    "Diagnosis",
    "Event",
    "Explanation",
    "FieldWeight",
    "FilterError",
    "FormatError",
    "Fragment",
    "FunctionBoost",
    "FusionOptions",
    "Fuzzy",
    "Grouping",
    "Highlighting",
    "Hit",
    "HybridHit",
    "IndexConfig",
    "IndexGoneError",
    "IndexGroup",
    "IndexNotFoundError",
    "IndexStats",
    "InputError",
    "MissingExtraError",
    "NearDuplicates",
    "ParameterError",
    "Passage",
    "Progress",
    "Proximity",
    "Query",
    "QueryExpansion",
    "QueryPart",
    "QueryWeighting",
    "RagBM25Error",
    "ReadOnlyError",
    "RepairReport",
    "ScoreExplanation",
    "SearchOptions",
    "StorageOptions",
    "StoreError",
    "StoreLockedError",
    "Synonyms",
    "ValueBoost",
    "VerifyReport",
    "Weighted",
    "WorkerError",
]
