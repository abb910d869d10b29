"""Routes, their answers and their refusals, on an index in memory."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag_bm25 import BM25Index, IndexGroup, QueryWeighting
from rag_bm25.ingestion import reindex
from rag_bm25.weighting.calibration import calibrate

API = "/api/v1"


def ids(hits: list[dict[str, Any]]) -> list[str]:
    return [hit["id"] for hit in hits]


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def assert_refused(answer: Any, status: int, code: str, *parts: str) -> None:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert set(answer.json()) == {"error"}
    assert set(error) == {"code", "message"}
    for part in parts:
        assert part in error["message"]


# Searching


def test_search_answers_as_the_index_does_by_get_and_by_post(asker: Any, index: BM25Index) -> None:
    hits = index.search("notice period", 2)
    expected = [
        {
            "id": hit.id,
            "score": hit.score,
            "text": hit.text,
            "metadata": hit.metadata,
            "namespace": "",
            "score_share": hit.score_share,
        }
        for hit in hits
    ]
    assert len(expected) == 2
    for answer in (
        asker.get(f"{API}/search", query="notice period", k=2),
        asker.post(f"{API}/search", query="notice period", k=2),
    ):
        assert answer.status_code == 200
        assert answer.json() == {"hits": expected, "count": 2}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"filter": {"source": "memo.txt"}}, ["memo.txt#0"]),
        ({"namespace": "tenant"}, ["x"]),
        ({"namespace": ["", "tenant"], "k": 1}, 1),
        ({"all_namespaces": True}, 3),
        ({"query": "+notice -period", "syntax": True}, ["memo.txt#0"]),
        ({"boosts": [{"type": "value", "key": "chunk", "factors": {"1": 9}}], "k": 1}, ["law.txt#1"]),
        ({"statistics": "all", "weighting": {"idf": "lucene", "k3": 2.0}}, 2),
    ],
    ids=str,
)
def test_options_of_a_search_have_their_effect(asker: Any, given: dict[str, Any], found: Any) -> None:
    answer = asker.post(f"{API}/search", **{"query": "notice period", **given})
    assert answer.status_code == 200, answer.text
    hits = answer.json()["hits"]
    assert (len(hits) if isinstance(found, int) else ids(hits)) == found


def test_a_query_string_has_lists_and_objects(asker: Any) -> None:
    given = {
        "query": "notice",
        "must": ["staff", "members"],
        "filter": json.dumps({"chunk": {"$gte": 0}}),
        "search_params": "rescore=true",
    }
    assert ids(asker.get(f"{API}/search", **given).json()["hits"]) == ["memo.txt#0"]
    refused = asker.get(f"{API}/search", query="a", filter="{not json")
    assert_refused(refused, 400, "bad_request", "filter that begins with { must be JSON: Expecting")


def test_groups_contexts_and_highlights_are_in_the_answer(asker: Any) -> None:
    given = {"query": "notice", "group": {"key": "source"}, "context": "neighbors", "highlight": True, "k": 1}
    (hit,) = asker.post(f"{API}/search", **given).json()["hits"]
    assert hit["group_score"] == hit["score"]
    assert hit["context"]["ids"][0] in hit["id"] or hit["id"] in hit["context"]["ids"]
    marked = hit["highlights"][0]
    start, end = marked["marks"][0]
    assert hit["text"][start:end].lower() == "notice"


def test_a_long_text_is_cut_and_says_so(asker: Any, index: BM25Index) -> None:
    (hit,) = asker.post(f"{API}/search", query="members", max_text=8).json()["hits"]
    assert (hit["text"], hit["characters"]) == ("A notice", len(index.get(["memo.txt#0"])[0].text))
    (whole,) = asker.post(f"{API}/search", query="members", max_text=hit["characters"]).json()["hits"]
    assert "characters" not in whole


def test_nothing_found_suggests_another_spelling(asker: Any) -> None:
    pytest.importorskip("rapidfuzz")
    assert asker.post(f"{API}/search", query="probetion").json() == {"hits": [], "count": 0, "suggestion": "probation"}
    assert asker.get(f"{API}/suggest", query="probetion").json() == {"suggestion": "probation"}
    assert asker.get(f"{API}/suggest", query="probation").json() == {"suggestion": None}
    assert asker.get(f"{API}/suggest", query="the prob").json() == {"suggestion": "the probation"}


def test_explain_is_that_of_the_index(asker: Any, index: BM25Index) -> None:
    explained = index.explain("notice", "memo.txt#0", weighting=QueryWeighting(idf="lucene"))
    given = {"query": "notice", "id": "memo.txt#0", "weighting": {"idf": "lucene"}}
    assert asker.post(f"{API}/explain", **given).json() == {"explanation": as_json(explained.to_dict(tree=False))}
    with_tree = asker.post(f"{API}/explain", **given, tree=True).json()
    assert with_tree == {"explanation": as_json(explained.to_dict(tree=True))}
    assert_refused(asker.get(f"{API}/explain", query="notice", id="none"), 404, "not_found", "'none'")
    several = {"query": "notice", "id": "x", "all_namespaces": True, "chunk_namespace": "tenant"}
    assert asker.post(f"{API}/explain", **several).json()["explanation"]["value"] > 0


def test_why_is_the_diagnosis_of_the_index(asker: Any, index: BM25Index) -> None:
    missed = asker.get(f"{API}/why", query="notice period", id="law.txt#2").json()["diagnosis"]
    expected = index.diagnose("notice period", "law.txt#2")
    assert missed == {**as_json(expected.to_dict()), "text": str(expected)}
    assert [reason["code"] for reason in missed["reasons"]] == ["no_term"]
    nothing = asker.get(f"{API}/why", query="zzz").json()["diagnosis"]
    assert nothing == {**as_json(index.diagnose("zzz").to_dict()), "text": str(index.diagnose("zzz"))}
    found = asker.post(f"{API}/why", query="notice period", id="law.txt#1", min_score=1000.0).json()["diagnosis"]
    assert [reason["code"] for reason in found["reasons"]] == ["min_score"]
    several = {"query": "law", "id": "x", "all_namespaces": True, "chunk_namespace": "tenant"}
    assert asker.post(f"{API}/why", **several).json()["diagnosis"]["namespace"] == "tenant"


def test_highlight_marks_any_text(asker: Any) -> None:
    text = "Nothing here. A notice of dismissal."
    (mark,) = asker.post(f"{API}/highlight", query="notice", text=text, highlight={"max_fragments": 1}).json()[
        "highlights"
    ]
    assert (mark["text"], mark["start"], mark["marks"]) == ("A notice of dismissal.", 14, [[16, 22]])


# Statistics


def test_statistics_are_those_of_the_index(asker: Any, index: BM25Index) -> None:
    everything = asker.get(f"{API}/statistics").json()
    assert everything["index"]["num_chunks"] == 5
    assert everything["index"]["name"] == "docs"
    assert everything["index"]["proposed_chunk_size"] == calibrate(index.stats().mean_length, 5).chunk_size
    assert everything["problems"] == []
    assert asker.get(f"{API}/statistics", namespace="tenant").json()["index"]["num_chunks"] == 1
    (term,) = asker.get(f"{API}/statistics/terms", terms="notice").json()["terms"]
    assert (term["df"], term["num_chunks"]) == (2, 4)
    assert term["idf"] == index.term_statistics("notice")[0].idf
    top = asker.get(f"{API}/statistics/top-terms", prefix="noti", k=5).json()["terms"]
    assert [term["term"] for term in top] == ["notic"]
    assert asker.get(f"{API}/statistics/top-terms", prefix="notices").json()["terms"] == top


# Chunks


def test_chunks_are_read_by_id_and_by_source(asker: Any) -> None:
    chunk = asker.get(f"{API}/chunks/law.txt%231").json()
    assert (chunk["id"], chunk["metadata"]) == ("law.txt#1", {"source": "law.txt", "chunk": 1})
    around = asker.get(f"{API}/chunks/law.txt%231", context="neighbors").json()["context"]
    assert around["ids"] == ["law.txt#0", "law.txt#1", "law.txt#2"]
    page = asker.get(f"{API}/chunks", source="law.txt", offset=1, limit=1).json()
    assert (ids(page["chunks"]), page["total"], page["offset"]) == (["law.txt#1"], 3, 1)
    page = asker.get(f"{API}/chunks", source="law.txt", around="law.txt#2", limit=2).json()
    assert (ids(page["chunks"]), page["offset"]) == (["law.txt#2"], 2)
    page = asker.get(f"{API}/chunks", source="law.txt", around="gone")
    assert_refused(page, 404, "not_found", "no chunk of the source 'law.txt' has the id 'gone'")
    page = asker.get(f"{API}/chunks", source="law.txt", around="law.txt#2", offset=1)
    assert_refused(page, 400, "bad_request", "either offset or around")
    assert asker.get(f"{API}/chunks/x", namespace="tenant").json()["id"] == "x"
    assert_refused(asker.get(f"{API}/chunks/x"), 404, "not_found")


def test_chunks_of_a_source_come_in_the_order_of_their_places(make_asker: Callable[..., Any]) -> None:
    writer = make_asker(allow_writes=True)
    places = [
        {"id": id_, "text": "one", "metadata": {"source": "x.md", "start_index": at}} for at, id_ in enumerate("cba")
    ]
    assert writer.post(f"{API}/chunks", chunks=places).status_code in (200, 201)
    assert ids(writer.get(f"{API}/chunks", source="x.md").json()["chunks"]) == ["c", "b", "a"]


def test_writing_needs_to_be_allowed(asker: Any, make_asker: Callable[..., Any]) -> None:
    assert_refused(asker.post(f"{API}/chunks", chunks=[{"text": "new"}]), 403, "read_only", "--allow-writes")
    assert_refused(asker.delete(f"{API}/chunks/x"), 403, "read_only")
    writer = make_asker(allow_writes=True)
    added = writer.post(
        f"{API}/chunks", chunks=[{"text": "a new chunk", "id": "new", "metadata": {"n": 1}}, {"text": "b"}]
    )
    assert (added.json()["count"], added.json()["ids"][0]) == (2, "new")
    assert writer.get(f"{API}/chunks/new").json()["metadata"] == {"n": 1}
    jobs = writer.get(f"{API}/progress").json()
    assert jobs["writing"] is False
    assert (jobs["jobs"][0]["kind"], jobs["jobs"][0]["state"]) == ("add", "done")
    assert jobs["jobs"][0]["progress"] == [{"what": "chunks", "done": 2, "total": 2}]
    assert writer.delete(f"{API}/chunks/new").json() == {"deleted": 1}
    assert writer.delete(f"{API}/chunks", source="law.txt").json() == {"deleted": 3}
    assert writer.delete(f"{API}/chunks", filter={"source": "memo.txt"}).json() == {"deleted": 1}
    assert writer.ask("DELETE", f"{API}/chunks/x", params={"namespace": "tenant"}).json() == {"deleted": 1}
    for wrong in ({}, {"ids": ["a"], "source": "b"}):
        assert_refused(writer.ask("DELETE", f"{API}/chunks", json=wrong), 400, "bad_request", "exactly one of")


def test_the_reason_of_a_job_tells_no_more_of_the_place_of_the_index_than_the_answer(
    make_asker: Callable[..., Any],
) -> None:
    writer = make_asker(allow_writes=True)
    refused = writer.post(f"{API}/chunks", chunks=[{"text": "A notice.", "embedding": [1.0, 2.0]}])
    (job,) = writer.get(f"{API}/progress").json()["jobs"]
    assert job["reason"] == refused.json()["error"]["message"]
    assert ":memory:" not in job["reason"]
    assert job["reason"].startswith("embeddings given, but the index has no dense vectors")


def test_a_refused_write_writes_nothing(make_asker: Callable[..., Any], index: BM25Index) -> None:
    writer = make_asker(allow_writes=True)
    answer = writer.post(f"{API}/chunks", chunks=[{"text": "good"}, {"text": "bad\0"}])
    assert_refused(answer, 400, "bad_request", "NUL")
    assert index.stats().num_chunks == 5
    (job, *_) = writer.get(f"{API}/progress").json()["jobs"]
    assert (job["state"], "NUL" in job["reason"]) == ("failed", True)


@pytest.mark.parametrize("method", ["add", "delete"])
def test_a_write_that_a_stop_finds_under_way_is_acknowledged(
    make_asker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    writer = make_asker(allow_writes=True)
    index = writer.served.operations._index
    write = getattr(index, method)

    def stop_and_write(*given: Any, **more: Any) -> Any:
        writer.served.operations.jobs.stop()
        return write(*given, **more)

    monkeypatch.setattr(index, method, stop_and_write)
    add = method == "add"
    answer = writer.post(f"{API}/chunks", chunks=[{"text": "a"}]) if add else writer.delete(f"{API}/chunks/x")
    assert answer.status_code == 200
    assert writer.get(f"{API}/progress").json()["jobs"][0]["state"] == "done"


# Refusals


MANY = "namespace must be a str or a sequence of at most 1,000, "


@pytest.mark.parametrize(
    ("path", "given", "rule"),
    [
        ("search", {}, "query is missing"),
        ("search", {"query": 5}, "query must be a str of at most 10,000 characters, got 5"),
        ("search", {"query": "a", "k": 0}, "k must be an int in 1..1000, got 0"),
        ("search", {"query": "a", "k": 1001}, "k must be an int in 1..1000, got 1001"),
        ("search", {"query": "a", "kk": 1}, "the request has no 'kk'; it has query, "),
        ("search", {"query": "a" * 10_001}, "query must be a str of at most 10,000 characters, got 'aaa"),
        ("search", {"query": "a", "must": ["a"] * 101}, "must must be a sequence of at most 100, each a str"),
        ("search", {"query": "a", "filter": {"$foo": 1}}, "$foo"),
        (
            "search",
            {"query": "a", "filter": 'source == "memo.txt"'},
            'must be a mapping, such as {"page": {"$gte": 3}}',
        ),
        ("search", {"query": "a", "filter": 3}, "filter must be a mapping"),
        ("search", {"query": "a", "slop": -1, "phrases": ["a b"]}, "slop must be"),
        ("search", {"query": "a", "namespace": "a\nb"}, "control characters"),
        ("search", {"query": "+", "syntax": True, "min_should_match": "x"}, "min_should_match"),
        ("search", {"query": "a", "phrases": ["a"] * 21}, "phrases must be a sequence of at most 20, "),
        ("search", {"query": "a", "namespace": ["a"] * 1_001}, MANY),
        ("statistics", {"namespace": ["a"] * 1_001}, MANY),
        ("explain", {"query": "a"}, "id is missing"),
        ("statistics/top-terms", {"k": 0}, "k must be"),
        ("highlight", {"query": "a", "text": 3}, "text must be"),
        ("progress", {"x": 1}, "the request has no 'x'; it has no arguments"),
        ("highlight", {"query": "a", "text": "a" * 65_536}, "text must be a str of at most 65,535 characters"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named_with_their_rule(asker: Any, path: str, given: dict[str, Any], rule: str) -> None:
    assert_refused(asker.post(f"{API}/{path}", **given), 400, "bad_request", rule)


@pytest.mark.parametrize(
    ("path", "given", "rule"),
    [
        ("search", {"query": ["a", "b"]}, "query must be given once, got 2 times"),
        ("search", {"query": "a", "k": ["1", "1"]}, "k must be given once, got 2 times"),
        ("search", {"query": "a", "weighting": "k1=1,k1=2"}, "k1 must be given once, got 2 times"),
        ("chunks/memo.txt%230", {"id": "b"}, "id must be given once, and is in the path"),
    ],
)
def test_an_argument_that_is_one_is_given_once(asker: Any, path: str, given: dict[str, Any], rule: str) -> None:
    assert_refused(asker.get(f"{API}/{path}", **given), 400, "bad_request", rule)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"text"', b'{"text": NaN}', b"\xff", b"[" * 100_000], ids=lambda body: str(body[:9])
)
def test_a_body_that_is_no_object_is_refused(asker: Any, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = asker.ask("POST", f"{API}/search", content=body, headers=headers)
    assert_refused(answer, 400, "bad_request", "the body must be a JSON object")


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/chunks/law.txt%230"), ("GET", "/search?query=notice")])
def test_a_body_that_would_be_ignored_is_refused(
    make_asker: Callable[..., Any], index: BM25Index, method: str, path: str
) -> None:
    for given in ({"json": {"namespace": "tenant"}}, {"headers": {"transfer-encoding": "chunked"}}):
        answer = make_asker(allow_writes=True).ask(method, API + path, **given)
        assert_refused(answer, 400, "bad_request", "the arguments belong into the address")
    assert len(index) == 5


def test_a_text_with_a_lone_surrogate_is_answered(asker: Any) -> None:
    asked = json.dumps({"query": "notice", "text": "a notice \ud800"})
    answer = asker.ask("POST", f"{API}/highlight", content=asked, headers={"content-type": "application/json"})
    assert [one["text"] for one in answer.json()["highlights"]] == ["a notice \ud800"]


def test_a_client_that_goes_away_is_no_failure_of_the_server(asker: Any, caplog: pytest.LogCaptureFixture) -> None:
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": f"{API}/search", "headers": headers, "query_string": b""}
    sent = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(asker.app({**scope, "scheme": "http", "server": ("localhost", 80), "root_path": ""}, receive, send))
    assert sent[0]["status"] == 400
    assert not caplog.records


def test_a_search_that_nobody_waits_for_goes_out_of_the_queue(
    make_asker: Callable[..., Any], index: BM25Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker, searched = make_asker(running=1), []
    begun, go_on, search = threading.Event(), threading.Event(), index.search

    def search_slowly(query: Any, *given: Any, **options: Any) -> Any:
        searched.append(str(query))
        begun.set()
        assert go_on.wait(60)
        return search(query, *given, **options)

    async def ask(query: str, *, stays: bool) -> int:
        scope = {"type": "http", "method": "GET", "path": f"{API}/search", "query_string": f"query={query}".encode()}
        more = {"headers": [(b"host", b"localhost")], "scheme": "http", "server": ("localhost", 80), "root_path": ""}
        messages = iter([{"type": "http.request"}])
        sent: list[Any] = []

        async def receive() -> Any:
            if (message := next(messages, None)) is None and stays:
                await asyncio.Event().wait()
            return message or {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await asker.app({**scope, **more}, receive, send)
        return int(sent[0]["status"])

    async def ask_three() -> list[int]:
        first = asyncio.create_task(ask("first", stays=True))
        await asyncio.to_thread(begun.wait)
        second = await ask("second", stays=False)
        third = asyncio.create_task(ask("third", stays=True))
        go_on.set()
        return [await first, second, await third]

    monkeypatch.setattr(index, "search", search_slowly)
    assert asyncio.run(ask_three()) == [200, 400, 200]
    assert searched == ["first", "third"]


def test_other_types_routes_and_methods_are_refused(asker: Any) -> None:
    form = {"content-type": "text/plain"}  # what a page of another origin may send without asking
    assert_refused(asker.ask("POST", f"{API}/search", content="{}", headers=form), 415, "wrong_type")
    assert_refused(asker.get(f"{API}/none"), 404, "not_found", "/openapi.json")
    assert_refused(asker.ask("PUT", f"{API}/search"), 405, "bad_request", "answers PUT; /openapi.json lists the routes")
    assert_refused(asker.ask("POST", "/v1/search"), 405, "bad_request", "answers POST; /openapi.json lists the routes")
    assert_refused(asker.get("/mcp"), 405, "bad_request", "POST")
    assert_refused(asker.ask("POST", f"{API}/search?k=3", json={"query": "a"}), 400, "bad_request", "into the body")


def test_large_bodies_and_answers_are_refused(make_asker: Callable[..., Any]) -> None:
    asker = make_asker(body=100, answer=200)
    assert_refused(asker.post(f"{API}/search", query="a" * 100), 413, "body_too_large", "100 bytes")
    assert_refused(asker.post(f"{API}/search", query="notice"), 413, "answer_too_large", "max_text")
    assert asker.post(f"{API}/suggest", query="a").status_code == 200


def test_a_body_that_only_asks_is_small(make_asker: Callable[..., Any]) -> None:
    asker = make_asker(body=4_000, question=100, allow_writes=True)
    assert_refused(asker.post(f"{API}/search", query="a" * 100), 413, "body_too_large", "100 bytes")
    assert asker.post("/mcp", query="a" * 100).status_code == 413
    assert asker.post(f"{API}/chunks", chunks=[{"text": "a" * 100}]).status_code == 200


def test_a_request_is_read_in_a_thread_of_the_gate(
    make_asker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rag_bm25.serving import fields

    def read_options(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return read(*given)

    threads: list[str] = []
    read = fields.read_options
    monkeypatch.setattr(fields, "read_options", read_options)
    asker = make_asker(allow_writes=True)
    asker.post(f"{API}/chunks", chunks=[{"text": "a"}])
    asker.get(f"{API}/search", query="a")
    assert len(threads) == 2
    assert all(name.startswith("rag-bm25-serve") for name in threads)


def test_a_refused_request_is_let_go_at_once(asker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for a collection of garbage, the bodies of a minute would be in memory together."""
    from rag_bm25.errors import InputError
    from rag_bm25.serving.requests import Search

    seen: list[weakref.ref[Search]] = []

    def scope(asked: Search) -> None:
        seen.append(weakref.ref(asked))
        raise InputError("it cannot be answered")

    monkeypatch.setattr(Search, "scope", scope)
    gc.collect()
    gc.disable()
    try:
        assert_refused(asker.post(f"{API}/search", query="notice"), 400, "bad_request", "it cannot be answered")
    finally:
        gc.enable()
    assert [reference() for reference in seen] == [None]


def test_all_bodies_together_are_bounded(make_asker: Callable[..., Any]) -> None:
    """Others are refused while they wait, and let in once they have been answered."""
    asker = make_asker(held=1_000)
    headers = {"content-type": "application/json"}

    async def first() -> Any:
        yield b'{"query": "' + b"a" * 700
        second = await asker._ask("POST", f"{API}/search", {"json": {"query": "a" * 700}})
        assert_refused(second, 429, "busy", "fill the room")
        assert second.headers["retry-after"] == "1"
        assert (await asker._ask("GET", f"{API}/search?query=notice", {})).status_code == 200
        yield b'"}'

    for _ in range(3):
        assert asker.ask("POST", f"{API}/search", content=first(), headers=headers).status_code == 200
    agent = asker.ask("POST", "/mcp", content=b" " * 50, headers=headers)  # counts as it is once it is read
    assert_refused(agent, 429, "busy")


@pytest.mark.parametrize("path", [f"{API}/search", "/mcp"])
@pytest.mark.parametrize("pause", [0.01, 60])
def test_a_body_that_trickles_or_stops_is_not_waited_for(
    make_asker: Callable[..., Any], path: str, pause: float
) -> None:
    async def trickle() -> Any:
        for _ in range(300):
            yield b" "
            await asyncio.sleep(pause)
        yield b"{}"

    answer = make_asker(seconds=0.1).ask("POST", path, content=trickle(), headers={"content-type": "application/json"})
    assert_refused(answer, 408, "timeout")


def test_faults_of_the_server_tell_nothing(make_asker: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    from rag_bm25.errors import IndexGoneError, StoreError

    asker = make_asker()

    def fail(error: Exception) -> Any:
        def call(*_: Any, **__: Any) -> None:
            raise error

        asker.served.operations._index.search = call
        return asker.post(f"{API}/search", query="private words")

    assert_refused(fail(RuntimeError("secret")), 500, "internal")
    assert_refused(fail(StoreError("http://host failed")), 503, "index_failed")
    assert_refused(fail(IndexGoneError("docs was made again: open it anew")), 503, "index_gone")
    for place in (fail(RuntimeError("secret")).text, caplog.text):
        assert "secret" not in place
        assert "Traceback" not in place
        assert "private" not in place
    assert "RuntimeError at " in caplog.text


def test_errors_do_not_tell_where_the_index_is(asker: Any) -> None:
    message = asker.get(f"{API}/chunks/none").json()["error"]["message"]
    assert message == "no chunk 'none' in the default namespace"
    message = asker.get(f"{API}/explain", query="a", id="none").json()["error"]["message"]
    assert message == "no chunk 'none' in the default namespace of the index"


def test_files_are_ingested_while_the_index_is_served(asker: Any, index: BM25Index, tmp_path: Path) -> None:
    from rag_bm25.ingestion.files import find_files

    (tmp_path / "guide.txt").write_text("For newcomers.", encoding="utf-8")
    (tmp_path / "broken.pdf").write_bytes(b"no PDF")
    asker.served.operations.ingest(find_files([tmp_path]))
    (job,) = asker.get(f"{API}/progress").json()["jobs"]
    assert (job["kind"], job["state"]) == ("ingest", "done")
    assert (job["result"]["files"], job["result"]["added"], job["result"]["failed"]) == (1, 1, 1)
    assert asker.get(f"{API}/search", query="newcomers").json()["count"] == 1


def test_an_empty_index_is_warmed_up_and_searched(make_asker: Callable[..., Any], index: BM25Index) -> None:
    make_asker().served.operations.warm_up()
    index.delete(filter={"chunk": {"$gte": 0}})
    index.drop_namespace("tenant")
    asker = make_asker()
    asker.served.operations.warm_up()
    assert asker.get(f"{API}/search", query="notice").json()["count"] == 0
    assert asker.get(f"{API}/statistics").json()["index"]["proposed_chunk_size"] is None


# What the server says of itself


def test_openapi_describes_every_route(asker: Any) -> None:
    from rag_bm25.serving.routes import OPERATIONS

    described = asker.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    routes = {(path, method.upper()) for path, methods in described["paths"].items() for method in methods}
    assert routes == {(API + each.path.replace(":path", ""), method) for each in OPERATIONS for method in each.methods}
    operation_ids = [each["operationId"] for methods in described["paths"].values() for each in methods.values()]
    assert len(set(operation_ids)) == len(operation_ids)
    text = json.dumps(described)
    references = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert references <= set(described["components"]["schemas"])


def test_metrics_count_events_and_requests(asker: Any, index: BM25Index) -> None:
    asker.get(f"{API}/search", query="notice")
    asker.get(f"{API}/search")
    metrics = asker.get("/metrics").text
    assert 'rag_bm25_event_counts_total{count="status_200",event="request"} 1.0' in metrics
    assert 'rag_bm25_event_counts_total{count="status_400",event="request"} 1.0' in metrics


def test_the_page_is_served_with_strict_headers(asker: Any) -> None:
    page = asker.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    answer = asker.get(f"{API}/search", query="a")
    assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert asker.get("/healthz").json() == {"status": "ok"}


def test_no_refusal_tells_where_a_later_generation_is(index: BM25Index, make_asker: Callable[..., Any]) -> None:
    other = BM25Index.open(":memory:", "more", config=index.config)
    for one in (index, other):
        reindex(one, replace(index.config, chunk_size=30))
    for served in (index, IndexGroup([index, other])):
        asker = type(make_asker())(served)
        for size in (40, 50):
            reindex(index, replace(index.config, chunk_size=size))
            reindex(other, replace(index.config, chunk_size=size))
            refused = asker.post(f"{API}/search", query="notice", min_confidence=0.5).json()["error"]["message"]
            assert "the index has none" in refused
            assert not re.search("memory|generation", refused)


def test_several_indexes_are_served_as_one(index: BM25Index, make_asker: Callable[..., Any]) -> None:
    other = BM25Index.open(":memory:", "more", config=index.config)
    other.add(["The notice, notice, notice."], ids=["law.txt#1"])
    asker = type(make_asker())(IndexGroup([index, other]))
    hits = asker.post(f"{API}/search", query="notice").json()["hits"]
    assert [(hit["id"], hit["part"]) for hit in hits] == [("law.txt#1", 1), ("memo.txt#0", 0), ("law.txt#1", 0)]
    for hit in hits:
        asked = {"query": "notice", "id": hit["id"], "part": hit["part"]}
        explanation = asker.post(f"{API}/explain", **asked).json()["explanation"]
        assert explanation["value"] == pytest.approx(hit["score"], rel=1e-5)
    assert_refused(asker.post(f"{API}/explain", query="notice", id="law.txt#1"), 400, "bad_request", "give part")
    assert asker.get(f"{API}/statistics").json()["index"]["num_chunks"] == 6
    for path in ("/sources", "/chunks/memo.txt%230", "/statistics/top-terms"):
        assert asker.get(f"{API}{path}").status_code == 200
