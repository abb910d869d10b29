"""The options that say which files are read, and how."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from rag_bm25 import ingestion
from rag_bm25.checks import check_parameter
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_note
from rag_bm25.cli.rendering import count, join_first
from rag_bm25.cli.settings import as_usage
from rag_bm25.errors import ParameterError
from rag_bm25.ingestion.files import SUFFIXES, Found, SourceFile, is_known, needs_package
from rag_bm25.ingestion.source_names import check_root_name

STDIN = Path("-")
STDIN_NAME = "stdin.txt"
BLOCK = 1 << 20  # bytes
MAX_NOTES = 5


@dataclass(frozen=True)
class SourceOptions:
    """The options that say which files are read, and how."""

    include: Annotated[
        list[str] | None,
        opt.option(
            "Read only files that match, as in a .gitignore; files of other kinds that match are read as text. "
            "May be repeated.",
            metavar="PATTERN",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None, opt.option("Leave out files and folders that match. May be repeated.", metavar="PATTERN")
    ] = None
    gitignore: Annotated[
        bool, opt.option("Leave out what .gitignore files exclude; by default yes.", "--gitignore/--no-gitignore")
    ] = True
    encoding: Annotated[
        str | None,
        opt.option("Encoding of texts, such as gb18030, big5 or utf-16; by default UTF-8, or what is detected."),
    ] = None
    text_field: Annotated[str, typer.Option(help="Name of the text in rows of JSON lines, CSV and Parquet.")] = "text"
    title_field: Annotated[str, typer.Option(help="Name of the title in rows.")] = "title"
    id_field: Annotated[str | None, opt.option("Name of the id in rows; by default _id or id.")] = None
    id_prefix: Annotated[
        str, opt.option("Text before the ids of rows; {source} in it is the file's name.", metavar="TEXT")
    ] = ""
    file_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds for extracting the text of one document.")
    ] = 120.0

    def reading(self) -> ingestion.ReadOptions:
        """Return how files are read."""
        with as_usage("--file-timeout"):
            check_parameter("file_timeout", self.file_timeout, "a finite number > 0", self.file_timeout > 0)
        with as_usage("--encoding"):
            fields = ingestion.RowFields(self.text_field, self.title_field, self.id_field)
            return ingestion.ReadOptions(self.encoding, fields, self.file_timeout, self.id_prefix)

    def find(self, paths: Sequence[Path], *, root: Path | None = None, name: str | None = None) -> Found:
        """Find the files."""
        return ingestion.find_files(
            paths,
            root=root,
            name=name,
            include=self.include or (),
            exclude=self.exclude or (),
            gitignore=self.gitignore,
        )


@contextmanager
def find_with_stdin(
    paths: Sequence[Path], options: SourceOptions, root: Path | None, name: str | None, stdin_name: str
) -> Iterator[Found]:
    """Find the files, and read standard input into a temporary one where ``-`` is among the paths."""
    others = [path for path in paths if path != STDIN]
    found = options.find(others, root=root, name=name) if others or len(paths) == 0 else Found()
    if len(others) == len(paths):
        yield found
        return
    source = _check_stdin_name(stdin_name)
    with TemporaryDirectory() as folder:
        file = Path(folder, "stdin" + Path(source).suffix.lower())
        with file.open("wb") as target:
            while block := sys.stdin.buffer.read(BLOCK):
                target.write(block)
        piped = SourceFile(file, source, file.stat().st_size, keeps_source=True)
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


def note_left_out(found: Found) -> None:
    """Name the files that are left out."""
    missing = set(found.missing)
    of_other_kinds = [path for path in found.skipped if not is_known(path)]
    known = [path for path in found.skipped if is_known(path)]
    unread = [path for path in known if needs_package(path)]
    irregular = [path for path in known if path not in unread]
    if of_other_kinds:
        print_note(f"skipped {count(len(of_other_kinds), 'file')} of other kinds: {join_first(of_other_kinds)}")
    if missing:
        print_note(f"skipped {count(len(unread), 'file')}: {'; '.join(found.missing.values())}")
    if irregular:
        print_note(f"skipped, since they lead to no regular file within the folder: {join_first(irregular)}")
    if found.notes:
        print_note("; ".join(found.notes[:MAX_NOTES]) + ("; ..." if len(found.notes) > MAX_NOTES else ""))
    if found.excluded:
        excluded = f"{len(found.excluded):,} excluded by patterns or .gitignore"
        print_note(f"{excluded}: {join_first(found.excluded)}")
