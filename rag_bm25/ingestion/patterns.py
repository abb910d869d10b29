"""Select files by patterns, in the syntax of .gitignore."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_bm25.checks import as_str, parameter_error, require_extra
from rag_bm25.documents.checks import check_sequence
from rag_bm25.errors import InputError
from rag_bm25.ingestion.source_names import absolute_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GITIGNORE = ".gitignore"
MAX_GITIGNORE = 1 << 20  # bytes
HINT = 'patterns of files need pathspec: pip install "rag-bm25[cli]"; gitignore=False ignores .gitignore files'


def check_patterns(name: str, patterns: Sequence[str]) -> list[str]:
    """Check patterns given as an argument."""
    check_sequence(name, patterns, "str")
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern.strip():
            raise parameter_error(name, "patterns as in a .gitignore, such as '*.md' or 'build/'", pattern)
    return [as_str(pattern) for pattern in patterns]


class Patterns:
    """The patterns of one call."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str], *, gitignore: bool) -> None:
        self.include, self.exclude, self.gitignore = include, exclude, gitignore

    def within(self, folder: Path) -> Selection:
        """Return the selection of the files below a folder."""
        return Selection(self, absolute_path(folder))


class Selection:
    """Which files below a folder are wanted."""

    def __init__(self, patterns: Patterns, folder: Path) -> None:
        self._folder = folder
        self._included = _compile(patterns.include, "include")
        self._excluded = _compile(patterns.exclude, "exclude")
        self._reads_gitignore = patterns.gitignore
        self._ignored: dict[Path, Any] = {}  # folder -> the patterns of its .gitignore
        if patterns.gitignore:
            for above in _repository(folder):
                self.enter(above)
            self.enter(folder)

    def enter(self, folder: Path) -> None:
        """Read the .gitignore of a folder."""
        file = absolute_path(folder) / GITIGNORE
        if self._reads_gitignore and file.is_file() and file.parent not in self._ignored:
            with file.open("rb") as stream:
                lines = stream.read(MAX_GITIGNORE).decode(errors="replace").splitlines()
            self._ignored[file.parent] = _compile(lines, str(file))

    def excludes(self, path: Path, *, is_folder: bool) -> bool:
        """Return whether a file or folder is left out."""
        whole = absolute_path(path)
        if _match(self._excluded, whole, self._folder, is_folder=is_folder):
            return True
        if not is_folder and self._included is not None and not self.names(path):
            return True
        return self._is_ignored(whole, is_folder=is_folder)

    def names(self, path: Path) -> bool:
        """Return whether a pattern to include matches a file."""
        return bool(_match(self._included, absolute_path(path), self._folder, is_folder=False))

    def _is_ignored(self, path: Path, *, is_folder: bool) -> bool:
        """Return what the nearest .gitignore with a matching pattern says."""
        for folder in path.parents:
            decided = _match(self._ignored.get(folder), path, folder, is_folder=is_folder)
            if decided is not None:
                return decided
        return False


def _compile(lines: Iterable[str], name: str) -> Any:
    given = list(lines)
    if not given:
        return None
    with require_extra(HINT):
        from pathspec import GitIgnoreSpec
    try:
        return GitIgnoreSpec.from_lines(given)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None


def _match(spec: Any, path: Path, folder: Path, *, is_folder: bool) -> bool | None:
    """Return what patterns say about a path, None if none of them matches."""
    if spec is None:
        return None
    relative = path.relative_to(folder).as_posix() + ("/" if is_folder else "")
    decided: bool | None = spec.check_file(relative).include
    return decided


def _repository(folder: Path) -> list[Path]:
    """Return the folders of the Git repository above a folder."""
    above: list[Path] = []
    for place in (folder, *folder.parents):
        if place != folder:
            above.append(place)
        if Path(place, ".git").exists():
            return above
    return []
