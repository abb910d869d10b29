"""Read source files and split them into pieces."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable  # noqa: TC003 - the definitions of options
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from rag_bm25.checks import check_path, find_bad_character
from rag_bm25.definitions import FINITE, Between, check_fields
from rag_bm25.errors import InputError, short_repr
from rag_bm25.ingestion.contextualizing import NO_CONTEXT, Contextualizer
from rag_bm25.ingestion.documents import Document, Piece
from rag_bm25.ingestion.encodings import check_encoding, decode
from rag_bm25.ingestion.files import real_path_of
from rag_bm25.ingestion.formats import FORMATS
from rag_bm25.ingestion.formats.extraction import DEFAULT_TIMEOUT, EXTRACTOR
from rag_bm25.ingestion.jsonl import is_array, read_json_array, read_json_lines
from rag_bm25.ingestion.markup import MARKUP, read_markdown, read_plain
from rag_bm25.ingestion.opening import open_regular, real_path
from rag_bm25.ingestion.rows import (
    MAX_DOCUMENT_BYTES,
    ROW_SUFFIXES,
    RowFields,
    join_title,
    raise_error,
    row_id,
    row_metadata,
    row_parts,
)
from rag_bm25.ingestion.splitting import MAX_TITLE as MAX_STORED_TITLE
from rag_bm25.ingestion.tables import read_csv, read_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from rag_bm25.ingestion.files import SourceFile
    from rag_bm25.ingestion.rows import Reject, Row
    from rag_bm25.ingestion.splitting import Part, Splitter


@dataclass(frozen=True)
class ReadOptions:
    """How files are read.

    Parameters
    ----------
    encoding : str, optional
        Encoding of texts, such as ``gb18030``; a byte order mark overrides it. By default UTF-8, or what is detected.
    fields : RowFields
        The names of the fields of rows.
    timeout : float
        Seconds for extracting the text of one document, > 0.
    id_prefix : str
        Text before the id of each row; ``{source}`` in it is the source of the file, so that ``{source}#`` tells the
        rows of several files apart.
    hidden : bool
        Whether what is hidden is read, too: sheets, rows, columns, slides, texts and comments.
    repeated : bool
        Whether what repeats is kept: running heads and feet, numbers of pages and lines, contents, and what web pages
        have beside their text.
    read : callable of Path to str or None, optional
        A reader of one's own: returns the text of a document as Markdown, or None to have it read as it is by default.
        If it raises an exception, the file has failed.

    Raises
    ------
    ParameterError
        A value is out of its range.
    """

    encoding: str | None = None
    fields: RowFields = field(default_factory=RowFields)
    timeout: Annotated[float, Between(0, FINITE.high, above=True)] = DEFAULT_TIMEOUT
    id_prefix: str = ""
    hidden: bool = False
    repeated: bool = False
    read: Callable[[Path], str | None] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.encoding is not None:
            check_encoding(self.encoding)


DEFAULT_OPTIONS = ReadOptions()


class FileOptions(NamedTuple):
    """How a file is cut and read."""

    split: Splitter
    reading: ReadOptions
    contextualize: Contextualizer
    shape: str | None  # all that shapes its chunks, None if that cannot be known


def read_file(
    file: SourceFile,
    split: Splitter,
    options: ReadOptions = DEFAULT_OPTIONS,
    *,
    contextualize: Contextualizer = NO_CONTEXT,
    reject: Reject = raise_error,
) -> Iterator[Piece]:
    """Read a file and split it into chunks.

    Parameters
    ----------
    file : SourceFile
        A document; or rows of JSON lines, CSV or Parquet with ``_id`` or ``id``, ``text``, and optionally ``title`` and
        ``metadata``. All other keys are metadata, too. The text that is split begins with the title.
    split : Splitter
        As returned by :func:`splitter`.
    options : ReadOptions
        Encoding, names of fields, and bounds.
    contextualize : Contextualizer
        What gives the chunks their contexts; by default they have none.
    reject : callable of InputError to None, optional
        Called for each row that is wrong; by default its error is raised.

    Returns
    -------
    iterator of Piece
        The chunks. The n-th chunk of a document has the id ``source#n``. A row that is not split keeps its id; the
        chunks of a split row have the ids ``id#n``. The n-th row of a table without ids has the id ``source#n``.

    Raises
    ------
    InputError
        The file cannot be decoded or parsed, its name is not UTF-8, or a row is invalid.
    MissingExtraError
        The format needs a package that is not installed.
    OSError
        The file cannot be read.
    """
    if find_bad_character(file.source) is not None:
        raise InputError(f"{file.path}: its name, or that of a folder, is not UTF-8, and no id can be made of it")
    if holds_rows(file):
        return _row_pieces(file, split, options, contextualize, reject)
    return _document_pieces(file, split, options, contextualize)


def holds_rows(file: SourceFile) -> bool:
    """Return whether a file is read as rows, and not as a document."""
    suffix = file.path.suffix.lower()
    if suffix != ".json":
        return suffix in ROW_SUFFIXES
    with open_regular(file.path, real_path_of(file)) as stream:
        return is_array(stream)


def read_document(path: str | Path, options: ReadOptions = DEFAULT_OPTIONS) -> Document:
    """Extract the text of a document, with its headings and pages.

    Parameters
    ----------
    path : str or Path
        A file of any kind that is not rows; an unknown kind is read as plain text.
    options : ReadOptions
        Encoding and bounds.

    Returns
    -------
    Document
        The text that the positions of its chunks refer to.

    Raises
    ------
    InputError
        The file cannot be decoded or parsed.
    MissingExtraError
        The format needs a package that is not installed.
    OSError
        The file cannot be read.
    """
    checked = check_path("path", path)
    return _read_document(checked, real_path(checked), options)


def _read_document(path: Path, real: Path, options: ReadOptions) -> Document:
    own = None if options.read is None else _read_own(path, options.read)
    if own is not None:
        return own
    suffix = path.suffix.lower()
    if suffix in FORMATS:
        own_options = {"encoding": options.encoding, "hidden": options.hidden, "repeated": options.repeated}
        return EXTRACTOR.extract(path, real, options.timeout, own_options)
    with open_regular(path, real) as file:
        text, encoding = _read_text(file, options.encoding)
    try:
        found = MARKUP.get(suffix, read_plain)(text, hidden=options.hidden)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return replace(found, encoding=encoding)


def _read_own(path: Path, read: Callable[[Path], str | None]) -> Document | None:
    """Read a document with a reader of the caller's; whatever that raises is about this file alone."""
    try:
        text = read(path)
    except Exception as error:  # whatever their parsers raise
        msg = f"{path}: the reader that was given has failed: {type(error).__name__}: {error}"
        raise InputError(msg) from error
    if text is not None and not isinstance(text, str):
        raise InputError(f"{path}: the reader that was given must return a str or None, got {short_repr(text)}")
    return None if text is None else read_markdown(text)


def sample(
    files: Sequence[SourceFile], split: Splitter, size: int, *, seed: int = 0, options: ReadOptions = DEFAULT_OPTIONS
) -> Iterator[Piece]:
    """Sample chunks of files in random order, to preview an ingestion; only the last file may be cut short.

    Parameters
    ----------
    files : sequence of SourceFile
        As found by :func:`find_files`; unreadable files are skipped.
    split
        As for :func:`read_file`.
    size, seed : int
        Maximum number of chunks, and seed of the order.
    options : ReadOptions
        As for :func:`read_file`.
    """
    shuffled = list(files)
    Random(seed).shuffle(shuffled)  # noqa: S311
    yield from islice((piece for file in shuffled for piece in read_leniently(file, split, options)), size)


def read_leniently(file: SourceFile, split: Splitter, options: ReadOptions) -> Iterator[Piece]:
    """Yield the pieces of a file up to its first error."""
    with suppress(InputError, OSError):
        yield from read_file(file, split, options, reject=lambda _error: None)


# Documents


def _document_pieces(
    file: SourceFile, split: Splitter, options: ReadOptions, contextualize: Contextualizer
) -> Iterator[Piece]:
    document = _read_document(file.path, real_path_of(file), options)
    yield from contextualize(document.text, _pieces_of_document(document, file, split))


def _pieces_of_document(document: Document, file: SourceFile, split: Splitter) -> Iterator[Piece]:
    parts = split.split(document.text, document.headings)
    title = document.title[:MAX_STORED_TITLE] or PurePosixPath(file.source).stem
    for n, part in enumerate(parts):
        metadata = {**document.metadata, "source": file.source, "chunk": n, **_place(document, part, title)}
        end = file.size * (n + 1) // len(parts)
        yield Piece(f"{file.source}#{n}", part.text_of(document.text), metadata, str(file.path), end, document)


def _place(document: Document, part: Part, title: str) -> dict[str, Any]:
    place: dict[str, Any] = {"start_index": part.start, "end_index": part.end, "title": title}
    if part.headings:
        place["headings"] = list(part.headings)
    if document.pages:
        place["page"] = max(1, bisect_right(document.pages, part.start))
    return place


def _read_text(file: BinaryIO, encoding: str | None) -> tuple[str, str]:
    data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InputError(f"{file.name}: a document must have at most {MAX_DOCUMENT_BYTES:,} bytes")
    text, used = decode(data, file.name, encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n"), used


# Rows


def _row_pieces(
    file: SourceFile, split: Splitter, options: ReadOptions, contextualize: Contextualizer, reject: Reject
) -> Iterator[Piece]:
    with open_regular(file.path, real_path_of(file)) as stream:
        for row in _read_rows(stream, file, options, reject):
            yield from _valid_pieces(row, file.source, split, options, contextualize, reject)


def _valid_pieces(
    row: Row, source: str, split: Splitter, options: ReadOptions, contextualize: Contextualizer, reject: Reject
) -> list[Piece]:
    try:
        return _pieces_of_row(row, source, split, options, contextualize)
    except InputError as error:
        reject(error)
        return []


def _read_rows(stream: BinaryIO, file: SourceFile, options: ReadOptions, reject: Reject) -> Iterator[Row]:
    suffix = file.path.suffix.lower()
    if suffix == ".parquet":
        return read_parquet(stream, file.source, options.fields.text, file.size)
    if suffix in (".csv", ".tsv"):
        return read_csv(stream, file.source, options.fields.text, options.encoding, reject)
    if suffix == ".json":
        return read_json_array(stream, file.source, options.fields.text, options.encoding, reject)
    return read_json_lines(stream, options.encoding, reject)


def _pieces_of_row(
    row: Row, source: str, split: Splitter, options: ReadOptions, contextualize: Contextualizer
) -> list[Piece]:
    names = options.fields
    id_, (title, text) = row_id(row, names, options.id_prefix.replace("{source}", source)), row_parts(row, names)
    own = row_metadata(row, names)
    whole = join_title(title, text)  # also where the title is a field: hits, rerankers and models read the text
    if fault := find_bad_character(whole):  # which is no word, so that a chunk of it alone would be left out
        raise InputError(f"{row.where}: text (id {id_!r}) has {fault}")
    pieces = (
        Piece(piece_id, part, {**_row_place(source, place, own), **own}, row.where, row.end)
        for piece_id, part, place in _cut_row(id_, whole, split)
    )
    return list(contextualize(whole, pieces))


def _cut_row(id_: str, whole: str, split: Splitter) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Yield the id, the text and the place of each chunk of a row."""
    parts = split.split(whole) if split.length(whole) > split.longest else []
    if not parts:  # it is short, or has no word to be cut by
        yield id_, whole, {"chunk": 0}
        return
    for n, part in enumerate(parts):
        place = {"chunk": n, "start_index": part.start, "end_index": part.end}
        yield (id_ if len(parts) == 1 else f"{id_}#{n}"), part.text_of(whole), place


def _row_place(source: str, place: dict[str, int], own: dict[str, Any]) -> dict[str, Any]:
    """Return source and place; a row with a source of its own gets no place, lest it pass for its chunk."""
    return {"source": source} if own.get("source", source) != source else {"source": source, **place}
