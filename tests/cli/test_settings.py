"""Settings of an index on the command line."""

from __future__ import annotations

import pytest
import typer
from support.command_line import run

from rag_bm25 import FieldWeight
from rag_bm25.cli.settings import parse_grid
from rag_bm25.index.settings import SETTINGS

FIELDS = {"title": FieldWeight(chunk_size=6, weight=2), "tags": FieldWeight(chunk_size=6)}

pytestmark = pytest.mark.usefixtures("databases")


def test_a_switch_names_the_words_that_are_taken() -> None:
    result = run("ingest", "x.txt", "--set", "stem=maybe")
    assert result.exit_code == 2
    assert "Invalid value for --set: stem must be True, False or one of arabic, " in result.stderr


def test_an_unknown_setting_is_answered_with_the_known_ones() -> None:
    stderr = " ".join(run("ingest", ".", "--set", "k9=1").stderr.split())
    assert f"Invalid value for --set: a parameter must be one of {', '.join(SETTINGS)}, got 'k9'" in stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k1=0.9", [("k1=0.9", {"k1": 0.9})]),
        ("k1=0.9, b=0.4", [("k1=0.9,b=0.4", {"k1": 0.9, "b": 0.4})]),
        ("idf=lucene,plus", [("idf=lucene", {"idf": "lucene"}), ("idf=plus", {"idf": "plus"})]),
        (
            "length-unit=terms, stem=true,false",
            [
                ("length_unit=terms,stem=true", {"length_unit": "terms", "stem": True}),
                ("length_unit=terms,stem=false", {"length_unit": "terms", "stem": False}),
            ],
        ),
        (
            "k1=0.9,1.2,b=0.4,k1=2",
            [(f"k1={k1},b=0.4", {"k1": float(k1), "b": 0.4}) for k1 in ("0.9", "1.2", "2")],
        ),
        (
            "k1=1,2,fields=none,title:6:2+tags:6",
            [
                ("k1=1,fields=none", {"k1": 1, "fields": {}}),
                ("k1=1,fields=title:6:2+tags:6", {"k1": 1, "fields": FIELDS}),
                ("k1=2,fields=none", {"k1": 2, "fields": {}}),
                ("k1=2,fields=title:6:2+tags:6", {"k1": 2, "fields": FIELDS}),
            ],
        ),
        ("chunk_size=auto,300", [("chunk_size=auto", {"chunk_size": "auto"}), ("chunk_size=300", {"chunk_size": 300})]),
    ],
)
def test_settings_have_several_values(text: str, expected: object) -> None:
    assert parse_grid(text, "--compare") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k1", "must be NAME=VALUE,..., got 'k1'"),
        ("0.9,k1=1", "must be NAME=VALUE,..., got '0.9'"),
        ("k1=,b=1", "must be NAME=VALUE,..., got 'k1='"),
        ("k1=1, ", "must be NAME=VALUE,..., got ' '"),
        ("k2=1", "a parameter must be one of chunk_size, "),
        ("k1=0.9,b", "k1 must be"),
        ("b=0.4,1.5", "b must be "),
    ],
)
def test_what_is_no_combination_is_refused(text: str, message: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        parse_grid(text, "--compare")
    assert caught.value.message.startswith(message)


def test_a_setting_is_given_once() -> None:
    result = run("ingest", ".", "--set", "stem=true", "--set", "stem=false")
    assert (result.exit_code, "Invalid value for --set: 'stem' must be given once" in result.stderr) == (2, True)
