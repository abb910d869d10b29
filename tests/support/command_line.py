"""Run the command line over the in-memory store."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from typer.testing import CliRunner

from rag_bm25.cli.app import app
from support.memory_store import Collections, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pytest


Result: TypeAlias = Any  # of click, which newer versions of Typer have inside


class Databases(dict[tuple[str, str], Collections]):
    """What stands in for Milvus: collections by URI and name; `opened` has the arguments of every opening."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[dict[str, Any]] = []
        self.on_call: Callable[[str], None] | None = None

    def store(self, uri: object, collection: str, **options: Any) -> MemoryStore:
        self.opened.append({"uri": str(uri), "collection": collection, **options})
        store = _Sibling(self, str(uri), collection)
        store.on_call = self.on_call
        return store


class _Sibling(MemoryStore):
    """A store that knows the others of its database."""

    def __init__(self, databases: Databases, uri: str, collection: str) -> None:
        super().__init__(collections=databases.setdefault((uri, collection), Collections()))
        self._databases, self._uri, self._own_name = databases, uri, collection

    @property
    def name(self) -> str:
        return super().name if self._own_name == "docs" else self._own_name

    def reveal_rows(self) -> None:
        """No row is of the future."""

    def index_names(self) -> list[str]:
        return sorted(name for (uri, name), one in self._databases.items() if uri == self._uri and one.exist)


UNCONFIRMED = "nothing was deleted, since there is no terminal to confirm it: add --yes"


def run(*arguments: object, env: dict[str, str] | None = None, input: str | None = None) -> Result:
    given = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, given, prog_name="rag-bm25", env=env, input=input)


def run_json(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def assert_fails(result: Result, message: str, code: int = 1) -> None:
    """Expect one line on stderr, no traceback, and nothing on stdout."""
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def write_module(folder: Path, name: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a module of the user's own; what a command imports of it is forgotten after the test."""
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, name, raising=False)


def ingest_texts(folder: Path, texts: Mapping[str, str], *options: object) -> Path:
    """Ingest ``{id: text}`` from a file, and return it."""
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps({"id": id_, "text": text}) + "\n" for id_, text in texts.items()))
    assert run("ingest", file, "--chunk-size", 80, *options).exit_code == 0
    return file
