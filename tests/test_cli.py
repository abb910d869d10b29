"""The command line over the in-memory store: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from memory_store import Collections, MemoryStore
from typer.testing import CliRunner

from rag_bm25 import BM25Index, IndexConfig, StoreError, __version__
from rag_bm25.cli import main
from rag_bm25.cli.app import app
from rag_bm25.cli.configurations import config_of, settings_of
from rag_bm25.evaluation import SETTING_NAMES, load_beir

if TYPE_CHECKING:
    from collections.abc import Callable


COMMANDS = ("ingest", "search", "explain", "stats", "verify", "delete", "calibrate", "evaluate", "tune")
Result: TypeAlias = Any  # of click, which newer versions of Typer have inside


class Databases(dict[tuple[str, str], Collections]):
    """What stands in for Milvus: collections by URI and name; `opened` has the arguments of every opening."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[dict[str, Any]] = []
        self.on_call: Callable[[str], None] | None = None

    def store(self, uri: object, collection: str, **options: Any) -> MemoryStore:
        self.opened.append({"uri": str(uri), "collection": collection, **options})
        store = MemoryStore(collections=self.setdefault((str(uri), collection), Collections()))
        store.on_call = self.on_call
        return store


@pytest.fixture(autouse=True)
def databases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Databases:
    """Replace Milvus, and work in a folder of one's own."""
    databases = Databases()
    monkeypatch.setattr("rag_bm25.milvus_store.MilvusStore", databases.store)
    monkeypatch.setattr(
        "rag_bm25.milvus_store.is_missing_file", lambda uri: not any(str(uri) == known for known, _ in databases)
    )
    monkeypatch.chdir(tmp_path)
    for name in ("MILVUS_URI", "MILVUS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return databases


def run(*arguments: object, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="rag-bm25", env=env)


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


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """An ingested folder of three files."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "law.txt").write_text("用人单位解除劳动合同，应当出具证明。", encoding="utf-8")
    (folder / "milvus.md").write_text("# Milvus\n\nMilvus stores sparse vectors.", encoding="utf-8")
    row = {"id": "r1", "text": "sparse rows", "metadata": {"page": 3}}
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n")
    assert run("ingest", folder).exit_code == 0
    return folder


# Frame


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
    assert "--json" in result.stdout


def test_version() -> None:
    assert run("--version").stdout == f"rag-bm25 {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["serch"],
        ["search"],
        ["search", "q", "-k", "0"],
        ["search", "q", "--idf", "bm42"],
        ["search", "q", "--feedback", "rm4"],
        ["search", "q", "--filter", "{bad"],
        ["delete"],
        ["ingest"],
        ["ingest", ".", "--chunk-size", "0"],
        ["ingest", ".", "--length-unit", "bytes"],
        ["ingest", ".", "--field", "title"],
        ["ingest", ".", "--field", "title:30:2:0.5:1"],
        ["ingest", ".", "--field", "title:long"],
        ["ingest", ".", "--field", "title:30", "--field", "title:20"],
        ["evaluate", ".", "--field", "title:30:0"],
        ["evaluate", ".", "--chunk-size", "mean"],
        ["evaluate", ".", "--compare", "k2=1"],
        ["evaluate", ".", "--compare", "k1"],
        ["tune", ".", "--search", "k2"],
        ["tune", ".", "--base", "k1=1,idf"],
        ["tune", ".", "--folds", "1"],
        ["tune", ".", "--search", "k1", "--plot", "map.png"],
        ["calibrate", ".", "--sample", "0"],
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
    assert_fails(run(*arguments), "there is no index 'docs' at ./rag_bm25.db; `rag-bm25 ingest` creates one")
    assert databases == {}


def test_an_unknown_collection_is_named_and_not_created(docs: Path, databases: Databases) -> None:
    assert_fails(run("search", "q", "--collection", "other"), "there is no index")
    assert not databases["./rag_bm25.db", "other"].exist


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
    with pytest.raises(SystemExit, match=f'error: the command line needs {package}: pip install "rag-bm25.cli."'):
        main()


def test_a_missing_splitter_is_named_with_its_extra(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_text_splitters", None)
    assert_fails(run("ingest", docs), 'needs langchain-text-splitters: pip install "rag-bm25[cli]"')


def test_the_entry_point_imports_neither_typer_nor_rich() -> None:
    code = "import sys, rag_bm25.cli; print({'typer', 'rich'} & set(sys.modules))"
    root = Path(__file__).parents[1]
    assert subprocess.check_output([sys.executable, "-c", code], cwd=root, text=True) == "set()\n"


# Ingesting


def test_ingest_reports_counts(docs: Path) -> None:
    result = run("ingest", docs, "--collection", "new")
    assert result.exit_code == 0
    assert result.stdout.startswith("3 files, 3 chunks: 3 added, 0 updated, 0 unchanged, 0 deleted; ")
    assert result.stderr == ""


def test_ingest_json(docs: Path) -> None:
    report = run_json("ingest", docs, "--collection", "new")
    assert {name: value for name, value in report.items() if not name.endswith("second") and name != "seconds"} == {
        "files": 3, "chunks": 3, "added": 3, "updated": 0, "unchanged": 0, "stale": 0, "deleted": 0, "failed": {},
            "notes": [], "skipped": 0,
    }  # fmt: skip
    assert report["seconds"] > 0


def test_ingesting_twice_changes_nothing(docs: Path, databases: Databases) -> None:
    stored = databases["./rag_bm25.db", "docs"]
    before = (set(stored.chunks), set(stored.log), run_json("stats"))
    assert run_json("ingest", docs)["added"] == 0
    assert (set(stored.chunks), set(stored.log), run_json("stats")) == before


def test_a_new_index_has_the_given_parameters(docs: Path) -> None:
    run("ingest", docs, "--collection", "new", "--chunk-size", 9, "--k1", 1.2, "--b", 0.5, "--length-unit", "terms")
    stats = run_json("stats", "--collection", "new")
    assert [stats[name] for name in ("chunk_size", "k1", "b", "length_unit")] == [9, 1.2, 0.5, "terms"]


def test_a_new_index_has_the_given_fields(docs: Path) -> None:
    row = {"id": "r1", "title": "Palms", "text": "coconuts"}
    (docs / "rows.jsonl").write_text(json.dumps(row) + "\n")
    new = ("--collection", "new")
    given = ("--field", "title:30:2.0:0.5", "--field", "source:20")
    run("ingest", docs, *new, *given)
    [hit] = run_json("search", "palms", *new)
    assert (hit["id"], hit["text"], hit["metadata"]["title"]) == ("r1", "coconuts", "Palms")
    for again in ((), given):
        assert run_json("ingest", docs, *new, *again)["added"] == 0
        assert run_json("search", "palms", *new)[0]["text"] == "coconuts"
    explained = run("explain", "palms", "r1", *new).stdout
    assert "in the field 'title', weight * tf / (1 - b + b * length / chunk_size) from:" in explained
    refused = run("ingest", docs, *new, "--field", "title:30")
    assert_fails(refused, "fields: stored {'title': FieldWeight(chunk_size=30, weight=2, b=0.5), 'source': ")


def test_an_index_without_fields_refuses_one(docs: Path) -> None:
    assert_fails(run("ingest", docs, "--field", "title:30"), "fields: stored {}, given {'title': FieldWeight(")


def test_a_wrong_field_is_named_with_its_rule(docs: Path) -> None:
    for given, rule in {
        "title": "must be NAME:CHUNK_SIZE, NAME:CHUNK_SIZE:WEIGHT or NAME:CHUNK_SIZE:WEIGHT:B, got 'title'",
        "title:30:1:2": "b of a field must be in [0, 1], got 2",
    }.items():
        stderr = " ".join(run("ingest", docs, "--field", given).stderr.split())
        assert f"Invalid value for --field: {'a field ' if given == 'title' else ''}{rule}" in stderr


def test_a_new_index_has_the_given_weighting(docs: Path) -> None:
    run("ingest", docs, "--collection", "new", "--weighting", "bm25l", "--delta", 0.3)
    assert run_json("stats", "--collection", "new")["weighting"] == "bm25l"
    assert run_json("ingest", docs, "--collection", "new", "--weighting", "bm25l", "--delta", 0.3)["added"] == 0
    refused = run("ingest", docs, "--collection", "new", "--weighting", "bm25+")
    assert_fails(refused, "weighting: stored 'bm25l', given 'bm25+'")


def test_the_chunk_size_of_an_index_is_used_again(docs: Path) -> None:
    run("ingest", docs, "--collection", "new", "--chunk-size", 12)
    assert run_json("stats", "--collection", "new")["num_chunks"] > 3
    assert run_json("ingest", docs, "--collection", "new")["added"] == 0


@pytest.mark.parametrize(
    ("option", "value", "difference"),
    [
        ("--chunk-size", 400, "chunk_size: stored 500, given 400"),
        ("--k1", 1.2, "k1: stored 1.5, given 1.2"),
        ("--idf", "lucene", "idf: stored 'epsilon', given 'lucene'"),
        ("--no-bigrams", None, "bigrams: stored True, given False"),
        ("--segmentation", "exact", "segmentation: stored 'search', given 'exact'"),
        ("--no-stem", None, "stem: stored True, given False"),
    ],
)
def test_other_parameters_than_the_stored_ones_are_refused(
    docs: Path, databases: Databases, option: str, value: object, difference: str
) -> None:
    before = dict(databases["./rag_bm25.db", "docs"].log)
    (docs / "new.txt").write_text("new")
    given = [option] if value is None else [option, value]
    assert_fails(run("ingest", docs, *given), f"the index was created with other parameters: {difference}; leave ")
    assert databases["./rag_bm25.db", "docs"].log == before


def test_the_same_parameters_are_welcome(docs: Path) -> None:
    assert run("ingest", docs, "--chunk-size", 500, "--idf", "epsilon", "--bigrams").exit_code == 0


def test_bigrams_can_be_left_out_of_a_new_index_and_of_a_search(docs: Path) -> None:
    (docs / "zh.txt").write_text("经济补偿", encoding="utf-8")
    run("ingest", docs)
    run("ingest", docs, "--collection", "words", "--no-bigrams")
    with_bigrams, words = (run_json("stats", "--collection", name)["num_terms"] for name in ("docs", "words"))
    assert with_bigrams > words
    (hit,) = run_json("search", "济补")
    assert run_json("search", "济补", "--bigram-weight", 0) == []
    (heavier,) = run_json("search", "济补", "--bigram-weight", 4, "--explain")
    assert heavier["score"] == pytest.approx(10 * hit["score"])
    assert "bigram '济补'" in str(heavier["explanation"])
    assert run_json("explain", "济补", hit["id"], "--bigram-weight", 4)["value"] == pytest.approx(heavier["score"])
    assert run_json("search", "济补", "--collection", "words") == []


def test_bad_parameters_are_refused(docs: Path, databases: Databases) -> None:
    assert_fails(run("ingest", docs, "--collection", "new", "--b", 2), "b must be")
    assert ("./rag_bm25.db", "new") not in databases or not databases["./rag_bm25.db", "new"].exist


def test_a_missing_path_is_named_before_anything_is_opened(databases: Databases) -> None:
    assert_fails(run("ingest", "nothing"), "error: nothing: No such file or directory\n")
    assert databases.opened == []


def test_bad_files_are_named_and_the_others_ingested(docs: Path) -> None:
    (docs / "bad.jsonl").write_text('{"id": "a", "text": "x"}\n' * 1 + '{"id": "b", "text": "x"}\n' * 1 + "{bad\n")
    (docs / "bad.txt").write_bytes(b"abc\xff")
    (docs / "new.txt").write_text("new")
    result = run("ingest", docs)
    assert result.exit_code == 1
    assert "4 files, 4 chunks: 1 added" in result.stdout
    expected = "Expecting property name enclosed in double quotes at column 2\n"
    assert f"error: {docs / 'bad.jsonl'} line 3: not JSON: {expected}" in result.stderr
    assert "error: " + str(docs / "bad.txt") + ": not UTF-8 at byte 3 of the file: convert it" in result.stderr
    assert run_json("stats")["num_chunks"] == 4


def test_skipped_files_are_named(docs: Path) -> None:
    (docs / "paper.pdf").write_text("%PDF")
    result = run("ingest", docs)
    assert result.exit_code == 0
    assert result.stderr == f"skipped 1 file of other kinds: {docs / 'paper.pdf'}\n"


def test_a_broken_link_and_one_out_of_the_folder_are_not_called_files_of_other_kinds(docs: Path) -> None:
    (docs / "broken.md").symlink_to("nowhere.md")
    (docs.parent / "outside.md").write_text("outside")
    (docs / "out.md").symlink_to("../outside.md")
    names = f"{docs / 'broken.md'}, {docs / 'out.md'}"
    assert run("ingest", docs).stderr == f"skipped, since they lead to no regular file within the folder: {names}\n"


def test_an_empty_folder_makes_no_index(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = run("ingest", tmp_path / "empty")
    assert result.exit_code == 1
    assert "there is nothing to ingest, so no index was created" in result.stderr
    assert run("stats").exit_code == 1


def test_an_empty_folder_is_no_error_where_there_is_an_index(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    run("ingest", docs)
    result = run("ingest", tmp_path / "empty")
    assert result.exit_code == 0
    assert result.stderr == "there is no .txt, .md or .jsonl file to ingest\n"
    assert result.stdout.startswith("0 files, 0 chunks")


def test_stale_chunks_are_reported_and_pruned(docs: Path) -> None:
    (docs / "milvus.md").unlink()
    result = run("ingest", docs)
    assert "0 deleted" in result.stdout
    assert result.stderr == "1 chunk is left of files that are gone: add --prune to delete such chunks\n"
    assert "1 deleted" in run("ingest", docs, "--prune").stdout
    assert run_json("stats")["num_chunks"] == 2


def test_progress_goes_to_stderr_where_it_is_forced(docs: Path) -> None:
    result = run("ingest", docs, "--progress", "--json")
    assert "ingesting" in result.stderr
    assert json.loads(result.stdout)["files"] == 3


def test_a_folder_of_the_same_name_gets_a_name_of_its_own(docs: Path, tmp_path: Path) -> None:
    other = tmp_path / "team" / "docs"
    other.mkdir(parents=True)
    (other / "law.txt").write_text("another law")
    result = run("ingest", other, "--prune")
    assert result.stderr == f"{other} is named 'team/docs': 'docs' is {docs}\n"
    assert "1 added, 0 updated, 0 unchanged, 0 deleted" in result.stdout
    assert run("ingest", other / "law.txt").stderr == ""
    assert run_json("stats")["num_chunks"] == 4


def test_a_folder_that_was_moved_keeps_its_name_if_one_says_so(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    moved = docs.rename(tmp_path / "new" / "docs")
    assert_fails(
        run("ingest", moved),
        f"if it was moved to {moved}, give the name 'docs' (--name docs); if not, give another name",
    )
    assert run_json("ingest", moved, "--name", "docs")["unchanged"] == 3


def test_a_root_is_remembered(docs: Path) -> None:
    run("ingest", docs / "law.txt", "--root", docs, "--collection", "new")
    assert run_json("ingest", docs, "--collection", "new")["unchanged"] == 1
    assert_fails(run("ingest", docs, "--root", docs / "law.txt"), "the root must be a folder, got ")


def test_a_file_that_cannot_be_ingested_is_an_error_where_it_was_named(docs: Path, databases: Databases) -> None:
    page = docs / "page.html"
    page.write_text("<html>")
    opened = len(databases.opened)
    assert_fails(
        run("ingest", page), f"{page}: a file to ingest must be a regular one that ends in .txt, .md or .jsonl"
    )
    assert len(databases.opened) == opened
    result = run("ingest", page, docs / "law.txt")
    assert (result.exit_code, result.stderr.count("page.html")) == (1, 1)
    assert "1 file, 1 chunk" in result.stdout


# Searching


def test_search_shows_rank_score_id_and_text(docs: Path) -> None:
    lines = run("search", "劳动合同").stdout.splitlines()
    assert lines[0].split()[0] == "1"
    assert float(lines[0].split()[1]) > 0
    assert lines[0].split()[2:] == ["docs/law.txt#0"]
    assert lines[1] == "    用人单位解除劳动合同，应当出具证明。"


def test_the_words_of_a_query_need_no_quotes(docs: Path) -> None:
    assert run("search", "劳动合同", "解除").stdout == run("search", "劳动合同 解除").stdout != ""


def test_search_json(docs: Path) -> None:
    hits = run_json("search", "sparse")
    assert {hit["id"] for hit in hits} == {"docs/milvus.md#0", "r1"}
    assert list(hits[0]) == ["id", "score", "text", "metadata", "namespace"]
    assert hits[0]["score"] >= hits[1]["score"] > 0


def test_search_takes_k_filter_and_idf(docs: Path) -> None:
    assert len(run_json("search", "sparse", "-k", 1)) == 1
    found = run_json("search", "sparse", "--filter", '{"page": {"$gte": 3}}')
    assert [hit["id"] for hit in found] == ["r1"]
    lucene = run_json("search", "sparse", "--filter", '{"page": 3}', "--idf", "lucene")
    assert lucene[0]["score"] != found[0]["score"]


def test_search_explains_each_hit(docs: Path) -> None:
    hits = run_json("search", "sparse vectors", "--explain", "--idf", "lucene")
    assert [hit["explanation"]["value"] for hit in hits] == pytest.approx([hit["score"] for hit in hits])
    printed = run("search", "sparse vectors", "--explain").stdout
    assert printed.count("score of chunk") == len(hits) == 2
    assert "N, chunks" in printed


def test_search_learns_from_chunks_that_are_marked(docs: Path) -> None:
    marked = run_json("search", "sparse", "--relevant", "docs/law.txt#0", "--explain")
    assert {hit["id"] for hit in marked} == {"docs/milvus.md#0", "r1"}  # no term of three chunks is rare and common
    assert "alpha" in json.dumps([hit["explanation"] for hit in marked])
    apart = run_json("search", "sparse", "--relevant", "r1", "--irrelevant", "docs/milvus.md#0")
    assert [hit["id"] for hit in apart] == ["r1", "docs/milvus.md#0"]
    swapped = run_json("search", "sparse", "--relevant", "docs/milvus.md#0", "--irrelevant", "r1")
    assert swapped[0]["score"] != apart[0]["score"]


@pytest.mark.parametrize("method", ["rm3", "rocchio", "bim"])
def test_search_with_feedback_explains_each_hit(docs: Path, method: str) -> None:
    arguments = ("sparse vectors", "--feedback", method, "--filter", '{"page": 3}')
    (hit,) = run_json("search", *arguments, "--explain")
    assert hit["explanation"]["value"] == pytest.approx(hit["score"])
    tree = run_json("explain", "sparse vectors", "r1", *arguments[1:])
    assert tree == hit["explanation"]
    assert tree != run_json("explain", "sparse vectors", "r1")


def test_irrelevant_chunks_for_a_method_that_has_no_use_for_them_fail(docs: Path) -> None:
    assert_fails(
        run("search", "sparse", "--irrelevant", "r1", "--feedback", "rm3"), "irrelevant chunks need feedback=Rocchio()"
    )


@pytest.mark.parametrize(
    ("query", "options", "reason"),
    [
        ("", (), "the query is empty"),
        ("  ", (), "the query is empty"),
        ("？？？ !", (), "the query has no words, only punctuation"),
        ("the", (), "the query has stop words only, which the index leaves out: the"),
        ("unheard quagmire", (), "no chunk has any of the words unheard, quagmir"),
        (
            "sparse",
            ("--namespace", "team"),
            "the namespace 'team' has no chunks; there are some in the default namespace",
        ),
        ("sparse", ("--filter", '{"year": 3}'), "no chunk fits the filter"),
        ("sparse", ("--filter", '{"source": "docs/law.txt"}'), "no chunk that fits the filter has a word of the query"),
        (
            "sparse 劳动",
            ("--min-should-match", "2"),
            "no chunk has as many words of the query as --min-should-match asks for",
        ),
    ],
)
def test_nothing_found_is_no_error_and_has_a_reason(
    docs: Path, query: str, options: tuple[str, ...], reason: str
) -> None:
    result = run("search", query, *options)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"nothing found: {reason}\n")
    assert run("search", query, *options, "--json").stdout == "[]\n"


def test_nothing_is_found_in_an_empty_index(docs: Path) -> None:
    run("delete", "--filter", '{"source": {"$like": "docs/%"}}', "--yes")
    assert run("search", "sparse").stderr == "nothing found: the index has no chunks\n"


def test_search_takes_synonyms_of_a_file(docs: Path, tmp_path: Path) -> None:
    rules = tmp_path / "synonyms.txt"
    rules.write_text("劳务协议, 劳动合同\n", encoding="utf-8")
    assert run_json("search", "劳务") == []
    (hit,) = run_json("search", "劳务协议", "--synonyms", rules, "--explain")
    assert (hit["id"], "synonym of" in json.dumps(hit["explanation"])) == ("docs/law.txt#0", True)
    assert "synonym of" in run("explain", "劳务协议", "docs/law.txt#0", "--synonyms", rules).stdout
    rules.write_text("劳动合同\n", encoding="utf-8")
    assert_fails(run("search", "劳务", "--synonyms", rules), f"{rules} line 1: a line needs two words")
    assert_fails(run("search", "劳务", "--synonyms", tmp_path / "none.txt"), "none.txt: No such file or directory")


def test_search_takes_near_spellings_boosts_prefixes_and_min_should_match(docs: Path) -> None:
    pytest.importorskip("rapidfuzz")
    expected = run_json("search", "sparse")
    assert [hit["id"] for hit in run_json("search", "spasre", "--fuzzy")] == [hit["id"] for hit in expected]
    boosted = run_json("search", "spar*^2", "--syntax")
    assert [hit["score"] for hit in boosted] == pytest.approx([2 * hit["score"] for hit in expected])
    assert run_json("search", "sparse 劳动") != []
    assert run_json("search", "sparse 劳动", "--min-should-match", "100%") == []
    assert_fails(run("search", "sparse", "--min-should-match", "most"), "min_should_match must be an int or a str")


def test_nothing_found_says_what_may_have_been_meant(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rapidfuzz")
    result = run("search", "spasre")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "nothing found; did you mean 'sparse'?\n"
    assert run_json("search", "spasre") == []
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    assert run("search", "spasre").stderr == "nothing found: no chunk has any of the words spasr\n"
    assert_fails(run("search", "spasre", "--fuzzy"), 'pip install "rag-bm25[fuzzy]"')


def test_text_is_not_taken_for_markup(docs: Path) -> None:
    (docs / "markup.txt").write_text("[bold]markup[/bold] :smile: [/x]")
    run("ingest", docs)
    assert "    [bold]markup[/bold] :smile: [/x]\n" in run("search", "markup").stdout


def test_namespaces_are_searched_apart(docs: Path) -> None:
    run("ingest", docs, "--namespace", "n")
    assert [hit["namespace"] for hit in run_json("search", "劳动合同", "--namespace", "n")] == ["n"]


def test_a_bad_filter_says_why(docs: Path) -> None:
    assert_fails(run("search", "sparse", "--filter", '{"page": {"$near": 3}}'), "$near")


# Explaining


def test_explain_shows_a_tree_whose_root_is_the_score(docs: Path) -> None:
    score = run_json("search", "劳动合同")[0]["score"]
    tree = run_json("explain", "劳动合同", "docs/law.txt#0")
    assert tree["value"] == pytest.approx(score)
    assert {"value", "description", "details"} == set(tree)
    printed = run("explain", "劳动合同", "docs/law.txt#0").stdout
    assert printed.startswith(f"{score:.6g}  score of chunk 'docs/law.txt#0'")
    assert "├── " in printed


def test_explain_says_why_a_chunk_is_not_found(docs: Path) -> None:
    printed = run("explain", "the Milvus 飞机", "docs/law.txt#0").stdout
    assert "'the' is a stop word" in printed
    assert "'milvus' is not in the chunk" in printed
    assert "'飞机' is unknown" in printed


def test_explain_of_an_unknown_chunk_fails(docs: Path) -> None:
    assert_fails(run("explain", "q", "nothing"), "no chunk 'nothing' in namespace ''")


@pytest.mark.parametrize(
    "arguments", [["search", "sparse"], ["explain", "sparse", "r1"], ["stats"]], ids=lambda arguments: arguments[0]
)
def test_reading_commands_open_read_only(docs: Path, databases: Databases, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 0
    assert databases.opened[-1]["read_only"] is True


# Maintaining


def test_stats_show_the_drift_report(docs: Path) -> None:
    stats = run_json("stats")
    printed = run("stats").stdout
    assert f"{stats['chunk_size_ratio']:.3f} = chunk size / mean length" in printed
    assert f"{stats['effective_k1']:.3f}, {stats['effective_b']:.3f}: what k1 and b amount to" in printed
    assert (stats["num_chunks"], stats["namespaces"]) == (3, [""])


def test_stats_warn_where_the_chunk_size_has_drifted(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"id": f"r{n}", "text": "sparse rows of one length"}) + "\n" for n in range(100))
    (tmp_path / "rows.jsonl").write_text(rows)
    run("ingest", "rows.jsonl", "--chunk-size", 35, "--collection", "healthy")
    run("ingest", "rows.jsonl", "--chunk-size", 500, "--collection", "drifted")
    warned = run("stats", "--collection", "drifted")
    assert warned.stderr == (
        "the chunk size is 20 times the mean length: the length of chunks hardly counts; `rag-bm25 calibrate` proposes "
        "a chunk size for a new index\n"
    )
    assert run("stats", "--collection", "healthy").stderr == ""
    assert run_json("stats", "--collection", "healthy")["drift_warning"] is None


def test_stats_of_a_namespace(docs: Path) -> None:
    run("ingest", docs / "law.txt", "--namespace", "n")
    assert [run_json("stats", *which)["num_chunks"] for which in ([], ["--namespace", "n"])] == [4, 1]


def test_verify_of_a_sound_index(docs: Path) -> None:
    assert "3 chunks and " in run("verify").stdout
    assert run_json("verify")["ok"] is True


def test_verify_names_differences_and_exits_with_1(docs: Path, databases: Databases) -> None:
    databases["./rag_bm25.db", "docs"].chunks.popitem()
    result = run("verify")
    assert result.exit_code == 1
    assert "chunks: stored 3, counted 2" in result.stdout
    report = json.loads(run("verify", "--json").stdout)
    assert (report["ok"], report["differences"][0]["what"]) == (False, "chunks")


def test_many_differences_are_counted_and_the_first_are_shown(docs: Path, databases: Databases) -> None:
    log = databases["./rag_bm25.db", "docs"].log
    for key in [key for key in log if key.startswith("terms")]:
        del log[key]
    result = run("verify")
    found = json.loads(run("verify", "--json").stdout)["differences"]
    assert len(result.stdout.splitlines()) == 1 + 20
    assert f"{len(found) - 20:,} more: --json shows all" in result.stderr


def test_differences_are_not_taken_for_markup(docs: Path, databases: Databases) -> None:
    run("ingest", docs / "law.txt", "--namespace", "[bold]")
    databases["./rag_bm25.db", "docs"].chunks.popitem()
    assert "namespace '[bold]': chunks: stored 1, counted 0\n" in run("verify").stdout


def test_repair_mends_what_verify_found(docs: Path, databases: Databases) -> None:
    databases["./rag_bm25.db", "docs"].chunks.popitem()
    assert run_json("repair")["num_chunks"] == 2
    assert run("verify").exit_code == 0


def test_reencode_gives_terms_their_own_k1(docs: Path) -> None:
    run("ingest", docs, "--collection", "adapted", "--weighting", "bm25t")
    report = run_json("reencode", "--collection", "adapted")
    assert report["weighting"] == "bm25t"
    assert report["reencoded"] == report["num_chunks"] == 3
    assert report["num_terms"] == run_json("stats", "--collection", "adapted")["num_terms"]
    lines = run("reencode", "--collection", "adapted").stdout.splitlines()
    assert lines[0] == "0 of 3 chunks encoded again, with the weighting bm25t"
    assert lines[1].startswith(f"{report['num_terms']} terms with a k1 of their own, {report['mean_k1']:.3f}")


def test_reencode_has_nothing_to_do_where_a_vector_is_its_chunk_s_alone(docs: Path) -> None:
    run("ingest", docs, "--collection", "plain")
    lines = run("reencode", "--collection", "plain").stdout.splitlines()
    assert lines == ["0 of 3 chunks encoded again, with the weighting bm25"]


def test_repair_opens_an_index_whose_log_is_damaged(docs: Path, databases: Databases) -> None:
    log = databases["./rag_bm25.db", "docs"].log
    for key in [key for key in log if key.startswith("delta")]:
        log[key] = replace(log[key], meta={})
    assert_fails(run("stats"), "cannot be read")
    assert run("repair").stdout.startswith("the statistics are right: 3 chunks, ")
    assert run_json("stats")["num_chunks"] == 3


def test_nothing_found_by_damaged_statistics_is_said_to_be_so(docs: Path, databases: Databases) -> None:
    log = databases["./rag_bm25.db", "docs"].log
    for key in [key for key in log if key.startswith("delta")]:
        del log[key]
    result = run("search", "sparse")
    assert result.stderr.endswith("nothing found: the statistics of the index are damaged; run `rag-bm25 repair`\n")


def test_repair_of_lost_statistics_needs_the_parameters_of_the_index(docs: Path, databases: Databases) -> None:
    run("ingest", docs, "--collection", "own", "--chunk-size", "40", "--no-stem")
    expected = run_json("stats", "--collection", "own")
    databases["./rag_bm25.db", "own"].log.clear()
    databases["./rag_bm25.db", "own"].log_exists = False
    assert_fails(run("stats", "--collection", "own"), "its statistics are lost, with its config")
    assert_fails(run("repair", "--collection", "own"), "the config does not give the vectors")
    run_json("repair", "--collection", "own", "--set", "chunk_size=40", "--set", "stem=false")
    assert run_json("stats", "--collection", "own") == expected


def test_exported_statistics_can_be_imported(docs: Path, databases: Databases) -> None:
    before = run_json("stats")
    assert run("export", "s.gz").stdout == "statistics written to s.gz\n"
    log = databases["./rag_bm25.db", "docs"].log
    for key in [key for key in log if not key.startswith("config")]:
        del log[key]
    assert run("import", "s.gz").stdout == "statistics read from s.gz\n"
    assert run_json("stats") == before
    assert_fails(run("import", "nothing.gz"), "nothing.gz: No such file or directory")


def test_delete_by_ids(docs: Path) -> None:
    result = run("delete", "r1", "nothing")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "1 chunk deleted\n", "not found: nothing\n")
    assert run_json("stats")["num_chunks"] == 2
    result = run("delete", "r1", *"abcde")
    assert (result.exit_code, result.stdout) == (1, "0 chunks deleted\n")
    assert result.stderr == "not found: r1, a, b, c, d, ...\n"


FILTER = ("--filter", '{"source": {"$like": "docs/%"}}')


def test_delete_by_filter(docs: Path) -> None:
    assert run_json("delete", *FILTER, "--yes") == {"deleted": 3}
    assert run_json("stats")["num_chunks"] == 0


@pytest.mark.parametrize("filter", ["{}", " {} "])
def test_an_empty_filter_deletes_nothing(docs: Path, databases: Databases, filter: str) -> None:
    opened = len(databases.opened)
    result = run("delete", "--filter", filter, "--yes")
    assert result.exit_code == 2
    assert "an empty filter fits every chunk" in " ".join(result.stderr.replace("│", " ").split())
    assert len(databases.opened) == opened
    assert run_json("stats")["num_chunks"] == 3


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("r1", *FILTER, "--yes"), "give the ids of chunks, or --filter, not both"),
        (FILTER, "nobody is there to confirm it: add --yes, or --dry-run to see what it finds"),
    ],
)
def test_a_deletion_that_nobody_can_mean_is_wrong_usage(docs: Path, arguments: tuple[str, ...], rule: str) -> None:
    result = run("delete", *arguments)
    assert result.exit_code == 2
    assert rule in " ".join(result.stderr.replace("│", " ").split())
    assert run_json("stats")["num_chunks"] == 3


def test_a_dry_run_deletes_nothing(docs: Path) -> None:
    result = run("delete", *FILTER, "--dry-run")
    assert sorted(result.stdout.splitlines()) == [
        "3 chunks would be deleted; nothing was deleted",
        "docs/law.txt#0",
        "docs/milvus.md#0",
        "r1",
    ]
    assert run_json("delete", "r1", "--dry-run") == {"would_delete": ["r1"]}
    assert run_json("stats")["num_chunks"] == 3


@pytest.mark.parametrize(("answer", "left", "code"), [("y", 0, 0), ("n", 3, 1), ("", 3, 1)])
def test_a_deletion_by_filter_asks(
    docs: Path, monkeypatch: pytest.MonkeyPatch, answer: str, left: int, code: int
) -> None:
    monkeypatch.setattr("rag_bm25.cli.maintaining.is_terminal", lambda: True)
    result = CliRunner().invoke(app, ["delete", *FILTER], input=f"{answer}\n")
    assert result.exit_code == code
    assert "Delete 3 chunks? [y/N]:" in result.stderr
    assert run_json("stats")["num_chunks"] == left


# Evaluating


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": "d1", "title": "Apples", "text": "grow"}, {"_id": "d2", "title": "", "text": "pears"}]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "apple"}\n{"_id": "q2", "text": "plums"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n")
    return folder


def test_evaluate_json(beir: Path) -> None:
    result = run_json("evaluate", beir, "--idf", "lucene", "--k3", 8, "--no-simplify")
    assert [result[name] for name in ("ndcg@10", "recall@100", "mrr@10")] == [0.5, 0.5, 0.5]
    assert (result["queries"], result["chunks"], result["chunk_size"]) == (2, 2, 8.0)
    assert result["config"].items() >= {"idf": "lucene", "k1": 1.5, "b": 0.75, "k3": 8.0, "bigram_weight": 0.4}.items()
    words = run_json("evaluate", beir, "--no-bigrams", "--bigram-weight", 0.2)["config"]
    assert (words["analyzer"]["bigrams"], words["bigram_weight"]) == (False, 0.2)
    assert (result["config"]["analyzer"]["simplify"], result["config"]["analyzer"]["stem"]) == (False, True)
    assert result["queries_per_second"] > 0 < result["chunks_per_second"]


def test_evaluate_takes_a_weighting_and_its_delta(beir: Path) -> None:
    result = run_json("evaluate", beir, "--weighting", "bm25+", "--delta", 0.5)
    assert (result["config"]["weighting"], result["config"]["delta"]) == ("bm25+", 0.5)
    lines = run("evaluate", beir, "--weighting", "bm25l").stdout.splitlines()
    assert lines[0] == "set: bm25l, idf epsilon, k1 1.5, b 0.75, delta 0.5, chunk size 8.0 characters"


def test_evaluate_takes_titles_as_a_field(beir: Path) -> None:
    result = run_json("evaluate", beir, "--field", "title:6:2.0")
    assert result["config"]["fields"] == {"title": {"chunk_size": 6, "weight": 2, "b": 0.75}}
    assert (result["ndcg@10"], result["chunk_size"]) == (0.5, 4.5)
    lines = run("evaluate", beir, "--field", "title:6:2.0").stdout.splitlines()
    assert lines[0].endswith(", chunk size 4.5 characters, field title:6:2:0.75")


def test_evaluate_compares_titles_in_the_text_with_titles_as_a_field(beir: Path, databases: Databases) -> None:
    result = run_json("evaluate", beir, "--compare", "field=title:6:2", "--compare", "field=none,idf=lucene")
    apart, joined = result["compared"]
    assert [one["chunk_size"] for one in (result, apart, joined)] == [8.0, 4.5, 8.0]
    assert [list(one["config"]["fields"]) for one in (result, apart, joined)] == [[], ["title"], []]
    assert len(databases) == 2


@pytest.mark.parametrize(
    "arguments", [("--field", "tags:6"), ("--chunk-size", "20", "--compare", "field=title:6+tags:6")]
)
def test_evaluate_says_which_field_there_is(beir: Path, databases: Databases, arguments: tuple[str, ...]) -> None:
    message = "a field must be 'title', the only one that documents in BEIR form have, got 'tags'"
    assert_fails(run("evaluate", beir, *arguments), message)
    assert databases.opened == []


def test_evaluate_for_people(beir: Path) -> None:
    lines = run("evaluate", beir).stdout.splitlines()
    assert lines[0] == "set: bm25, idf epsilon, k1 1.5, b 0.75, chunk size 8.0 characters"
    assert lines[1].split() == ["nDCG@10", "0.5000"]


def test_evaluate_takes_the_analyzer_switches(beir: Path) -> None:
    assert run_json("evaluate", beir, "--no-stem")["ndcg@10"] == 0.0


@pytest.mark.parametrize(("unit", "mean"), [("characters", 8.0), ("terms", 1.5)])
def test_auto_is_the_mean_in_the_length_unit(beir: Path, unit: str, mean: float) -> None:
    assert run_json("evaluate", beir, "--length-unit", unit)["chunk_size"] == mean


def test_a_given_chunk_size_is_used(beir: Path) -> None:
    assert run_json("evaluate", beir, "--chunk-size", 20)["config"]["chunk_size"] == 20.0


def test_evaluate_leaves_nothing_on_the_named_server(beir: Path, databases: Databases) -> None:
    run("evaluate", beir, "--uri", "http://host:1", "--token", "key")
    assert [(opened["uri"], opened["token"]) for opened in databases.opened] == [("http://host:1", "key")]
    assert [stored for stored in databases.values() if stored.exist or stored.chunks] == []


def test_evaluate_drops_its_index_where_it_fails(beir: Path, databases: Databases) -> None:
    def fail(method: str) -> None:
        if method == "search":
            raise StoreError("gone")

    databases.on_call = fail
    assert_fails(run("evaluate", beir, "--uri", "http://host:1"), "error: gone\n")
    assert [stored for stored in databases.values() if stored.exist] == []


def test_evaluate_does_not_write_to_the_server_of_the_environment(beir: Path, databases: Databases) -> None:
    assert run("evaluate", beir, env={"MILVUS_URI": "http://host:1"}).exit_code == 0
    assert [opened["uri"].endswith("evaluate.db") for opened in databases.opened] == [True]


def test_evaluate_of_a_malformed_folder_fails(beir: Path, databases: Databases) -> None:
    (beir / "qrels" / "test.tsv").write_text("q1 d1 1\n")
    assert_fails(run("evaluate", beir), "test.tsv line 1")
    assert_fails(run("evaluate", beir, "--split", "dev"), "there is no qrels/dev.tsv")
    assert databases.opened == []


def test_evaluate_compares_configurations(beir: Path, databases: Databases) -> None:
    result = run_json("evaluate", beir, "--idf", "lucene", "--compare", "stem=false", "--compare", "idf=plus,k3=8")
    first, second = result["compared"]
    assert (result["ndcg@10"], first["ndcg@10"], second["ndcg@10"]) == (0.5, 0.0, 0.5)
    assert (first["compare"], first["config"]["analyzer"]["stem"], first["config"]["idf"]) == (
        "stem=false",
        False,
        "lucene",
    )
    assert (second["config"]["idf"], second["config"]["k3"]) == ("plus", 8)
    test = first["tests"]["ndcg@10"]
    assert (test["difference"], test["p_value"], test["worse"], test["equal"]) == (-0.5, 1.0, 1, 1)
    assert len(databases) == 2  # the query side needs no index of its own


def test_compared_configurations_stand_side_by_side(beir: Path) -> None:
    lines = run("evaluate", beir, "--compare", "stem=false").stdout.splitlines()
    assert lines[-3].split()[:4] == ["configuration", "nDCG@10", "Recall@100", "MRR@10"]
    assert lines[-3].split()[4:] == ["difference", "p", "better", "worse"]
    assert lines[-2].split() == ["as", "given", "0.5000", "0.5000", "0.5000"]
    assert lines[-1].split() == ["stem=false", "0.0000", "0.0000", "0.0000", "-0.5000", "1.0000", "0", "1"]


def test_several_comparisons_are_adjusted(monkeypatch: pytest.MonkeyPatch, beir: Path) -> None:
    monkeypatch.setattr("rag_bm25.evaluation.comparison.randomisation_p_value", lambda *_, seed: 0.01)
    compared = run_json("evaluate", beir, *("--compare", "stem=false") * 3)["compared"]
    assert [one["tests"]["mrr@10"]["p_value"] for one in compared] == pytest.approx([0.03] * 3)


def test_an_automatic_chunk_size_follows_the_length_unit_of_each_configuration(beir: Path) -> None:
    result = run_json("evaluate", beir, "--compare", "length-unit=terms", "--compare", "chunk_size=20")
    assert [one["chunk_size"] for one in (result, *result["compared"])] == [8.0, 1.5, 20]


def test_evaluate_writes_trec_runs(beir: Path, tmp_path: Path) -> None:
    assert run("evaluate", beir, "--run", tmp_path / "one.run").exit_code == 0
    [line] = (tmp_path / "one.run").read_text().splitlines()
    assert line.split()[:4] == ["q1", "Q0", "d1", "1"]
    assert line.split()[5] == "rag_bm25"
    run("evaluate", beir, "--compare", "idf=lucene, k1=0.9", "--run", tmp_path / "two.run")
    assert (tmp_path / "two-1.run").read_text() == (tmp_path / "one.run").read_text()
    assert (tmp_path / "two-2.run").read_text().split()[5] == "idf=lucene,k1=0.9"


def test_a_run_in_no_folder_is_refused_before_the_work(beir: Path, databases: Databases) -> None:
    assert_fails(run("evaluate", beir, "--run", "missing/one.run"), "there is no folder missing to put one.run in")
    assert databases == {}


# Tuning


@pytest.fixture
def tunable(tmp_path: Path) -> Path:
    """Long answers that only b = 0 puts before short texts with the same word."""
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    long = {f"long{n}": f"topic{n} topic{n} " + " ".join(f"filler{n}x{m}" for m in range(60)) for n in range(12)}
    texts = {**long, **{f"short{n}": f"topic{n}" for n in range(12)}}
    rows = "".join(json.dumps({"_id": id_, "text": text}) + "\n" for id_, text in texts.items())
    (folder / "corpus.jsonl").write_text(rows)
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": f"q{n}", "text": f"topic{n}"}) + "\n" for n in range(12))
    )
    for split, queries in (("test", range(8)), ("dev", range(8, 12))):
        (folder / "qrels" / f"{split}.tsv").write_text("".join(f"q{n}\tlong{n}\t1\n" for n in queries))
    return folder


GRID = ("--search", "k1=1.5,2", "--search", "b=0,0.75")


def test_tune_json(tunable: Path, databases: Databases) -> None:
    result = run_json("tune", tunable, *GRID, "--search", "idf=epsilon,lucene", "--folds", 4)
    assert (result["settings"], result["best"]["b"], result["base"]["b"]) == ({"b": 0}, 0, 0.75)
    assert (result["held_out_mean"], result["best_mean"], result["confirmed"]) == (1.0, 1.0, 1.0)
    assert result["base_mean"] == pytest.approx(0.63093, abs=1e-5)
    assert (len(result["folds"]), result["pays"], result["test"]["better"]) == (4, True, 8)
    assert result["heat_map"]["values"] == [[1.0, pytest.approx(0.63093, abs=1e-5)]] * 2
    size = result["best"]["chunk_size"]
    assert result["python"] == f"IndexConfig(chunk_size={size}, b=0)"
    assert result["commands"] == {"ingest": [f"--chunk-size {size}", "--b 0"], "search": []}
    assert len(databases) == 1  # only for the confirmation
    assert [stored for stored in databases.values() if stored.exist] == []


def test_tune_searches_whether_titles_are_a_field(tmp_path: Path) -> None:
    """Each answer has its topic in the title, and a text that names it more often wins while titles are text."""
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    filler = " ".join(f"filler{n}" for n in range(30))
    rows = [{"_id": f"answer{n}", "title": f"topic{n}", "text": filler} for n in range(8)]
    rows += [{"_id": f"decoy{n}", "text": f"topic{n} topic{n} {filler}"} for n in range(8)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = [{"_id": f"q{n}", "text": f"topic{n}"} for n in range(8)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    (folder / "qrels" / "test.tsv").write_text("".join(f"q{n}\tanswer{n}\t1\n" for n in range(8)))
    result = run_json("tune", folder, "--search", "field=none,title:6:5")
    assert result["settings"] == {"field": "title:6:5:0.75"}
    assert (result["base_mean"], result["best_mean"], result["confirmed"]) == (pytest.approx(0.63093, 1e-5), 1, 1)
    assert result["commands"]["ingest"][-1] == "--field title:6:5:0.75"
    back = run_json("tune", folder, "--base", "field=title:6:5", "--search", "field=none", "--no-confirm")
    assert (back["settings"], back["base_mean"]) == ({}, 1.0)


def test_tune_for_people(tunable: Path) -> None:
    printed = run("tune", tunable, *GRID).stdout
    assert printed.startswith("set: ndcg@10, 5 folds\n")
    assert "1.0000  +0.3691, p 0.0078, 8 better, 0 worse" in printed
    assert "tuning pays: the gain on unseen queries is significant" in printed
    assert "1.0000  +0.3691  b=0\n" in printed
    assert "b=0)" in printed
    assert "1.0000 on counts, 1.0000 in Milvus" in printed
    assert "--b 0\n" in printed


def test_tune_says_where_nothing_is_better(tunable: Path) -> None:
    assert "nothing tried is better: keep what there is" in run("tune", tunable, "--search", "k1=1.5").stdout


def test_tune_says_where_the_gain_may_be_luck(tunable: Path) -> None:
    printed = run("tune", tunable, *GRID, "--split", "dev", "--folds", 2).stdout
    assert "no significant gain on unseen queries" in printed  # four queries cannot be significant


def test_tune_on_a_split_of_its_own(tunable: Path) -> None:
    result = run_json("tune", tunable, *GRID, "--tune-split", "dev", "--measure", "mrr@10")
    assert (result["settings"], result["base_mean"], result["held_out_mean"]) == ({"b": 0}, 0.5, 1.0)
    assert [fold["queries"] for fold in result["folds"]] == [8]
    assert "held-out split" in run("tune", tunable, *GRID, "--tune-split", "dev").stdout


def test_tune_begins_where_it_is_told(tunable: Path) -> None:
    result = run_json("tune", tunable, "--base", "idf=lucene,stem=false,chunk-size=77", *GRID, "--no-confirm")
    assert (result["base"]["idf"], result["base"]["chunk_size"], result["best"]["analyzer"]["stem"]) == (
        "lucene",
        77,
        False,
    )
    assert result["commands"]["search"] == ["--idf lucene"]
    assert result["confirmed"] is None


@pytest.mark.parametrize("base", ["weighting=bm25+,delta=0.5", "weighting=saturation-smoothed"])
def test_tune_begins_with_any_weighting(tunable: Path, base: str) -> None:
    found = run_json("tune", tunable, "--base", base, "--search", "k1", "--search", "weighting", "--no-confirm")
    assert "bm25l" in {point["settings"].get("weighting") for point in found["points"]}


def test_the_commands_that_tune_prints_build_and_search_the_winner(
    tunable: Path, docs: Path, databases: Databases
) -> None:
    """Every parameter that may be tuned has another value than its default."""
    winner = {
        "chunk_size": 77,
        "length_unit": "terms",
        "k1": 1.2345678,
        "b": 0.5,
        "epsilon": 0.3,
        "idf": "lucene",
        "k3": 1.5,
        "weighting": "bm25l",
        "delta": 0.7,
        "bigram_weight": 0.2,
        "field": "title:6:5:0.75",
        "segmentation": "exact",
        "query_segmentation": "exact",
        "simplify": "false",
        "stem": "false",
        "split_camel_case": "true",
        "bigrams": "false",
    }
    assert winner.keys() == set(SETTING_NAMES)
    base = ",".join(f"{name}={value}" for name, value in winner.items())
    found = run_json("tune", tunable, "--base", base, "--search", "k1=1.2345678", "--no-confirm")
    ingest, search = (" ".join(found["commands"][command]).split() for command in ("ingest", "search"))
    assert run("ingest", docs, "--collection", "tuned", *ingest).exit_code == 0
    config = config_of(settings_of(base, "--base"), load_beir(tunable))
    store = databases.store("./rag_bm25.db", "tuned")
    with BM25Index.from_store(store, config=config) as index:  # whose document side and analyzer must be the same
        for query in ("sparse sparse vectors", "Milvus"):
            scores = [hit["score"] for hit in run_json("search", query, "--collection", "tuned", *search)]
            assert scores == pytest.approx([hit.score for hit in index.search(query)])
            assert scores


def test_a_search_keeps_the_k3_of_the_index_where_none_is_given(docs: Path, databases: Databases) -> None:
    query = "sparse sparse sparse vectors"
    linear, saturated = (run_json("search", query, *options)[0]["score"] for options in ((), ("--k3", 0)))
    assert saturated < linear
    store = databases.store("./rag_bm25.db", "saturated")
    with BM25Index.from_store(store, config=IndexConfig(500, k3=0.0)):
        pass
    run("ingest", docs, "--collection", "saturated")
    [found, *_] = run_json("search", query, "--collection", "saturated")
    assert found["score"] == pytest.approx(saturated)
    tree = run_json("explain", query, found["id"], "--k3", 0)
    assert tree["value"] == pytest.approx(saturated)


def test_tune_needs_no_index_without_confirmation(tunable: Path, databases: Databases) -> None:
    assert "in Milvus" not in run("tune", tunable, *GRID, "--no-confirm").stdout
    assert databases == {}


def test_tune_draws_a_heat_map(tunable: Path, tmp_path: Path) -> None:
    assert run("tune", tunable, *GRID, "--no-confirm", "--plot", tmp_path / "map.svg").exit_code == 0
    assert "<!-- 1.0000 -->" in (tmp_path / "map.svg").read_text()


def test_tune_reports_what_milvus_answers_otherwise(tunable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "rag_bm25.evaluation.running.search_queries", lambda _index, queries, *_, **__: {query: {} for query in queries}
    )
    result = run("tune", tunable, *GRID)
    assert result.stderr == "computed on counts, ndcg@10 was 1.0000; through Milvus it is 0.0000\n"


def test_tune_refuses_a_picture_that_cannot_be_drawn_before_the_search(tunable: Path, databases: Databases) -> None:
    assert_fails(run("tune", tunable, "--plot", "map.jpg"), "must end in one of .png, .svg, .pdf")
    assert databases == {}


def test_more_folds_than_queries_are_refused(tunable: Path) -> None:
    assert_fails(run("tune", tunable, *GRID, "--folds", 9), "folds must be in [2, 8]")


# Calibration


def test_calibrate_measures_files_as_ingest_cuts_them(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("ten chars " * 40)
    proposal = run_json("calibrate", tmp_path / "long.txt", "--split-size", 100, "--chunk-overlap", 0)
    assert (proposal["chunks"], proposal["mean_length"], proposal["length_unit"]) == (4, 99.0, "characters")
    assert (proposal["chunk_size"], round(proposal["ratio"], 2)) == (139, 1.4)
    run("ingest", "long.txt", "--split-size", 100, "--chunk-overlap", 0, "--chunk-size", 139)
    stats = run_json("stats")
    assert (stats["mean_length"], stats["chunk_size"]) == (99.0, 139)
    assert [stats["effective_k1"], stats["effective_b"]] == [proposal["effective_k1"], proposal["effective_b"]]


def test_calibrate_for_people(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 50)
    lines = run("calibrate", tmp_path / "a.txt", "--ratio", 1).stdout.splitlines()
    assert lines[0] == "chunk size 50 characters"
    assert lines[1].split() == ["measured", "1", "chunk,", "mean", "length", "50.0", "characters"]
    assert lines[-1].endswith("rag-bm25 ingest --chunk-size 50 --split-size 500")


def test_calibrate_counts_terms_where_asked(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("four words are here")
    proposal = run_json("calibrate", tmp_path / "a.txt", "--length-unit", "terms", "--k1", 0.9, "--b", 0)
    assert (proposal["length_unit"], proposal["effective_k1"], proposal["effective_b"]) == ("terms", 0.9, 0.0)
    assert proposal["mean_length"] < 5


def test_calibrate_proposes_for_an_index(docs: Path) -> None:
    stats, proposal = run_json("stats"), run_json("calibrate")
    assert (proposal["chunks"], proposal["mean_length"]) == (3, stats["mean_length"])
    assert proposal["chunk_size"] == round(1.4 * stats["mean_length"])
    assert "ingest" not in run("calibrate").stdout


def test_calibrate_of_nothing_fails(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert_fails(run("calibrate", tmp_path / "empty"), "there is no text to measure in")
    assert_fails(run("calibrate", "--namespace", "nobody"), "has no text to measure")


def test_a_library_caller_can_use_what_was_ingested(docs: Path, databases: Databases) -> None:
    store = MemoryStore(collections=databases["./rag_bm25.db", "docs"])
    with BM25Index.from_store(store, config=IndexConfig(chunk_size=500)) as index:
        assert index.get(["r1"])[0].metadata == {"source": "docs/rows.jsonl", "chunk": 0, "page": 3}
