from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reference import split
from support.strategies import field_names, field_weights

from rag_bm25 import AnalyzerConfig, FieldWeight, IndexConfig, ParameterError
from rag_bm25.index.settings import (
    SETTING_NAMES,
    differing,
    document_side,
    format_fields,
    parse_field,
    parse_setting,
    parse_value,
    query_options,
    with_settings,
)
from rag_bm25.weighting.query import QueryWeighting

BASE = IndexConfig(500)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.5", 1.5), ("-2", -2), ("1e3", 1000), (" lucene ", "lucene"), ("TRUE", True), ("false", False), ("None", None)],
)
def test_values_are_read_as_what_they_look_like(text: str, value: object) -> None:
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)


def test_names_may_have_hyphens_and_values_signs_of_equality() -> None:
    assert parse_setting("bigram-weight= 0.3 ") == ("bigram_weight", "0.3")
    assert parse_setting("k1") == ("k1", "")


@pytest.mark.parametrize("name", ["k2", "analyzer", "stop_words", "dense_dim", ""])
def test_unknown_names_are_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ParameterError, match=r"a parameter must be one of chunk_size, .*k1, .*stem"):
        parse_setting(f"{name}=1")
    with pytest.raises(ParameterError, match="a parameter must be one of"):
        with_settings(BASE, {name: 1})


def test_settings_reach_the_config_and_its_analyzer() -> None:
    changed = with_settings(BASE, {"k1": 0.9, "idf": "lucene", "stem": False})
    assert changed == IndexConfig(500, k1=0.9, idf="lucene", analyzer=AnalyzerConfig(stem=False))
    assert with_settings(BASE, {}) == BASE


def test_a_callable_has_no_settings() -> None:
    with pytest.raises(ParameterError, match="stem must be settings of the built-in analyzer"):
        with_settings(IndexConfig(500, analyzer=split), {"stem": False})


@pytest.mark.parametrize(
    "settings", [{}, {"k1": 0.9}, {"stem": False, "bigrams": False}, {"chunk_size": 7, "k3": 2.0, "idf": "plus"}]
)
def test_what_differs_leads_from_one_config_to_the_other(settings: dict[str, object]) -> None:
    changed = with_settings(BASE, settings)  # type: ignore[arg-type]
    assert differing(BASE, changed) == settings
    assert with_settings(BASE, differing(BASE, changed)) == changed


def test_the_query_side_is_what_a_query_weighting_has() -> None:
    config = with_settings(BASE, {"idf": "lucene", "k3": 2.0, "epsilon": 0.5, "bigram_weight": 0.7})
    assert QueryWeighting(**query_options(config)) == config.query_weighting()  # type: ignore[arg-type]
    assert document_side(config) == document_side(BASE)


@pytest.mark.parametrize(
    "settings",
    [{"k1": 0.9}, {"chunk_size": 400}, {"stem": False}, {"query_segmentation": "search"}, {"field": "title:30"}],
)
def test_the_document_side_is_everything_else(settings: dict[str, object]) -> None:
    assert document_side(with_settings(BASE, settings)) != document_side(BASE)  # type: ignore[arg-type]


def test_every_name_can_be_set_to_its_own_value() -> None:
    analyzer = AnalyzerConfig()
    own = {
        name: getattr(BASE if hasattr(BASE, name) else analyzer, name) for name in SETTING_NAMES if name != "field"
    } | {"field": format_fields(BASE.fields)}
    assert with_settings(BASE, own) == BASE


# Fields


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("标题:30", FieldWeight(chunk_size=30)),
        (" 标题:30:2.5 ", FieldWeight(chunk_size=30, weight=2.5)),
        ("标题:0.5:2:0", FieldWeight(chunk_size=0.5, weight=2, b=0)),
    ],
)
def test_a_field_is_read_with_the_numbers_that_are_there(text: str, weight: FieldWeight) -> None:
    assert parse_field(text) == ("标题", weight)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("title", r"must be NAME:CHUNK_SIZE, .*, got 'title'"),
        (":30", "must be NAME:CHUNK_SIZE, .*, got ':30'"),
        ("title:30:1:0.5:2", "must be NAME:CHUNK_SIZE, "),
        ("title:", r"chunk_size of a field must be a finite number > 0, got ''"),
        ("title:long", r"chunk_size of a field must be a finite number > 0, got 'long'"),
        ("title:30:0", r"weight of a field must be in \[0.001, 1000\], got 0"),
        ("title:30:1:2", r"b of a field must be in \[0, 1\], got 2"),
    ],
)
def test_a_field_that_breaks_a_rule_is_refused(text: str, rule: str) -> None:
    with pytest.raises(ParameterError, match=rule):
        parse_field(text)
    with pytest.raises(ParameterError, match=rule):
        with_settings(BASE, {"field": text})


weights_by_name = st.dictionaries(field_names, field_weights, max_size=3)


@given(weights_by_name, weights_by_name)
def test_fields_are_a_setting_like_others(before: dict[str, FieldWeight], after: dict[str, FieldWeight]) -> None:
    base, other = IndexConfig(500, fields=before), IndexConfig(500, fields=after)
    settings = differing(base, other)
    assert settings == ({} if before == after else {"field": format_fields(after)})
    assert with_settings(base, settings) == other
    assert with_settings(base, {"field": None}).fields == {}
