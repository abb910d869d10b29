"""``rag-bm25 stats``, ``verify``, ``repair``, ``delete`` and ``drop-namespace``."""

from dataclasses import asdict
from itertools import chain
from typing import Annotated, Any, cast

import typer

from rag_bm25.cli import options as opt
from rag_bm25.cli.console import confirm, print_note, print_result, progress_bars
from rag_bm25.cli.rendering import changed_query_side, count, join_first, natural_key, render_stats
from rag_bm25.cli.settings import DEFAULT_CHUNK_SIZE, IndexOptions, WordFiles, new_config
from rag_bm25.errors import ClockError, FormatError
from rag_bm25.filters import parse_filter
from rag_bm25.index.arguments import name_namespace
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.maintenance.verification import RepairReport
from rag_bm25.ingestion.obsolete import below_folder
from rag_bm25.ingestion.pruning import is_below
from rag_bm25.ingestion.source_names import nfc
from rag_bm25.weighting.calibration import calibrate, drift_warning, idf_warning

MAX_DIFFERENCES = 20
INCONCLUSIVE = 3  # exit code


def stats(place: opt.IndexAddress, namespace: opt.StatsNamespaces = None, as_json: opt.AsJson = False) -> None:
    """Show the figures of an index.

    s, k1' and b' show the effect of the chunk size: the exact BM25, with the measured mean length, that scores the
    same. There is a warning if s is below 0.8 or above 4, which has cost quality on judged sets, and
    one if more than half of the chunks have what may be a name, or three other words: if most queries do, too,
    idf=lucene is better. What searches go by is shown where it is not the
    default, such as what `rag-bm25 set` has set.
    """
    with place.open_existing(read_only=True) as index:
        figures = index.stats(namespace=namespace or None)
        names = index.frequent_names(namespace=namespace or None)
        given = changed_query_side(index.config)
    warnings = {
        "drift_warning": drift_warning(figures.chunk_size_ratio, figures.num_chunks, figures.k1, figures.b),
        "idf_warning": idf_warning(figures.idf, names),
    }
    result = {**asdict(figures), "searches_by": given, "frequent_names": names, **warnings}
    print_result(as_json, result, render_stats(figures, given))
    there = join_first(map(name_namespace, figures.namespaces)) or "none"
    for name in namespace or ():
        if name not in figures.namespaces:
            print_note(f"{name_namespace(name)} has no chunks; namespaces with chunks: {there}")
    if drift := warnings["drift_warning"]:
        proposed = calibrate(figures.mean_length, figures.num_chunks).chunk_size
        print_note(f"{drift}; `rag-bm25 reindex --chunk-size {proposed}` changes it")
    if of_idf := warnings["idf_warning"]:
        print_note(of_idf)


def verify(
    place: opt.IndexAddress,
    fast: Annotated[bool, opt.option("Only count: needs no analyzer, as no text is encoded again.", "--fast")] = False,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare the statistics with a recount of all chunks, and each vector with its text.

    On a server, others may write meanwhile: what their writes explain is no difference. Exit code 1 if there are
    differences, which `rag-bm25 repair` corrects; 3 if that cannot be told, for a reason that is named.
    """
    with place.open_existing() as index, progress_bars(progress) as update:
        report = index.verify(vectors=not fast, progress=update)
    right = "the statistics are right" + ("; vectors were not compared with their texts" if fast else "")
    verdict = right if report.ok else report.inconclusive or count(len(report.differences), "difference")
    line = f"{count(report.num_chunks, 'chunk')} and {count(report.num_terms, 'term')} counted: {verdict}"
    shown = map(str, report.differences[:MAX_DIFFERENCES])
    print_result(as_json, {"ok": report.ok, **asdict(report)}, line, *shown)
    if report.other_generations and not as_json:
        print_note(f"{_name_others(report.other_generations)} kept beside this one: `reindex --drop-old` drops them")
    if (more := len(report.differences) - MAX_DIFFERENCES) > 0 and not as_json:
        print_note(f"{more:,} more: --json shows all")
    if not report.ok:
        raise typer.Exit(1 if report.differences else INCONCLUSIVE)


def _name_others(generations: dict[int, int]) -> str:
    return join_first(f"generation {number} ({count(rows, 'row')})" for number, rows in generations.items())


def repair(
    place: opt.IndexAddress,
    settings: IndexOptions,
    words: WordFiles,
    erase: Annotated[bool, opt.option("Erase the words of deleted chunks for good.", "--erase")] = False,
    accept_loss: Annotated[
        bool, opt.option("Count the chunks that are there, though some are missing.", "--accept-loss")
    ] = False,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Replace the statistics by a recount of all chunks, and vectors that are not those of their texts.

    The statistics are right afterwards, whatever happened to them. On a server, stop all writers first: it is refused
    while they write, and where chunks are missing. A repair that is cut short can be run again. An index that has lost
    its settings gets the given ones, by default those of a new index, if they give the vectors that are stored.

    With --erase, the vocabulary keeps no words of deleted chunks, and the file of milvus-lite 2.5 is rewritten, for
    which its disk needs the room of a second one. It is refused while other generations of the index are kept.
    """
    config = new_config(DEFAULT_CHUNK_SIZE, place.text_analyzer, {**settings.given(), **words.given()})
    report = _repair(place, config, progress, erase=erase, accept_loss=accept_loss)
    print_result(
        as_json,
        asdict(report),
        f"the statistics are right: {count(report.num_chunks, 'chunk')}, {count(report.num_terms, 'term')}",
        f"finished: {count(report.unfinished, 'interrupted write')}",
        f"deleted: {count(report.superseded, 'old row')} of chunks that have a newer one",
        f"recovered: {count(report.recovered_terms, 'lost term')}",
        f"written again: {count(report.rewritten, 'chunk')} with a vector that its text does not give",
        f"left: {count(report.foreign, 'row')} of other tools, {count(report.nameless_terms, 'nameless term')}",
        *([f"erased: {count(report.erased_terms, 'term')} without chunks"] if erase else []),
    )
    if erase and not report.compacted:
        print_note(
            "the database was not rewritten, and may still have deleted texts: copy the index with `rag-bm25 copy`, "
            "and remove the old one"
        )


def _repair(place: opt.IndexAddress, config: IndexConfig, progress: bool | None, **options: bool) -> RepairReport:
    """Repair an index, also one that cannot be opened."""
    try:
        index = place.open_existing()
    except (ClockError, FormatError):  # it is repaired while it is opened
        try:
            index = place.open(repair=True)
        except FormatError:  # its own settings are lost, too
            index = place.open(repair=True, config=config)
        if not any(options.values()):
            with index:
                return cast("RepairReport", index.repaired)
    with index, progress_bars(progress) as update:
        return index.repair(**options, progress=update)


def delete(
    place: opt.IndexAddress,
    ids: Annotated[list[str] | None, opt.argument("ID...", "Ids of chunks.")] = None,
    source: Annotated[
        list[str] | None,
        opt.option(
            "Delete all chunks of a source, as `rag-bm25 list sources` has it, or of a folder: docs/. May be repeated.",
            metavar="NAME",
        ),
    ] = None,
    namespace: opt.Namespace = None,
    filter: opt.Filter = None,
    yes: Annotated[bool, opt.confirmation("Delete what a filter or source finds without asking.")] = False,
    dry_run: Annotated[
        bool, opt.option("List the chunks that would be deleted, and delete nothing.", "--dry-run")
    ] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Delete chunks, by their ids, their sources or a filter.

    The chunks of a source, or that a filter finds, are counted first, and deleted if you agree; without a terminal,
    --yes is needed. Ids and sources that are not found are named; the exit code is 1 if none of them is.
    """
    source = source and list(map(nfc, source))
    conditions, own = _parse_conditions(ids, source, filter), namespace or ""
    with place.open_existing(read_only=dry_run) as index:
        chunks = index.get(ids, namespace=own) if ids else index.chunks(filter=conditions, namespace=own)
        sources = {chunk.id: str(chunk.metadata.get("source")) for chunk in chunks}
        asked = _find_asked(ids, source, sources)
        chosen = sorted(set(sources if source is None else chain(*asked.values())), key=natural_key)
        if conditions is not None and chosen and not dry_run:
            confirm(count(len(chosen), "chunk"), yes)
        deleted = index.delete(chosen, namespace=own) if chosen and not dry_run else 0
    missing = [name for name, there in asked.items() if not there]
    if missing:
        what = count(len(asked), "source" if source else "id")
        print_note(f"{len(missing):,} of {what} not found: {join_first(missing)}")
    if dry_run:
        line = f"{count(len(chosen), 'chunk')} would be deleted; nothing was deleted"
        print_result(as_json, {"would_delete": chosen}, line, *chosen)
    else:
        print_result(as_json, {"deleted": deleted}, f"{count(deleted, 'chunk')} deleted")
    if missing and not chosen:
        raise typer.Exit(1)


def drop_namespace(
    name: Annotated[str, opt.argument("NAME", "The namespace, such as that of a tenant who leaves.")],
    place: opt.IndexAddress,
    yes: Annotated[bool, opt.confirmation("Delete them without asking.")] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Delete all chunks of a namespace, and what the index remembers of its folders.

    They are counted first, and deleted if you agree; without a terminal, --yes is needed. The exit code is 1 if the
    namespace has no chunks. Afterwards, `repair --erase` deletes their words and texts for good.
    """
    with place.open_existing() as index:
        chunks = index.stats(namespace=name).num_chunks
        if chunks:
            confirm(f"{name_namespace(name)} with {count(chunks, 'chunk')}", yes)
        index.drop_namespace(name)
        there = join_first(map(name_namespace, index.stats().namespaces)) or "none"
    lines = [f"dropped {name_namespace(name)}: {count(chunks, 'chunk')}"] if chunks else []
    print_result(as_json, {"chunks": chunks}, *lines)
    if not chunks:
        print_note(f"{name_namespace(name)} has no chunks; namespaces with chunks: {there}")
        raise typer.Exit(1)


def _find_asked(ids: list[str] | None, names: list[str] | None, sources: dict[str, str]) -> dict[str, list[str]]:
    """Return the ids of the chunks that each given id or source stands for."""
    if names:
        return {name: [id_ for id_, source in sources.items() if is_below(source, name)] for name in names}
    return {id_: [id_] if id_ in sources else [] for id_ in ids or ()}


def _parse_conditions(ids: list[str] | None, sources: list[str] | None, filter: str | None) -> Any:
    """Return the filter, which must not be empty, or that of the sources; None for ids, since one thing is given."""
    given = bool(ids) + bool(sources) + (filter is not None)
    if given != 1:
        msg = "give the ids of chunks, --source or --filter" + (", one of them" if given else "")
        raise typer.BadParameter(msg, param_hint="ID...")
    if sources:
        return {"$or": [below_folder(name) if name.endswith("/") else {"source": name} for name in sources]}
    conditions = opt.parse_filter_option(filter)
    if filter is not None and parse_filter(conditions) is None:
        msg = "an empty filter fits every chunk; to delete the whole index, use `rag-bm25 drop`"
        raise typer.BadParameter(msg, param_hint="--filter")
    return conditions
