from __future__ import annotations

import json
import sys
from typing import Any

import pytest
import Stemmer

from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.errors import FormatError, MissingExtraError, ParameterError


def test_the_defaults() -> None:
    config = AnalyzerConfig()
    assert (config.segmentation, config.query_segmentation, config.compounds) == ("search", "exact", "identifiers")
    assert (config.simplify, config.stem, config.split_camel_case) == (True, True, "words")
    assert (config.bigrams, config.word_bigrams) == (True, True)
    assert (len(config.stop_words), len(config.question_words), config.user_words) == (33, 123, ())


def test_words_are_stored_sorted_and_once() -> None:
    config = AnalyzerConfig(stop_words=["的", "a", "的"], user_words=["云计算", ("数据湖", 7), ["云计算", None]])
    assert config.stop_words == ("a", "的")
    assert config.user_words == (("云计算", None), ("数据湖", 7))
    assert config == AnalyzerConfig(stop_words=("a", "的"), user_words=(("数据湖", 7), "云计算"))


def test_settings_survive_json() -> None:
    config = AnalyzerConfig("exact", simplify=False, stop_words=["的"], user_words=["云计算", ("数据湖", 7)])
    assert AnalyzerConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_language_survives_json_and_english_is_the_default() -> None:
    config = AnalyzerConfig(stem="german")
    assert AnalyzerConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert AnalyzerConfig(stem="english").to_dict() == AnalyzerConfig().to_dict()


def test_a_language_without_pystemmer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    with pytest.raises(MissingExtraError, match="stemming needs PyStemmer: pip install PyStemmer"):
        AnalyzerConfig(stem="german")
    with pytest.raises(MissingExtraError, match="PyStemmer"):
        Analyzer()("running")


def test_missing_settings_have_their_defaults() -> None:
    assert AnalyzerConfig.from_dict({"stem": False}) == AnalyzerConfig(stem=False)


def test_settings_of_a_newer_version_are_refused() -> None:
    with pytest.raises(FormatError) as caught:
        AnalyzerConfig.from_dict({"stem": True, "lemmas": 1, "accents": 2})
    assert str(caught.value) == "analyzer settings accents, lemmas are not known to this version of rag_bm25"


LANGUAGES = ", ".join(Stemmer.algorithms())
VISIBLE = "words of 1 to 64 visible characters without white space"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"segmentation": "fine"}, "segmentation must be one of search, exact, got 'fine'"),
        ({"query_segmentation": None}, "query_segmentation must be one of search, exact, got None"),
        ({"stem": 1}, f"stem must be True, False or one of {LANGUAGES}, got 1"),
        ({"stem": "klingon"}, f"stem must be True, False or one of {LANGUAGES}, got 'klingon'"),
        ({"stem": ["german"]}, f"stem must be True, False or one of {LANGUAGES}, got ['german']"),
        ({"bigrams": 2}, "bigrams must be True or False, got 2"),
        ({"simplify": "yes"}, "simplify must be True or False, got 'yes'"),
        ({"stop_words": "the"}, "stop_words must be a collection of words, got 'the'"),
        ({"stop_words": None}, "stop_words must be a collection of words, got None"),
        ({"stop_words": [""]}, f"stop_words must be {VISIBLE}, got ''"),
        ({"stop_words": [3]}, f"stop_words must be {VISIBLE}, got 3"),
        ({"stop_words": ["of the"]}, f"stop_words must be {VISIBLE}, got 'of the'"),
        ({"user_words": ["\ud800x"]}, f"user_words must be {VISIBLE}, got '\\ud800x'"),
        ({"user_words": ["x" * 65]}, f"user_words must be {VISIBLE}, got {'x' * 65!r}"),
        ({"user_words": ["++"]}, "user_words must be words with a letter or digit, got '++'"),
        (
            {"user_words": [("a", 1, "n")]},
            "user_words must be words, or pairs of word and frequency, got ('a', 1, 'n')",
        ),
        ({"user_words": [("a", 0)]}, "frequency of a user word must be None or in [1, 2147483647], got 0"),
        ({"user_words": [("a", True)]}, "frequency of a user word must be None or in [1, 2147483647], got True"),
        ({"user_words": ["a", ("a", 2)]}, "user_words must be words with one frequency each, got ['a']"),
    ],
)
def test_a_setting_that_breaks_its_rule_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        AnalyzerConfig(**settings)
    assert str(caught.value) == message
