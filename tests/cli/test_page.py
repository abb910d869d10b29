"""The page docs/cli.md: each command on it prints what the page says."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import run
from support.programs import matches

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cli.md"


def steps() -> Iterator[tuple[str, list[str]]]:
    """Yield each command of the page with the lines below it."""
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = step.splitlines()
            yield command, lines


@pytest.mark.slow
@pytest.mark.usefixtures("databases")
def test_commands_print_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, code in re.findall(
        r"^```python\n# (\w+\.py)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        (tmp_path / name).write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    shutil.copytree(ROOT / "scripts" / "demo" / "documents", tmp_path / "scripts" / "demo" / "documents")
    found = list(steps())
    assert len(found) >= 5
    for command, lines in found:
        program, *arguments = shlex.split(command)
        assert program == "rag-bm25"
        result = run(*arguments)
        assert result.exit_code == 0, f"{command}: {result.output}"
        assert matches(lines, result.stdout), f"{command}:\n{result.stdout}"
