"""The row types of the store protocol, and the options of its searches and scans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from rag_bm25.definitions import Between, check_fields
from rag_bm25.errors import StoreError
from rag_bm25.vectors.sparse import EMPTY, SparseVector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rag_bm25.filters import Filter
    from rag_bm25.store.search_params import SearchParams


ConsistencyLevel: TypeAlias = Literal["Strong", "Bounded", "Session", "Eventually"]
DenseMetric: TypeAlias = Literal["COSINE", "IP"]  # of dense vectors

ChunkKey: TypeAlias = tuple[str, str, int | None]
"""Namespace, id, and in a group of indexes the place of the chunk's index; there, None stands for all of them."""

KeyRange: TypeAlias = tuple[str, str]
"""Keys between two others, of which neither belongs to the range; strings compare as ASCII."""

MAX_K = 16_384  # no engine returns more hits of a query
SLOTS = "ab"  # last letters of primary keys: a new row of a chunk goes into the free one of two

Dim: TypeAlias = Annotated[int, Between(2, 32_768)]  # of a FLOAT_VECTOR in Milvus


def other_slot(pk: str) -> str:
    """Return the key of the row that is stored while a chunk is updated, or was before.

    >>> other_slot("0a")
    '0b'
    """
    return pk[:-1] + SLOTS[1 - SLOTS.index(pk[-1])]


def pk_in(part: int | None, pk: str) -> str:
    """Return the key of a row among those of a group of indexes; it ranks as the key itself.

    >>> pk_in(3, "0a"), pk_in(None, "0a")
    ('0a@3', '0a')
    """
    return pk if part is None else f"{pk}@{part}"


def _empty() -> SparseVector:
    return EMPTY  # dataclasses refuse a default of an unhashable type


@dataclass(frozen=True)
class DenseField:
    """The dense vectors of a hybrid index.

    ``L2`` is not offered: in every search here, greater is better. On normalised vectors L2 ranks as ``COSINE`` does.
    """

    dim: Dim
    metric: DenseMetric

    def __post_init__(self) -> None:
        check_fields(self)


def check_metric(
    store: str, stored: DenseField | None, metric: DenseMetric, error: type[Exception] = StoreError
) -> DenseField:
    """Refuse a metric that an index does not have: milvus-lite 3 would answer with wrong scores."""
    if stored is None:
        raise error(f"{store} has no dense vectors: it was created without them")
    if metric != stored.metric:
        raise error(f"{store} compares dense vectors by {stored.metric}, not by {metric}")
    return stored


@dataclass(frozen=True)
class ChunkRow:
    """One stored chunk; a read leaves contents and vectors empty unless it asks for them."""

    pk: str  # lower-case hex digits and a slot letter, never the user's string
    id: str
    namespace: str
    length: int
    batch: str  # id of the write that inserted it; later writes have greater ids
    text: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    vector: SparseVector = field(default_factory=_empty)  # document weights, never empty when stored
    # Compared, an array would make `==` of two rows raise: it has no single truth value.
    dense: NDArray[np.float32] | None = field(default=None, compare=False)
    part: int | None = None  # place of its index in a group of indexes

    @property
    def key(self) -> ChunkKey:
        """What the rows of a chunk have in common."""
        return self.namespace, self.id, self.part


@dataclass(frozen=True)
class Match:
    """A row that a search returns."""

    row: ChunkRow  # with its sparse vector if the search asks for it
    score: float  # inner product of sparse vectors, > 0, or similarity of dense ones, of any sign; greater is better


def rank_of(match: Match) -> tuple[float, str, str]:
    """Return the sort key of a match: by falling score, then by id and pk."""
    return (-match.score, match.row.id, match.row.pk)


@dataclass(frozen=True)
class LogRow:
    """One row of the statistics log. Rows are only ever inserted and deleted, never changed."""

    key: str  # printable ASCII without quotes or backslashes, at most 128 characters
    kind: str  # at most 16 letters and digits, such as ``config``, ``delta`` or ``terms``
    meta: dict[str, Any] = field(default_factory=dict)  # a small JSON object
    packed: str = ""  # at most 65,535 ASCII characters; empty if a read did not ask for it


@dataclass(frozen=True)
class Scope:
    """The chunks that a search or a scan considers; all of them by default."""

    where: Filter | None = None
    namespaces: tuple[str, ...] | None = None
    longer_than: int | None = None  # only chunks with a greater length
    having: str = ""  # only chunks whose text has these letters and digits, one after the other
    after: str = ""  # only rows with a greater pk


ALL_CHUNKS = Scope()


@dataclass(frozen=True)
class SearchArm:
    """Options that sparse and dense searches share."""

    limit: int  # maximum number of rows for each query, in 1..16384
    scope: Scope = ALL_CHUNKS
    params: SearchParams | None = None  # of the engine; some make it leave out rows
    metric: DenseMetric = "IP"  # of the index for dense queries; always ``IP`` for sparse ones
    vectors: bool = False  # whether the rows have their sparse vectors
    pks: tuple[str, ...] | None = None  # only these rows, whose contents are not read: their scores are wanted
