"""Statistics for a collection that others fill.

Other software stores the texts, with vectors from ``encode_documents``. :func:`adopt` reads the texts, counts them, and
stores the counts beside the collection; :class:`AdoptedEncoder` weighs queries by them, in this process or another.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.analysis import contract_of
from rag_bm25.config import config_from_dict, config_to_dict
from rag_bm25.document_encoder import DocumentEncoder
from rag_bm25.errors import ConfigMismatchError, FilterError, FormatError, IndexNotFoundError
from rag_bm25.index_stats import IndexStats
from rag_bm25.portable import write_statistics
from rag_bm25.query_encoder import QueryEncoder
from rag_bm25.statistics import Contribution, NamespaceStatistics
from rag_bm25.statistics_log import StatisticsLog
from rag_bm25.terms import TermIds, Vocabulary, term_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from rag_bm25.config import IndexConfig
    from rag_bm25.milvus_store import BesideStore, ForeignCollection
    from rag_bm25.sparse import SparseVector
    from rag_bm25.tls import TLS

__all__ = ["AdoptedEncoder", "adopt"]

TEXT_FIELD = "text"
BATCH = 1_000
SAMPLE = 100
WEIGHT_ERROR = 1e-5  # relative; float32 keeps seven digits


def adopt(
    uri: str | Path,
    collection: str,
    *,
    config: IndexConfig | None = None,
    text_field: str | None = None,
    filter: str | None = None,
    vector_field: str | None = None,
    store: bool = True,
    token: str | None = None,
    tls: TLS | None = None,
    timeout: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AdoptedEncoder:
    """Count the texts of a collection that others fill, and store the counts beside it.

    The collection ``X`` is only read. The counts are in a collection ``X_bm25`` of its own, which readers may use
    while it is replaced. Call it again when texts have been added, changed or deleted, with `uri` and `collection`
    alone: all texts are read and analysed again, in pages of about 4 MiB, so that the counts are right whatever others
    did; where nothing changed nothing is written. Texts that come or go during the call are counted or not.

    Terms have the ids that every writer gives them, their hashes: two terms of one hash count as one, as they do in
    vectors that were made by encoders of several processes.

    Parameters
    ----------
    uri : str or Path
        A file ending in ``.db``, which nobody else may have open meanwhile, or the URI of a Milvus server.
    collection : str
        Name of the collection; on a server it must be loaded.
    config : IndexConfig, optional
        The parameters that its vectors are made with; needed the first time. Later, its fixed side must equal the
        stored one; by default that is used.
    text_field : str, optional
        The VARCHAR field with the texts, the first time ``"text"`` by default. A row whose text is null counts as one
        without terms.
    filter : str, optional
        A Milvus expression over the collection's own fields: only rows that fit are counted.
    vector_field : str, optional
        A SPARSE_FLOAT_VECTOR field: that its first 100 vectors were made with `config` is checked before anything is
        counted.
    store : bool
        Whether to store the counts in Milvus. Otherwise they are in the result alone, to be saved in a file, and may
        be of other parameters, another field or another filter than the stored ones.
    token : str, optional
        ``user:password`` or API key of the server.
    tls : TLS, optional
        Certificates, for ``https://`` addresses.
    timeout : float, optional
        Seconds that one call to the server may take.
    progress : callable of (int, int) to None, optional
        Told from time to time how many rows were counted, and how many there are.

    Returns
    -------
    AdoptedEncoder
        With the counts.

    Raises
    ------
    IndexNotFoundError
        There is no such collection; or it is adopted for the first time, and no config is given.
    ParameterError
        The collection is an index, which counts its own chunks, or has no such field.
    ConfigMismatchError
        It was adopted with other parameters, or its vectors were made with others.
    FilterError
        The filter cannot be read, or Milvus refuses it.
    FormatError
        ``X_bm25`` is something else, damaged, or of a newer version.
    StoreError
        Milvus failed, the collection is not loaded, or another program has the file open.

    Examples
    --------
    A collection of langchain-milvus, whose sparse vectors are made by this package::

        encoder = adopt("http://localhost:19530", "LangChainCollection", config=IndexConfig(chunk_size=500))
        vectorstore = Milvus(sparse_embedding(encoder), collection_name="LangChainCollection", ...)
    """
    place = _Place(uri, collection, token, tls, timeout)
    with place.source() as source:
        settings = _settled(place, place.stored(), config, text_field, filter, same=store)
        source.check_field("text_field", settings.text_field, "VARCHAR")
        if vector_field is not None:
            source.check_field("vector_field", vector_field, "SPARSE_FLOAT_VECTOR")
            _check_vectors(settings, vector_field, source.sample(settings.text_field, vector_field, SAMPLE))
        counts = _counted(source, settings, progress)
        if store:
            counts = _stored(place, settings, counts)
    return AdoptedEncoder(place, settings, counts)


class AdoptedEncoder:
    """Both sides of BM25 for a collection that others fill, with the counts of its last adoption.

    Made by :func:`adopt` and :meth:`open`. It satisfies :class:`~rag_bm25.adapters.TextEncoder`, for the adapters of
    this package; it holds no connection, and may be used by several threads.

    Parameters
    ----------
    place, settings, counts
        Where the collection is, what is counted how, and what that gave.

    Attributes
    ----------
    config : IndexConfig
        The parameters.
    text_field : str
        The field that is counted.
    filter : str
        Which rows are counted, "" for all.
    """

    def __init__(self, place: _Place, settings: _Settings, counts: _Counts) -> None:
        self.config = settings.config
        self.text_field = settings.text_field
        self.filter = settings.filter
        self._place = place
        self._settings = settings
        self._counts = counts
        self._documents = settings.document_encoder()

    @classmethod
    def open(
        cls,
        uri: str | Path,
        collection: str,
        *,
        config: IndexConfig | None = None,
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
            Needed where the analyzer is a callable of one's own; must fit the stored one.
        token, tls, timeout
            As for :func:`adopt`.

        Returns
        -------
        AdoptedEncoder
            A new encoder.

        Raises
        ------
        IndexNotFoundError
            The collection was never adopted.
        ConfigMismatchError
            `config` is not what it was adopted with.
        """
        place = _Place(uri, collection, token, tls, timeout)
        stored = place.stored()
        if stored is None:
            raise _never_adopted(place, "adopt counts it")
        settings = _settled(place, stored, config, None, None)
        return cls(place, settings, _read(place, settings))

    @property
    def num_chunks(self) -> int:
        """Number of chunks counted, N."""
        return self._counts.statistics.whole.num_chunks

    def encode_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        """Encode chunks; nothing is counted.

        Parameters
        ----------
        texts : sequence of str
            The chunks.

        Returns
        -------
        list of SparseVector
            Weights in (0, 1]; a chunk without terms is ``{0: 1.0}``, since Milvus refuses empty vectors.
        """
        return list(self._documents.encode(texts).vectors)

    def encode_queries(self, queries: Sequence[str]) -> list[SparseVector]:
        """Encode queries, weighed by what was counted.

        Parameters
        ----------
        queries : sequence of str
            The queries.

        Returns
        -------
        list of SparseVector
            Weights > 0; empty where no term is known.
        """
        encoder = QueryEncoder(self._documents.analyzer, self.config.query_weighting(), TermIds())
        whole = self._counts.statistics.whole
        return [encoder.encode(query, whole) for query in queries]

    def refresh(self) -> None:
        """Read the counts of the last adoption, by whichever process.

        Raises
        ------
        IndexNotFoundError
            No counts are stored.
        ConfigMismatchError
            They were made with other parameters.
        """
        self._counts = _read(self._place, self._settings)

    def stats(self) -> IndexStats:
        """Return the figures of what was counted, with what the chunk_size amounts to.

        Returns
        -------
        IndexStats
            As of the last adoption that was read.
        """
        statistics = self._counts.statistics
        return IndexStats.of(self._place.collection, self.config, statistics.whole, statistics.namespaces)

    def save(self, path: str | Path) -> None:
        """Write parameters, counts and terms to a file, for :meth:`rag_bm25.adapters.BM25Encoder.load`.

        Parameters
        ----------
        path : str or Path
            Where to; the format is that of :meth:`rag_bm25.BM25Index.export_statistics`.
        """
        if self._counts.vocabulary is None:
            self._counts = _read(self._place, self._settings, vocabulary=True)
        counts = self._counts
        write_statistics(path, self._settings.to_dict(), counts.statistics, counts.vocabulary or Vocabulary())


@dataclass(frozen=True)
class _Settings:
    """What is counted, and how."""

    config: IndexConfig
    text_field: str
    filter: str

    def document_encoder(self) -> DocumentEncoder:
        """Return what makes the vectors of the collection."""
        config = self.config
        return DocumentEncoder(config.build_analyzer(), config.document_weighting(), config.length_unit)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form in which they are stored."""
        config = config_to_dict(self.config, contract_of(self.config.build_analyzer()))
        return {**config, "adopted": {"text_field": self.text_field, "filter": self.filter}}


@dataclass(frozen=True)
class _Counts:
    """What counting gave; the terms only where they are needed."""

    statistics: NamespaceStatistics
    vocabulary: Vocabulary | None


@dataclass(frozen=True)
class _Place:
    """Where a collection is, and how to get there."""

    uri: str | Path
    collection: str
    token: str | None
    tls: TLS | None
    timeout: float | None

    def source(self) -> ForeignCollection:
        """Open the collection, for reading."""
        from rag_bm25.milvus_store import ForeignCollection

        return ForeignCollection(self.uri, self.collection, token=self.token, tls=self.tls, timeout=self.timeout)

    def beside(self, *, read_only: bool) -> BesideStore:
        """Open what is stored beside it."""
        from rag_bm25.milvus_store import BesideStore

        return BesideStore(
            self.uri, self.collection, token=self.token, tls=self.tls, timeout=self.timeout, read_only=read_only
        )

    def stored(self) -> dict[str, Any] | None:
        """Read the parameters of the last adoption, None where there was none."""
        with closing(self.beside(read_only=True)) as store:
            return _config_of(store, StatisticsLog(store))


def _config_of(store: BesideStore, log: StatisticsLog) -> dict[str, Any] | None:
    stored = log.read_config() if store.exists() else None
    if stored is not None and "adopted" not in stored:
        msg = f"{store.name} has the statistics of an index beside it, which are not to be replaced"
        raise FormatError(msg)
    if stored is not None and not _is_adopted(stored["adopted"]):
        msg = f"{store.name} is damaged: it does not say which texts were counted; drop it, and adopt again"
        raise FormatError(msg)
    return stored


def _is_adopted(adopted: object) -> bool:
    """Tell whether this is what :meth:`_Settings.to_dict` has stored."""
    names = {"text_field", "filter"}
    return isinstance(adopted, dict) and adopted.keys() == names and all(isinstance(adopted[n], str) for n in names)


def _settled(
    place: _Place,
    stored: dict[str, Any] | None,
    config: IndexConfig | None,
    text_field: str | None,
    filter: str | None,
    *,
    same: bool = True,
) -> _Settings:
    """Return the given settings, and for what is not given the stored ones, which given ones must equal if `same`."""
    if filter is not None and not isinstance(filter, str):
        msg = f"filter must be a Milvus expression over the fields of {place.collection!r}, got {filter!r}"
        raise FilterError(msg)
    given = {name: value for name, value in (("text_field", text_field), ("filter", filter)) if value is not None}
    if stored is None:
        if config is None:
            raise _never_adopted(place, "to adopt it, pass config=IndexConfig(chunk_size=...)")
        return _Settings(config, **{"text_field": TEXT_FIELD, "filter": "", **given})
    adopted = stored["adopted"]
    if same:
        _require_same(place, adopted, given)
    return _Settings(config_from_dict(stored, config) if same or config is None else config, **{**adopted, **given})


def _require_same(place: _Place, adopted: dict[str, str], given: dict[str, str]) -> None:
    """Refuse to count other texts than those that were counted before."""
    differing = [
        f"{name}: stored {adopted[name]!r}, given {value!r}" for name, value in given.items() if value != adopted[name]
    ]
    if differing:
        msg = (
            f"collection {place.collection!r} was adopted with other settings: {'; '.join(differing)}; to begin anew, "
            f"drop the collection '{place.collection}_bm25'"
        )
        raise ConfigMismatchError(msg)


def _never_adopted(place: _Place, remedy: str) -> IndexNotFoundError:
    return IndexNotFoundError(f"there are no statistics beside the collection {place.collection!r}; {remedy}")


def _check_vectors(settings: _Settings, vector_field: str, rows: Sequence[tuple[str | int, str, SparseVector]]) -> None:
    """Refuse parameters that the stored vectors were not made with."""
    vectors = settings.document_encoder().encode([text for _, text, _ in rows]).vectors
    for (key, _, stored), vector in zip(rows, vectors, strict=True):
        if not np.array_equal(stored.ids, vector.ids):
            cause = "its terms are others, so the analyzer was another"
        elif not np.allclose(stored.values, vector.values, rtol=WEIGHT_ERROR, atol=0):
            cause = "its weights are others, so chunk_size, length_unit, k1 or b was another"
        else:
            continue
        msg = f"the vector in field {vector_field!r} of row {key!r} was not made with the given parameters: {cause}"
        raise ConfigMismatchError(msg)


def _counted(source: ForeignCollection, settings: _Settings, progress: Callable[[int, int], None] | None) -> _Counts:
    """Count all texts; of them, only the sums and the terms are kept."""
    encoder = settings.document_encoder()
    statistics, vocabulary = NamespaceStatistics(), Vocabulary()
    total = source.count(settings.filter)
    for texts in _batches(source.texts(settings.text_field, settings.filter)):
        ids = TermIds()
        encoded = encoder.encode(texts, ids)
        lengths: Iterable[int] = encoded.lengths.tolist()
        statistics.add("", Contribution.of(encoded.vectors, lengths))
        vocabulary.add(ids)
        if progress is not None:
            done = statistics.whole.num_chunks
            progress(done, max(total, done))
    return _Counts(statistics, vocabulary)


def _batches(pages: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """Cut pages into what is analysed at once."""
    return (page[start : start + BATCH] for page in pages for start in range(0, len(page), BATCH))


def _stored(place: _Place, settings: _Settings, counts: _Counts) -> _Counts:
    """Put the counts in the place of the stored ones, where they differ; terms that were known stay known."""
    with closing(place.beside(read_only=False)) as store:
        store.create()
        log = StatisticsLog(store)
        if log.read_config() is None:
            log.write_config(settings.to_dict())
        vocabulary = Vocabulary()
        for known in (log.vocabulary(), counts.vocabulary or ()):
            vocabulary.add({term: term_id(term) for term in known})
        counted = counts.statistics.whole.contribution()
        change = counted - log.statistics.whole.contribution()
        if change.num_chunks or change.total_length or len(change.ids):
            log.replace({"": counted}, vocabulary)
    return _Counts(counts.statistics, vocabulary)


def _read(place: _Place, settings: _Settings, *, vocabulary: bool = False) -> _Counts:
    """Read the stored counts, which must be of the same settings."""
    with closing(place.beside(read_only=True)) as store:
        log = StatisticsLog(store)
        stored = _config_of(store, log)
        if stored is None:
            raise _never_adopted(place, "adopt counts it")
        _settled(place, stored, settings.config, settings.text_field, settings.filter)
        log.refresh()
        terms = log.vocabulary() if vocabulary else None
        return _Counts(log.statistics, terms)
