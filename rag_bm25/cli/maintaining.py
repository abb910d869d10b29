"""``rag-bm25 stats``, ``rag-bm25 verify`` and ``rag-bm25 delete``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

from dataclasses import asdict
from typing import Annotated

import typer

from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_json, print_note, show
from rag_bm25.cli.rendering import counted, stats_table


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
    the same.
    """
    with opt.open_index(uri, collection, token, read_only=True) as index:
        figures = index.stats(namespace=namespace)
    if as_json:
        print_json(asdict(figures))
    else:
        show(stats_table(figures))


def verify(
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    token: opt.Token = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare the statistics with a recount of all chunks.

    Exit code 1 where they differ.
    """
    with opt.open_index(uri, collection, token) as index:
        report = index.verify()
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        verdict = "the statistics are right" if report.ok else counted(len(report.differences), "difference")
        show(f"{counted(report.num_chunks, 'chunk')} and {counted(report.num_terms, 'term')} counted: {verdict}")
        show(*map(str, report.differences))
    if not report.ok:
        raise typer.Exit(1)


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
