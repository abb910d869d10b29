"""The frame of every command: help, usage, places, tokens, errors and their exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import Databases, assert_fails, run
from support.memory_store import Collections

from rag_bm25 import StoreError, __version__
from rag_bm25.cli import main
from rag_bm25.cli.app import COMMANDS
from rag_bm25.cli.commands import WRITING

pytestmark = pytest.mark.usefixtures("databases")
ROOT = Path(__file__).parents[2]


def test_what_is_said_of_interrupted_writes_is_said_of_commands() -> None:
    assert set(WRITING) <= COMMANDS.keys()


def test_without_arguments_help_is_shown() -> None:
    result = run()
    assert result.exit_code == 2
    for command in COMMANDS:
        assert f"\n  {command} " in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"\n    rag-bm25 {command} " in result.stdout
    assert ("--json" in result.stdout) == (command not in ("serve", "token"))


INTERRUPTED = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
sys.argv = ["rag-bm25", "stats"]
from rag_bm25.cli import main
main()
"""


@pytest.mark.parametrize("module", ["numpy", "typer", "rag_bm25.index", "rag_bm25.cli.app"])
def test_ctrl_c_while_modules_are_imported_is_quiet(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED.format(module=module)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_version() -> None:
    assert run("--version").stdout == f"rag-bm25 {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["serch"],
        ["search"],
        ["search", "q", "-k", "0"],
        ["search", "q", "--filter", "{bad"],
        ["terms", "--filter", "page"],
        *(["search", "q", "--filter", wrong] for wrong in ("page", "$foo=1", '{"page": {"$gte": null}}')),
        ["delete"],
        ["ingest"],
        ["ingest", ".", "--chunk-size", "0"],
        ["ingest", ".", "--set", "k1"],
        ["ingest", ".", "--set", "k1=1.2", "--k1", "1.2"],
        ["ingest", ".", "--chunk-size", "auto"],
        ["calibrate", ".", "--set", "chunk_size=300"],
        ["ingest", ".", "--field", "title"],
        ["ingest", ".", "--field", "title:30", "--field", "title:20"],
        ["evaluate", ".", "--field", "title:30:0"],
        ["evaluate", ".", "--chunk-size", "mean"],
        ["evaluate", ".", "--compare", "k1=0.9,idf"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_opens_nothing(databases: Databases, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error: " in result.stderr
    assert databases.opened == []


@pytest.mark.parametrize(
    "arguments",
    [["search", "q"], ["explain", "q", "id"], ["stats"], ["verify"], ["delete", "id"], ["calibrate"]],
    ids=" ".join,
)
def test_an_index_that_does_not_exist_is_named_and_not_created(databases: Databases, arguments: list[str]) -> None:
    assert_fails(run(*arguments), "index 'docs' not found at ./rag_bm25.db; `rag-bm25 ingest` creates one")
    assert databases == {}


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        (["ingest", ".", "--uri", ":memory:"], {}),
        (["search", "q"], {"MILVUS_URI": ":memory:"}),
        (["copy", "--to-uri", ":memory:"], {}),
        (["reindex", "--to-collection", "new", "--to-uri", ":memory:"], {}),
    ],
)
def test_an_index_in_memory_would_be_forgotten(databases: Databases, arguments: list[str], env: dict[str, str]) -> None:
    result = run(*arguments, env=env)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "':memory:' would be forgotten when the command ends: give a file ending in .db" in result.stderr
    assert databases.opened == []


def test_uri_and_token_come_from_the_environment(databases: Databases) -> None:
    run("stats", env={"MILVUS_URI": "http://host:1", "MILVUS_TOKEN": "key"})
    assert databases.opened == []
    databases["http://host:1", "docs"] = Collections()
    run("stats", env={"MILVUS_URI": "http://host:1", "MILVUS_TOKEN": "key"})
    assert [(opened["uri"], opened["token"]) for opened in databases.opened] == [("http://host:1", "key")]


def test_the_token_is_never_shown() -> None:
    for arguments in (["stats", "--help"], ["stats"], ["stats", "--bad"]):
        assert "secret" not in run(*arguments, env={"MILVUS_TOKEN": "secret"}).output


def test_a_token_is_read_from_a_file(databases: Databases, tmp_path: Path) -> None:
    databases["http://host:1", "docs"] = Collections()
    (tmp_path / "token").write_text("kim:open sesame\n")
    for arguments, env in (
        (("--token", "@token"), {}),
        ((), {"MILVUS_TOKEN": f"@{tmp_path}/token"}),
        ((), {"MILVUS_TOKEN": "kim:open sesame"}),
    ):
        result = run("search", "q", "--uri", "http://host:1", *arguments, env=env)
        assert "every user" not in result.stderr
    assert [opened["token"] for opened in databases.opened] == ["kim:open sesame"] * 3


def test_a_token_file_that_cannot_be_read_is_named(databases: Databases, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    for name, reason in (("none", "No such file or directory"), ("binary", "it is not UTF-8")):
        result = run("stats", "--token", f"@{name}")
        assert result.exit_code == 2
        assert f"{name} cannot be read: {reason}" in " ".join(result.stderr.replace("│", " ").split())
    assert databases.opened == []


def test_a_token_among_the_arguments_is_remarked_upon(databases: Databases) -> None:
    databases["http://host:1", "docs"] = Collections()
    result = run("copy", "--uri", "http://host:1", "--to-uri", "http://host:2", "--to-token", "hush", "--dry-run")
    assert result.stderr.startswith("every user of this machine can see --to-token: use MILVUS_TO_TOKEN or @FILE")
    assert "hush" not in result.output


def test_errors_of_milvus_are_one_line(docs: Path, databases: Databases) -> None:
    def refuse(_: str) -> None:
        raise StoreError("cannot reach Milvus\nat http://host:1")

    databases.on_call = refuse
    assert_fails(run("search", "q"), "error: cannot reach Milvus at http://host:1\n")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["search", "sparse"], "error: interrupted\n"),
        (["ingest", "docs"], "everything acknowledged is stored, and running the same command again continues\n"),
    ],
)
def test_interrupting_exits_with_130(docs: Path, databases: Databases, command: list[str], says: str) -> None:
    def interrupt(method: str) -> None:
        if method in ("search", "get_chunks"):
            raise KeyboardInterrupt

    (docs / "more.md").write_text("More about sparse vectors.")
    databases.on_call = interrupt
    result = run(*command)
    assert result.exit_code == 130
    assert result.stderr.endswith(says)


def test_bugs_keep_their_traceback(docs: Path, databases: Databases) -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError

    databases.on_call = fail
    assert isinstance(run("search", "q").exception, ZeroDivisionError)


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    for name in [name for name in sys.modules if name.startswith("rag_bm25.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name.partition(".")[0] == package:
                raise ModuleNotFoundError(name=package)

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["rag-bm25", "stats"])
    with pytest.raises(SystemExit, match=f"error: the command line needs {package}: pip install"):
        main()


def test_an_encoding_that_garbles_arguments_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    with pytest.raises(SystemExit, match="read as ASCII here: set PYTHONUTF8=1"):
        main()


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_command_runs_with_a_closed_stream(monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    monkeypatch.setattr(sys, closed, None)
    monkeypatch.setattr(sys, "argv", ["rag-bm25", "token", "alice"])
    with pytest.raises(SystemExit) as ended:
        main()
    getattr(sys, closed).close()
    assert ended.value.code == 0


@pytest.mark.parametrize("command", ["ingest", "search"])
def test_the_help_of_the_collection_has_its_rule(command: str) -> None:
    assert "ASCII letters, digits and _" in " ".join(run(command, "--help").stdout.split())


def modules_of(*words: str) -> set[str]:
    """Name the modules that a command imports."""
    code = f"""
import sys
from rag_bm25.cli import main
sys.argv = ["rag-bm25", *{words}]
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(ended.stderr.split())


def test_the_version_is_shown_before_anything_is_imported() -> None:
    modules = modules_of("--version")
    assert {name for name in modules if name.startswith("rag_bm25.")} == {"rag_bm25._version", "rag_bm25.cli"}
    assert not {"typer", "rich", "numpy"} & modules


def test_help_lists_the_commands_without_importing_one() -> None:
    modules = modules_of("--help")
    assert {name for name in modules if name.startswith("rag_bm25.")} == {
        "rag_bm25._version",
        "rag_bm25.cli",
        "rag_bm25.cli.app",
        "rag_bm25.cli.certificates",
    }
    assert not {"rich", "numpy"} & modules


def test_a_command_imports_no_other() -> None:
    modules = modules_of("search", "--help")
    assert "rag_bm25.cli.searching" in modules
    assert not {"rag_bm25.cli.ingesting", "rag_bm25.cli.serving", "rag_bm25.evaluation", "rag_bm25.serving"} & modules


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_the_first_line_of_what_a_command_says_of_itself(command: str) -> None:
    assert COMMANDS[command].help == COMMANDS[command].load().help.partition("\n")[0]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rag-bm25 re", ["repair", "reindex"]),
        ("rag-bm25 search --fu", ["--fusion"]),
        ("rag-bm25 search --boost ", ["decay", "value"]),
        ("rag-bm25 search --diversity n", ["near-duplicates"]),
        ("rag-bm25 evaluate --idf lu", ["lucene"]),
        ("rag-bm25 list ", ["indexes", "sources", "chunks"]),
        ("rag-bm25 search --uri x.db --token secret --embedding none:x --rerank none:y --cont", ["--context"]),
    ],
)
def test_shells_complete_lines(databases: Databases, words: str, expected: list[str]) -> None:
    at = len(words.split(" ")) - 1
    env = {"_RAG_BM25_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    result = run(env=env)
    assert (result.stdout.split(), result.stderr) == (expected, "")
    assert databases.opened == []
