"""The two soaks: an index that grows, and one that is used day by day."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from soak.model import Model, Write
from soak.processes import ProcessFailedError, in_new_process
from soak.recount import recount
from soak.texts import steps_to
from soak.visits import Depth, Seen, Visitor

ROOM = 64  # more ids than chunks, for those that everyday use adds
SMALL_VISITS_UP_TO = 5
SMALL_VISITS_FOR = 100_000  # chunks: from here on one small visit after each step, since each reads everything

COLUMNS = (
    "visit", "chunks", "terms", "log rows", "open s", "first search s", "verify s", "telling s", "recount s", "write s",
    "client MB", "engine MB",
)  # fmt: skip


class SoakFailedError(Exception):
    """A check of a soak failed."""


@dataclass
class Soak:
    """One index, visited many times, each time by a new process."""

    visitor: Visitor
    capacity: int  # maximum number of ids
    seed: int
    tell: Callable[[str], None] = print
    call: Callable[..., Any] = in_new_process  # runs a function, by default in a new process
    done: int = 0  # visits of an earlier run, which are drawn and skipped
    rows: list[dict[str, float]] = field(default_factory=list)  # figures of each full check
    visits: int = 0  # number of openings
    columns: tuple[str, ...] = COLUMNS

    def __post_init__(self) -> None:
        self.model = Model(self.capacity)
        self._rng = random.Random(self.seed)

    def grow(self, chunks: int) -> None:
        """Grow the index in steps; after each, check everything and make a few daily visits."""
        for size in steps_to(chunks):
            self._visit(lambda size=size: self.model.growth(self._rng, size), "none")  # type: ignore[misc]
            self.look()
            for _ in range(max(1, min(SMALL_VISITS_UP_TO, SMALL_VISITS_FOR // size))):
                self.use()
        self.look()

    def use_daily(self, runs: int, chunks: int, look_every: int) -> None:
        """Use the index in many small runs, with at most so many chunks."""
        for run in range(1, runs + 1):
            self.use(below=chunks)
            if not run % look_every or run == runs:
                self.look()

    def use(self, below: int | None = None) -> None:
        """Visit the index once: compare it with the model, and write a little."""
        limit = min(self.capacity, self.model.used + ROOM) if below is None else below
        self._visit(lambda: self.model.everyday(self._rng, limit))

    def look(self) -> None:
        """Compare everything with the model, and recount all rows."""
        seen = self._visit(list, "whole")
        if self.visits <= self.done:
            return
        found = self._call(recount, self.visitor, self.model, seen.questions)
        self.rows.append({"visit": self.visits, **seen.figures, **found.figures})
        self.tell(", ".join(f"{name} {_shown(number)}" for name, number in self.rows[-1].items()))
        self._require_right(found, [])

    def _visit(self, plan: Callable[[], list[Write]], check: Depth = "quick") -> Seen:
        """Visit the index, which must equal the model before the planned writes."""
        self.visits += 1
        before = Model(0)
        before.versions, before.used = self.model.versions.copy(), self.model.used
        writes = plan()
        if self.visits <= self.done:
            return Seen()
        seen: Seen = self._call(self.visitor.visit, before, writes, f"{self.seed}.{self.visits}", check)
        self._require_right(seen, writes)
        return seen

    def _call(self, *args: Any) -> Any:
        try:
            return self.call(*args)
        except ProcessFailedError as error:
            raise SoakFailedError(f"visit {self.visits}: {error}") from error

    def _require_right(self, seen: Seen, writes: list[Write]) -> None:
        if seen.faults:
            lines = [f"visit {self.visits} (of seed {self.seed}) found", *seen.faults, f"{seen.figures}"]
            lines += ["what it was to write:", *map(str, writes)] if writes else []
            raise SoakFailedError("\n  ".join(lines))

    def table(self) -> str:
        """Return a table with the figures of each full check."""
        cells = [[_shown(row[name]) if name in row else "-" for name in self.columns] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.columns, *cells, strict=True)]
        lines = [self.columns, *cells]
        return "\n".join("  ".join(map(str.rjust, line, widths)) for line in lines)


def _shown(number: float) -> str:
    return f"{number:,}"
