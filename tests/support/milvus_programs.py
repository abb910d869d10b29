"""Programs around Milvus's own code, which whoever runs the tests has: none is part of the project.

A folder has one program for each version, named after it: ``2.5.6``, ``2.6`` or ``3.0``. A program gets arguments,
and perhaps lines of JSON as its input. It writes lines of JSON: the first is the protocol that it speaks, such as
``{"protocol": "plans 1"}``; support.milvus_knowhere and support.milvus_plans say what follows.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rag_bm25.store.storage import parse_version


@dataclass(frozen=True)
class Program:
    """A program, and the protocol that it must speak."""

    path: Path
    protocol: str

    @property
    def version(self) -> str:
        """The version of Milvus, of two numbers."""
        return ".".join(map(str, parse_version(self.path.name)[:2]))

    def run(self, *arguments: str, lines: str = "") -> list[Any]:
        """Return what it writes behind its protocol; AssertionError if it fails."""
        command = [str(self.path), *arguments]
        done = subprocess.run(
            command, input=lines, check=False, capture_output=True, text=True, encoding="utf-8", timeout=500
        )
        assert done.returncode == 0, f"{self.path} failed with {done.returncode}: {done.stderr[-3000:]}"
        first, *answers = [self._read(line) for line in done.stdout.split("\n") if line] or [None]
        assert first == {"protocol": self.protocol}, f"{self.path} does not speak {self.protocol!r}, but {first}"
        return answers

    def _read(self, line: str) -> Any:
        try:
            return json.loads(line)
        except ValueError as error:
            raise AssertionError(f"{self.path} wrote what is no JSON: {line[:200]}") from error


def named(variable: str, protocol: str, versions: Collection[str]) -> list[Program]:
    """List the programs of the folder that a variable names, none without; a folder that is not right is an error."""
    if not (folder := os.environ.get(variable)):
        return []
    programs = [Program(path, protocol) for path in sorted(Path(folder).absolute().glob("[!.]*"))]
    faults = [fault for program in programs if (fault := _fault(program, versions))]
    if not programs:
        missing = "has no programs" if Path(folder).is_dir() else "is no folder of programs"
        faults = [f"{folder} {missing}, named after their versions: {', '.join(versions)}"]
    if faults:
        raise pytest.UsageError(f"{variable}: {'; '.join(faults)}")
    return programs


def _fault(program: Program, versions: Collection[str]) -> str:
    if program.version not in versions:
        return f"{program.path} is named after no version of {', '.join(versions)}"
    if not program.path.is_file() or not os.access(program.path, os.X_OK):
        return f"{program.path} is no program that can be run (chmod +x)"
    return ""
