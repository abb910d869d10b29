"""Where output goes: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import RenderableType

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


def out() -> Console:
    """Return the console for results; without a terminal, lines are not wrapped."""
    console = Console(markup=False, emoji=False, highlight=False)
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
    sys.stdout.write(json.dumps(value, ensure_ascii=not unicode, indent=2) + "\n")


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
    return Console(stderr=True, markup=False, emoji=False, highlight=False)
