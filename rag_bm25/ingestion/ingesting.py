"""Ingest files and folders; ingesting them again brings the index up to date."""

from __future__ import annotations

import shlex
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from rag_bm25.documents.chunks import AddReport
from rag_bm25.errors import InputError, StoreError
from rag_bm25.events import report_progress
from rag_bm25.index.arguments import list_first
from rag_bm25.index.config import require_dense_field
from rag_bm25.ingestion.checking import FileChecker
from rag_bm25.ingestion.contextualizing import contextualizer
from rag_bm25.ingestion.files import FileSelection
from rag_bm25.ingestion.language import keep_sample, language_notes
from rag_bm25.ingestion.obsolete import Coverage, ObsoleteChunks, has_sources
from rag_bm25.ingestion.owners import Owners
from rag_bm25.ingestion.pruning import MAX_DELETE, check_max_delete, choose_pruned, delete_command
from rag_bm25.ingestion.source_names import SourceNames
from rag_bm25.ingestion.source_options import RememberedOptions, flatten
from rag_bm25.ingestion.source_roots import ATTEMPTS, read_source_roots, set_source_roots
from rag_bm25.ingestion.unchanged import IngestedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from rag_bm25.documents.chunks import Chunk, NewChunk
    from rag_bm25.events import Progress
    from rag_bm25.index.config import IndexConfig
    from rag_bm25.index.index import BM25Index
    from rag_bm25.ingestion.checking import RowChecker
    from rag_bm25.ingestion.contextualizing import Contextualize, Contextualizer
    from rag_bm25.ingestion.files import SourceFile
    from rag_bm25.ingestion.reading import FileOptions, ReadOptions
    from rag_bm25.store.embeddings import Embed, Vectors


class EmbeddingModel(Protocol):
    """A model of dense vectors, as LangChain's ``Embeddings`` are."""

    def embed_documents(self, texts: list[str]) -> Vectors:
        """Return a vector for each text, in the same order."""
        ...


MAX_SHOWN = 5  # reasons


@dataclass(frozen=True)
class IngestReport:
    """Result of an ingestion.

    Parameters
    ----------
    files, chunks : int
        Files ingested, and their chunks.
    added, updated, unchanged : int
        Chunks with new ids, chunks that differed from the stored ones, and chunks that equalled them.
    stale : int
        Stored chunks of files that the given folders no longer have, or of rows that a collection no longer has.
    deleted : int
        Deleted chunks: those that the ingested files no longer have, such as the end of a text that has become shorter
        or a deleted row, and with `prune` the stale ones.
    failed : dict of str to str
        Reason by source, for each file, folder and collection that failed. Nothing of a file was written, and nothing
        of a folder or collection was pruned.
    notes : list of str
        Folders whose sources do not begin with the folder's own name, and the reasons; folders that no longer exist;
        chunks that sources took over from others; files that have chunks and are left out now; rows without a text; and
        encodings other than UTF-8.
    rejected : dict of str to int
        Number of wrong rows by source; the other rows were written, and no stored chunk of the source was deleted, or
        none of such a row of a collection.
    reasons : list of str
        Reasons of the first rejected rows, at most 10 of a source and 100 in all.
    left_out : dict of str to int
        Number of characters that were left out, by kind: of PDF ``"running lines"``, ``"page numbers"``,
        ``"line numbers"`` and ``"contents"``; of Word ``"comments"``, and what its reader does not know. Unchanged
        files do not count.
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
    rejected: dict[str, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)


def ingest(
    index: BM25Index,
    found: FileSelection,
    *,
    chunk_overlap: int | None = None,
    split_size: int | None = None,
    contextualize: Contextualize | None = None,
    namespace: str = "",
    prune: bool = False,
    max_delete: float = MAX_DELETE,
    strict: bool = False,
    embeddings: Embed | EmbeddingModel | None = None,
    options: ReadOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
    workers: int = 0,
) -> IngestReport:
    """Bring an index up to date with files.

    Each file is read once, and checked as a whole before its first chunk is written. A file that is the same as in an
    earlier run is not parsed again, unless one of its chunks has been written since; it counts as ingested. A file or a
    row that fails is skipped and reported, and its stored chunks are kept. Memory grows with the number of ids alone:
    the chunks of a large file wait in a temporary file until its end has been checked, and documents that need a parser
    are read by another process, which is bounded in time and memory.

    The index remembers the given folders, and the files that were given by themselves, with the options that shape
    their chunks: `chunk_overlap`, `split_size`, the name of `contextualize`, `options` but for its timeout and reader,
    and the patterns of :func:`find_files`. Later runs need none of them, and another one replaces it, with a note. A
    file has the options of the folder that it is named by. Those that are given with a part of such a folder hold for
    this run alone.

    Whatever path leads to a file,
    its source is the name of the deepest of these that contains it, and the path below: ``docs/guide.md``. Another
    folder of the same name gets a longer name, such as ``team/docs``.

    Parameters
    ----------
    index : BM25Index
        Open for writing.
    found : FileSelection
        As returned by :func:`find_files`.
    chunk_overlap, split_size : int, optional
        As for :func:`splitter`; by default as remembered.
    contextualize : callable of (str, list of Chunk) to list of str, or "headings" or "", optional
        What gives each chunk a context that counts for words, is embedded before its text, and is not shown; by default
        as remembered, and `""` is for none. ``"headings"`` is the title and the headings, which count as fields anyway.
        A callable gets the text of a document, or of a row, and its chunks, and returns the context of each: a str of
        at most 2,000 characters, which becomes the metadata ``chunk_context``, a field that the index needs. It is
        called for the documents with a new or changed chunk. Its name, and its attribute `version` if it has one, say
        whether it is another one. Where it raises an exception, the file or row fails.
    namespace : str
        Namespace of the chunks.
    prune : bool
        Delete the stale chunks, too: those of files that the given folders no longer have.
    max_delete : float
        Maximum share of the files of a folder to prune, in 0..1; up to five files may always be pruned. If more are
        gone, the folder fails: new and changed files are ingested, and its stale chunks are kept. So does a folder
        without any file, whatever the share: it may be a mount that is missing.
    strict : bool
        Write nothing if any file or row fails. The files are read twice.
    embeddings : callable of list of str to array_like of float, or LangChain Embeddings, optional
        Needed if the index has dense vectors, and only then. It gets the texts that are new or have changed, about
        1,000 at a time, as for :meth:`BM25Index.add`.
    options : ReadOptions, optional
        Encoding, names of the fields of rows, and bounds; by default as remembered.
    progress : callable of Progress to None, optional
        Called before each file with the ``"bytes"`` read and the `source` under way, and after each batch, also with
        the ``"chunks"`` written, whose total is not known.
    workers : int
        Processes that analyse chunks while others are written, as for :meth:`BM25Index.add`.

    Returns
    -------
    IngestReport
        Counts of the ingestion.

    Raises
    ------
    InputError
        `found` is something else; a file or row failed with `strict`; or a folder has the name of a folder that no
        longer exists. The `name` of :func:`find_files` decides whether they are the same. Also if `embeddings` are
        missing, or not wanted.
    """
    if not isinstance(found, FileSelection):
        raise InputError(f"found must be what find_files returns, got {type(found).__name__}")
    check_max_delete(max_delete)
    embed = choose_embedder(index, embeddings)
    is_empty = not index.stats(namespace=namespace).num_chunks

    def look_up(ids: Sequence[str]) -> Sequence[Chunk]:
        return [] if is_empty else index.get(ids, namespace=namespace)

    context = contextualizer(contextualize, index.config.fields, look_up, strict=strict)
    names = _name_sources(index, found, namespace, is_empty=is_empty)
    shaping = {"split_size": split_size, "chunk_overlap": chunk_overlap, "contextualize": contextualize}
    files, sources = _plan(index.config, names, found, {**_without_none(shaping), **flatten(options)}, context)

    def make_checker() -> FileChecker:
        return FileChecker(sources.of, index.config.fields, Owners(look_up, names, files))

    checker = make_checker()
    skipped = 0

    def report(source: str) -> None:
        report_progress(progress, "bytes", skipped + checker.num_bytes, found.size, source)

    coverage = Coverage.of(found, files, names)
    earlier = IngestedFiles(index, coverage, files, namespace, lambda source: sources.of(source).shape, report)
    earlier.tell()
    unread = [file for file in files if file.source not in earlier.num_chunks]
    unchanged = AddReport(unchanged=sum(earlier.num_chunks.values()))
    skipped = found.size - sum(file.size for file in unread)
    if strict:
        valid = make_checker()
        require_valid(valid.chunks(unread), valid, found.unreadable)
    changes = sources.remember(index, found, namespace)
    checker.read.update(earlier.num_chunks)

    def report_batch(chunks: Progress) -> None:
        earlier.remember_if_due(checker)
        report("")
        report_progress(progress, "chunks", unchanged.total + chunks.done)

    texts: list[str] = []
    chunks = checker.chunks(earlier.digest_each(unread))
    written = unchanged + earlier.add(keep_sample(chunks, texts) if is_empty else chunks, embed, report_batch, workers)
    report_progress(progress, "bytes", found.size, found.size)
    report_progress(progress, "chunks", written.total)
    obsolete = ObsoleteChunks.find(earlier.not_given(checker.owners.given), coverage, checker)
    pruned, refused = choose_pruned(found, names, obsolete.stale, max_delete, namespace) if prune else ({}, {})
    unwanted = [*obsolete.removed, *chain.from_iterable(pruned.values())]
    deleted = index.delete(unwanted, namespace=namespace) if unwanted else 0
    earlier.remember(checker, obsolete.stale.keys() - pruned.keys() | obsolete.unread.keys())
    return IngestReport(
        files=len(checker.read),
        chunks=written.total,
        added=written.added,
        updated=written.updated,
        unchanged=written.unchanged,
        stale=sum(map(len, obsolete.stale.values())),
        deleted=deleted,
        failed={names.source_of(path): reason for path, reason in found.unreadable.items()} | checker.failed | refused,
        notes=[
            *names.notes,
            *changes,
            *checker.notes(),
            *_gone_notes(index, names, namespace),
            *_encoding_notes(checker.encodings, sources.of),
            *_empty_notes(checker, earlier.num_chunks),
            *_unread_notes(obsolete, coverage, namespace),
            *language_notes(index.config, texts),
        ],
        rejected=checker.rejected,
        reasons=checker.reasons,
        left_out=dict(checker.left_out),
    )


def require_valid_files(
    config: IndexConfig,
    found: FileSelection,
    *,
    strict: bool,
    contextualize: Contextualize | None = None,
    **lengths: Any,
) -> None:
    """Refuse a new index if one file or row fails and `strict` is given, before the index is created."""
    context = contextualizer(contextualize, config.fields, lambda _ids: (), strict=strict)
    if not strict:
        return
    names = SourceNames((), lambda _name, _is_folder: False)
    _add_roots(names, found)
    files, sources = _plan(config, names, found, _without_none(lengths), context)
    checker = FileChecker(sources.of, config.fields, Owners(lambda _ids: [], names, files))
    require_valid(checker.chunks(files), checker, found.unreadable)


def _without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _plan(
    config: IndexConfig, names: SourceNames, found: FileSelection, given: Mapping[str, Any], context: Contextualizer
) -> tuple[list[SourceFile], RememberedOptions]:
    """Return the files by the names of an index, and how they are cut and read; refuse wrong options."""
    files = [file if file.keeps_source else replace(file, source=names.source_of(file.path)) for file in found.files]
    sources = RememberedOptions(config, names, {**found.options, **given}, context)
    for file in files:
        sources.of(file.source)
    return files, sources


def choose_embedder(index: BM25Index, embeddings: Embed | EmbeddingModel | None) -> Embed | None:
    """Return the function that embeds texts; refuse one that is missing or not wanted, before anything is written."""
    embed = getattr(embeddings, "embed_documents", embeddings)
    dim = index.config.dense_dim
    if embed is None and dim is not None:
        raise InputError(f"embeddings must be given: the index has dense vectors, dense_dim={dim}")
    if embed is not None:
        require_dense_field(index.config, "embeddings given", "the index")
    if not (embed is None or callable(embed)):
        got = type(embeddings).__name__
        raise InputError(f"embeddings must be a callable, or an object with embed_documents, got {got}")
    return embed


def require_valid(chunks: Iterable[NewChunk], checker: RowChecker, unreadable: Mapping[Path, str]) -> None:
    """Refuse all if one file or row fails."""
    deque(chunks, maxlen=0)
    reasons = [*unreadable.values(), *checker.failed.values(), *checker.reasons]
    if reasons:
        failed, rejected = len(unreadable) + len(checker.failed), sum(checker.rejected.values())
        first = "; ".join(reasons[:MAX_SHOWN])
        more = "" if len(reasons) <= MAX_SHOWN else "; ..."
        msg = f"nothing was written, since files ({failed:,}) or rows ({rejected:,}) are invalid: {first}{more}"
        raise InputError(msg)


def _empty_notes(checker: FileChecker, unchanged: Mapping[str, int]) -> list[str]:
    """Name files without text, given the number of chunks of unchanged files."""
    full = {*checker.owners.given.values(), *(source for source, number in unchanged.items() if number)}
    empty = sorted(checker.read - full - checker.rejected.keys())
    return [f"without text: {list_first(empty)}"] if empty else []


def _unread_notes(obsolete: ObsoleteChunks, coverage: Coverage, namespace: str) -> list[str]:
    """Name the files that have chunks and are left out now, such as those of another kind."""
    left = {source: ids for source, ids in obsolete.unread.items() if not coverage.is_unreadable(source)}
    if not left:
        return []
    num_chunks = sum(map(len, left.values()))
    told = (
        f"no longer read, so that their chunks ({num_chunks:,}) are not brought up to date: {list_first(sorted(left))}"
    )
    ways = "To read them: other patterns, such as --also; to delete their chunks"
    return [f"{told}. {ways}: {delete_command(['SOURCE'], namespace)}"]


def _gone_notes(index: BM25Index, names: SourceNames, namespace: str) -> list[str]:
    """Name the folders that no longer exist and still have chunks, where one of them may have got a new name."""
    return [
        f"{root.name!r} is the folder {root.path}, which no longer exists here, and the index still has chunks of it. "
        f"To go on with this name, delete the chunks of the new one, and ingest with --name {shlex.quote(root.name)}. "
        f"If it was renamed, delete them: {delete_command([f'{root.name}/'], namespace)}"
        for root in names.gone_folders()
        if has_sources(index, namespace, root.name, is_folder=True)
    ]


def _encoding_notes(encodings: Mapping[str, str], options_of: Callable[[str], FileOptions]) -> list[str]:
    """Say what was read in which encoding, as it may have been guessed."""
    sources: dict[str, list[str]] = {}
    for source, encoding in encodings.items():
        sources.setdefault(encoding, []).append(source)
    is_guessed = any(options_of(source).reading.encoding is None for source in encodings)
    hint = " (give --encoding if that is wrong)" if is_guessed else ""
    return [f"read as {encoding.upper()}: {list_first(names)}{hint}" for encoding, names in sorted(sources.items())]


def _name_sources(index: BM25Index, found: FileSelection, namespace: str, *, is_empty: bool) -> SourceNames:
    """Name the files, and store the roots of the names in the index."""

    def is_known(name: str, is_folder: bool) -> bool:
        return not is_empty and has_sources(index, namespace, name, is_folder=is_folder)

    for _ in range(ATTEMPTS):
        names = SourceNames(read_source_roots(index, namespace=namespace), is_known)
        _add_roots(names, found)
        named = [file for file in found.files if not file.keeps_source]
        used = {names.root_of(file.path) for file in named} if names.new else set()
        new = [root for root in names.new if root in used]
        if not new:
            return names
        stored = {(root.name, root.path) for root in set_source_roots(index, new, namespace=namespace)}
        if all((root.name, root.path) in stored for root in new):
            return names
    msg = f"the folders could not be named: other processes named folders {ATTEMPTS} times meanwhile. Try again."
    raise StoreError(msg)


def _add_roots(names: SourceNames, found: FileSelection) -> None:
    """Find or make the roots of the given paths."""
    if found.root is not None:
        names.take_root(found.root, found.name)
    elif found.name is not None and found.given:
        names.take_root(next(iter(found.given)), found.name)
    else:
        for path in found.given:
            names.take(path)
