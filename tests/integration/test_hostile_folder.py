"""Nothing of the current folder runs: a trap there waits for every module that a process of ours may import."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import util
from pathlib import Path

import pytest
from support.office import make_docx

import rag_bm25
from rag_bm25.index.writing.workers import ProcessPool
from rag_bm25.safe_path import safe_path
from rag_bm25.store.milvus.client import _no_dotenv

ROOT = Path(rag_bm25.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
ABSENT = {"sitecustomize", "usercustomize", "simplejson", "ujson", "brotli", "uvloop", "cchardet", "pkg_resources"}
MODULES = {*sys.stdlib_module_names, *(module.name for module in pkgutil.iter_modules()), "rag_bm25", *ABSENT}
LIBRARIES = ("libc.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libstdc++.so.6")  # not in milvus-lite

# As pip writes the command, and a program that uses the library.
COMMAND = "import sys\nfrom rag_bm25.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
PROGRAM = """
import json, sys
from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.ingestion import find_files, ingest

if __name__ == "__main__":
    with BM25Index.open("rag.db", "docs", config=IndexConfig(chunk_size=500)) as index:
        report = ingest(index, find_files(["."]), workers=2)
    print(json.dumps({"files": report.files, "failed": report.failed}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three documents, and traps."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "page.html").write_text("<p>An innocent page</p>")
    (folder / "notes.txt").write_text("Innocent notes")
    make_docx(folder / "letter.docx", [(0, "An innocent letter")])
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'a').write(__name__ + ' ')")
    for name in LIBRARIES:
        (folder / name).touch()
    (folder / ".env").write_text(f"BIN_PATH={folder}")
    return folder


def run(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def imported_by_runpy() -> set[str]:
    """Name the modules that Python imports before it runs any code of a module that ``-m`` names."""
    code = "import sys; before = {*sys.modules}; import runpy; print(*{*sys.modules} - before)"
    printed = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in printed.stdout.split()}


@pytest.fixture
def start(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> list[str | Path]:
    """How Python is started; ``-m`` finds some modules in the current folder before any code of ours runs."""
    if request.param == "-m":
        for name in {"rag_bm25", *imported_by_runpy()}:
            (folder / f"{name}.py").unlink(missing_ok=True)
        return ["-m", "rag_bm25"]
    program = tmp_path / "program.py"
    program.write_text(request.param)
    return [program]


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("start", [COMMAND, "-m", PROGRAM], ids=["command", "-m", "program"], indirect=True)
def test_nothing_of_the_folder_that_is_ingested_runs(start: list[str | Path], folder: Path) -> None:
    pytest.importorskip("mammoth")
    done = run(folder, *start, "ingest", ".", "--uri", "rag.db", "--workers", "2", "--json")
    sprung = folder.with_name("sprung")
    assert not sprung.exists(), sprung.read_text()
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["files"], report["failed"]) == (3, {})


def test_no_dotenv_file_is_read_and_no_variable_names_the_engine(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("BIN_PATH=/nowhere\n")
    (tmp_path / "folder").mkdir()
    code = "import os, dotenv; load = dotenv.load_dotenv; import rag_bm25.store.milvus.client; "
    code += "print(os.environ.get('BIN_PATH'), dotenv.load_dotenv is load)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "folder",
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "None True\n"


def test_other_threads_read_their_dotenv_files_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dotenv

    (tmp_path / ".env").write_text("RAG_BM25_OF_A_TEST=set\n")
    monkeypatch.delenv("RAG_BM25_OF_A_TEST", raising=False)
    with _no_dotenv(), ThreadPoolExecutor() as threads:
        assert not dotenv.load_dotenv(tmp_path / ".env")
        assert threads.submit(dotenv.load_dotenv, tmp_path / ".env").result()
    assert os.environ["RAG_BM25_OF_A_TEST"] == "set"


def test_processes_of_others_start_as_ever() -> None:
    before = vars(util)["_args_from_interpreter_flags"]
    pool = ProcessPool(1, int)
    pool.shutdown()
    assert vars(util)["_args_from_interpreter_flags"] is before


def test_a_folder_that_was_removed_is_on_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.setattr(sys, "path", ["", "/usr/lib"])
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert safe_path() == ["/usr/lib", str(ROOT)]
