"""What is wrong with the programs that someone names is said by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.milvus_programs import Program, named

VERSIONS = ["2.6", "3.0"]
OURS = """echo '{"protocol": "plans 1"}'"""


def write(program: Path, script: str, mode: int = 0o755) -> Program:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(mode)
    return Program(program, "plans 1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROGRAMS", str(tmp_path))
    return tmp_path


def test_programs_are_found_by_their_versions(folder: Path) -> None:
    programs = [write(folder / name, OURS) for name in ("2.6.18", "3.0")]
    assert named("PROGRAMS", "plans 1", VERSIONS) == programs
    assert [program.version for program in programs] == VERSIONS
    assert named("NO_PROGRAMS", "plans 1", VERSIONS) == []


@pytest.mark.parametrize(
    ("name", "mode", "message"),
    [
        ("3.0", 0o644, r"PROGRAMS: .*3\.0 is no program that can be run \(chmod \+x\)"),
        ("2.5", 0o755, r"PROGRAMS: .*2\.5 is named after no version of 2\.6, 3\.0"),
        ("notes", 0o755, "notes is named after no version"),
        (".hidden", 0o755, r"has no programs, named after their versions: 2\.6, 3\.0"),
    ],
)
def test_what_is_no_program_is_named(folder: Path, name: str, mode: int, message: str) -> None:
    write(folder / name, OURS, mode)
    with pytest.raises(pytest.UsageError, match=message):
        named("PROGRAMS", "plans 1", VERSIONS)


def test_a_folder_that_is_not_there_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROGRAMS", str(folder / "none"))
    with pytest.raises(pytest.UsageError, match=r"PROGRAMS: .*none is no folder of programs"):
        named("PROGRAMS", "plans 1", VERSIONS)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo no memory >&2; exit 3", "3.0 failed with 3: no memory"),
        ("""echo '{"protocol": "plans 2"}'""", "3.0 does not speak 'plans 1', but {'protocol': 'plans 2'}"),
        ("true", "3.0 does not speak 'plans 1', but None"),
        (f"{OURS}; echo ready", "3.0 wrote what is no JSON: ready"),
    ],
)
def test_a_wrong_answer_names_the_program(folder: Path, script: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        write(folder / "3.0", script).run()


def test_lines_go_in_and_come_back(folder: Path) -> None:
    echo = write(folder / "3.0", f'{OURS}; echo "\\"$1\\""; cat')
    assert echo.run("a b", lines='"法\u2028律"\n[1]\n') == ["a b", "法\u2028律", [1]]
