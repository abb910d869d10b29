"""Validate with numpydoc the docstring of everything that users of the package may import."""

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
    from types import ModuleType

# What is not asked for: an extended summary (ES01), examples and see-also everywhere (EX01, SA01), a description of
# results beside the summary (RT02), summaries on the second line and of one line (GL01, GL02, GL03, SS06), directives
# (YD01), a type where parameters are "as for" another function (PR04), capitals where a description is a fragment
# (PR08, RT04).
LEFT_OUT = {"ES01", "EX01", "GL01", "GL02", "GL03", "PR04", "PR08", "RT02", "RT04", "SA01", "SS06", "YD01"}

# Classes of LangChain bring parameters of their own, which LangChain describes.
WITH_INHERITED_PARAMETERS = {
    f"rag_bm25.langchain.{name}" for name in ("MilvusBM25DocumentIndex", "MilvusBM25Retriever", "MilvusHybridRetriever")
}


def public_modules() -> Iterator[ModuleType]:
    """Yield the package, its modules, and its subpackages as they present themselves; the command line is no API."""
    for info in pkgutil.iter_modules(rag_bm25.__path__, "rag_bm25."):
        if info.name not in {"rag_bm25.cli", "rag_bm25.__main__"}:
            yield importlib.import_module(info.name)


def public_names() -> Iterator[str]:
    """Yield the full name of every public function and class, and of the methods that they define."""
    for module in public_modules():
        for name in getattr(module, "__all__", ()):
            member = getattr(module, name)
            described = inspect.isfunction(member) or inspect.isclass(member)
            if described and not getattr(member, "_is_protocol", False):
                yield f"{module.__name__}.{name}"
                yield from methods_of(member, f"{module.__name__}.{name}")


def methods_of(member: object, prefix: str) -> Iterator[str]:
    """Yield the public methods that a class defines itself."""
    for name, value in vars(member).items() if inspect.isclass(member) else ():
        function = getattr(value, "__func__", value)
        ours = inspect.isfunction(function) and function.__module__.startswith("rag_bm25")
        if ours and not name.startswith("_"):
            yield f"{prefix}.{name}"


def faults_of(name: str) -> Iterator[str]:
    """Yield what numpydoc finds wrong with a docstring."""
    for code, text in validate(name)["errors"]:
        if code not in LEFT_OUT and not (code == "PR01" and name in WITH_INHERITED_PARAMETERS):
            yield f"{name}: {code} {text}"


def main() -> int:
    names = sorted(set(public_names()))
    faults = [fault for name in names for fault in faults_of(name)]
    print("\n".join(faults) or f"docstrings of {len(names)} public names are valid")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
