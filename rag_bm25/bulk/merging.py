"""Merge what parts were found to be on their own into one index: ids, statistics, and the list of files to load.

Parts are encoded without knowing of each other, each as if it were the first. Their vectors fit together as they are,
but for terms whose id is not their hash: which of two terms of one hash keeps it is decided by who was there first, and
that may have been in an earlier part. The files of parts that have such a term are written again with its id.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.analysis import AnalyzerContract, differences
from rag_bm25.bulk.files import FILE_FORMAT, DataFile, described, require_known, require_sound, written_whole
from rag_bm25.bulk.parts import PartHead, batch_of, part_numbers, read_head, read_terms
from rag_bm25.bulk.rows import read_groups, read_pks, rows_writer, sparse_batch, sparse_column
from rag_bm25.bulk.sums import SumFiles, write_sums
from rag_bm25.config import dense_field_of
from rag_bm25.errors import ConfigMismatchError, FormatError, InputError
from rag_bm25.filling import digest_of
from rag_bm25.sparse import SparseBatch
from rag_bm25.statistics import Contribution, NamespaceStatistics
from rag_bm25.terms import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["Manifest", "ManifestPart", "MergeReport", "merge", "read_manifest"]

MANIFEST = "manifest.json"
KIND = "rag_bm25 bulk load"
NAMED = 5  # how many of several things a message names


@dataclass(frozen=True)
class ManifestPart:
    """A file to be loaded.

    Parameters
    ----------
    namespace : str
        Where its chunks belong.
    batch : str
        The batch id of its rows.
    data : DataFile
        The file.
    """

    namespace: str
    batch: str
    data: DataFile


@dataclass(frozen=True)
class Manifest:
    """An index as files, ready to be loaded.

    Parameters
    ----------
    config : dict
        Parameters of the index, as they are stored.
    parts : list of ManifestPart
        The rows.
    sums : SumFiles
        Vocabulary and statistics.
    """

    config: dict[str, Any]
    parts: list[ManifestPart]
    sums: SumFiles

    @property
    def num_chunks(self) -> int:
        """Chunks of all parts."""
        return sum(part.data.rows for part in self.parts)

    @property
    def fingerprint(self) -> str:
        """What tells these files from others; the statistics follow from the rest."""
        return digest_of([self.config, [asdict(part) for part in self.parts]])


@dataclass(frozen=True)
class MergeReport:
    """What merging gave.

    Parameters
    ----------
    num_parts : int
        Parts.
    num_chunks : int
        Chunks of all parts.
    num_terms : int
        Distinct terms of all parts.
    rewritten : int
        Parts whose files had to be written again, since a term has another id in the whole.
    """

    num_parts: int
    num_chunks: int
    num_terms: int
    rewritten: int


def merge(
    folder: str | Path,
    *,
    num_parts: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MergeReport:
    """Merge the parts of an index that is to be loaded.

    The result is what :meth:`rag_bm25.BM25Index.add` gives when it is called once for each part, in the order of their
    numbers: the same ids of terms, the same vectors, the same statistics, bit for bit. The files of the parts are
    read, and never changed; merging again gives the same.

    In memory are the vocabulary, the statistics, and eight bytes for each chunk.

    Parameters
    ----------
    folder : str or Path
        Where :func:`encode_part` has written.
    num_parts : int, optional
        How many parts there must be. Without it, the last ones may be missing and nobody notices; a gap is an error
        in any case.
    progress : callable of (int, int) to None, optional
        Told how many parts were read, and how many there are.

    Returns
    -------
    MergeReport
        What was found.

    Raises
    ------
    FormatError
        A part is missing, damaged, or of a newer version.
    ConfigMismatchError
        Two parts were encoded with different parameters or analyzers.
    InputError
        A chunk is in two parts.
    """
    folder = Path(folder)
    (folder / MANIFEST).unlink(missing_ok=True)  # of an earlier call: it may list files of other parts
    merging = _Merging(folder, _heads(folder, num_parts))
    for done, head in enumerate(merging.heads, 1):
        merging.take(head)
        if progress is not None:
            progress(done, len(merging.heads))
    _require_distinct(folder, merging.heads)
    manifest = merging.written()
    with written_whole(folder / MANIFEST) as path:
        whole = {"kind": KIND, "format": FILE_FORMAT, **asdict(manifest)}
        path.write_text(json.dumps(whole, ensure_ascii=False, indent=1), encoding="utf-8")
    return MergeReport(len(manifest.parts), manifest.num_chunks, len(merging.vocabulary), len(merging.moved))


def read_manifest(folder: str | Path) -> Manifest:
    """Read which files are to be loaded.

    Parameters
    ----------
    folder : str or Path
        Where :func:`merge` has written.

    Returns
    -------
    Manifest
        As it was written.

    Raises
    ------
    FormatError
        It is missing, something else, damaged, or of a newer version.
    """
    path = Path(folder, MANIFEST)
    if not path.is_file():
        msg = f"{path} is missing: merge the parts first"
        raise FormatError(msg)
    with _as_format_error(path):
        found = json.loads(path.read_text(encoding="utf-8"))
        kind, version = found["kind"], found["format"]
    require_known(path, kind, KIND, version)
    with _as_format_error(path):
        parts = [ManifestPart(**{**part, "data": DataFile(**part["data"])}) for part in found["parts"]]
        sums = {**found["sums"], **{name: DataFile(**found["sums"][name]) for name in ("vocabulary", "counts")}}
        return Manifest(found["config"], parts, SumFiles(**sums))


@contextmanager
def _as_format_error(path: Path) -> Iterator[None]:
    """Say what cannot be read."""
    try:
        yield
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        msg = f"{path} is damaged, merge the parts again: {error}"
        raise FormatError(msg) from error


class _Merging:
    """The merging of some parts, as far as it has come."""

    def __init__(self, folder: Path, heads: list[PartHead]) -> None:
        self.heads = heads
        self.vocabulary = Vocabulary()
        self.statistics = NamespaceStatistics()
        self.moved: dict[int, tuple[NDArray[np.uint32], NDArray[np.uint32]]] = {}  # part -> its ids, those of the whole
        self._folder = folder

    def take(self, head: PartHead) -> None:
        """Add the terms of a part, and see which of them have other ids in the whole."""
        require_sound(self._folder, head.data, f"encode part {head.part} again")
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

    def written(self) -> Manifest:
        """Write what is new, and list all files."""
        config = self.heads[0].config
        parts = [ManifestPart(head.namespace, batch_of(head.part), self._final(head)) for head in self.heads]
        return Manifest(config, parts, write_sums(self._folder, self.statistics.contributions(), self.vocabulary))

    def _final(self, head: PartHead) -> DataFile:
        """Return the file of a part that is to be loaded."""
        if head.part not in self.moved:
            return head.data
        source = self._folder / head.data.name
        path = source.with_suffix(".merged.parquet")
        dense = dense_field_of(head.config)
        with written_whole(path) as begun:
            with rows_writer(begun, dense.dim if dense else None) as file:
                for table in read_groups(source):
                    vectors = _with_other_ids(sparse_batch(table), *self.moved[head.part])
                    at = table.column_names.index("sparse")
                    file.write_table(table.set_column(at, table.schema.field(at), sparse_column(vectors)))
            return described(begun, head.data.rows, path.name)


def _with_other_ids(vectors: SparseBatch, old: NDArray[np.uint32], new: NDArray[np.uint32]) -> SparseBatch:
    """Put other ids in the place of some, and each row in order again; the weights stay."""
    at = np.minimum(np.searchsorted(old, vectors.ids), len(old) - 1)
    ids = np.where(old[at] == vectors.ids, new[at], vectors.ids)
    keys = SparseBatch(vectors.indptr, ids, vectors.values).keys
    order = np.argsort(keys)
    return SparseBatch(vectors.indptr, ids[order], vectors.values[order])


# Checks


def _heads(folder: Path, num_parts: int | None) -> list[PartHead]:
    """Read what all parts say of themselves, and see whether they belong together."""
    numbers = part_numbers(folder)
    if not numbers:
        msg = f"there is no part in {folder}: encode some first"
        raise FormatError(msg)
    wanted = numbers[-1] + 1 if num_parts is None else num_parts
    if missing := sorted(set(range(wanted)) - set(numbers)):
        msg = f"parts are missing in {folder}: {_some(missing)}; encode them, {wanted} parts in all"
        raise FormatError(msg)
    if numbers[-1] >= wanted:
        msg = f"{folder} has {len(numbers)} parts, not {wanted}: use an empty folder for other parts"
        raise FormatError(msg)
    heads = [read_head(folder, number) for number in numbers]
    for head in heads[1:]:
        _require_same(heads[0], head)
    return heads


def _require_same(first: PartHead, head: PartHead) -> None:
    """Refuse a part whose vectors would not fit."""
    try:
        found = _differences(first, head)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        msg = f"the parameters in part {first.part} or {head.part} are damaged, encode them again: {error}"
        raise FormatError(msg) from error
    if found:
        msg = f"parts were encoded with different parameters: {'; '.join(found)}"
        raise ConfigMismatchError(msg)


def _differences(first: PartHead, head: PartHead) -> list[str]:
    """List where two parts differ; analyzers may differ in name if they do the same."""
    found = [
        f"{name}: {value!r} in part {first.part}, {head.config[side].get(name)!r} in part {head.part}"
        for side in ("document", "query")
        for name, value in first.config[side].items()
        if head.config[side].get(name) != value
    ]
    return found + differences(*(AnalyzerContract(**one.config["analyzer"]) for one in (first, head)))


def _require_distinct(folder: Path, heads: Sequence[PartHead]) -> None:
    """Refuse a chunk that is in two parts: which of both is meant, nobody can tell."""
    keys = np.empty(sum(head.data.rows for head in heads), np.uint64)
    start = 0
    for head in heads:
        keys[start : start + head.data.rows] = read_pks(folder / head.data.name)
        start += head.data.rows
    keys.sort()
    twice = np.unique(keys[1:][keys[1:] == keys[:-1]])
    del keys
    found = _named(folder, heads, twice) if len(twice) else []
    if found:
        msg = (
            f"{len(found):,} chunks are in two parts: {_some(found)}; an id must be in one part only, and chunks "
            "without ids must differ in text or metadata"
        )
        raise InputError(msg)


def _named(folder: Path, heads: Sequence[PartHead], twice: NDArray[np.uint64]) -> list[str]:
    """Name the chunks whose primary keys are there twice, all of their digits and not only 64 bits compared."""
    places: dict[str, tuple[str, list[int]]] = {}
    for head in heads:
        for pk, id_ in _suspects(folder / head.data.name, twice):
            places.setdefault(pk, (id_, []))[1].append(head.part)
    return [f"{id_!r} (parts {', '.join(map(str, parts))})" for id_, parts in places.values() if len(parts) > 1]


def _suspects(path: Path, keys: NDArray[np.uint64]) -> Iterator[tuple[str, str]]:
    """Yield primary key and id of the rows that have one of some keys."""
    if not np.isin(read_pks(path), keys).any():
        return
    wanted = {f"{key:016x}" for key in keys.tolist()}
    for table in read_groups(path):
        for pk, id_ in zip(table.column("pk").to_pylist(), table.column("id").to_pylist(), strict=True):
            if pk[:16] in wanted:
                yield pk, id_


def _some(found: Iterable[object]) -> str:
    """Name the first few of many things."""
    every = list(map(str, found))
    return ", ".join(every[:NAMED]) + (f" and {len(every) - NAMED:,} more" if len(every) > NAMED else "")
