"""``rag-bm25 copy``, ``reindex`` and ``drop``."""

import time
from contextlib import ExitStack, closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rag_bm25.analysis.contract import require_analyzer
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import confirm, print_note, print_result, progress_bars
from rag_bm25.cli.rendering import count
from rag_bm25.cli.settings import IndexOptions, Storage, WordFiles, parse_storage
from rag_bm25.errors import ConfigMismatchError, FormatError, IndexNotFoundError
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.maintenance.copying import CopyPlan, copy_index, drop_index, plan_copy
from rag_bm25.index.maintenance.generations import drop_former_generations
from rag_bm25.index.settings import with_settings
from rag_bm25.ingestion.former import open_former, read_former_config, reindex_former
from rag_bm25.ingestion.reindexing import ReindexReport, reindex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rag_bm25.store.protocol import Store
    from rag_bm25.store.storage import StorageOptions

ToToken: TypeAlias = Annotated[
    str | None,
    opt.option(
        "user:password or API key of the server that is written to, or the file that has it; never shown.",
        envvar="MILVUS_TO_TOKEN",
        callback=opt.read_token,
        metavar="TOKEN|@FILE",
    ),
]


def copy(
    to_uri: Annotated[
        str,
        opt.option("Where to: a file ending in .db, or the URI of a Milvus server.", callback=opt.refuse_memory),
    ],
    place: opt.StoreAddress,
    to_collection: Annotated[str | None, opt.option("Name of the copy; by default that of the index.")] = None,
    to_token: ToToken = None,
    storage: Storage = None,
    dry_run: Annotated[bool, opt.option("Show what would be copied, and write nothing.", "--dry-run")] = False,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Copy an index to another file or server.

    Chunks, vectors and statistics are taken as they are, then all rows are compared and counted again. A copy that is
    cut short cannot be opened; running the same command again does the rest.
    """
    from rag_bm25.store.milvus.address import is_missing_file

    start, options = time.perf_counter(), parse_storage(storage)
    to = opt.StoreAddress(to_uri, to_collection or place.collection, to_token)
    _require_another(to, place)
    with ExitStack() as stores:
        source = stores.enter_context(closing(place.store(read_only=True)))
        target = None
        if not (dry_run and is_missing_file(to_uri)):
            target = stores.enter_context(closing(to.store(read_only=dry_run, storage=options)))
        plan = plan_copy(source, target)
        if target is None or dry_run:
            _show_plan(plan, f"a new file, collection {to.collection!r}" if target is None else target.name, as_json)
            return
        with progress_bars(progress) as update:
            report = copy_index(source, target, progress=update)
        name, seconds = target.name, time.perf_counter() - start
    print_result(
        as_json,
        {**asdict(report), "seconds": seconds},
        f"{count(report.num_chunks, 'chunk')} and {count(report.num_terms, 'term')} in {name}, equal to the "
        f"source; {count(report.copied, 'row')} written in {seconds:.1f} s",
    )


def reindex_(
    place: opt.IndexAddress,
    settings: IndexOptions,
    words: WordFiles,
    to_collection: Annotated[
        str | None, opt.option("Name of a new index; by default the index is replaced under its own name.")
    ] = None,
    to_uri: Annotated[
        str | None,
        opt.option("Place of the new index; by default that of the old one.", callback=opt.refuse_memory),
    ] = None,
    to_token: ToToken = None,
    storage: Storage = None,
    drop_old: Annotated[
        bool,
        opt.option("Drop all generations but the one in force, and do nothing else.", "--drop-old"),
    ] = False,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Encode the stored texts again with other settings, in place or into a new index.

    In place, searches and writes go on. The next generation is made beside the present one, and comes into force under
    the same name; the former one keeps its chunks until --drop-old.

    Settings that are not given stay; an analyzer of your own must be named again, and --analyzer
    rag_bm25.analysis:Analyzer goes back to the built-in one. With other settings, the model of calibrate-answers is not
    kept: fit it again. Run the same command again after an interruption. With
    --to-collection that also catches up with later writes to the old index; then let the readers open the new one. Of
    an index of an earlier format, the texts are read, and the settings that this version has.
    """
    given, options = {**settings.given(), **words.given()}, parse_storage(storage)
    if drop_old:
        if given or options or to_collection or to_uri:
            raise typer.BadParameter("makes no index, so that it takes no settings", param_hint="--drop-old")
        _drop_old(place, as_json)
        return
    if to_collection is None and to_uri is None:
        _reindex_in_place(place, given, options, progress, as_json)
        return
    to = opt.IndexAddress(
        to_uri or place.uri,
        to_collection or place.collection,
        to_token if to_uri not in {None, place.uri} else place.token,
    )
    _require_another(to, place)
    with ExitStack() as opened:
        stored, encode = _open_source(place, given, opened)
        config = with_settings(opt.with_analyzer(stored, place.text_analyzer), given)
        require_analyzer(config.analyzer)
        try:
            target = to.open(config=config, storage=options)
        except ConfigMismatchError as error:
            msg = f"{to.collection!r} already exists, and {error}. Drop it first, or choose another --to-collection."
            raise ConfigMismatchError(msg) from None
        with target, progress_bars(progress) as update:
            report, name = encode(target, progress=update), target.stats().name
    line = f"{name} has {count(report.num_chunks, 'chunk')}; {count(report.removed, 'chunk')} removed"
    _print_report(as_json, report, line)


def _reindex_in_place(
    place: opt.IndexAddress,
    given: "Mapping[str, Any]",
    storage: "StorageOptions | None",
    progress: bool | None,
    as_json: bool,
) -> None:
    """Replace an index by its next generation."""
    with place.open_existing(analyzer=None, storage=storage) as index:
        before = index.stats().name  # which names the generation
        config = with_settings(opt.with_analyzer(index.config, place.text_analyzer), given)
        require_analyzer(config.analyzer)
        with progress_bars(progress) as update:
            report = reindex(index, config, progress=update)
        name = index.stats().name
    if name == before:
        line = f"{name} has these settings already: nothing has changed"
    else:
        line = f"{name} is in force: {count(report.num_chunks, 'chunk')}; --drop-old drops the former generations"
    _print_report(as_json, report, line)


def _print_report(as_json: bool, report: ReindexReport, line: str) -> None:
    print_result(as_json, asdict(report), line)
    if report.model_lost:
        print_note("the confidence model was not kept: run `rag-bm25 calibrate-answers` again")


def _drop_old(place: opt.IndexAddress, as_json: bool) -> None:
    with place.open_existing(), closing(place.store()) as store:
        rows, name = drop_former_generations(store), store.name
    print_result(as_json, {"rows": rows}, f"dropped all of {name} but the generation in force: {count(rows, 'row')}")


def _open_source(
    place: opt.IndexAddress, given: "Mapping[str, Any]", opened: ExitStack
) -> "tuple[IndexConfig, Callable[..., ReindexReport]]":
    """Open an index, or the store of one of an earlier format; return its config, and what encodes it into another."""
    try:
        # The analyzer that was named is for the new index.
        index = opened.enter_context(place.open_existing(read_only=True, analyzer=None))
    except FormatError:
        first = opened.enter_context(closing(place.store(read_only=True)))
        store = opened.enter_context(open_former(first))
        if store is None:
            raise
        config = _read_former_config(store, given)
        return config, partial(reindex_former, store, config)
    return index.config, partial(reindex, index)


def _read_former_config(store: "Store", given: "Mapping[str, Any]") -> IndexConfig:
    """Read the config of an index of an earlier format; where it is lost, the given settings are all there are."""
    try:
        config, left_out = read_former_config(store)
    except FormatError as error:
        if "chunk_size" not in given:
            msg = f"{error}: give --chunk-size, and each other one that the new index must have"
            raise FormatError(msg) from None
        return with_settings(IndexConfig(1, dense_dim=store.dense_dim()), given)
    if left_out:
        names = ", ".join(left_out)
        print_note(f"settings of {store.name} that this version does not have, or refuses, are left out: {names}")
    return config


def drop(
    place: opt.StoreAddress,
    yes: Annotated[bool, opt.confirmation("Delete it without asking.")] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Delete an index with everything in it, all its generations included.

    It may be damaged, or an unfinished copy. Its chunks are counted first, and it is deleted if you agree; without a
    terminal, --yes is needed. A collection that is not an index is refused. The file of milvus-lite 2.5 is then
    rewritten, for which its disk needs the room of what is left in it.
    """
    from rag_bm25.store.milvus.address import is_missing_file

    if is_missing_file(place.uri):  # which opening it for writing would create
        raise IndexNotFoundError(f"database {place.uri} not found")
    if not yes:
        with closing(place.store(read_only=True)) as store:
            found = f"{store.name} with {count(drop_index(store, dry_run=True), 'chunk')}"
        confirm(found, yes)
    with closing(place.store()) as store:
        chunks, name = drop_index(store), store.name
    print_result(as_json, {"chunks": chunks}, f"dropped {name}: {count(chunks, 'chunk')}")


def _require_another(to: opt.StoreAddress, place: opt.StoreAddress) -> None:
    """Refuse the index itself, which the library would advise to drop first."""
    if to.collection == place.collection and (
        to.uri == place.uri or Path(to.uri).resolve() == Path(place.uri).resolve()
    ):
        msg = "this is the index itself: give another name, or another place (--to-uri)"
        raise typer.BadParameter(msg, param_hint="--to-collection")


def _show_plan(plan: CopyPlan, target: str, as_json: bool) -> None:
    what = f"{count(plan.num_chunks, 'chunk')} and {count(plan.num_terms, 'term')} of {plan.source}"
    begun = "going on with a copy that was cut short" if plan.resumes else "a new copy"
    print_result(as_json, asdict(plan), f"would copy {what} to {target}: {begun}; nothing was written")
