"""Check files before their first chunk is written."""

from __future__ import annotations

import pickle
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING

from rag_bm25.documents.checks import check_chunk
from rag_bm25.errors import InputError, MissingExtraError
from rag_bm25.index.arguments import list_first
from rag_bm25.ingestion.files import os_error_message
from rag_bm25.ingestion.owners import SPOOLED_BYTES, Placed
from rag_bm25.ingestion.reading import FileOptions, holds_rows, read_file
from rag_bm25.ingestion.rows import raise_error
from rag_bm25.weighting.fields import DEFAULT_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rag_bm25.documents.chunks import NewChunk
    from rag_bm25.ingestion.documents import Document, Piece
    from rag_bm25.ingestion.files import SourceFile
    from rag_bm25.ingestion.owners import Owners
    from rag_bm25.ingestion.rows import Reject

HELD_CHUNKS = 1_000  # of a file, in memory; the others wait in a temporary file
MAX_REASONS = 100  # of rejected rows
MAX_REASONS_OF_SOURCE = 10


class RowChecker:
    """Collect the failures of what is checked for an index with some fields."""

    def __init__(self, fields: Iterable[str], owners: Owners) -> None:
        self.owners = owners
        self.failed: dict[str, str] = {}  # source -> reason
        self.rejected: dict[str, int] = {}  # source -> number of rows
        self._fields = sorted(set(fields) - DEFAULT_FIELDS.keys())  # under these, rows may have something else
        self._reasons: dict[str, list[str]] = {}  # source -> of its first rejected rows
        self._without_text: Counter[str] = Counter()  # source -> number of chunks

    @property
    def reasons(self) -> list[str]:
        """The reasons of the first rejected rows, in the order of `rejected`."""
        return [reason for reasons in self._reasons.values() for reason in reasons][:MAX_REASONS]

    def notes(self) -> list[str]:
        """Tell what has come into the index that its owner may not expect."""
        without = [f"{source} ({number:,})" for source, number in self._without_text.items()]
        return [*self.owners.notes(), *([f"rows with an empty text: {list_first(without)}"] if without else [])]

    def _admit(self, chunks: Iterable[Placed]) -> Iterator[Placed]:
        for placed in self.owners.admit(chunks, self._reject):
            if not placed.chunk.text.strip():
                self._without_text[placed.source] += 1
            yield placed

    def _reject(self, source: str, error: InputError) -> None:
        self.rejected[source] = self.rejected.get(source, 0) + 1
        reasons = self._reasons.setdefault(source, [])
        if len(reasons) < MAX_REASONS_OF_SOURCE:
            reasons.append(str(error))


class FileChecker(RowChecker):
    """Yield the chunks of valid files and rows, and collect sources and failures."""

    def __init__(self, options_of: Callable[[str], FileOptions], fields: Iterable[str], owners: Owners) -> None:
        super().__init__(fields, owners)
        self.read: set[str] = set()  # sources
        self.num_chunks: dict[str, int] = {}  # of each valid file, before others' ids are refused
        self.encodings: dict[str, str] = {}  # source -> encoding, other than UTF-8
        self.left_out: Counter[str] = Counter()  # kind -> number of characters
        self._unreadable: dict[str, int] = {}  # source -> number of pages
        self._options_of = options_of  # a source
        self.num_bytes = 0  # read, of all files

    def notes(self) -> list[str]:
        """Tell of pages that need OCR, too."""
        pages = [f"{source} ({number:,})" for source, number in self._unreadable.items()]
        hint = "pages whose fonts do not tell their letters, which need OCR"
        return [*super().notes(), *([f"{hint}: {list_first(pages)}"] if pages else [])]

    def chunks(self, files: Iterable[SourceFile]) -> Iterator[NewChunk]:
        for placed in self._admit(self._read_files(files)):
            yield placed.chunk

    def _read_files(self, files: Iterable[SourceFile]) -> Iterator[Placed]:
        for file in files:
            start = self.num_bytes
            for placed in self._read_if_valid(file):
                self.num_bytes = start + placed.end
                yield placed
            self.num_bytes = start + file.size

    def _read_if_valid(self, file: SourceFile) -> Iterator[Placed]:
        """Read a file to its end, then yield its chunks unless the file as a whole has failed."""
        ids: set[str] = set()
        chunks = self._check_pieces(file, ids)
        first = list(islice(chunks, HELD_CHUNKS))
        with SpooledTemporaryFile(SPOOLED_BYTES) as spool:
            self._spool(chunks, spool, file)
            if file.source in self.failed:
                return
            self.read.add(file.source)
            self.num_chunks[file.source] = len(ids)
            yield from first
            for _ in range(len(ids) - len(first)):
                yield pickle.load(spool)  # noqa: S301  # written above

    def _spool(self, chunks: Iterable[Placed], spool: IO[bytes], file: SourceFile) -> None:
        """Write the chunks of a file to a temporary file; where that has no room, the file has failed."""
        try:
            for chunk in chunks:
                pickle.dump(chunk, spool)
            spool.seek(0)
        except OSError as error:
            self._fail(file.source, f"{file.path}: no room for its chunks in a temporary file: {error.strerror}")
            with suppress(OSError):  # what is left to write
                spool.close()

    def _check_pieces(self, file: SourceFile, ids: set[str]) -> Iterator[Placed]:
        """Yield the chunks of a file and collect their ids; a wrong row is rejected, else the first failure ends."""
        reject = partial(self._reject_unread, file.source)
        try:
            refuse = reject if holds_rows(file) else raise_error
            split, reading, contextualize, _ = self._options_of(file.source)
            for piece in read_file(file, split, reading, contextualize=contextualize, reject=reject):
                chunk = self._check_piece(piece, file.source if piece.id in ids else None, refuse)
                if chunk is not None:
                    ids.add(piece.id)
                    yield Placed(chunk, file.source, piece.where, piece.end)
                if piece.document is not None and len(ids) == 1:
                    self._note_document(file.source, piece.document)
        except (InputError, MissingExtraError) as error:
            self._fail(file.source, str(error))
        except OSError as error:
            self._fail(file.source, os_error_message(error))

    def _note_document(self, source: str, document: Document) -> None:
        self.left_out.update(document.left_out)
        if document.encoding:
            self.encodings[source] = document.encoding
        if document.unreadable:
            self._unreadable[source] = len(document.unreadable)

    def _fail(self, source: str, reason: str) -> None:
        self.owners.partly_read.add(source)
        self.failed[source] = reason

    def _reject_unread(self, source: str, error: InputError) -> None:
        """Reject a row whose id is not known."""
        self.owners.partly_read.add(source)
        self._reject(source, error)

    def _check_piece(self, piece: Piece, duplicate_in: str | None, refuse: Reject) -> NewChunk | None:
        try:
            if duplicate_in is not None:
                raise InputError(f"duplicate id {piece.id!r}, already given in {duplicate_in}")
            return check_chunk(piece.text, piece.id, piece.metadata, self._fields)
        except InputError as error:
            refuse(InputError(f"{piece.where}: {error}"))
            return None
