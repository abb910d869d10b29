"""Merge parts into one index: term ids, statistics, and the manifest.

Each part is encoded as if it were the first. Term ids are hashes, so that the vectors of all parts agree, except where
two terms have one hash: the term seen first keeps it, and that may be in an earlier part. Parts with such a term are
rewritten with its final id.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.analysis import AnalyzerContract, differences
from rag_bm25.bulk.files import (
    FILE_FORMAT,
    DataFile,
    as_format_error,
    describe_file,
    require_known,
    verify_digest,
    write_atomically,
)
from rag_bm25.bulk.parts import PartHead, batch_of, part_numbers, read_head, read_terms
from rag_bm25.bulk.rows import read_groups, read_pks, rows_writer, sparse_batch, sparse_column
from rag_bm25.bulk.sums import SumFiles, write_sums
from rag_bm25.errors import ConfigMismatchError, FormatError, InputError
from rag_bm25.events import report_progress
from rag_bm25.index.arguments import list_first
from rag_bm25.index.maintenance.pending import json_digest
from rag_bm25.index.stored_config import dense_field_of
from rag_bm25.statistics.corpus import Contribution, NamespaceStatistics
from rag_bm25.vectors.sparse import SparseBatch
from rag_bm25.vectors.terms import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from rag_bm25.events import Progress

MANIFEST = "manifest.json"
KIND = "rag_bm25 bulk load"


@dataclass(frozen=True)
class ManifestPart:
    """A file to load."""

    namespace: str
    batch: str  # of its rows
    data: DataFile


@dataclass(frozen=True)
class Manifest:
    """An index as files, ready to be loaded."""

    config: dict[str, Any]  # as stored
    parts: list[ManifestPart]  # the rows
    sums: SumFiles  # vocabulary and statistics

    @property
    def num_chunks(self) -> int:
        return sum(part.data.rows for part in self.parts)

    @property
    def fingerprint(self) -> str:
        """Digest of config and parts; the statistics follow from them."""
        return json_digest([self.config, [asdict(part) for part in self.parts]])


@dataclass(frozen=True)
class MergeReport:
    """Result of merging.

    Parameters
    ----------
    num_parts, num_chunks, num_terms, rewritten : int
        Parts, the chunks and distinct terms of all of them, and the parts rewritten because a term has another id now.
    """

    num_parts: int
    num_chunks: int
    num_terms: int
    rewritten: int


def merge(
    folder: str | Path, *, num_parts: int | None = None, progress: Callable[[Progress], None] | None = None
) -> MergeReport:
    """Merge encoded parts into files to load.

    The files of the parts are not changed, and merging again gives the same result. Memory holds the vocabulary, the
    statistics, and eight bytes per chunk.

    Parameters
    ----------
    folder : str or Path
        Folder of the parts, see :func:`encode_part`.
    num_parts : int, optional
        Number of parts. Without it, missing parts at the end are not noticed; a gap is always an error.
    progress : callable of Progress to None, optional
        Called after each part with ``"parts merged"``.

    Returns
    -------
    MergeReport
        Counts of the merged index.

    Raises
    ------
    FormatError
        A part is missing, damaged, or of a newer version.
    ConfigMismatchError
        Two parts were encoded with different parameters or analyzers.
    InputError
        Two parts have the same chunk.
    """
    folder = Path(folder)
    (folder / MANIFEST).unlink(missing_ok=True)  # of an earlier call: it may list files of other parts
    merging = _Merging(folder, _read_heads(folder, num_parts))
    for done, head in enumerate(merging.heads, 1):
        merging.take(head)
        report_progress(progress, "parts merged", done, len(merging.heads))
    _require_distinct(folder, merging.heads)
    manifest = merging.write()
    with write_atomically(folder / MANIFEST) as path:
        whole = {"kind": KIND, "format": FILE_FORMAT, **asdict(manifest)}
        path.write_text(json.dumps(whole, ensure_ascii=False, indent=1), encoding="utf-8")
    return MergeReport(len(manifest.parts), manifest.num_chunks, len(merging.vocabulary), len(merging.moved))


def read_manifest(folder: str | Path) -> Manifest:
    path = Path(folder, MANIFEST)
    if not path.is_file():
        raise FormatError(f"{path} is missing: merge the parts first")
    with as_format_error(path, "merge the parts again"):
        found = json.loads(path.read_text(encoding="utf-8"))
        kind, version = found["kind"], found["format"]
    require_known(path, kind, KIND, version)
    with as_format_error(path, "merge the parts again"):
        parts = [ManifestPart(**{**part, "data": DataFile(**part["data"])}) for part in found["parts"]]
        sums = {**found["sums"], **{name: DataFile(**found["sums"][name]) for name in ("vocabulary", "counts")}}
        return Manifest(found["config"], parts, SumFiles(**sums))


class _Merging:
    """A merge in progress."""

    def __init__(self, folder: Path, heads: list[PartHead]) -> None:
        self.heads = heads
        self.vocabulary = Vocabulary()
        self.statistics = NamespaceStatistics()
        self.moved: dict[int, tuple[NDArray[np.uint32], NDArray[np.uint32]]] = {}  # part -> its ids, final ids
        self._folder = folder

    def take(self, head: PartHead) -> None:
        """Add the terms of a part, and note which ids change."""
        verify_digest(self._folder, head.data, f"encode part {head.part} again")
        found = read_terms(self._folder, head.part)
        staged = self.vocabulary.stage()
        ids = np.fromiter(map(staged.__getitem__, found.terms), np.uint32, len(found.terms))
        self.vocabulary.add(staged.new)
        if head.data.rows:
            order = np.argsort(ids)
            total = Contribution(head.data.rows, head.length, ids[order], found.df[order])
            self.statistics.add(head.namespace, total)
        changed = np.flatnonzero(ids != found.ids)
        if len(changed):
            by_old = changed[np.argsort(found.ids[changed])]
            self.moved[head.part] = found.ids[by_old], ids[by_old]

    def write(self) -> Manifest:
        """Write new files, and return the manifest."""
        config = self.heads[0].config
        parts = [ManifestPart(head.namespace, batch_of(head.part), self._final_file(head)) for head in self.heads]
        return Manifest(config, parts, write_sums(self._folder, self.statistics.contributions(), self.vocabulary))

    def _final_file(self, head: PartHead) -> DataFile:
        """Return the file of a part to load, rewritten if ids change."""
        if head.part not in self.moved:
            return head.data
        source = self._folder / head.data.name
        path = source.with_suffix(".merged.parquet")
        dense = dense_field_of(head.config)
        with write_atomically(path) as begun:
            with rows_writer(begun, dense.dim if dense else None) as file:
                for table in read_groups(source):
                    vectors = _replace_ids(sparse_batch(table), *self.moved[head.part])
                    at = table.column_names.index("sparse")
                    file.write_table(table.set_column(at, table.schema.field(at), sparse_column(vectors)))
            return describe_file(begun, head.data.rows, path.name)


def _replace_ids(vectors: SparseBatch, old: NDArray[np.uint32], new: NDArray[np.uint32]) -> SparseBatch:
    """Replace ids, and sort each row again; weights stay."""
    at = np.minimum(np.searchsorted(old, vectors.ids), len(old) - 1)
    ids = np.where(old[at] == vectors.ids, new[at], vectors.ids)
    keys = SparseBatch(vectors.indptr, ids, vectors.values).keys
    order = np.argsort(keys)
    return SparseBatch(vectors.indptr, ids[order], vectors.values[order])


# Checks


def _read_heads(folder: Path, num_parts: int | None) -> list[PartHead]:
    """Read the heads of all parts, and check that they belong together."""
    numbers = part_numbers(folder)
    if not numbers:
        raise FormatError(f"no parts were found in {folder}: encode some first")
    wanted = numbers[-1] + 1 if num_parts is None else num_parts
    if missing := sorted(set(range(wanted)) - set(numbers)):
        msg = f"parts are missing in {folder}: {list_first(map(str, missing))}; encode them, {wanted} parts in all"
        raise FormatError(msg)
    if numbers[-1] >= wanted:
        raise FormatError(f"{folder} has {len(numbers)} parts, not {wanted}: use an empty folder for other parts")
    heads = [read_head(folder, number) for number in numbers]
    for head in heads[1:]:
        _require_same(heads[0], head)
    return heads


def _require_same(first: PartHead, head: PartHead) -> None:
    """Refuse a part that was encoded with other parameters."""
    try:
        found = _differences(first, head)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        msg = f"the parameters in part {first.part} or {head.part} are damaged, encode them again: {error}"
        raise FormatError(msg) from error
    if found:
        raise ConfigMismatchError(f"parts were encoded with different parameters: {'; '.join(found)}")


def _differences(first: PartHead, head: PartHead) -> list[str]:
    """List the differences between two parts; analyzers with equal contracts do not differ."""
    found = [
        f"{name}: {value!r} in part {first.part}, {head.config[side].get(name)!r} in part {head.part}"
        for side in ("document", "query")
        for name, value in first.config[side].items()
        if head.config[side].get(name) != value
    ]
    return found + differences(*(AnalyzerContract(**one.config["analyzer"]) for one in (first, head)))


def _require_distinct(folder: Path, heads: Sequence[PartHead]) -> None:
    """Refuse two parts with the same chunk."""
    keys = np.empty(sum(head.data.rows for head in heads), np.uint64)
    start = 0
    for head in heads:
        keys[start : start + head.data.rows] = read_pks(folder / head.data.name)
        start += head.data.rows
    keys.sort()
    twice = np.unique(keys[1:][keys[1:] == keys[:-1]])
    del keys
    found = _name_duplicates(folder, heads, twice) if len(twice) else []
    if found:
        raise InputError(
            f"{len(found):,} chunks are in two parts: {list_first(found)}. An id may be in one part only; chunks "
            "without ids must differ in text or metadata."
        )


def _name_duplicates(folder: Path, heads: Sequence[PartHead], twice: NDArray[np.uint64]) -> list[str]:
    """Describe the chunks with equal primary keys, compared in full and not only by 64 bits."""
    places: dict[str, tuple[str, list[int]]] = {}
    for head in heads:
        for pk, id_ in _suspects(folder / head.data.name, twice):
            places.setdefault(pk, (id_, []))[1].append(head.part)
    return [f"{id_!r} (parts {', '.join(map(str, parts))})" for id_, parts in places.values() if len(parts) > 1]


def _suspects(path: Path, keys: NDArray[np.uint64]) -> Iterator[tuple[str, str]]:
    """Yield primary key and id of the rows with these keys."""
    if not np.isin(read_pks(path), keys).any():
        return
    wanted = {f"{key:016x}" for key in keys.tolist()}
    for table in read_groups(path):
        for pk, id_ in zip(table.column("pk").to_pylist(), table.column("id").to_pylist(), strict=True):
            if pk[:16] in wanted:
                yield pk, id_
