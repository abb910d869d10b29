"""Build the release from a clean clone, check its files, and test it installed on each given Python.

    python scripts/release_check.py                                  this Python
    python scripts/release_check.py python3.10 python3.13 --keep dist

What is committed is built, nothing else. The tests are those of the unpacked sdist, without its ``rag_bm25``: there is
then no package to be found but the installed one. Needs build, check-wheel-contents and twine, and network for pip.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = (
    *("tests/unit", "tests/golden", "tests/properties", "tests/contract", "tests/adapters", "tests/examples"),
    *("tests/test_architecture.py", "tests/test_docs.py", "tests/test_public_api.py", "tests/test_demo.py"),
)
# Licences that a work under Apache-2.0 may depend on; MPL-2.0 binds the files that have it, and no others.
COMPATIBLE = re.compile(r"\b(0?BSD|Apache|ISC|MIT|MPL-2|Mozilla Public License 2|PSF|Python Software|Unlicense)\b")
NAMED_ELSEWHERE = {"milvus-lite": "Apache-2.0"}  # in its repository; the wheel names none
DOCTESTS = ("--pyargs", "rag_bm25", "--ignore-glob=/*/llama_index/*")
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONPATH" and not key.startswith("MILVUS")}
ENVIRONMENT |= {"CI": "true", "PYTHONUTF8": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Build the release, and test it installed.")
    parser.add_argument("pythons", nargs="*", default=[sys.executable], help="interpreters to test on")
    parser.add_argument("--keep", type=Path, help="put the built files into this folder")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        wheel, sdist = build(Path(folder))
        if given.keep:
            given.keep.mkdir(parents=True, exist_ok=True)
            for file in (wheel, sdist):
                shutil.copy(file, given.keep)
        for python in given.pythons:
            with tempfile.TemporaryDirectory(prefix="installed-") as place:
                try_out(python, wheel, sdist, Path(place))
    return 0


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command that must succeed, and return its output."""
    done = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"$ {shlex.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Build wheel and sdist of the last commit, and check that they hold all of its files and no others."""
    clone, dist = folder / "clone", folder / "dist"
    run("git", "clone", "--quiet", ROOT, clone)
    run(sys.executable, "-m", "build", "--quiet", "--outdir", dist, clone)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    run(sys.executable, "-m", "check_wheel_contents", "--package", clone / "rag_bm25", wheel)
    require(
        "licences",
        {name for name in zipfile.ZipFile(wheel).namelist() if "/licenses/" in name},
        {f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/licenses/LICENSE"},
    )
    with tarfile.open(sdist) as archive:
        packed = {member.name.partition("/")[2] for member in archive if member.isfile()}
    require("sdist", packed, {*run("git", "ls-files", cwd=clone).splitlines(), "PKG-INFO"})
    print(f"built {wheel.name} ({wheel.stat().st_size:,} bytes) and {sdist.name} ({sdist.stat().st_size:,} bytes)")
    return wheel, sdist


def require(what: str, found: set[str], wanted: set[str]) -> None:
    """Exit with the differences if two sets differ."""
    if found != wanted:
        sys.exit(f"{what}: missing {sorted(wanted - found)}, not wanted {sorted(found - wanted)}")


def try_out(python: str, wheel: Path, sdist: Path, place: Path) -> None:
    """Install the wheel, follow the README, and run the tests of the sdist."""
    version = run(python, "-c", "import platform; print(platform.python_version())").strip()
    print(f"\nPython {version}", flush=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(place, members=archive.getmembers())
    (source,) = place.iterdir()
    shutil.rmtree(source / "rag_bm25")
    run(python, "-m", "venv", place / "venv")
    commands = place / "venv" / "bin"
    run(commands / "pip", "install", "--quiet", f"{wheel}[all]")
    (packages,) = (place / "venv").glob("lib/python*/site-packages")
    require("licences of dependencies", incompatible(packages), set())
    follow_readme((source / "README.md").read_text(encoding="utf-8"), commands, source, place)
    run(commands / "pip", "install", "--quiet", f"{wheel}[test]")
    for chosen in (TESTS, DOCTESTS):
        test = [commands / "python", "-m", "pytest", "-q", "-r", "fE", "--tb=short", "-p", "no:cacheprovider", *chosen]
        if subprocess.run(test, cwd=source, env=ENVIRONMENT, check=False).returncode:
            sys.exit(f"Python {version}: {shlex.join(chosen)} failed")


def incompatible(packages: Path) -> set[str]:
    """Return the packages of a folder, with their licences, whose licence is not known to be compatible with ours."""
    licences = {package.name: licence(package) for package in distributions(path=[str(packages)])}
    return {f"{name}: {text}" for name, text in licences.items() if "GPL" in text or not COMPATIBLE.search(text)}


def licence(package: Distribution) -> str:
    """Return what the metadata say: the expression, or else the classifiers, or else the text."""
    told = package.metadata
    classifiers = [each for each in told.get_all("Classifier", []) if each.startswith("License ::")]
    named = told.get("License-Expression") or ", ".join(classifiers) or told.get("License")
    return named or NAMED_ELSEWHERE.get(package.name, "")


def blocks(text: str, kind: str) -> list[str]:
    """Return the code blocks of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def follow_readme(readme: str, commands: Path, source: Path, place: Path) -> None:
    """Run the quick start, which must print what the README says, and the commands that ingest, search and explain."""
    code, printed = blocks(readme, "python")[0], blocks(readme, "text")[0]
    require("quick start", {run(commands / "python", "-c", code, cwd=place)}, {printed})
    print("the quick start of the README prints what it says")
    lines = [line for block in blocks(readme, "sh") for line in block.splitlines() if line.startswith("rag-bm25 ")]
    require("commands of the README", {line.split()[1] for line in lines}, {"ingest", "search", "explain", "serve"})
    for line in lines:
        if line.startswith("rag-bm25 serve"):  # which goes on until it is stopped
            continue
        name, *arguments = shlex.split(line)
        run(commands / name, *arguments, "--uri", str(place / "daily.db"), cwd=source)
        print(f"$ {line}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
