"""From files and folders to chunks in an index, so that running it again brings the index up to date."""

from __future__ import annotations

import codecs
import os
import pickle
import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from random import Random
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, TypeAlias

from rag_bm25.chunks import AddReport, new_chunks
from rag_bm25.errors import InputError, MissingExtraError, ParameterError
from rag_bm25.fields import check_field_values
from rag_bm25.jsonl import MAX_DOCUMENT_BYTES, join_title, read_json_lines, row_id, row_parts
from rag_bm25.terms import num_words

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Sequence

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
    folders : list of str
        Prefixes of the sources below the folders that were given, such as ``docs/``.
    unreadable : dict of str to str
        Folders that could not be listed, named as sources are, and why.
    """

    files: list[SourceFile] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


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
        Chunks found in the index that the given paths do not have any more.
    deleted : int
        How many of these were deleted.
    failed : dict of str to str
        Files and folders of which nothing was written, named as sources are, and why.
    """

    files: int
    chunks: int
    added: int
    updated: int
    unchanged: int
    stale: int
    deleted: int
    failed: dict[str, str]


# Finding


def find_files(paths: Sequence[Path]) -> Found:
    """Find the files to ingest, folders recursively and without hidden files.

    Parameters
    ----------
    paths : sequence of Path
        Files and folders. A file that two of them name is taken once.

    Returns
    -------
    Found
        The .txt, .md and .jsonl files, and what else was there.

    Raises
    ------
    FileNotFoundError
        A path does not exist.
    InputError
        Two files would have the same source.
    """
    finder = _Finder()
    for path in paths:
        finder.take_path(path)
    return finder.found


class _Finder:
    """Collect files, each once, under sources that differ."""

    def __init__(self) -> None:
        self.found = Found()
        self._taken: set[Path] = set()
        self._sources: dict[str, Path] = {}

    def take_path(self, path: Path) -> None:
        """Take a file, or all files below a folder."""
        parent = _absolute(path).parent
        if path.is_dir():
            self.found.folders.append(f"{_source(path, parent)}/".removeprefix("./"))
            self._take_folder(path, parent)
        else:
            path.stat()
            self._take_file(path, parent)

    def _take_folder(self, folder: Path, parent: Path) -> None:
        """Walk in sorted order; symbolic links to folders are not followed, for they may go in circles."""

        def note(error: OSError) -> None:
            self.found.unreadable[_source(Path(error.filename), parent)] = _os_message(error)

        root = folder.resolve()
        for inner, folders, names in os.walk(folder, onerror=note):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if not name.startswith("."):
                    self._take_file(Path(inner, name), parent, root)

    def _take_file(self, file: Path, parent: Path, folder: Path | None = None) -> None:
        """Take a file; one of a folder must lie in it, for a link there may lead to what nobody meant to publish."""
        real = file.resolve()
        inside = folder is None or real.is_relative_to(folder)
        if file.suffix.lower() not in SUFFIXES or not inside or not real.is_file():
            self.found.skipped.append(file)
        elif real not in self._taken:
            self._taken.add(real)
            source = _source(file, parent)
            self._require_new(source, file)
            self.found.files.append(SourceFile(file, source, real.stat().st_size))

    def _require_new(self, source: str, file: Path) -> None:
        other = self._sources.setdefault(source, file)
        if other is not file:
            msg = (
                f"{other} and {file} would both be {source!r}: ingest a folder that holds both, or each with a "
                "namespace of its own"
            )
            raise InputError(msg)


def _source(path: Path, parent: Path) -> str:
    return _absolute(path).relative_to(parent).as_posix()


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
        A text, or one JSON object a line with ``_id`` or ``id``, ``text``, and maybe ``title`` and ``metadata``.
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
        own = _row_metadata(line.row, line.where)
        is_field = "title" in fields and own.get("title") == title  # the metadata may have another title
        texts = split(text if is_field else join_title(title, text))
        for n, part in enumerate(texts):
            piece_id = id_ if len(texts) == 1 else f"{id_}#{n}"
            yield Piece(piece_id, part, {"source": file.source, "chunk": n, **own}, line.where, line.end)


def _row_metadata(row: dict[str, Any], where: str) -> dict[str, Any]:
    """Return title and metadata of a row; its own ``source`` goes before the file's name."""
    metadata = row.get("metadata") or {}
    if not isinstance(metadata, dict):
        msg = f'{where}: "metadata" must be a JSON object, got {type(metadata).__name__}'
        raise InputError(msg)
    return {"title": row["title"], **metadata} if row.get("title") else metadata


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
        msg = f"{path}: not UTF-8 at byte {skipped + error.start} of the file"
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
        Delete the chunks that the given paths once had, and have no more.
    progress : callable of (int, int)
        Called after every batch with the bytes read and the chunks written so far.
    workers : int
        Processes that analyse chunks while others are written, as for :meth:`BM25Index.add`.

    Returns
    -------
    IngestReport
        What was done.
    """
    run = _Run(splitter(index.config, chunk_overlap, split_size), index.config.fields)
    before = index.stats(namespace=namespace).num_chunks

    def tell(report: AddReport) -> None:
        progress(run.bytes_until(report.total), report.total)

    written = index.add_stream(run.chunks(found.files), namespace=namespace, workers=workers, progress=tell)
    progress(found.size, written.total)
    stale = _stale(index, found, namespace, run) if before else []
    deleted = index.delete(stale, namespace=namespace) if prune else 0
    failed = {**found.unreadable, **run.failed}
    return IngestReport(
        run.files, written.total, written.added, written.updated, written.unchanged, len(stale), deleted, failed
    )


class _Run:
    """The reading side of one ingestion: what was seen, and what failed."""

    def __init__(self, split: Splitter, fields: Iterable[str]) -> None:
        self.split = split
        self.fields = list(fields)
        self.files = 0
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
            self.files += 1
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


def _stale(index: BM25Index, found: Found, namespace: str, run: _Run) -> list[str]:
    """Return the ids of stored chunks that the given paths have no more; what failed is left alone."""
    failed = {**found.unreadable, **run.failed}
    return [
        chunk.id
        for chunk in _tracked(index, found, namespace)
        if chunk.id not in run.sources and not _is_below(chunk.metadata["source"], failed)
    ]


def _is_below(source: str, names: Container[str]) -> bool:
    path = PurePosixPath(source)
    return any(str(part) in names for part in (path, *path.parents))


def _tracked(index: BM25Index, found: Found, namespace: str) -> Iterator[Chunk]:
    """Yield the stored chunks that came from below the given paths."""
    for prefix in found.folders:
        pattern = re.sub(r"[_\\]", "%", prefix) + "%"  # takes in more: engines agree on % alone
        below = index.chunks(filter={"source": {"$like": pattern}}, namespace=namespace)
        yield from (chunk for chunk in below if chunk.metadata["source"].startswith(prefix) and _is_ours(chunk))
    single = [file.source for file in found.files if not file.source.startswith(tuple(found.folders))]
    for start in range(0, len(single), 100):
        some = {"source": {"$in": single[start : start + 100]}}
        yield from filter(_is_ours, index.chunks(filter=some, namespace=namespace))


def _is_ours(chunk: Chunk) -> bool:
    """Tell chunks whose source is the file they came from; rows may bring a source of their own."""
    source = chunk.metadata["source"]
    return source.lower().endswith(".jsonl") or chunk.id == f"{source}#{chunk.metadata.get('chunk')}"
