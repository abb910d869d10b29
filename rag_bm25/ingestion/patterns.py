"""Select files by patterns, in the syntax of .gitignore."""

from __future__ import annotations

import os
from functools import lru_cache, partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from rag_bm25.checks import as_str, parameter_error
from rag_bm25.documents.checks import check_sequence
from rag_bm25.errors import InputError
from rag_bm25.index.arguments import list_first
from rag_bm25.ingestion.globs import Glob, Globs, Place, parse_glob
from rag_bm25.ingestion.opening import open_regular, real_path
from rag_bm25.ingestion.source_names import absolute_path

if TYPE_CHECKING:
    from collections.abc import Sequence

GITIGNORE = ".gitignore"
MAX_GITIGNORE = 1 << 20  # bytes


def parse_patterns(name: str, patterns: Sequence[str]) -> Globs | None:
    """Read patterns given as an argument, None if there are none."""
    check_sequence(name, patterns, "str")
    return Globs([glob for pattern in patterns if (glob := _parse_pattern(name, pattern))]) if patterns else None


def _parse_pattern(name: str, pattern: str) -> Glob | None:
    try:
        if isinstance(pattern, str) and pattern.strip():
            return parse_glob(as_str(pattern))
    except ValueError:
        pass
    raise parameter_error(name, "patterns as in a .gitignore, such as '*.md' or 'build/'", pattern)


class Patterns:
    """The patterns of one call, and notes about the .gitignore files that it reads."""

    def __init__(self, *, include: Sequence[str], also: Sequence[str], exclude: Sequence[str], gitignore: bool) -> None:
        self.include, self.also = parse_patterns("include", include), parse_patterns("also", also)
        self.exclude = parse_patterns("exclude", exclude)
        self.notes: list[str] = []
        self._reads_gitignore = gitignore
        self._ignored: dict[Path, Globs | None] = {}  # folder -> the patterns of its .gitignore

    def within(self, folder: Path) -> Selection:
        """Return the selection of the files below a folder."""
        return Selection(self, absolute_path(folder))

    def ignored_by(self, folder: Path) -> Globs | None:
        """Return the patterns of the .gitignore of a folder."""
        if self._reads_gitignore and folder not in self._ignored:
            self._ignored[folder] = self._read(folder / GITIGNORE)
        return self._ignored.get(folder)

    def _read(self, file: Path) -> Globs | None:
        if not os.path.lexists(file):
            return None
        try:
            with open_regular(file, real_path(file.parent) / file.name) as stream:  # as Git, through no link
                data, more = stream.read(MAX_GITIGNORE), stream.read(1)
        except (InputError, OSError) as error:
            self.notes.append(str(error) if isinstance(error, InputError) else f"{file}: {error.strerror}")
            return None
        if more:
            self.notes.append(f"{file}: only its first {MAX_GITIGNORE:,} bytes count")
        return self._parse(file, data.decode(errors="surrogateescape").removeprefix("\ufeff").split("\n"))

    def _parse(self, file: Path, lines: Sequence[str]) -> Globs:
        wrong: list[str] = []

        def parse(number: int, line: str) -> Glob | None:
            try:
                return parse_glob(line.removesuffix("\r"))
            except ValueError:
                wrong.append(f"line {number:,}")
                return None

        globs = [glob for number, line in enumerate(lines, 1) if (glob := parse(number, line))]
        if wrong:
            self.notes.append(f"{file}: left out, since they are no patterns: {list_first(wrong)}")
        return Globs(globs)


class Selection:
    """Which files below a folder are wanted."""

    def __init__(self, patterns: Patterns, folder: Path) -> None:
        self._patterns, self._folder, self._top = patterns, folder, _repository(folder)
        self._is_folder_ignored = lru_cache(maxsize=1_000)(partial(self._is_ignored_itself, is_folder=True))

    def excludes(self, path: Path, *, is_folder: bool) -> bool:
        """Return whether a file or folder is left out."""
        whole = absolute_path(path)
        if _decide(self._patterns.exclude, whole, self._folder, is_folder=is_folder):
            return True
        if not (is_folder or self._patterns.include is None or self.names(path)):
            return True
        folders = takewhile(lambda folder: folder != self._top, whole.parents)
        return any(map(self._is_folder_ignored, folders)) or self._is_ignored_itself(whole, is_folder=is_folder)

    def names(self, path: Path) -> bool:
        """Return whether a pattern of `include` or `also` matches a file, or a folder that it is in."""
        patterns = [globs for globs in (self._patterns.include, self._patterns.also) if globs]
        if not patterns:
            return False
        whole = absolute_path(path)
        folders = takewhile(lambda folder: folder != self._folder, whole.parents)
        above = [_place(folder, self._folder, is_folder=True) for folder in folders]
        return any(globs.decide([_place(whole, self._folder, is_folder=False), *above]) for globs in patterns)

    def _is_ignored_itself(self, path: Path, *, is_folder: bool) -> bool:
        """Return what the nearest .gitignore with a matching pattern says, apart from the folders that contain it."""
        for folder in path.parents:
            decided = _decide(self._patterns.ignored_by(folder), path, folder, is_folder=is_folder)
            if decided is not None or folder == self._top:
                break
        return bool(decided)


def _decide(globs: Globs | None, path: Path, below: Path, *, is_folder: bool) -> bool | None:
    """Return what patterns of a folder say about a path, None if none of them matches."""
    return None if globs is None else globs.decide([_place(path, below, is_folder=is_folder)])


def _place(path: Path, below: Path, *, is_folder: bool) -> Place:
    return Place(path.relative_to(below).as_posix(), path.name, is_folder)


def _repository(folder: Path) -> Path:
    """Return the Git repository of a folder, or else the folder."""
    return next((place for place in (folder, *folder.parents) if Path(place, ".git").exists()), folder)
