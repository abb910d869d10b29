"""``rag-bm25 ingest``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

import time
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
        bool, typer.Option("--prune", help="Delete chunks that the given paths once had, and have no more.")
    ] = False,
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
    into chunks, and each row of a .jsonl file, {"_id", "title", "text"} or {"id", "text", "metadata"}, is a document.
    Running it again updates what has changed, adds what is new, and with --prune deletes what is gone.

    The text of a row begins with its title. An index with the field "title" keeps it apart: it is in the metadata of
    each chunk of the row, and counts as the field.

    A chunk is named after its file, relative to the parent of the folder given: docs/guide.md#0.
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
    found = ingestion.find_files(paths)
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
    _print_report(report, len(found.skipped), seconds, as_json)
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
        msg = f"the index was created with other parameters: {'; '.join(differences)}"
        raise ConfigMismatchError(msg)


def _note_skipped(found: ingestion.Found) -> None:
    if found.skipped:
        names = ", ".join(str(path) for path in found.skipped[:5])
        more = ", ..." if len(found.skipped) > 5 else ""
        print_note(f"skipped {counted(len(found.skipped), 'file')} of other kinds: {names}{more}")
    if not found.files:
        print_note("there is no .txt, .md or .jsonl file to ingest")


def _print_report(report: ingestion.IngestReport, skipped: int, seconds: float, as_json: bool) -> None:
    rate = report.chunks / seconds
    if as_json:
        print_json({**asdict(report), "skipped": skipped, "seconds": seconds, "chunks_per_second": rate})
        return
    gone = f"{report.deleted:,} deleted" if report.deleted else f"{report.stale:,} stale"
    show(
        f"{counted(report.files, 'file')}, {counted(report.chunks, 'chunk')}: {report.added:,} added, "
        f"{report.updated:,} updated, {report.unchanged:,} unchanged, {gone}; {seconds:.1f} s, {rate:,.0f} chunks/s"
    )
    if report.stale > report.deleted:
        print_note(f"stale are {counted(report.stale, 'chunk')} that these files once had: --prune deletes them")
