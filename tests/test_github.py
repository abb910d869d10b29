"""The files of .github, CITATION.cff and server.json: what they run is there, with no more rights than it needs.

Versions agree, and so do the names under which lists of other projects have the package.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

import rag_bm25.langchain
from rag_bm25 import __version__

ROOT = Path(__file__).resolve().parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in (GITHUB / "workflows").glob("*.yml")}
JOBS = {f"{name}: {job}": body for name, flow in WORKFLOWS.items() for job, body in flow["jobs"].items()}
FORMS = [path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
PYTHONS = re.findall(r"Python :: (3\.\d+)", PYPROJECT)
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def commands(job: dict[str, Any]) -> str:
    return "\n".join(step["run"] for step in job["steps"] if "run" in step)


@pytest.mark.parametrize("name", JOBS)
class TestJobs:
    def test_a_job_ends_and_has_the_rights_that_it_needs(self, name: str) -> None:
        workflow, job = WORKFLOWS[name.partition(":")[0]], JOBS[name]
        assert job["timeout-minutes"] <= 120
        assert workflow["permissions"] == {"contents": "read"}
        rights = {"release: attest": {"id-token", "attestations"}, "release: publish": {"id-token"}}
        assert set(job.get("permissions", {})) == rights.get(name, set())

    def test_no_job_with_rights_runs_code_of_the_repository(self, name: str) -> None:
        checkouts = [step for step in JOBS[name]["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert all(step["with"]["persist-credentials"] is False for step in checkouts)
        if "permissions" in JOBS[name]:
            assert (checkouts, commands(JOBS[name])) == ([], "")

    def test_what_a_job_runs_is_there(self, name: str) -> None:
        job = JOBS[name]
        chosen = [each.get("target") for each in job.get("strategy", {}).get("matrix", {}).get("include", [])]
        named = set(re.findall(r"\bmake ([\w-]+)", commands(job))) | {*chosen} - {None}
        assert named <= TARGETS
        assert ".ci/run" not in commands(job) or (ROOT / ".ci" / "run").is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="runs a shell script")
@pytest.mark.parametrize(
    ("apt", "browser"), [("exit 1", None), ("exit 0", None), ("ln -s make $PATH/chromium", None), ("exit 1", "chrome")]
)
def test_the_page_is_tested_in_a_browser_or_ci_says_that_it_is_not(
    apt: str, browser: str | None, tmp_path: Path
) -> None:
    for name in ("bash", "dirname", "id", "ln"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    programs = {"make": 'echo "make $1"', "apt-get": f"echo apt-get; {apt}", "sudo": 'shift; "$@"'}
    for name, body in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": str(tmp_path)} | ({"RAG_BM25_CHROMIUM": browser} if browser else {})
    run = subprocess.run([tmp_path / "bash", ROOT / ".ci" / "run"], env=environment, capture_output=True, check=True)
    said = run.stdout.decode()
    assert "make test-server" in said, "it goes on"
    assert ("apt-get" in said) is (browser is None)
    assert ("no test has seen the page" in said) is (not browser and "chromium" not in apt)


def test_every_python_that_is_supported_is_tested_and_released_for() -> None:
    tested = JOBS["ci: test"]["strategy"]["matrix"]["python"]
    assert tested == [*PYTHONS, "3.14"]
    for name in ("ci: release", "release: build"):
        (versions,) = (step["with"]["python-version"] for step in JOBS[name]["steps"] if "python-version" in str(step))
        assert versions.split() == PYTHONS
        assert re.findall(r"python(3\.\d+)", commands(JOBS[name])) == PYTHONS


def test_actions_are_pinned_to_a_commit_with_its_version_beside_it() -> None:
    texts = [path.read_text("utf-8") for path in (GITHUB / "workflows").glob("*.yml")]
    used = re.findall(r"uses: *(.+)", "\n".join(texts))
    assert len(used) == sum("uses" in step for job in JOBS.values() for step in job["steps"])
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)] == []


def test_nothing_is_published_that_was_not_tested_and_attested() -> None:
    assert JOBS["release: attest"]["needs"] == "build"
    assert JOBS["release: publish"]["needs"] == "attest"
    assert "make release-check" in commands(JOBS["release: build"])
    # YAML reads `on` as true.
    assert WORKFLOWS["release"][True] == {"push": {"tags": ["v*"]}}


def test_the_tag_is_compared_with_the_version_by_a_pattern_that_finds_it() -> None:
    assert r"""s/^__version__ = "\(.*\)"$/\1/p' rag_bm25/_version.py""" in commands(JOBS["release: build"])
    source = (ROOT / "rag_bm25" / "_version.py").read_text("utf-8")
    assert re.findall(r'^__version__ = "(.*)"$', source, re.MULTILINE) == [__version__]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_are_whole(path: Path) -> None:
    form = yaml.safe_load(path.read_text("utf-8"))
    assert {"name", "description", "body"} <= form.keys()
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert all(part["attributes"]["label"] for part in asked)
    assert len({part["id"] for part in asked}) == len(asked)
    assert any(part.get("validations", {}).get("required") for part in asked)


def test_dependabot_looks_where_there_is_something() -> None:
    updates = yaml.safe_load((GITHUB / "dependabot.yml").read_text("utf-8"))["updates"]
    found = {"pip": "pyproject.toml", "github-actions": ".github/workflows", "docker": "Dockerfile"}
    assert {update["package-ecosystem"] for update in updates} == set(found)
    for update in updates:
        assert (ROOT / update["directory"].strip("/") / found[update["package-ecosystem"]]).exists()


def test_citation_and_changelog_name_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (citation["version"], citation["license"]) == (__version__, "Apache-2.0")
    heading = f"\n## {__version__} - {citation['date-released']}\n"
    assert heading in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_mcp_registry_is_told_this_version() -> None:
    server = json.loads((ROOT / "server.json").read_text("utf-8"))
    (package,) = server["packages"]
    assert (package["registryType"], package["identifier"]) == (
        "pypi",
        re.findall('^name = "(.*)"', PYPROJECT, re.MULTILINE)[0],
    )
    assert (server["version"], package["version"]) == (__version__, __version__)
    assert len(server["description"]) <= 100  # its schema's limit


def test_what_the_mcp_registry_runs_is_a_command_with_its_extras() -> None:
    (package,) = json.loads((ROOT / "server.json").read_text("utf-8"))["packages"]
    name, _, version = package["runtimeArguments"][0]["value"].partition("==")
    extras = name.removeprefix("rag-bm25[").removesuffix("]").split(",")
    assert version == __version__
    assert {"cli", "serve"} <= set(extras) <= set(re.findall(r"^([\w-]+) = \[", PYPROJECT, re.MULTILINE))
    commands = pytest.importorskip("rag_bm25.cli.app").COMMANDS
    command, *options = [part.get("value") or part["name"] for part in package["packageArguments"]]
    assert set(options) <= {option for parameter in commands[command].load().params for option in parameter.opts}


def test_the_rows_for_langchain_name_classes_that_are_there() -> None:
    (rows,) = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    for kind, base in {"retrievers": BaseRetriever, "vectorstores": VectorStore}.items():
        for row in yaml.safe_load(rows)["python"][kind]:
            assert issubclass(vars(rag_bm25.langchain)[row["name"]], base)
            assert f'name = "{row["pypi"]}"' in PYPROJECT


def test_nothing_is_released_without_the_account_that_publishes() -> None:
    assert "! grep --line-number OWNER server.json" in commands(JOBS["release: build"])


def test_the_page_on_pypi_names_the_server_for_the_mcp_registry(tmp_path: Path) -> None:
    (command,) = [step["run"] for step in JOBS["release: build"]["steps"] if "mcp-name" in step.get("run", "")]
    shutil.copy(ROOT / "server.json", tmp_path)
    subprocess.run(["bash", "-ec", command], cwd=tmp_path, check=True)
    name = json.loads((ROOT / "server.json").read_text("utf-8"))["name"]
    assert (tmp_path / "README.md").read_text("utf-8") == f"\n<!-- mcp-name: {name} -->\n"
