"""``--user-words`` and ``--stop-words``."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import Databases, assert_fails, run, run_json

pytestmark = pytest.mark.usefixtures("databases")


@pytest.fixture
def products(tmp_path: Path) -> Path:
    """A folder of one file, which the dictionary cuts otherwise than its words of products do."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("小助手宝可以订票 the end", encoding="utf-8")
    (tmp_path / "user.txt").write_text("# products\n小助手宝 100 nz\n", encoding="utf-8")
    (tmp_path / "stop.txt").write_text("可以\n", encoding="utf-8")
    return folder


WORDS = ("--user-words", "user.txt", "--stop-words", "stop.txt")


def terms(*more: str) -> set[str]:
    return {row["term"] for row in run_json("terms", *more)}


def test_an_index_keeps_the_words_it_was_made_with(products: Path) -> None:
    assert run("ingest", products, *WORDS).exit_code == 0
    assert terms() == {"小助手宝", "助手", "订票", "the", "end", "a"}  # the title, of the name of the file
    (products / "b.txt").write_text("新的小助手宝", encoding="utf-8")
    assert run("ingest", products).exit_code == 0
    assert run("ingest", products, *WORDS).exit_code == 0
    assert {row["term"]: row["df"] for row in run_json("terms")}["小助手宝"] == 2
    assert [hit["id"] for hit in run_json("search", "小助手宝")] == ["docs/b.txt#0", "docs/a.txt#0"]
    assert run_json("search", "可以") == []
    assert run_json("verify")["ok"]


def test_other_words_than_the_stored_ones_are_named(products: Path, tmp_path: Path) -> None:
    run("ingest", products, *WORDS)
    (tmp_path / "user.txt").write_text("小助手宝 100\n大助手宝\n", encoding="utf-8")
    (tmp_path / "stop.txt").write_text("")
    refused = run("ingest", products, *WORDS)
    expected = (
        "the index was created with other settings: stop_words: only stored '可以'; user_words: only given "
        "'大助手宝'. Leave them out, or make another index with `rag-bm25 reindex`."
    )
    assert_fails(refused, expected)


def test_repair_takes_the_words_of_an_index_that_lost_its_settings(products: Path, databases: Databases) -> None:
    run("ingest", products, *WORDS)
    log = databases["./rag_bm25.db", "docs"].log
    for key in [key for key in log if key.startswith("config")]:
        del log[key]
    assert run("repair").exit_code == 1
    assert run("repair", *WORDS).exit_code == 0
    assert "小助手宝" in terms()
    assert run_json("verify")["ok"]


@pytest.mark.parametrize("option", ["--user-words", "--stop-words"])
def test_bad_files_are_answered_and_nothing_is_created(
    products: Path, databases: Databases, tmp_path: Path, option: str
) -> None:
    (tmp_path / "bad.txt").write_text("好\nGlide Pay\n", encoding="utf-8")
    assert_fails(run("ingest", products, option, "bad.txt"), "bad.txt line 2: ")
    assert_fails(run("ingest", products, option, "none.txt"), "none.txt: No such file or directory")
    assert databases == {}
