"""Read source files and split them into pieces."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from rag_bm25.checks import require_extra
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.ingestion.jsonl import (
    MAX_DOCUMENT_BYTES,
    decode_utf8,
    join_title,
    read_json_lines,
    row_id,
    row_metadata,
    row_parts,
)
from rag_bm25.ingestion.places import find_places
from rag_bm25.vectors.terms import num_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from rag_bm25.index.config import IndexConfig
    from rag_bm25.ingestion.files import SourceFile

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
"""Function that splits a text into chunks."""


@dataclass(frozen=True)
class Piece:
    """A chunk read from a file.

    Parameters
    ----------
    id, text : str
        Id and text of the chunk.
    metadata : dict
        ``source``, ``chunk``, ``start_index``, and the metadata of its row.
    where : str
        File, or file and line, for messages.
    end : int
        End of the chunk in the file, in bytes.
    """

    id: str
    text: str
    metadata: dict[str, Any]
    where: str
    end: int


def splitter(config: IndexConfig, chunk_overlap: int | None = None, split_size: int | None = None) -> Splitter:
    """Return a text splitter for an index: it splits at paragraphs, lines, sentences, clauses, words.

    Parameters
    ----------
    config : IndexConfig
        Config of the index; lengths are in its `length_unit`.
    chunk_overlap : int, optional
        Maximum overlap of consecutive chunks; by default a tenth of the maximum length, at most 50.
    split_size : int, optional
        Maximum length of a chunk, > 0; by default the config's `chunk_size`.

    Returns
    -------
    callable of str to list of str
        The splitter. It does not change a text that is short enough.

    Raises
    ------
    ParameterError
        `split_size` is not > 0, or `chunk_overlap` is not below it.
    MissingExtraError
        langchain-text-splitters is not installed.
    """
    longest = max(1, int(config.chunk_size)) if split_size is None else split_size
    if longest < 1:
        raise ParameterError(f"split_size must be > 0, got {longest}")
    overlap = min(DEFAULT_OVERLAP, longest // 10) if chunk_overlap is None else chunk_overlap
    if not 0 <= overlap < longest:
        raise ParameterError(f"chunk_overlap must be >= 0 and below the chunk size of {longest}, got {overlap}")
    with require_extra('splitting texts needs langchain-text-splitters: pip install "rag-bm25[cli]"'):
        from langchain_text_splitters import RecursiveCharacterTextSplitter
    length = _length_function(config)
    recursive = RecursiveCharacterTextSplitter(
        separators=list(SEPARATORS),
        is_separator_regex=True,
        keep_separator="end",
        chunk_size=longest,
        chunk_overlap=overlap,
        length_function=length,
    )
    return lambda text: [text] if length(text) <= longest else recursive.split_text(text)


def read_file(file: SourceFile, split: Splitter, fields: Collection[str] = ()) -> Iterator[Piece]:
    """Read a file and split it into chunks.

    Parameters
    ----------
    file : SourceFile
        A text, or JSON lines: objects with ``_id`` or ``id``, ``text``, and optionally ``title`` and ``metadata``.
        All other keys are metadata, too.
    split : callable of str to list of str
        As returned by :func:`splitter`.
    fields : collection of str
        Fields of the index. If ``title`` is one of them, the title of a row is in the metadata of its chunks only;
        otherwise the text also begins with it.

    Returns
    -------
    iterator of Piece
        The chunks. The n-th chunk of a text has the id ``source#n``. A row that is not split keeps its id; the chunks
        of a split row have the ids ``id#n``.

    Raises
    ------
    InputError
        The file is not UTF-8, or a row is invalid.
    OSError
        The file cannot be read.
    """
    is_rows = file.path.suffix.lower() == ".jsonl"
    return _row_pieces(file, split, fields) if is_rows else _text_pieces(file, split)


def sample(files: Sequence[SourceFile], split: Splitter, size: int, *, seed: int = 0) -> Iterator[Piece]:
    """Sample chunks of files in random order, to preview an ingestion; only the last file may be cut short.

    Parameters
    ----------
    files : sequence of SourceFile
        As found by :func:`find_files`; unreadable files are skipped.
    split
        As for :func:`read_file`.
    size, seed : int
        Maximum number of chunks, and seed of the order.
    """
    shuffled = list(files)
    Random(seed).shuffle(shuffled)  # noqa: S311
    yield from islice((piece for file in shuffled for piece in _read_leniently(file, split)), size)


def _read_leniently(file: SourceFile, split: Splitter) -> Iterator[Piece]:
    """Yield the pieces of a file up to its first error."""
    with suppress(InputError, OSError):
        yield from read_file(file, split)


def _text_pieces(file: SourceFile, split: Splitter) -> Iterator[Piece]:
    whole = _read_text(file.path).strip()
    texts = [text for text in split(whole) if text.strip()]
    for n, (text, start) in enumerate(zip(texts, find_places(whole, texts), strict=True)):
        metadata = {"source": file.source, "chunk": n, "start_index": start}
        yield Piece(f"{file.source}#{n}", text, metadata, str(file.path), file.size * (n + 1) // len(texts))


def _row_pieces(file: SourceFile, split: Splitter, fields: Collection[str]) -> Iterator[Piece]:
    for line in read_json_lines(file.path):
        id_, (title, text) = row_id(line), row_parts(line)
        own = row_metadata(line)
        is_field = "title" in fields and own.get("title") == title  # the metadata may have another title
        whole = text if is_field else join_title(title, text)
        texts = split(whole)
        for n, (part, start) in enumerate(zip(texts, find_places(whole, texts), strict=True)):
            piece_id = id_ if len(texts) == 1 else f"{id_}#{n}"
            place = {"chunk": n} if len(texts) == 1 else {"chunk": n, "start_index": start}
            yield Piece(piece_id, part, {**_source_metadata(file.source, place, own), **own}, line.where, line.end)


def _source_metadata(source: str, place: dict[str, int], own: dict[str, Any]) -> dict[str, Any]:
    """Return source and place; a row with a source of its own gets no place, lest it pass for its chunk."""
    return {"source": source} if own.get("source", source) != source else {"source": source, **place}


def _read_text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InputError(f"{path}: a document must have at most {MAX_DOCUMENT_BYTES:,} bytes")
    return decode_utf8(data, str(path)).replace("\r\n", "\n").replace("\r", "\n")


def _length_function(config: IndexConfig) -> Callable[[str], int]:
    if config.length_unit != "terms":
        return len
    analyzer = config.build_analyzer()
    return lambda text: num_words(analyzer(text))
