"""The notebooks show what a run shows: their cells are run here, without Jupyter, in one namespace each.

`make notebooks` runs them in Jupyter and stores what they show; `docs/notebooks` has nothing that differs between runs.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
NEEDS = {"hybrid.ipynb": ["wordllama", "ir_measures"], "evaluating.ipynb": ["ir_measures"]}
names = [path.name for path in NOTEBOOKS]


def cells(path: Path, kind: str) -> Iterator[dict[str, Any]]:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == kind:
            yield cell


def stored(cell: dict[str, Any]) -> list[str]:
    """Return what a cell shows, printed text and HTML, in order."""
    return ["".join(output.get("text") or output["data"]["text/html"]) for output in cell["outputs"]]


class Cells:
    """What Jupyter does with cells that print and that show objects with HTML."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.names: dict[str, Any] = {"display": self.display, "__name__": "__main__"}
        self.shown: list[str] = []

    def run(self, source: str) -> list[str]:
        body = ast.parse(source).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), "cell", "exec"), self.names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), self.names)
            if value is not None:
                self.display(value)
        self.flush()
        shown, self.shown = self.shown, []
        return shown

    def display(self, *values: Any) -> None:
        self.flush()
        self.shown += [value._repr_html_() for value in values]

    def flush(self) -> None:
        if printed := self.capsys.readouterr().out:
            self.shown.append(printed)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=names)
def test_a_notebook_shows_what_it_says(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in NEEDS.get(path.name, []):
        pytest.importorskip(package)
    monkeypatch.chdir(path.parent)
    run = Cells(capsys).run
    for cell in cells(path, "code"):
        assert run("".join(cell["source"])) == stored(cell), "make notebooks stores what is shown now"
    assert not list(path.parent.glob("*.db"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=names)
def test_a_notebook_is_stored_as_a_whole_run_left_it(path: Path) -> None:
    code = list(cells(path, "code"))
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}, "a warning was stored"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=names)
def test_the_links_of_a_notebook_lead_somewhere(path: Path) -> None:
    text = "\n".join("".join(cell["source"]) for cell in cells(path, "markdown"))
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (path.parent / link).exists()] == []
    assert links


def test_every_notebook_is_linked_from_the_docs() -> None:
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(notebooks/([\w.-]+\.ipynb)\)", page)) == set(names)
