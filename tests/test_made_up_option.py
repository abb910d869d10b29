"""An option is defined once, and every surface has it: shown with one that is made up.

The package is copied, an option is added to the definition and nowhere else, and a process asks each surface for it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.programs import environment, run_python

import rag_bm25

pytest.importorskip("typer", reason="needs rag-bm25[cli]")
pytest.importorskip("starlette", reason="needs rag-bm25[serve]")
pytest.importorskip("langchain_core", reason="needs rag-bm25[langchain]")

PACKAGE = Path(rag_bm25.__file__).parent
VALUE_TYPE = '''
@dataclass(frozen=True)
class Sparkle:
    """Made up.

    Parameters
    ----------
    glow : float
        Brightness that a hit must have.
    """

    glow: Annotated[float, Between(0, 1)] = 0.5

    def __post_init__(self) -> None:
        check_fields(self)


'''
ADDITIONS = {  # text of the definition -> what comes before it
    "class SearchOptions(TypedDict": VALUE_TYPE,
    "    min_score : float\n": "    sparkle : Sparkle\n        Leave out dull hits. They are told by their glow.\n",
    "    min_score: Annotated": "    sparkle: Sparkle | None\n",
    "from rag_bm25.definitions import": "from dataclasses import dataclass\n"
    "from rag_bm25.definitions import check_fields\n",
}
LOOK = """
import json
from rag_bm25 import BM25Index, IndexConfig
from rag_bm25.cli.app import COMMANDS
from rag_bm25.cli.flags import flags_of, read_flags
from rag_bm25.hits.options import SearchOptions, Sparkle
from rag_bm25.langchain import MilvusBM25Retriever
from rag_bm25.serving import fields, requests

index = BM25Index.open(":memory:", "x", config=IndexConfig(500))
def message(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
commands = {name: COMMANDS[name].load() for name in ("search", "explain")}
words = {"sparkle": commands["search"].make_context("search", ["a", "--sparkle", "0.7"]).params["sparkle"]}
flags = {parameter.name: parameter for parameter in commands["search"].params}
print(json.dumps({
    "python": message(lambda: index.search("a", sparkle=Sparkle(0.7))),
    "explain": message(lambda: index.diagnose("a", sparkle=Sparkle(0.7))),
    "flag": [*flags["sparkle"].opts, flags["sparkle"].help],
    "value of the flag": repr(read_flags(flags_of(SearchOptions), {**dict.fromkeys(flags_of(SearchOptions)), **words})),
    "explain has the flag": "sparkle" in [one.name for one in commands["explain"].params],
    "http": repr(fields.read(requests.Search, {"query": "a", "sparkle": {"glow": 0.7}}).options),
    "get": repr(fields.read_words(requests.Search, {"query": ["a"], "sparkle": ["0.7"]}).options),
    "mcp": fields.schema(requests.AgentSearch)["properties"].get("sparkle"),
    "langchain": repr(MilvusBM25Retriever(index=index, sparkle={"glow": 0.7}).search_kwargs),
    "refused": [message(call) for call in (
        lambda: index.search("a", sparkle=3),
        lambda: Sparkle(3),
        lambda: fields.read(requests.Search, {"query": "a", "sparkle": {"glow": 3}}),
    )],
}))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("made_up")
    shutil.copytree(PACKAGE, folder / "rag_bm25", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "rag_bm25" / "hits" / "options.py"
    text = path.read_text(encoding="utf-8")
    for place, addition in ADDITIONS.items():
        assert text.count(place) == 1, place
        text = text.replace(place, addition + place)
    path.write_text(text, encoding="utf-8")
    ended = run_python(LOOK, env=environment(PYTHONPATH=str(folder)), cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)  # type: ignore[no-any-return]


def test_each_surface_has_it(answers: dict[str, Any]) -> None:
    assert answers["python"] is answers["explain"] is None
    value = "Sparkle(glow=0.7)"
    assert answers["explain has the flag"]
    assert {answers[name] for name in ("value of the flag", "http", "get", "langchain")} == {f"{{'sparkle': {value}}}"}


def test_its_words_and_its_rule_come_along(answers: dict[str, Any]) -> None:
    assert answers["flag"][0] == "--sparkle"
    assert answers["flag"][1].startswith("Leave out dull hits.")
    assert answers["mcp"]["description"] == "Leave out dull hits."
    assert answers["mcp"]["properties"]["glow"] == {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "Brightness that a hit must have.",
        "default": 0.5,
    }
    assert answers["refused"][:2] == [
        "ParameterError: sparkle must be a Sparkle, got 3",
        "ParameterError: glow must be a number in [0, 1], got 3",
    ]
    assert answers["refused"][2].endswith("sparkle.glow must be a number in [0, 1], got 3")
