"""Who may ask: Host, Origin and token, and the rules for servers that others can reach."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_bm25.errors import ParameterError
from rag_bm25.serving.settings import Settings, parse_address

TOKEN = "a token of the tests"
SEARCH = "/api/v1/search?query=notice"
GIVEN = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"authorization": ""}, 401, "wrong_token"),
        ({"authorization": "Bearer wrong"}, 401, "wrong_token"),
        ({"authorization": f"Bearer {TOKEN} "}, 401, "wrong_token"),
        ({"authorization": f"Basic {TOKEN}"}, 401, "wrong_token"),
        ({"host": "evil.example"}, 421, "wrong_host"),
        ({"host": "localhost.evil.example"}, 421, "wrong_host"),
        ({"host": "localhost:x"}, 421, "wrong_host"),
        ({"host": ""}, 421, "wrong_host"),
        ({"origin": "http://evil.example"}, 403, "wrong_origin"),
        ({"origin": "null"}, 403, "wrong_origin"),
        ({"origin": "ftp://localhost"}, 403, "wrong_origin"),
        ({"origin": "http://[::1"}, 403, "wrong_origin"),
        ({"origin": "http://localhost:1"}, 403, "wrong_origin"),  # another program's page on this machine
        ({"sec-fetch-site": "cross-site"}, 403, "wrong_origin"),
        ({"sec-fetch-site": "same-site"}, 403, "wrong_origin"),
    ],
)
@pytest.mark.parametrize("path", [SEARCH, "/mcp", "/metrics"])
def test_strangers_are_refused(
    make_asker: Callable[..., Any], headers: dict[str, str], status: int, code: str, path: str
) -> None:
    asker = make_asker(token=TOKEN)
    answer = asker.ask("POST" if path == "/mcp" else "GET", path, headers={**GIVEN, **headers})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
    assert TOKEN not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": f"bearer {TOKEN}"},  # as OAuth libraries write it
        {"host": "127.0.0.1:8765"},
        {"host": "[::1]:8765"},
        {"host": "LOCALHOST"},
        {"host": "search.example:443"},
        {"origin": "http://localhost"},
        {"origin": "https://intranet.example", "host": "search.example"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ],
    ids=str,
)
def test_those_who_may_ask_are_answered(make_asker: Callable[..., Any], headers: dict[str, str]) -> None:
    asker = make_asker(token=TOKEN, hosts=("search.example",), origins=("https://intranet.example/",))
    assert asker.ask("GET", SEARCH, headers={**GIVEN, **headers}).status_code == 200


def test_pages_of_an_allowed_origin_may_read_the_answers(make_asker: Callable[..., Any]) -> None:
    asker = make_asker(token=TOKEN, origins=("https://intranet.example",))
    friend = {"origin": "https://intranet.example"}
    before = asker.ask("OPTIONS", SEARCH, headers=friend)  # browsers ask first, and without the token
    assert (before.status_code, before.headers["access-control-allow-origin"]) == (204, friend["origin"])
    assert "authorization" in before.headers["access-control-allow-headers"]
    answer = asker.ask("GET", SEARCH, headers={**GIVEN, **friend})
    assert (answer.headers["access-control-allow-origin"], answer.headers["vary"]) == (friend["origin"], "Origin")
    assert asker.ask("GET", SEARCH, headers=friend).status_code == 401
    own = asker.ask("GET", SEARCH, headers={**GIVEN, "origin": "http://localhost"})
    assert "access-control-allow-origin" not in own.headers


def test_the_page_and_the_health_need_no_token(make_asker: Callable[..., Any]) -> None:
    asker = make_asker(token=TOKEN)
    assert asker.get("/").status_code == 200
    assert asker.get("/openapi.json").json()["security"] == [{"token": []}]
    assert asker.ask("GET", "/healthz", headers={"host": "10.0.0.7"}).status_code == 200
    assert asker.ask("GET", "/", headers={"host": "evil.example"}).status_code == 421


PROTECTED = {"token": TOKEN, "behind_proxy": True}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"host": "192.168.0.1"}, "needs an access token"),
        ({"host": "example.org"}, "needs an access token"),
        ({"host": "192.168.0.1", "token": TOKEN}, "needs a certificate and its key, or a proxy"),
        ({"host": "0.0.0.0", **PROTECTED}, "--allow-host"),
        ({"host": "::", **PROTECTED}, "--allow-host"),
        ({"token": "short"}, "at least 16 characters"),
        ({"token": "ü" * 20}, "ASCII"),
        ({"certificate": Path("a.pem")}, "belong together"),
    ],
)
def test_servers_that_others_can_reach_need_token_and_tls(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Settings(**given)


@pytest.mark.parametrize(
    ("given", "hosts"),
    [
        ({}, {"localhost", "127.0.0.1", "::1"}),
        ({"host": "localhost"}, {"localhost", "127.0.0.1", "::1"}),
        ({"host": "192.168.0.1", **PROTECTED}, {"192.168.0.1"}),
        (
            {"host": "0.0.0.0", "hosts": ("Search.example",), **PROTECTED},
            {"search.example", "localhost", "127.0.0.1", "::1"},
        ),
        (
            {"host": "search.example", "token": TOKEN, "certificate": Path("c"), "key": Path("k")},
            {"search.example"},
        ),
    ],
)
def test_the_names_of_a_server_follow_from_its_address(given: dict[str, Any], hosts: set[str]) -> None:
    settings = Settings(**given)
    assert settings.own_hosts() == hosts
    assert settings.scheme == ("https" if settings.certificate else "http")


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:8765", ("127.0.0.1", 8765)), ("[::1]:1", ("::1", 1)), ("localhost:0", ("localhost", 0))],
)
def test_addresses_are_read(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "8765", "127.0.0.1", "localhost:", ":8765", "::1:8765", "a:65536", "a:-1", "a:x"])
def test_wrong_addresses_are_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="HOST:PORT"):
        parse_address(text)
