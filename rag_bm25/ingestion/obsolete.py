"""Find stored chunks that the ingested files no longer have."""

from __future__ import annotations

import os
import re
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_bm25.checks import find_bad_character
from rag_bm25.ingestion.files import is_known
from rag_bm25.ingestion.rows import is_from_source

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence

    from rag_bm25.documents.chunks import Chunk
    from rag_bm25.index.index import BM25Index
    from rag_bm25.ingestion.checking import FileChecker
    from rag_bm25.ingestion.files import FileSelection, SourceFile
    from rag_bm25.ingestion.source_names import SourceNames

FILES_PER_FILTER = 100


@dataclass(frozen=True)
class Coverage:
    """The sources that an ingestion covers: those below folders, and single files."""

    folders: list[str]  # each with a slash at its end
    files: list[str]
    unreadable: list[str] = field(default_factory=list)  # files and folders with unknown contents
    is_skipped: Callable[[str], bool] = lambda _source: False  # whether a file exists that the search passed over

    @classmethod
    def of(cls, found: FileSelection, files: Sequence[SourceFile], names: SourceNames) -> Coverage:
        """Compute the coverage of given paths and found files."""
        given = [each for path, is_folder in found.given.items() if is_folder for each in names.below(path)]
        folders = sorted({f"{name}/" for name, is_folder in given if is_folder})
        outer = [each for each in folders if not each.startswith(tuple(other for other in folders if other != each))]
        singles = {name for name, is_folder in given if not is_folder} | {file.source for file in files}
        singles |= {names.source_of(path) for path, is_folder in found.given.items() if not is_folder}  # it may be gone
        unreadable = [name for path in found.unreadable for name, _ in names.below(path)]

        tops = [Path(os.path.realpath(path)) for path, is_folder in found.given.items() if is_folder]

        @cache
        def excluded() -> frozenset[str]:
            return frozenset(map(os.path.realpath, found.excluded))

        @lru_cache(maxsize=1_000)
        def is_skipped(source: str) -> bool:
            file = names.path_of(source)
            return file is not None and names.source_of(file) == source and _is_skipped(file, tops, excluded())

        inner = sorted(name for name in singles if not name.startswith(tuple(outer)))
        return cls(outer, inner, unreadable, is_skipped)

    def covers(self, source: str) -> bool:
        """Return whether a source is below one of the folders, or one of the files."""
        return source.startswith(tuple(self.folders)) or source in self._files

    @cached_property
    def _files(self) -> frozenset[str]:
        return frozenset(self.files)

    def is_gone(self, source: str) -> bool:
        """Return whether a file that was not found no longer exists; unreadable and skipped files may exist."""
        return not (self.is_unreadable(source) or self.is_skipped(source))

    def is_unreadable(self, source: str) -> bool:
        """Return whether a file is unreadable, or within a folder that is."""
        return source in self.unreadable or source.startswith(tuple(f"{name}/" for name in self.unreadable))


def _is_skipped(file: Path, tops: Sequence[Path], excluded: Container[str]) -> bool:
    """Return whether a file exists that `find_files` skips: it is hidden, excluded, or only reachable by links."""
    place = Path(os.path.realpath(file.parent), file.name)
    if not os.path.isfile(file):  # noqa: PTH113
        return False
    is_excluded = any(str(above) in excluded for above in (place, *place.parents))
    return is_excluded or not is_known(file) or not any(_is_searched(place, top) for top in tops)


def _is_searched(place: Path, top: Path) -> bool:
    """Return whether `find_files` takes a file of a folder; both are real paths."""
    if not place.is_relative_to(top) or not Path(os.path.realpath(place)).is_relative_to(top):
        return False
    return not any(part.startswith(".") for part in place.relative_to(top).parts)


@dataclass(frozen=True)
class ObsoleteChunks:
    """Ids of stored chunks that the files no longer have."""

    removed: list[str] = field(default_factory=list)  # of files that were read
    stale: dict[str, list[str]] = field(default_factory=dict)  # of files that no longer exist, by source
    unread: dict[str, list[str]] = field(default_factory=dict)  # of files that may exist and were not read, by source

    @classmethod
    def find(cls, stored: Iterable[Chunk], coverage: Coverage, checker: FileChecker) -> ObsoleteChunks:
        """Sort stored chunks that no file has given any more; those of failed files are kept."""
        obsolete = cls()
        for chunk in stored:
            source = chunk.metadata["source"]
            if source in checker.failed or source in checker.rejected:
                continue
            if source in checker.read:
                obsolete.removed.append(chunk.id)
            else:
                others = obsolete.stale if coverage.is_gone(source) else obsolete.unread
                others.setdefault(source, []).append(chunk.id)
        return obsolete


def has_sources(index: BM25Index, namespace: str, name: str, *, is_folder: bool) -> bool:
    """Return whether chunks of a file, or of files below a folder, are stored."""
    coverage = Coverage([f"{name}/"], []) if is_folder else Coverage([], [name])
    with closing(scan_sources(index, coverage, namespace)) as chunks:
        return next(chunks, None) is not None


def below_folder(prefix: str) -> dict[str, Any]:
    """Return a filter of the sources below a folder; it lets others pass: % is the only wildcard of all engines."""
    return {"source": {"$like": re.sub(r"[_\\]", "%", prefix) + "%"}}


def _storable(names: Iterable[str]) -> list[str]:
    return [name for name in names if find_bad_character(name) is None]


def source_filters(coverage: Coverage) -> Iterator[dict[str, Any]]:
    """Yield filters of the covered sources, which let others pass; a name that cannot be stored has none."""
    yield from map(below_folder, _storable(coverage.folders))
    files = _storable(coverage.files)
    for start in range(0, len(files), FILES_PER_FILTER):
        yield {"source": {"$in": files[start : start + FILES_PER_FILTER]}}


def scan_sources(index: BM25Index, coverage: Coverage, namespace: str) -> Generator[Chunk, None, None]:
    """Yield the stored chunks of the covered sources."""
    for where in source_filters(coverage):
        yield from from_files(index.chunks(filter=where, namespace=namespace), coverage)


def from_files(chunks: Iterable[Chunk], coverage: Coverage) -> Iterator[Chunk]:
    """Yield the chunks that came from files whose sources are covered."""
    return (
        chunk
        for chunk in chunks
        if is_from_source(chunk.id, chunk.metadata) and coverage.covers(chunk.metadata["source"])
    )
