"""The tables of docs/serving.md name the arguments that the server takes, and all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_bm25.definitions import options_of
from rag_bm25.hits.options import SearchOptions
from rag_bm25.serving import requests
from rag_bm25.serving.agents import TOOLS, Tool
from rag_bm25.serving.fields import arguments_of
from rag_bm25.serving.routes import API, OPERATIONS, Operation

PAGE = (Path(__file__).parents[3] / "docs" / "serving.md").read_text(encoding="utf-8")
GROUPS = {
    "scope": {"namespace", "all_namespaces", "filter"},
    "conditions": {"syntax", "must", "must_not", "phrases", "slop"},
    "options": {*options_of(SearchOptions)},
}
PARTS = {*options_of(requests.ChunkToAdd)}  # of the chunks that are added


def rows_of(*heads: str) -> Iterator[tuple[str, str]]:
    """Yield the first two cells of the rows of the table below a heading."""
    table = PAGE.partition("| " + " | ".join(heads))[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        yield tuple(cell.strip() for cell in line.split("|")[1:3])  # type: ignore[misc]


def named_in(cell: str) -> tuple[set[str], set[str]]:
    """Return the arguments that a cell names, and those that it names as a group."""
    plain = re.sub(r"\([^()]*\)", "", cell)
    grouped = (names for word, names in GROUPS.items() if re.search(rf"\b{word}\b", plain))
    return set(re.findall(r"`(\w+)`", plain)), set().union(*grouped)


ROUTES = {
    (method, path): cell
    for head, cell in rows_of("route", "arguments")
    for path in re.findall(r"/api[^` ]*", head)
    for method in re.findall(r"GET|POST|DELETE", head) or ["GET", "POST"]
}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.methods[0]} {one.path}")
def test_the_arguments_of_a_route(operation: Operation) -> None:
    path = f"{API}{operation.path}".replace("{id:path}", "ID")
    for method in operation.methods:
        named, grouped = named_in(ROUTES[method, path])
        taken = arguments_of(operation.model).keys()
        if path.endswith("/ID"):
            taken = {"namespace"} if method == "DELETE" else taken - {"id"}
        assert named - (PARTS if operation.model is requests.Add else set()) <= taken
        assert taken <= named | grouped


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if not tool.call.writes], ids=lambda one: one.name)
def test_the_arguments_of_a_tool(tool: Tool) -> None:
    cells = {name: cell for head, cell in rows_of("tool", "arguments") for name in re.findall(r"`(\w+)`", head)}
    named, grouped = named_in(cells[tool.name])
    assert named <= arguments_of(tool.model).keys() <= named | grouped
