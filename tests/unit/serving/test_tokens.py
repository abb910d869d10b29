"""The file of tokens: its lines, its changes while the server runs, and what is never said."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from support.command_line import run

from rag_bm25.errors import FilterError, ParameterError
from rag_bm25.serving import tokens as tokens_module
from rag_bm25.serving.tokens import TokenFile, make_token

SEARCH = "/api/v1/search?query=notice"
SECRET = "what only alice knows, of the tests"
DIGEST = sha256(SECRET.encode()).hexdigest()
OTHER = "0" * 64


def line(**more: Any) -> str:
    return json.dumps({"name": "alice", "digest": DIGEST, **more}) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.jsonl"
    path.write_text(line(namespaces=["tenant"]), encoding="utf-8")
    return path


def ask(asker: Any, token: str, path: str = SEARCH, **headers: str) -> int:
    given = {"authorization": f"Bearer {token}", **headers}
    return asker.ask("GET", path, headers=given).status_code  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{", "line 1: not JSON in UTF-8"),
        ("\n" + line() + "[]\n", "line 3: a token must be a JSON object"),
        ('{"name": "\ud800"}', "line 1: not JSON in UTF-8"),
        (line(namespace="a"), "line 1: token has no 'namespace'; it has name, digest, namespaces, filter, write"),
        (json.dumps({"digest": DIGEST}), "line 1: token.name is missing"),
        (line(name=""), "line 1: token.name must be"),
        (line(name=None), "line 1: token.name must be"),
        (line(digest=SECRET), "line 1: digest must be the SHA-256 of a token, in 64 hexadecimal digits"),
        (line(digest=DIGEST.upper()), "line 1: digest must be"),
        (json.dumps({"name": "alice", "token": SECRET}), "line 1: digest must be"),
        (line(namespaces=[]), "line 1: token.namespaces must be"),
        (line(namespaces="a"), "line 1: token.namespaces must be"),
        (line(namespaces=["a\0"]), "line 1: namespace"),
        (line(namespaces=None), "line 1: namespaces must not be null"),
        (line(filter=None), "line 1: filter must not be null"),
        (line(namespaces=["a"])[:-2] + ', "namespaces": ["b"]}', "line 1: 'namespaces' must be given once"),
        (line(filter={}), "line 1: filter must have a condition"),
        (line(filter="true"), "line 1: a filter must be a mapping, such as"),
        (line(filter={"a": {"$above": 1}}), "line 1: unknown operator '$above'"),
        (line(write="yes"), "line 1: token.write must be"),
        (line(filter={"a": 1}, write=True), "line 1: a token with a filter only reads"),
        (line() + line(digest=OTHER), "line 2: the name 'alice' is taken"),
        (line() + line(name="bob"), "line 2: the digest of 'bob' is that of another token"),
        ("[" * 100_000, "line 1: not JSON in UTF-8"),
        (" " * (1 << 20) + line(), "must have at most 1,048,576 bytes"),
    ],
)
def test_a_bad_file_is_refused_by_name_line_and_rule(file: Path, text: str, rule: str) -> None:
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ParameterError) as caught:
        TokenFile(file)
    assert str(caught.value).startswith(str(file))
    assert rule in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_a_file_that_everybody_may_write_is_refused(file: Path) -> None:
    file.chmod(0o666)
    with pytest.raises(ParameterError, match="can be written by everybody"):
        TokenFile(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"none\.jsonl cannot be read: No such file"):
        TokenFile(tmp_path / "none.jsonl")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name are those of POSIX")
def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(line(),))
    writer.start()
    with pytest.raises(ParameterError, match="is not a file"):
        TokenFile(pipe)
    with pipe.open("rb") as reader:
        assert reader.read()
    writer.join()


def test_bytes_are_parsed_once_be_they_good_or_bad(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = TokenFile(file)
    parsed = []
    read = tokens_module.read_tokens
    monkeypatch.setattr(tokens_module, "read_tokens", lambda *given: parsed.append(given) or read(*given))
    for text in (line(), "{", "{", line()):
        file.write_text(text)
        for _ in range(3):
            assert tokens.find(SECRET.encode()) is not None
    assert [data for _, data in parsed] == [line().encode(), b"{", line().encode()]


def test_a_token_is_one_of_the_file(make_asker: Callable[..., Any], file: Path) -> None:
    asker = make_asker(tokens=TokenFile(file))
    assert ask(asker, SECRET) == 200
    for wrong in (DIGEST, SECRET + " ", SECRET[:-1], "", "alice"):
        assert ask(asker, wrong) == 401, wrong
    assert asker.ask("GET", SEARCH, headers={b"authorization": "Bearer ü".encode()}).status_code == 401
    assert ask(asker, "", authorization=f"bearer {SECRET}") == 200  # schemes have no case
    for scheme in (SECRET, f"Basic {SECRET}", f"Bearer  {SECRET}"):
        assert ask(asker, "", authorization=scheme) == 401, scheme
    for path in ("/api/v1/nothing", "/metrics", "/mcp"):
        assert asker.ask("GET", path).status_code == 401
    assert asker.get("/openapi.json").json()["security"] == [{"token": []}]


def test_changes_hold_from_the_next_request_on(make_asker: Callable[..., Any], file: Path) -> None:
    asker = make_asker(tokens=TokenFile(file))
    state = file.stat()

    def write(text: str) -> None:
        """Change the file, within one tick of its times, and without another size."""
        file.write_text(text.ljust(state.st_size), encoding="utf-8")
        os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))

    assert ask(asker, SECRET) == 200
    write(line(digest=OTHER))
    assert ask(asker, SECRET) == 401
    write(line(namespaces=["other"]))
    assert asker.ask("GET", SEARCH, headers={"authorization": f"Bearer {SECRET}"}).json()["hits"] == []
    write("")
    assert ask(asker, SECRET) == 401


def test_a_bad_change_keeps_the_former_tokens_and_is_logged_once(
    make_asker: Callable[..., Any], file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asker = make_asker(tokens=TokenFile(file))
    for spoil in (lambda: file.write_text(line() + line(digest=SECRET)), file.unlink):
        caplog.clear()
        with caplog.at_level(logging.ERROR, "rag_bm25.serving"):
            spoil()
            assert [ask(asker, SECRET), ask(asker, SECRET)] == [200, 200]
        (message,) = caplog.messages
        assert message.startswith(str(file))
        assert message.endswith("; the former tokens stay in force")
        assert SECRET not in message
        assert DIGEST not in message
    file.write_text(line(digest=OTHER))
    assert ask(asker, SECRET) == 401


def test_a_filter_that_the_engine_cannot_evaluate_is_refused_by_the_token_s_name(
    make_asker: Callable[..., Any], index: Any, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def scan(scope: Any, **_: Any) -> Any:
        if "tenant" in str(scope.where):
            raise FilterError("the engine has no $exists")
        return iter([])

    asker = make_asker(tokens=TokenFile(file))
    monkeypatch.setattr(index._store, "scan_chunks", scan)
    file.write_text(line(filter={"tenant": {"$exists": True}}))
    with pytest.raises(ParameterError, match=r"the token 'alice': the engine has no \$exists"):
        make_asker(tokens=TokenFile(file))
    with caplog.at_level(logging.ERROR, "rag_bm25.serving"):
        assert ask(asker, SECRET) == 200  # the change is refused
    assert "the engine has no $exists; the former tokens stay in force" in caplog.text


def test_requests_at_once_have_each_their_own_scope(index: Any, file: Path) -> None:
    """Those of the tools, too, which another task answers than the one that has read the token."""
    httpx = pytest.importorskip("httpx")
    from rag_bm25.serving.app import build_app
    from rag_bm25.serving.observing import Observer
    from rag_bm25.serving.served import Served
    from rag_bm25.serving.settings import Limits, Settings

    file.write_text(line(namespaces=["tenant"]) + line(name="bob", digest=sha256(b"bob").hexdigest(), namespaces=[""]))
    settings = Settings(tokens=TokenFile(file), limits=Limits(seconds=3600, work=3600))
    app = build_app(Served(index, Observer(), settings.limits, "docs"), settings)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message["params"] = {"name": "search", "arguments": {"query": "notice", "all_namespaces": True}}  # type: ignore[assignment]
    accept = {"accept": "application/json, text/event-stream"}

    async def main() -> list[set[str]]:
        async def found(token: str) -> set[str]:
            given = {"authorization": f"Bearer {token}", **accept}
            answer = (await client.post("/mcp", json=message, headers=given)).json()
            return {hit["id"] for hit in answer["result"]["structuredContent"]["hits"]}

        transport = httpx.ASGITransport(app)
        async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport) as client:
            client.base_url = "http://localhost"
            return list(await asyncio.gather(*(found(token) for token in (SECRET, "bob") * 10)))

    answers = asyncio.run(main())
    assert answers[::2] == [{"x"}] * 10
    assert answers[1::2] == [{"law.txt#1", "memo.txt#0"}] * 10


# The command line


def test_the_command_makes_a_token_that_the_server_takes(make_asker: Callable[..., Any], tmp_path: Path) -> None:
    result = run("token", "Zoë", "--namespace", "tenant", "--namespace", "")
    secret = result.stderr.split()[-1]
    assert result.exit_code == 0
    assert secret not in result.stdout
    (tmp_path / "tokens").write_text(result.stdout, encoding="utf-8")
    asker = make_asker(tokens=TokenFile(tmp_path / "tokens"))
    assert ask(asker, secret) == 200
    assert json.loads(result.stdout) == {
        "name": "Zoë",
        "digest": sha256(secret.encode()).hexdigest(),
        "namespaces": ["tenant", ""],
    }


def test_tokens_are_random() -> None:
    assert len({make_token("a")[0] for _ in range(100)}) == 100
    assert min(len(make_token("a")[0]) for _ in range(100)) >= 43  # of 6 bits each


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--filter", "{}"), "filter must have a condition"),
        (("--filter", 'metadata["a"] == 1'), "a filter must be a mapping, such as"),
        (("--filter", '{"a": 1}', "--write"), "a token with a filter only reads"),
    ],
)
def test_the_command_refuses_what_the_server_would(options: tuple[str, ...], rule: str) -> None:
    result = run("token", "alice", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert rule in result.stderr
