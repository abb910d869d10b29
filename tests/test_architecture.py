"""Imports between rooms: the table of the design, read from the syntax trees, so that lazy imports count as well."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rag_bm25

ROOT = Path(__file__).resolve().parents[1]

# One row a folder: a room may import the rooms that it names, and those stand above it.
# `documents` without `statistics`: that ban is the idea of the package.
GROUND = "errors events checks definitions filters budget replacing safe_path scripts"
ROOMS = {
    "vectors": "",
    "analysis": "_version vectors",
    "weighting": "",
    "store": "vectors",
    "documents": "vectors analysis weighting store",
    "statistics": "vectors weighting store",
    "query": "vectors analysis weighting store documents statistics",
    "hits": "vectors analysis weighting store documents statistics query",
    "index": "vectors analysis weighting store documents statistics query hits",
    "ingestion": "_version vectors analysis weighting store documents statistics index",
    "adapters": "vectors analysis weighting documents statistics query index",
    "langchain": "vectors analysis weighting store documents query hits index ingestion",
    "llama_index": "documents query hits index",
    "evaluation": "vectors analysis weighting documents statistics query hits index ingestion",
    "serving": "_version weighting documents query hits index ingestion",
    "cli": "_version vectors analysis weighting store documents query hits index ingestion evaluation serving",
}
ALLOWED = {room: f"{above} {GROUND}" for room, above in ROOMS.items()}
ALLOWED |= dict.fromkeys(("errors", "_version", "budget", "replacing", "safe_path", "scripts"), "")
ALLOWED |= {
    "events": "errors",
    "checks": "errors",
    "definitions": "errors checks",
    "filters": "errors checks definitions",
}
ALLOWED |= {"__main__": "safe_path cli", "": "_exports _version", "_exports": " ".join([*ROOMS, GROUND])}
HOMES = {
    "store": "pymilvus milvus_lite grpc filelock tenacity",
    "analysis": "jieba rjieba Stemmer",
    "query": "rapidfuzz",
    "cli": "typer rich",
    "evaluation": "ir_measures",
    "ingestion": "chardet mammoth openpyxl pptx py3langid pyarrow pypdfium2",
    "serving": "mcp mcp_types opentelemetry prometheus_client pydantic starlette uvicorn",
    "langchain": "langchain_core pydantic",
    "llama_index": "llama_index",
    "adapters": "langchain_milvus llama_index",
}
EVERYWHERE = {"rag_bm25", "numpy", "typing_extensions", *sys.stdlib_module_names}
PACKAGE = Path(rag_bm25.__file__).parent  # not the folder beside: the tests run on an installed package, too
MODULES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


NAMES = {module_of(path) for path in MODULES}


def room_of(module: str) -> str:
    return [*module.split("."), ""][1]


def imports(path: Path) -> set[str]:
    """Name the modules that a file imports anywhere, for its types or when it runs."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            modules = {f"{node.module}.{alias.name}" for alias in node.names} & NAMES
            found |= modules or {str(node.module)}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE.parent)))
def test_module_imports_only_what_the_design_allows(path: Path) -> None:
    room = room_of(module_of(path))
    assert room in ALLOWED, f"{room} is not in the table"
    ours = {room_of(name) for name in imports(path) if name.split(".")[0] == "rag_bm25"} - {room}
    assert ours <= set(ALLOWED[room].split())
    others = {name.split(".")[0] for name in imports(path)} - EVERYWHERE
    assert others <= set(HOMES.get(room, "").split())


def test_rooms_stand_in_the_order_of_their_imports() -> None:
    order = [*GROUND.split(), "_version", *ROOMS]
    for place, room in enumerate(order[6:], start=6):
        assert set(ALLOWED[room].split()) <= set(order[:place])


def test_no_modules_import_each_other_in_a_circle() -> None:
    paths = {module_of(path): path for path in MODULES}
    open_imports = {name: {other for other in imports(path) if other in paths} for name, path in paths.items()}
    while free := {name for name, needed in open_imports.items() if not needed}:
        open_imports = {name: needed - free for name, needed in open_imports.items() if name not in free}
    assert open_imports == {}


def test_importing_the_package_loads_no_engine_no_dictionary_and_no_framework() -> None:
    heavy = sorted({name for names in HOMES.values() for name in names.split()})
    script = f"import sys, rag_bm25; print(*[name for name in {heavy} if name in sys.modules])"
    run = [sys.executable, "-W", "error", "-c", script]
    loaded = subprocess.run(run, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=True)
    assert (loaded.stdout, loaded.stderr) == (b"\n", b"")
