"""Validate the docstring of everything public with numpydoc, under the checks of pyproject.toml."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from typing import TYPE_CHECKING

from numpydoc.validate import validate

import rag_bm25

if TYPE_CHECKING:
    from collections.abc import Iterator

# What is not asked for: a period-free summary of one line is enough (ES01), examples and references only where they
# help (EX01, SA01), results need no description of their own where the summary has it (RT02), summaries may be
# longer than a line and begin where the quotes are (GL01, GL02, GL03, SS06).
LEFT_OUT = {"ES01", "EX01", "GL01", "GL02", "GL03", "SA01", "SS06", "RT02", "YD01"}


def public_names() -> Iterator[str]:
    """Yield the full name of every public function, class and method that the package defines."""
    for module_info in pkgutil.walk_packages(rag_bm25.__path__, "rag_bm25."):
        if module_info.name.endswith("__main__"):
            continue
        module = importlib.import_module(module_info.name)
        for name in getattr(module, "__all__", ()):
            member = getattr(module, name)
            if getattr(member, "__module__", None) == module_info.name:
                yield f"{module_info.name}.{name}"
                yield from methods_of(member, f"{module_info.name}.{name}")


def methods_of(member: object, prefix: str) -> Iterator[str]:
    """Yield the public methods and properties that a class defines itself."""
    if not inspect.isclass(member) or getattr(member, "_is_protocol", False):
        return
    for name, value in vars(member).items():
        described = inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)
        if described and not name.startswith("_"):
            yield f"{prefix}.{name}"


def main() -> int:
    names = sorted(set(public_names()))
    faults = [
        f"{name}: {code} {text}"
        for name in names
        for code, text in validate(name)["errors"]
        if code not in LEFT_OUT
    ]
    print("\n".join(faults) or f"docstrings of {len(names)} public names are valid")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
