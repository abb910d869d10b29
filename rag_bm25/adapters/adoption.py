"""Statistics for a collection that other software fills with texts, and with vectors from ``encode_documents``."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.adapters.encoder import CountingEncoder, EncoderCounts
from rag_bm25.analysis.contract import contract_of
from rag_bm25.errors import ConfigMismatchError, FilterError, FormatError, IndexNotFoundError
from rag_bm25.events import report_progress
from rag_bm25.index.opening import check_analyzer
from rag_bm25.index.stats import IndexStats, compute_stats
from rag_bm25.index.stored_config import config_from_dict, config_to_dict
from rag_bm25.statistics.corpus import Contribution, CountsByNamespace, CountsReader
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.repair import overwrite
from rag_bm25.statistics.log.settings import read_config, write_config
from rag_bm25.statistics.portable import write_statistics
from rag_bm25.store.milvus.connection import Connection
from rag_bm25.store.milvus.foreign import ExternalCollection
from rag_bm25.store.milvus.log_store import MilvusLogStore
from rag_bm25.vectors.terms import TermIds, Vocabulary, term_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rag_bm25.analysis import TextAnalyzer
    from rag_bm25.events import Progress
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.store.tls import TLS
    from rag_bm25.vectors.sparse import SparseVector

BATCH = 1_000
SAMPLE = 100
WEIGHT_ERROR = 1e-5  # relative; float32 keeps seven digits


def adopt(
    uri: str | Path,
    collection: str,
    *,
    config: IndexConfig | None = None,
    analyzer: TextAnalyzer | None = None,
    text_field: str | None = None,
    filter: str | None = None,
    vector_field: str | None = None,
    store: bool = True,
    token: str | None = None,
    tls: TLS | None = None,
    timeout: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> AdoptedEncoder:
    """Count the texts of a collection that others fill, and store the counts beside it.

    The collection ``X`` is only read; the counts are stored in the collection ``X_bm25``. When texts have been added,
    changed or deleted, call it again with `uri` and `collection` alone. It then reads and analyses all texts again, in
    pages of about 4 MiB, so that the counts are right whatever others did, and writes nothing if they are the same.
    Readers keep the old counts until the new ones are stored. Texts that are added or deleted during the call may or
    may not be counted.

    The id of a term is its hash. Two terms with one hash count as one, as they do in vectors that encoders in several
    processes made.

    Parameters
    ----------
    uri : str or Path
        A file ending in ``.db``, which no other process may have open, or the URI of a Milvus server.
    collection : str
        Name of the collection; on a server it must be loaded.
    config : IndexConfig, optional
        The parameters that its vectors are made with. Needed the first time; later it may be left out, and must
        otherwise fit the stored one.
    analyzer : callable of str to list of str, optional
        The function that the vectors are made with, where no `config` names it.
    text_field : str, optional
        The VARCHAR field with the texts; ``"text"`` by default, the first time. A row whose text is null counts as one
        without terms.
    filter : str, optional
        A Milvus expression over the collection's own fields: only rows that match are counted.
    vector_field : str, optional
        A SPARSE_FLOAT_VECTOR field. Before anything is counted, its first 100 vectors are compared with those that
        `config` gives.
    store : bool
        Whether to store the counts in Milvus. If not, they are in the result alone, which can be saved to a file, and
        `config`, `text_field` and `filter` need not be the stored ones.
    token, tls, timeout
        As for :meth:`rag_bm25.BM25Index.open`.
    progress : callable of Progress to None, optional
        Called periodically with ``"texts counted"``.

    Returns
    -------
    AdoptedEncoder
        With the counts.

    Raises
    ------
    IndexNotFoundError
        The collection does not exist; or it is adopted for the first time, and no config is given.
    ParameterError
        The collection is an index, which counts its own chunks, has no such field, or has no sparse vectors, in which
        a query could search.
    ConfigMismatchError
        It was adopted with other parameters, or its vectors were made with other ones.
    FilterError
        The filter cannot be parsed, or Milvus refuses it.
    FormatError
        ``X_bm25`` is something else, damaged, or of a newer version.
    StoreError
        Milvus failed, the collection is not loaded, or another process has the file open.

    Examples
    --------
    A collection of langchain-milvus, whose sparse vectors are made by this package::

        encoder = adopt("http://localhost:19530", "LangChainCollection", config=IndexConfig(chunk_size=500))
        vectorstore = Milvus(sparse_embedding(encoder), collection_name="LangChainCollection", ...)
    """
    check_analyzer(analyzer, config)
    address = _Address(Connection(uri, token, tls, timeout), collection)
    with closing(ExternalCollection(address.connection, collection)) as source:
        source.require_sparse_field()
        with closing(address.open_log()) as log:
            stored = _read_settings(log)
        settings = _combine_settings(address, stored, config, text_field, filter, analyzer, same=store)
        source.check_field("text_field", settings.text_field, "VARCHAR")
        if vector_field is not None:
            source.check_field("vector_field", vector_field, "SPARSE_FLOAT_VECTOR")
            _check_vectors(settings, vector_field, source.sample(settings.text_field, vector_field, SAMPLE))
        counts = _count(source, settings, progress)
        if store:
            counts = _store(address, settings, counts)
    return AdoptedEncoder(address, settings, counts)


class AdoptedEncoder(CountingEncoder):
    """Encode chunks and queries for a collection that others fill, with the counts of its last adoption.

    Made by :func:`adopt` and :meth:`open`. It is a :class:`~rag_bm25.adapters.encoder.TextEncoder` for the adapters of
    this package, holds no connection, and is thread-safe.

    Parameters
    ----------
    address, settings, counts
        The collection, how its texts are counted, and the result.

    Attributes
    ----------
    config : IndexConfig
        The parameters.
    text_field : str
        The field with the texts.
    filter : str
        Expression of the rows that are counted, "" for all.
    """

    def __init__(self, address: _Address, settings: _Settings, counts: _Counts) -> None:
        self.config = settings.config
        self.text_field = settings.text_field
        self.filter = settings.filter
        self._address = address
        self._settings = settings
        self._counts = counts
        self._documents = self.config.document_encoder()

    @classmethod
    def open(
        cls,
        uri: str | Path,
        collection: str,
        *,
        config: IndexConfig | None = None,
        analyzer: TextAnalyzer | None = None,
        token: str | None = None,
        tls: TLS | None = None,
        timeout: float | None = None,
    ) -> AdoptedEncoder:
        """Read the counts that are stored beside a collection.

        Parameters
        ----------
        uri, collection
            As for :func:`adopt`.
        config : IndexConfig, optional
            By default the stored one, which it must fit.
        analyzer : callable of str to list of str, optional
            The function that it was adopted with, where no `config` names it. Without it, :meth:`stats` works, and the
            first call that encodes is a ConfigMismatchError.
        token, tls, timeout
            As for :func:`adopt`.

        Raises
        ------
        IndexNotFoundError
            The collection was never adopted.
        ConfigMismatchError
            It was adopted with another `config`.
        """
        check_analyzer(analyzer, config)
        address = _Address(Connection(uri, token, tls, timeout), collection)
        return cls(address, *_read(address, config, analyzer=analyzer))

    @property
    def num_chunks(self) -> int:
        """Number of chunks counted, N."""
        return self._counts.statistics.num_chunks

    def _counted(self) -> EncoderCounts:
        return EncoderCounts(self._counts.statistics.whole, TermIds())

    def _read_vocabulary(self) -> Vocabulary:
        if self._counts.vocabulary is None:
            _, self._counts = _read(self._address, self.config, self.text_field, self.filter, vocabulary=True)
        return self._counts.vocabulary or Vocabulary()

    def refresh(self) -> None:
        """Read the counts of the last adoption, by this or another process, with the same parameters."""
        _, self._counts = _read(self._address, self.config, self.text_field, self.filter)

    def stats(self) -> IndexStats:
        """Return statistics of the counted chunks, and the effective BM25 parameters.

        Returns
        -------
        IndexStats
            As of the last adoption that was read.
        """
        statistics = self._counts.statistics
        return compute_stats(self._address.collection, self.config, statistics.whole, statistics.namespaces)

    def save(self, path: str | Path) -> None:
        """Write parameters, counts and terms to a file, for :meth:`rag_bm25.adapters.BM25Encoder.load`.

        Parameters
        ----------
        path : str or Path
            As for :meth:`rag_bm25.adapters.BM25Encoder.save`.
        """
        vocabulary = self._read_vocabulary()
        write_statistics(path, self._settings.to_dict(), self._counts.statistics.whole.contribution(), vocabulary)


@dataclass(frozen=True)
class _Settings:
    """The texts that are counted, and the parameters."""

    config: IndexConfig
    text_field: str
    filter: str

    def to_dict(self) -> dict[str, Any]:
        config = config_to_dict(self.config, contract_of(self.config.build_analyzer()))
        return {**config, "adopted": {"text_field": self.text_field, "filter": self.filter}}


@dataclass(frozen=True)
class _Counts:
    statistics: CountsReader
    vocabulary: Vocabulary | None  # None until it is needed


@dataclass(frozen=True)
class _Address:
    """A collection, and how to connect to it."""

    connection: Connection
    collection: str

    def open_log(self, *, read_only: bool = True) -> MilvusLogStore:
        return MilvusLogStore(self.connection, self.collection, read_only=read_only)

    def never_adopted(self, remedy: str) -> IndexNotFoundError:
        return IndexNotFoundError(f"there are no statistics beside the collection {self.collection!r}; {remedy}")


def _read_settings(store: MilvusLogStore) -> dict[str, Any] | None:
    """Read the settings of the last adoption, None if there was none."""
    stored = read_config(store) if store.exists() else None
    if stored is None:
        return None
    if "adopted" not in stored:
        raise FormatError(f"{store.name} has the statistics of an index beside it, which adopt does not replace")
    adopted = stored["adopted"]
    sound = isinstance(adopted, dict) and adopted.keys() == {"text_field", "filter"}
    if not (sound and all(isinstance(value, str) for value in adopted.values())):
        msg = f"{store.name} is damaged: it does not say which texts were counted. Drop it, and adopt again"
        raise FormatError(msg)
    return stored


def _combine_settings(
    address: _Address,
    stored: dict[str, Any] | None,
    config: IndexConfig | None,
    text_field: str | None,
    filter: str | None,
    analyzer: TextAnalyzer | None = None,
    *,
    same: bool = True,
) -> _Settings:
    """Complete the given settings by the stored ones, from which they may differ only if not `same`."""
    if filter is not None and not isinstance(filter, str):
        msg = f"filter must be a Milvus expression over the fields of {address.collection!r}, got {filter!r}"
        raise FilterError(msg)
    given = {name: value for name, value in (("text_field", text_field), ("filter", filter)) if value is not None}
    if stored is None:
        if config is None:
            raise address.never_adopted("to adopt it, pass config=IndexConfig(chunk_size=...)")
        return _Settings(config, **{"text_field": "text", "filter": "", **given})
    adopted: dict[str, str] = stored["adopted"]
    differing = [
        f"{name}: stored {adopted[name]!r}, given {value!r}" for name, value in given.items() if value != adopted[name]
    ]
    if same and differing:
        raise ConfigMismatchError(
            f"collection {address.collection!r} was adopted with other settings: {'; '.join(differing)}. To start "
            f"over, drop the collection '{address.collection}_bm25'"
        )
    used = config_from_dict(stored, config, analyzer) if same or config is None else config
    return _Settings(used, **{**adopted, **given})


def _check_vectors(settings: _Settings, vector_field: str, rows: Sequence[tuple[str | int, str, SparseVector]]) -> None:
    """Refuse parameters that the stored vectors were not made with."""
    vectors = settings.config.document_encoder().encode([text for _, text, _ in rows]).vectors
    for (key, _, stored), vector in zip(rows, vectors, strict=True):
        if not np.array_equal(stored.ids, vector.ids):
            cause = "its terms differ, so the analyzer was another one"
        elif not np.allclose(stored.values, vector.values, rtol=WEIGHT_ERROR, atol=0):
            cause = "its weights differ, so chunk_size, length_unit, k1 or b had another value"
        else:
            continue
        msg = f"the vector in field {vector_field!r} of row {key!r} was not made with the given parameters: {cause}"
        raise ConfigMismatchError(msg)


def _count(source: ExternalCollection, settings: _Settings, progress: Callable[[Progress], None] | None) -> _Counts:
    """Count all texts, of which only the sums and the terms are kept."""
    encoder = settings.config.document_encoder()
    statistics, vocabulary = CountsByNamespace(), Vocabulary()
    total = source.count(settings.filter)
    pages = source.texts(settings.text_field, settings.filter)
    for texts in (page[start : start + BATCH] for page in pages for start in range(0, len(page), BATCH)):
        ids = TermIds()
        encoded = encoder.encode(texts, ids)
        vocabulary.add(ids)
        statistics.add("", Contribution.of(encoded.vectors, encoded.lengths.tolist()).marked(vocabulary))
        report_progress(progress, "texts counted", statistics.whole.num_chunks, total)
    return _Counts(statistics, vocabulary)


def _store(address: _Address, settings: _Settings, counts: _Counts) -> _Counts:
    """Overwrite the stored counts if they differ; terms that were known stay known."""
    with closing(address.open_log(read_only=False)) as store:
        store.create()
        log = StatisticsLog(store)
        log.refresh()
        if read_config(store) is None:
            write_config(store, settings.to_dict())
        vocabulary = Vocabulary()
        vocabulary.add({term: term_id(term) for known in (log.vocabulary(), counts.vocabulary or ()) for term in known})
        counted = counts.statistics.whole.contribution()
        change = counted - log.statistics.whole.contribution()
        if change.num_chunks or change.total_length or len(change.ids):
            overwrite(store, {"": counted}, vocabulary)
    return _Counts(counts.statistics, vocabulary)


def _read(
    address: _Address,
    config: IndexConfig | None,
    text_field: str | None = None,
    filter: str | None = None,
    *,
    analyzer: TextAnalyzer | None = None,
    vocabulary: bool = False,
) -> tuple[_Settings, _Counts]:
    """Read the stored settings, from which given ones must not differ, and the stored counts."""
    with closing(address.open_log()) as store:
        log = StatisticsLog(store)
        stored = _read_settings(store)
        if stored is None:
            raise address.never_adopted("call adopt to count it")
        settings = _combine_settings(address, stored, config, text_field, filter, analyzer)
        log.refresh()
        counted = CountsByNamespace()  # in memory: the store is closed
        counted.add("", log.statistics.whole.contribution())
        return settings, _Counts(counted, log.vocabulary() if vocabulary else None)
