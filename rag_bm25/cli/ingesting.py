"""``rag-bm25 ingest``."""

import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from math import nan
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from rag_bm25 import ingestion
from rag_bm25.analysis.contract import require_analyzer
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import ingest_bar, print_error, print_note, print_result, progress_bars
from rag_bm25.cli.embedding import DenseSearch, Embedding, Model, load_model, require_model, search_judged
from rag_bm25.cli.gating import Outcome, RehearsalOptions
from rag_bm25.cli.rendering import count, join_first
from rag_bm25.cli.settings import (
    DEFAULT_CHUNK_SIZE,
    IndexOptions,
    Storage,
    WordFiles,
    as_usage,
    make_splitter,
    new_config,
    parse_storage,
    with_language,
)
from rag_bm25.cli.sources import STDIN, STDIN_NAME, OriginOptions, ReadingFlags, add_stdin, note_left_out
from rag_bm25.documents.contexts import HEADINGS
from rag_bm25.errors import ConfigMismatchError, IndexNotFoundError, InputError
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.index import BM25Index
from rag_bm25.index.settings import with_settings
from rag_bm25.index.stored_config import differing
from rag_bm25.index.writing.workers import MAX_WORKERS
from rag_bm25.ingestion.checking import MAX_REASONS_OF_SOURCE
from rag_bm25.ingestion.documents import COMMENTS, DAMAGED, HIDDEN, LOST
from rag_bm25.ingestion.files import SUFFIXES, FileSelection
from rag_bm25.ingestion.ingesting import IngestReport, require_valid_files
from rag_bm25.ingestion.language import sample_texts
from rag_bm25.ingestion.pruning import DELETE, MAX_DELETE
from rag_bm25.ingestion.source_options import as_flags
from rag_bm25.ingestion.source_roots import SourceRoot
from rag_bm25.ingestion.watching import Pause, Watcher
from rag_bm25.store.storage import StorageOptions

Check: TypeAlias = Callable[[IndexConfig], object]
"""Refuse the config of a new index."""

Prune: TypeAlias = Annotated[
    bool, opt.option("Delete the chunks of files or rows that are gone from what is given.", "--prune")
]
MaxDelete: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="PERCENT",
        help="Prune nothing of a folder or collection that has lost a larger share; five files may always be pruned.",
    ),
]
KEPT_BY = {HIDDEN: "--hidden", COMMENTS: "--hidden", LOST: "", DAMAGED: ""}  # kinds of what is left out
DEFAULT_MAX_DELETE = f"{MAX_DELETE:.0%}"

MAX_REASONS = 3  # of a source
MAX_SOURCES = 20


def ingest(
    place: opt.IndexAddress,
    settings: IndexOptions,
    words: WordFiles,
    sources: ReadingFlags,
    origin: OriginOptions,
    rehearsal: RehearsalOptions,
    paths: Annotated[list[Path] | None, opt.argument("PATH...", "Files and folders; - is standard input.")] = None,
    namespace: opt.Namespace = None,
    embedding: Embedding = None,
    split_size: opt.SplitSize = None,
    chunk_overlap: opt.ChunkOverlap = None,
    contextualize: Annotated[
        Literal["headings", ""] | None,
        opt.option(
            "Embed the title and the headings before the text of each chunk; they count as words anyway. '' for none."
        ),
    ] = None,
    prune: Prune = False,
    max_delete: MaxDelete = DEFAULT_MAX_DELETE,
    watch: Annotated[
        bool,
        opt.option("Keep the index in step: go on until Ctrl-C, and ingest files that change.", "--watch"),
    ] = False,
    root: Annotated[
        Path | None,
        opt.option(
            "Folder that sources are named by, which contains the paths; by default the folder that is "
            "given, or one around it that was ingested before.",
            metavar="DIR",
        ),
    ] = None,
    name: Annotated[
        str | None,
        opt.option(
            "Name of the folder or collection in sources, if it is not its own. For a folder that was moved: its old "
            "name."
        ),
    ] = None,
    stdin_name: Annotated[str, typer.Option(help="Source of the chunks of standard input; its ending is the kind.")] = (
        STDIN_NAME
    ),
    strict: Annotated[bool, opt.option("Write nothing if any file or row is invalid.", "--strict")] = False,
    workers: Annotated[
        int, typer.Option(min=0, max=MAX_WORKERS, help="Processes that analyse chunks while others are written.")
    ] = 0,
    storage: Storage = None,
    progress: opt.ShowProgress = None,
    as_json: opt.AsJson = False,
) -> None:
    """Bring an index up to date with files and folders, or with a collection of other software.

    The first run creates the index. Folders are read with all below them, except for hidden files and what .gitignore
    excludes. Documents (.txt, Markdown, .rst, HTML, EPUB, e-mail (.eml), notebooks (.ipynb), and with the extra
    `documents` PDF, DOCX, PPTX and XLSX) are cut into chunks at their headings. Each row of JSON lines, CSV or Parquet,
    {"_id", "title", "text"} or {"id", "text", "metadata"}, is a document; other keys of a row are metadata, too. A file
    or row that is invalid is reported and counted, and the others are ingested; the exit code is 1 then. Running it
    again updates changed chunks, adds new ones, and deletes those that a file no longer has; files that have not
    changed are not parsed again. With --prune, the chunks of files that are gone are deleted as well. A folder without
    any file, or one that has lost more than --max-delete, is an error, and keeps its chunks: it may be a mount that is
    missing.

    A row with the id of a row or chunk of another file is invalid as long as that file exists. --id-prefix '{source}#'
    makes the ids of each file its own.

    --chunk-size, --k1, --b, --idf, --field, --set, --user-words and --stop-words are settings of a new index, which
    keeps them; its chunk size is 500 by default. Files are cut into chunks of at most this length, or of --split-size.

    With each folder, the index remembers the options that say which of its files are read, and how they are read and
    cut: --include, --also, --exclude, --gitignore, --encoding, --text-field, --title-field, --id-field, --id-prefix,
    --hidden, --repeated, --split-size, --chunk-overlap and --contextualize. Later runs need none of them. Another value
    takes the place of the remembered one; '' or the default resets it. `rag-bm25 list sources` shows them.

    With --embedding, a new index has dense vectors beside the words, for hybrid searches; later runs need the same
    model. Only texts that are new or have changed are embedded.

    With --watch, files that change later are ingested as well, and with --prune the chunks of deleted ones are
    deleted. The index is open only while something is written, so that others can use a .db file in between.

    A chunk is named after its file, from the folder given: docs/guide.md#0. The index remembers the folder, so that
    docs/guide.md keeps that name when it is ingested by itself, and another folder called docs gets another name.

    --from-collection makes chunks of the rows of a collection, which is only read: texts are not cut, other fields are
    metadata, and the vectors of --vector-field are those of the index. Running it again brings the index up to date.

    With --dry-run, nothing is written, neither chunks nor statistics. --judged tells which of the queries of a judged
    set would get other hits, with the reasons, by the very scores that they would get; the exit code is 1 if a measure
    would be significantly worse, or lower than its --min.

    Each chunk has the title of its row or document, and its headings, in its metadata. They count beside the text,
    unless --field says otherwise: --field none. The text of a row begins with its title, too.
    """
    paths = paths or []
    if watch:
        _check_watch(paths, rehearsal)
    of_files = {"--watch": watch, "--root": root, "--stdin-name": stdin_name != STDIN_NAME}
    lengths: dict[str, Any] = {"split_size": split_size, "chunk_overlap": chunk_overlap}
    shaping = {**lengths, "contextualize": contextualize}
    given_shape = {f"--{name.replace('_', '-')}": value is not None for name, value in shaping.items()}
    origin.check(paths, sources, {**of_files, **given_shape})
    share = parse_percent(max_delete)
    _note_unused_context(contextualize, embedding)
    given, own_namespace = {**settings.given(), **words.given()}, namespace or ""
    sources.reading()  # refuses wrong options
    model = None if origin.vector_field else load_model(embedding)
    check = partial(make_splitter, **lengths)
    made_in = parse_storage(storage)
    writing: dict[str, Any] = {
        "namespace": own_namespace,
        "prune": prune,
        "max_delete": share,
        "strict": strict,
        "embeddings": model,
        "workers": workers,
    }
    open_index = partial(_open_or_create, place, given, storage=made_in, read_only=rehearsal.dry_run)
    search = partial(search_judged, DenseSearch(), model, {"namespace": own_namespace})
    outcome = Outcome(rehearsal.dry_run)
    target_of = partial(rehearsal.target, namespace=own_namespace, search=search, outcome=outcome)
    tell = partial(_tell, place, outcome, prune=prune, as_json=as_json)
    files = Watcher(partial(sources.find, paths, root=root, name=name), print_error)

    def ingest_rows(rows: ingestion.CollectionRows) -> bool:
        """Ingest rows, and return whether all of them were valid."""
        checks: list[Check] = [check, partial(rows.require_valid, strict=strict)]
        dense = rows if origin.vector_field else model
        index = open_index(dense, checks=checks, create=True, sample=rows.sample_texts)
        with index, target_of(index) as target, progress_bars(progress) as bars:
            start = time.perf_counter()
            report = rows.ingest_into(target, progress=bars, **writing)
            seconds = time.perf_counter() - start
        return tell(report, seconds, "row", rows.source)

    def ingest_found(found: FileSelection) -> bool:
        """Ingest files, and return whether all of them were valid; the index is open meanwhile only."""
        checks: list[Check] = [check, partial(require_valid_files, found=found, strict=strict, **shaping)]

        def sample(config: IndexConfig) -> list[str]:
            return sample_texts(found.files, make_splitter(config, chunk_overlap, split_size), sources.reading())

        index = open_index(model, checks=checks, create=bool(found.files), sample=sample)
        checked = as_usage("--chunk-overlap")
        with index, target_of(index) as target, ingest_bar(progress, found.size) as update, checked:
            start = time.perf_counter()
            report = ingestion.ingest(
                target,
                found,
                progress=update,
                **shaping,
                **writing,
            )
            seconds = time.perf_counter() - start
        files.note(report.failed, report.rejected)
        return tell(report, seconds, "file", count(report.files, "file"), skipped=found.skipped)

    if origin.from_collection is not None:
        with origin.open(place, sources, name) as rows:
            is_valid = ingest_rows(rows)
        _exit_unless(is_valid)
        return

    def ingest_changes() -> None:
        """Ingest the files that differ from what the index has, with the options that it remembers by now."""
        with place.running():
            files.catch_up(place.read_roots(own_namespace), ingest_found)

    with _open_roots(place, own_namespace, paths) as roots, add_stdin(files.take(roots), paths, stdin_name) as found:
        is_readable = _note_skipped(found)
        is_valid = is_readable and ((watch and not found.files) or ingest_found(found))
    if watch:
        print_note(f"watching {join_first(paths)}: Ctrl-C ends it")
        with stop_by_signals() as pause:
            files.watch(ingest_changes, pause)
    else:
        _exit_unless(is_valid)


def _exit_unless(is_valid: bool) -> None:
    if not is_valid:
        raise typer.Exit(1)


@contextmanager
def _open_roots(place: opt.IndexAddress, namespace: str, paths: Sequence[Path]) -> Iterator[list[SourceRoot]]:
    """Yield the folders that the index remembers; its engine runs on, unless standard input is read meanwhile."""
    if not {*paths} - {STDIN}:
        yield []
        return
    with ExitStack() as engine:
        engine.enter_context(place.running())
        roots = place.read_roots(namespace)
        if STDIN in paths:  # what writes to it may need the database
            engine.close()
        yield roots


def _check_watch(paths: list[Path], rehearsal: RehearsalOptions) -> None:
    """Refuse to watch what cannot change, or is not written."""
    if STDIN in paths:
        raise typer.BadParameter("standard input ends, and cannot be watched", param_hint="--watch")
    if rehearsal.dry_run:
        raise typer.BadParameter("a dry run writes nothing: leave one of the two out", param_hint="--watch")


def _note_unused_context(contextualize: str | None, embedding: str | None) -> None:
    """Note that headings would be embedded, and nothing is."""
    if contextualize == HEADINGS and embedding is None:
        print_note("--contextualize headings adds nothing without --embedding: headings count as words anyway")


def _with_place(report: IngestReport, place: opt.IndexAddress) -> IngestReport:
    """Name the index in the commands of a report."""
    bare = shlex.join(DELETE)
    command = shlex.join([*DELETE, *place.words])
    notes = [note.replace(bare, command) for note in report.notes]
    return replace(
        report, notes=notes, failed={source: reason.replace(bare, command) for source, reason in report.failed.items()}
    )


def parse_percent(text: str) -> float:
    """Read a percentage as a share."""
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = nan
    if not (text.endswith("%") and 0 <= share <= 1):
        msg = f"must be a percentage such as 20%, got {text!r}"
        raise typer.BadParameter(msg, param_hint="--max-delete")
    return share


def _print_rejected(report: IngestReport) -> None:
    """Print the reasons of the first rejected rows of each source, and how many more there are."""
    reasons = iter(report.reasons)  # in the order of the sources
    for source, total in islice(report.rejected.items(), MAX_SOURCES):
        told = list(islice(reasons, min(total, MAX_REASONS_OF_SOURCE)))[:MAX_REASONS]
        for reason in told:
            print_error(reason)
        if more := total - len(told):
            print_error(f"{source}: {count(more, 'more row' if told else 'row')} rejected")
    if (others := len(report.rejected) - MAX_SOURCES) > 0:
        print_error(f"{count(others, 'more file')} with rejected rows")


def _open_or_create(
    place: opt.IndexAddress,
    given: Mapping[str, Any],
    model: Model | ingestion.CollectionRows | None,
    *,
    checks: Sequence[Check],
    storage: StorageOptions | None,
    create: bool,
    read_only: bool,
    sample: Callable[[IndexConfig], Sequence[str]],
) -> BM25Index:
    """Open the index, which must have the given settings, or create it with them unless a check refuses.

    One that is only to be read is created in memory. A sample of the texts of a new one tells their language.
    """
    try:
        index = place.open(storage=storage, read_only=read_only)
    except IndexNotFoundError:
        if not create:
            raise InputError("there is nothing to ingest, so no index was created") from None
        config = new_config(DEFAULT_CHUNK_SIZE, place.text_analyzer, given)
        config = config if model is None else model.with_dense_field(config)
        for check in checks:
            check(config)
        config = with_language(config, given, partial(sample, config))
        if read_only:
            return BM25Index.open(":memory:", place.collection, config=config)
        return place.open(config=config, storage=storage)
    try:
        require_analyzer(index.config.analyzer)
        _require_same(index.config, with_settings(index.config, given))
        require_model(model, index.config)
    except BaseException:
        index.close()
        raise
    return index


def _require_same(stored: IndexConfig, wanted: IndexConfig) -> None:
    if wanted != stored and (found := differing(stored, wanted)):
        raise ConfigMismatchError(
            f"the index was created with other settings: {'; '.join(found)}. Leave them out, or make another index "
            "with `rag-bm25 reindex`."
        )


def _note_skipped(found: FileSelection) -> bool:
    """Name the files that are left out; return False if files were found but none is readable."""
    note_left_out(found)
    if not (found.files or found.unreadable):
        print_note(f"there is no file to ingest: those that are read {_kinds_read(found)}")
    if not found.files:
        _print_failures(found.unreadable)
    return bool(found.files or not found.unreadable)


def _kinds_read(found: FileSelection) -> str:
    """Say which files are read, by the patterns that are given or remembered."""
    options = {**found.remembered, **found.options}
    patterns = as_flags({name: options[name] for name in ("include", "also") if options.get(name)})
    kinds = [] if options.get("include") else [f"end in {', '.join(SUFFIXES)}"]
    return " or ".join([*kinds, *([f"match {patterns}"] if patterns else [])])


def _print_failures(reasons: Mapping[Any, str]) -> None:
    """Print the reasons of failures."""
    for reason in reasons.values():
        print_error(reason)


def _tell(
    place: opt.IndexAddress,
    outcome: Outcome,
    report: IngestReport,
    seconds: float,
    what: str,
    whole: str,
    *,
    prune: bool,
    as_json: bool,
    skipped: Sequence[Path] = (),
) -> bool:
    """Print a report of files or rows, and return whether all of them were valid, and no measure is worse."""
    report = _with_place(report, place)
    _print_report(report, skipped, seconds, whole, outcome.to_dict() if as_json else None)
    if report.stale and not prune and not as_json:
        stale = f"{count(report.stale, 'chunk')} {'is' if report.stale == 1 else 'are'} stale (the {what}s are gone)"
        print_note(f"{stale}. Use --prune to delete such chunks.")
    _print_rejected(report)
    _print_failures(report.failed)
    is_good = outcome.tell(as_json=as_json)
    sys.stdout.flush()  # readers of a pipe wait for each report
    return is_good and not (report.rejected or report.failed)


def _print_report(
    report: IngestReport, skipped: Sequence[Path], seconds: float, whole: str, more: Mapping[str, Any] | None
) -> None:
    """Print a report for people, or with `more` for machines."""
    rate = report.chunks / seconds
    rejected = sum(report.rejected.values())
    failed = f", {len(report.failed):,} failed" if report.failed else ""
    invalid = f"; {count(rejected, 'row')} rejected" if rejected else ""
    for note in report.notes:
        print_note(note)
    if report.left_out and more is None:
        print_note(f"left out: {'; '.join(_left_out(report.left_out))}")
    print_result(
        more is not None,
        {
            **asdict(report),
            "skipped": list(map(str, skipped)),
            "seconds": seconds,
            "chunks_per_second": rate,
            **(more or {}),
        },
        f"{whole}{failed}, {count(report.chunks, 'chunk')}: {report.added:,} added, "
        f"{report.updated:,} updated, {report.unchanged:,} unchanged, {report.deleted:,} deleted{invalid}; "
        f"{seconds:.1f} s, {rate:,.0f} chunks/s",
    )


def _left_out(kinds: Mapping[str, int]) -> Iterator[str]:
    """Yield what was left out, with the option that keeps it."""
    for option in ("--repeated", "--hidden", ""):
        found = {kind: number for kind, number in kinds.items() if KEPT_BY.get(kind, "--repeated") == option}
        if found:
            told = ", ".join(f"{kind} {count(number, 'character')}" for kind, number in found.items())
            yield f"{told} (kept with {option})" if option else told


@contextmanager
def stop_by_signals() -> Iterator[Pause]:
    """Yield a pause that ends when the process is asked to stop; a second Ctrl-C interrupts what it does."""
    asked: list[int] = []

    def ask(number: int, _frame: Any) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    def pause(seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not asked and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
        return not asked

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield pause
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
