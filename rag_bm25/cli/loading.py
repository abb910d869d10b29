"""``rag-bm25 bulk encode``, ``merge`` and ``load``."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from rag_bm25 import bulk, ingestion
from rag_bm25.bulk.merging import MANIFEST
from rag_bm25.bulk.parts import part_files, part_numbers
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_result, progress_bars
from rag_bm25.cli.rendering import count
from rag_bm25.cli.settings import DEFAULT_CHUNK_SIZE, IndexOptions, Storage, WordFiles, make_splitter, parse_storage
from rag_bm25.cli.sources import SourceOptions
from rag_bm25.errors import InputError
from rag_bm25.events import Progress
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.settings import with_settings
from rag_bm25.index.writing.workers import MAX_WORKERS

PART_SIZE = 20_000

Folder: TypeAlias = Annotated[Path, opt.argument("FOLDER", "Folder with the files of the load.")]


def encode(
    paths: Annotated[list[Path], opt.argument("PATH...", "Files and folders.")],
    folder: Annotated[Path, opt.option("Folder for the files of the load; a new one.", "--folder")],
    settings: IndexOptions,
    words: WordFiles,
    sources: SourceOptions,
    split_size: opt.SplitSize = None,
    chunk_overlap: opt.ChunkOverlap = None,
    namespace: opt.Namespace = "",
    part_size: Annotated[int, typer.Option(min=1, help="Chunks in a part.")] = PART_SIZE,
    workers: Annotated[int, typer.Option(min=0, max=MAX_WORKERS, help="Processes that encode parts.")] = 0,
    overwrite: Annotated[bool, opt.option("Replace the parts of an earlier run.", "--overwrite")] = False,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Encode files and folders into parts of an index.

    Files are read as `rag-bm25 ingest` reads them, and chunks have the same ids. No index is opened, and none is
    needed. The chunk size is 500 by default.
    """
    config = words.change()(with_settings(IndexConfig(DEFAULT_CHUNK_SIZE), settings.given()))
    split = make_splitter(config, chunk_overlap, split_size)
    found, reading = sources.find(paths), sources.reading()
    _require_readable(found)
    _make_room(folder, overwrite=overwrite)
    start, reports, chunks = time.perf_counter(), [], 0
    with progress_bars(progress) as update:
        parts = _cut_parts(found, split, config, part_size, reading)
        for report in bulk.encode_parts(parts, config, folder, namespace=namespace, workers=workers):
            reports.append(report)
            chunks += report.num_chunks
            update(Progress("chunks", chunks, None))
    seconds, size = time.perf_counter() - start, sum(report.size for report in reports)
    print_result(
        as_json,
        {"parts": len(reports), "chunks": chunks, "bytes": size, "seconds": seconds},
        f"{count(chunks, 'chunk')} in {count(len(reports), 'part')}, {size / 1e6:,.1f} MB; {seconds:.1f} s, "
        f"{chunks / seconds:,.0f} chunks/s",
    )


def merge(
    folder: Folder,
    num_parts: Annotated[
        int | None, opt.option("Number of parts; without it, only gaps between them are found.", "--parts", min=1)
    ] = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Merge the statistics of all parts, and list their files."""
    with progress_bars(progress) as update:
        report = bulk.merge(folder, num_parts=num_parts, progress=update)
    again = f"; {count(report.rewritten, 'part')} written again with other ids" if report.rewritten else ""
    print_result(
        as_json,
        asdict(report),
        f"{count(report.num_parts, 'part')}: {count(report.num_chunks, 'chunk')}, "
        f"{count(report.num_terms, 'term')}{again}",
    )


def load(
    folder: Folder,
    place: opt.Place,
    prefix: Annotated[
        str | None,
        opt.option(
            "Have the server import the files from here in its bucket; by default their rows are sent to it.",
            "--import-prefix",
        ),
    ] = None,
    storage: Storage = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Load merged files into a new index.

    A load that is cut short cannot be opened; running the same command again does the rest.
    """
    start, options = time.perf_counter(), parse_storage(storage)
    with closing(place.store(storage=options)) as target, progress_bars(progress) as update:
        if prefix is None:
            report = bulk.load(folder, target, progress=update)
        else:
            report = bulk.load_by_import(folder, target, prefix, progress=update)
        name, seconds = target.name, time.perf_counter() - start
    print_result(
        as_json,
        {**asdict(report), "seconds": seconds},
        f"{count(report.num_chunks, 'chunk')} and {count(report.num_terms, 'term')} in {name}; "
        f"{report.loaded:,} loaded in {seconds:.1f} s, {report.loaded / seconds:,.0f} chunks/s",
    )


def _require_readable(found: ingestion.Found) -> None:
    """Refuse folders that cannot be listed: the index would lack their files."""
    if found.unreadable:
        raise InputError("; ".join(found.unreadable.values()))
    if not found.files:
        raise InputError(f"there is no file to encode: those that are read end in {', '.join(ingestion.SUFFIXES)}")
    found.require_distinct()


def _make_room(folder: Path, *, overwrite: bool) -> None:
    """Delete parts of an earlier run and nothing else, or refuse the folder: some might stay beside the new ones."""
    if not part_numbers(folder):
        return
    if not overwrite:
        raise InputError(f"{folder} has parts of an earlier run: use another folder, or --overwrite")
    for path in (*part_files(folder), folder / MANIFEST):
        path.unlink(missing_ok=True)


def _cut_parts(
    found: ingestion.Found, split: ingestion.Splitter, config: IndexConfig, size: int, reading: ingestion.ReadOptions
) -> Iterator[list[dict[str, Any]]]:
    rows = (
        {"text": piece.text, "id": piece.id, "metadata": piece.metadata}
        for file in found.files
        for piece in ingestion.read_file(file, split, config.fields, reading)
    )
    while part := list(islice(rows, size)):
        yield part
