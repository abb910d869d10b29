"""``rag-bm25 evaluate``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.command_line import Databases, assert_fails, run, run_json

from rag_bm25 import StoreError

pytestmark = pytest.mark.usefixtures("databases")


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": "d1", "title": "Apples", "text": "grow"}, {"_id": "d2", "title": "", "text": "pears"}]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "apple"}\n{"_id": "q2", "text": "plums"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n")
    return folder


def test_evaluate_json(beir: Path) -> None:
    result = run_json("evaluate", beir, "--idf", "lucene", "--set", "k3=8,simplify=false")
    assert [result[name] for name in ("ndcg@10", "recall@100", "mrr@10")] == [0.5, 0.5, 0.5]
    assert (result["queries"], result["chunks"], result["chunk_size"]) == (2, 2, 12.0)
    assert result["config"].items() >= {"idf": "lucene", "k1": 1.5, "b": 0.75, "k3": 8.0, "bigram_weight": 0.5}.items()
    words = run_json("evaluate", beir, "--set", "bigrams=false,bigram_weight=0.2")["config"]
    assert (words["analyzer"]["bigrams"], words["bigram_weight"]) == (False, 0.2)
    assert (result["config"]["analyzer"]["simplify"], result["config"]["analyzer"]["stem"]) == (False, True)
    assert result["queries_per_second"] > 0 < result["chunks_per_second"]


def test_evaluate_takes_titles_as_a_field(beir: Path) -> None:
    result = run_json("evaluate", beir, "--field", "title:6:2.0")
    assert result["config"]["fields"] == {"title": {"chunk_size": 6, "weight": 2, "b": 0.75}}
    assert (result["ndcg@10"], result["chunk_size"]) == (0.5, 12.0)
    lines = run("evaluate", beir, "--field", "title:6:2.0").stdout.splitlines()
    assert lines[0].endswith(", chunk size 12.0 estimated characters, fields title:6:2:0.75")


@pytest.mark.parametrize(
    "arguments", [("--field", "tags:6"), ("--chunk-size", "20", "--compare", "fields=title:6+tags:6")]
)
def test_evaluate_says_which_field_there_is(beir: Path, databases: Databases, arguments: tuple[str, ...]) -> None:
    message = "a field must be 'title', the only one in BEIR format, got 'tags'"
    assert_fails(run("evaluate", beir, *arguments), message)
    assert databases.opened == []


def test_evaluate_for_people(beir: Path) -> None:
    lines = run("evaluate", beir).stdout.splitlines()
    used = "set: bm25, idf epsilon, k1 1.5, b 0.75, chunk size 12.0 estimated characters"
    assert lines[0] == f"{used}, fields title:60:1.0:0.75+headings:60:1.0:0.75+chunk_context:240:0.25:0.75"
    assert run("evaluate", beir, "--field", "none").stdout.splitlines()[0] == used
    assert lines[1].split() == ["nDCG@10", "0.5000"]
    for_chunks = run("evaluate", beir, "--weighting", "k1=0.9,length=mean", "--field", "none").stdout.splitlines()[0]
    assert for_chunks == used.replace("k1 1.5, b 0.75", "k1 0.9, b 0.75, length mean")


def test_evaluate_leaves_nothing_on_the_named_server(beir: Path, databases: Databases) -> None:
    run("evaluate", beir, "--uri", "http://host:1", "--token", "key")
    assert [(opened["uri"], opened["token"]) for opened in databases.opened] == [("http://host:1", "key")]
    assert [stored for stored in databases.values() if stored.exist or stored.chunks] == []


def test_evaluate_drops_its_index_where_it_fails(beir: Path, databases: Databases) -> None:
    def fail(method: str) -> None:
        if method == "search":
            raise StoreError("gone")

    databases.on_call = fail
    assert_fails(run("evaluate", beir, "--uri", "http://host:1"), "error: gone\n")
    assert [stored for stored in databases.values() if stored.exist] == []


def test_evaluate_opens_nothing_but_the_named_server(beir: Path, databases: Databases) -> None:
    assert run("evaluate", beir, env={"MILVUS_URI": "http://host:1"}).exit_code == 0
    assert databases.opened == []


def test_evaluate_compares_configurations(beir: Path, databases: Databases) -> None:
    given = ("--idf", "lucene", "--uri", "http://host:1", "--compare", "stem=false", "--compare", "idf=plus,k3=8")
    result = run_json("evaluate", beir, *given)
    first, second = result["compared"]
    assert (result["ndcg@10"], first["ndcg@10"], second["ndcg@10"]) == (0.5, 0.0, 0.5)
    assert (first["compare"], first["config"]["analyzer"]["stem"], first["config"]["idf"]) == (
        "stem=false",
        False,
        "lucene",
    )
    assert (second["config"]["idf"], second["config"]["k3"]) == ("plus", 8)
    test = first["tests"]["ndcg@10"]
    assert (test["difference"], test["p_value"], test["worse"], test["equal"]) == (-0.5, 1.0, 1, 1)
    assert len(databases) == 2  # the query side needs no index of its own


def test_a_k1_of_each_term_is_compared(beir: Path) -> None:
    found = run_json("evaluate", beir, "--compare", "k1=0.9,adpt,idf=lucene,adpt", "--compare", "query_k1=bm25t")
    configs = [each["config"] for each in found["compared"]]
    assert [(one["query_k1"], one["k1"], one["idf"]) for one in configs] == [
        (None, 0.9, "lucene"),
        (None, 0.9, "adpt"),
        ("adpt", 1.5, "lucene"),
        ("adpt", 1.5, "adpt"),
        ("bm25t", 1.5, "epsilon"),
    ]
    lines = run("evaluate", beir, "--set", "query_k1=adpt").stdout.splitlines()
    assert ", idf epsilon, k1 adpt, b 0.75, length mean, " in lines[0]


@pytest.mark.parametrize("compared", ["", ","])
def test_a_configuration_without_a_setting_is_refused(beir: Path, compared: str) -> None:
    result = run("evaluate", beir, "--compare", compared)
    assert (result.exit_code, f"must be NAME=VALUE,..., got {compared!r}" in result.stderr) == (2, True)


def test_compared_configurations_stand_side_by_side(beir: Path) -> None:
    lines = run("evaluate", beir, "--compare", "stem=false").stdout.splitlines()
    assert lines[-3].split()[:4] == ["configuration", "nDCG@10", "Recall@100", "MRR@10"]
    assert lines[-3].split()[4:] == ["difference", "p", "better", "worse"]
    assert lines[-2].split() == ["as", "given", "0.5000", "0.5000", "0.5000"]
    assert lines[-1].split() == ["stem=false", "0.0000", "0.0000", "0.0000", "-0.5000", "1.0000", "0", "1"]


def test_a_set_without_documents_is_said_to_be_for_an_index(beir: Path) -> None:
    (beir / "corpus.jsonl").unlink()
    told = "corpus.jsonl not found; to measure an existing index: --collection NAME, or corpus=False in Python"
    assert_fails(run("evaluate", beir), told)
    (beir / "queries.jsonl").unlink()
    assert run("evaluate", beir, "--collection", "docs").stderr.endswith("queries.jsonl not found\n")


def test_an_automatic_chunk_size_follows_the_length_unit_of_each_configuration(beir: Path) -> None:
    result = run_json("evaluate", beir, "--compare", "length-unit=terms", "--compare", "chunk_size=20")
    assert [one["chunk_size"] for one in (result, *result["compared"])] == [12.0, 1.5, 20]


def test_evaluate_says_that_ingest_takes_another_chunk_size(beir: Path) -> None:
    told = "to measure as `rag-bm25 ingest` would: --chunk-size 500"
    result = run("evaluate", beir)
    assert result.output.index("MRR@10") < result.output.index(f"{told}\n")  # the results first
    assert run_json("evaluate", beir, "--chunk-size", "auto")["chunk_size_note"] == told
    assert run_json("evaluate", beir, "--chunk-size", 500)["chunk_size_note"] is None
    rows = "".join(json.dumps({"_id": f"d{n}", "text": "ten letters"}) + "\n" for n in range(100))
    (beir / "corpus.jsonl").write_text(rows)
    assert f"{told} (the chunk size is 31 times the mean length: the " in run("evaluate", beir).stderr


def test_evaluate_writes_trec_runs(beir: Path, tmp_path: Path) -> None:
    assert run("evaluate", beir, "--run", tmp_path / "one.run").exit_code == 0
    [line] = (tmp_path / "one.run").read_text().splitlines()
    assert line.split()[:4] == ["q1", "Q0", "d1", "1"]
    assert line.split()[5] == "rag_bm25"
    run("evaluate", beir, "--compare", "idf=lucene, k1=0.9", "--run", tmp_path / "two.run")
    assert (tmp_path / "two-1.run").read_text() == (tmp_path / "one.run").read_text()
    assert (tmp_path / "two-2.run").read_text().split()[5] == "idf=lucene,k1=0.9"


def test_a_run_in_no_folder_is_refused_before_the_work(beir: Path, databases: Databases) -> None:
    assert_fails(run("evaluate", beir, "--run", "missing/one.run"), "there is no folder missing to put one.run in")
    assert_fails(run("evaluate", beir, "--run", beir), f"{beir} is a folder: give the name of a file")
    assert databases == {}


MODEL = """
class Model:
    def embed_query(self, text):
        return [1.0, float("plum" in text or "pear" in text)]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

def backwards(query, hits):
    return range(len(hits))
"""
HYBRID = ("--embedding", "evaluated_model:Model")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evaluated_model.py").write_text(MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "evaluated_model", raising=False)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("given", "mrr"),
    [
        (("--mode", "sparse"), 0.5),
        ((), 1.0),
        (("--mode", "dense"), 1.0),
        (("--fusion", "weighted:sparse=0.1,dense=0.9"), 1.0),
        (("--fusion", "weighted:sparse=0.1,dense=0.9", "--dense-k", "1"), 1.0),
        (("--rerank", "evaluated_model:backwards"), 0.5),
    ],
)
def test_evaluate_searches_by_words_by_vectors_or_by_both(beir: Path, given: tuple[str, ...], mrr: float) -> None:
    assert run_json("evaluate", beir, *HYBRID, *given)["mrr@10"] == mrr


@pytest.mark.usefixtures("model")
def test_evaluate_takes_the_options_of_a_search(beir: Path) -> None:
    assert run_json("evaluate", beir, "--min-score", "1000")["recall@100"] == 0.0
    weighted = run_json("evaluate", beir, "--weighting", "idf=lucene", "--compare", "idf=plus")
    assert (weighted["config"]["idf"], weighted["compared"][0]["config"]["idf"]) == ("lucene", "plus")
    assert "hybrid needs a model" in run("evaluate", beir, "--mode", "hybrid").stderr
    assert "only a hybrid search" in run("evaluate", beir, *HYBRID, "--mode", "sparse", "--fusion", "rrf").stderr


def test_evaluate_adds_measures(beir: Path) -> None:
    given = ("--measure", "nDCG@20", "--measure", "AP", "--compare", "stem=false")
    result = run_json("evaluate", beir, *given)
    assert list(result)[:6] == ["ndcg@10", "recall@100", "mrr@10", "nDCG@20", "AP", "queries"]
    assert (result["nDCG@20"], result["AP"], result["compared"][0]["tests"]["AP"]["difference"]) == (0.5, 0.5, -0.5)
    lines = [line.split() for line in run("evaluate", beir, *given).stdout.splitlines()]
    assert lines[1:6] == [[name, "0.5000"] for name in ("nDCG@10", "Recall@100", "MRR@10", "nDCG@20", "AP")]
    assert lines[-3][1:6] == ["nDCG@10", "Recall@100", "MRR@10", "nDCG@20", "AP"]
    assert_fails(run("evaluate", beir, "--measure", "nope"), "a measure must be a name of ir-measures")


def test_evaluate_counts_what_cannot_be_stored(beir: Path) -> None:
    with (beir / "corpus.jsonl").open("a") as corpus:
        corpus.write('{"_id": "", "text": "a"}\n{"_id": "d4", "text": "\\u0000"}\n')
    result = run("evaluate", beir, "--json")
    assert "2 documents are left out, since no index can store them, such as " in result.stderr
    assert "corpus.jsonl line 3: id must not be empty" in result.stderr
    found = json.loads(result.stdout)
    assert (found["chunks"], found["skipped"], found["ndcg@10"]) == (2, 2, 0.5)


@pytest.fixture
def stored(beir: Path, databases: Databases) -> tuple[Path, Databases]:
    """The set, whose corpus is in an index and nowhere else."""
    assert run("ingest", beir / "corpus.jsonl", "--chunk-size", "20", "--uri", "http://host:1").exit_code == 0
    (beir / "corpus.jsonl").unlink()
    return beir, databases


EXISTING = ("--uri", "http://host:1", "--collection", "docs")


def test_evaluate_searches_an_existing_index(stored: tuple[Path, Databases]) -> None:
    beir, databases = stored
    chunks = dict(databases["http://host:1", "docs"].chunks)
    result = run_json("evaluate", beir, *EXISTING, "--compare", "idf=lucene")
    assert (result["ndcg@10"], result["chunks"], result["chunk_size"]) == (0.5, 2, 20)
    assert "chunks_per_second" not in result
    assert result["compared"][0]["config"]["idf"] == "lucene"
    assert (databases["http://host:1", "docs"].chunks, len(databases)) == (chunks, 1)
    assert ["chunks", "2"] in map(str.split, run("evaluate", beir, *EXISTING).stdout.splitlines())
    assert run_json("evaluate", beir, *EXISTING, "--mode", "sparse")["ndcg@10"] == 0.5


def test_an_existing_index_is_compared_by_other_k1_b_and_the_mean_length(stored: tuple[Path, Databases]) -> None:
    given = [*EXISTING, "--compare", "k1=0.9,b=0.4,0", "--compare", "length=mean"]
    compared = run_json("evaluate", stored[0], *given)["compared"]
    assert [(one["config"]["k1"], one["config"]["b"], one["config"]["length"]) for one in compared] == [
        (0.9, 0.4, "chunk_size"),
        (0.9, 0, "chunk_size"),
        (1.5, 0.75, "mean"),
    ]
    assert len(stored[1].opened) == 2  # by `ingest` and by `evaluate`


def test_evaluate_searches_a_namespace_of_an_existing_index(stored: tuple[Path, Databases]) -> None:
    result = run("evaluate", stored[0], *EXISTING, "--namespace", "kim")
    assert result.stdout.splitlines()[1].split() == ["nDCG@10", "0.0000"]
    assert result.stderr.startswith("2 of 2 ids that are judged relevant are not in the index: 'd1', 'd2'. ")
    assert "only an index of --collection has namespaces" in run("evaluate", stored[0], "--namespace", "kim").stderr


@pytest.mark.parametrize(
    "given", [("--chunk-size", "9"), ("--compare", "length_unit=terms"), ("--chunk-size", "auto", "--field", "t:3")]
)
def test_an_existing_index_has_vectors_of_its_own(stored: tuple[Path, Databases], given: tuple[str, ...]) -> None:
    message = "with other settings of the query's side alone"
    assert_fails(run("evaluate", stored[0], *EXISTING, *given), message)


@pytest.mark.parametrize(
    ("judged", "named"),
    [
        ("d7", "'d7'"),
        ("docs/corpus.jsonl", "'docs/corpus.jsonl' (did you mean 'corpus.jsonl'?)"),
        ("corpus.jsonl", "'corpus.jsonl' (a source, whose chunks have ids such as 'd2')"),
        ("x" * 600, f"'{'x' * 199}..."),
        ("d\0", r"'d\x00'"),
    ],
)
def test_evaluate_notes_the_judged_ids_that_are_not_there(
    stored: tuple[Path, Databases], judged: str, named: str
) -> None:
    (stored[0] / "qrels" / "test.tsv").write_text(f"q1\td1\t1\nq1\td9\t0\nq2\t{judged}\t1\n")
    result = run("evaluate", stored[0], *EXISTING)
    rule = "Chunks or their documents must have the ids of the judgements."
    assert result.stderr == f"1 of 2 ids that are judged relevant are not in the index: {named}. {rule}\n"


def test_a_judged_document_is_there_if_a_chunk_of_it_is(stored: tuple[Path, Databases]) -> None:
    (stored[0] / "long.md").write_text("apple " * 20)
    assert run("ingest", stored[0] / "long.md", *EXISTING).exit_code == 0
    (stored[0] / "qrels" / "test.tsv").write_text("q1\tlong.md\t1\n")
    assert run("evaluate", stored[0], *EXISTING).stderr == ""


@pytest.mark.parametrize(("number", "more"), [(10, []), (11, ["and 1 more; --json has all"])])
def test_evaluate_lists_the_queries_without_a_relevant_hit(beir: Path, number: int, more: list[str]) -> None:
    ids = [f"p{at}" for at in range(number)]
    with (beir / "queries.jsonl").open("a") as queries, (beir / "qrels" / "test.tsv").open("a") as qrels:
        queries.writelines(f'{{"_id": "{id_}", "text": "peaches"}}\n' for id_ in [*ids, "none"])
        qrels.writelines([*(f"{id_}\td1\t1\n" for id_ in ids[1:]), "p0\td2\t1\nnone\td2\t0\n"])
    (beir / "qrels" / "test.tsv").write_text((beir / "qrels" / "test.tsv").read_text().replace("q2\td2\t1\n", ""))
    failing = run_json("evaluate", beir)["no_relevant_hit"]
    assert sorted(failing) == sorted(ids)
    lines = run("evaluate", beir).stdout.splitlines()
    at = lines.index(f"{number} queries without a relevant hit:")
    assert lines[at + 1 :] == [*(f"{id_}  peaches" for id_ in failing[:10]), *more]
    saved = beir / "base.json"
    assert run("evaluate", beir, "--save", saved).exit_code == 0
    assert "without a relevant hit" not in run("evaluate", beir, "--baseline", saved).stdout


def test_evaluate_names_an_index_that_does_not_exist(stored: tuple[Path, Databases]) -> None:
    assert_fails(run("evaluate", stored[0], *EXISTING[:3], "other"), "index not found in other (its indexes: docs)")


def test_a_corpus_in_another_language_is_measured_with_its_stems(tmp_path: Path) -> None:
    pytest.importorskip("py3langid", reason="guessing needs rag-bm25[documents]")
    text = "La mairie de la ville a été construite dans les années qui ont suivi la guerre, avec le pont {} de 1893."
    rows = [{"_id": f"d{at}", "title": "", "text": text.format(f"numéro{at}")} for at in range(200)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "quel pont numéro7"}))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td7\t1\n")
    measured = run("evaluate", tmp_path, "--json")
    assert json.loads(measured.stdout)["config"]["idf"] == "lucene"
    assert "French: stem=french,idf=lucene" in measured.stderr
    assert run_json("evaluate", tmp_path, "--set", "stem=true")["config"]["idf"] == "epsilon"
