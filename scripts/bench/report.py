"""Rows of results: as a table, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from compact import in_lines

from bench.timing import Spread

OURS = "rag_bm25"
Comparison = Literal["ratio", "speedup", "difference", "value"]
FIGURES: dict[str, Callable[[float, float], float]] = {
    "ratio": lambda value, reference: value / reference if reference else math.inf,
    "speedup": lambda value, reference: reference / value,
    "difference": lambda value, reference: value - reference,
    "value": lambda value, _reference: value,
}


@dataclass(frozen=True)
class Row:
    """One row of a table: a measure, its reference and the target."""

    topic: str
    measure: str
    chunks: int = 0
    system: str = OURS
    value: Spread | None = None
    against: str = ""
    reference: Spread | None = None
    comparison: Comparison | None = None
    at_most: float | None = None
    at_least: float | None = None
    skipped: str = ""

    @property
    def figure(self) -> float | None:
        """The compared figure, None without a reference."""
        if self.comparison is None or self.value is None:
            return None
        reference = self.reference.median if self.reference else 0.0
        return FIGURES[self.comparison](self.value.median, reference)

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met, None without a target."""
        if self.figure is None or (self.at_most is None and self.at_least is None):
            return None
        low = float("-inf") if self.at_least is None else self.at_least
        return low <= self.figure <= (float("inf") if self.at_most is None else self.at_most)


def ratio(topic: str, measure: str, chunks: int, value: Spread, against: str, reference: Spread, **target: Any) -> Row:
    """Return the row of a measure that is compared with another by their ratio."""
    return Row(topic, measure, chunks, OURS, value, against, reference, "ratio", **target)


@dataclass
class Results:
    """The rows of a run and its environment."""

    environment: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write rows with their derived values as JSON."""
        rows = [{**asdict(row), "figure": row.figure, "met": row.is_met} for row in self.rows]
        path.write_text(in_lines({"environment": self.environment, "rows": rows}, 2), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Results:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return cls(stored["environment"], [restored(row) for row in stored["rows"]])


def restored(stored: dict[str, Any]) -> Row:
    """Restore a row from its fields; derived values are ignored."""
    spreads = {name: Spread(**stored[name]) if stored[name] else None for name in ("value", "reference")}
    return Row(**{name: stored[name] for name in stored if name not in {"figure", "met"}} | spreads)


# The table

SHORT = 0.1  # seconds; what takes less is told in milliseconds
HEAD = ("| what | chunks | median (quartiles) | against | comes to | to reach |", "|---|---|---|---|---|---|")


def line(row: Row) -> str:
    what = row.measure if row.system == OURS else f"{row.system}: {row.measure}"
    chunks = f"{row.chunks:,}" if row.chunks else ""
    if row.skipped:
        return f"| {what} | {chunks} | skipped: {row.skipped} | | | |"
    against = f"{row.against}: {_spread(row.reference)}" if row.reference else row.against
    return f"| {what} | {chunks} | {_spread(row.value)} | {against} | {_figure(row)} | {_target(row)} |"


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return ""
    times, unit = _scale(spread)
    p25, p75 = (number(times * value) for value in (spread.p25, spread.p75))
    quartiles = f" ({p25}–{p75})" if spread.count > 1 else ""
    cpu = "" if spread.cpu is None else f", CPU {number(times * spread.cpu)} {unit}"
    return f"{number(times * spread.median)} {unit}{quartiles}{cpu}"


def _scale(spread: Spread) -> tuple[int, str]:
    return (1000, "ms") if spread.unit == "s" and spread.median < SHORT else (1, spread.unit)


def number(value: float) -> str:
    """Format a number with three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _figure(row: Row) -> str:
    if row.figure is None:
        return ""
    unit = "x" if row.comparison in {"ratio", "speedup"} else f" {row.value.unit if row.value else ''}"
    missed = "**" if row.is_met is False else ""
    return f"{missed}{number(row.figure)}{unit}{missed}"


def _target(row: Row) -> str:
    bounds = (("≤", row.at_most), ("≥", row.at_least))
    return " ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
