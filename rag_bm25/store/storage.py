"""How an engine stores the chunks: what is asked for when an index is created, and what the engine has built."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from rag_bm25.checks import parameter_error
from rag_bm25.definitions import Between, check_fields
from rag_bm25.errors import ConfigMismatchError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

IndexType: TypeAlias = Literal["SPARSE_INVERTED_INDEX", "SPARSE_WAND"]
# SINDI is left out: it rounds, and some servers take the name, and crash once they build the index.
InvertedIndexAlgo: TypeAlias = Literal[
    "DAAT_MAXSCORE", "DAAT_WAND", "TAAT_NAIVE", "BLOCK_MAX_MAXSCORE", "BLOCK_MAX_WAND"
]
QuantType: TypeAlias = Literal["fp16", "fp32"]

INDEX_TYPES: tuple[str, ...] = get_args(IndexType)
ALGOS: tuple[str, ...] = get_args(InvertedIndexAlgo)
QUANT_TYPES: tuple[str, ...] = get_args(QuantType)
MILVUS_2_ALGOS = ALGOS[:3]

FP16_TOLERANCE = 1e-3
"""Upper bound of the relative error of a score whose weights are rounded to fp16.

Rounding to its 11 binary digits changes a weight in 2**-14..65504 by at most 2**-11, that is 4.9e-4, of it. The rest is
room for the sums of a server, which are float32.
"""
FLOAT32_TOLERANCE = 1e-5


@dataclass(frozen=True)
class StorageOptions:
    """How a Milvus server stores the chunks of a new index; scores do not depend on it, unless it rounds them.

    None leaves a choice to the server. The options are fixed when an index is created. Opening it again without them is
    always allowed; with others it is refused. The embedded engines refuse what they would ignore.

    Parameters
    ----------
    shards : int, optional
        Number of shards of the chunks, which share the load of writing, in 1..1024; by default 1. Milvus itself allows
        at most 16 by default. The statistics always have one.
    mmap : bool, optional
        Map the chunks and their index from disk, instead of keeping them in memory.
    index_type : {"SPARSE_INVERTED_INDEX", "SPARSE_WAND"}, optional
        Type of the index of sparse vectors; by default the first. The second is deprecated since Milvus 2.5.4, in
        favour of ``inverted_index_algo="DAAT_WAND"``.
    inverted_index_algo : str, optional
        Algorithm of searches, since Milvus 2.5.4: ``"DAAT_MAXSCORE"`` (the default of 2.x), ``"DAAT_WAND"`` or
        ``"TAAT_NAIVE"``; since 3.0 also ``"BLOCK_MAX_MAXSCORE"`` or ``"BLOCK_MAX_WAND"``. All find the same chunks.
    quant_type : {"fp16", "fp32"}, optional
        Precision of the weights in the index, since Milvus 3.0. In fp16, the default where the server has index version
        10, the index is smaller, and scores differ from the exact ones by at most 0.1 %. With ``"fp32"``, an algorithm
        that keeps float32 is asked for, too; new rows may be rounded until the server has sealed their segment. Exact
        in any case are the scores of a search with ``search_params={"rescore": True}``, the stored vectors, which are
        float32, and all of earlier versions.

    Examples
    --------
    >>> StorageOptions(shards=4, quant_type="fp32")
    StorageOptions(shards=4, mmap=None, index_type=None, inverted_index_algo=None, quant_type='fp32')
    >>> StorageOptions(quant_type="u16")
    Traceback (most recent call last):
    rag_bm25.errors.ParameterError: quant_type must be one of fp16, fp32 or None, got 'u16'
    """

    shards: Annotated[int, Between(1, 1024)] | None = None
    mmap: bool | None = None
    index_type: IndexType | None = None
    inverted_index_algo: InvertedIndexAlgo | None = None
    quant_type: QuantType | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def given(self) -> dict[str, Any]:
        """Return the options that are not left to the server.

        Returns
        -------
        dict of str to int, bool or str
            Name -> value.
        """
        return {name: value for name, value in asdict(self).items() if value is not None}


def sparse_params(storage: StorageOptions) -> dict[str, Any]:
    """Return the options of an index of sparse vectors, as the server must be told them."""
    given = storage.given()
    if storage.quant_type == "fp32":  # without an algorithm, a server of index version 10 builds SINDI, always in fp16
        given.setdefault("inverted_index_algo", "DAAT_WAND" if storage.index_type == "SPARSE_WAND" else "DAAT_MAXSCORE")
    return {name: given[name] for name in ("inverted_index_algo", "quant_type") if name in given}


DEFAULT_STORAGE = StorageOptions()


def check_storage(storage: object) -> StorageOptions:
    """Check storage options; by default all is left to the server."""
    if not isinstance(storage, StorageOptions | None):
        raise parameter_error("storage", "a StorageOptions or None", storage)
    return storage or DEFAULT_STORAGE


@dataclass(frozen=True)
class StorageInfo:
    """How an engine stores the chunks, as it says itself; None where it does not say.

    Parameters
    ----------
    engine : str
        ``Milvus``, ``milvus-lite 2.5``, ``milvus-lite 3`` or ``memory``.
    version : str, optional
        Its version.
    shards, mmap, index_type, inverted_index_algo, quant_type : optional
        As for :class:`StorageOptions`; None for the default of that version.
    """

    engine: str
    version: str | None = None
    shards: int | None = None
    mmap: bool | None = None
    index_type: str | None = None
    inverted_index_algo: str | None = None
    quant_type: str | None = None

    @property
    def score_tolerance(self) -> float:
        """Upper bound of the relative difference between the score of a search and the exact one."""
        return FP16_TOLERANCE if self._may_round else FLOAT32_TOLERANCE

    @property
    def _may_round(self) -> bool:
        """Whether weights may be rounded to fp16: in Milvus 3 and in unknown versions.

        A client cannot see the index version that a server is configured for, on which it depends; from 10 on, the
        interim index of segments that still grow is in fp16, whatever the index was told.
        """
        return self.engine == "Milvus" and parse_version(self.version)[:1] != (2,)


def parse_version(version: str | None) -> tuple[int, ...]:
    """Return the first numbers of a version; empty if there are none."""
    match = re.search(r"\d+(\.\d+)+", version or "")
    return tuple(map(int, match[0].split("."))) if match else ()


def require_effective(options: StorageOptions, effective: Mapping[str, tuple[Any, ...]], engine: str) -> None:
    """Refuse options that an engine would ignore; `effective` has the values of those that it knows, () for all."""
    for name, value in options.given().items():
        if name not in effective:
            raise ParameterError(f"{name} must be left out: {engine} has no such option, got {value!r}")
        if effective[name] and value not in effective[name]:
            raise ParameterError(f"{name} must be one of {', '.join(effective[name])} with {engine}, got {value!r}")


def require_same_storage(name: str, built: StorageInfo, options: StorageOptions) -> None:
    """Refuse options that a stored index does not have; the message lists every difference."""
    found = [
        f"{option}: built {'as the server does by default' if was is None else repr(was)}, given {value!r}"
        for option, value in options.given().items()
        if (was := getattr(built, option)) != value
    ]
    if found:
        raise ConfigMismatchError(
            f"{name} was created with other storage options: {'; '.join(found)}. Leave them out, or copy the "
            "index to a collection that has them: `rag-bm25 copy --storage NAME=VALUE`"
        )
