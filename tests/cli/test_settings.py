"""Settings of an index on the command line."""

from __future__ import annotations

import pytest
import typer
from support.command_line import run, run_json

from rag_bm25 import IndexConfig, ParameterError
from rag_bm25.cli.settings import DESCRIPTIONS, parse_settings
from rag_bm25.evaluation import SETTING_NAMES, with_settings

pytestmark = pytest.mark.usefixtures("databases")


def test_settings_are_listed_with_their_defaults_and_values() -> None:
    listed = {row["name"]: row for row in run_json("settings")}
    assert listed.keys() == DESCRIPTIONS.keys() == set(SETTING_NAMES)
    assert (listed["k1"]["default"], listed["stem"]["default"], listed["chunk_size"]["default"]) == (1.5, True, 500)
    lines = [line.split() for line in run("settings").stdout.splitlines()]
    assert [line[0] for line in lines[1:]] == list(SETTING_NAMES)
    assert ["k3", "none"] in [line[:2] for line in lines]


@pytest.mark.parametrize("name", SETTING_NAMES)
def test_the_listed_values_are_those_that_are_taken(name: str) -> None:
    """The first and the last of several words; of a range, its end, and beyond."""
    values = DESCRIPTIONS[name][0].removesuffix(", or none")
    words = values.replace(" or ", ", ").split(", ")
    known = {"> 0": ["0.1"], ">= 0": ["0"], "0 to 1": ["0", "1"], "NAME:CHUNK_SIZE[:WEIGHT[:B]]": ["title:30:2:0.5"]}
    wrong = {"> 0": "0", ">= 0": "-0.1", "0 to 1": "1.1"}.get(values, "nonsense")
    weighting = {"weighting": "bm25l"} if name == "delta" else {}
    none = ["none"] if "none" in DESCRIPTIONS[name][0] else []
    for value in (*known.get(values, words), *none):
        with_settings(IndexConfig(1), {**weighting, **parse_settings([f"{name}={value}"], "--set")})
    with pytest.raises((ParameterError, typer.BadParameter)):
        with_settings(IndexConfig(1), {**weighting, **parse_settings([f"{name}={wrong}"], "--set")})


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("ingest", "x.txt", "--set", "stem=maybe"), "--set"),
        (("tune", "sets", "--search", "stem=true,maybe"), "--search"),
    ],
)
def test_a_switch_names_the_words_that_are_taken(arguments: tuple[str, ...], option: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert f"Invalid value for {option}: stem must be true or false, got 'maybe'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        (("ingest", ".", "--no-stem"), "--no-stem is a setting now: use --set stem=false"),
        (("ingest", ".", "--bigrams"), "--bigrams is a setting now: use --set bigrams=true"),
        (("ingest", ".", "--weighting", "bm25l"), "--weighting is a setting now: use --set weighting=bm25l"),
        (("evaluate", ".", "--k3=8"), "--k3=8 is a setting now: use --set k3=8"),
        (("adopt", "theirs", "--length-unit"), "--length-unit is a setting now: use --set length_unit=VALUE"),
        (("search", "q", "--bigram-weight", "0"), "--bigram-weight is a setting now: use --set bigram_weight=0"),
        (("tune", ".", "--base", "k1=1"), "--base is now --set: use --set k1=1"),
    ],
)
def test_an_option_that_became_a_setting_names_its_new_form(arguments: tuple[str, ...], form: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert form in result.stderr


def test_an_unknown_setting_is_answered_with_the_known_ones() -> None:
    stderr = " ".join(run("ingest", ".", "--set", "k9=1").stderr.split())
    known = ", ".join(SETTING_NAMES)
    assert f"Invalid value for --set: a parameter must be one of {known}, got 'k9'; `rag-bm25 settings`" in stderr
