"""What can be shown of Windows on another system: no module, attribute, path or signal that is not there is needed."""

from __future__ import annotations

import json
import ntpath
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace
from typing import Any

import pytest
from support.clocks import PATIENCE
from support.programs import environment, run_python

from rag_bm25 import cli
from rag_bm25.ingestion import opening, source_names
from rag_bm25.ingestion.source_names import SourceNames
from rag_bm25.statistics.log.source_roots import SourceRoot

# Other packages are imported before, as they are here. SIGKILL and AF_UNIX stay, which the standard library needs here:
# of those, mypy knows that Windows has none.
LIKE_WINDOWS = """
import asyncio, importlib, os, pkgutil, select, signal, socket, sys
from importlib.util import find_spec
import rag_bm25

UNIX = "crypt fcntl grp nis ossaudiodev posix pty pwd readline resource spwd syslog termios tty"
NAMES = {
    os: "fork forkpty getuid geteuid getgid getegid getpgid setsid killpg mkfifo mknod chown fchmod chroot statvfs "
    "getloadavg sched_getaffinity register_at_fork wait WNOHANG O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_CLOEXEC O_PATH",
    signal: "SIGHUP SIGQUIT SIGALRM SIGUSR1 SIGUSR2 SIGCHLD SIGPIPE alarm pause setitimer pthread_sigmask pthread_kill "
    "sigwait SIG_BLOCK SIG_UNBLOCK SIG_SETMASK",
    select: "poll epoll",
    socket: "SO_REUSEPORT",
}
ABSENT = {"rag_bm25.llama_index"} if find_spec("llama_index") is None else set()
MODULES = [
    found.name
    for found in pkgutil.walk_packages(rag_bm25.__path__, "rag_bm25.", onerror=lambda name: None)
    if not any(found.name == name or found.name.startswith(name + ".") for name in ABSENT)
]

def load():
    for name in MODULES:
        importlib.import_module(name)

def refuse(files, *_):
    raise OSError("select is for sockets alone")

load()
for name in [name for name in sys.modules if name.split(".")[0] == "rag_bm25"]:
    del sys.modules[name]
sys.platform = "win32"
sys.modules |= dict.fromkeys(UNIX.split())
for module, names in NAMES.items():
    for name in names.split():
        vars(module).pop(name, None)
os.supports_dir_fd = set()
asyncio.SelectorEventLoop.add_signal_handler = asyncio.AbstractEventLoop.add_signal_handler  # it raises
load()
"""
HELP = """
from rag_bm25.cli import main
from rag_bm25.cli.app import COMMANDS

for command in [[], *([name] for name in COMMANDS)]:
    sys.argv = ["rag-bm25", *command, "--help"]
    try:
        main()
    except SystemExit as error:
        assert not error.code, command
"""
INGEST = """
import json, select, sys
from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.ingestion import find_files, ingest

if sys.platform == "win32":
    select.select = refuse
with BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=50)) as index:
    report = ingest(index, find_files([sys.argv[1]]))
    chunks = [[chunk.id, chunk.text, chunk.metadata] for chunk in index.chunks()]
    print(json.dumps([report.failed, sorted(chunks, key=lambda chunk: chunk[0])]))
"""
SERVE = """
from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.serving.observing import Observer
from rag_bm25.serving.running import serve_stdio
from rag_bm25.serving.served import Served
from rag_bm25.serving.settings import Limits

index = BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=50))
serve_stdio(Served(index, Observer(), Limits(), "docs"), allow_writes=False)
"""
NEEDS_ALL = ("typer", "mcp", "starlette", "uvicorn", "prometheus_client", "ir_measures")


@pytest.fixture
def _has_all() -> None:
    for name in NEEDS_ALL:
        pytest.importorskip(name, reason='all modules need rag-bm25[all]: pip install ".[all]"')


@pytest.mark.slow
@pytest.mark.usefixtures("_has_all")
class TestWithoutWhatWindowsLacks:
    def test_every_module_and_the_help_of_every_command_load(self) -> None:
        done = run_python(LIKE_WINDOWS + HELP, env=environment(PYTHONIOENCODING="cp1252"))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("Usage: rag-bm25") > 10

    def test_a_folder_has_the_same_chunks(self, tmp_path: Path) -> None:
        for name, text in {
            "a.html": "<h1>Notice</h1><p>Thirty days.",
            "sub/b.md": "# 通知\n\n三十日",
            "c.txt": "c",
        }.items():
            file = tmp_path / "docs" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        there, here = (run_python(code + INGEST, tmp_path / "docs") for code in (LIKE_WINDOWS, ""))
        assert (there.returncode, there.stderr) == (0, "")
        assert json.loads(there.stdout) == json.loads(here.stdout)
        failed, chunks = json.loads(here.stdout)
        assert (failed, [chunk[0] for chunk in chunks]) == ({}, ["docs/a.html#0", "docs/c.txt#0", "docs/sub/b.md#0"])

    @pytest.mark.skipif(os.name == "nt", reason="there, one process ends another without a signal")
    def test_a_signal_ends_the_server_of_one_agent(self) -> None:
        command = [sys.executable, "-c", LIKE_WINDOWS + SERVE]
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(command, env=environment(), text=True, **pipes) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == 1
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=PATIENCE) == ("", "")
        assert process.returncode == 0


class TestPaths:
    """Those of Windows, by its own rules of paths."""

    @pytest.fixture
    def names(self, monkeypatch: pytest.MonkeyPatch) -> SourceNames:
        monkeypatch.setattr(source_names, "os", SimpleNamespace(path=ntpath, sep="\\"))
        monkeypatch.setattr(source_names, "Path", PureWindowsPath)
        monkeypatch.setattr(ntpath, "exists", lambda _path: True)
        return SourceNames([SourceRoot("docs", r"C:\work\docs", True)], lambda _name, _is_folder: False)

    @pytest.mark.parametrize(
        ("path", "source"),
        [
            (r"C:\work\docs\sub\a.md", "docs/sub/a.md"),
            (r"C:\work\docs", "docs"),
            (r"C:/work/docs/sub/../b.md", "docs/b.md"),
        ],
    )
    def test_sources_have_slashes(self, names: SourceNames, path: str, source: str) -> None:
        assert names.source_of(PureWindowsPath(path)) == source  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("path", "name"), [(r"D:\team\docs", "team/docs"), ("E:\\", "E"), (r"\\host\share\more", "more")]
    )
    def test_roots_have_names_with_slashes(self, names: SourceNames, path: str, name: str) -> None:
        names.take(PureWindowsPath(path))  # type: ignore[arg-type]
        assert [root.name for root in names.new] == [name]

    def test_a_file_is_no_link_for_being_spelled_otherwise(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "a.txt"
        file.write_bytes(b"text")
        monkeypatch.setattr(os, "supports_dir_fd", set())
        monkeypatch.setattr(os.path, "realpath", lambda path: str(path).replace("a.txt", "A.TXT"))
        monkeypatch.setattr(os.path, "normcase", lambda path: str(path).lower())
        with opening.open_regular(file, file) as stream:
            assert stream.read() == b"text"


class _Windows:
    """The module `os` with another name of the system."""

    name = "nt"

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def test_an_argument_with_a_star_is_no_pattern_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    core = pytest.importorskip("typer.core")
    for name in ("a.md", "b.md"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(core, "os", _Windows())
    monkeypatch.setattr(sys, "argv", ["rag-bm25", "stats", "--collection", "*.md", "--uri", "no.db"])
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    assert "index '*.md' not found" in capsys.readouterr().err


def test_no_two_servers_have_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    running = pytest.importorskip("rag_bm25.serving.running")
    monkeypatch.setattr(sys, "platform", "win32")
    with running.listen(SimpleNamespace(host="127.0.0.1", port=0)) as listener:
        assert not listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
