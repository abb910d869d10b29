"""A plot by size of the index: the time of a search, and of 1,000 more chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench import peers, searching
from bench.report import OURS, Row
from bench.timing import Spread

Points = dict[str, dict[int, "Spread"]]  # system -> chunks -> measured


def panels(rows: Sequence[Row]) -> dict[str, Points]:
    """Return the points of each panel by its title."""
    searches = [row for row in rows if row.topic == searching.TOPIC and row.measure.endswith("p50")]
    beside = [row for row in rows if row.topic == peers.TOPIC]
    engine = {row.chunks: row.reference for row in searches if row.reference}
    asked = _points([*searches, *(row for row in beside if row.measure.endswith("p50"))])
    added = _points(row for row in beside if not row.measure.startswith("search"))
    if engine:
        asked["the engine alone"] = engine
    every = {"a search, median, ms": asked, "1,000 more chunks, s": added}
    return {title: points for title, points in every.items() if points}


def _points(rows: Iterable[Row]) -> Points:
    found: Points = {}
    for row in rows:
        if row.value:
            found.setdefault(row.system, {})[row.chunks] = row.value
    return found


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the panels side by side, on logarithmic axes; the file carries no date."""
    matplotlib = _matplotlib()
    every = panels(rows)
    figure = matplotlib.figure.Figure(figsize=(8, 3.6), layout="constrained")
    beside = figure.subplots(1, len(every), squeeze=False)[0]
    for axes, (title, points) in zip(beside, every.items(), strict=True):
        for system, at in points.items():
            sizes = sorted(at)
            width = 2.4 if system == OURS else 1.2
            axes.plot(sizes, [at[size].median for size in sizes], marker="o", linewidth=width, label=system)
        axes.set(xscale="log", yscale="log", xlabel="chunks", title=title)
    systems = beside[0].get_legend_handles_labels()
    figure.legend(*systems, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    with matplotlib.rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def _matplotlib() -> Any:
    try:
        import matplotlib.figure
    except ImportError as error:
        raise SystemExit(f'drawing needs matplotlib: pip install ".[bench]" ({error})') from error
    return matplotlib
