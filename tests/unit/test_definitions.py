"""Options as they are defined: what each kind holds, how a shell and JSON write it, and what is said of it."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import is_dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rag_bm25
from rag_bm25 import (
    MMR,
    RSJ,
    Decay,
    Grouping,
    Highlighting,
    IndexConfig,
    InputError,
    NearDuplicates,
    ParameterError,
    QueryExpansion,
    QueryWeighting,
    StorageOptions,
    ValueBoost,
)
from rag_bm25.definitions import Kind, Many, Named, OneOf, Option, Value, check_given, options_of
from rag_bm25.hits.options import SearchOptions
from rag_bm25.index.searching.hybrid import FusionOptions
from rag_bm25.weighting.query import DEFAULT_WEIGHTING

PACKAGE = Path(rag_bm25.__file__).parent
OPTIONS = options_of(SearchOptions)


def item_of(name: str) -> Kind:
    kind = OPTIONS[name].kind
    return kind.item if isinstance(kind, Many) else kind


def value_types(kind: Kind) -> list[type]:
    """List the value types within a kind, and within their fields."""
    if isinstance(kind, Value):
        own = [value_types(option.kind) for option in options_of(kind.cls).values()]
        return [kind.cls, *(one for some in own for one in some)]
    parts = kind.kinds if isinstance(kind, OneOf) else [kind.item] if isinstance(kind, Many | Named) else []
    return [one for part in parts for one in value_types(part)]


EVERY = [SearchOptions, FusionOptions, IndexConfig, StorageOptions]
for options in tuple(EVERY):
    EVERY += [cls for option in options_of(options).values() for cls in value_types(option.kind) if cls not in EVERY]


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_every_option_is_described(cls: type) -> None:
    undescribed = [option.name for option in options_of(cls).values() if len(option.summary) < 9]
    assert undescribed == ([] if "SynonymRule" not in str(cls.__annotations__) else undescribed)


WORDS: list[tuple[str, str, Any]] = [  # option, word of a shell, value
    ("group", "source", Grouping("source")),
    ("group", "source:2:sum", Grouping("source", 2, "sum")),
    ("group", "source,score=sum", Grouping("source", score="sum")),
    ("group", '{"key": "a:b", "size": 3}', Grouping("a:b", 3)),
    ("diversity", "mmr", MMR()),
    ("diversity", "mmr:0.3", MMR(0.3)),
    ("diversity", "near-duplicates:0.8", NearDuplicates(0.8)),
    ("boosts", "decay:date:365", Decay("date", 365)),
    ("boosts", "decay:price:100,origin=500,floor=.2", Decay("price", 100, 500, floor=0.2)),
    ("boosts", "value:kind:law=2,2024=3", ValueBoost("kind", {"law": 2, "2024": 3, 2024: 3})),
    ("feedback", "a#1,fb_terms=5", RSJ(["a#1"], fb_terms=5)),
    ("feedback", "relevant=a#1,relevant=b#2", RSJ(["a#1", "b#2"])),
    ("weighting", "idf=lucene,k3=8", QueryWeighting(idf="lucene", k3=8.0)),
    ("weighting", "k3=none", QueryWeighting(k3=None)),
    ("expansion", "fuzzy", QueryExpansion(fuzzy=True)),
    ("expansion", "fuzzy=true,numerals=false", QueryExpansion(fuzzy=True, numerals=False)),
    ("expansion", '{"synonyms": {"a": ["b"]}}', QueryExpansion({"a": ["b"]})),
    ("statistics", "all", "all"),
    ("statistics", "kind=law,year=2024", {"kind": "law", "year": 2024}),
    ("min_should_match", "75%", "75%"),
    ("min_should_match", "3", 3),
    ("min_score", "1.5", 1.5),
    ("candidates", "30", 30),
    ("highlight", "true", True),
    ("highlight", '{"size": 30}', Highlighting(size=30)),
    ("context", "document", "document"),
    ("search_params", "drop_ratio_search=0.1,rescore=true", {"drop_ratio_search": 0.1, "rescore": True}),
]


MAPPING = "must be a mapping of str to JSON values, as NAME=VALUE,... or as JSON"


@pytest.mark.parametrize(("name", "word", "value"), WORDS, ids=[f"{name} {word}" for name, word, _ in WORDS])
def test_a_shell_and_json_write_the_same_value(name: str, word: str, value: Any) -> None:
    kind = item_of(name)
    plain = kind.parse(word)
    assert json.loads(json.dumps(plain)) == plain
    assert kind.read(name, plain) == value
    assert kind.holds(kind.read(name, value))


@pytest.mark.parametrize(
    ("name", "word", "message"),
    [
        ("group", "source:0", "group.size must be an int in 1..16384, got 0"),
        ("group", "", "group.key is missing"),
        ("group", "source,sizes=2", "group has no 'sizes'; it has key, size, score"),
        ("group", "{", "group must be an object with key, size, score, got '{'"),
        ("group", "source,type=x", "group has no 'type'; it has key, size, score"),
        ("diversity", "mmr:2", "diversity.trade_off must be a number in [0, 1], got 2"),
        ("diversity", "most", "diversity.type must be one of mmr, near_duplicates, got 'most'"),
        ("feedback", "fb_terms=5", "feedback.relevant is missing"),
        (
            "weighting",
            "idf=foo",
            "weighting.idf must be one of epsilon, lucene, zero, plus, tfidf, plain, adpt, got 'foo'",
        ),
        ("weighting", "k3=much", "weighting.k3 must be a number in [0, 1,000,000] or None, got 'much'"),
        ("candidates", "many", "candidates must be an int in 1..16384, got 'many'"),
        ("statistics", "al", "statistics must be one of namespace, all or a mapping of str to JSON values, got 'al'"),
        ("search_params", "rescore", f"search_params {MAPPING}, got 'rescore'"),
        ("search_params", "nprobe>=3", f"search_params {MAPPING}, got 'nprobe>=3'"),
        ("search_params", "nprobe==3", f"search_params {MAPPING}, got 'nprobe==3'"),
        ("context", "page", "context must be one of neighbors, document, got 'page'"),
    ],
)
def test_a_wrong_word_is_refused_with_the_rule(name: str, word: str, message: str) -> None:
    kind = item_of(name)
    with pytest.raises(ParameterError) as caught:
        kind.read(name, kind.parse(word))
    assert str(caught.value) == message


@given(st.text(max_size=30) | st.sampled_from([word for _, word, _ in WORDS]))
@pytest.mark.parametrize("name", [name for name in OPTIONS if OPTIONS[name].kind.is_plain])
def test_any_word_is_a_value_or_refused(name: str, word: str) -> None:
    kind = item_of(name)
    try:
        value = kind.read(name, kind.parse(word))
    except (InputError, ParameterError):
        return
    assert kind.holds(value)


def test_the_schema_has_the_limits_the_words_and_the_defaults() -> None:
    schema = OPTIONS["group"].schema()
    assert schema["required"] == ["key"]
    assert schema["properties"]["size"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 16384,
        "description": "Maximum number of hits of a group, one after the other, best first, in 1..16384.",
        "default": 1,
    }
    tags = [one["properties"]["type"]["const"] for one in OPTIONS["boosts"].schema()["items"]["anyOf"]]
    assert tags == ["decay", "value"], "a function is not JSON"
    json.dumps([option.schema() for option in OPTIONS.values() if option.kind.is_plain])


def test_a_lower_limit_of_a_sequence_is_none_of_its_items() -> None:
    limited = OPTIONS["feedback"].within({"relevant": 2}).kind
    assert limited.read("feedback", {"relevant": ["long#1", "long#2"]}) == RSJ(["long#1", "long#2"])
    with pytest.raises(ParameterError, match=r"feedback\.relevant must be a sequence of at most 2"):
        limited.read("feedback", {"relevant": ["a", "b", "c"]})


def test_every_option_that_is_asked_for_by_name_is_defined() -> None:
    """``options.get("grouping")`` would pass for an option that is never given; type checkers let it through."""
    rooms = [PACKAGE / "hits", PACKAGE / "index" / "searching"]
    texts = [path.read_text(encoding="utf-8") for room in rooms for path in room.rglob("*.py")]
    asked = {name for text in texts for name in re.findall(r'\b(?:options|asked|own)\.get\("(\w+)"', text)}
    assert len(asked) > 10
    assert asked - {"filter"} <= {*OPTIONS, *options_of(FusionOptions)}


def test_what_is_not_given_leaves_what_there_is() -> None:
    assert check_given(SearchOptions, {"group": None, "min_score": 1}) == {"min_score": 1}
    assert QueryWeighting(k3=4).over(DEFAULT_WEIGHTING) == DEFAULT_WEIGHTING
    assert QueryWeighting(k3=None).over(DEFAULT_WEIGHTING).k3 is None
    assert IndexConfig(9).query_weighting() == DEFAULT_WEIGHTING


@pytest.mark.parametrize("copied", [deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_copy_leaves_what_there_is(copied: Callable[[Any], Any]) -> None:
    weighting = copied(QueryWeighting(idf="lucene"))
    assert weighting == QueryWeighting(idf="lucene")
    assert weighting.over(DEFAULT_WEIGHTING).epsilon == DEFAULT_WEIGHTING.epsilon


@pytest.mark.parametrize(
    ("number", "kept"), [(np.float64(0.5), "0.5"), (IntEnum("Level", ["ONE"]).ONE, "1"), (1, "1"), (1.0, "1.0")]
)
def test_a_subclass_of_a_number_is_kept_as_the_number_that_it_is(number: Any, kept: str) -> None:
    assert repr(MMR(number)) == f"MMR(trade_off={kept})"


def test_a_subclass_of_str_is_kept_as_the_text_that_it_holds() -> None:
    class Key(str):
        __slots__ = ()

    assert type(Grouping(Key("source")).key) is str
    assert {type(id_) for id_ in RSJ([Key("a")]).relevant} == {str}


def test_a_form_names_what_a_word_may_have() -> None:
    forms = {name: option.kind.form for name, option in OPTIONS.items()}
    assert forms["group"] == "KEY[:SIZE[:SCORE]]"
    assert forms["diversity"] == "mmr[:TRADE-OFF]|near-duplicates[:COSINE]"
    assert forms["boosts"] == "decay:KEY:SCALE,NAME=VALUE,...|value:KEY:NAME=VALUE,..."
    assert Option("k", item_of("candidates"), "Number, see :class:`~rag_bm25.Hit`. More.").summary == "Number, see Hit."
    assert all(is_dataclass(cls) for cls in EVERY if cls not in (SearchOptions, FusionOptions))
