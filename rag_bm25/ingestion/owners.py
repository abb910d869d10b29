"""Give each id to one source, so that no row replaces a chunk of another file that still exists."""

from __future__ import annotations

import pickle
from collections import Counter
from functools import lru_cache
from itertools import groupby
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rag_bm25.documents.chunks import MAX_BATCH_CHUNKS
from rag_bm25.errors import InputError
from rag_bm25.index.arguments import list_first
from rag_bm25.ingestion.rows import COLLECTION, is_from_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rag_bm25.documents.chunks import Chunk, NewChunk
    from rag_bm25.ingestion.files import SourceFile
    from rag_bm25.ingestion.source_names import SourceNames

LookUp: TypeAlias = "Callable[[Sequence[str]], Iterable[Chunk]]"
RejectRow: TypeAlias = "Callable[[str, InputError], None]"  # source, error

WAY_OUT = "To keep both, begin ids with their file: --id-prefix '{source}#'"
SAME_NAME = "another file has this name, but for how its accents are written (Unicode NFC or NFD). Rename one of them"
Row: TypeAlias = "list[Placed]"
Stored: TypeAlias = "Mapping[str, Chunk]"  # id -> chunk

SPOOLED_BYTES = 8 << 20  # in memory, before the temporary file is on disk


class Placed(NamedTuple):
    """A chunk, and its place in the files."""

    chunk: NewChunk
    source: str
    where: str  # file, or file and line, for messages
    end: int  # in its file, in bytes


class Owners:
    """The sources that ids belong to.

    An id ``source#n`` belongs to that source. Any other belongs to the source that it is stored with, or else to the
    first that gives it. A source loses an id if its file no longer exists, or is read here and no longer has it. A
    collection counts as one that exists.
    """

    def __init__(self, look_up: LookUp, names: SourceNames, files: Iterable[SourceFile]) -> None:
        self.given: dict[str, str] = {}  # chunk id -> source
        self.partly_read: set[str] = set()  # sources that may have other ids than those that were given
        self._look_up = look_up
        self._read = {file.source for file in files}
        self._exists = lru_cache(maxsize=1_000)(
            lambda source: source in self._read or source.startswith(COLLECTION) or names.has_file(source)
        )
        self._replaced: Counter[tuple[str, str]] = Counter()  # source, the stored source

    def admit(self, chunks: Iterable[Placed], reject: RejectRow) -> Iterator[Placed]:
        """Yield the chunks whose ids belong to no other source; last those that another file of the run has lost."""
        waiting = 0
        with SpooledTemporaryFile(SPOOLED_BYTES) as spool:
            for row, stored in self._with_stored(chunks):
                owner, former = self._owner(row), self._former(row, stored)
                if owner is None and former in self._read:
                    pickle.dump((row, former), spool)
                    waiting += 1
                elif self._take(row, owner or former, reject):
                    self._note(row, stored)
                    yield from row
            spool.seek(0)
            for _ in range(waiting):
                row, former = pickle.load(spool)  # noqa: S301  # written above
                if self._take(row, former if former in self.partly_read else self._owner(row), reject):
                    yield from row

    def notes(self) -> list[str]:
        """Name the sources whose chunks were replaced."""
        pairs = [f"{source} from {former} ({number:,})" for (source, former), number in self._replaced.items()]
        return [f"took over chunks whose source is not an existing file: {list_first(pairs)}"] if pairs else []

    def _with_stored(self, chunks: Iterable[Placed]) -> Iterator[tuple[Row, Stored]]:
        """Yield each row with the stored chunks of its ids, unless these belong to its own source by name."""
        for batch in _batches(_rows(chunks)):
            ids = [each.chunk.id for row in batch for each in row if not _is_own(each)]
            stored = {chunk.id: chunk for chunk in self._look_up(ids)} if ids else {}
            yield from ((row, stored) for row in batch)

    def _owner(self, row: Row) -> str | None:
        """Return the other source that an id of a row belongs to by its name, its metadata, or an earlier file."""
        return next(filter(None, map(self._owner_of_chunk, row)), None)

    def _owner_of_chunk(self, each: Placed) -> str | None:
        id_, metadata = each.chunk.id, each.chunk.metadata
        if id_ in self.given or _is_own(each):
            return self.given.get(id_)
        named = id_.rpartition("#")[0], metadata["source"] if is_from_source(id_, metadata) else ""
        return next((source for source in named if source != each.source and self._exists(source)), None)

    def _former(self, row: Row, stored: Stored) -> str | None:
        """Return the other source that an id of a row is stored with, if it exists; first one that is not read here."""
        known = (stored[each.chunk.id] for each in row if each.chunk.id in stored)
        sources = {chunk.metadata["source"] for chunk in known if is_from_source(chunk.id, chunk.metadata)}
        others = filter(self._exists, sorted(sources - {row[0].source}))
        return min(others, key=self._read.__contains__, default=None)

    def _take(self, row: Row, owner: str | None, reject: RejectRow) -> bool:
        """Give the ids of a row to its source, unless one belongs to another."""
        first = row[0]
        if owner is None:
            self.given.update((each.chunk.id, first.source) for each in row)
            return True
        msg = f"{first.where}: the id {first.chunk.id!r} belongs to {owner}, which exists, too. {WAY_OUT}"
        if owner == first.source:  # one of a file with the same id twice has not come here
            msg = f"{first.where}: {SAME_NAME}"
        reject(first.source, InputError(msg))
        return False

    def _note(self, row: Row, stored: Stored) -> None:
        """Note the chunks that another source has had."""
        known = ((each, stored[each.chunk.id].metadata) for each in row if each.chunk.id in stored)
        self._replaced.update(
            (each.source, str(metadata.get("source", "no source")))
            for each, metadata in known
            if metadata.get("source") != each.chunk.metadata["source"]
        )


def _rows(chunks: Iterable[Placed]) -> Iterator[Row]:
    """Group the chunks of a row, which come and go together; those with the name of their source stay by themselves."""
    for place, group in groupby(chunks, lambda each: None if _is_own(each) else (each.source, each.where)):
        if place is None:
            yield from ([each] for each in group)
        else:
            yield list(group)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row)
        if size >= MAX_BATCH_CHUNKS:
            yield batch
            batch, size = [], 0
    yield batch


def _is_own(each: Placed) -> bool:
    return each.chunk.id.startswith(f"{each.source}#")
