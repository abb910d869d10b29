"""Every surface of the server takes the options of a search as they are defined."""

from __future__ import annotations

from typing import Any

import pytest

from rag_bm25 import (
    MMR,
    RSJ,
    Decay,
    Grouping,
    Highlighting,
    NearDuplicates,
    ParameterError,
    Query,
    QueryExpansion,
    QueryWeighting,
    ValueBoost,
)
from rag_bm25.definitions import options_of
from rag_bm25.hits.options import SearchOptions
from rag_bm25.query.spelling import Fuzzy
from rag_bm25.serving import fields, requests

EXCEPTIONS = {
    "rerank": {"post", "get", "mcp"},  # JSON has no callables
    "weighting": {"mcp"},  # agents read every word of a schema
    "boosts": {"mcp"},
    "search_params": {"mcp"},
}
SYNONYMS = {"a": ["b", "c"]}

TAKEN = [
    ("weighting", {"idf": "lucene", "k3": 8}, ["idf=lucene,k3=8"], QueryWeighting(idf="lucene", k3=8)),
    ("expansion", {"fuzzy": True}, ["fuzzy"], QueryExpansion(fuzzy=True)),
    ("expansion", {"synonyms": SYNONYMS}, ['{"synonyms": {"a": ["b", "c"]}}'], QueryExpansion(synonyms=SYNONYMS)),
    ("expansion", {"fuzzy": {"max_edits": 1}}, ['{"fuzzy": {"max_edits": 1}}'], QueryExpansion(fuzzy=Fuzzy(1))),
    ("feedback", {"relevant": ["a#1"], "fb_terms": 5}, ["a#1,fb_terms=5"], RSJ(["a#1"], fb_terms=5)),
    ("feedback", {"relevant": ["a", "b"]}, ["relevant=a,relevant=b"], RSJ(["a", "b"])),
    ("min_should_match", 2, ["2"], 2),
    ("min_should_match", "75%", ["75%"], "75%"),
    ("statistics", "all", ["all"], "all"),
    ("statistics", {"kind": "law"}, ["kind=law"], {"kind": "law"}),
    ("min_score", 1.5, ["1.5"], 1.5),
    ("min_confidence", 0.8, ["0.8"], 0.8),
    (
        "boosts",
        [{"type": "decay", "key": "at", "scale": 5.0, "origin": "2026-01-31", "offset": 2.0, "floor": 0.1}],
        ["decay:at:5,origin=2026-01-31,offset=2,floor=.1"],
        [Decay("at", 5, origin="2026-01-31", offset=2, floor=0.1)],
    ),
    (
        "boosts",
        [{"type": "value", "key": "kind", "factors": {"law": 2, "2024": 3}}] * 2,
        ["value:kind:law=2,2024=3"] * 2,
        [ValueBoost("kind", {"law": 2, "2024": 3, 2024: 3})] * 2,
    ),
    ("candidates", 30, ["30"], 30),
    ("offset", 10, ["10"], 10),
    ("group", {"key": "source", "size": 2, "score": "sum"}, ["source:2:sum"], Grouping("source", 2, "sum")),
    ("diversity", {"type": "mmr", "trade_off": 0.3}, ["mmr:0.3"], MMR(0.3)),
    ("diversity", "near_duplicates", ["near-duplicates"], NearDuplicates()),
    ("context", "document", ["document"], "document"),
    ("highlight", True, ["true"], True),
    ("highlight", {"size": 80}, ['{"size": 80}'], Highlighting(size=80)),
    ("search_params", {"rescore": True}, ["rescore=true"], {"rescore": True}),
]


@pytest.mark.parametrize(("name", "plain", "words", "value"), TAKEN)
def test_an_option_is_read_from_json_and_from_a_query_string(
    name: str, plain: Any, words: list[str], value: Any
) -> None:
    assert fields.read(requests.Search, {"query": "a", name: plain}).options == {name: value}
    assert fields.read_words(requests.Search, {"query": ["a"], name: words}).options == {name: value}


def test_the_table_has_every_option_that_json_can_express() -> None:
    assert {name for name, *_ in TAKEN} == {
        name for name, one in options_of(SearchOptions).items() if one.kind.is_plain
    }


def names(surface: str, asker: Any) -> set[str]:
    """Return the names of the arguments of a search, as a surface describes them."""
    if surface == "mcp":
        from rag_bm25.serving.agents import TOOLS

        return set(next(tool for tool in TOOLS if tool.name == "search").listed.input_schema["properties"])
    described = asker.get("/openapi.json").json()
    if surface == "get":
        return {each["name"] for each in described["paths"]["/api/v1/search"]["get"]["parameters"]}
    return set(described["components"]["schemas"]["Search"]["properties"])


@pytest.mark.parametrize("surface", ["post", "get", "mcp"])
def test_a_surface_has_all_options_but_for_named_exceptions(surface: str, asker: Any) -> None:
    missing = options_of(SearchOptions).keys() - names(surface, asker)
    assert missing == {name for name, surfaces in EXCEPTIONS.items() if surface in surfaces}


def test_conditions_belong_to_the_query() -> None:
    conditions: dict[str, Any] = {"must": ["b"], "must_not": ["c d"], "phrases": ["e f"], "slop": 1}
    asked = fields.read(requests.Search, {"query": "a", **conditions})
    assert asked.to_query() == Query("a", **conditions)
    words = {"query": ["a"], "must": ["b"], "must_not": ["c d"], "phrases": ["e f"], "slop": ["1"]}
    assert fields.read_words(requests.Search, words) == asked
    parsed = fields.read(requests.Search, {"query": "+a^2", "syntax": True, "must_not": ["c"]}).to_query()
    assert parsed == Query.parse("+a^2").with_conditions(must_not=["c"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group": {"key": "a", "size": 0}}, "group.size must be an int in 1..16384, got 0"),
        ({"group": {"size": 2}}, "group.key is missing"),
        ({"group": "source"}, "group must be an object with key, size, score, got 'source'"),
        ({"group": {"key": "a", "by": 1}}, "group has no 'by'; it has key, size, score"),
        ({"candidates": 1_001}, "candidates must be an int in 1..1000, got 1001"),
        ({"feedback": {"relevant": [], "fb_terms": 1_001}}, "feedback.fb_terms must be an int in 0..1000, got 1001"),
        ({"feedback": {"relevant": ["a"] * 101}}, "a sequence of at most 100, each a str"),
        ({"feedback": "bm25"}, "feedback must be an object with relevant, fb_terms, min_df, max_df, got 'bm25'"),
        ({"rerank": "a:b"}, "the request has no 'rerank'; it has "),
    ],
    ids=str,
)
def test_a_wrong_option_is_named_with_its_rule_and_its_value(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        fields.read(requests.Search, {"query": "a", **given})
    assert message in str(caught.value)


def test_limits_are_in_the_schema() -> None:
    described = fields.schema(requests.Search)["properties"]
    assert described["candidates"]["maximum"] == 1_000
    assert described["feedback"]["properties"]["fb_terms"]["maximum"] == 1_000


def test_null_is_not_given() -> None:
    assert fields.read(requests.AgentSearch, {"query": "a", "group": None, "max_text": None}) == requests.AgentSearch(
        query="a"
    )


def test_an_unknown_name_of_any_length_has_a_short_message() -> None:
    with pytest.raises(ParameterError) as caught:
        fields.read(requests.Suggest, {"query": "a", "b" * 1_000_000: 1})
    assert len(str(caught.value)) < 1_000
