"""The options that say which files are read, and how."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from rag_bm25 import ingestion
from rag_bm25.checks import check_parameter
from rag_bm25.cli import options as opt
from rag_bm25.cli.certificates import get_tls
from rag_bm25.cli.console import print_note
from rag_bm25.cli.rendering import count, join_first
from rag_bm25.cli.settings import as_usage
from rag_bm25.errors import InputError, ParameterError
from rag_bm25.ingestion.files import NO_PATTERNS, SUFFIXES, FileSelection, SourceFile, is_known, needs_package
from rag_bm25.ingestion.source_names import check_root_name
from rag_bm25.ingestion.source_options import as_flags, merge, unflatten
from rag_bm25.ingestion.source_roots import SourceRoot

STDIN = Path("-")
STDIN_NAME = "stdin.txt"
BLOCK = 1 << 20  # bytes
MAX_NOTES = 5
UNREAD_DOCUMENTS = {
    ".doc", ".docm", ".dot", ".key", ".mobi", ".msg", ".numbers", ".odp", ".ods", ".odt", ".ofd", ".org", ".pages",
    ".ppt", ".pptm", ".rtf", ".tex", ".wps", ".xls", ".xlsb", ".xlsm", ".xml",
}  # fmt: skip
"""Kinds of documents that are not read; those who have some want to know."""


@dataclass(frozen=True)
class ReadingFlags:
    """The options that say which files are read, and how."""

    include: Annotated[
        list[str] | None,
        opt.option(
            "Read only files that match, as in a .gitignore; files of other kinds that match are read as text. "
            "May be repeated; '' for no pattern.",
            metavar="PATTERN",
        ),
    ] = None
    also: Annotated[
        list[str] | None,
        opt.option(
            "Read files that match, too, those of other kinds as text. May be repeated; '' for no pattern.",
            metavar="PATTERN",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        opt.option("Leave out files and folders that match. May be repeated; '' for no pattern.", metavar="PATTERN"),
    ] = None
    gitignore: Annotated[
        bool | None,
        opt.option("Leave out what .gitignore files exclude; by default yes.", "--gitignore/--no-gitignore"),
    ] = None
    encoding: Annotated[
        str | None,
        opt.option("Encoding of texts, such as gb18030, big5 or utf-16; by default UTF-8, or what is detected."),
    ] = None
    text_field: Annotated[
        str | None,
        opt.option(
            "Text of rows of JSON lines, CSV, Parquet and collections; by default text. Several, name,note, are lines"
            " of it, and so are all columns of a table without the default one."
        ),
    ] = None
    title_field: Annotated[str | None, opt.option("Name of the title in rows; by default title.")] = None
    id_field: Annotated[
        str | None, opt.option("Name of the id in rows; by default _id or id, and the key of a collection.")
    ] = None
    id_prefix: Annotated[
        str | None,
        opt.option("Text before the ids of rows; {source} in it is the name of their source.", metavar="TEXT"),
    ] = None
    file_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds for extracting the text of one document.")
    ] = 120.0
    hidden: Annotated[
        bool | None,
        opt.option(
            "Read what is hidden, too: sheets, rows, columns, slides, texts and comments.", "--hidden/--no-hidden"
        ),
    ] = None
    repeated: Annotated[
        bool | None,
        opt.option(
            "Keep what repeats: running heads and feet, numbers of pages and lines, contents, and menus.",
            "--repeated/--no-repeated",
        ),
    ] = None

    def reading(self) -> ingestion.ReadOptions:
        """Return how files are read, but for what an index remembers."""
        with as_usage("--file-timeout"):
            check_parameter("file_timeout", self.file_timeout, "a finite number > 0", self.file_timeout > 0)
        with as_usage("--encoding"):
            return unflatten(merge({}, self._given()))

    def find(
        self,
        paths: Sequence[Path],
        roots: Sequence[SourceRoot] = (),
        *,
        root: Path | None = None,
        name: str | None = None,
    ) -> FileSelection:
        """Find the files as the options say that are given, or that the index remembers with the roots."""
        given, paths = self._given(), [path for path in paths if path != STDIN]
        patterns = {option: given.get(option) for option in NO_PATTERNS}
        name = name if paths else None  # what comes by standard input has its own
        return replace(ingestion.find_files(paths, root=root, name=name, roots=roots, **patterns), options=given)

    def _given(self) -> dict[str, Any]:
        given = {name: value for name, value in vars(self).items() if value not in (None, [])}
        given |= {name: [word for word in value if word] for name, value in given.items() if isinstance(value, list)}
        return {"timeout": given.pop("file_timeout"), **given}


OF_ROWS = ("text_field", "id_field", "id_prefix")


@dataclass(frozen=True)
class OriginOptions:
    """The options that name a collection whose rows are ingested."""

    from_collection: Annotated[
        str | None, opt.option("Ingest the rows of a collection that other software fills, not files.", metavar="NAME")
    ] = None
    from_uri: Annotated[
        str | None, opt.option("Where the collection is; by default in the database of the index.", metavar="URI")
    ] = None
    from_token: Annotated[
        str | None,
        opt.option("Token for --from-uri.", envvar="MILVUS_FROM_TOKEN", callback=opt.read_token, metavar="TOKEN|@FILE"),
    ] = None
    vector_field: Annotated[
        str | None, opt.option("Field of the collection with the dense vectors for the index: nothing is embedded.")
    ] = None

    def check(self, paths: Sequence[Path], sources: ReadingFlags, of_files: Mapping[str, object]) -> None:
        """Refuse a collection with files or with options that are for files, and neither of the two."""
        if self.from_collection is None:
            if self.from_uri or self.vector_field:
                raise typer.BadParameter("is missing", param_hint="--from-collection")
            if not paths:
                raise typer.BadParameter("give files and folders, or --from-collection", param_hint="PATH...")
            return
        others = {
            f"--{one.name.replace('_', '-')}": getattr(sources, one.name) not in (one.default, [])
            for one in fields(sources)
            if one.name not in OF_ROWS
        }
        given = [name for name, value in {"PATH": paths, **others, **of_files}.items() if value]
        if given:
            msg = f"its rows are taken as they are, without {', '.join(given)}"
            raise typer.BadParameter(msg, param_hint="--from-collection")

    def open(self, place: opt.IndexAddress, sources: ReadingFlags, name: str | None) -> ingestion.CollectionRows:
        """Open the collection."""
        uri, token = (place.uri, place.token) if self.from_uri is None else (self.from_uri, self.from_token)
        reading = sources.reading()
        return ingestion.CollectionRows(
            uri,
            str(self.from_collection),
            text_field=reading.fields.text,
            vector_field=self.vector_field,
            id_field=reading.fields.id,
            id_prefix=reading.id_prefix,
            name=name,
            token=token,
            tls=get_tls(uri),
        )


@contextmanager
def add_stdin(found: FileSelection, paths: Sequence[Path], stdin_name: str) -> Iterator[FileSelection]:
    """Read standard input into a temporary file beside those that were found, where ``-`` is among the paths."""
    if STDIN not in paths:
        yield found
        return
    source = _check_stdin_name(stdin_name)
    with TemporaryDirectory() as folder:
        file = Path(folder, "stdin" + Path(source).suffix.lower())
        with file.open("wb") as target:
            while block := sys.stdin.buffer.read(BLOCK):
                target.write(block)
        size = file.stat().st_size
        if not size:  # as after a program that has failed
            raise InputError(
                f"standard input is empty: nothing was ingested, and what the index has of {source} is kept. If it is "
                f"to go: delete it (--source {source})"
            )
        piped = SourceFile(file, source, size, keeps_source=True)
        yield replace(found, files=[*found.files, piped])


def _check_stdin_name(name: str) -> str:
    try:
        checked = check_root_name(name)
    except ParameterError as error:
        raise typer.BadParameter(str(error), param_hint="--stdin-name") from None
    if not is_known(Path(checked)):
        msg = f"must end in {', '.join(SUFFIXES)}, got {name!r}"
        raise typer.BadParameter(msg, param_hint="--stdin-name")
    return checked


def _by_kind(paths: Sequence[Path]) -> str:
    """Count files by their endings, documents first."""
    kinds = Counter(path.suffix.lower() or path.name for path in paths)
    ordered = sorted(kinds, key=lambda kind: (kind not in UNREAD_DOCUMENTS, -kinds[kind], kind))
    return join_first(f"{kinds[kind]:,} {kind}" for kind in ordered)


def note_left_out(found: FileSelection) -> None:
    """Name the files that are left out."""
    missing = set(found.missing)
    of_other_kinds = [path for path in found.skipped if not is_known(path)]
    known = [path for path in found.skipped if is_known(path)]
    unread = [path for path in known if needs_package(path)]
    irregular = [path for path in known if path not in unread]
    if of_other_kinds:
        skipped = f"skipped {count(len(of_other_kinds), 'file')} of other kinds: {_by_kind(of_other_kinds)}"
        print_note(f"{skipped} (--also '*.KIND' reads those that are plain text)")
    if missing:
        print_note(f"skipped {count(len(unread), 'file')}: {'; '.join(found.missing.values())}")
    if irregular:
        print_note(f"skipped, since they lead to no regular file within the folder: {join_first(irregular)}")
    if found.notes:
        print_note("; ".join(found.notes[:MAX_NOTES]) + ("; ..." if len(found.notes) > MAX_NOTES else ""))
    if found.excluded:
        excluded = f"{len(found.excluded):,} excluded by patterns or .gitignore"
        print_note(f"{excluded}: {join_first(found.excluded)}{_remembered(found)}")


def _remembered(found: FileSelection) -> str:
    """Name the remembered patterns that exclude, and what takes them back."""
    own = {name: value for name, value in found.remembered.items() if name != "also"}
    return f"; remembered: {as_flags(own)} (to take it back: {as_flags(dict.fromkeys(own, ''))})" if own else ""
