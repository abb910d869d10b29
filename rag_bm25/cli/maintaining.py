"""``rag-bm25 stats``, ``verify``, ``repair``, ``reencode``, ``delete``, ``export`` and ``import``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast

import typer

from rag_bm25.calibration import drift_warning
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_json, print_note, recount_bar, show
from rag_bm25.cli.rendering import counted, stats_table
from rag_bm25.errors import FormatError
from rag_bm25.index import BM25Index
from rag_bm25.verification import RepairReport


def stats(
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    namespace: Annotated[
        str | None,
        typer.Option(show_default=False, help="Tenant or sub-corpus; by default the whole index."),
    ] = None,
    token: opt.Token = None,
    as_json: opt.AsJson = False,
) -> None:
    """Show the figures of an index.

    s, k1' and b' tell what the chunk size amounts to: the exact BM25, with the measured mean length, that scores
    the same. There is a warning where s is below 0.8 or above 4, which has cost quality on judged sets.
    """
    with opt.open_index(uri, collection, token, read_only=True) as index:
        figures = index.stats(namespace=namespace)
    warning = drift_warning(figures.chunk_size_ratio, figures.num_chunks, figures.k1, figures.b)
    if as_json:
        print_json({**asdict(figures), "drift_warning": warning})
    else:
        show(stats_table(figures))
    if warning:
        print_note(f"{warning}; `rag-bm25 calibrate` proposes a chunk size for a new index")


def verify(
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    token: opt.Token = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare the statistics with a recount of all chunks.

    Exit code 1 where they differ; `rag-bm25 repair` mends them.
    """
    with opt.open_index(uri, collection, token) as index, recount_bar(progress) as move:
        report = index.verify(progress=move)
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        verdict = "the statistics are right" if report.ok else counted(len(report.differences), "difference")
        show(f"{counted(report.num_chunks, 'chunk')} and {counted(report.num_terms, 'term')} counted: {verdict}")
        show(*map(str, report.differences))
    if not report.ok:
        raise typer.Exit(1)


def repair(
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    token: opt.Token = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Count all chunks again and replace the statistics by the result.

    Whatever happened to the statistics, they are right afterwards. On a server, stop all writers first. A repair that
    is cut short can be run again.
    """
    report = _repair(uri, collection, token, progress)
    if as_json:
        print_json(asdict(report))
        return
    show(f"the statistics are right: {counted(report.num_chunks, 'chunk')}, {counted(report.num_terms, 'term')}")
    found = {
        "finished": counted(report.unfinished, "half-done write"),
        "deleted": counted(report.superseded, "superseded row"),
        "found again": counted(report.recovered_terms, "lost term"),
        "left": f"{counted(report.foreign, 'row')} of other tools, {counted(report.nameless_terms, 'nameless term')}",
    }
    show(*(f"{what}: {number}" for what, number in found.items()))


def _repair(uri: str, collection: str, token: str | None, progress: bool | None) -> RepairReport:
    """Repair an index, also one that cannot be opened."""
    try:
        index = opt.open_index(uri, collection, token)
    except FormatError:
        with BM25Index.open(uri, collection, token=token, tls=opt.tls_for(uri), repair=True) as index:
            return cast("RepairReport", index.repaired)
    with index, recount_bar(progress) as move:
        return index.repair(progress=move)


def reencode(
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    token: opt.Token = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Work out the k1 of each term again, and encode all chunks with it.

    For the weightings bm25-adpt and bm25t, after the first large ingestion and when the index has grown by half or so;
    with all others there is nothing to do. What is cut short can be run again, and writes only what is missing.
    """
    with opt.open_index(uri, collection, token) as index, recount_bar(progress, "encoding") as move:
        report, weighting = index.reencode(progress=move), index.config.weighting
    if as_json:
        print_json({"weighting": weighting, **asdict(report)})
        return
    show(f"{report.reencoded:,} of {counted(report.num_chunks, 'chunk')} encoded again, with the weighting {weighting}")
    if report.num_terms:
        show(f"{counted(report.num_terms, 'term')} with a k1 of their own, {report.mean_k1:.3f} on average")


def export(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to, for instance statistics.json.gz.")],
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    token: opt.Token = None,
) -> None:
    """Write the vocabulary and all counts to one portable file."""
    with opt.open_index(uri, collection, token, read_only=True) as index:
        index.export_statistics(path)
    show(f"statistics written to {path}")


def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="As written by `rag-bm25 export`.")],
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    token: opt.Token = None,
) -> None:
    """Replace the statistics by those of a file.

    `rag-bm25 verify` tells whether they fit the chunks.
    """
    with opt.open_index(uri, collection, token) as index:
        index.import_statistics(path)
    show(f"statistics read from {path}")


def delete(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", show_default=False, help="Ids of chunks.")] = None,
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    namespace: opt.Namespace = "",
    token: opt.Token = None,
    filter: opt.Filter = None,
    as_json: opt.AsJson = False,
) -> None:
    """Delete chunks, by their ids or by a filter."""
    if not ids and filter is None:
        msg = "give the ids of chunks, or --filter"
        raise typer.BadParameter(msg, param_hint="ID...")
    conditions = opt.parsed_filter(filter)
    with opt.open_index(uri, collection, token) as index:
        chosen = dict.fromkeys(ids or ())
        if conditions is not None:
            chosen |= {chunk.id: None for chunk in index.chunks(filter=conditions, namespace=namespace)}
        deleted = index.delete(list(chosen), namespace=namespace)
    if deleted < len(chosen):
        print_note(f"not there: {len(chosen) - deleted:,} of {counted(len(chosen), 'id')}")
    if as_json:
        print_json({"deleted": deleted})
    else:
        show(f"{counted(deleted, 'chunk')} deleted")
