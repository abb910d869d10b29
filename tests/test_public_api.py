"""What the package exports: few names, sorted, documented."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rag_bm25

if TYPE_CHECKING:
    from types import ModuleType

OPTIONAL = ("rag_bm25.cli", "rag_bm25.langchain", "rag_bm25.llama_index", "rag_bm25.__main__")
NAMES = ["rag_bm25", *(info.name for info in pkgutil.walk_packages(rag_bm25.__path__, "rag_bm25."))]
MODULES = [name for name in NAMES if not name.startswith(OPTIONAL) and "._" not in name]
FOLDERS = ["adapters", "analysis", "evaluation", "index", "ingestion", "store"]
FACES = ["rag_bm25", *(f"rag_bm25.{name}" for name in FOLDERS)]
PUBLIC = [*FACES, "rag_bm25.events", "rag_bm25.filters", "rag_bm25.store.milvus"]


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by name."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def defined_in(module: ModuleType) -> set[str]:
    return {
        name
        for name, member in vars(module).items()
        if (inspect.isclass(member) or inspect.isfunction(member))
        and member.__module__ == module.__name__
        and not name.startswith("_")
    }


@pytest.mark.parametrize("name", [name for name in MODULES if hasattr(importlib.import_module(name), "__all__")])
def test_exports_are_sorted_and_there(name: str) -> None:
    module = importlib.import_module(name)
    exported = module.__all__
    assert list(exported) == sorted(exported, key=order)
    assert [missing for missing in exported if not hasattr(module, missing)] == []


def test_the_public_names_can_be_counted() -> None:
    """Each is a promise; a type that a program never makes is reached through what it is returned by."""
    sources = [path.read_text(encoding="utf-8") for path in Path(rag_bm25.__file__).parent.rglob("*.py")]
    lists = re.findall(r"^__all__ = \[(.*?)\]", "\n".join(sources), re.DOTALL | re.MULTILINE)
    assert 50 < "".join(lists).count('"') / 2 <= 114


def test_the_package_lists_what_it_exports() -> None:
    assert {*rag_bm25.__all__, "__version__"} == set(dir(rag_bm25))


def test_nothing_is_imported_before_it_is_used() -> None:
    code = "import sys, rag_bm25; print([name for name in sys.modules if name.startswith('rag_bm25.')])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "['rag_bm25._version']\n"


def test_the_package_has_its_modules_and_no_other_names() -> None:
    code = (
        "import rag_bm25; print(rag_bm25.filters.parse_filter, hasattr(rag_bm25, 'nothing'), hasattr(rag_bm25, '_no'))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("<function parse_filter at ")
    assert printed.endswith("> False False\n")


def test_every_error_is_exported() -> None:
    errors = {name for name in defined_in(rag_bm25.errors) if name[0].isupper()}
    assert errors <= set(rag_bm25.__all__)


def test_names_of_the_design_are_there() -> None:
    promised = {"BM25Index", "IndexConfig", "Hit", "Chunk", "Explanation", "IndexStats", "VerifyReport"}
    assert promised <= set(rag_bm25.__all__)
