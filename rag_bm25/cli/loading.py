"""``rag-bm25 bulk encode``, ``merge`` and ``load``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

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
from rag_bm25.cli.configurations import settings_of
from rag_bm25.cli.console import count_bars, print_json, recount_bar, show
from rag_bm25.cli.ingesting import DEFAULT_CHUNK_SIZE
from rag_bm25.cli.rendering import counted
from rag_bm25.config import IndexConfig
from rag_bm25.errors import InputError
from rag_bm25.evaluation.settings import with_settings
from rag_bm25.workers import MAX_WORKERS

PART_SIZE = 20_000

Folder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FOLDER", show_default=False, help="Where the files of the load are.")
]


def encode(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", show_default=False, help="Files and folders.")],
    folder: Annotated[
        Path, typer.Option("--folder", show_default=False, help="Where the files of the load go; a new folder.")
    ],
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE,...",
            show_default=False,
            help=f"Parameters of the index, as in k1=1.2,stem=false; chunk_size is {DEFAULT_CHUNK_SIZE} by default.",
        ),
    ] = None,
    split_size: opt.SplitSize = None,
    chunk_overlap: opt.ChunkOverlap = None,
    namespace: opt.Namespace = "",
    part_size: Annotated[int, typer.Option(min=1, help="Chunks in a part.")] = PART_SIZE,
    workers: Annotated[int, typer.Option(min=0, max=MAX_WORKERS, help="Processes that encode parts.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the parts of an earlier run.")] = False,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Encode files and folders into parts of an index that is to be loaded.

    Files are read as `rag-bm25 ingest` reads them, and chunks have the same ids. No index is opened, and none is
    needed.
    """
    settings = settings_of(",".join(setting or ()), "--set")
    config = with_settings(IndexConfig(DEFAULT_CHUNK_SIZE), settings)
    split = ingestion.splitter(config, chunk_overlap, split_size)
    found = ingestion.find_files(paths)
    _require_readable(found)
    _make_room(folder, overwrite=overwrite)
    start, reports = time.perf_counter(), []
    with count_bars(progress, {"chunks": None}) as move:
        parts = _parts(found, split, config, part_size)
        for report in bulk.encode_parts(parts, config, folder, namespace=namespace, workers=workers):
            reports.append(report)
            move("chunks", sum(report.num_chunks for report in reports))
    seconds = time.perf_counter() - start
    chunks, size = sum(report.num_chunks for report in reports), sum(report.size for report in reports)
    if as_json:
        print_json({"parts": len(reports), "chunks": chunks, "bytes": size, "seconds": seconds})
        return
    show(
        f"{counted(chunks, 'chunk')} in {counted(len(reports), 'part')}, {size / 1e6:,.1f} MB; {seconds:.1f} s, "
        f"{chunks / seconds:,.0f} chunks/s"
    )


def merge(
    folder: Folder,
    num_parts: Annotated[
        int | None,
        typer.Option(
            "--parts", min=1, show_default=False, help="How many parts there must be; else gaps are found only."
        ),
    ] = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Merge the parts of an index that is to be loaded: its statistics, and the list of its files."""
    with recount_bar(progress, "merging") as move:
        report = bulk.merge(folder, num_parts=num_parts, progress=move)
    if as_json:
        print_json(asdict(report))
        return
    again = f"; {counted(report.rewritten, 'part')} written again with other ids" if report.rewritten else ""
    show(
        f"{counted(report.num_parts, 'part')}: {counted(report.num_chunks, 'chunk')}, "
        f"{counted(report.num_terms, 'term')}{again}"
    )


def load(
    folder: Folder,
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    token: opt.Token = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            "--import-prefix",
            show_default=False,
            help="Have the server import the files from here in its bucket; by default their rows are sent to it.",
        ),
    ] = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Load merged files into an empty place, which is an index then.

    A load that is cut short cannot be opened; running the same command again does the rest.
    """
    from rag_bm25.milvus_store import MilvusStore

    start = time.perf_counter()
    with (
        closing(MilvusStore(uri, collection, token=token, tls=opt.tls_for(uri))) as target,
        recount_bar(progress, "loading") as move,
    ):
        if prefix is None:
            report = bulk.load(folder, target, progress=move)
        else:
            report = bulk.load_by_import(folder, target, prefix, progress=move)
        name, seconds = target.name, time.perf_counter() - start
    if as_json:
        print_json({**asdict(report), "seconds": seconds})
        return
    show(
        f"{counted(report.num_chunks, 'chunk')} and {counted(report.num_terms, 'term')} in {name}; "
        f"{report.loaded:,} loaded in {seconds:.1f} s, {report.loaded / seconds:,.0f} chunks/s"
    )


def _require_readable(found: ingestion.Found) -> None:
    """Refuse folders that cannot be listed: what is in them would be missing in the index."""
    if found.unreadable:
        msg = "; ".join(found.unreadable.values())
        raise InputError(msg)
    if not found.files:
        msg = "there is no .txt, .md or .jsonl file to encode"
        raise InputError(msg)
    found.require_distinct()


def _make_room(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder with parts, of which some might stay beside the new ones; or delete them, and nothing else."""
    if not part_numbers(folder):
        return
    if not overwrite:
        msg = f"{folder} has parts of an earlier run: use another folder, or --overwrite"
        raise InputError(msg)
    for path in (*part_files(folder), folder / MANIFEST):
        path.unlink(missing_ok=True)


def _parts(
    found: ingestion.Found, split: ingestion.Splitter, config: IndexConfig, size: int
) -> Iterator[list[dict[str, Any]]]:
    """Cut the chunks of all files into parts."""
    rows = (
        {"text": piece.text, "id": piece.id, "metadata": piece.metadata}
        for file in found.files
        for piece in ingestion.read_file(file, split, config.fields)
    )
    while part := list(islice(rows, size)):
        yield part
