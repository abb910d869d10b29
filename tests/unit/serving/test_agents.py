"""Tools and resources, by the official client within the process."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from rag_bm25.serving import agents

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rag_bm25 import BM25Index


def use(asker: Any, script: Callable[[Any], Awaitable[Any]], *, allow_writes: bool = False) -> Any:
    from mcp.client import Client

    async def main() -> Any:
        server = agents.build_mcp_server(asker.served, allow_writes=allow_writes)
        async with Client(server) as client:
            return await script(client)

    return asyncio.run(main())


def assert_protocol_error(asker: Any, script: Callable[[Any], Awaitable[Any]], message: str) -> None:
    from mcp.shared.exceptions import MCPError

    async def within(client: Any) -> None:
        with pytest.raises(MCPError, match=message):  # outside it would be in a group
            await script(client)

    use(asker, within)


def call(asker: Any, tool: str, *, allow_writes: bool = False, **arguments: Any) -> tuple[str, bool]:
    result = use(asker, lambda client: client.call_tool(tool, arguments), allow_writes=allow_writes)
    (content,) = result.content
    return content.text, result.is_error


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search", {}, "error: text is missing"),
        ("search", {"text": "a", "k": 51}, "error: k must be less than or equal to 50, got 51"),
        ("search", {"text": "a", "colour": 1}, "error: colour is no argument"),
        ("search", {"text": "a", "filter": {"$foo": 1}}, "error: "),
        ("explain", {"text": "a", "id": "none"}, "error: no chunk 'none' in the default namespace of the index"),
        ("suggest", {"text": 1}, "error: text must be"),
        ("statistics", {"top": 1000}, "error: top must be"),
        ("document", {}, "error: exactly one of id and source must be given"),
        ("document", {"id": "a", "source": "b"}, "error: exactly one of id and source must be given"),
        ("document", {"id": "none"}, "error: no chunk 'none'"),
        ("add", {"documents": []}, "error: documents must have at least 1 item"),
        ("add", {"documents": [{"text": "\0"}]}, "error: "),
        ("delete", {}, "error: exactly one of ids, source and filter must be given"),
    ],
)
def test_agents_are_told_what_is_wrong(asker: Any, tool: str, arguments: dict[str, Any], message: str) -> None:
    text, is_error = call(asker, tool, allow_writes=True, **arguments)
    assert is_error
    assert text.startswith(message)


def test_a_server_that_only_reads_has_no_tool_that_writes(asker: Any) -> None:
    async def names(client: Any) -> dict[str, Any]:
        return {tool.name: tool.annotations for tool in (await client.list_tools()).tools}

    reading = use(asker, names)
    assert list(reading) == ["search", "explain", "suggest", "statistics", "document"]
    assert all(hints.read_only_hint for hints in reading.values())
    writing = use(asker, names, allow_writes=True)
    assert list(writing) == [*reading, "add", "delete"]
    assert (writing["add"].read_only_hint, writing["delete"].destructive_hint) == (False, True)
    message = "there is no tool 'delete'; there are search, "
    assert_protocol_error(asker, lambda client: client.call_tool("delete", {"ids": ["x"]}), message)


def test_search_is_text_that_says_what_to_do_next(asker: Any, index: BM25Index) -> None:
    (hit,) = index.search("staff", 1)
    text, is_error = call(asker, "search", text="staff", max_text=8)
    assert not is_error
    assert text.splitlines() == [
        "1 chunk for 'staff', best first. Read more around one with document and its id.",
        "",
        f"1. id memo.txt#0, score {hit.score:.3f}",
        'metadata {"source": "memo.txt"}',
        f"A notice [cut: {len(hit.text)} characters]",
    ]
    text, _ = call(asker, "search", text="probation", expand="neighbors")
    assert "thirty days" in text
    text, _ = call(asker, "search", text="zzz")
    assert text == str(index.why_nothing("zzz"))
    assert text.startswith("nothing found: ")
    text, _ = call(asker, "search", text="notice", namespace="tenant")
    assert "1. id x, score" in text
    assert ", namespace 'tenant'" in text


def test_explain_is_what_python_prints(asker: Any, index: BM25Index) -> None:
    text, _ = call(asker, "explain", text="notice", id="memo.txt#0")
    assert text == str(index.explain("notice", "memo.txt#0"))
    text, _ = call(asker, "explain", text="notice", id="memo.txt#0", tree=True)
    assert text == str(index.explain("notice", "memo.txt#0").tree())


def test_statistics_and_suggestions(asker: Any, index: BM25Index) -> None:
    text, _ = call(asker, "statistics", text="notice zzz", top=1)
    idf = index.term_statistics("notice")[0].idf
    assert f"notic: in 2 of 4 chunks, IDF {idf:.3f}" in text
    assert "zzz: in 0 of 4 chunks, IDF 0.000" in text
    assert text.splitlines()[-1].startswith("notic: in 2 of 4")
    assert text.startswith("4 chunks, ")
    assert call(asker, "statistics", all_namespaces=True)[0].startswith("5 chunks, ")
    assert call(asker, "statistics", text="。")[0].endswith("none")
    pytest.importorskip("rapidfuzz")
    assert call(asker, "suggest", text="probetion")[0] == "Did you mean 'probation'?"
    assert "'probation'" in call(asker, "search", text="probetion")[0]
    assert call(asker, "suggest", text="probation")[0] == "There is nothing to correct in 'probation'."


def test_documents_of_a_source_come_in_pages(asker: Any) -> None:
    text, _ = call(asker, "document", source="law.txt", limit=2)
    assert text.startswith("Chunks 1 to 2 of 3 of 'law.txt'. Ask for offset=2 next.")
    text, _ = call(asker, "document", source="law.txt", offset=2)
    assert text.splitlines()[:3] == ["Chunks 3 to 3 of 3 of 'law.txt'.", "", "id law.txt#2"]
    assert (
        call(asker, "document", source="law.txt", offset=3)[0]
        == "No chunk of 'law.txt' after the first 3; there are 3."
    )
    assert call(asker, "document", source="none")[0] == "No chunk of 'none'."


def test_answers_are_bounded(asker: Any, index: BM25Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "MAX_CHARACTERS", 100)
    text, _ = call(asker, "search", text="notice")
    whole = text.split("[cut here: ")[1].split(" ")[0]
    assert len(text.split("\n[cut here")[0]) == 100
    assert int(whole) > 100
    monkeypatch.setattr(agents, "MAX_RESOURCE", 10)
    assert_protocol_error(asker, lambda client: client.read_resource(agents.STATISTICS), "the answer has")


def test_resources_are_figures_and_chunks_as_json(asker: Any) -> None:
    async def read(client: Any) -> list[Any]:
        uris = (agents.STATISTICS, "rag-bm25://documents/law.txt%231", "rag-bm25://documents/x?namespace=tenant")
        return [json.loads((await client.read_resource(uri)).contents[0].text) for uri in uris]

    figures, chunk, other = use(asker, read)
    assert figures["index"]["num_chunks"] == 5
    assert chunk["id"] == "law.txt#1"
    assert (other["id"], other["namespace"]) == ("x", "tenant")


@pytest.mark.parametrize("uri", ["rag-bm25://nothing", "rag-bm25://documents/none", "file:///etc/passwd"])
def test_unknown_resources_are_errors_of_the_protocol(asker: Any, uri: str) -> None:
    assert_protocol_error(asker, lambda client: client.read_resource(uri), "no ")
