"""The two soaks: an index that grows, and one that is used day by day."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from soak.model import Model
from soak.processes import ProcessFailedError, in_new_process
from soak.recount import recount
from soak.texts import steps_to
from soak.visits import Seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from soak.model import Write
    from soak.visits import Depth, Visitor

ROOM = 64  # more ids than chunks, for those that everyday use adds
SMALL_VISITS_UP_TO = 5
SMALL_VISITS_FOR = 100_000  # chunks: from here on one small visit after each step, since each reads everything

COLUMNS = (
    "visit", "chunks", "terms", "log rows", "open s", "first search s", "verify s", "export s", "recount s", "write s",
    "client MB", "engine MB",
)  # fmt: skip


class SoakFailedError(Exception):
    """Something was not as it must be."""


@dataclass
class Soak:
    """One index, visited again and again, each time by a new process.

    Parameters
    ----------
    visitor : Visitor
        Who visits it.
    capacity : int
        How many ids there may be.
    seed : int
        Decides what is written; nothing else does.
    tell : callable of str to None
        Told of the progress.
    call : callable
        Calls a function with arguments, by default in a new process.
    done : int
        How many visits an earlier run of the same soak has made: they are drawn, and not made again.

    Attributes
    ----------
    rows : list of dict
        The figures of each look at everything.
    visits : int
        How often the index was opened.
    """

    visitor: Visitor
    capacity: int
    seed: int
    tell: Callable[[str], None] = print
    call: Callable[..., Any] = in_new_process
    done: int = 0
    rows: list[dict[str, float]] = field(default_factory=list)
    visits: int = 0

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.model = Model(self.capacity)
        self._rng = random.Random(self.seed)

    def grow(self, chunks: int) -> None:
        """Let the index grow in steps; after each, look at everything, and use it a few times as one does every day."""
        for size in steps_to(chunks):
            self._visit(lambda size=size: self.model.growth(self._rng, size), "none")  # type: ignore[misc]
            self.look()
            for _ in range(max(1, min(SMALL_VISITS_UP_TO, SMALL_VISITS_FOR // size))):
                self.use()
        self.look()

    def use_daily(self, runs: int, chunks: int, look_every: int) -> None:
        """Use the index as small programs do that run now and then, with at most so many chunks."""
        for run in range(1, runs + 1):
            self.use(below=chunks)
            if not run % look_every or run == runs:
                self.look()

    def use(self, below: int | None = None) -> None:
        """Visit the index once, compare it with the model, and write a little."""
        limit = min(self.capacity, self.model.used + ROOM) if below is None else below
        self._visit(lambda: self.model.everyday(self._rng, limit))

    def look(self) -> None:
        """Compare everything with the model, and count all rows again."""
        seen = self._visit(list, "whole")
        if self.visits <= self.done:
            return
        found = self._call(recount, self.visitor, self.model, seen.questions)
        self.rows.append({"visit": self.visits, **seen.figures, **found.figures})
        self.tell(", ".join(f"{name} {_shown(number)}" for name, number in self.rows[-1].items()))
        self._require_right(found, [])

    def _visit(self, plan: Callable[[], list[Write]], check: Depth = "quick") -> Seen:
        """Visit the index, which must be as the model was before the plan."""
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
        """Return the figures of each look at everything."""
        cells = [[_shown(row[name]) if name in row else "-" for name in COLUMNS] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(COLUMNS, *cells, strict=True)]
        lines = [COLUMNS, *cells]
        return "\n".join("  ".join(map(str.rjust, line, widths)) for line in lines)


def _shown(number: float) -> str:
    return f"{number:,}"
