"""Find source files in folders."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rag_bm25.checks import check_path
from rag_bm25.documents.checks import check_sequence
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.index.arguments import list_first
from rag_bm25.ingestion.formats import FORMATS
from rag_bm25.ingestion.markup import MARKUP
from rag_bm25.ingestion.opening import real_path
from rag_bm25.ingestion.patterns import Patterns, Selection
from rag_bm25.ingestion.rows import ROW_SUFFIXES
from rag_bm25.ingestion.source_names import SourceNames, absolute_path, check_root_name, nfc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rag_bm25.statistics.log.source_roots import SourceRoot

NO_PATTERNS: Mapping[str, Any] = MappingProxyType({"include": [], "also": [], "exclude": [], "gitignore": True})
PATTERNS = NO_PATTERNS.keys() - {"gitignore"}
NAMED = ".json"  # which folders have for many a purpose: only a file that is given or included is ingested
SUFFIXES = (".txt", *MARKUP, *(suffix for suffix in ROW_SUFFIXES if suffix != NAMED), *FORMATS)


@dataclass(frozen=True)
class SourceFile:
    """A file to ingest.

    Parameters
    ----------
    path : Path
        Path of the file.
    source : str
        Source of its chunks: the path relative to the parent of the given folder, or the file's name. :func:`ingest`
        replaces it by a name relative to a root that the index remembers.
    size : int
        Size in bytes.
    keeps_source : bool
        Whether :func:`ingest` must not replace the source: the path is a temporary file.
    real : Path, optional
        Real path when it was found. The file is read there, without following links that took its place later.
    """

    path: Path
    source: str
    size: int
    keeps_source: bool = False
    real: Path | None = None


def real_path_of(file: SourceFile) -> Path:
    """Return where a file is read: where it was found."""
    return file.real or real_path(file.path)


@dataclass(frozen=True)
class FileSelection:
    """Files found in the given paths.

    Parameters
    ----------
    files : list of SourceFile
        Files to ingest, sorted within each folder.
    skipped : list of Path
        Files of other kinds.
    given : dict of Path to bool
        The given paths that can be ingested; True for folders.
    excluded : list of Path
        Files and folders that a pattern or a .gitignore excludes.
    missing : dict of str to str
        By format, which package is missing for the skipped files in it, and how to install it.
    unreadable : dict of Path to str
        Folders and files that cannot be read, and given files that cannot be ingested, with the reason.
    root : Path or None
        Folder that contains all paths, which sources are relative to.
    name : str or None
        Prefix of the sources.
    notes : list of str
        Lines of .gitignore files that are no patterns, and .gitignore files that cannot be read.
    whole : FileSelection or None
        The search that this is a part of, if only some of its files are to be read.
    options : dict
        The options that were given for the sources, which :func:`ingest` remembers.
    remembered : dict
        The patterns that the index remembers, and that were not given.
    """

    files: list[SourceFile] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)
    given: dict[Path, bool] = field(default_factory=dict)
    excluded: list[Path] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    unreadable: dict[Path, str] = field(default_factory=dict)
    root: Path | None = None
    name: str | None = None
    notes: list[str] = field(default_factory=list)
    whole: FileSelection | None = None
    options: dict[str, Any] = field(default_factory=dict)
    remembered: dict[str, list[str]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(file.size for file in self.files)


def find_files(
    paths: Sequence[str | Path],
    *,
    root: str | Path | None = None,
    name: str | None = None,
    include: Sequence[str] | None = None,
    also: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    gitignore: bool | None = None,
    roots: Sequence[SourceRoot] | None = None,
) -> FileSelection:
    """Find the files to ingest; folders are searched recursively, hidden files are ignored.

    Parameters
    ----------
    paths : sequence of str or Path
        Files and folders. A file that is reached twice is taken once.
    root : str or Path, optional
        A folder that contains all paths. Sources are relative to it, and the index remembers it. By default, each path
        is its own root, unless it lies in a folder that the index remembers.
    name : str, optional
        Prefix of the sources below `root`, or below the single path; by default the folder's name. It identifies a
        remembered folder that was moved.
    include : sequence of str, optional
        Patterns as in a .gitignore, relative to each folder: only files that match one are found. Files of other kinds
        that match are read as plain text. A folder in which none matches, but for an empty one, is unreadable.
    also : sequence of str, optional
        Patterns of files that are found beside the others; those of other kinds are read as plain text.
    exclude : sequence of str, optional
        Patterns of files and folders to leave out.
    gitignore : bool, optional
        Whether to leave out what the .gitignore files of the folders, and of the repository around them, exclude.
    roots : sequence of SourceRoot, optional
        What :func:`read_source_roots` returns: of these four options, those that are not given are as the index
        remembers them. Without it, their defaults are no patterns and True, and the index will remember these.

    Returns
    -------
    FileSelection
        The files that can be ingested, and those that were left out.

    Raises
    ------
    FileNotFoundError
        A path does not exist.
    InputError
        `paths` is a single path, or a path is not within `root`.
    ParameterError
        A path cannot be one; `name` is not valid, or was given with several paths and without `root`; a pattern is not
        valid.
    """
    check_sequence("paths", paths, "str or Path")
    checked = [check_path(f"paths[{position}]", path) for position, path in enumerate(paths)]
    folder = None if root is None else check_path("root", root)
    if name is not None and root is None and len(paths) != 1:
        raise ParameterError(f"name needs a single path, or a root that contains all paths, got {len(paths)} paths")
    given = {"include": include, "also": also, "exclude": exclude, "gitignore": gitignore}
    own = {option: value for option, value in given.items() if value is not None}
    options = {**NO_PATTERNS, **own} if roots is None else own
    found = FileSelection(root=folder, name=None if name is None else check_root_name(name), options=options)
    finder = _Finder(found, roots or ())
    for path in checked:
        finder.take_path(path)
    found.notes.extend(finder.notes())
    return found


class _Finder:
    """Collect files, each once."""

    def __init__(self, found: FileSelection, roots: Sequence[SourceRoot]) -> None:
        self.found = found
        self._names = SourceNames(roots, lambda _name, _is_folder: False)
        self._made: dict[str, Patterns] = {}
        self._patterns_of({})  # refuses wrong ones
        self._taken: set[Path] = set()

    def take_path(self, path: Path) -> None:
        """Collect a file, or all files below a folder."""
        root = self._root_of(path)
        if self.found.name is not None:
            self._names.take_root(root, self.found.name)  # a folder that was moved has the options of its name
        if path.is_dir():
            self._take_folder(path, root)
        else:
            path.stat()
            self._take_single(path, root)

    def _select(self, path: Path, folder: Path) -> Selection:
        """Return the selection for a path; its patterns are relative to the folder that they are remembered with."""
        root = self._names.root_of(path)
        if root is None:
            return self._patterns_of({}).within(folder)
        is_below = absolute_path(folder).is_relative_to(root.path) and root.options.keys() & PATTERNS
        return self._patterns_of(root.options).within(Path(root.path) if is_below else folder)

    def _patterns_of(self, options: Mapping[str, Any]) -> Patterns:
        whole = {**NO_PATTERNS, **options, **self.found.options}
        key = repr(wanted := {name: whole[name] for name in NO_PATTERNS})
        if key not in self._made:
            self._made[key] = Patterns(**wanted)
            for name in options.keys() & PATTERNS - self.found.options.keys():
                self.found.remembered[name] = [*self.found.remembered.get(name, ()), *options[name]]
        return self._made[key]

    def notes(self) -> list[str]:
        """Return the notes about .gitignore files, each once."""
        return list(dict.fromkeys(note for patterns in self._made.values() for note in patterns.notes))

    def _root_of(self, path: Path) -> Path:
        """Return the folder that the source of a path is relative to."""
        root = self.found.root
        if root is None:
            return path
        if not root.is_dir():
            raise InputError(f"the root must be a folder, got {root}")
        if not absolute_path(path).is_relative_to(absolute_path(root)):
            raise InputError(f"{path} is not within the root {root}")
        return root

    def _take_folder(self, folder: Path, root: Path) -> None:
        """Collect the files below a folder in sorted order."""
        selection, num_excluded = self._select(folder, folder), len(self.found.excluded)
        files = list(self._walk(folder, selection))
        include = self.found.options.get("include")
        if include and not files and len(self.found.excluded) > num_excluded:
            self.found.unreadable[folder] = f"{folder}: {list_first(include)} of --include matches none of its files"
            return
        self.found.given[folder] = True
        within = folder.resolve()
        for file in files:
            if not self._take_file(file, root, within, is_wanted=selection.names(file)):
                self.found.skipped.append(file)

    def _walk(self, folder: Path, selection: Selection) -> Iterator[Path]:
        """Yield the files below a folder in sorted order, but for those that are left out."""

        def note(error: OSError) -> None:
            self.found.unreadable[Path(error.filename)] = os_error_message(error)

        for inner, folders, names in os.walk(folder, onerror=note):  # follows no links: they may form a cycle
            shown = sorted(name for name in folders if not name.startswith("."))
            folders[:] = [name for name in shown if not self._exclude(selection, Path(inner, name), is_folder=True)]
            for name in sorted(names):
                file = Path(inner, name)
                is_hidden = _is_hidden(name, is_wanted=selection.names(file))
                if not (is_hidden or self._exclude(selection, file, is_folder=False)):
                    yield file

    def _exclude(self, selection: Selection, path: Path, *, is_folder: bool) -> bool:
        """Note a file or folder that patterns exclude."""
        excludes = selection.excludes(path, is_folder=is_folder)
        if excludes:
            self.found.excluded.append(path)
        return excludes

    def _take_single(self, file: Path, root: Path) -> None:
        """Collect a file that was given by itself, also through a link."""
        selection = self._select(file, file.parent)
        is_wanted = selection.names(file) or file.suffix.lower() == NAMED
        if selection.excludes(file, is_folder=False):
            self.found.excluded.append(file)
        elif self._take_file(file, root, is_wanted=is_wanted):
            self.found.given[file] = False
        elif missing := needs_package(file):
            self.found.unreadable[file] = f"{file}: {missing}"
        elif is_wanted or is_known(file):
            self.found.unreadable[file] = f"{file}: no regular file but a pipe, a socket or a device; save it as a file"
        else:
            kinds = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
            self.found.unreadable[file] = (
                f"{file}: only files that end in {kinds} can be ingested, and those that --also names"
            )

    def _take_file(self, file: Path, root: Path, within: Path | None = None, *, is_wanted: bool) -> bool:
        """Collect a file if it can be ingested."""
        real = real_path(file)
        # Links must not lead out of the folder: someone else may have put them there.
        if not (is_wanted or is_known(file)) or not (within is None or real.is_relative_to(within)):
            return False
        if missing := needs_package(file):
            self.found.missing[FORMATS[file.suffix.lower()].name] = missing
            return False
        try:
            size = _size(real)
        except OSError as error:
            self.found.unreadable[file] = os_error_message(error)
            return True
        if size is not None and real not in self._taken:
            self._taken.add(real)
            self.found.files.append(SourceFile(file, self._source(file, root), size, real=real))
        return size is not None

    def _source(self, file: Path, root: Path) -> str:
        """Return the preliminary source of a file; an index may give it another."""
        rest = absolute_path(file).relative_to(absolute_path(root))
        return nfc(str(PurePosixPath(self.found.name or absolute_path(root).name, rest.as_posix())))


def _is_hidden(name: str, *, is_wanted: bool) -> bool:
    """Return whether a file is left out by its name: a hidden one, or a temporary one that no pattern names."""
    return name.startswith(".") or (not is_wanted and (name.startswith("~$") or name.lower().endswith(".tmp")))


def is_known(file: Path) -> bool:
    """Return whether a file is of a kind that is ingested."""
    return file.suffix.lower() in SUFFIXES


def needs_package(file: Path) -> str:
    """Return which package the format of a file needs.

    Parameters
    ----------
    file : Path
        A file of any kind.

    Returns
    -------
    str
        The package, and how to install it; "" if nothing is missing.
    """
    form = FORMATS.get(file.suffix.lower())
    return "" if form is None else form.missing


def _size(file: Path) -> int | None:
    """Return the size of a regular file, None for anything else and for missing files."""
    try:
        status = file.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def os_error_message(error: OSError) -> str:
    """Format an error of the operating system without its number."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)
