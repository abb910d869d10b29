"""How files are named as sources: by the deepest root that contains them, so that each has one name."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rag_bm25.errors import InputError, ParameterError
from rag_bm25.source_roots import SourceRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["SourceNames", "check_root_name"]

HasSources: TypeAlias = "Callable[[str, bool], bool]"
_Places: TypeAlias = "tuple[str, str]"  # as named, and where links lead to


class _Found(NamedTuple):
    """A root that contains a path."""

    steps: int  # from the path up to it
    root: SourceRoot
    rest: str  # of the path, below it

    @property
    def source(self) -> str:
        return f"{self.root.name}/{self.rest}" if self.rest else self.root.name


def check_root_name(name: str) -> str:
    """Return the name of a root.

    Parameters
    ----------
    name : str
        One or more parts, such as ``docs`` or ``team/docs``.

    Returns
    -------
    str
        Without a slash at its end.

    Raises
    ------
    ParameterError
        It is no relative path, or has ``.`` or ``..`` in it.
    """
    parts = name.removesuffix("/").split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or not name.isprintable():
        msg = f"name must be a relative path such as 'docs' or 'team/docs', got {name!r}"
        raise ParameterError(msg)
    return "/".join(parts)


class SourceNames:
    """Names of files within one namespace; no two roots have names of which one begins with the other.

    Parameters
    ----------
    roots : iterable of SourceRoot
        Those that are stored.
    has_sources : callable of (str, bool) to bool
        Whether chunks are stored whose source is this file, or is in this folder where the second argument is true.

    Attributes
    ----------
    new : list of SourceRoot
        Those that :meth:`take` and :meth:`take_root` made or moved.
    notes : list of str
        What the user should know about their names.
    """

    def __init__(self, roots: Iterable[SourceRoot], has_sources: HasSources) -> None:
        self.new: list[SourceRoot] = []
        self.notes: list[str] = []
        self._has_sources = has_sources
        self._roots: dict[str, SourceRoot] = {}
        self._above: dict[str, SourceRoot] = {}  # the beginnings of names -> one of the roots
        self._places: dict[str, _Places] = {}
        self._by_place: dict[str, SourceRoot] = {}
        self._real = lru_cache(maxsize=1_000)(os.path.realpath)
        for root in roots:
            self._put(root)

    # Roots

    def take(self, path: Path) -> None:
        """Make sure that a path lies in a root: a stored one, one of an older version of the index, or its own.

        Parameters
        ----------
        path : Path
            A folder, or a file by itself.

        Raises
        ------
        InputError
            Its name is that of a folder that no longer exists, so that nobody can tell whether it is the same one.
        """
        if self._nearest(path) is None:
            self._add(self._adopted(path) or self._unnamed(path))

    def take_root(self, path: Path, name: str | None) -> None:
        """Make a path a root, under a name that is given, or else its own.

        Parameters
        ----------
        path : Path
            A folder, or a file by itself.
        name : str, optional
            Where it is the name of a root that no longer exists, the path takes its place.

        Raises
        ------
        InputError
            The name or the path belongs to another root.
        """
        found = self._nearest(path)
        if found is not None and found.steps == 0 and name in (None, found.root.name):
            return
        known = None if name is None else self._roots.get(name)
        if known is not None:
            _require_gone(known)
            self._add(_root(known.name, path, known.version))
            return
        if found is not None:
            where = found.root.path
            msg = (
                f"{path} lies in {where}, whose files are named {found.root.name}/...: leave out the root and the name"
            )
            if found.steps == 0:
                msg = f"{path} is named {found.root.name!r} in this index, and keeps that name: leave the name out"
            raise InputError(msg)
        self._add(self._unnamed(path) if name is None else self._named(path, name))

    def _put(self, root: SourceRoot) -> None:
        places = (root.path, os.path.realpath(root.path))
        self._roots[root.name], self._places[root.name] = root, places
        self._above.update((above, root) for above in _above(root.name))
        for place in places:
            self._by_place.setdefault(place, root)

    def _add(self, root: SourceRoot) -> None:
        for place in self._places.pop(root.name, ()):  # where it was before
            self._by_place.pop(place, None)
        self._put(root)
        self.new.append(root)

    def _adopted(self, path: Path) -> SourceRoot | None:
        """Return the root of chunks from before roots were stored: the path, or a folder above it."""
        whole, is_folder = _absolute(path), _is_folder(path)
        for folder in (whole, *whole.parents):
            name = _names(folder)[0]
            rest = whole.relative_to(folder).as_posix()
            source = name if rest == "." else f"{name}/{rest}"
            if self._overlapping(name) is None and self._has_sources(source, is_folder):
                return _root(name, folder)
        return None

    def _unnamed(self, path: Path) -> SourceRoot:
        """Return a root with the shortest name that is free."""
        first = None
        for name in _names(path):
            other = self._overlapping(name)
            if other is None:
                if first is not None:
                    self.notes.append(f"{path} is named {name!r}: {first.name!r} is {first.path}")
                return _root(name, path)
            if other.name == name and _is_gone(other):
                if not self._has_sources(name, other.is_folder):
                    return _root(name, path, other.version)
                raise InputError(_same_or_not(path, other))
            first = first or other
        msg = f"there is no name for {path} that another root does not have: give it a name"
        raise InputError(msg)

    def _named(self, path: Path, name: str) -> SourceRoot:
        other = self._overlapping(name)
        if other is not None:
            msg = f"the name {name!r} and {other.name!r}, which {other.path} has, begin alike: give another name"
            raise InputError(msg)
        return _root(name, path)

    def _overlapping(self, name: str) -> SourceRoot | None:
        """Return a root whose sources might have the names of others, if this name were given."""
        known = (self._roots.get(each) for each in (name, *_above(name)))
        return next((root for root in known if root is not None), self._above.get(name))

    # Names

    def source_of(self, path: Path) -> str:
        """Return the name of a file or folder.

        Parameters
        ----------
        path : Path
            It lies in a root.

        Returns
        -------
        str
            The root's name and the path below it.
        """
        found = self._nearest(path)
        return path.name if found is None else found.source

    def path_of(self, source: str) -> Path | None:
        """Return where a source is, or was.

        Parameters
        ----------
        source : str
            The name of a file.

        Returns
        -------
        Path or None
            None where no root has the name that it begins with.
        """
        name = next((each for each in (source, *_above(source)) if each in self._roots), None)
        return None if name is None else Path(self._roots[name].path, source[len(name) + 1 :])

    def root_of(self, path: Path) -> SourceRoot | None:
        """Return the deepest root that contains a file.

        Parameters
        ----------
        path : Path
            Any.

        Returns
        -------
        SourceRoot or None
            None where there is none.
        """
        found = self._nearest(path)
        return None if found is None else found.root

    def below(self, folder: Path) -> Iterator[tuple[str, bool]]:
        """Yield what the sources of all files below a folder begin with.

        Parameters
        ----------
        folder : Path
            It lies in a root.

        Yields
        ------
        tuple of str and bool
            The name of a folder, or of a file by itself, and whether it is a folder: the given one, and each root
            within.
        """
        yield self.source_of(folder), True
        within = tuple(os.path.join(place, "") for place in _folder_places(folder))  # noqa: PTH118
        for name, places in self._places.items():
            if any(place.startswith(within) for place in places):
                yield name, self._roots[name].is_folder

    def _nearest(self, path: Path) -> _Found | None:
        """Return the deepest root that contains a path, as it is named or where its links lead to."""
        places = _folder_places(path) if _is_folder(path) else self._file_places(path)
        found = [each for each in map(self._climb, places) if each is not None]
        return min(found, key=lambda each: each.steps, default=None)

    def _file_places(self, path: Path) -> _Places:
        """Return both places of a file; a link to a file has a name of its own."""
        folder, name = os.path.split(_absolute(path))
        return os.path.join(folder, name), os.path.join(self._real(folder), name)  # noqa: PTH118

    def _climb(self, place: str) -> _Found | None:
        at, steps = place, 0
        while at not in self._by_place:
            parent = os.path.dirname(at)  # noqa: PTH120
            if parent == at:
                return None
            at, steps = parent, steps + 1
        return _Found(steps, self._by_place[at], place[len(at) :].strip(os.sep).replace(os.sep, "/"))


def _absolute(path: Path) -> Path:
    """Resolve ``..``, but leave symbolic links their names."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  # False where that may not be asked; Path raises


def _is_gone(root: SourceRoot) -> bool:
    return not os.path.exists(root.path)  # noqa: PTH110  # likewise


def _folder_places(folder: Path) -> _Places:
    absolute = str(_absolute(folder))
    return absolute, os.path.realpath(absolute)


def _root(name: str, path: Path, replaces: str = "") -> SourceRoot:
    return SourceRoot(name, str(_absolute(path)), _is_folder(path), replaces)


def _names(path: Path) -> list[str]:
    """Return the names that a path might have, the shortest first; the root of a file system has none of its own."""
    absolute = _absolute(path)
    parts = absolute.parts[1:] or (absolute.drive.rstrip(":\\/") or "root",)
    return ["/".join(parts[at:]) for at in range(len(parts) - 1, -1, -1)]


def _above(name: str) -> list[str]:
    """Return what a name begins with: ``a`` and ``a/b`` of ``a/b/c``."""
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _require_gone(root: SourceRoot) -> None:
    if not _is_gone(root):
        msg = f"the name {root.name!r} is that of {root.path}, which still exists: give another name"
        raise InputError(msg)


def _same_or_not(path: Path, gone: SourceRoot) -> str:
    return (
        f"{path} would be named {gone.name!r}, but that is the name of {gone.path}, which no longer exists here: if it "
        f"was moved to {path}, give the name {gone.name!r} (--name {gone.name}); if not, give another name"
    )
