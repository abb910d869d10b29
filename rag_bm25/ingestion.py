"""From files and folders to chunks in an index, so that running it again brings the index up to date."""

from __future__ import annotations

import codecs
import errno
import os
import pickle
import re
import stat
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath
from random import Random
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, TypeAlias

from rag_bm25.chunks import AddReport, new_chunks
from rag_bm25.errors import InputError, MissingExtraError, ParameterError, StoreError
from rag_bm25.fields import check_field_values
from rag_bm25.jsonl import MAX_DOCUMENT_BYTES, join_title, not_utf8, read_json_lines, row_id, row_metadata, row_parts
from rag_bm25.source_names import SourceNames, check_root_name
from rag_bm25.terms import num_words

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator, Sequence

    from rag_bm25.chunks import Chunk, NewChunk
    from rag_bm25.config import IndexConfig
    from rag_bm25.index import BM25Index

__all__ = [
    "Found",
    "IngestReport",
    "Piece",
    "SourceFile",
    "Splitter",
    "find_files",
    "ingest",
    "read_file",
    "sample",
    "splitter",
]

SUFFIXES = (".txt", ".md", ".jsonl")
NAMING_ATTEMPTS = 10
HELD_CHUNKS = 1_000  # of a file that is being checked; the others wait on disk
SPOOLED_BYTES = 8 << 20  # from which on they do
DEFAULT_OVERLAP = 50
SEPARATORS = (
    r"\n\s*\n",  # paragraphs
    r"\n",
    r"[。！？…]+[”’」』）》]*|[.!?]+[\"')\]”’]*\s",  # sentences, with the quotes that close them
    r"；|;\s",
    r"[，、]|,\s",
    r"\s",
    "",
)

Splitter: TypeAlias = Callable[[str], "list[str]"]
"""Cuts a text into chunks."""
Progress: TypeAlias = Callable[[int, int], object]
_Placed: TypeAlias = "tuple[NewChunk, int]"  # a chunk, and its end in the file in bytes


@dataclass(frozen=True)
class SourceFile:
    """A file to be ingested.

    Parameters
    ----------
    path : Path
        Where it is.
    source : str
        How its chunks name it: relative to the parent of the folder that was given, or the file's name.
        :func:`ingest` names files by the roots that the index remembers.
    size : int
        In bytes.
    """

    path: Path
    source: str
    size: int


@dataclass(frozen=True)
class Found:
    """What the paths given to an ingestion hold.

    Parameters
    ----------
    files : list of SourceFile
        To be ingested, sorted within each folder.
    skipped : list of Path
        Files of other kinds.
    given : dict of Path to bool
        The folders and files that were given and can be ingested, and which of them are folders.
    unreadable : dict of Path to str
        Folders and files that could not be read, and files given by themselves that cannot be ingested, and why.
    root : Path or None
        The folder that contains them all, and that sources are to be named by.
    name : str or None
        What sources are to begin with.
    """

    files: list[SourceFile] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)
    given: dict[Path, bool] = field(default_factory=dict)
    unreadable: dict[Path, str] = field(default_factory=dict)
    root: Path | None = None
    name: str | None = None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def require_distinct(self) -> None:
        """Refuse two files that would have the same source, where no index tells their roots apart.

        Raises
        ------
        InputError
            There are such files.
        """
        paths: dict[str, Path] = {}
        for file in self.files:
            other = paths.setdefault(file.source, file.path)
            if other is not file.path:
                msg = (
                    f"{other} and {file.path} would both be {file.source!r}: give a folder that holds both, or each a "
                    "namespace of its own"
                )
                raise InputError(msg)


@dataclass(frozen=True)
class Piece:
    """A chunk on its way into the index.

    Parameters
    ----------
    id : str
        Id of the chunk.
    text : str
        Its text.
    metadata : dict
        ``source``, ``chunk`` and what a row brought along.
    where : str
        File, or file and line, for messages.
    end : int
        Position in the file up to which it takes the reading, in bytes.
    """

    id: str
    text: str
    metadata: dict[str, Any]
    where: str
    end: int


@dataclass(frozen=True)
class IngestReport:
    """What an ingestion did.

    Parameters
    ----------
    files : int
        Files ingested.
    chunks : int
        Their chunks.
    added, updated, unchanged : int
        Chunks that were not there before, that differed from what was stored, and that were stored as they are.
    stale : int
        Chunks of files that the given folders have no more.
    deleted : int
        Chunks that were deleted: those that the ingested files have no more, such as the end of a text that is shorter
        now, or a row that is gone; and where it was asked for, the stale ones.
    failed : dict of str to str
        Files and folders of which nothing was written, named as sources are, and why.
    notes : list of str
        Folders whose sources do not begin with the folder's own name, and why.
    """

    files: int
    chunks: int
    added: int
    updated: int
    unchanged: int
    stale: int
    deleted: int
    failed: dict[str, str]
    notes: list[str] = field(default_factory=list)


# Finding


def find_files(paths: Sequence[Path], *, root: Path | None = None, name: str | None = None) -> Found:
    """Find the files to ingest, folders recursively and without hidden files.

    Parameters
    ----------
    paths : sequence of Path
        Files and folders. A file that two of them name is taken once.
    root : Path, optional
        A folder that contains them all, which sources are named by and which the index remembers; by default each path
        for itself, unless it lies in a folder that the index remembers.
    name : str, optional
        What the sources below `root`, or below the one path given, begin with; by default the folder's name. The name
        of a folder that has moved tells that this is the same one.

    Returns
    -------
    Found
        The .txt, .md and .jsonl files, and what else was there.

    Raises
    ------
    FileNotFoundError
        A path does not exist.
    InputError
        A path is not within `root`.
    ParameterError
        `name` is not a name, or is given with several paths and no `root`.
    """
    if name is not None and root is None and len(paths) != 1:
        msg = f"name needs one path, or the root that contains them all, got {len(paths)} paths"
        raise ParameterError(msg)
    finder = _Finder(Found(root=root, name=None if name is None else check_root_name(name)))
    for path in paths:
        finder.take_path(path)
    return finder.found


class _Finder:
    """Collect files, each once."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self._taken: set[Path] = set()

    def take_path(self, path: Path) -> None:
        """Take a file, or all files below a folder."""
        root = self._root_of(path)
        if path.is_dir():
            self.found.given[path] = True
            self._take_folder(path, root)
        else:
            path.stat()
            self._take_single(path, root)

    def _root_of(self, path: Path) -> Path:
        """Return the folder that a path is named by."""
        root = self.found.root
        if root is None:
            return path
        if not root.is_dir():
            msg = f"the root must be a folder, got {root}"
            raise InputError(msg)
        if not _absolute(path).is_relative_to(_absolute(root)):
            msg = f"{path} is not within the root {root}"
            raise InputError(msg)
        return root

    def _take_folder(self, folder: Path, root: Path) -> None:
        """Walk in sorted order; symbolic links to folders are not followed, for they may go in circles."""

        def note(error: OSError) -> None:
            self.found.unreadable[Path(error.filename)] = _os_message(error)

        within = folder.resolve()
        for inner, folders, names in os.walk(folder, onerror=note):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                file = Path(inner, name)
                if not name.startswith(".") and not self._take_file(file, root, within):
                    self.found.skipped.append(file)

    def _take_single(self, file: Path, root: Path) -> None:
        """Take a file that was given by itself; who names a link means the file."""
        if self._take_file(file, root):
            self.found.given[file] = False
        else:
            kinds = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
            self.found.unreadable[file] = f"{file}: a file to ingest must be a regular one that ends in {kinds}"

    def _take_file(self, file: Path, root: Path, within: Path | None = None) -> bool:
        """Take a file if it can be ingested; a link must not lead out of the folder that somebody may have filled."""
        real = Path(os.path.realpath(file))  # of a link to itself, `resolve` makes an error
        if file.suffix.lower() not in SUFFIXES or not (within is None or real.is_relative_to(within)):
            return False
        try:
            size = _size(real)
        except OSError as error:
            self.found.unreadable[file] = _os_message(error)
            return True
        if size is not None and real not in self._taken:
            self._taken.add(real)
            self.found.files.append(SourceFile(file, self._source(file, root), size))
        return size is not None

    def _source(self, file: Path, root: Path) -> str:
        """Return the name of a file where no index knows better."""
        rest = _absolute(file).relative_to(_absolute(root))
        return str(PurePosixPath(self.found.name or _absolute(root).name, rest.as_posix()))


def _size(file: Path) -> int | None:
    """Return the size of a regular file, None for anything else, and where there is nothing."""
    try:
        status = file.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _absolute(path: Path) -> Path:
    """Resolve ``..``, but leave symbolic links their names."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _os_message(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}"


# Reading


def splitter(config: IndexConfig, chunk_overlap: int | None = None, split_size: int | None = None) -> Splitter:
    """Return what cuts texts into chunks for an index: at paragraphs, lines, sentences, clauses, words.

    Parameters
    ----------
    config : IndexConfig
        Its `length_unit` is what lengths are counted in.
    chunk_overlap : int, optional
        What neighbouring chunks share at most; by default a tenth of the greatest length, at most 50.
    split_size : int, optional
        The greatest length of a chunk, > 0; by default the config's `chunk_size`.

    Returns
    -------
    callable of str to list of str
        A text that is short enough comes back as it is.

    Raises
    ------
    ParameterError
        `chunk_overlap` is not below the greatest length.
    MissingExtraError
        langchain-text-splitters is not installed.
    """
    longest = max(1, int(config.chunk_size)) if split_size is None else split_size
    if longest < 1:
        msg = f"split_size must be > 0, got {longest}"
        raise ParameterError(msg)
    overlap = min(DEFAULT_OVERLAP, longest // 10) if chunk_overlap is None else chunk_overlap
    if not 0 <= overlap < longest:
        msg = f"chunk_overlap must be >= 0 and below the chunk size of {longest}, got {overlap}"
        raise ParameterError(msg)
    length = _length_function(config)
    recursive = _text_splitter()(
        separators=list(SEPARATORS),
        is_separator_regex=True,
        keep_separator="end",
        chunk_size=longest,
        chunk_overlap=overlap,
        length_function=length,
    )
    return lambda text: [text] if length(text) <= longest else recursive.split_text(text)


def read_file(file: SourceFile, split: Splitter, fields: Collection[str] = ()) -> Iterator[Piece]:
    """Cut a file into chunks.

    Parameters
    ----------
    file : SourceFile
        A text, or one JSON object a line with ``_id`` or ``id``, ``text``, and maybe ``title`` and ``metadata``; what
        else it has is metadata, too.
    split : callable of str to list of str
        As made by :func:`splitter`.
    fields : collection of str
        The fields of the index. With ``title`` among them, the title of a row is in the metadata of all its chunks
        only; else the text begins with it as well.

    Returns
    -------
    iterator of Piece
        The n-th chunk of a text has the id ``source#n``. A row that needs no splitting keeps its id, the chunks of
        another one are ``id#n``.

    Raises
    ------
    InputError
        The file is not UTF-8, or a row breaks a rule.
    OSError
        The file cannot be read.
    """
    is_rows = file.path.suffix.lower() == ".jsonl"
    return _row_pieces(file, split, fields) if is_rows else _text_pieces(file, split)


def sample(files: Sequence[SourceFile], split: Splitter, size: int, *, seed: int = 0) -> Iterator[Piece]:
    """Yield some chunks of files, to see what an ingestion would make of them.

    Parameters
    ----------
    files : sequence of SourceFile
        As found by :func:`find_files`; they are read in random order, and files that cannot be read are left out.
    split : callable of str to list of str
        As made by :func:`splitter`.
    size : int
        How many chunks at most.
    seed : int
        Of the order.

    Yields
    ------
    Piece
        Whole files but for the last one.
    """
    shuffled = list(files)
    Random(seed).shuffle(shuffled)  # noqa: S311  # no secret
    yield from islice((piece for file in shuffled for piece in _readable(file, split)), size)


def _readable(file: SourceFile, split: Splitter) -> Iterator[Piece]:
    """Yield the pieces of a file up to where it cannot be read."""
    with suppress(InputError, OSError):
        yield from read_file(file, split)


def _text_pieces(file: SourceFile, split: Splitter) -> Iterator[Piece]:
    texts = [text for text in split(_text_of(file.path).strip()) if text.strip()]
    for n, text in enumerate(texts):
        metadata = {"source": file.source, "chunk": n}
        yield Piece(f"{file.source}#{n}", text, metadata, str(file.path), file.size * (n + 1) // len(texts))


def _row_pieces(file: SourceFile, split: Splitter, fields: Collection[str]) -> Iterator[Piece]:
    for line in read_json_lines(file.path):
        id_, (title, text) = row_id(line), row_parts(line)
        own = row_metadata(line)
        is_field = "title" in fields and own.get("title") == title  # the metadata may have another title
        texts = split(text if is_field else join_title(title, text))
        for n, part in enumerate(texts):
            piece_id = id_ if len(texts) == 1 else f"{id_}#{n}"
            yield Piece(piece_id, part, {**_place(file.source, n, own), **own}, line.where, line.end)


def _place(source: str, number: int, own: dict[str, Any]) -> dict[str, Any]:
    """Say which file a chunk is from; a row that names another file must not pass for a chunk of that."""
    return {"source": source} if own.get("source", source) != source else {"source": source, "chunk": number}


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        msg = f"{path}: a document must have at most {MAX_DOCUMENT_BYTES:,} bytes"
        raise InputError(msg)
    skipped = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    try:
        return data[skipped:].decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        msg = not_utf8(str(path), skipped + error.start)
        raise InputError(msg) from None


def _length_function(config: IndexConfig) -> Callable[[str], int]:
    if config.length_unit == "characters":
        return len
    analyzer = config.build_analyzer()
    return lambda text: num_words(analyzer(text))


def _text_splitter() -> Callable[..., Any]:
    try:
        from langchain_text_splitters import RecursiveCharacterTextSplitter
    except ImportError as error:
        msg = f'splitting texts needs langchain-text-splitters: pip install "rag-bm25[cli]" ({error})'
        raise MissingExtraError(msg) from error
    return RecursiveCharacterTextSplitter


# Writing


def ingest(
    index: BM25Index,
    found: Found,
    *,
    chunk_overlap: int | None = None,
    split_size: int | None = None,
    namespace: str = "",
    prune: bool = False,
    progress: Progress = lambda _size, _chunks: None,
    workers: int = 0,
) -> IngestReport:
    """Bring an index up to date with files.

    Each file is read once, and checked as a whole before its first chunk is written; files that fail are left out, with
    what the index has of them. Memory does not grow with the files, but for the ids: the chunks of a large file wait in
    a temporary one until its end has been checked.

    The index remembers the folders, and the files by themselves, that it was given. Whatever path leads to a file, its
    source is the name of the deepest of these that contains it, and the path below: ``docs/guide.md``. Another folder
    of the same name gets a longer one, such as ``team/docs``.

    Parameters
    ----------
    index : BM25Index
        Open for writing.
    found : Found
        As returned by :func:`find_files`.
    chunk_overlap, split_size : int, optional
        As for :func:`splitter`.
    namespace : str
        Where the chunks belong.
    prune : bool
        Delete the chunks of files that the given folders once had, and have no more. What is gone from files that
        were read is deleted in any case.
    progress : callable of (int, int)
        Called after every batch with the bytes read and the chunks written so far.
    workers : int
        Processes that analyse chunks while others are written, as for :meth:`BM25Index.add`.

    Returns
    -------
    IngestReport
        What was done.

    Raises
    ------
    InputError
        A folder has the name of one that no longer exists: its `name`, as given to :func:`find_files`, tells whether it
        is the same one.
    """
    split = splitter(index.config, chunk_overlap, split_size)
    before = index.stats(namespace=namespace).num_chunks
    names = _named(index, found, namespace, is_empty=not before)
    run = _Run(split, index.config.fields)
    files = [replace(file, source=names.source_of(file.path)) for file in found.files]

    def tell(report: AddReport) -> None:
        progress(run.bytes_until(report.total), report.total)

    written = index.add_stream(run.chunks(files), namespace=namespace, workers=workers, progress=tell)
    progress(found.size, written.total)
    gone = _Gone.find(index, _Scope.of(found, files, names), namespace, run) if before else _Gone()
    unwanted = [*gone.removed, *(gone.stale if prune else ())]
    deleted = index.delete(unwanted, namespace=namespace) if unwanted else 0
    unreadable = {names.source_of(path): reason for path, reason in found.unreadable.items()}
    counts = (written.total, written.added, written.updated, written.unchanged, len(gone.stale), deleted)
    return IngestReport(len(run.read), *counts, {**unreadable, **run.failed}, names.notes)


def _named(index: BM25Index, found: Found, namespace: str, *, is_empty: bool) -> SourceNames:
    """Return the names of the files, after the index has stored the roots that they begin with."""

    def has_sources(name: str, is_folder: bool) -> bool:
        return not is_empty and _has_sources(index, namespace, name, is_folder=is_folder)

    for _ in range(NAMING_ATTEMPTS):
        names = SourceNames(index.source_roots(namespace=namespace), has_sources)
        _take(names, found)
        used = {names.root_of(file.path) for file in found.files} if names.new else set()
        new = [root for root in names.new if root in used]
        if not new:
            return names
        counting = {(root.name, root.path) for root in index.remember_source_roots(new, namespace=namespace)}
        if all((root.name, root.path) in counting for root in new):
            return names
    msg = f"other processes gave names to folders {NAMING_ATTEMPTS} times meanwhile: try again"
    raise StoreError(msg)


def _take(names: SourceNames, found: Found) -> None:
    """Find or make the roots of what was given."""
    if found.root is not None:
        names.take_root(found.root, found.name)
    elif found.name is not None and found.given:
        names.take_root(next(iter(found.given)), found.name)
    else:
        for path in found.given:
            names.take(path)


def _has_sources(index: BM25Index, namespace: str, name: str, *, is_folder: bool) -> bool:
    """Tell whether chunks of a file, or of files below a folder, are stored."""
    scope = _Scope([f"{name}/"], []) if is_folder else _Scope([], [name])
    with closing(_tracked(index, scope, namespace)) as chunks:
        return next(chunks, None) is not None


class _Run:
    """The reading side of one ingestion: what was seen, and what failed."""

    def __init__(self, split: Splitter, fields: Iterable[str]) -> None:
        self.split = split
        self.fields = list(fields)
        self.read: set[str] = set()  # sources
        self.sources: dict[str, str] = {}  # chunk id -> the source that has it
        self.failed: dict[str, str] = {}
        self._ends: deque[int] = deque()  # bytes up to the end of each chunk that was read and not written yet
        self._written = 0

    def chunks(self, files: Iterable[SourceFile]) -> Iterator[NewChunk]:
        """Yield the chunks of every sound file."""
        finished = 0
        for file in files:
            for chunk, end in self._if_sound(file):
                self._ends.append(finished + end)
                yield chunk
            finished += file.size

    def bytes_until(self, written: int) -> int:
        """Return how many bytes it took to read the chunks that are written by now."""
        end = 0
        while self._written < written:
            end = self._ends.popleft()
            self._written += 1
        return end

    def _if_sound(self, file: SourceFile) -> Iterator[_Placed]:
        """Read a file to its end, then yield its chunks if each of them can be written."""
        ids: set[str] = set()
        chunks = self._checked(file, ids)
        first = list(islice(chunks, HELD_CHUNKS))
        with SpooledTemporaryFile(SPOOLED_BYTES) as spool:
            for chunk in chunks:
                pickle.dump(chunk, spool)
            if file.source in self.failed:
                return
            self.read.add(file.source)
            self.sources.update(dict.fromkeys(ids, file.source))
            yield from first
            spool.seek(0)
            for _ in range(len(ids) - len(first)):
                yield pickle.load(spool)  # noqa: S301  # written above

    def _checked(self, file: SourceFile, ids: set[str]) -> Iterator[_Placed]:
        """Yield the chunks of a file, and collect their ids, up to where it fails."""
        try:
            for piece in read_file(file, self.split, self.fields):
                chunk = self._new_chunk(piece, file.source if piece.id in ids else self.sources.get(piece.id))
                ids.add(piece.id)
                yield chunk, piece.end
        except InputError as error:
            self.failed[file.source] = str(error)
        except OSError as error:
            self.failed[file.source] = _os_message(error)

    def _new_chunk(self, piece: Piece, other: str | None) -> NewChunk:
        """Check a piece, whose id may have been given before."""
        if other is not None:
            msg = f"{piece.where}: the id {piece.id!r} was given before, in {other}"
            raise InputError(msg)
        try:
            (chunk,) = new_chunks([piece.text], [piece.id], [piece.metadata])
            check_field_values([chunk.metadata], self.fields)
        except InputError as error:
            msg = f"{piece.where}: {error}"
            raise InputError(msg) from None
        return chunk


@dataclass(frozen=True)
class _Scope:
    """The sources that an ingestion answers for: those below folders, and files by themselves."""

    folders: list[str]  # each ends with a slash
    files: list[str]
    unreadable: list[str] = field(default_factory=list)  # files, and folders, of which nobody knows what they hold
    is_passed_over: Callable[[str], bool] = lambda _source: False  # of a file that is there, and is not looked for

    @classmethod
    def of(cls, found: Found, files: Sequence[SourceFile], names: SourceNames) -> _Scope:
        given = [each for path, is_folder in found.given.items() if is_folder for each in names.below(path)]
        folders = sorted({f"{name}/" for name, is_folder in given if is_folder})
        outer = [each for each in folders if not each.startswith(tuple(other for other in folders if other != each))]
        singles = {name for name, is_folder in given if not is_folder} | {file.source for file in files}
        unreadable = [name for path in found.unreadable for name, _ in names.below(path)]

        @lru_cache(maxsize=1_000)
        def is_passed_over(source: str) -> bool:
            file = names.path_of(source)
            return file is not None and names.source_of(file) == source and _is_passed_over(file, found)

        inner = sorted(name for name in singles if not name.startswith(tuple(outer)))
        return cls(outer, inner, unreadable, is_passed_over)

    def is_gone(self, source: str) -> bool:
        """Tell whether a file that was not found is not there."""
        within = tuple(f"{name}/" for name in self.unreadable)
        return not (source in self.unreadable or source.startswith(within) or self.is_passed_over(source))


def _is_passed_over(file: Path, found: Found) -> bool:
    """Tell whether a file is there that was not looked for: it is hidden, or only links lead there from the folders."""
    place = Path(os.path.realpath(file.parent), file.name)
    tops = [Path(os.path.realpath(path)) for path, is_folder in found.given.items() if is_folder]
    return os.path.isfile(file) and not any(_is_looked_for(place, top) for top in tops)  # noqa: PTH113


def _is_looked_for(place: Path, top: Path) -> bool:
    """Tell whether the walk through a folder takes a file, both being where links lead to."""
    if not place.is_relative_to(top) or not Path(os.path.realpath(place)).is_relative_to(top):
        return False
    return not any(part.startswith(".") for part in place.relative_to(top).parts)


@dataclass(frozen=True)
class _Gone:
    """The ids of stored chunks that the files have no more."""

    removed: list[str] = field(default_factory=list)  # of files that were read
    stale: list[str] = field(default_factory=list)  # of files that are not there any more

    @classmethod
    def find(cls, index: BM25Index, scope: _Scope, namespace: str, run: _Run) -> _Gone:
        """Compare what is stored with what was read; what failed is left alone."""
        gone = cls()
        for chunk in _tracked(index, scope, namespace):
            source = chunk.metadata["source"]
            if chunk.id in run.sources or source in run.failed:
                continue
            if source in run.read:
                gone.removed.append(chunk.id)
            elif scope.is_gone(source):
                gone.stale.append(chunk.id)
        return gone


def _tracked(index: BM25Index, scope: _Scope, namespace: str) -> Generator[Chunk, None, None]:
    """Yield the stored chunks that came from the files of a scope."""
    for prefix in scope.folders:
        pattern = re.sub(r"[_\\]", "%", prefix) + "%"  # takes in more: engines agree on % alone
        below = index.chunks(filter={"source": {"$like": pattern}}, namespace=namespace)
        yield from (chunk for chunk in below if chunk.metadata["source"].startswith(prefix) and _is_ours(chunk))
    for start in range(0, len(scope.files), 100):
        some = {"source": {"$in": scope.files[start : start + 100]}}
        yield from filter(_is_ours, index.chunks(filter=some, namespace=namespace))


def _is_ours(chunk: Chunk) -> bool:
    """Tell chunks whose source is the file they came from; rows may bring a source of their own."""
    source, number = chunk.metadata["source"], chunk.metadata.get("chunk")
    if type(number) is not int:
        return False
    is_row = source.lower().endswith(".jsonl") and (number == 0 or chunk.id.endswith(f"#{number}"))
    return is_row or chunk.id == f"{source}#{number}"
