"""Name files as sources: by the deepest root that contains them, so that each file has one name."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rag_bm25.errors import InputError, ParameterError
from rag_bm25.statistics.log.source_roots import SourceRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HasSources: TypeAlias = "Callable[[str, bool], bool]"  # name, is_folder -> whether chunks are stored
_Places: TypeAlias = "tuple[str, str]"  # absolute path, real path


class _Match(NamedTuple):
    """A root that contains a path."""

    steps: int  # from the path up to the root
    root: SourceRoot
    rest: str  # of the path, below the root

    @property
    def source(self) -> str:
        return f"{self.root.name}/{self.rest}" if self.rest else self.root.name


def check_root_name(name: str) -> str:
    """Check and normalise the name of a root."""
    parts = name.removesuffix("/").split("/") if isinstance(name, str) else [""]
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or not name.isprintable():
        raise ParameterError(f"name must be a relative path such as 'docs' or 'team/docs', got {name!r}")
    return nfc("/".join(parts))


def nfc(name: str) -> str:
    """Return a name in the form in which sources are stored: macOS and Linux write accents in different ones."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


class SourceNames:
    """Names of files within one namespace; no name of a root is a prefix of another."""

    def __init__(self, roots: Iterable[SourceRoot], has_sources: HasSources) -> None:
        self.new: list[SourceRoot] = []
        self.notes: list[str] = []
        self._has_sources = has_sources
        self._roots: dict[str, SourceRoot] = {}
        self._above: dict[str, SourceRoot] = {}  # prefix of a name -> one of the roots with it
        self._places: dict[str, _Places] = {}
        self._by_place: dict[str, SourceRoot] = {}
        self._real = lru_cache(maxsize=1_000)(os.path.realpath)
        ordered = sorted(roots, key=lambda root: root.version)  # of two with one path, the newer has it
        for root in ordered:
            self._put(root)
        self._by_place.update((root.path, root) for root in ordered)  # before those that links lead from

    # Roots

    def take(self, path: Path) -> None:
        """Give a path a root, unless it lies in one: that of stored chunks, or its own."""
        if self._find_nearest(path) is None:
            self._add(self._adopt(path) or self._make_unnamed(path))

    def gone_folders(self) -> list[SourceRoot]:
        """Return the folders that no longer exist, if another one has got a name."""
        has_new = any(root.is_folder and not root.version for root in self.new)
        return [root for root in self._roots.values() if root.is_folder and _is_gone(root)] if has_new else []

    def take_root(self, path: Path, name: str | None) -> None:
        """Make a path a root, with the given name or by default its own."""
        found = self._find_nearest(path)
        if found is not None and found.steps == 0:
            if name in (None, found.root.name):
                return
            self._require_unused(found.root)
        known = None if name is None else self._roots.get(name)
        if known is not None:
            self._require_free(known)
            self._add(replace(_make_root(known.name, path, known.version), options=known.options))
            return
        if found is not None and found.steps:
            where, known_as = found.root.path, found.root.name
            msg = f"{path} lies in {where}, whose files are named {known_as}/... Omit the root and the name."
            raise InputError(msg)
        self._add(self._make_unnamed(path) if name is None else self._make_named(path, name))

    def _put(self, root: SourceRoot) -> None:
        places = (root.path, os.path.realpath(root.path))
        self._roots[root.name], self._places[root.name] = root, places
        self._above.update((prefix, root) for prefix in _prefixes(root.name))
        self._by_place.update(dict.fromkeys(places, root))

    def _add(self, root: SourceRoot) -> None:
        for place in self._places.pop(root.name, ()):  # of a root that was moved, unless they have another name by now
            if self._by_place.get(place) == self._roots[root.name]:
                del self._by_place[place]
        self._put(root)
        self.new.append(root)

    def _adopt(self, path: Path) -> SourceRoot | None:
        """Make the root of chunks whose root is not stored, as after a repair: the path, or a folder above it."""
        whole, is_folder = absolute_path(path), _is_folder(path)
        for folder in (whole, *whole.parents):
            name = _possible_names(folder)[0]
            rest = whole.relative_to(folder).as_posix()
            source = name if rest == "." else f"{name}/{rest}"
            if self._find_overlap(name) is None and self._has_sources(source, is_folder):
                return _make_root(name, folder)
        return None

    def _make_unnamed(self, path: Path) -> SourceRoot:
        """Make a root with the shortest free name."""
        first = None
        for name in _possible_names(path):
            other = self._find_overlap(name)
            if other is None:
                if first is not None:
                    self.notes.append(f"{path} is named {name!r}, since {first.name!r} is {first.path}")
                return _make_root(name, path)
            if other.name == name and self._is_free(other):
                if not self._has_sources(name, other.is_folder):
                    return _make_root(name, path, other.version)
                raise InputError(_ambiguity_message(path, other))
            first = first or other
        raise InputError(f"all possible names of {path} are in use. Choose a name for it.")

    def _make_named(self, path: Path, name: str) -> SourceRoot:
        other = self._find_overlap(name)
        if other is not None:
            msg = f"the name {name!r} overlaps with {other.name!r}, the name of {other.path}. Choose another name."
            raise InputError(msg)
        return _make_root(name, path)

    def _is_free(self, root: SourceRoot) -> bool:
        """Return whether a root is gone, or its place has got another name."""
        return _is_gone(root) or self._by_place.get(root.path) != root

    def _require_free(self, root: SourceRoot) -> None:
        if not self._is_free(root):
            msg = f"the name {root.name!r} is in use by {root.path}, which still exists. Choose another name."
            raise InputError(msg)

    def _require_unused(self, root: SourceRoot) -> None:
        """Refuse another name for a root with chunks: they would be nobody's."""
        if self._has_sources(root.name, root.is_folder):
            chunks = f"{root.name}/" if root.is_folder else root.name
            msg = f"{root.path} is already named {root.name!r} in this index. Omit the name, or first delete its chunks"
            raise InputError(f"{msg}, those of --source {chunks}")

    def _find_overlap(self, name: str) -> SourceRoot | None:
        """Find a root whose sources could have the same names as those of a new root."""
        return self.root_named(name) or self._above.get(name)

    # Names

    def source_of(self, path: Path) -> str:
        """Return the source of a file or folder."""
        found = self._find_nearest(path)
        return nfc(path.name if found is None else found.source)

    def path_of(self, source: str) -> Path | None:
        """Return the path of a source, which may no longer exist."""
        root = self.root_named(source)
        return None if root is None else _path_below(root.path, source[len(root.name) + 1 :])

    def root_named(self, source: str) -> SourceRoot | None:
        """Return the root whose name a source begins with."""
        known = (self._roots.get(each) for each in (source, *_prefixes(source)))
        return next((root for root in known if root is not None), None)

    def has_file(self, source: str) -> bool:
        """Return whether the file of a source exists, or may exist where it cannot be looked for."""
        path = self.path_of(source)
        return path is not None and _may_be_file(path) and self.source_of(path) == source

    def root_of(self, path: Path) -> SourceRoot | None:
        """Return the deepest root that contains a file."""
        found = self._find_nearest(path)
        return None if found is None else found.root

    def below(self, folder: Path) -> Iterator[tuple[str, bool]]:
        """Yield the prefixes of the sources below a folder, and whether each is a folder."""
        yield self.source_of(folder), True
        within = tuple(os.path.join(place, "") for place in _folder_places(folder))  # noqa: PTH118
        for name, places in self._places.items():
            if any(place.startswith(within) for place in places):
                yield name, self._roots[name].is_folder

    def _find_nearest(self, path: Path) -> _Match | None:
        """Find the deepest root that contains a path, or its real path."""
        places = _folder_places(path) if _is_folder(path) else self._file_places(path)
        found = [each for each in map(self._climb, places) if each is not None]
        return min(found, key=lambda each: each.steps, default=None)

    def _file_places(self, path: Path) -> _Places:
        """Return the places of a file; only links to its folders are resolved, so that a link has its own name."""
        folder, name = os.path.split(absolute_path(path))
        return os.path.join(folder, name), os.path.join(self._real(folder), name)  # noqa: PTH118

    def _climb(self, place: str) -> _Match | None:
        """Find the deepest root above a place."""
        at, steps = place, 0
        while at not in self._by_place:
            parent = os.path.dirname(at)  # noqa: PTH120
            if parent == at:
                return None
            at, steps = parent, steps + 1
        return _Match(steps, self._by_place[at], place[len(at) :].strip(os.sep).replace(os.sep, "/"))


def _path_below(folder: str, rest: str) -> Path:
    """Return the path of a file whose name may have another form there."""
    path = Path(folder)
    for part in rest.split("/"):
        forms = (path / part, path / unicodedata.normalize("NFD", part))
        path = next((form for form in forms if os.path.lexists(form)), forms[0])  # False without permission
    return path


def absolute_path(path: Path) -> Path:
    """Resolve ``..``, but not symbolic links."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  # False without permission; Path raises


def _may_be_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except ValueError:  # no path at all
        return False
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


def _is_gone(root: SourceRoot) -> bool:
    return not os.path.exists(root.path)  # noqa: PTH110  # likewise


def _folder_places(folder: Path) -> _Places:
    absolute = str(absolute_path(folder))
    return absolute, os.path.realpath(absolute)


def _make_root(name: str, path: Path, replaces: str = "") -> SourceRoot:
    return SourceRoot(name, str(absolute_path(path)), _is_folder(path), replaces)


def _possible_names(path: Path) -> list[str]:
    """List the possible names of a path, the shortest first."""
    absolute = absolute_path(path)
    parts = absolute.parts[1:] or (absolute.drive.rstrip(":\\/") or "root",)  # the root of a file system has no name
    return [nfc("/".join(parts[at:])) for at in range(len(parts) - 1, -1, -1)]


def _prefixes(name: str) -> list[str]:
    """List the prefixes of a name: ``a`` and ``a/b`` of ``a/b/c``."""
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _ambiguity_message(path: Path, gone: SourceRoot) -> str:
    return (
        f"{path} would be named {gone.name!r}, but that is the name of {gone.path}, which no longer exists here. If it "
        f"was moved to {path}, give the name {gone.name!r} (--name {gone.name}). Otherwise choose another name."
    )
