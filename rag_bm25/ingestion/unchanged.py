"""Find the files that need not be read again: neither they nor their chunks have changed since they were ingested.

The index keeps digests of each file: of its bytes, of what else shapes its chunks, and, if these are all named
``source#n``, of their ids and batches as they were written. A chunk that anyone has written again has another
batch, so that no digest outlives what it stands for, whatever happens between two runs. Rows with ids of their own may
move from file to file: they are read again unless nothing at all has changed, neither the files nor the index.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter, defaultdict
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from rag_bm25.documents.chunks import MAX_BATCH_CHUNKS
from rag_bm25.errors import InputError
from rag_bm25.filters import parse_filter
from rag_bm25.index.config import require_dense_field
from rag_bm25.index.writing.pipeline import WriteOptions
from rag_bm25.ingestion.files import real_path_of
from rag_bm25.ingestion.moved import MovedTexts
from rag_bm25.ingestion.obsolete import from_files, scan_sources, source_filters
from rag_bm25.ingestion.opening import open_regular
from rag_bm25.ingestion.shapes import describe_recut, shape_key
from rag_bm25.ingestion.source_digests import GONE, SourceDigest, StoredDigests, read_digests, write_digests
from rag_bm25.store.rows import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from rag_bm25.documents.chunks import AddReport, Chunk, NewChunk
    from rag_bm25.events import Progress
    from rag_bm25.index.generation import Generation
    from rag_bm25.index.index import BM25Index
    from rag_bm25.ingestion.checking import FileChecker
    from rag_bm25.ingestion.files import SourceFile
    from rag_bm25.ingestion.obsolete import Coverage
    from rag_bm25.store.embeddings import Embed

# ruff: noqa: SLF001 - the digests are in the log of the index, and compared with its rows

BLOCK = 1 << 20  # bytes
REMEMBER_SECONDS = 60.0
NEARLY_ALL = 0.9
"""Share of the chunks of a namespace from which it is read as a whole: some engines are slow to filter."""

OWN_IDS = ""
"""In place of the digest of chunks that are not named after their file: they count as unchanged if all of a run is."""


class ChunkDigests:
    """Ids by the source in their name, and digests of them with their batches."""

    def __init__(self) -> None:
        self.ids: defaultdict[str, list[str]] = defaultdict(list)
        self._sums: defaultdict[str, int] = defaultdict(int)

    def add(self, id_: str, batch: str) -> None:
        """Add a chunk, in any order."""
        source = id_.rpartition("#")[0]
        self.ids[source].append(id_)
        self._sums[source] += int.from_bytes(_digest(id_, batch), "big")

    def digest(self, source: str) -> str:
        """Return the digest of the chunks of a source."""
        return f"{self._sums.get(source, 0) % 2**128:032x}"


class _Contents(NamedTuple):
    """A file as it was before it was read."""

    digest: str
    shape: str  # key
    stamp: tuple[int, ...]  # changes with the file


class IngestedFiles:
    """The files of a run that have not changed since an earlier one, and the digests of the others for a later one."""

    def __init__(
        self,
        index: BM25Index,
        coverage: Coverage,
        files: Sequence[SourceFile],
        namespace: str,
        shape_of: Callable[[str], str | None],  # of a source
        report: Callable[[str], None],  # the source under way
    ) -> None:
        index._require_writable()
        index.refresh()
        self._index, self._coverage, self._namespace = index, coverage, namespace
        self._generation = index._current()  # which the digests are of
        self._known = read_digests(index._store, namespace)
        self._files = {file.source: file for file in files}
        self._num_writes = _count_writes(index)  # before the run
        self._own_writes: set[str] = set()  # batches
        self._written = ChunkDigests()
        self._shape_of = shape_of
        self._report = report
        self._shapes: dict[str, str] = {}  # by key
        self._moved: MovedTexts | None = None
        self._contents: dict[str, _Contents] = {}
        self._digest_files(file for file in files if file.source in self._known.by_source)
        self._others: list[str] | None = None  # ids of stored chunks that may be obsolete; None if all of them may be
        self.num_chunks: dict[str, int] = {}  # of unchanged files, by source
        self._remembered = time.monotonic()
        self._find(index.stats(namespace=namespace).num_chunks)

    def digest_each(self, files: Iterable[SourceFile]) -> Iterator[SourceFile]:
        """Yield files to be read; a new one is digested just before, so that it comes from the disk once."""
        for file in files:
            if file.source in self._contents:
                self._report(file.source)
            else:
                self._digest_files([file])
            stored = self._known.by_source.get(file.source)
            if self._moved is not None and stored and stored.stored != OWN_IDS:
                self._moved.keep(file.source, stored.num_chunks)
            yield file

    def _digest_files(self, files: Iterable[SourceFile]) -> None:
        """Read the digests of files; one that cannot be read, or whose chunks have an unknown shape, has none."""
        for file in files:
            self._report(file.source)
            shape = None if file.keeps_source else self._shape_of(file.source)  # the former is a temporary one
            if shape is None:
                continue
            key = shape_key(shape)
            self._shapes[key] = shape
            with suppress(InputError, OSError):
                self._contents[file.source] = _read_contents(file, key)

    def tell(self) -> None:
        """Log how many files are cut anew though they are the same, and why, before anything is written."""
        known, shapes = self._known.by_source, self._known.shapes
        recut = [
            (known[source], now)
            for source, now in self._contents.items()
            if source in known and known[source].contents == now.digest and known[source].shape in shapes
        ]
        recut = [(before, now) for before, now in recut if before.shape != now.shape]
        changes = [(shapes[before.shape], self._shapes[now.shape]) for before, now in recut]
        if num_chunks := sum(before.num_chunks for before, _ in recut):
            message = describe_recut(changes, num_chunks)
            self._generation.live.events.warn("recut", message, files=len(recut), chunks=num_chunks)

    def add(
        self,
        chunks: Iterable[NewChunk],
        embed: Embed | None,
        progress: Callable[[Progress], None],
        workers: int,
    ) -> AddReport:
        """Write the chunks of the other files."""
        options = WriteOptions(self._namespace, assume_new=False, workers=workers)
        if embed is not None:
            dense = require_dense_field(self._index.config, "embeddings given", self._index._store.name)
            self._moved = MovedTexts(self._index, self._namespace, embed, dense)
        return self._index._pipeline.add_stream(chunks, self._moved, options, progress, self._note)

    def _note(self, batches: Mapping[str, str], written: str) -> None:
        """Note the batch that each chunk of a write is stored with, and that of the write, "" if it changed nothing."""
        self._own_writes.update({written} - {""})
        for id_, batch in batches.items():
            self._written.add(id_, batch)

    def _find(self, total: int) -> None:
        """Find the unchanged files, given the number of stored chunks."""
        same = {
            source: digest
            for source, digest in self._known.by_source.items()
            if (now := self._contents.get(source)) and (now.digest, now.shape) == (digest.contents, digest.shape)
        }
        if self._state(same) in self._known.states:  # nothing at all has changed
            self.num_chunks, self._others = {source: digest.num_chunks for source, digest in same.items()}, []
        elif named := {source: digest for source, digest in same.items() if digest.stored != OWN_IDS}:
            stored = self._read_stored(named, total)
            kept = [source for source, digest in named.items() if stored.digest(source) == digest.stored]
            self.num_chunks = {source: same[source].num_chunks for source in kept}
            self._others = [id_ for source in stored.ids.keys() - kept for id_ in stored.ids[source]]
        elif not total:
            self._others = []

    def _read_stored(self, same: Mapping[str, SourceDigest], total: int) -> ChunkDigests:
        """Read the ids and batches of the stored chunks of the covered sources, and of some others."""
        stored = ChunkDigests()
        is_nearly_all = sum(digest.num_chunks for digest in same.values()) >= NEARLY_ALL * total
        for where in [None] if is_nearly_all else source_filters(self._coverage):
            for row in chain.from_iterable(
                self._index._store.scan_chunks(Scope(parse_filter(where), (self._namespace,)))
            ):
                stored.add(row.id, row.batch)
        return stored

    def not_given(self, given: Container[str]) -> Iterator[Chunk]:
        """Yield the stored chunks of covered sources that are not unchanged, and that no file has given."""
        chunks = self._read_others(given)
        self._others = []
        for chunk in chunks:
            if chunk.id not in given:
                self._others.append(chunk.id)
                yield chunk

    def _read_others(self, given: Container[str]) -> Iterator[Chunk]:
        if self._others is None:
            return scan_sources(self._index, self._coverage, self._namespace)
        ids = [id_ for id_ in self._others if id_ not in given]
        pages = (ids[start : start + MAX_BATCH_CHUNKS] for start in range(0, len(ids), MAX_BATCH_CHUNKS))
        chunks = (chunk for page in pages for chunk in self._index.get(page, namespace=self._namespace))
        return from_files(chunks, self._coverage)

    def remember_if_due(self, checker: FileChecker) -> None:
        """Store digests in the middle of a long run, so that not all of it is lost if it is killed."""
        if time.monotonic() - self._remembered >= REMEMBER_SECONDS:
            self.remember(checker)
            self._known = read_digests(self._index._store, self._namespace)
            self._remembered = time.monotonic()

    def remember(self, checker: FileChecker, kept: Container[str] | None = None) -> None:
        """Store the digests of the files that were read, if they and their chunks are still the same.

        At the end of a run, those of files without chunks are forgotten; the kept ones are not read, but have some.
        """
        index, known = self._index, self._known.by_source
        new = dict(self._new_digests(checker))
        others = () if kept is None else (source for source in known.keys() - self._files if source not in kept)
        gone = {source: GONE for source in others if self._coverage.covers(source)}
        changes = {source: digest for source, digest in new.items() if known.get(source) != digest} | gone
        index.refresh()
        state = self._state({source: known[source] for source in self.num_chunks} | new)
        if changes or state not in self._known.states | {""}:
            index._current().in_force(partial(self._store_digests, changes, state))

    def _store_digests(self, changes: Mapping[str, SourceDigest], state: str, now: Generation) -> None:
        with now.live.writing():
            if now is self._generation:  # in a next one all chunks have other batches
                new = StoredDigests(dict(changes), self._shapes, {state})
                write_digests(now.store, self._namespace, self._known, new, now.live.log.new_batch())

    def _new_digests(self, checker: FileChecker) -> Iterator[tuple[str, SourceDigest]]:
        written = Counter(map(checker.owners.given.get, chain.from_iterable(self._written.ids.values())))
        for source in checker.num_chunks.keys() - checker.rejected.keys():
            contents, num_chunks = self._contents.get(source), checker.num_chunks[source]
            is_named = len(self._written.ids.get(source, ())) == num_chunks
            is_whole = is_named or written[source] == num_chunks
            if contents and is_whole and _stamp_of(self._files[source]) == contents.stamp:
                stored = self._written.digest(source) if is_named else OWN_IDS
                yield source, SourceDigest(contents.digest, contents.shape, stored, num_chunks)

    def _state(self, digests: Mapping[str, SourceDigest]) -> str:
        """Return a digest of all that the run covers, "" if something else may be stored or is being written.

        As long as nobody writes to the index, the next run finds the same chunks, and need not read them.
        """
        num_writes = _count_writes(self._index)
        is_all = bool(digests) and digests.keys() == self._files.keys() and not self._others
        if not is_all or num_writes is None or num_writes != self._expected_writes():
            return ""
        covered = [num_writes, self._coverage.folders, self._coverage.files, sorted(digests.items())]
        return _digest(json.dumps(covered)).hex()

    def _expected_writes(self) -> int | None:
        """Return the number of writes to the index if nobody else has written since the run began."""
        return None if self._num_writes is None else self._num_writes + len(self._own_writes)


def _count_writes(index: BM25Index) -> int | None:
    """Return the number of writes to the index, None while one is under way, or missing."""
    log = index._live.log
    return None if log.has_intents or log.problems else log.num_writes


def _read_contents(file: SourceFile, shape: str) -> _Contents:
    digest = hashlib.blake2b(digest_size=16)
    with open_regular(file.path, real_path_of(file)) as stream:
        stamp = _stamp(os.fstat(stream.fileno()))
        while block := stream.read(BLOCK):
            digest.update(block)
    return _Contents(digest.hexdigest(), shape, stamp)


def _stamp_of(file: SourceFile) -> tuple[int, ...] | None:
    with suppress(OSError):
        return _stamp(real_path_of(file).stat())
    return None


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _digest(*texts: str) -> bytes:
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=16).digest()
