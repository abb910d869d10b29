"""``rag-bm25 stats``, ``verify``, ``repair``, ``reencode``, ``delete``, ``export`` and ``import``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from rag_bm25.calibration import drift_warning
from rag_bm25.cli import options as opt
from rag_bm25.cli.configurations import settings_of
from rag_bm25.cli.console import print_json, print_note, recount_bar, show
from rag_bm25.cli.ingesting import DEFAULT_CHUNK_SIZE
from rag_bm25.cli.rendering import counted, stats_table
from rag_bm25.config import IndexConfig
from rag_bm25.errors import FormatError
from rag_bm25.evaluation.settings import Value, with_settings
from rag_bm25.filters import parse_filter
from rag_bm25.index import BM25Index
from rag_bm25.verification import RepairReport

MAX_SHOWN = 5
MAX_DIFFERENCES = 20


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
        show(*map(str, report.differences[:MAX_DIFFERENCES]))
        if (more := len(report.differences) - MAX_DIFFERENCES) > 0:
            print_note(f"{more:,} more: --json shows all")
    if not report.ok:
        raise typer.Exit(1)


def repair(
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    token: opt.Token = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            show_default=False,
            help="A parameter that the index had, where its own are lost, such as chunk_size=300; may be given again.",
        ),
    ] = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Count all chunks again and replace the statistics by the result.

    Whatever happened to the statistics, they are right afterwards. On a server, stop all writers first. A repair that
    is cut short can be run again. An index that has lost its parameters gets those of --set, and else the defaults of
    `rag-bm25 ingest`, if they give the vectors that are stored.
    """
    report = _repair(uri, collection, token, settings_of(",".join(setting or ()), "--set"), progress)
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


def _repair(
    uri: str, collection: str, token: str | None, settings: Mapping[str, Value], progress: bool | None
) -> RepairReport:
    """Repair an index, also one that cannot be opened."""
    try:
        index = opt.open_index(uri, collection, token)
    except FormatError:
        with _opened_by_repair(uri, collection, token, settings) as index:
            return cast("RepairReport", index.repaired)
    with index, recount_bar(progress) as move:
        return index.repair(progress=move)


def _opened_by_repair(uri: str, collection: str, token: str | None, settings: Mapping[str, Value]) -> BM25Index:
    """Repair an index while it is opened; with other parameters only where its own are lost."""
    repairing = partial(BM25Index.open, uri, collection, token=token, tls=opt.tls_for(uri), repair=True)
    try:
        return repairing()
    except FormatError:
        return repairing(config=with_settings(IndexConfig(DEFAULT_CHUNK_SIZE), settings))


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
    yes: Annotated[bool, typer.Option("--yes", help="Delete what a filter finds without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Delete chunks, by their ids or by a filter.

    What a filter finds is counted first, and deleted if you agree; without a terminal, --yes is needed. Ids that are
    not found are named; the exit code is 1 if none of them is.
    """
    conditions = _conditions(ids, filter)
    if conditions is not None and not (yes or dry_run or is_terminal()):
        msg = "nobody is there to confirm it: add --yes, or --dry-run to see what it finds"
        raise typer.BadParameter(msg, param_hint="--filter")
    with opt.open_index(uri, collection, token, read_only=dry_run) as index:
        chosen = _chosen(index, ids, conditions, namespace)
        missing = [id_ for id_ in dict.fromkeys(ids or ()) if id_ not in chosen]
        if conditions is not None and chosen and not (yes or dry_run):
            typer.confirm(f"Delete {counted(len(chosen), 'chunk')}?", abort=True, err=True)
        deleted = index.delete(list(chosen), namespace=namespace) if chosen and not dry_run else 0
    if missing:
        print_note(f"not found: {', '.join(missing[:MAX_SHOWN])}{', ...' if len(missing) > MAX_SHOWN else ''}")
    if as_json:
        print_json({"would_delete": list(chosen)} if dry_run else {"deleted": deleted})
    elif dry_run:
        show(f"{counted(len(chosen), 'chunk')} would be deleted; nothing was deleted", *chosen)
    else:
        show(f"{counted(deleted, 'chunk')} deleted")
    if missing and not chosen:
        raise typer.Exit(1)


def is_terminal() -> bool:
    """Tell whether somebody can be asked."""
    return sys.stdin.isatty()


def _conditions(ids: list[str] | None, filter: str | None) -> dict[str, Any] | str | None:
    """Read the filter, which must not be empty, and stands alone."""
    if bool(ids) == (filter is not None):
        msg = "give the ids of chunks, or --filter" + (", not both" if ids else "")
        raise typer.BadParameter(msg, param_hint="ID...")
    conditions = opt.parsed_filter(filter)
    if filter is not None and parse_filter(conditions) is None:
        msg = "an empty filter fits every chunk; to delete the whole index, use `rag-bm25 drop`"
        raise typer.BadParameter(msg, param_hint="--filter")
    return conditions


def _chosen(
    index: BM25Index, ids: list[str] | None, conditions: dict[str, Any] | str | None, namespace: str
) -> dict[str, None]:
    """Return the ids of the chunks that are there."""
    found = index.get(ids, namespace=namespace) if ids else index.chunks(filter=conditions, namespace=namespace)
    return {chunk.id: None for chunk in found}
