"""compose.yaml and docker/: pinned, the same versions everywhere, nothing open to the network, nothing run as root."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from support import engines
from support.command_line import assert_fails, run

from rag_bm25.serving.guard import HEALTH

ROOT = Path(__file__).resolve().parents[1]
DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
VALUES = yaml.safe_load((DOCKER / "milvus-cluster.values.yaml").read_text("utf-8"))
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
SERVICES = COMPOSE["services"]
BUILT = SERVICES["rag-bm25"]
PULLED = [name for name, service in SERVICES.items() if service is not BUILT]
PINNED = re.compile(r"[\w./-]+:(v?\d+\.\d+\.\d+[\w.-]*|RELEASE\.[\w-]+)")
DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")
DOCKERFILE = (DOCKER / "Dockerfile").read_text("utf-8")
TOKEN = "a token of the tests"


def by_default(text: str) -> str:
    """Put in what stands for variables that are not set."""
    return DEFAULT.sub(r"\1", text)


def instructions() -> list[list[tuple[str, str]]]:
    """Name and arguments of each instruction, for each stage of the image."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line]
    stages: list[list[tuple[str, str]]] = []
    for name, arguments in lines:
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, arguments))
    return stages


def in_image(name: str) -> str:
    """Return the arguments of an instruction that the last stage has once."""
    (arguments,) = [arguments for instruction, arguments in instructions()[-1] if instruction == name]
    return arguments


@pytest.mark.parametrize("name", PULLED)
class TestPulledServices:
    def test_image_is_pinned(self, name: str) -> None:
        assert PINNED.fullmatch(by_default(SERVICES[name]["image"]))

    def test_health_is_checked(self, name: str) -> None:
        check = SERVICES[name]["healthcheck"]
        assert check["test"][0] == "CMD"
        assert {"interval", "timeout", "retries"} <= check.keys()

    def test_what_is_stored_is_in_a_named_volume(self, name: str) -> None:
        volumes = [volume.partition(":")[0] for volume in SERVICES[name]["volumes"]]
        assert volumes
        assert set(volumes) <= set(COMPOSE["volumes"])


@pytest.mark.parametrize("name", SERVICES)
class TestServices:
    def test_health_is_waited_for(self, name: str) -> None:
        needed = SERVICES[name].get("depends_on", {})
        assert set(needed) <= set(SERVICES)
        assert all(how == {"condition": "service_healthy"} for how in needed.values())

    def test_ports_are_open_to_this_machine_only(self, name: str) -> None:
        assert all(by_default(port).startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))

    def test_it_is_on_the_network_of_all(self, name: str) -> None:
        assert not {"networks", "network_mode"} & SERVICES[name].keys()


def test_the_image_beside_milvus_reaches_it_and_is_reached() -> None:
    port = urlsplit(f"//{json.loads(in_image('CMD'))[2]}").port
    assert [by_default(published) for published in BUILT["ports"]] == [f"127.0.0.1:{port}:{port}"]
    given = BUILT["environment"]
    milvus = urlsplit(given["MILVUS_URI"])
    assert SERVICES[milvus.hostname]["ports"][0].endswith(f":{milvus.port}")
    assert "milvus" in BUILT["depends_on"]
    assert "image" not in BUILT
    assert given["MILVUS_TOKEN"] is given["RAG_BM25_ACCESS_TOKEN"] is None  # the caller's


def test_a_missing_folder_of_documents_is_an_error() -> None:
    assert [volume["bind"] for volume in BUILT["volumes"] if volume["type"] == "bind"] == [{"create_host_path": False}]
    for page in (DOCKER / "Dockerfile", ROOT / "compose.yaml", *(ROOT / "docs").glob("*.md")):
        mounts = re.findall(r"(?:--volume|-v)[ =](\S+:\S+)", page.read_text("utf-8"))
        assert all(mount == f"rag-bm25:{in_image('WORKDIR')}" for mount in mounts), page


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


def test_the_image_reads_documents_serves_and_has_an_engine() -> None:
    ((extras, *_),) = [re.findall(r"'\.\[(.+)\]'", arguments) for name, arguments in instructions()[0] if name == "RUN"]
    known = re.findall(r"^([\w-]+) = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert set(extras.split(",")) == {"cli", "documents", "fast", "fuzzy", "lite", "serve"}
    assert set(extras.split(",")) <= set(known)


def test_the_file_of_the_embedded_engine_can_be_written() -> None:
    (made,) = [arguments for name, arguments in instructions()[-1] if name == "RUN"]
    assert f"useradd --system --uid {in_image('USER')} --no-create-home rag " in made
    assert made.endswith(f"install --directory --owner rag {in_image('WORKDIR')}")


def test_no_secret_is_in_a_layer() -> None:
    stages = instructions()
    kept = [arguments for stage in stages for name, arguments in stage if name in ("ARG", "ENV", "CMD", "COPY", "RUN")]
    assert not re.search("token|password|secret", " ".join(kept), re.IGNORECASE)


@pytest.mark.parametrize(
    ("token", "message"), [(TOKEN, "`rag-bm25 ingest` creates one"), ("", "needs an access token")]
)
def test_the_image_serves_to_those_who_have_its_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, token: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MILVUS_URI", raising=False)
    command = [word.replace("0.0.0.0:8765", "0.0.0.0:0") for word in json.loads(in_image("CMD"))]
    assert_fails(run(*command, env={"RAG_BM25_ACCESS_TOKEN": token}), message)


def test_an_ingestion_is_stopped_by_the_signal_of_the_image() -> None:
    """The first process of a container ignores signals without a handler; Python has one for SIGINT."""
    number = signal.Signals[in_image("STOPSIGNAL")]
    assert signal.getsignal(number) is signal.default_int_handler


@pytest.mark.skipif(not Path("/proc/1").exists(), reason="needs Linux")
def test_the_health_of_a_server_is_asked_and_that_of_a_command_is_not(tmp_path: Path) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    first = tmp_path / "cmdline"
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        check = in_image("HEALTHCHECK").partition(" CMD ")[2].replace("/proc/1/cmdline", str(first))
        check = check.replace("8765", str(server.server_port))
        Thread(target=server.serve_forever, daemon=True).start()
        assert is_healthy(check, first, "rag-bm25", "ingest", "/documents/serve")
        assert asked == []
        assert is_healthy(check, first, "rag-bm25", "serve", "--http", "0.0.0.0:8765")
        assert asked == [HEALTH]
        server.shutdown()
    assert not is_healthy(check, first, "rag-bm25", "serve", "--http", "0.0.0.0:8765")


def is_healthy(check: str, first: Path, *command: str) -> bool:
    """Run the check of a container whose first process is this command."""
    first.write_text("".join(f"{word}\0" for word in command), "utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    options: Any = {"env": {"PATH": path, "http_proxy": "http://127.0.0.1:1"}, "capture_output": True, "timeout": 60}
    ended = subprocess.run(["/bin/sh", "-c", check], check=False, **options)
    return ended.returncode == 0


def test_what_the_image_copies_is_there_and_nothing_else_is_sent() -> None:
    copied = [arguments.split()[:-1] for stage in instructions() for name, arguments in stage if name == "COPY"]
    sources = {source for some in copied for source in some if not some[0].startswith("--from=")}
    assert all((ROOT / source).exists() for source in sources)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored[0] == "*"
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == sources


def test_targets_of_make_name_services() -> None:
    commands = re.findall(r"^\tdocker compose (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert commands == ["up --detach --wait milvus", "down", "down --volumes"]


def has_compose() -> bool:
    """Return whether there is a `docker compose`, which needs no engine to read a file; the older one reads another."""
    command = ["docker", "compose", "version"]
    return bool(shutil.which("docker")) and not subprocess.run(command, capture_output=True, check=False).returncode


@pytest.mark.parametrize("variables", [{}, {"MILVUS_BIND": "0.0.0.0", "MILVUS_AUTH": "true", "MILVUS_PORT": "29530"}])
def test_compose_finds_and_reads_the_file(variables: dict[str, str]) -> None:
    if not has_compose():
        pytest.skip("no docker compose is installed")
    options: Any = {"cwd": ROOT, "env": {**os.environ, **variables}, "capture_output": True, "text": True}
    read = subprocess.run(["docker", "compose", "config"], check=False, **options)
    assert read.returncode == 0, read.stderr
    services: dict[str, Any] = yaml.safe_load(read.stdout)["services"]
    milvus = services["milvus"]
    assert str(milvus["environment"]["COMMON_SECURITY_AUTHORIZATIONENABLED"]).lower() == variables.get(
        "MILVUS_AUTH", "false"
    )
    assert variables.get("MILVUS_PORT", "19530") in str(milvus["ports"])
    assert variables.get("MILVUS_BIND", "127.0.0.1") in str(milvus["ports"])
    assert services["rag-bm25"]["volumes"][0]["source"] == str(ROOT / "documents")
