"""``rag-bm25 serve``: what is refused before anything is served."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Databases, assert_fails, run, run_json

from rag_bm25.errors import InputError, install_extra

TOKEN = "a token of the tests"


@pytest.mark.parametrize("options", [(), ("--mcp", "--http", "127.0.0.1:0")])
def test_one_of_http_and_mcp_is_needed(databases: Databases, options: tuple[str, ...]) -> None:
    result = run("serve", *options)
    assert result.exit_code == 2
    assert "give one of --http HOST:PORT and --mcp" in result.stderr
    assert databases.opened == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--http", "192.168.0.1:8765"), "needs an access token"),
        (("--http", "0.0.0.0:8765", "--behind-proxy", "--access-token", TOKEN), "--allow-host"),
        (("--http", "127.0.0.1:0", "--access-token", "short"), "at least 16 characters"),
        (("--http", "127.0.0.1:0", "--cert", "cert.pem"), "belong together"),
    ],
)
def test_an_unsafe_address_is_refused_before_the_index_is_opened(
    databases: Databases, options: tuple[str, ...], message: str
) -> None:
    result = run("serve", *options)
    assert result.exit_code == 1
    assert message in result.stderr.splitlines()[-1]
    assert databases.opened == []


@pytest.mark.parametrize("address", ["8765", "localhost:99999"])
def test_what_is_no_address_is_a_wrong_option(databases: Databases, address: str) -> None:
    result = run("serve", "--http", address)
    assert result.exit_code == 2
    assert "the address must be HOST:PORT" in " ".join(result.stderr.split())
    assert databases.opened == []


def test_several_collections_are_only_read(databases: Databases) -> None:
    result = run("serve", "--mcp", "--collection", "docs", "--collection", "more", "--allow-writes")
    assert result.exit_code == 2
    assert "several indexes are only read" in result.stderr
    assert databases.opened == []


def test_a_missing_index_is_named(databases: Databases) -> None:
    pytest.importorskip("mcp", reason='serving needs rag-bm25[serve]: pip install ".[serve]"')
    assert_fails(run("serve", "--http", "127.0.0.1:0"), "`rag-bm25 ingest` creates one")


@pytest.mark.parametrize("option", [["--watch"], ["--prune"], ["--max-delete", "50%"]], ids=" ".join)
def test_options_of_an_ingestion_need_one(databases: Databases, option: list[str]) -> None:
    result = run("serve", "--mcp", *option)
    assert (result.exit_code, databases.opened) == (2, [])
    assert f"{option[0]}: needs --ingest PATH" in result.stderr


def test_an_index_to_ingest_into_is_created(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp", reason='serving needs rag-bm25[serve]: pip install ".[serve]"')
    plans: list[Any] = []

    def served(index: Any, *arguments: Any) -> None:
        plans.append(arguments[-1])
        raise InputError(f"{index.stats().num_chunks} chunks")

    monkeypatch.setattr("rag_bm25.serving.served.Served", served)
    ingest = ("--ingest", tmp_path, "--watch", "--prune", "--max-delete", "30%")
    assert_fails(run("serve", "--mcp", *ingest), "0 chunks")
    assert (plans[0].watched, plans[0].options) == (True, {"prune": True, "max_delete": 0.3})
    (tmp_path / "law.txt").write_text("notice")
    assert run_json("ingest", tmp_path, "--chunk-size", 500)["added"] == 1  # that of an index that `ingest` makes


def test_files_to_ingest_are_looked_for_by_the_server_alone(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp", reason='serving needs rag-bm25[serve]: pip install ".[serve]"')
    looks: list[Any] = []

    def served(*_: Any) -> None:
        raise InputError(f"{len(looks)} looks")

    monkeypatch.setattr("rag_bm25.cli.serving.find_files", lambda *given, **_: looks.append(given))
    monkeypatch.setattr("rag_bm25.serving.served.Served", served)
    assert_fails(run("serve", "--mcp", "--ingest", tmp_path), "0 looks")
    databases.opened.clear()
    assert_fails(run("serve", "--mcp", "--ingest", tmp_path / "missing"), "missing: No such file or directory")
    assert databases.opened == []


def test_without_its_packages_serve_names_the_extra(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("uvicorn", "mcp", "rag_bm25.serving.running", "rag_bm25.serving.observing"):
        monkeypatch.setitem(sys.modules, name, None)
    assert_fails(run("serve", "--mcp"), install_extra("serve"))


def test_other_commands_import_no_server() -> None:
    heavy = ["starlette", "uvicorn", "mcp", "prometheus_client", "opentelemetry", "pydantic"]
    script = f"""
import sys
from rag_bm25.cli.app import COMMANDS

for name in COMMANDS:
    COMMANDS[name].load()
print([name for name in {heavy} if name in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"[]\n"


def test_the_token_is_read_from_a_file_and_never_shown(databases: Databases, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret", encoding="utf-8")
    result = run("serve", "--http", "127.0.0.1:0", "--access-token", f"@{tmp_path / 'token'}")
    assert result.exit_code == 1
    assert "secret" not in result.output


def test_the_filter_of_a_token_is_described_as_it_is_taken() -> None:
    assert "expression" not in run("token", "--help").stdout


def test_a_bad_file_of_tokens_is_refused_before_the_index_is_opened(databases: Databases, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("secret", encoding="utf-8")
    result = run("serve", "--http", "127.0.0.1:0", "--tokens", str(tmp_path / "tokens"))
    assert result.exit_code == 1
    assert "tokens, line 1: not JSON" in result.stderr
    assert "secret" not in result.output
    assert databases.opened == []


def test_tokens_are_for_http(databases: Databases, tmp_path: Path) -> None:
    result = run("serve", "--mcp", "--tokens", str(tmp_path / "tokens"))
    assert result.exit_code == 2
    assert "is for --http" in result.stderr
