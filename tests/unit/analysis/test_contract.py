from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

from rag_bm25.analysis import Analyzer, AnalyzerConfig
from rag_bm25.analysis.contract import (
    PROBES,
    AnalyzerContract,
    contract_of,
    differences,
    require_analyzer,
    stored_analyzer,
)
from rag_bm25.analysis.normalization import normalize
from rag_bm25.analysis.numbers import find_numbers
from rag_bm25.errors import ConfigMismatchError, FormatError, ParameterError

AS_CHUNKS = AnalyzerConfig(query_segmentation="search", question_words=(), query_stop_structures=False)


def letters(text: str) -> list[str]:
    return list(text)


def characters(text: str) -> list[str]:
    return list(text)


class Pairs:
    def __call__(self, text: str) -> list[str]:
        return [text[i : i + 2] for i in range(len(text))]


class QueriesApart(Pairs):
    def query(self, text: str) -> list[str]:
        return [text]


def contract(**settings: object) -> AnalyzerContract:
    return contract_of(Analyzer(AnalyzerConfig(**settings)))  # type: ignore[arg-type]


def test_a_contract_survives_json() -> None:
    made = contract(user_words=["云计算", ("数据湖", 7)])
    stored = AnalyzerContract(**json.loads(json.dumps({"settings": made.settings, "probes": made.probes})))
    assert differences(stored, made) == []
    assert stored == made


def test_there_are_probes_for_every_rule_and_every_change_of_the_stemmer() -> None:
    assert len(PROBES) == len(set(PROBES)) == 55
    assert {"added", "internal", "emergency"} < set(PROBES)


def test_the_segmenter_is_no_part_of_the_contract() -> None:
    pytest.importorskip("rjieba")
    assert contract_of(Analyzer(segmenter="jieba")) == contract_of(Analyzer(segmenter="rjieba"))


def test_the_settings_name_the_kind_of_analyzer() -> None:
    assert contract().settings == {"analyzer": "rag_bm25", **AnalyzerConfig().to_dict()}


@pytest.mark.parametrize(
    ("analyzer", "name"),
    [
        (letters, f"{__name__}.letters"),
        (Pairs(), f"{__name__}.Pairs"),
        (str.split, "builtins.str.split"),
        (partial(str.split, sep=" "), "functools.partial"),
    ],
)
def test_a_callable_is_known_by_its_name(analyzer: object, name: str) -> None:
    assert contract_of(analyzer).settings == {"analyzer": "callable", "name": name}  # type: ignore[arg-type]


def test_a_setting_that_differs_is_named_with_both_values() -> None:
    assert differences(contract(), contract(simplify=False))[0] == "simplify: stored True, given False"


def test_tokens_that_differ_are_named_by_their_probe() -> None:
    stored = contract()
    changed = AnalyzerContract(stored.settings, {**stored.probes, "added": "0" * 12})
    assert differences(changed, stored) == ["tokens of 'added' differ"]


def test_query_tokens_are_compared_too() -> None:
    assert len(differences(contract_of(Pairs()), contract_of(QueriesApart()))) == len(PROBES)


def test_of_long_lists_a_few_members_are_shown() -> None:
    stored, given = contract(stop_words=["y", *"abcdefg"]), contract(stop_words=["y", "z"])
    expected = "stop_words: only stored 'a', 'b', 'c', 'd', 'e' and 2 more, only given 'z'"
    assert differences(stored, given)[0] == expected


def test_user_words_are_compared_with_their_frequencies() -> None:
    stored, given = contract(user_words=[("数据湖", 7)]), contract(user_words=[("数据湖", 8)])
    assert differences(stored, given) == ["user_words: only stored '数据湖' 7, only given '数据湖' 8"]


def test_a_name_alone_is_no_difference() -> None:
    assert differences(contract_of(letters), contract_of(characters)) == []


def test_the_built_in_analyzer_and_a_callable_are_a_difference() -> None:
    found = differences(contract_of(Analyzer(AS_CHUNKS).__call__), contract_of(Analyzer(AS_CHUNKS)))
    with_number = [probe for probe in PROBES if find_numbers(normalize(probe))]  # queries have these in place of words
    assert found == ["analyzer: stored 'callable', given 'rag_bm25'", *(f"tokens of {p!r} differ" for p in with_number)]


def test_probes_of_another_version_are_not_compared() -> None:
    stored = contract()
    assert differences(AnalyzerContract(stored.settings, {"an older probe": "0" * 12}), stored) == []


def test_an_analyzer_is_rebuilt_from_its_settings() -> None:
    config = AnalyzerConfig(segmentation="exact", stem=False, stop_words=["的"], user_words=[("数据湖", 7)])  # type: ignore[arg-type]
    settings = json.loads(json.dumps(contract_of(Analyzer(config)).settings))
    assert stored_analyzer(AnalyzerContract(settings, {})) == config


@pytest.mark.parametrize("use", [lambda missing: missing("text"), require_analyzer, contract_of])
def test_a_callable_must_be_passed_again(use: Callable[[object], object]) -> None:
    missing = stored_analyzer(contract_of(letters))
    with pytest.raises(ConfigMismatchError) as caught:
        use(missing)
    message = f"the index was made with the analyzer {__name__}.letters: "
    message += "pass that callable as analyzer, or as preprocess_func; "
    message += "on the command line, name it by --analyzer MODULE:NAME"
    assert str(caught.value) == message


def test_only_a_missing_analyzer_is_refused() -> None:
    require_analyzer(letters)
    require_analyzer(AnalyzerConfig())


@pytest.mark.parametrize("settings", [{}, {"analyzer": "neural"}])
def test_an_unknown_kind_of_analyzer_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(FormatError, match="analyzer must be stored as 'rag_bm25' or 'callable', got"):
        stored_analyzer(AnalyzerContract(dict(settings), {}))


@pytest.mark.parametrize("tokens", ["abc", None, [1], ("a",)])
def test_a_callable_that_returns_no_list_of_tokens_is_refused(tokens: object) -> None:
    with pytest.raises(ParameterError) as caught:
        contract_of(lambda _: tokens)  # type: ignore[arg-type, return-value]
    assert str(caught.value) == f"analyzer must return a list of str, got {tokens!r}"
