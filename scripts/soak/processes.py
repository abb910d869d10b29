"""Processes for one function call, and their memory."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")


class ProcessFailedError(RuntimeError):
    """A child process failed, or ended without an answer."""


def in_new_process(function: Callable[..., _T], *args: Any) -> _T:
    """Call a function in a forked process; this one must never have opened an index."""
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=[writer, partial(function, *args)])
    process.start()
    writer.close()
    answer: tuple[bool, Any] = (False, "")
    with suppress(EOFError):
        answer = reader.recv()
    process.join()
    succeeded, result = answer
    if not succeeded or process.exitcode:
        raise ProcessFailedError(f"{result}\nthe process ended with {process.exitcode}")
    value: _T = result
    return value


def in_this_one(function: Callable[..., _T], *args: Any) -> _T:
    """Call a function where no other process can have the index."""
    return function(*args)


def _answer(writer: Connection, function: Callable[[], Any]) -> None:
    try:
        answer = True, function()
    except Exception:  # noqa: BLE001 - told to the parent, whatever it is
        answer = False, traceback.format_exc()
    writer.send(answer)


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            state = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(state[1]) == pid:
                found.append(int(entry.name))
    return found


def memory() -> dict[str, int]:
    """Return the peak megabytes of this process and of its children (the engine)."""
    engines = sum(_greatest_rss(pid) for pid in children(os.getpid()))
    return {"client MB": _greatest_rss(os.getpid()), "engine MB": engines}


def _greatest_rss(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) // 1024
    return 0
