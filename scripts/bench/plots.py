"""Plots by size of the index, from the rows of all runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bench import growth, other_engines, peers, searching
from bench.report import OURS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from bench.report import Row
    from bench.timing import Spread

Points = dict[str, dict[int, "Spread"]]  # system -> chunks -> measured


class Picture(NamedTuple):
    """Data and labels of a plot."""

    points: Points
    title: str
    unit: str


def pictures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Return the plots that have data, by name."""
    every = {
        "search": Picture(_searches(rows), "median search, k = 10", "ms"),
        "adding": Picture(_additions(rows), "adding 1,000 chunks to an index", "s"),
        "growth": Picture(_growth(rows), "adding 1,000 chunks of 100 terms", "s"),
    }
    return {name: picture for name, picture in every.items() if picture.points}


def draw(rows: Sequence[Row], folder: Path) -> list[str]:
    folder.mkdir(exist_ok=True)
    drawn = pictures(rows)
    for name, picture in drawn.items():
        _draw(picture, folder / f"{name}.svg")
    return list(drawn)


def _searches(rows: Iterable[Row]) -> Points:
    """Return median search times by system."""
    p50 = [row for row in rows if row.measure.endswith("p50")]
    ours = [row for row in p50 if row.topic == searching.TOPIC]
    raw = {"MilvusClient.search": {row.chunks: row.reference for row in ours if row.reference}}
    others = [row for row in p50 if row.topic in {peers.TOPIC, other_engines.TOPIC}]
    return _points(ours) | (raw if ours else {}) | _points(others)


def _additions(rows: Iterable[Row]) -> Points:
    """Return the times to add 1,000 chunks; on milvus-lite 3, only of systems without an index of their own."""
    added = [row for row in rows if row.topic == peers.TOPIC and not row.measure.startswith("search")]
    return _points(added + [row for row in rows if row.system == other_engines.MODEL])


def _growth(rows: Iterable[Row]) -> Points:
    found: Points = {}
    for row in rows:
        if row.topic == growth.TOPIC and row.value:
            found.setdefault(row.measure.partition(" in adding")[0], {})[row.chunks] = row.value
    return found


def _points(rows: Iterable[Row]) -> Points:
    found: Points = {}
    for row in rows:
        if row.value:
            found.setdefault(row.system, {})[row.chunks] = row.value
    return found


def _draw(picture: Picture, path: Path) -> None:
    """Draw lines with quartiles on logarithmic axes; the file carries no date."""
    matplotlib = _matplotlib()
    figure = matplotlib.figure.Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for system, at in picture.points.items():
        sizes = sorted(at)
        medians = [at[size].median for size in sizes]
        around = [[at[s].median - at[s].p25 for s in sizes], [at[s].p75 - at[s].median for s in sizes]]
        width = 2.4 if system == OURS else 1.2
        axes.errorbar(sizes, medians, around, marker="o", markersize=4, capsize=3, linewidth=width, label=system)
    axes.set(xscale="log", yscale="log", xlabel="chunks", ylabel=picture.unit, title=picture.title)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, high / 20), high)  # more than a power of ten: what is flat is to look flat
    axes.grid(visible=True, which="major", alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    with matplotlib.rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def _matplotlib() -> Any:
    try:
        import matplotlib.figure
    except ImportError as error:
        raise SystemExit(f'drawing needs matplotlib: pip install "rag-bm25[bench]" ({error})') from error
    return matplotlib
