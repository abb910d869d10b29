"""The files of docker/: pinned, the same versions everywhere, nothing open to the network, nothing run as root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import engines

ROOT = Path(__file__).resolve().parents[1]
DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "milvus-standalone.yaml").read_text())
VALUES = yaml.safe_load((DOCKER / "milvus-cluster.values.yaml").read_text())
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
SERVICES = COMPOSE["services"]
PINNED = re.compile(r"[\w./-]+:(v?\d+\.\d+\.\d+[\w.-]*|RELEASE\.[\w-]+)")
DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")


def by_default(text: str) -> str:
    """Put in what stands for variables that are not set."""
    return DEFAULT.sub(r"\1", text)


def instructions() -> list[list[tuple[str, str]]]:
    """Name and arguments of each instruction, for each stage of the image."""
    text = re.sub(r"\\\n\s*", "", (DOCKER / "Dockerfile").read_text())
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    stages: list[list[tuple[str, str]]] = []
    for name, arguments in lines:
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, arguments))
    return stages


@pytest.mark.parametrize("name", SERVICES)
class TestServices:
    def test_image_is_pinned(self, name: str) -> None:
        assert PINNED.fullmatch(by_default(SERVICES[name]["image"]))

    def test_health_is_checked_and_waited_for(self, name: str) -> None:
        check = SERVICES[name]["healthcheck"]
        assert check["test"][0] == "CMD"
        assert {"interval", "timeout", "retries"} <= check.keys()
        needed = SERVICES[name].get("depends_on", {})
        assert set(needed) <= set(SERVICES)
        assert all(how == {"condition": "service_healthy"} for how in needed.values())

    def test_what_is_stored_is_in_a_named_volume(self, name: str) -> None:
        volumes = [volume.partition(":")[0] for volume in SERVICES[name]["volumes"]]
        assert volumes
        assert set(volumes) <= set(COMPOSE["volumes"])

    def test_ports_are_open_to_this_machine_only(self, name: str) -> None:
        assert all(by_default(port).startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


def test_milvus_is_the_same_everywhere() -> None:
    tag = engines.MILVUS["2.6"]
    assert by_default(SERVICES["milvus"]["image"]) == f"milvusdb/milvus:{tag}"
    assert VALUES["image"]["all"] == {"repository": "milvusdb/milvus", "tag": tag}
    assert WORKFLOW["jobs"]["milvus"]["strategy"]["matrix"]["milvus"] == list(engines.MILVUS)
    for version, pinned in engines.MILVUS.items():
        assert pinned.startswith(f"v{version}.")


def test_the_cluster_asks_for_passwords() -> None:
    settings = yaml.safe_load(VALUES["extraConfigFiles"]["user.yaml"])
    assert settings["common"]["security"]["authorizationEnabled"] is True


def test_the_image_is_built_from_one_pinned_python_that_is_supported() -> None:
    (base,) = {arguments.split()[0] for stage in instructions() for name, arguments in stage if name == "FROM"}
    assert PINNED.fullmatch(base)
    version = ".".join(base.partition(":")[2].split(".")[:2])
    assert f"Python :: {version}" in (ROOT / "pyproject.toml").read_text()
    assert version in WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"]


def test_the_image_runs_as_nobody_and_builds_nothing() -> None:
    last = instructions()[-1]
    users = [arguments for name, arguments in last if name == "USER"]
    assert len(users) == 1
    assert int(users[0]) > 0
    assert [name for name, _ in last if name in ("ENTRYPOINT", "CMD")] == ["ENTRYPOINT", "CMD"]
    assert all(arguments.startswith("--from=") for name, arguments in last if name == "COPY")
    assert not [arguments for name, arguments in last if re.search(r"\b(pip|apt|apt-get|curl|gcc)\b", arguments)]
    assert not [name for stage in instructions() for name, _ in stage if name == "ADD"]


def test_what_the_image_copies_is_there_and_nothing_else_is_sent() -> None:
    copied = [arguments.split()[:-1] for stage in instructions() for name, arguments in stage if name == "COPY"]
    sources = {source for some in copied for source in some if not some[0].startswith("--from=")}
    assert all((ROOT / source).exists() for source in sources)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored[0] == "*"
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == sources


def test_targets_of_make_name_the_file_that_is_there() -> None:
    named = re.findall(r"--file (\S+)", (ROOT / "Makefile").read_text())
    assert named == ["docker/milvus-standalone.yaml"]
    assert (ROOT / named[0]).is_file()


def compose_command() -> list[str]:
    """Return a docker compose that works here, without an engine; none is an empty list."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and not subprocess.run([*command, "version"], capture_output=True).returncode:
            return command
    return []


@pytest.mark.parametrize("variables", [{}, {"MILVUS_BIND": "0.0.0.0", "MILVUS_AUTH": "true", "MILVUS_PORT": "29530"}])
def test_compose_reads_the_file(variables: dict[str, str]) -> None:
    command = compose_command()
    if not command:
        pytest.skip("no docker compose is installed")
    file = ["--project-name", "rag-bm25-milvus", "--file", str(DOCKER / "milvus-standalone.yaml"), "config"]
    read = subprocess.run([*command, *file], env={**os.environ, **variables}, capture_output=True, text=True)
    assert read.returncode == 0, read.stderr
    milvus: dict[str, Any] = yaml.safe_load(read.stdout)["services"]["milvus"]
    assert str(milvus["environment"]["COMMON_SECURITY_AUTHORIZATIONENABLED"]).lower() == variables.get(
        "MILVUS_AUTH", "false"
    )
    assert variables.get("MILVUS_PORT", "19530") in str(milvus["ports"])
    assert variables.get("MILVUS_BIND", "127.0.0.1") in str(milvus["ports"])
