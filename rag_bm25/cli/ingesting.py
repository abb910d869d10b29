"""``rag-bm25 ingest``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_bm25 import ingestion
from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.analysis.config import Segmentation
from rag_bm25.cli import options as opt
from rag_bm25.cli.configurations import fields_of
from rag_bm25.cli.console import ingest_bar, print_error, print_json, print_note, show
from rag_bm25.cli.rendering import counted
from rag_bm25.config import IndexConfig
from rag_bm25.errors import ConfigMismatchError, IndexNotFoundError, InputError
from rag_bm25.index import BM25Index
from rag_bm25.workers import MAX_WORKERS

DEFAULT_CHUNK_SIZE = 500
MAX_SHOWN = 5


def ingest(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", show_default=False, help="Files and folders.")],
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    namespace: opt.Namespace = "",
    token: opt.Token = None,
    chunk_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default=False,
            help="Constant in place of the mean length of chunks, and the greatest length of one; by default the "
            f"index's own, {DEFAULT_CHUNK_SIZE} for a new one.",
        ),
    ] = None,
    split_size: opt.SplitSize = None,
    chunk_overlap: opt.ChunkOverlap = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete the chunks of files that are gone from the folders given.")
    ] = False,
    root: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help="Name sources by this folder, which contains the paths; by default by the folder that is given, or "
            "one around it that was ingested before.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="Let sources begin with this instead of the folder's name. For a folder that was moved: its old name.",
        ),
    ] = None,
    length_unit: opt.Unit = None,
    k1: Annotated[
        float | None, typer.Option(show_default=False, help="Saturation of repeated terms, for a new index.")
    ] = None,
    b: Annotated[float | None, typer.Option(show_default=False, help="Share of the length, for a new index.")] = None,
    weighting: opt.Weighting = None,
    delta: opt.Delta = None,
    idf: opt.Idf = None,
    epsilon: opt.Epsilon = None,
    field: opt.Fields = None,
    segmentation: Annotated[
        Segmentation | None,
        typer.Option(show_default=False, help="How Chinese in chunks is cut, for a new index; by default search."),
    ] = None,
    query_segmentation: Annotated[
        Segmentation | None,
        typer.Option(show_default=False, help="How Chinese in queries is cut, for a new index; by default search."),
    ] = None,
    stem: Annotated[
        bool | None,
        typer.Option(
            "--stem/--no-stem", show_default=False, help="Stem English words, for a new index; by default it does."
        ),
    ] = None,
    simplify: Annotated[
        bool | None,
        typer.Option(
            "--simplify/--no-simplify",
            show_default=False,
            help="Traditional Chinese to simplified, for a new index; by default it does.",
        ),
    ] = None,
    split_camel_case: Annotated[
        bool | None,
        typer.Option(
            "--split-camel-case/--no-split-camel-case",
            show_default=False,
            help="The words within getUserName, too, for a new index; by default it does not.",
        ),
    ] = None,
    bigrams: Annotated[
        bool | None,
        typer.Option(
            "--bigrams/--no-bigrams",
            show_default=False,
            help="Chinese bigrams beside words, for a new index; by default with them.",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, max=MAX_WORKERS, help="Processes that analyse chunks while others are written.")
    ] = 0,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Bring an index up to date with files and folders.

    The first run creates the index. Folders are read with all below them, hidden files aside: .txt and .md are split
    into chunks, and each row of a .jsonl file, {"_id", "title", "text"} or {"id", "text", "metadata"}, is a document;
    other keys of a row are metadata, too. Running it again updates what has changed, adds what is new, and deletes what
    is gone from a file. With --prune, the chunks of files that are gone are deleted as well.

    A chunk is named after its file, from the folder given: docs/guide.md#0. The index remembers the folder, so that
    docs/guide.md keeps that name when it is ingested by itself, and another folder called docs gets another name.

    The text of a row begins with its title. An index with the field "title" keeps it apart: it is in the metadata of
    each chunk of the row, and counts as the field.
    """
    options = {
        "chunk_size": chunk_size,
        "length_unit": length_unit,
        "k1": k1,
        "b": b,
        "weighting": weighting,
        "delta": delta,
        "idf": idf,
        "epsilon": epsilon,
        "fields": fields_of(field) or None,
    }
    settings = {
        "segmentation": segmentation,
        "query_segmentation": query_segmentation,
        "stem": stem,
        "simplify": simplify,
        "split_camel_case": split_camel_case,
        "bigrams": bigrams,
    }
    given, analysis = ({name: value for name, value in one.items() if value is not None} for one in (options, settings))
    found = ingestion.find_files(paths, root=root, name=name)
    _note_skipped(found)
    create = bool(found.files)
    with (
        _open_or_create(uri, collection, token, given, analysis, create=create) as index,
        ingest_bar(progress, found.size) as move,
    ):
        start = time.perf_counter()
        report = ingestion.ingest(
            index,
            found,
            chunk_overlap=chunk_overlap,
            split_size=split_size,
            namespace=namespace,
            prune=prune,
            progress=move,
            workers=workers,
        )
        seconds = time.perf_counter() - start
    _print_report(report, len(found.skipped), seconds, as_json, pruned=prune)
    for reason in report.failed.values():
        print_error(reason)
    if report.failed:
        raise typer.Exit(1)


def _open_or_create(
    uri: str, collection: str, token: str | None, given: dict[str, Any], analysis: dict[str, Any], *, create: bool
) -> BM25Index:
    """Open the index, whose parameters and settings of the analyzer must be the given ones, or create it with them."""
    try:
        index = BM25Index.open(uri, collection, token=token, tls=opt.tls_for(uri))
    except IndexNotFoundError:
        if not create:
            msg = "there is nothing to ingest, so no index was created"
            raise InputError(msg) from None
        config = IndexConfig(**{"chunk_size": DEFAULT_CHUNK_SIZE, "analyzer": AnalyzerConfig(**analysis), **given})
        return BM25Index.open(uri, collection, token=token, tls=opt.tls_for(uri), config=config)
    try:
        _require_same({**vars(index.config), **vars(index.config.analyzer)}, {**given, **analysis})
    except BaseException:
        index.close()
        raise
    return index


def _require_same(stored: dict[str, Any], given: dict[str, Any]) -> None:
    differences = [
        f"{name}: stored {stored[name]!r}, given {value!r}" for name, value in given.items() if stored[name] != value
    ]
    if differences:
        msg = (
            f"the index was created with other parameters: {'; '.join(differences)}; leave them out, or make another "
            "index with `rag-bm25 reindex`"
        )
        raise ConfigMismatchError(msg)


def _note_skipped(found: ingestion.Found) -> None:
    of_other_kinds = [path for path in found.skipped if path.suffix.lower() not in ingestion.SUFFIXES]
    irregular = [path for path in found.skipped if path.suffix.lower() in ingestion.SUFFIXES]
    _note_paths(of_other_kinds, f"skipped {counted(len(of_other_kinds), 'file')} of other kinds")
    _note_paths(irregular, "skipped, since they lead to no regular file within the folder")
    if found.files:
        return
    if found.unreadable:
        for reason in found.unreadable.values():
            print_error(reason)
        raise typer.Exit(1)
    print_note("there is no .txt, .md or .jsonl file to ingest")


def _note_paths(paths: Sequence[Path], what: str) -> None:
    if paths:
        names = ", ".join(map(str, paths[:MAX_SHOWN]))
        print_note(f"{what}: {names}{', ...' if len(paths) > MAX_SHOWN else ''}")


def _print_report(report: ingestion.IngestReport, skipped: int, seconds: float, as_json: bool, *, pruned: bool) -> None:
    rate = report.chunks / seconds
    stale = 0 if pruned else report.stale
    for note in report.notes:
        print_note(note)
    if as_json:
        print_json({**asdict(report), "skipped": skipped, "seconds": seconds, "chunks_per_second": rate})
        return
    show(
        f"{counted(report.files, 'file')}, {counted(report.chunks, 'chunk')}: {report.added:,} added, "
        f"{report.updated:,} updated, {report.unchanged:,} unchanged, {report.deleted:,} deleted; {seconds:.1f} s, "
        f"{rate:,.0f} chunks/s"
    )
    if stale:
        print_note(
            f"{counted(stale, 'chunk')} {'is' if stale == 1 else 'are'} left of files that are gone: add --prune to "
            "delete such chunks"
        )
