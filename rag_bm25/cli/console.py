"""Where output goes: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "count_bars",
    "fail",
    "ingest_bar",
    "out",
    "print_error",
    "print_json",
    "print_note",
    "recount_bar",
    "show",
]

UNWRAPPED = 100_000

# A terminal obeys control characters, and texts come from anywhere: each is shown as the sign for it. Characters that
# turn the direction of writing make a line read as another one.
_SIGNS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"},
    **dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
    0x7F: 0x2421,
}


_ESCAPES = {code: f"\\u{code:04x}" for code in _SIGNS if code >= 0x20}
"""In JSON, such characters stand in strings only; the others are escaped already."""


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


def out() -> Console:
    """Return the console for results; without a terminal, lines are not wrapped."""
    console = _Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = UNWRAPPED
    return console


def show(*renderables: RenderableType) -> None:
    """Print results."""
    console = out()
    for renderable in renderables:
        console.print(renderable)


def print_json(value: Any) -> None:
    """Print a result for machines."""
    unicode = sys.stdout.encoding.lower().startswith("utf")
    text = json.dumps(value, ensure_ascii=not unicode, indent=2)
    sys.stdout.write(text.translate(_ESCAPES) + "\n")


def print_note(text: str) -> None:
    """Print a remark that is no result."""
    _err().print(Text(text, style="yellow"), soft_wrap=True)


def print_error(text: str) -> None:
    """Print what went wrong, in one line."""
    _err().print(Text(f"error: {' '.join(text.split())}", style="bold red"), soft_wrap=True)


def fail(text: str) -> NoReturn:
    """Print what went wrong, and end with exit code 1."""
    print_error(text)
    raise typer.Exit(1)


@contextmanager
def ingest_bar(wanted: bool | None, size: int) -> Iterator[Callable[[int, int], None]]:
    """Show a bar over bytes, with the chunks, their rate and the time left; yield what moves it."""
    columns = (
        TaskProgressColumn(),
        TextColumn("{task.fields[chunks]:,} chunks, {task.fields[rate]:,.0f}/s,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    bar = _bar(wanted, *columns)
    with nullcontext() if bar.disable else bar:
        task, start = bar.add_task("ingesting", total=size, chunks=0, rate=0.0), time.perf_counter()

        def move(done: int, chunks: int) -> None:
            bar.update(task, completed=done, chunks=chunks, rate=chunks / (time.perf_counter() - start))

        yield move


@contextmanager
def count_bars(wanted: bool | None, totals: Mapping[str, int | None]) -> Iterator[Callable[[str, int], None]]:
    """Show a bar for each kind of thing that is counted, with or without a known total; yield what moves them."""
    bar = _bar(wanted, MofNCompleteColumn(), TimeElapsedColumn())
    with nullcontext() if bar.disable else bar:
        tasks = {what: bar.add_task(what, total=total) for what, total in totals.items()}
        yield lambda what, done: bar.update(tasks[what], completed=done)


@contextmanager
def recount_bar(wanted: bool | None, what: str = "counting") -> Iterator[Callable[[int, int], None]]:
    """Show a bar over rows that are counted or encoded again; yield what moves it."""
    bar = _bar(wanted, MofNCompleteColumn(), TimeRemainingColumn())
    with nullcontext() if bar.disable else bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _bar(wanted: bool | None, *columns: Any) -> Progress:
    """Return a bar on stderr; None wants it where that is a terminal."""
    console = _err()
    shown = console.is_terminal if wanted is None else wanted
    if wanted:
        console = Console(stderr=True, force_terminal=True)
    return Progress(
        TextColumn("{task.description}"), BarColumn(), *columns, console=console, disable=not shown, transient=True
    )


def _err() -> Console:
    return _Console(stderr=True, markup=False, emoji=False, highlight=False)
