"""``rag-bm25 copy``, ``reindex`` and ``drop``."""

# Typer reads annotations at run time: no ``from __future__ import annotations`` in modules with commands.

import time
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from rag_bm25.cli import options as opt
from rag_bm25.cli.configurations import settings_of
from rag_bm25.cli.console import count_bars, print_json, recount_bar, show
from rag_bm25.cli.rendering import counted
from rag_bm25.copying import CopyPlan, copy_index, drop_index, plan_copy
from rag_bm25.errors import IndexNotFoundError
from rag_bm25.evaluation.settings import with_settings
from rag_bm25.index import BM25Index
from rag_bm25.reindexing import reindex

ToToken: TypeAlias = Annotated[
    str | None,
    typer.Option(
        envvar="MILVUS_TO_TOKEN",
        callback=opt.secret,
        show_default=False,
        metavar="TOKEN|@FILE",
        help="user:password or API key of the server that is written to, or the file that has it; never shown.",
    ),
]


def copy(
    to_uri: Annotated[
        str, typer.Option(show_default=False, help="Where to: a file ending in .db, or the URI of a Milvus server.")
    ],
    to_collection: Annotated[
        str | None, typer.Option(show_default=False, help="Name of the copy; by default that of the index.")
    ] = None,
    to_token: ToToken = None,
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    token: opt.Token = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be copied, and write nothing.")] = False,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Copy an index to another file or server.

    Chunks, vectors and statistics are taken as they are, then all rows are compared and counted again. A copy that is
    cut short cannot be opened; running the same command again does the rest.
    """
    from rag_bm25.milvus_store import MilvusStore, is_missing_file

    name, start = to_collection or collection, time.perf_counter()
    _require_another(to_uri, name, uri, collection)
    with ExitStack() as stores:
        source = MilvusStore(uri, collection, token=token, tls=opt.tls_for(uri), read_only=True)
        stores.enter_context(closing(source))
        if dry_run and is_missing_file(to_uri):
            target = None
        else:
            target = MilvusStore(to_uri, name, token=to_token, tls=opt.tls_for(to_uri), read_only=dry_run)
            stores.enter_context(closing(target))
        plan = plan_copy(source, target)
        if target is None or dry_run:
            _show_plan(plan, f"a new file, collection {name!r}" if target is None else target.name, as_json)
            return
        with count_bars(progress, dict.fromkeys(("copied", "checked"), plan.num_chunks)) as move:
            report = copy_index(source, target, progress=lambda what, done, _: move(what, done))
        place, seconds = target.name, time.perf_counter() - start
    if as_json:
        print_json({**asdict(report), "seconds": seconds})
        return
    show(
        f"{counted(report.num_chunks, 'chunk')} and {counted(report.num_terms, 'term')} in {place}, equal to the "
        f"source; {counted(report.copied, 'row')} written in {seconds:.1f} s"
    )


def reindex_(
    to_collection: Annotated[str, typer.Option(show_default=False, help="Name of the new index.")],
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE,...",
            show_default=False,
            help="What is to differ, such as chunk_size=400.",
        ),
    ] = None,
    to_uri: Annotated[
        str | None,
        typer.Option(show_default=False, help="Where the new index is to be; by default where the old one is."),
    ] = None,
    to_token: ToToken = None,
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    token: opt.Token = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Encode the stored texts again, with other parameters, into a new index.

    The old one answers searches meanwhile, and stays. Run the same command again after an interruption, or to catch up
    with what was written to the old index; then let the readers open the new one.
    """
    settings = settings_of(",".join(setting or ()), "--set")
    place = to_uri or uri
    _require_another(place, to_collection, uri, collection)
    with opt.open_index(uri, collection, token, read_only=True) as source:
        config = with_settings(source.config, settings)
        to_token = token if place == uri else to_token
        with (
            BM25Index.open(place, to_collection, config=config, token=to_token, tls=opt.tls_for(place)) as target,
            recount_bar(progress, "encoding") as move,
        ):
            report, name = reindex(source, target, progress=move), target.stats().name
    if as_json:
        print_json(asdict(report))
    else:
        show(f"{name} has {counted(report.num_chunks, 'chunk')}; {counted(report.removed, 'chunk')} removed")


def drop(
    uri: opt.Uri = opt.DEFAULT_URI,
    collection: opt.Collection = "docs",
    token: opt.Token = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete it; without this, only say what would be deleted.")
    ] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Delete an index with everything in it, also a damaged one or an unfinished copy.

    Without --yes, it is only counted. A collection that is not an index is refused.
    """
    from rag_bm25.milvus_store import MilvusStore, is_missing_file

    if is_missing_file(uri):  # which opening it for writing would create
        msg = f"there is no database at {uri}"
        raise IndexNotFoundError(msg)
    with closing(MilvusStore(uri, collection, token=token, tls=opt.tls_for(uri), read_only=not yes)) as store:
        chunks, name = drop_index(store, dry_run=not yes), store.name
    if as_json:
        print_json({"chunks": chunks, "dropped": yes})
    elif yes:
        show(f"dropped {name}: {counted(chunks, 'chunk')}")
    else:
        show(f"{name} has {counted(chunks, 'chunk')}; nothing was deleted: --yes drops it")


def _require_another(to_uri: str, to_collection: str, uri: str, collection: str) -> None:
    """Refuse the index itself, of which one would be told to drop it first."""
    if to_collection == collection and (to_uri == uri or Path(to_uri).resolve() == Path(uri).resolve()):
        msg = "this is the index itself: give another name, or another place (--to-uri)"
        raise typer.BadParameter(msg, param_hint="--to-collection")


def _show_plan(plan: CopyPlan, target: str, as_json: bool) -> None:
    if as_json:
        print_json(asdict(plan))
        return
    what = f"{counted(plan.num_chunks, 'chunk')} and {counted(plan.num_terms, 'term')} of {plan.source}"
    begun = "going on with a copy that was cut short" if plan.resumes else "a new copy"
    show(f"would copy {what} to {target}: {begun}; nothing was written")
