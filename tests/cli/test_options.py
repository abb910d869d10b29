"""The options of a search on the command line: those of the definition, with the answers of Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.answers import give_model
from support.command_line import Databases, assert_fails, run, run_json

from rag_bm25 import (
    MMR,
    RRF,
    RSJ,
    BM25Index,
    Decay,
    Grouping,
    IndexConfig,
    NearDuplicates,
    Query,
    QueryExpansion,
    QueryWeighting,
    ValueBoost,
    Weighted,
)
from rag_bm25.cli.app import COMMANDS
from rag_bm25.definitions import options_of
from rag_bm25.hits.options import SearchOptions
from rag_bm25.index.searching.hybrid import FusionOptions
from rag_bm25.query.synonyms import Synonyms

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "a": (
        "trial offer of sparse vectors",
        {"date": "2026-01-31", "price": 400, "kind": "law", "source": "x", "chunk": 0},
    ),
    "b": (
        "trial offer of sparse rows",
        {"date": "2020-01-01", "price": 100, "kind": "draft", "source": "x", "chunk": 1},
    ),
    "c": ("trial offer of sparse rows", {"price": 550, "kind": "law", "source": "y", "chunk": 0}),
    "d": ("劳动合同 trial, and a long text about dense rows of numbers", {"source": "z", "chunk": 0}),
    "e": ("vectors", {}),
    "f": ("nothing else", {}),
}
CODE = """
def by_id(query, hits):
    return [ord(hit.id) for hit in hits]

class Model:
    def embed_query(self, text):
        return [1.0, text.count("r")]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]
"""


@pytest.fixture
def index(databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BM25Index:
    """An index with dense vectors, and a folder with a model, a reranker and synonyms."""
    (tmp_path / "my_code.py").write_text(CODE)
    (tmp_path / "synonyms.txt").write_text("quagmire, trial\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_code", raising=False)
    store = databases.store("./rag_bm25.db", "docs")
    index = BM25Index.from_store(store, config=IndexConfig(chunk_size=20, dense_dim=2))
    texts = [text for text, _ in ROWS.values()]
    vectors = [[1.0, text.count("r")] for text in texts]
    index.add(texts, ids=list(ROWS), metadatas=[metadata for _, metadata in ROWS.values()], embeddings=vectors)
    index.add(["sparse matters"], ids=["a"], namespace="n", embeddings=[[1.0, 1.0]])
    give_model(index)
    return index


def by_id(_: str, hits: Any) -> list[float]:
    return [ord(hit.id) for hit in hits]


def words_of(given: object) -> str:
    """Return the words of a case, which name it."""
    return " ".join(given) if isinstance(given, list) else ""


@pytest.mark.parametrize(
    ("command", "definitions"),
    [("search", (SearchOptions, FusionOptions)), ("explain", (SearchOptions,)), ("why", (SearchOptions,))],
)
def test_the_flags_are_those_of_the_definition(command: str, definitions: tuple[type, ...]) -> None:
    flags = {parameter.name: parameter for parameter in COMMANDS[command].load().params}
    for definition in definitions:
        wanted = options_of(definition)
        assert {name: flags[name].help.startswith(one.summary) for name, one in wanted.items()} == dict.fromkeys(
            wanted, True
        )


GIVEN: list[tuple[list[str], dict[str, Any]]] = [
    (["--weighting", "idf=lucene,k3=8"], {"weighting": QueryWeighting(idf="lucene", k3=8)}),
    (["--expansion", "fuzzy"], {"expansion": QueryExpansion(fuzzy=True)}),
    (
        ["--expansion", "numerals=false,synonyms=synonyms.txt"],
        {"expansion": QueryExpansion(numerals=False, synonyms=Synonyms.parse("quagmire, trial"))},
    ),
    (["--feedback", "d"], {"feedback": RSJ(["d"])}),
    (["--feedback", "relevant=d,relevant=a,fb_terms=5"], {"feedback": RSJ(["d", "a"], fb_terms=5)}),
    (["--min-should-match", "100%"], {"min_should_match": "100%"}),
    (["--statistics", "all"], {"statistics": "all"}),
    (["--statistics", '{"kind": "law"}'], {"statistics": {"kind": "law"}}),
    (["--min-score", "0.3"], {"min_score": 0.3}),
    (["--offset", "1"], {"offset": 1}),
    (["--min-confidence", "0.5"], {"min_confidence": 0.5}),
    (
        ["--boost", "decay:price:100:500,shape=linear,floor=.2", "--boost", "value:kind:draft=2,law=0.5"],
        {"boosts": [Decay("price", 100, 500, "linear", floor=0.2), ValueBoost("kind", {"draft": 2, "law": 0.5})]},
    ),
    (
        ["--boost", '{"type": "decay", "key": "date", "scale": 30, "origin": "2026-01-31"}'],
        {"boosts": [Decay("date", 30, origin="2026-01-31")]},
    ),
    (["--boost", "value:price:400=3"], {"boosts": [ValueBoost("price", {400: 3})]}),
    (["--rerank", "my_code:by_id"], {"rerank": by_id}),
    (["--rerank", "my_code:by_id", "--candidates", "2", "-k", "2"], {"rerank": by_id, "candidates": 2, "k": 2}),
    (["--group", "source"], {"group": Grouping("source")}),
    (["--group", "source:2:sum"], {"group": Grouping("source", 2, "sum")}),
    (["--diversity", "mmr:0.3", "-k", "2"], {"diversity": MMR(0.3), "k": 2}),
    (["--diversity", "near-duplicates"], {"diversity": NearDuplicates()}),
    (["--context", "document"], {"context": "document"}),
    (["--highlight"], {"highlight": True}),
    (["--search-params", "rescore=true"], {"search_params": {"rescore": True}}),
]


def test_every_option_is_given() -> None:
    assert {name for _, options in GIVEN for name in options} == {*options_of(SearchOptions), "k"}
    assert {name for _, options in FUSED for name in options} == {*options_of(FusionOptions)}


@pytest.mark.parametrize(("words", "options"), GIVEN, ids=words_of)
def test_options_are_those_of_python(index: BM25Index, words: list[str], options: dict[str, Any]) -> None:
    query = "sparse vectros quagmire" if "expansion" in options else "trial sparse vectors"
    found = run_json("search", query, "--mode", "sparse", *words)
    assert found == [hit.to_dict() for hit in index.search(query, **options)]
    assert found != [hit.to_dict() for hit in index.search(query)] or "search_params" in options
    assert run_json("explain", query, "a", *words) == index.explain(query, "a", **options).to_dict()
    assert run_json("why", query, "b", *words) == index.diagnose(query, "b", **options).to_dict()


CONDITIONS: list[tuple[list[str], Query]] = [
    (["sparse trial", "--must", "vectors"], Query("sparse trial", must=["vectors"])),
    (["sparse trial", "--must-not", "vectors", "--must-not", "dense"], Query("sparse trial", (), ["vectors", "dense"])),
    (["trial", "--phrase", "offer sparse", "--slop", "1"], Query("trial", phrases=["offer sparse"], slop=1)),
    (['trial^2 spar* -rows "sparse vectors"', "--syntax"], Query.parse('trial^2 spar* -rows "sparse vectors"')),
]


@pytest.mark.parametrize(("words", "query"), CONDITIONS, ids=words_of)
def test_conditions_are_those_of_a_query(index: BM25Index, words: list[str], query: Query) -> None:
    found = run_json("search", *words, "--mode", "sparse")
    assert found == [hit.to_dict() for hit in index.search(query)] != []
    assert run_json("why", *words)["num_hits"] == len(found) < len(index.search(words[0]))


FUSED: list[tuple[list[str], dict[str, Any]]] = [
    (["--fusion", "rrf:20"], {"fusion": RRF(20)}),
    (["--fusion", "weighted:0.3:0.7:min-max"], {"fusion": Weighted(0.3, 0.7, "min-max")}),
    (["--sparse-k", "1", "--dense-k", "2"], {"sparse_k": 1, "dense_k": 2}),
    (["--sparse-filter", '{"kind": "law"}'], {"sparse_filter": {"kind": "law"}}),
    (["--dense-filter", '{"kind": "draft"}'], {"dense_filter": {"kind": "draft"}}),
    (["--dense-search-params", "ef=200"], {"dense_search_params": {"ef": 200}}),
]


@pytest.mark.parametrize(("words", "options"), FUSED, ids=words_of)
def test_options_of_a_hybrid_search_are_those_of_python(
    index: BM25Index, words: list[str], options: dict[str, Any]
) -> None:
    query, vector = "sparse rows", [1.0, 2.0]
    found = run_json("search", query, "--embedding", "my_code:Model", *words)
    assert found == [hit.to_dict() for hit in index.search_hybrid(query, vector, **options)]
    plain = [hit.to_dict() for hit in index.search_hybrid(query, vector)]
    assert found != plain or "dense_search_params" in options


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--boost", "date"], "--boost: boost.type must be one of decay, value, got 'date'"),
        (["--boost", "decay:date"], "--boost: boost.scale is missing"),
        (["--boost", "decay:date:9,offset=far"], "--boost: boost.offset must be a finite number >= 0, got 'far'"),
        (["--boost", "decay:date:9,size=3"], "--boost: boost has no 'size'; it has key, scale, "),
        (["--diversity", "near-duplicates:2"], "--diversity: diversity.cosine must be a number in (0, 1], got 2"),
        (["--group", "source:0"], "--group: group.size must be an int in 1..16384, got 0"),
        (["--context", "page"], "--context: context must be one of neighbors, document, got 'page'"),
        (["--min-should-match", "2x"], "--min-should-match: min_should_match must be an int or a str such as"),
        (["--feedback", "fb_terms=5"], "--feedback: feedback.relevant is missing"),
        (["--weighting", "k2=2"], "--weighting: weighting has no 'k2'; it has idf, "),
        (["--weighting", "k1=1,k1=2"], "--weighting: k1 must be given once, got 2 times"),
        (["--weighting", '{"k1": 1, "k1": 2}'], "--weighting: 'k1' must be given once"),
        (["--group", "source:2,size=3"], "--group: 'size' must be given once"),
        (["--filter", '{"year": 1, "year": 2}'], "--filter: 'year' must be given once"),
        (["--filter", "year=1,year=2"], "--filter: 'year' must be given once"),
        (["--statistics", "{bad"], "--statistics: statistics must be one of namespace, all or a mapping"),
        (["--rerank", "by_id"], "--rerank: must be proximity or MODULE:NAME, such as"),
        (["--fusion", "rrf"], "--fusion: only a hybrid search has it"),
        (["--mode", "hybrid"], "--mode: hybrid needs a model: --embedding MODULE:FACTORY"),
        (["--expansion", "fuzy"], "--expansion: expansion has no 'fuzy'; it has "),
        (["--boost", "foo:3"], "--boost: boost.type must be one of decay, value, got 'foo:3'"),
        (["--limit", "3"], "No such option: --limit (Possible options: -k)"),
        (["--group-by", "source"], "No such option: --group-by (Possible options: --group)"),
    ],
    ids=words_of,
)
def test_wrong_options_are_wrong_usage_and_open_nothing(databases: Databases, words: list[str], message: str) -> None:
    result = run("search", "q", *words)
    assert (result.exit_code, result.stdout, databases.opened) == (2, "", [])
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize("words", ["a:b,c", "a=b"])
def test_a_key_may_have_signs_of_the_notation(index: BM25Index, words: str) -> None:
    given = f'{{"type": "decay", "key": "{words}", "scale": 3}}'
    assert f"no hit has {words} in its metadata" in run("search", "trial", "--boost", given).stderr
    if "," not in words:
        assert f"no hit has {words} in" in run("search", "trial", "--boost", f"decay:key={words},scale=3").stderr


def test_keys_that_no_hit_has_are_noted(index: BM25Index) -> None:
    search = ("search", "sparse", "--mode", "sparse")
    misspelt = run(*search, "--group", "sorce", "--boost", "value:knd:law=2", "--boost", "decay:date:30")
    assert misspelt.stderr == "no hit has knd, sorce in its metadata; the keys are chunk, date, kind, price, source\n"
    assert run(*search, "--group", "source", "--boost", "value:kind:law=2").stderr == ""
    assert run("search", "nothing", "--mode", "sparse", "--group", "source").stderr == (
        "no hit has source in its metadata; no hit has any\n"
    )


def test_namespaces_are_searched_together(index: BM25Index) -> None:
    index.add(["sparse matters"], ids=["a"], namespace="m", embeddings=[[1.0, 1.0]])
    both = ("--namespace", "n", "--namespace", "m")
    found = run_json("search", "sparse", "--mode", "sparse", *both, "--explain")
    assert sorted(hit["namespace"] for hit in found) == ["m", "n"]
    assert run_json("explain", "sparse", "a", *both, "--chunk-namespace", "m")["namespace"] == "m"
    assert run_json("why", "sparse", "a", *both, "--chunk-namespace", "m")["namespace"] == "m"
    assert run_json("terms", *both)[0]["num_chunks"] == run_json("stats", *both)["num_chunks"] == 2
    assert run_json("calibrate", *both)["chunks"] == 2
    assert len(run_json("list", "chunks", *both)) == len(run_json("list", "sources", *both)) == 2


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *((command, "--namespace") for command in (("ingest", "x.txt"), ("delete", "a"), ("show", "a"))),
        *((command, "--collection") for command in (("ingest", "x.txt"), ("reindex",), ("drop", "--yes"))),
    ],
)
def test_commands_of_one_refuse_several(databases: Databases, command: tuple[str, ...], option: str) -> None:
    result = run(*command, option, "n", f"{option}=m")
    assert (result.exit_code, databases.opened) == (2, [])
    assert f"{option}: must be given once" in result.stderr


@pytest.mark.usefixtures("databases")
def test_every_option_has_a_variable(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_BM25_COLLECTION", "nope")
    assert_fails(run("search", "law"), "nope")
    assert run("search", "law", "--collection", "docs").exit_code == 0
    monkeypatch.setenv("RAG_BM25_K", "0")
    assert run("search", "law", "--collection", "docs").exit_code == 2


@pytest.mark.usefixtures("databases", "docs")
@pytest.mark.parametrize("command", [("drop",), ("drop-namespace", ""), ("delete", "--source", "docs/law.txt")])
def test_no_variable_confirms_a_deletion(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    before = run_json("list", "sources")
    monkeypatch.setenv("RAG_BM25_YES", "1")
    run(*command)
    assert run_json("list", "sources") == before
