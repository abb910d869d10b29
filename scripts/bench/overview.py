"""What a reader wants to know first, from the rows of all runs: five sentences, and a plot for light and dark pages."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape

from bench import other_engines, peers, plots, searching, sizes
from bench.report import OURS, number, quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from bench.plots import Picture, Points
    from bench.report import Row

NAME = "overview"
ENGINE = "MilvusClient.search"
OTHERS = ("bm25s", "tantivy", "rank-bm25")
ON_LITE3 = (other_engines.OURS_ON_LITE3, other_engines.BUILT_IN, other_engines.LANGCHAIN)
SEARCH, LITE3 = "search, k = 10, p50", "milvus-lite 3"


def section(rows: Sequence[Row]) -> str:
    """Return the list of sentences; what was not measured has none. No line ends between a number and its unit."""
    text = "\n".join(f"- {sentence}" for of in SENTENCES for sentence in of(rows))
    return re.sub(r"(\d) (ms|s|MiB)\b", "\\1\N{NO-BREAK SPACE}\\2", text)


def _searching(rows: Sequence[Row]) -> Iterator[str]:
    found = sorted(_of(rows, searching.TOPIC, "search with text, k = 10, p50"), key=lambda row: row.chunks)
    if found:
        times = _listed(f"{quantity(row.value)} at {row.chunks:,} chunks" for row in found)
        engine = _listed(quantity(row.reference) for row in found)
        yield f"**A search** takes {times} (median, k = 10, milvus-lite 2.5). The engine alone takes {engine}."


def _beside(rows: Sequence[Row]) -> Iterator[str]:
    every = [row for row in _of(rows, peers.TOPIC, SEARCH) if row.system in OTHERS]
    size = max((row.chunks for row in every), default=0)
    if times := [f"{row.system} {quantity(row.value)}" for row in every if row.chunks == size]:
        yield f"**Libraries that hold all texts in the process** take, at {size:,} chunks: {_listed(times)}."


def _adding(rows: Sequence[Row]) -> Iterator[str]:
    rebuilt = max(
        (row for row in _of(rows, peers.TOPIC, "rebuilt") if row.system == "bm25s"), key=_chunks, default=None
    )
    for row in _of(rows, peers.TOPIC, "adding"):
        if rebuilt and row.system == OURS and row.chunks == rebuilt.chunks:
            ours, theirs = quantity(row.value), quantity(rebuilt.value)
            yield f"**1,000 more chunks** in an index of {row.chunks:,} take {ours}; bm25s is built again, in {theirs}."


def _size(rows: Sequence[Row]) -> Iterator[str]:
    """Say what each size of an index takes; chunks of numbered terms have no text, and are left out."""
    texts = sorted((row for row in _of(rows, sizes.TOPIC, "") if "of 100 terms" not in row.measure), key=_chunks)
    rates = [number(row.value.median) for row in _of(texts, sizes.TOPIC, "ingestion") if row.value]
    opening = [quantity(row.value) for row in _of(texts, sizes.TOPIC, "opening and the first search")]
    memory = [quantity(row.value) for row in _of(texts, sizes.TOPIC, "memory of the engine's process")]
    if rates and opening and memory:
        at = _listed(f"{size:,}" for size in sorted({row.chunks for row in texts}))
        yield (
            f"**By size**, {at} chunks of 500 characters: ingestion at {_listed(rates)} chunks a second; "
            f"{_listed(opening)} to open and search once; {_listed(memory)} of memory for the engine."
        )


def _newer_engine(rows: Sequence[Row]) -> Iterator[str]:
    found = {row.system: row for row in _of(rows, other_engines.TOPIC, SEARCH) if row.system in ON_LITE3}
    if found:
        times = _listed(f"{system} {quantity(row.value)}" for system, row in found.items())
        at = _listed(f"{size:,}" for size in sorted({row.chunks for row in found.values()}))
        yield f"**{LITE3}** is slower. A search at {at} chunks: {times.replace(f' on {LITE3}', '')}."


SENTENCES = (_searching, _beside, _adding, _size, _newer_engine)


def _of(rows: Iterable[Row], topic: str, measure: str) -> Iterator[Row]:
    return (row for row in rows if row.topic == topic and row.measure.startswith(measure) and row.value)


def _chunks(row: Row) -> int:
    return row.chunks


def _listed(parts: Iterable[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


# The plot

LABELS = {ENGINE: "the engine alone", "rank-bm25": "rank_bm25"}
WIDTH, LEFT, RIGHT = 610, 58, 205  # pixels; labels are on the right
TOP, HEIGHT, GAP = 40, 200, 44  # of a panel: its title, its lines, its axis
LINE = 17  # pixels from one label to the next
STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; fill: #5c6965;
  stroke: #fbfcfb; stroke-width: 4px; paint-order: stroke; }
.title, .ours text { fill: #1c2321; font-weight: 600; }
.paper { fill: #fbfcfb; } .grid { stroke: #dfe4e1; } .series { stroke: #8a9691; fill: none; stroke-width: 1.5; }
.dot { fill: #8a9691; } .ours .series { stroke: #0b6b5d; stroke-width: 3; } .ours .dot { fill: #0b6b5d; }
@media (prefers-color-scheme: dark) {
text { fill: #9aa8a3; stroke: #131816; } .title, .ours text { fill: #e4eae7; }
.paper { fill: #131816; } .grid { stroke: #2e3835; } .series { stroke: #76847f; }
.dot { fill: #76847f; } .ours .series { stroke: #66c2af; } .ours .dot { fill: #66c2af; }
}
"""


class Axis(NamedTuple):
    """A logarithmic axis: values from `low` to `high` at pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return the powers of ten on the axis."""
        powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
        return [10.0**power for power in powers]


def draw(rows: Sequence[Row], folder: Path) -> bool:
    """Draw times by size of the index, one panel below the other, as a narrow screen needs it. Return if any."""
    every = plots.pictures(rows)
    panels = [(title, _compared(every[name])) for name, title in TITLES.items() if name in every]
    if panels:
        folder.mkdir(exist_ok=True)
        (folder / f"{NAME}.svg").write_text(svg(panels), encoding="utf-8")
    return bool(panels)


TITLES = {
    "search": "A search, median: milliseconds by chunks",
    "adding": "1,000 more chunks: seconds by chunks",
}


def _compared(picture: Picture) -> Points:
    return {name: picture.points[name] for name in (ENGINE, *OTHERS, OURS) if name in picture.points}


def svg(panels: Sequence[tuple[str, Points]]) -> str:
    """Write panels as a picture."""
    height = len(panels) * (TOP + HEIGHT + GAP)
    described = "; ".join(title for title, _ in panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(described)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>',
    ]
    for place, (title, points) in enumerate(panels):
        lines += _panel(title, points, place * (TOP + HEIGHT + GAP) + TOP)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(title: str, points: Points, top: float) -> Iterator[str]:
    chunks = [size for at in points.values() for size in at]
    medians = [spread.median for at in points.values() for spread in at.values()]
    across = Axis(min(chunks), max(*chunks, 2 * min(chunks)), LEFT + 8, WIDTH - RIGHT)
    up = Axis(
        10 ** math.floor(math.log10(min(medians))), 10 ** math.ceil(math.log10(max(medians) * 1.01)), top + HEIGHT, top
    )
    yield f'<text class="title" x="{LEFT}" y="{top - 16}">{escape(title)}</text>'
    for value in up.ticks():
        y = up.at(value)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT + 8}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{value:g}</text>'
    for size in sorted(set(chunks)):
        yield f'<text x="{across.at(size):.1f}" y="{top + HEIGHT + 22}" text-anchor="middle">{size:,}</text>'
    ends = {name: up.at(at[max(at)].median) for name, at in points.items()}
    beside = _apart(ends)
    for name, at in points.items():
        places = [(across.at(size), up.at(at[size].median)) for size in sorted(at)]
        yield f'<g class="{"ours" if name == OURS else "other"}">'
        yield f'<path class="series" d="M{" ".join(f"{x:.1f} {y:.1f}" for x, y in places)}"/>'
        yield from (f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places)
        label = f"{LABELS.get(name, name)} {quantity(at[max(at)])}"
        yield f'<text x="{places[-1][0] + 12:.1f}" y="{beside[name] + 5:.1f}">{escape(label)}</text></g>'


def _apart(ends: dict[str, float]) -> dict[str, float]:
    """Move labels down until none covers the one above."""
    moved: dict[str, float] = {}
    for name, y in sorted(ends.items(), key=lambda end: end[1]):
        moved[name] = max(y, max(moved.values(), default=-LINE) + LINE)
    return moved
