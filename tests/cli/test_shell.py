"""``rag-bm25 shell``: lines that are piped in, and lines that are typed."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.cells import cell_len
from support.command_line import Databases, run

from rag_bm25.cli import shell as shell_module
from rag_bm25.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("databases")
ROOT = Path(__file__).parents[2]


def say(*lines: str, options: tuple[str, ...] = ()) -> Any:
    """Run a session of these lines."""
    return run("shell", *options, input="".join(f"{line}\n" for line in lines))


def ids(printed: str) -> list[str]:
    """Read the ids of the hits."""
    return re.findall(r"^ *\d+  \d+\.\d+  (\S+)", printed, re.MULTILINE)


def test_words_search_as_search_does(docs: Path) -> None:
    result = say("sparse vectors", "", "劳动合同")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == run("search", "sparse vectors").stdout + run("search", "劳动合同").stdout != ""


def test_options_of_search_hold_from_the_start(docs: Path) -> None:
    found = say("sparse", options=("-k", "1", "--filter", '{"page": 3}')).stdout
    assert ids(found) == ["r1"]


def test_a_query_is_refined_step_by_step(docs: Path) -> None:
    steps = {
        "sparse": ["docs/milvus.md#0", "r1"],
        ":must rows": ["r1"],
        ":must": ["docs/milvus.md#0", "r1"],
        ":not rows": ["docs/milvus.md#0"],
        ":not": ["docs/milvus.md#0", "r1"],
        ":phrase sparse rows": ["r1"],
        ":phrase": ["docs/milvus.md#0", "r1"],
        "+rows": ["r1", "docs/milvus.md#0"],
        ':filter {"page": 3}': ["r1"],
        ":filter": ["r1", "docs/milvus.md#0"],
        ":k 1": ["r1"],
        ":more": ["docs/milvus.md#0"],
    }
    printed = ""
    for at, (_, expected) in enumerate(steps.items()):
        result = say(*list(steps)[: at + 1])
        assert (result.exit_code, result.stderr) == (0, "")
        assert {*ids(result.stdout.removeprefix(printed))} == {*expected}
        assert len(ids(result.stdout.removeprefix(printed))) == len(expected)
        printed = result.stdout
    assert printed.splitlines()[-2].startswith(" 2  ")


def test_namespaces(docs: Path) -> None:
    run("ingest", docs / "rows.jsonl", "--namespace", "teamA")
    result = say("sparse", ":namespace teamA", ":namespace *", ":namespace")
    assert [len(ids(part)) for part in [result.stdout]] == [2 + 1 + 3 + 2]
    missing = say("sparse", ":namespace nope")
    assert "nothing found: no chunk is in the namespace 'nope'" in missing.stderr


def test_hits_are_explained_and_shown_by_their_numbers(docs: Path) -> None:
    first, second = ids(run("search", "sparse").stdout)
    assert f"{second!r} for 'sparse'\nterm " in say("sparse", ":explain 2").stdout
    assert f"{first!r} for 'sparse'" in say("sparse", ":e").stdout
    assert f"score of chunk {second!r} for the query 'sparse'" in say("sparse", ":tree 2").stdout
    assert f"{second!r} is found: rank 2, score" in say("sparse", ":why 2").stdout
    assert (
        f"{second!r} is not found: it is hit 2 by score, beyond k = 1" in say("sparse", ":k 1", f":why {second}").stdout
    )
    assert "'docs/law.txt#0'" in say("sparse", ":explain docs/law.txt#0").stdout
    assert run("show", second).stdout in say("sparse", ":show 2").stdout
    assert run("show", "docs/law.txt#0").stdout == say(":show docs/law.txt#0").stdout
    similar = say("sparse", ":similar 1", ":show 1").stdout
    assert run("show", second).stdout in similar


def test_stats_state_and_help(docs: Path) -> None:
    assert say(":stats").stdout == run("stats").stdout
    state = say("sparse", ":k 3", ":set idf=lucene", ":state").stdout.splitlines()[-4:]
    assert [line.split() for line in state] == [
        ["query", "sparse"], ["k", "3"], ["namespace", "the", "default", "namespace"], ["idf", "lucene"],
    ]  # fmt: skip
    helped = say(":help").stdout
    for name in shell_module.COMMANDS:
        assert f"\n:{name} " in helped
    assert say("sparse", ":set idf=lucene").stdout != say("sparse", ":k 10").stdout


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (":foo", "there is no command :foo; :help lists them"),
        (":exlain", "there is no command :exlain; did you mean :explain?"),
        (":explain", "there is no query yet"),
        (":more", "there is no query yet"),
        (":show 3", "the number must be that of a hit, and there are no hits, got 3"),
        (":show nothing", "there is no chunk 'nothing'"),
        (":k 0", "must be a whole number in 1..16,384, got '0'"),
        (":k", "must be a whole number in 1..16,384, got ''"),
        (":k ５", "must be a whole number"),
        (":filter {bad", "not a JSON object"),
        (':filter {"a": {"$no": 1}}', "$no"),
        (":set k1=2", "a search can change idf"),
        (":set", "the command needs an argument"),
        ("x" * 70_000, "a query must have at most 65,535 characters"),
    ],
)
def test_what_goes_wrong_is_one_line_and_the_session_goes_on(docs: Path, line: str, says: str) -> None:
    result = say(line, "sparse")
    assert result.exit_code == 1
    assert says in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert len(ids(result.stdout)) == 2


def test_a_change_that_fails_changes_nothing(docs: Path, databases: Databases) -> None:
    assert len(ids(say("sparse", ':filter {"page": {"$no": 3}}', ":k 5").stdout)) == 4

    def refuse(method: str) -> None:
        if method == "search":
            raise StoreError("lost")

    databases.on_call = refuse
    result = say("sparse", ":state")
    assert "query" not in result.stdout


def test_a_search_without_hits_says_why(docs: Path) -> None:
    assert say("zebra").stderr.startswith("nothing found: ")
    conditions = say("sparse", ":must zebra").stderr
    assert conditions.startswith("nothing found: without must ['zebra'], the search has hits")
    assert "there are no more hits" in say("sparse", ":more").stderr


def test_quitting_ends_the_session(docs: Path) -> None:
    assert len(ids(say("sparse", ":q", "sparse").stdout)) == 2
    assert run("shell", input="").exit_code == 0


def test_input_that_is_no_utf_8_is_survived(docs: Path) -> None:
    result = run("shell", input=b"sparse \xff\xfe\nsparse\n")  # type: ignore[arg-type]
    assert len(ids(result.stdout)) == 4


@pytest.mark.parametrize("width", [40, 80])
def test_nothing_is_wider_than_the_terminal(docs: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (docs / "很长的文件名.md").write_text(
        "# 标题\n\n" + "用人单位解除劳动合同，应当出具证明。A word. " * 30, encoding="utf-8"
    )
    run("ingest", docs)
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": str(width), "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    lines = ("劳动合同 证明", ":show 1", ":explain 1", ":similar 1", ":stats", ":state", ":help", ":filter {bad")
    printed = [say(*lines).stdout, *(run(*words).stdout for words in (
        ("list",), ("list", "sources"), ("list", "chunks"), ("show", "docs/很长的文件名.md#1"), ("search", "证明"),
    ))]  # fmt: skip
    assert all(printed)
    for line in re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(printed)).splitlines():
        assert cell_len(line) <= width, line


# Typed lines

SESSION = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
from support.command_line import Databases
import rag_bm25.store.milvus as milvus
databases = Databases()
milvus.MilvusStore = databases.store
milvus.is_missing_file = lambda uri: False
from rag_bm25 import BM25Index, IndexConfig
with BM25Index.from_store(databases.store("./rag_bm25.db", "docs"), config=IndexConfig(500)) as index:
    index.add(["Milvus stores sparse vectors.", "用人单位解除劳动合同", "sparse rows"], ids=["milvus", "law", "rows"])
def hang(method):
    if method == "search" and hanging:
        import time
        time.sleep(60)
hanging = {hanging}
databases.on_call = hang
from rag_bm25.cli import main
sys.argv = ["rag-bm25", "shell"]
main()
"""


class Typist:
    """A process on a terminal of its own."""

    def __init__(self, folder: Path, *, hanging: bool = False) -> None:
        script = SESSION.format(root=str(ROOT), tests=str(ROOT / "tests"), hanging=hanging)
        environment = {
            **os.environ,
            "TERM": "xterm",
            "XDG_STATE_HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "80",
        }
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # the tests may run in the background
            os.chdir(folder)
            os.execve(sys.executable, [sys.executable, "-c", script], environment)
        self.printed = ""

    def expect(self, text: str, seconds: float = 120) -> str:
        """Read until a text is printed, and return everything up to its end."""
        deadline = time.monotonic() + seconds
        while text not in self.printed:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{text!r} is not in {self.printed!r}")
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.printed += os.read(self.terminal, 65_536).decode(errors="replace")
        before, _, self.printed = self.printed.partition(text)
        return before + text

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C, again if Python has missed it: a signal just before it waits is seen at the next key."""
        for _ in range(20):
            self.type("\x03")
            with suppress(TimeoutError):
                self.expect("docs> ", 5)
                return
        raise TimeoutError("Ctrl-C has no effect")

    def end(self) -> int:
        """Wait for the end, and return the exit code."""
        while True:
            try:
                if not os.read(self.terminal, 65_536):
                    break
            except OSError:  # the other side is closed
                break
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def typist(tmp_path: Path) -> Iterator[Any]:
    made: list[Typist] = []

    def start(**options: bool) -> Typist:
        made.append(Typist(tmp_path, **options))
        made[-1].expect("docs> ")
        return made[-1]

    yield start
    for one in made:
        try:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        except (ChildProcessError, ProcessLookupError):
            pass


def test_a_session_on_a_terminal(typist: Any, tmp_path: Path) -> None:
    first = typist()
    first.type("劳动合同\r")
    assert "law" in first.expect("docs> ")
    first.type(":exp\t1\r")  # completed
    assert "'law' for '劳动合同'" in first.expect("docs> ")
    first.type("half a line")
    first.expect("half a line")
    first.interrupt()
    first.type(":state\r")
    assert "half" not in first.expect("docs> ")
    first.type("\x04")
    assert first.end() == 0
    file = tmp_path / "rag-bm25" / "history"
    assert file.read_text(encoding="utf-8").splitlines() == ["劳动合同", ":explain 1", ":state"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    second = typist()
    second.type("\x1b[A\x1b[A\x1b[A\r")  # the line of the first session
    assert "law" in second.expect("docs> ")
    second.type(":quit\r")
    assert second.end() == 0


def test_ctrl_c_ends_the_search_and_not_the_session(typist: Any) -> None:
    session = typist(hanging=True)
    session.type("sparse\r")
    session.expect("sparse")
    time.sleep(0.5)  # until the search has begun; if not, it is the line that ends, and the session goes on as well
    session.interrupt()
    session.type(":stats\r")
    assert "chunks" in session.expect("docs> ")
    session.type("\x04")
    assert session.end() == 0


def test_the_history_is_where_the_xdg_directories_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", given)
        assert shell_module._history_file() == tmp_path / ".local" / "state" / "rag-bm25" / "history"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert shell_module._history_file() == Path("/state/rag-bm25/history")


def test_a_session_on_the_embedded_engine(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite")
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "r1", "text": "sparse 劳动合同"}) + "\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "rag_bm25")
    subprocess.run([*command, "ingest", "rows.jsonl"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    ended = subprocess.run(
        [*command, "shell"], cwd=tmp_path, env=environment, input="劳动合同\n:show 1\n", capture_output=True, text=True,
        check=True, encoding="utf-8",
    )  # fmt: skip
    assert ended.stderr == ""
    assert ids(ended.stdout) == ["r1"]
