"""Output: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.segment import Segment
from rich.table import Column
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rag_bm25.events import Progress

UNWRAPPED = 100_000

# A terminal obeys control characters, and texts come from anywhere: each is shown as the sign for it. Characters that
# turn the direction of writing make a line read as another one.
_SIGNS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"},
    **dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
    0x7F: 0x2421,
}


# In JSON, such characters stand in strings only; the others are escaped already.
_ESCAPES = {code: f"\\u{code:04x}" for code in _SIGNS if code >= 0x20}


class _Harmless:
    """A result whose text cannot steer the terminal; the colours are ours."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = Text(renderable) if isinstance(renderable, str) else renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the pieces of the result, which rich puts between the escape sequences of the colours."""
        for segment in console.render(self._renderable, options):
            yield segment if segment.control else Segment(segment.text.translate(_SIGNS), segment.style)


class _Console(Console):
    """A console that prints every text as text."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print results."""
        super().print(*map(_Harmless, objects), **options)


def open_console() -> Console:
    """Return the console for results; without a terminal, lines are not wrapped."""
    console = _Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = UNWRAPPED
    return console


def is_terminal() -> bool:
    """Return whether the input is a terminal, and so a person to ask."""
    return sys.stdin.isatty()


def show(*renderables: RenderableType) -> None:
    """Print results."""
    console = open_console()
    for renderable in renderables:
        console.print(renderable)


def print_json(value: Any) -> None:
    """Print a result for machines."""
    text = json.dumps(value, ensure_ascii=not sys.stdout.encoding.lower().startswith("utf"), indent=2)
    sys.stdout.write(text.translate(_ESCAPES) + "\n")


def print_result(as_json: bool, plain: Any, *lines: RenderableType) -> None:
    """Print a result for machines, or its lines for people."""
    if as_json:
        print_json(plain)
    else:
        show(*lines)


def print_note(text: str) -> None:
    """Print a remark that is no result."""
    _open_stderr().print(Text(text, style="yellow"), soft_wrap=True)


def print_error(text: str) -> None:
    """Print an error in one line."""
    _open_stderr().print(Text(f"error: {' '.join(text.split())}", style="bold red"), soft_wrap=True)


def fail(text: str) -> NoReturn:
    """Print an error, and end with exit code 1."""
    print_error(text)
    raise typer.Exit(1)


def confirm(what: str, yes: bool) -> None:
    """Ask whether to delete something, unless that was agreed to; without a terminal, end with exit code 2."""
    if yes:
        return
    if not is_terminal():
        print_error(f"{what}: nothing was deleted, since there is no terminal to confirm it: add --yes")
        raise typer.Exit(2)
    typer.confirm(f"Delete {what}?", abort=True, err=True)


@contextmanager
def ingest_bar(wanted: bool | None, size: int) -> Iterator[Callable[[Progress], None]]:
    """Show a bar over bytes, with the chunks, the time left and the file under way; yield its callback."""
    columns = (
        TaskProgressColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[chunks]:,} chunks,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        TextColumn("{task.fields[source]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
    )
    with _show_bars(wanted, *columns) as bars:
        task, source = bars.add_task("ingesting", total=size, chunks=0, source=""), ""

        def update(progress: Progress) -> None:
            nonlocal source
            source = progress.source.translate(_SIGNS) or source
            count: dict[str, Any] = (
                {"chunks": progress.done} if progress.what == "chunks" else {"completed": progress.done}
            )
            bars.update(task, **count, source=source)

        yield update


@contextmanager
def progress_bars(wanted: bool | None) -> Iterator[Callable[[Progress], None]]:
    """Show a bar for each thing that is counted; yield their callback."""
    tasks: dict[str, TaskID] = {}
    with _show_bars(wanted, MofNCompleteColumn(), TimeRemainingColumn(elapsed_when_finished=True)) as bars:

        def update(progress: Progress) -> None:
            if progress.what in tasks:
                bars.update(tasks[progress.what], completed=progress.done, total=progress.total)
            else:
                tasks[progress.what] = bars.add_task(progress.what, completed=progress.done, total=progress.total)

        yield update


@contextmanager
def _show_bars(wanted: bool | None, *columns: ProgressColumn) -> Iterator[Bars]:
    """Show bars on stderr if that is a terminal, unless they are unwanted; elsewhere lines, if they are wanted."""
    console = _open_stderr()
    shown = console.is_terminal and wanted is not False
    make = _Lines if wanted and not shown else Bars
    text, bar = TextColumn("{task.description}"), BarColumn()
    bars = make(text, bar, *columns, console=console, disable=not shown, transient=True)
    with bars if shown or wanted else nullcontext():
        yield bars


class _Lines(Bars):
    """Bars as lines, of which one is printed a second at most, and the last: nobody looks while they move."""

    _next = float("-inf")

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Change a bar, and print it if the last line is old enough."""
        super().update(task_id, **changes)
        if self.get_time() >= self._next:
            self._next = self.get_time() + 1
            self._print(task_id)

    def stop(self) -> None:
        """Print how each bar ended."""
        for task_id in self.task_ids:
            self._print(task_id)

    def _print(self, task_id: TaskID) -> None:
        (task,) = (task for task in self.tasks if task.id == task_id)
        columns = [column for column in self.columns if isinstance(column, ProgressColumn)]
        shown = [column(task) for column in columns if not isinstance(column, BarColumn)]
        self.console.print(Text(" ").join(map(Text, map(str, shown))), soft_wrap=True)


def _open_stderr() -> Console:
    return _Console(stderr=True, markup=False, emoji=False, highlight=False)
