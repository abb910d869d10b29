"""What a token with a scope sees: the answers of an index that has nothing else, over all routes and tools.

Each route and tool has a row of hostile requests, and one that is added needs a row. They are answered twice: by an
index of two tenants, and by one of the first tenant alone. The answers must be the same, to the last digit.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextvars import Context
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.routing import Mount, Route

from rag_bm25 import BM25Index, IndexConfig, IndexGroup, QueryWeighting
from rag_bm25.errors import InputError, ReadOnlyError
from rag_bm25.index.scoped import narrow
from rag_bm25.ingestion import reindex
from rag_bm25.serving import agents
from rag_bm25.serving.access import ACCESS, NOTHING, Access
from rag_bm25.serving.answers import RefusedError
from rag_bm25.serving.app import build_app
from rag_bm25.serving.observing import Observer
from rag_bm25.serving.requests import Search
from rag_bm25.serving.routes import OPERATIONS
from rag_bm25.serving.served import Served
from rag_bm25.serving.settings import Limits, Settings
from rag_bm25.serving.tokens import TokenFile

httpx = pytest.importorskip("httpx", reason="the tests of the server ask it with httpx")

API = "/api/v1"
WHOLE = "the token of the operator, for all"
OURS = "a token with the scope of one tenant"

OWN = {
    "ours.txt#0": "The notice period of the handbook is thirty days.",
    "ours.txt#1": "A written notice is sent to the staff.",
    "ours.txt#2": "Probation lasts three months in the iphone division, also for a runner who is running.",
    "both.txt#0": "Handbook, chapter one: notice and probation.",
    "both.txt#2": "Handbook, chapter three: holidays.",
}
FOREIGN = {
    "theirs.txt#0": "The zebrafish merger: notice of a secret price, zebrafish price.",
    "theirs.txt#1": "Notice, notice, notice: the IPHONE quagga contract.",
    "theirs.txt#2": "Holidays in Timbuktu, at Runninghaus.",
    "both.txt#1": "Handbook, chapter two: zebrafish and quaggas.",
    "both.txt#3": "Handbook, chapter four: Timbuktu.",
}
WORDS = ("zebrafish", "quagga", "timbuktu", "merger", "theirs.txt#", "rival", "number")
"""What nobody with the token may read: words, ids, the namespace and a field of the metadata."""

SCOPES: dict[str, dict[str, Any]] = {
    "namespace": {"namespaces": ["acme"]},
    "filter": {"filter": {"tenant": "a"}},
    "both": {"namespaces": ["acme", ""], "filter": {"tenant": {"$in": ["a", "c"]}}},
}

Ask = tuple[str, str, Any]


def metadata(id_: str, tenant: str) -> dict[str, Any]:
    source, _, number = id_.partition("#")
    return {"source": source, "chunk": int(number), "tenant": tenant, **({"number": 7} if tenant == "b" else {})}


def make_index(scope: str, *, both: bool) -> BM25Index:
    index = BM25Index.open(":memory:", "docs", config=IndexConfig(chunk_size=20))
    for tenant, namespace, texts in (("b", "rival", FOREIGN), ("a", "acme", OWN)):
        if tenant == "a" or both:
            place = "acme" if scope == "both" else namespace
            index.add(
                list(texts.values()),
                ids=list(texts),
                metadatas=[metadata(id_, tenant) for id_ in texts],
                namespace=place,
            )
    return index


def make_tokens(path: Path, *rows: dict[str, Any]) -> TokenFile:
    given = [{"name": f"token {number}", **row} for number, row in enumerate(rows)]
    path.write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
    return TokenFile(path)


def digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


# Requests


def get(path: str, **given: Any) -> Ask:
    return "GET", API + path, {"params": given}


def post(path: str, **given: Any) -> Ask:
    return "POST", API + path, {"json": given}


def remote(method: str, **params: Any) -> Ask:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    return "POST", "/mcp", {"json": message, "headers": accept}


def tool(name: str, **arguments: Any) -> Ask:
    return remote("tools/call", name=name, arguments=arguments)


NOWHERE = {"namespace": "nowhere"}
EVERYWHERE = {"all_namespaces": True}
PLACES = ({}, {"namespace": "acme"}, NOWHERE, EVERYWHERE, {"namespace": "rival"}, {"namespace": ["acme", "rival"]})
ESCAPES = (
    {"filter": {"$or": [{"tenant": "a"}, {"tenant": "b"}]}},
    {"filter": {"$not": {"tenant": "a"}}},
    {"filter": {"$or": [{"chunk": {"$gte": 0}}, {"number": 7}]}},
    {"filter": {"number": 7}},
    {"filter": {"tenant": "b"}},
)
QUERY = {"query": "notice zebrafish handbook"}
OPTIONS = (
    {"statistics": "all"},
    {"statistics": {"tenant": "b"}},
    {"statistics": {"$or": [{"tenant": "a"}, {"tenant": "b"}]}},
    {"expansion": {"fuzzy": True}, "query": "zebrafsh notise"},
    {"query": "zeb* not*", "syntax": True},
    {"must": ["zebrafish"]},
    {"phrases": ["secret price"]},
    {"min_should_match": 2},
    {"min_score": 0.01},
    {"feedback": {"relevant": ["theirs.txt#0"]}},
    {"feedback": {"relevant": ["both.txt#1"]}},
    {"context": "neighbors", "query": "handbook"},
    {"context": "document", "query": "chapter"},
    {"group": {"key": "source", "size": 9}, "k": 9},
    {"diversity": "mmr"},
    {"boosts": [{"type": "value", "key": "tenant", "factors": {"b": 99}}]},
    {"weighting": {"idf": "lucene", "length": "mean"}},
    {"highlight": True},
    {"search_params": {"rescore": True}},
    {"query": "zebrafish"},
    {"query": "quagga*", "syntax": True},
)
SEARCHES = [
    *({**QUERY, **EVERYWHERE, **given} for given in (*PLACES, *ESCAPES, *OPTIONS)),
    *({**QUERY, **given} for given in (*PLACES, *ESCAPES)),
]
IDS = ("theirs.txt#0", "both.txt#1", "ours.txt#0", "no.txt#0")


def for_agents(given: dict[str, Any]) -> bool:
    return not given.keys() & {"weighting", "boosts", "search_params"}


EXPLAINED = [
    *({**given, "id": id_} for given, id_ in zip(SEARCHES, cycle(IDS[:3]), strict=False)),
    *({**QUERY, "id": id_, **EVERYWHERE} for id_ in IDS),
    {**QUERY, "id": "theirs.txt#0", "chunk_namespace": "rival"},
    {**QUERY, "id": "theirs.txt#0", **EVERYWHERE, "chunk_namespace": "rival"},
]


TYPED = ("zebrafsh", "zebr", "the quag", "hanbook", "iphon", "notice timbukt", "runnin")
COUNTED = ({"terms": "notice zebrafish handbook quagga"}, {"terms": ["timbuktu"]})
FOUND = (
    {"pattern": "zebrafish"},
    {"pattern": "a", "limit": 50},
    {"pattern": "ZEBRA", "ignore_case": True, "source": "theirs*"},
    {"pattern": "e", "limit": 1, "around": 200},
    {"pattern": "e", "source": "both.txt"},
)
SPACES = ({}, {"namespace": "acme"}, {"namespace": "rival"}, {"namespace": "nowhere"})
MANY = {"namespace": ["rival", "acme"]}
CHUNK = {"text": "New zebrafish.", "id": "theirs.txt#0"}

ROWS: dict[str, list[Ask]] = {
    f"GET,POST {API}/search": [*(post("/search", **given) for given in SEARCHES), get("/search", **QUERY)],
    f"GET,POST {API}/explain": [post("/explain", **given) for given in EXPLAINED],
    f"GET,POST {API}/why": [
        *(post("/why", **given) for given in SEARCHES),
        *(post("/why", **given) for given in EXPLAINED),
        post("/why", query="zebrafsh", **EVERYWHERE),
        post("/why", **QUERY, id="no.txt#0", **EVERYWHERE),
    ],
    f"GET,POST {API}/highlight": [
        post("/highlight", text="A notice on the zebrafish, or a handbook. The zebra too.", **QUERY, **place, **given)
        for place in PLACES
        for given in ({}, {"syntax": True, "query": "zeb*"}, {"statistics": "all"})
        if "query" not in given
    ],
    f"GET,POST {API}/suggest": [post("/suggest", query=typed, **place) for typed in TYPED for place in PLACES],
    f"GET,POST {API}/statistics": [post("/statistics", **place) for place in (*SPACES, MANY)],
    f"GET,POST {API}/statistics/terms": [
        post("/statistics/terms", **counted, **place) for counted in COUNTED for place in (*PLACES, *ESCAPES)
    ],
    f"GET,POST {API}/statistics/top-terms": [
        post("/statistics/top-terms", prefix=prefix, k=50, **place)
        for prefix in ("", "z", "zebra", "quag", "n")
        for place in (*PLACES, *({**EVERYWHERE, **escape} for escape in ESCAPES))
    ],
    f"GET,POST {API}/progress": [post("/progress"), get("/progress")],
    f"GET,POST {API}/sources": [post("/sources", **place) for place in ({}, {"contains": "their"}, *SPACES[1:])],
    f"GET {API}/chunks": [
        get("/chunks", source=source, **place)
        for source in ("both.txt", "theirs.txt", "thiers.txt", "no.txt")
        for place in SPACES
    ],
    f"GET {API}/chunks/{{id:path}}": [
        get(f"/chunks/{id_.replace('#', '%23')}", **place, **context)
        for id_ in (*IDS, "both.txt#0")
        for place in SPACES
        for context in ({}, {"context": "neighbors"}, {"context": "document"})
    ],
    "tool search": [tool("search", **given) for given in SEARCHES if for_agents(given)],
    "tool explain": [tool("explain", **given) for given in EXPLAINED if for_agents(given)],
    "tool suggest": [tool("suggest", query=typed, **place) for typed in TYPED for place in PLACES],
    "tool statistics": [
        tool("statistics", **place, terms="notice zebrafish", k=50, prefix=prefix)
        for prefix in ("", "zeb")
        for place in (*PLACES, *ESCAPES)
    ],
    "tool find": [
        tool("find", **given, **place)
        for given in FOUND
        for place in (*PLACES, *({**EVERYWHERE, **escape} for escape in ESCAPES))
    ],
    "tool sources": [tool("sources", **place) for place in ({}, {"contains": "their"}, *SPACES[1:])],
    "tool chunks": [
        tool("chunks", **given, **place)
        for given in (
            {"id": "theirs.txt#0"},
            {"id": "both.txt#0", "context": "document"},
            {"id": "both.txt#1", "context": "neighbors"},
            {"source": "both.txt"},
            {"source": "thiers.txt"},
        )
        for place in SPACES
    ],
    "mcp resources/read": [
        remote("resources/read", uri=uri)
        for uri in (
            agents.STATISTICS,
            f"{agents.CHUNKS}both.txt%230",
            f"{agents.CHUNKS}theirs.txt%230",
            f"{agents.CHUNKS}theirs.txt%230?namespace=rival",
        )
    ],
    "GET /metrics": [("GET", "/metrics", {})],
}
"""Of each that reads the index, requests that try to see the other tenant."""

ALIKE: dict[str, list[Ask]] = {
    "POST /mcp": [
        remote("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "a", "version": "1"})
    ],
    "DELETE,GET /mcp": [("GET", "/mcp", {})],
    "GET /openapi.json": [("GET", "/openapi.json", {})],
    "GET /healthz": [("GET", "/healthz", {})],
    "files /": [("GET", "/", {}), ("GET", "/main.js", {})],
    "mcp ping": [remote("ping")],
    "mcp server/discover": [remote("server/discover")],
    "mcp tools/list": [remote("tools/list")],
    "mcp tools/call": [],  # its rows are those of the tools
    "mcp resources/list": [remote("resources/list")],
    "mcp resources/templates/list": [remote("resources/templates/list")],
}
"""Those that say nothing of the index: the same to everybody."""

WRITES: dict[str, list[Ask]] = {
    f"POST {API}/chunks": [post("/chunks", chunks=[CHUNK], **place) for place in SPACES],
    f"DELETE {API}/chunks": [
        ("DELETE", f"{API}/chunks", {"json": {**given, **place}})
        for given in ({"ids": ["theirs.txt#0"]}, {"source": "both.txt"}, {"filter": {"chunk": {"$gte": 0}}})
        for place in SPACES
    ],
    f"DELETE {API}/chunks/{{id:path}}": [
        ("DELETE", f"{API}/chunks/both.txt%231", {"params": place}) for place in ({}, {"namespace": "rival"})
    ],
    "tool add": [tool("add", chunks=[CHUNK], **place) for place in SPACES],
    "tool delete": [tool("delete", source="both.txt", **place) for place in SPACES],
}
"""Those that write, with the ids of the other tenant."""


# Asking


Server = tuple[Served, Settings]


def ask_all(server: Server, token: str, requests: Sequence[Ask]) -> list[tuple[int, Any]]:
    async def main() -> list[tuple[int, Any]]:
        app = build_app(*server)
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            given = {"authorization": f"Bearer {token}"}
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=given) as client:
                return [plain(await client.request(method, path, **more)) for method, path, more in requests]

    answers: list[tuple[int, Any]] = asyncio.run(main())
    return answers


def plain(answer: Any) -> tuple[int, Any]:
    is_json = answer.headers.get("content-type", "").startswith("application/json")
    return answer.status_code, without_times(answer.json()) if is_json else answer.text


def without_times(value: Any) -> Any:
    """Return an answer without what is another one each time."""
    if isinstance(value, list):
        return list(map(without_times, value))
    if isinstance(value, dict):
        return {name: without_times(one) for name, one in value.items() if name not in ("started", "seconds")}
    return value


def serve(scope: str, folder: Path, *, both: bool, **more: Any) -> Server:
    """Serve an index with one or both tenants, to the operator and to the first tenant."""
    tokens = make_tokens(folder / "tokens", {"digest": digest(OURS), **SCOPES[scope], **more})
    settings = Settings(token=WHOLE, tokens=tokens, allow_writes=True, limits=Limits(seconds=3600, work=3600))
    server = Served(make_index(scope, both=both), Observer(), settings.limits, "docs"), settings
    if both:  # jobs of others
        added = post("/chunks", chunks=[{"text": "Gone.", "id": "gone"}], namespace="rival")
        ask_all(server, WHOLE, [added, ("DELETE", f"{API}/chunks/gone", {"params": {"namespace": "rival"}})])
    return server


@pytest.fixture(scope="module", params=SCOPES)
def servers(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Server, Server]:
    """Serve both tenants, and the first one alone."""
    folder = tmp_path_factory.mktemp("tokens")
    return serve(request.param, folder, both=True), serve(request.param, folder, both=False)


# Every route and tool


def names_of_routes(routes: Sequence[Any], prefix: str = "") -> Iterator[str]:
    for route in routes:
        if isinstance(route, Mount) and route.routes:
            yield from names_of_routes(route.routes, prefix + route.path)
        elif isinstance(route, Route):
            yield f"{','.join(sorted(route.methods - {'HEAD'}))} {prefix}{route.path}"
        else:
            yield f"files {prefix}{route.path}/"


def names_of_methods(served: Any) -> list[str]:
    server = agents.build_mcp_server(served, allow_writes=True)
    return [f"mcp {name}" for name in server._request_handlers]


def test_every_route_and_every_tool_has_a_row(asker: Any) -> None:
    rows = {*ROWS, *ALIKE, *WRITES}
    served = {*names_of_routes(asker.app.routes), *names_of_methods(asker.served)}
    served |= {f"tool {each.name}" for each in agents.TOOLS}
    assert served - rows == set(), "a route or tool without requests that try to leave the scope of a token"
    assert rows - served == set()


@pytest.mark.parametrize("name", ROWS)
def test_answers_are_those_of_an_index_without_the_other_tenant(servers: tuple[Server, Server], name: str) -> None:
    (two, one), requests = servers, ROWS[name]
    answers, alone = ask_all(two, OURS, requests), ask_all(one, OURS, requests)
    for request, answer, expected in zip(requests, answers, alone, strict=True):
        assert answer == expected, request
        asked, told = unquote(json.dumps(request[1:])).lower(), json.dumps(answer).lower()
        assert [word for word in WORDS if word in told and word not in asked] == [], request
    shown = (ask_all(two, WHOLE, [request]) != ask_all(one, WHOLE, [request]) for request in requests)
    assert any(shown), "these requests show nothing of the other"
    assert 500 not in {status for status, _ in answers}


@pytest.mark.parametrize("name", ALIKE)
def test_what_is_the_same_to_everybody_says_nothing_of_the_index(tmp_path: Path, name: str) -> None:
    server = serve("namespace", tmp_path, both=True, write=True)
    answers = ask_all(server, OURS, ALIKE[name])
    assert answers == ask_all(server, WHOLE, ALIKE[name])
    told = json.dumps(answers).lower()
    assert [word for word in WORDS[:-1] if word in told] == []


def stored(server: Server) -> list[Any]:
    return sorted(server[0]._index.chunks(namespace=None), key=lambda chunk: (chunk.namespace, chunk.id))


@pytest.mark.parametrize("name", WRITES)
def test_a_token_that_writes_changes_only_its_own(tmp_path: Path, name: str) -> None:
    server = serve("namespace", tmp_path, both=True, write=True)
    before = stored(server)
    answers = ask_all(server, OURS, WRITES[name])
    after = stored(server)
    assert [chunk for chunk in after if chunk.namespace != "acme"] == [
        chunk for chunk in before if chunk.namespace != "acme"
    ]
    told = json.dumps(answers).lower()
    assert [word for word in WORDS if word in told and word not in json.dumps(WRITES[name]).lower()] == []
    assert ask_all(server, WHOLE, WRITES[name]) != answers
    assert stored(server) != after


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("scope", SCOPES)
def test_a_token_that_only_reads_writes_nothing(tmp_path: Path, scope: str, name: str) -> None:
    server = serve(scope, tmp_path, both=True)
    before = stored(server)
    told = json.dumps(ask_all(server, OURS, WRITES[name]))
    assert stored(server) == before
    assert "this access token only reads" in told or "there is no tool" in told


def test_a_tool_that_writes_is_listed_to_those_who_may(tmp_path: Path) -> None:
    server = serve("namespace", tmp_path, both=False)
    tools = [
        {tool["name"] for tool in answer["result"]["tools"]}
        for token in (WHOLE, OURS)
        for _, answer in ask_all(server, token, [remote("tools/list")])
    ]
    assert tools[0] - tools[1] == {"add", "delete"}


def test_several_namespaces_are_searched_together_and_written_by_name(tmp_path: Path) -> None:
    server = serve("namespace", tmp_path, both=True, namespaces=["acme", "more"], write=True)
    answers = ask_all(
        server,
        OURS,
        [
            post("/chunks", chunks=[{"text": "A notice of more.", "id": "m"}]),
            post("/chunks", chunks=[{"text": "A notice of more.", "id": "m"}], namespace="more"),
            post("/search", query="notice", k=50),
            post("/search", query="notice", namespace="more"),
            get("/chunks/m"),
            post("/progress"),
        ],
    )
    (refused, _), (_, added), (_, every), (_, some), (ambiguous, _), (_, jobs) = answers
    assert (refused, added["count"], ambiguous) == (400, 1, 400)
    assert {hit["namespace"] for hit in every["hits"]} == {"acme", "more"}
    assert [hit["id"] for hit in some["hits"]] == ["m"]
    assert [job["kind"] for job in jobs["jobs"]] == ["add"]
    ((_, of_all),) = ask_all(server, WHOLE, [post("/progress")])
    assert [job["kind"] for job in of_all["jobs"]] == ["add", "delete", "add"]


def test_another_namespace_is_refused_whether_it_exists_or_not(tmp_path: Path) -> None:
    server = serve("namespace", tmp_path, both=True)
    there, nowhere = ask_all(server, OURS, [post("/search", **QUERY, namespace=name) for name in ("rival", "nowhere")])
    assert there == nowhere
    assert there == (403, {"error": {"code": "out_of_scope", "message": "the access token is for other namespaces"}})


# The index behind it


@pytest.mark.parametrize("options", [{}, {"weighting": QueryWeighting(idf="lucene", length="mean")}], ids=["", "other"])
@pytest.mark.parametrize("scope", SCOPES)
def test_scores_are_those_of_an_index_of_the_part_alone(scope: str, options: dict[str, Any]) -> None:
    place = {"filter": SCOPES[scope].get("filter"), "namespace": SCOPES[scope].get("namespaces")}
    parted = narrow(make_index(scope, both=True), **place)
    alone = make_index(scope, both=False)
    group = narrow(IndexGroup([make_index(scope, both=True), make_index(scope, both=True)]), **place)
    of_two = IndexGroup([alone, make_index(scope, both=False)])
    for index, expected in ((parted, alone), (group, of_two)):
        hits, wanted = (one.search("notice handbook", 50, namespace=None, **options) for one in (index, expected))
        assert [(hit.id, hit.part) for hit in hits] == [(hit.id, hit.part) for hit in wanted]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in wanted], rel=1e-5)
        shown, told = (one.search("handbook", 9, namespace=None, context="document") for one in (index, expected))
        assert [hit.context for hit in shown] == [hit.context for hit in told]
        assert index.stats() == expected.stats()
        assert index.terms(namespace=None) == expected.terms(namespace=None)


def test_a_part_follows_writes_and_generations(tmp_path: Path) -> None:
    index = make_index("filter", both=True)
    part = narrow(index, filter={"tenant": "a"})
    before = part.stats().num_chunks
    index.add(["A notice."], ids=["new"], metadatas=[{"tenant": "a"}])
    index.add(["A notice."], ids=["other"], metadatas=[{"tenant": "b"}])
    assert part.stats().num_chunks == before + 1
    assert [chunk.id for chunk in part.get(["new", "other"])] == ["new"]
    index.add(["A notice."], ids=["other"], metadatas=[{"tenant": "a"}])
    assert part.stats().num_chunks == before + 2
    reindex(index, IndexConfig(chunk_size=30))
    assert part.stats().chunk_size == 30
    assert part.stats().num_chunks == before + 2


def test_a_part_is_not_written_and_reaches_no_other_namespace() -> None:
    part = narrow(make_index("namespace", both=True), namespace="acme")
    for write in (
        lambda: part.add(["a"]),
        lambda: part.delete(["a"]),
        lambda: part.drop_namespace("acme"),
        part.repair,
        part.verify,
    ):
        with pytest.raises(ReadOnlyError):
            write()
    for read in (
        lambda: part.search("notice", namespace="rival"),
        lambda: part.stats(namespace="rival"),
        lambda: part.term_statistics("notice", namespace="rival"),
        lambda: list(part.chunks(namespace="rival")),
        lambda: part.suggest("notise", namespace="rival"),
    ):
        with pytest.raises(InputError, match="must be one of those of this part"):
            read()
    assert part.get(["theirs.txt#0"], namespace="rival") == []


def test_what_has_passed_no_guard_is_not_answered(asker: Any) -> None:
    async def ask(access: Access | None) -> Any:
        if access is not None:
            ACCESS.set(access)
        asked = Search(query="notice", all_namespaces=True)
        return await asker.served.ask(OPERATIONS[0].call, lambda: asked, lambda _, answer: answer)

    for access, error in ((None, LookupError), (NOTHING, RefusedError)):
        with pytest.raises(error):
            Context().run(asyncio.run, ask(access))
