"""Run the notebooks in Jupyter and store what they show: `make notebooks`.

::

    python scripts/notebooks.py                             # all of docs/notebooks
    python scripts/notebooks.py docs/notebooks/hybrid.ipynb # one

What changes from run to run is left out, so that a difference is one of the code or of its results.
``tests/test_notebooks.py`` runs the same cells without Jupyter, and compares.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Run notebooks and store what they show.")
    parser.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="by default all of docs/notebooks")
    for path in parser.parse_args(arguments).notebooks or sorted(NOTEBOOKS.glob("*.ipynb")):
        run(path)
        print(path.name)


def run(path: Path) -> None:
    """Run a notebook in place, in its own folder."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, resources={"metadata": {"path": str(path.parent)}}).execute()
    tidy(notebook)
    nbformat.write(notebook, path)


def tidy(notebook: Any) -> None:
    """Leave out what differs from one run or machine to the next, and texts in place of which HTML is shown."""
    notebook.metadata = METADATA
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = merged(cell.outputs)
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", ()):
                output.data.pop("text/plain", None)


def merged(outputs: Sequence[Any]) -> list[Any]:
    """Merge what was printed between two objects: Jupyter cuts it wherever its clock strikes."""
    whole: list[Any] = []
    for output in outputs:
        if whole and output.get("name", "") == whole[-1].get("name") == "stdout":
            whole[-1].text += output.text
        else:
            whole.append(output)
    return whole


if __name__ == "__main__":
    main()
