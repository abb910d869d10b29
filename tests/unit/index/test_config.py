from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from support.reference import split

from rag_bm25.analysis import AnalyzerConfig
from rag_bm25.analysis.contract import contract_of
from rag_bm25.errors import ConfigMismatchError, FormatError, ParameterError
from rag_bm25.index.config import IndexConfig
from rag_bm25.index.stored_config import (
    config_from_dict,
    config_of_former,
    config_to_dict,
    dense_field_of,
    require_same,
)
from rag_bm25.weighting.fields import DEFAULT_FIELDS, FieldWeight


def no_vowels(text: str) -> list[str]:
    return [word.strip("aeiou") for word in text.split()]


CONFIG = IndexConfig(chunk_size=500, analyzer=split)
TITLE = FieldWeight(chunk_size=30, weight=2.0)


def stored(config: IndexConfig = CONFIG) -> dict[str, object]:
    kept = config_to_dict(config, contract_of(config.build_analyzer()))
    return dict(json.loads(json.dumps(kept)))


def test_defaults_are_those_of_the_design() -> None:
    config = IndexConfig(chunk_size=500)
    assert (config.length_unit, config.k1, config.b) == ("estimated_characters", 1.5, 0.75)
    assert (config.idf, config.epsilon, config.k3) == ("epsilon", 0.25, 4.0)
    assert (config.bigram_weight, config.word_bigram_weight, config.latin_weight) == (0.5, 0.15, 2)
    assert config.analyzer == AnalyzerConfig()


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.__setitem__("title", TITLE),
        lambda fields: fields.__delitem__("title"),
        lambda fields: fields.update(tags=TITLE),
        lambda fields: fields.setdefault("tags", TITLE),
        lambda fields: fields.pop("title"),
        lambda fields: fields.popitem(),
        lambda fields: fields.clear(),
        lambda fields: fields.__ior__({"tags": TITLE}),
    ],
)
def test_fields_cannot_be_changed(change: Callable[[Any], object]) -> None:
    given = {"title": TITLE}
    config = IndexConfig(chunk_size=5, fields=given)
    given["tags"] = TITLE
    with pytest.raises(TypeError, match="the fields of a config cannot be changed"):
        change(config.fields)
    assert config.fields == {"title": TITLE}
    assert config.document_weighting().fields == {"title": TITLE}


def test_fields_are_a_dict_in_all_else() -> None:
    config = IndexConfig(chunk_size=5, fields={"title": TITLE})
    assert config == IndexConfig(chunk_size=5, fields=dict(config.fields))
    assert hash(config) == hash(replace(config, fields={}))
    for copied in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config), copy.copy(config), replace(config)):
        assert copied == config
        with pytest.raises(TypeError):
            copied.fields["tags"] = TITLE
    assert json.loads(json.dumps(asdict(config)["fields"])) == {"title": {"chunk_size": 30, "weight": 2.0, "b": 0.75}}
    assert repr(config.fields) == repr({"title": TITLE})


def test_default_fields_are_kept_as_plain_values() -> None:
    config = IndexConfig(chunk_size=5, fields="default")
    assert list(config.fields) == ["title", "headings", "chunk_context"]
    assert config == IndexConfig(chunk_size=5, fields=dict(DEFAULT_FIELDS))
    assert stored(config)["document"]["fields"]["title"] == {"chunk_size": 60, "weight": 1.0, "b": 0.75}
    require_same(stored(config), config)


def test_default_fields_are_none_where_the_weighting_cannot_combine_them() -> None:
    assert IndexConfig(chunk_size=5, fields="default", weighting="sqrt-normalised").fields == {}


def test_equal_numbers_of_another_type_are_no_difference() -> None:
    require_same(stored(), replace(CONFIG, chunk_size=500.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunk_size": 400}, "chunk_size: stored 500, given 400"),
        ({"k1": 1.2}, "k1: stored 1.5, given 1.2"),
        ({"b": 0.5}, "b: stored 0.75, given 0.5"),
        ({"length_unit": "terms"}, "length_unit: stored 'estimated_characters', given 'terms'"),
        ({"weighting": "bm25l"}, "weighting: stored 'bm25', given 'bm25l'; delta: stored None, given 0.5"),
        (
            {"fields": {"title": TITLE}},
            "fields: stored {}, given {'title': {'chunk_size': 30, 'weight': 2.0, 'b': 0.75}}",
        ),
        ({"k1": 1.2, "b": 0.5}, "k1: stored 1.5, given 1.2; b: stored 0.75, given 0.5"),
    ],
)
def test_other_document_side_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigMismatchError) as caught:
        config_from_dict(stored(), replace(CONFIG, **change))
    assert str(caught.value) == f"the index was created with other parameters: {message}"


def test_other_analyzer_is_refused() -> None:
    with pytest.raises(ConfigMismatchError, match="tokens of "):
        config_from_dict(stored(), replace(CONFIG, analyzer=no_vowels))


def test_other_analyzer_settings_are_named() -> None:
    kept = stored(IndexConfig(chunk_size=500))
    given = IndexConfig(chunk_size=500, analyzer=AnalyzerConfig(simplify=False))
    with pytest.raises(ConfigMismatchError, match="simplify: stored True, given False"):
        config_from_dict(kept, given)


def test_stored_config_is_used_where_none_is_given() -> None:
    config = IndexConfig(chunk_size=9, k1=1.25, idf="plus", k3=7, analyzer=AnalyzerConfig(simplify=False))
    assert config_from_dict(stored(config), None) == config


def test_an_index_without_a_stored_k3_counts_repeated_words_linearly() -> None:
    kept = stored(IndexConfig(9))
    del kept["query"]["k3"]
    former = config_of_former(kept)
    assert former is not None
    assert (config_from_dict(kept, None).k3, former[0].k3, IndexConfig(9).k3) == (None, None, 4)


def test_a_callable_that_is_not_given_has_a_stand_in() -> None:
    rebuilt = config_from_dict(stored(), None)
    assert rebuilt == config_from_dict(stored(), rebuilt)
    assert hash(rebuilt) == hash(config_from_dict(stored(), None))
    assert (rebuilt.chunk_size, repr(rebuilt.analyzer)) == (500, "support.reference.split")
    with pytest.raises(ConfigMismatchError, match=r"the analyzer support\.reference\.split: pass that callable"):
        rebuilt.build_analyzer()("text")


def test_the_stand_in_of_another_callable_is_refused() -> None:
    other = config_from_dict(stored(replace(CONFIG, analyzer=no_vowels)), None)
    with pytest.raises(ConfigMismatchError, match="tokens of "):
        config_from_dict(stored(), other)


def test_method_of_a_builtin_type_is_an_analyzer() -> None:
    config = IndexConfig(chunk_size=500, analyzer=str.split)
    assert config_from_dict(stored(config), config) is config


def test_weighting_and_fields_come_back_from_the_stored_config() -> None:
    config = IndexConfig(chunk_size=500, weighting="bm25+", fields={"title": TITLE})
    kept = stored(config)
    rebuilt = config_from_dict(kept, None)
    assert (rebuilt.weighting, rebuilt.delta, rebuilt.fields) == ("bm25+", 1.0, {"title": TITLE})
    require_same(kept, config)


def test_other_delta_is_refused() -> None:
    kept = stored(replace(CONFIG, weighting="bm25+", delta=0.5))
    require_same(kept, replace(CONFIG, weighting="bm25+", delta=0.5))
    with pytest.raises(ConfigMismatchError, match=r"delta: stored 0\.5, given 1\.0"):
        require_same(kept, replace(CONFIG, weighting="bm25+"))


def test_fields_may_be_given_in_any_order() -> None:
    kept = stored(replace(CONFIG, fields={"title": TITLE, "tags": TITLE}))
    require_same(kept, replace(CONFIG, fields={"tags": TITLE, "title": TITLE}))


@pytest.mark.parametrize(
    "damage",
    [
        {"document": None},
        {"query": []},
        {"analyzer": "x"},
        {"analyzer": {"settings": {"analyzer": "rag_bm25"}}},
        {"analyzer": {"settings": {}, "probes": {}}},
        {"document": {"fields": {"title": 1}}},
        {"document": {"fields": []}},
        {"document": {"unknown": 1}},
        {"query": {"self": 1}},
    ],
)
def test_what_is_no_config_is_refused(damage: dict[str, Any]) -> None:
    kept = {**stored(IndexConfig(chunk_size=500)), **damage}
    with pytest.raises(FormatError, match="the stored parameters are damaged: they are not those of an index"):
        config_from_dict(kept, None)


@pytest.mark.parametrize("name", ["self", "chunk_size"])
def test_stored_parameters_that_are_not_of_queries_are_refused_beside_a_config(name: str) -> None:
    kept = stored()
    kept["query"] = {name: 500}
    with pytest.raises(FormatError, match=f"not those of an index: {name} is not of queries"):
        config_from_dict(kept, CONFIG)


def test_the_dense_field_of_what_is_no_config_is_refused() -> None:
    with pytest.raises(FormatError, match="the stored parameters are damaged"):
        dense_field_of({"document": 1})
    with pytest.raises(ParameterError, match="metric must be one of COSINE, IP, got None"):
        dense_field_of({**stored(), "document": {"dense_dim": 8}})
