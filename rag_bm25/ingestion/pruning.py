"""Choose the stale chunks to delete; of a folder that has lost too much, none: it may be a mount that is missing."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_bm25.checks import check_parameter, comparable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from rag_bm25.ingestion.files import FileSelection
    from rag_bm25.ingestion.source_names import SourceNames

MAX_DELETE = 0.2
"""Maximum share of the files of a folder that one run prunes by default."""

DELETE = ("rag-bm25", "delete")
FEW_FILES = 5  # may always be pruned: one of three is an ordinary day


def check_max_delete(share: float) -> None:
    check_parameter("max_delete", share, "a number in 0..1", 0 <= comparable(share) <= 1)


@dataclass(frozen=True)
class _Folder:
    """A folder that was searched."""

    path: Path
    names: list[str]  # its own with a slash at the end, and those of the roots within
    there: int  # files, also those that cannot be read
    gone: dict[str, Sequence[str]]  # source -> ids of stale chunks

    @property
    def num_chunks(self) -> int:
        return sum(map(len, self.gone.values()))

    def why_keep(self, max_delete: float, namespace: str) -> str | None:
        """Return the reason for keeping the stale chunks, if there is one."""
        if self.gone and not self.there:
            return self._empty_message(namespace)
        return why_too_many(f"{self.path}", "files", len(self.gone), self.there, self.num_chunks, max_delete)

    def _empty_message(self, namespace: str) -> str:
        lost = [name for name in self.names if any(is_below(source, name) for source in self.gone)]
        return (
            f"{self.path} has no file to ingest, and the index has chunks ({self.num_chunks:,}) of files in it "
            f"({len(self.gone):,}). None was deleted. If all of them are to go: {delete_command(lost, namespace)}"
        )


def why_too_many(name: str, what: str, gone: int, there: int, num_chunks: int, max_delete: float) -> str | None:
    """Return the reason for keeping stale chunks if too many files or rows are gone."""
    total = there + gone
    if gone <= max(FEW_FILES, max_delete * total):
        return None
    return (
        f"{name}: {gone:,} of {total:,} {what} are gone, more than {max_delete:.0%}. None of their {num_chunks:,} "
        "chunks was deleted. If all of them are to go: --max-delete 100%"
    )


def choose_pruned(
    found: FileSelection, names: SourceNames, stale: Mapping[str, Sequence[str]], max_delete: float, namespace: str
) -> tuple[dict[str, Sequence[str]], dict[str, str]]:
    """Return the ids to delete by source, and by folder why none of its stale chunks is among them."""
    kept: set[str] = set()
    reasons: dict[str, str] = {}
    for folder in _given_folders(found.whole or found, names, stale) if stale else ():
        reason = folder.why_keep(max_delete, namespace)
        if reason is not None:
            reasons[names.source_of(folder.path)] = reason
            kept.update(folder.gone)
    return {source: ids for source, ids in stale.items() if source not in kept}, reasons


def _given_folders(found: FileSelection, names: SourceNames, stale: Mapping[str, Sequence[str]]) -> Iterator[_Folder]:
    for path in (path for path, is_folder in found.given.items() if is_folder):
        below = [f"{name}/" if is_folder else name for name, is_folder in names.below(path)]
        gone = {source: ids for source, ids in stale.items() if any(is_below(source, name) for name in below)}
        files = [*(file.path for file in found.files), *found.unreadable]
        there = sum(file.is_relative_to(path) for file in files)
        yield _Folder(path, below, there, gone)


def is_below(source: str, name: str) -> bool:
    """Return whether a source is the named one, or one below the named folder, which ends with a slash."""
    return source.startswith(name) if name.endswith("/") else source == name


def delete_command(names: Sequence[str], namespace: str) -> str:
    """Return the command that deletes the chunks of sources and folders."""
    given = [word for name in names for word in ("--source", name)]
    return shlex.join([*DELETE, *given, *(["--namespace", namespace] if namespace else [])])
