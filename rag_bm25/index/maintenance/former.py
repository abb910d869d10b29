"""Read the texts of an index of an earlier format; nothing else of it is used."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.analysis.contract import BUILT_IN, AnalyzerContract, MissingAnalyzer
from rag_bm25.errors import FormatError, ParameterError
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.searching.rows import drop_superseded, read_chunks, read_embeddings, to_chunk
from rag_bm25.statistics.log.settings import FORMAT, read_former
from rag_bm25.store.rows import Scope
from rag_bm25.weighting.fields import FieldWeight

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self

    from rag_bm25.documents.chunks import Chunk
    from rag_bm25.store.protocol import Store

_Config = TypeVar("_Config", IndexConfig, AnalyzerConfig)


class FormerStats(NamedTuple):
    """Name, size and namespaces of an index."""

    name: str
    num_chunks: int
    namespaces: list[str]


class FormerIndex:
    """An index of an earlier format, as a source of :func:`~rag_bm25.ingestion.reindex`.

    It reads chunks and source roots, and no statistics. Writes that were cut short are not finished: of each chunk, the
    newest row counts.

    Parameters
    ----------
    store : Store
        Its store, such as ``MilvusStore(uri, collection, read_only=True)``. It is closed with the index.
    config : IndexConfig, optional
        Its parameters, if those that are stored cannot be read.

    Attributes
    ----------
    config : IndexConfig
        The given parameters, or the stored ones that this version has.
    left_out : list of str
        Names of stored parameters that this version does not have, or whose values it refuses.

    Raises
    ------
    FormatError
        The stored parameters cannot be read, and none are given.
    ParameterError
        The dimension of the given config is not that of the stored dense vectors.

    Examples
    --------
    ::

        with FormerIndex(MilvusStore("./rag.db", "docs", read_only=True)) as source:
            with BM25Index.open("./rag.db", "docs_2", config=source.config) as target:
                reindex(source, target)
    """

    def __init__(self, store: Store, config: IndexConfig | None = None) -> None:
        self._store = store
        self.left_out: list[str] = []
        self.config = config or self._read_config()
        self._require_same_vectors()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _read_config(self) -> IndexConfig:
        _, stored = read_former(self._store)
        document, settings = _part(stored, "document"), _part(_part(stored, "analyzer"), "settings")
        try:
            config = IndexConfig(document.pop("chunk_size"))
        except (LookupError, ParameterError):
            msg = f"the parameters of {self._store.name} cannot be read: give those of the new index as config"
            raise FormatError(msg) from None
        is_built_in = settings.pop("analyzer", BUILT_IN) == BUILT_IN
        missing = MissingAnalyzer(AnalyzerContract(settings, {}))
        config = replace(config, analyzer=self._replace_known(AnalyzerConfig(), settings) if is_built_in else missing)
        return self._replace_known(config, {**document, **_part(stored, "query")})

    def _require_same_vectors(self) -> None:
        """Refuse a dimension that would lose the stored dense vectors."""
        dim = self._store.dense_dim()
        if self.config.dense_dim != dim:
            raise ParameterError(
                f"dense_dim of config must be that of the vectors in {self._store.name}, {dim}, "
                f"got {self.config.dense_dim}"
            )

    def _replace_known(self, config: _Config, given: Mapping[str, Any]) -> _Config:
        """Replace one value after the other, and note those that are unknown or refused."""
        for name, value in given.items():
            try:
                known: Any = {name: _as_field_weights(value) if name == "fields" else value}
                config = replace(config, **known)
            except (AttributeError, ParameterError, TypeError):  # noqa: PERF203 - there are some twenty
                self.left_out.append(name)
        return config

    def stats(self) -> FormerStats:
        """Count the chunks, row by row.

        Returns
        -------
        FormerStats
            Name, number of chunks, and namespaces.
        """
        rows = drop_superseded(chain.from_iterable(self._store.scan_chunks()))
        sizes = Counter(row.namespace for row in rows)
        return FormerStats(self._store.name, sizes.total(), sorted(sizes))

    def chunks(self, *, namespace: str = "") -> Iterator[Chunk]:
        """Stream the chunks of a namespace.

        Parameters
        ----------
        namespace : str
            Their namespace.

        Returns
        -------
        iterator of Chunk
            In no particular order.
        """
        pages = self._store.scan_chunks(Scope(namespaces=(namespace,)), contents=True)
        return map(to_chunk, drop_superseded(chain.from_iterable(pages)))

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Chunk]:
        """Return chunks by their ids.

        Parameters
        ----------
        ids, namespace
            As for :meth:`rag_bm25.BM25Index.get`.

        Returns
        -------
        list of Chunk
            Those that exist.
        """
        return list(map(to_chunk, read_chunks(self._store, ids, namespace).values()))

    def get_embeddings(self, ids: Sequence[str], *, namespace: str = "") -> dict[str, NDArray[np.float32]]:
        """Return the dense vectors of chunks.

        Parameters
        ----------
        ids, namespace
            As for :meth:`get`.

        Returns
        -------
        dict of str to ndarray of float32, shape (dense_dim,)
            Id -> vector, of the chunks that exist.
        """
        return read_embeddings(self._store, ids, namespace)


def is_former(store: Store) -> bool:
    """Return whether a store holds an index of an earlier format."""
    version, _ = read_former(store)
    return 0 < version < FORMAT


def _part(stored: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = stored.get(name)
    return dict(part) if isinstance(part, dict) else {}


def _as_field_weights(stored: Mapping[str, Mapping[str, Any]]) -> dict[str, FieldWeight]:
    return {name: FieldWeight(**weight) for name, weight in stored.items()}
