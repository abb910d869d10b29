"""Ingest the rows of a collection that other software fills; ingesting them again brings the index up to date."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, get_args

import numpy as np

from rag_bm25.definitions import NOT_EMPTY, check_fields
from rag_bm25.documents.checks import check_chunk
from rag_bm25.errors import ConfigMismatchError, InputError
from rag_bm25.events import report_progress
from rag_bm25.index.arguments import list_first
from rag_bm25.index.config import require_dense_field
from rag_bm25.index.writing.pipeline import WriteOptions
from rag_bm25.ingestion.checking import RowChecker
from rag_bm25.ingestion.ingesting import MAX_SHOWN, IngestReport, choose_embedder, require_valid
from rag_bm25.ingestion.language import MIN_CHUNKS
from rag_bm25.ingestion.owners import Owners, Placed
from rag_bm25.ingestion.pruning import MAX_DELETE, check_max_delete, delete_command, why_too_many
from rag_bm25.ingestion.rows import COLLECTION, Row, RowFields, row_id, row_text
from rag_bm25.ingestion.source_names import SourceNames, check_root_name
from rag_bm25.ingestion.source_roots import read_source_roots
from rag_bm25.store.embeddings import MODEL_NOISE, as_vector
from rag_bm25.store.milvus.connection import Connection
from rag_bm25.store.milvus.foreign import ExternalCollection
from rag_bm25.store.rows import DenseMetric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from typing_extensions import Self

    from rag_bm25.documents.chunks import AddReport, Chunk, NewChunk
    from rag_bm25.events import Progress
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.index import BM25Index
    from rag_bm25.ingestion.ingesting import EmbeddingModel
    from rag_bm25.store.embeddings import Embed
    from rag_bm25.store.rows import DenseField
    from rag_bm25.store.tls import TLS

# ruff: noqa: SLF001 - no public call takes a stream with vectors

SOURCE, OWN_SOURCE, METADATA = "source", "original_source", "metadata"


class CollectionRows:
    """The rows of a collection that other software fills, to make an index of them.

    The collection is only read. A row is a chunk: its text is not cut, its other fields are metadata, but for vectors,
    and the entries of a JSON field ``metadata`` are metadata by themselves, unless another field has the name: such an
    entry stays within ``metadata``. ``source`` is ``milvus://`` and the name; a
    ``source`` of the row's own is kept as ``original_source``.

    Parameters
    ----------
    uri : str or Path
        A file ending in ``.db``, which no other process may have open, or the URI of a Milvus server.
    collection : str
        Name of the collection; on a server it must be loaded.
    text_field : str
        The VARCHAR field with the texts, or one that is not in the schema.
    vector_field : str, optional
        The FLOAT_VECTOR field with the dense vectors for an index that has them.
    id_field : str, optional
        The field with the ids; by default the primary key.
    id_prefix : str
        Text before each id; ``{source}`` in it is the source.
    name : str, optional
        Name in the source, if it is not that of the collection, to tell two of one name apart.
    token, tls, timeout
        As for :meth:`rag_bm25.BM25Index.open`.

    Raises
    ------
    IndexNotFoundError
        The collection does not exist.
    ParameterError
        The collection is an index, which :func:`reindex` is for, or has no such field.
    StoreError
        Milvus failed, the collection is not loaded, or another process has the file open.

    Examples
    --------
    An index with the dense vectors of a collection::

        with CollectionRows("./mine.db", "mine", text_field="body", vector_field="emb") as rows:
            config = rows.with_dense_field(IndexConfig(chunk_size=500))
            with BM25Index.open("./mine.db", "words", config=config) as index:
                rows.ingest_into(index, prune=True)
    """

    def __init__(
        self,
        uri: str | Path,
        collection: str,
        *,
        text_field: str = "text",
        vector_field: str | None = None,
        id_field: str | None = None,
        id_prefix: str = "",
        name: str | None = None,
        token: str | None = None,
        tls: TLS | None = None,
        timeout: float | None = None,
    ) -> None:
        _Names(collection, text_field, vector_field, id_field, id_prefix, name)
        self.source = f"{COLLECTION}{check_root_name(name or collection)}"
        self._rows = ExternalCollection(Connection(uri, token, tls, timeout), collection)
        try:
            self._rows.check_field("text_field", text_field, "VARCHAR", dynamic=True)
            self._vectors = None if vector_field is None else _Vectors.of(self._rows, vector_field)
        except BaseException:
            self.close()
            raise
        fields = RowFields(text_field, id=id_field or self._rows.key)
        self._reader = _RowReader(self.source, collection, self._rows, fields, self._vectors, id_prefix)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; closing twice is allowed."""
        self._rows.close()

    def with_dense_field(self, config: IndexConfig) -> IndexConfig:
        """Return the config of a new index for the dense vectors.

        Parameters
        ----------
        config : IndexConfig
            The other parameters.

        Returns
        -------
        IndexConfig
            With dimension and metric of `vector_field`; for L2, which no index has, the metric stays that of `config`.
        """
        return config if self._vectors is None else self._vectors.with_dense_field(config)

    def require_fit(self, config: IndexConfig) -> None:
        """Refuse an index whose dense vectors have another dimension or metric, or that has none.

        Parameters
        ----------
        config : IndexConfig
            That of the index.
        """
        if self._vectors is not None:
            self._vectors.require_fit(require_dense_field(config, "vector_field given", "the index"))

    def require_valid(self, config: IndexConfig, *, strict: bool = False) -> None:
        """Refuse a new index without a row: call this before creating it.

        Parameters
        ----------
        config : IndexConfig
            That of the index.
        strict : bool
            Refuse it if any row is wrong, not only if all are.

        Raises
        ------
        InputError
            There is no row, or none that is valid.
        """
        checker = _RowsChecker(self._reader, config, None, "")
        chunks = checker.chunks()
        if strict:
            require_valid(chunks, checker, {})
        elif next(chunks, None) is None:
            reasons = "; ".join(checker.reasons[:MAX_SHOWN])
            which = f"that is valid: {reasons}" if reasons else "to ingest"
            raise InputError(f"no index was created, since {self._reader.collection} has no row {which}")

    def sample_texts(self, config: IndexConfig) -> list[str]:
        """Return texts of the first valid rows, as many as it takes to guess their language.

        Parameters
        ----------
        config : IndexConfig
            That of the index.

        Returns
        -------
        list of str
            None longer than a chunk may be.
        """
        chunks = _RowsChecker(self._reader, config, None, "").chunks()
        return [chunk.text for chunk in islice(chunks, MIN_CHUNKS)]

    def ingest_into(
        self,
        index: BM25Index,
        *,
        namespace: str = "",
        prune: bool = False,
        max_delete: float = MAX_DELETE,
        strict: bool = False,
        embeddings: Embed | EmbeddingModel | None = None,
        progress: Callable[[Progress], None] | None = None,
        workers: int = 0,
    ) -> IngestReport:
        """Bring an index up to date with the rows.

        They are read in the order of their keys, about 4 MiB at a time; memory grows with the number of ids alone. A
        row that is wrong, such as one without a text or with one over 65,535 bytes, is reported, and its stored chunk
        is kept. An unchanged row costs no write. If a call ends early, the next one writes the missing rows.

        Parameters
        ----------
        index : BM25Index
            Open for writing. It may be in the same database.
        namespace : str
            Namespace of the chunks.
        prune : bool
            Delete the chunks of rows that the collection no longer has.
        max_delete : float
            Maximum share of the rows to prune, in 0..1; up to five may always be pruned. If more are gone, or all of
            them, the collection fails: new and changed rows are ingested, and nothing is deleted.
        strict : bool
            Write nothing if any row is wrong. The rows are read twice.
        embeddings : callable of list of str to array_like of float, or LangChain Embeddings, optional
            Needed if the index has dense vectors and there is no `vector_field`, and only then.
        progress : callable of Progress to None, optional
            Called after each batch with ``"rows"`` written.
        workers : int
            As for :meth:`BM25Index.add`.

        Returns
        -------
        IngestReport
            Counts of the ingestion; `files` is 0.

        Raises
        ------
        ConfigMismatchError
            The dense vectors have another dimension or metric than those of the index.
        InputError
            A row is wrong with `strict`; `embeddings` are missing, or not wanted.
        """
        check_max_delete(max_delete)
        self.require_fit(index.config)
        embed = self._choose_embedder(index, embeddings)
        options = WriteOptions(namespace, assume_new=False, workers=workers)
        checker = _RowsChecker(self._reader, index.config, index, options.namespace)
        if strict:
            require_valid(checker.chunks(), checker, {})
            checker = _RowsChecker(self._reader, index.config, index, options.namespace)
        written = self._write(index, checker, embed, options, progress)
        stale = checker.find_stale()
        pruned = stale if prune else []
        kept = self._reader.why_keep(len(pruned), len(checker.ids), max_delete, namespace)
        deleted = index.delete(pruned, namespace=namespace) if pruned and kept is None else 0
        return IngestReport(
            files=0,
            chunks=written.total,
            added=written.added,
            updated=written.updated,
            unchanged=written.unchanged,
            stale=len(stale),
            deleted=deleted,
            failed={} if kept is None else {self.source: kept},
            notes=checker.notes(),
            rejected=checker.rejected,
            reasons=checker.reasons,
        )

    def _choose_embedder(self, index: BM25Index, embeddings: Embed | EmbeddingModel | None) -> Embed | None:
        if self._vectors is None:
            return choose_embedder(index, embeddings)
        if embeddings is not None:
            raise InputError(f"embeddings must not be given: the vectors are those of {self._vectors.field!r}")
        return None

    def _write(
        self,
        index: BM25Index,
        checker: _RowsChecker,
        embed: Embed | None,
        options: WriteOptions,
        progress: Callable[[Progress], None] | None,
    ) -> AddReport:
        index._require_writable()
        total = self._rows.count()

        def report(chunks: Progress) -> None:
            report_progress(progress, "rows", chunks.done, total)

        if self._vectors is None:
            return index._pipeline.add_stream(checker.chunks(), embed, options, report)
        return index._pipeline.write_stream(checker.chunks(), None, options, report)


@dataclass(frozen=True)
class _Names:
    """The names that a caller gives, checked."""

    collection: Annotated[str, NOT_EMPTY]
    text_field: str
    vector_field: str | None
    id_field: str | None
    id_prefix: str
    name: str | None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class _Vectors:
    """The field with the dense vectors."""

    field: str
    dim: int
    metric: str

    @classmethod
    def of(cls, rows: ExternalCollection, field: str) -> _Vectors:
        rows.check_field("vector_field", field, "FLOAT_VECTOR")
        return cls(field, *rows.describe_vectors(field))

    def with_dense_field(self, config: IndexConfig) -> IndexConfig:
        metric: dict[str, Any] = {"dense_metric": self.metric} if self.metric in get_args(DenseMetric) else {}
        return replace(config, dense_dim=self.dim, **metric)

    def require_fit(self, dense: DenseField) -> None:
        if self.dim != dense.dim or self.metric not in (dense.metric, "L2", ""):
            raise ConfigMismatchError(
                f"vector_field must have the dimension and the metric of the index, {dense.dim} and {dense.metric}, "
                f"got {self.dim} and {self.metric}"
            )

    def check(self, value: Any, dense: DenseField) -> NDArray[np.float32]:
        """Check the vector of a row."""
        vector = as_vector("its vector", value, dense)
        length = float(np.linalg.norm(vector))
        if self.metric == "L2" and abs(length - 1) > MODEL_NOISE:
            of = "compares by L2, which ranks as the index does only vectors of the length 1"
            advice = "leave out vector_field (--vector-field), and have a model embed the texts (--embedding)"
            raise InputError(f"the collection {of}, and that of the row has {length:g}: {advice}")
        return vector


@dataclass(frozen=True)
class _RowReader:
    """Read rows, and make chunks of them."""

    source: str
    collection: str
    rows: ExternalCollection
    fields: RowFields
    vectors: _Vectors | None
    prefix: str

    def read(self) -> Iterator[Row]:
        """Stream the rows without the fields that are null."""
        output = [*self.rows.values, *([self.vectors.field] if self.vectors else [])]
        for row in chain.from_iterable(self.rows.rows(output)):
            there = {name: value for name, value in row.items() if value is not None}
            yield Row(f"{self.collection}: row {row[self.rows.key]!r}", there, 0)

    def id_of(self, row: Row) -> str:
        return row_id(row, self.fields, self.prefix.replace("{source}", self.source))

    def chunk_of(self, row: Row, id_: str, fields: Iterable[str], dense: DenseField | None) -> NewChunk:
        text = row_text(row, self.fields)  # alone: its vector is that of its text, and its title is metadata
        try:
            chunk = check_chunk(text, id_, self._metadata(row), fields)
            if self.vectors is None or dense is None:
                return chunk
            return replace(chunk, dense=self.vectors.check(row.row.get(self.vectors.field), dense))
        except InputError as error:
            raise InputError(f"{row.where}: {error}") from None

    def why_keep(self, gone: int, there: int, max_delete: float, namespace: str) -> str | None:
        """Return the reason for keeping the chunks of rows that are gone, if there is one."""
        if there or not gone:
            return why_too_many(self.collection, "rows", gone, there, gone, max_delete)
        return (
            f"{self.collection} has no row with an id, and the index has chunks of it ({gone:,}). None was deleted. If "
            f"all of them are to go: {delete_command([self.source], namespace)}"
        )

    def _metadata(self, row: Row) -> dict[str, Any]:
        left_out = {self.fields.text, *self.fields.ids, *([self.vectors.field] if self.vectors else [])}
        own = {name: value for name, value in row.row.items() if name not in left_out}
        if isinstance(own.get(METADATA), dict):
            own = _with_entries(own, own[METADATA])
        if SOURCE in own and OWN_SOURCE in own:
            raise InputError(f"it has {SOURCE!r} and {OWN_SOURCE!r}, which the former is kept as")
        return {OWN_SOURCE if name == SOURCE else name: value for name, value in own.items()} | {SOURCE: self.source}


def _with_entries(row: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Put the entries of a row's field ``metadata`` beside its other fields; those of the same names stay within it."""
    entries = {name: value for name, value in metadata.items() if value is not None}
    twice = {name: value for name, value in entries.items() if name in row and row[name] != value}
    others = {name: value for name, value in row.items() if name != METADATA}
    return {**entries, **others, **({METADATA: twice} if twice else {})}


class _RowsChecker(RowChecker):
    """Yield the chunks of valid rows, and collect ids and failures."""

    def __init__(self, rows: _RowReader, config: IndexConfig, index: BM25Index | None, namespace: str) -> None:
        roots = [] if index is None else read_source_roots(index, namespace=namespace)
        super().__init__(config.fields, Owners(self._look_up, SourceNames(roots, lambda _name, _is_folder: False), ()))
        self.ids: set[str] = set()
        self._rows, self._dense, self._namespace = rows, config.dense_field(), namespace
        self._stored = index if index is not None and index.stats(namespace=namespace).num_chunks else None
        self._has_source = False
        self._kept_within: set[str] = set()

    def chunks(self) -> Iterator[NewChunk]:
        return (placed.chunk for placed in self._admit(self._read()))

    def find_stale(self) -> list[str]:
        """Return the ids of stored chunks whose rows are gone."""
        of_rows = {SOURCE: self._rows.source}
        chunks = () if self._stored is None else self._stored.chunks(filter=of_rows, namespace=self._namespace)
        return [chunk.id for chunk in chunks if chunk.id not in self.ids]

    def notes(self) -> list[str]:
        renamed = f"{SOURCE!r} of the rows is kept as {OWN_SOURCE!r}: {SOURCE!r} is {self._rows.source}"
        names = list_first(map(repr, sorted(self._kept_within)))
        within = f"{METADATA!r} keeps {names}, since the rows have other values in fields of that name"
        return [*super().notes(), *[renamed] * self._has_source, *[within] * bool(self._kept_within)]

    def _read(self) -> Iterator[Placed]:
        source = self._rows.source
        for row in self._rows.read():
            try:
                chunk = self._check(row)
            except InputError as error:
                self._reject(source, error)
                continue
            self._has_source |= OWN_SOURCE in chunk.metadata
            within = chunk.metadata.get(METADATA)
            self._kept_within |= row.row.keys() & (within.keys() if isinstance(within, dict) else ())
            yield Placed(chunk, source, row.where, 0)

    def _check(self, row: Row) -> NewChunk:
        id_ = self._rows.id_of(row)
        if id_ in self.ids:
            raise InputError(f"{row.where}: duplicate id {id_!r}, already given in {self._rows.source}")
        self.ids.add(id_)
        return self._rows.chunk_of(row, id_, self._fields, self._dense)

    def _look_up(self, ids: Sequence[str]) -> Sequence[Chunk]:
        return [] if self._stored is None else self._stored.get(ids, namespace=self._namespace)
