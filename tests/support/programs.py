"""Programs in processes of their own, which know the package and the tests' helpers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def environment(**variables: str) -> dict[str, str]:
    folders = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return {**os.environ, "PYTHONPATH": folders, **variables}


def run_python(code: str, *arguments: object, flags: tuple[str, ...] = (), **options: Any) -> Any:
    """Run code, and return how it ended."""
    command = [sys.executable, *flags, "-c", code, *map(str, arguments)]
    options = {"env": environment(), "capture_output": True, "text": True, "timeout": 500, **options}
    return subprocess.run(command, check=False, **options)


def matches(lines: list[str], printed: str) -> bool:
    """Return whether these lines were printed; ``...`` is any text, also at the end of a line."""
    pattern = "\n".join(map(re.escape, lines)).replace(re.escape("..."), ".*")
    plain = "\n".join(line.rstrip() for line in printed.rstrip("\n").splitlines())
    return re.fullmatch(pattern, plain, re.DOTALL) is not None
