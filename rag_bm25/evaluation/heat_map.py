"""A heat map of quality over k1 and b."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rag_bm25.checks import require_extra
from rag_bm25.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from rag_bm25.evaluation.tuning import HeatMap

PICTURES = (".png", ".svg", ".pdf")  # suffixes of files
DARK = 0.5  # share of the colour scale below which letters are white


def require_drawable(path: Path) -> None:
    """Refuse a file that the heat map could not be drawn to, before any work is done."""
    if path.suffix.lower() not in PICTURES:
        raise InputError(f"the name of a heat map must end in one of {', '.join(PICTURES)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} for {path.name} was not found")
    _matplotlib()


def draw_heat_map(heat_map: HeatMap, path: Path, title: str) -> None:
    """Draw the grid with its values into a file, with a frame around the maximum.

    Parameters
    ----------
    heat_map : HeatMap
        As :func:`~rag_bm25.evaluation.tune` returns it.
    path : Path
        The file, which ends in ``.png``, ``.svg`` or ``.pdf``.
    title : str
        Title of the picture.

    Raises
    ------
    InputError
        The name of the file ends otherwise, or its folder does not exist.
    """
    require_drawable(path)
    matplotlib = _matplotlib()
    values = np.array(heat_map.values)
    rows, columns = values.shape
    figure = matplotlib.figure.Figure(figsize=(2.2 + 0.75 * columns, 1.8 + 0.42 * rows), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values, cmap="viridis", aspect="auto", origin="lower")
    axes.set_xticks(range(columns), [f"{b:g}" for b in heat_map.b])
    axes.set_yticks(range(rows), [f"{k1:g}" for k1 in heat_map.k1])
    axes.set(xlabel="b", ylabel="k1", title=title)
    for (row, column), value in np.ndenumerate(values):
        color = "white" if image.norm(value) < DARK else "black"
        axes.text(column, row, f"{value:.4f}", ha="center", va="center", color=color, fontsize=8)
    row, column = np.unravel_index(values.argmax(), values.shape)
    axes.add_patch(matplotlib.patches.Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, color="red", linewidth=2))
    figure.colorbar(image, label=heat_map.measure)
    figure.savefig(path, dpi=150)


def _matplotlib() -> Any:
    # Only the parts of the library that need no screen.
    with require_extra('drawing needs matplotlib: pip install "rag-bm25[plot]"'):
        import matplotlib.figure
        import matplotlib.patches
    return matplotlib
