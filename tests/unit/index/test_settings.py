from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis
import pytest
from support.reference import split
from support.strategies import field_names, field_weights

from rag_bm25 import AnalyzerConfig, FieldWeight, IndexConfig, ParameterError
from rag_bm25.index.settings import SETTINGS, document_side, read_setting, with_settings
from rag_bm25.index.stored_config import differing

BASE = IndexConfig(500)
TITLE, TAGS = {"标题": FieldWeight(chunk_size=30)}, FieldWeight(chunk_size=6)


def test_every_parameter_with_one_value_that_a_score_depends_on_is_a_setting() -> None:
    of_index = set(vars(BASE)) - {"analyzer", "dense_dim", "dense_metric", "expansion", "fusion"}
    of_analyzer = set(vars(AnalyzerConfig())) - {"stop_words", "question_words", "user_words"}
    assert set(SETTINGS) == of_index | of_analyzer


@pytest.mark.parametrize("name", SETTINGS)
def test_the_own_value_of_a_setting_is_read_as_it_is(name: str) -> None:
    own = getattr(BASE if hasattr(BASE, name) else BASE.analyzer, name)
    for given in (own, "none" if own == {} else str(own)):
        assert with_settings(BASE, {name: read_setting(name, given)}) == BASE


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("k1", "1.5", 1.5),
        ("chunk_size", "1e3", 1000),
        ("k3", "None", None),
        ("stem", "FALSE", False),
        ("stem", "german", "german"),
        ("fields", "标题:30", TITLE),
        ("fields", " 标题:30:2.5 ", {"标题": FieldWeight(chunk_size=30, weight=2.5)}),
        ("fields", "标题:0.5:2:0+tags:6", {"标题": FieldWeight(chunk_size=0.5, weight=2, b=0), "tags": TAGS}),
        ("fields", '{"a:b": {"chunk_size": 30, "b": 0}}', {"a:b": FieldWeight(chunk_size=30, b=0)}),
        ("fields", "none", {}),
    ],
)
def test_a_text_is_read_by_the_kind_of_its_setting(name: str, text: str, value: object) -> None:
    found = read_setting(name, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("k2", "1", "a parameter must be one of chunk_size, "),
        ("analyzer", "jieba", "a parameter must be one of chunk_size, "),
        ("stop_words", "a", "a parameter must be one of chunk_size, "),
        ("k1", "-1", "k1 must be a finite number >= 0, got -1"),
        ("idf", "bm42", "idf must be one of epsilon, "),
        ("stem", "klingon", "stem must be True, False or one of arabic, "),
        ("fields", "title", "fields.title.chunk_size is missing"),
        ("fields", ":30", "fields must be a mapping of names to FieldWeight, got {'': "),
        ("fields", "a:30+a:20", "fields must be default or a mapping of names to FieldWeight, got 'a:30+a:20'"),
        ("fields", "title:30:1:0.5:2", "fields.title has no '2'; it has chunk_size, weight, b"),
        ("fields", "title:long", "fields.title.chunk_size must be a finite number > 0, got 'long'"),
        ("fields", "title:30:0", "fields.title.weight must be a number in [0.001, 1,000], got 0"),
    ],
)
def test_a_text_that_breaks_the_rule_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        read_setting(name, text)
    assert str(caught.value).startswith(message)


def test_settings_reach_the_config_and_its_analyzer() -> None:
    changed = with_settings(BASE, {"k1": 0.9, "idf": "lucene", "stem": False, "user_words": ["云计算"]})
    analyzer = AnalyzerConfig(stem=False, user_words=["云计算"])  # type: ignore[arg-type]
    assert changed == IndexConfig(500, k1=0.9, idf="lucene", analyzer=analyzer)
    assert with_settings(BASE, {}) == BASE
    with pytest.raises(ParameterError, match="a parameter must be one of chunk_size, "):
        with_settings(BASE, {"k2": 1})


def test_a_callable_has_no_settings() -> None:
    with pytest.raises(ParameterError, match="stem must be settings of the built-in analyzer, got the analyzer"):
        with_settings(IndexConfig(500, analyzer=split), {"stem": False})


@pytest.mark.parametrize(
    ("settings", "differences"),
    [
        ({}, []),
        ({"delta": None, "weighting": "bm25"}, []),
        ({"k1": 0.9, "idf": "plus"}, ["k1: stored 1.5, given 0.9", "idf: stored 'epsilon', given 'plus'"]),
        ({"stem": False}, ["stem: stored True, given False"]),
        ({"user_words": ["云计算"]}, ["user_words: only given '云计算'"]),
        ({"fields": TITLE}, ["fields: stored {}, given {'标题': {'chunk_size': 30, 'weight': 1.0, 'b': 0.75}}"]),
    ],
)
def test_every_setting_that_differs_is_told(settings: dict[str, Any], differences: list[str]) -> None:
    assert differing(BASE, with_settings(BASE, settings)) == differences


def test_the_document_side_is_all_but_the_query_side() -> None:
    assert document_side(with_settings(BASE, {"idf": "lucene", "k3": 2.0, "bigram_weight": 0.7})) == BASE
    settings = {"k1": 0.9, "chunk_size": 400, "stem": False, "query_segmentation": "search", "fields": TITLE}
    for name, value in settings.items():
        changed = with_settings(BASE, {name: value})
        assert document_side(changed) == changed != BASE


@hypothesis.given(field_names, field_weights)
def test_a_field_is_read_as_it_is_written(name: str, weight: FieldWeight) -> None:
    written = f"{name}:{weight.chunk_size}:{weight.weight}:{weight.b}"
    assert read_setting("fields", written) == replace(BASE, fields={name: weight}).fields
