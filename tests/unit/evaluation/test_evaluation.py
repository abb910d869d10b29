from __future__ import annotations

import ast
import copy
import gzip
import json
import math
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.answers import make_set
from support.memory_store import MemoryStore

from rag_bm25 import (
    BM25Index,
    FieldWeight,
    Hit,
    HybridHit,
    IndexConfig,
    InputError,
    MissingExtraError,
    ParameterError,
    Progress,
)
from rag_bm25.errors import install_extra
from rag_bm25.evaluation import (
    BeirDataset,
    calibrate_answers,
    evaluate,
    evaluate_each,
    load_beir,
    measure,
    measure_queries,
)
from rag_bm25.evaluation.running import add_corpus, mean_length, search_queries, write_run

CORPUS = [
    {"_id": "d1", "title": "Apples", "text": "grow on trees"},
    {"_id": "d2", "title": "", "text": "pears grow on trees too"},
    {"_id": "d3", "text": "submarines dive"},
]
QUERIES = [{"_id": "q1", "text": "pears"}, {"_id": "q2", "text": "nothing"}, {"_id": "q3", "text": "unjudged"}]
JUDGED = BeirDataset({"a": "b"}, {"q": "b"}, {"q": {"a": 1}})
QRELS = "query-id\tcorpus-id\tscore\nq1\td2\t2\nq1\td1\t0\nq2\td3\t1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "qrels").mkdir()
    for name, rows in (("corpus", CORPUS), ("queries", QUERIES)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "qrels" / "test.tsv").write_text(QRELS)
    return tmp_path


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


# Reading


def test_a_beir_folder_is_read_with_title_and_text_and_judged_queries_only(folder: Path) -> None:
    dataset = load_beir(folder)
    assert dataset == BeirDataset(
        {"d1": "grow on trees", "d2": "pears grow on trees too", "d3": "submarines dive"},
        {"q1": "pears", "q2": "nothing"},
        {"q1": {"d2": 2, "d1": 0}, "q2": {"d3": 1}},
        {"d1": "Apples"},
    )
    assert dataset.corpus == {"d1": "Apples grow on trees", "d2": "pears grow on trees too", "d3": "submarines dive"}


def test_titles_are_a_field_where_an_index_has_it(folder: Path) -> None:
    dataset = load_beir(folder)
    assert (dataset.fields([]), dataset.fields(["headings"])) == ({}, {})
    assert dataset.fields(["title", "headings"]) == {"title": {"d1": "Apples"}}
    with pytest.raises(ParameterError, match=r"a field must be 'title', the only one in BEIR format, got 'tags'"):
        dataset.fields(["title", "tags"])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"_id": "big", "title": "x" * 500, "text": "y" * 65_100}, "text (id 'big') has 65,601 bytes of UTF-8"),
        ({"_id": "d4", "text": "a\0b"}, "text (id 'd4') has a NUL at character 1"),
        ({"_id": "d4", "title": "a", "text": "\ud800"}, "text (id 'd4') has a lone surrogate at character 2"),
        ({"_id": "", "text": "a"}, "id must not be empty"),
        ({"_id": "x" * 513, "text": "a"}, "id has 513 bytes of UTF-8"),
    ],
)
def test_what_no_index_can_store_is_left_out(folder: Path, row: dict[str, str], reason: str) -> None:
    append(folder / "corpus.jsonl", json.dumps(row) + "\n")
    append(folder / "qrels" / "test.tsv", f"q1\t{row['_id']}\t2\n")
    dataset = load_beir(folder)
    assert list(dataset.texts) == ["d1", "d2", "d3"]
    assert len(dataset.skipped) == 1
    assert f"corpus.jsonl line 4: {reason}" in dataset.skipped[0]
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(20, analyzer=str.split))
    assert evaluate(index, dataset).measures.recall_100 == 0.25  # the document is judged relevant still


def test_all_files_may_be_compressed(folder: Path) -> None:
    whole = load_beir(folder)
    for file in (folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels" / "test.tsv"):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert load_beir(folder) == whole


@pytest.mark.parametrize("name", ["corpus.jsonl", "qrels/test.tsv"])
@pytest.mark.parametrize(
    "damage", [lambda data: b"no" + data, lambda data: data[:-9], lambda data: data[:12] + b"\0\7"]
)
def test_a_damaged_compressed_file_is_named(folder: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    (folder / f"{name}.gz").write_bytes(damage(gzip.compress((folder / name).read_bytes())))
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"{name}\.gz: not gzip, or damaged: "):
        load_beir(folder)


@pytest.mark.parametrize("name", ["test.tsv", "test.qrels", "test.txt", "test.txt.gz"])
def test_judgements_may_be_in_the_format_of_trec(folder: Path, name: str) -> None:
    (folder / "qrels" / "test.tsv").unlink()
    lines = b"q1 0 d2   2\nq1\tQ0\td1\t0\r\n\nq2 0 d3 1\n"
    (folder / "qrels" / name).write_bytes(gzip.compress(lines) if name.endswith("gz") else lines)
    assert load_beir(folder).qrels == {"q1": {"d2": 2, "d1": 0}, "q2": {"d3": 1}}


def test_grades_may_have_a_point(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").write_text("q1\td2\t2.0\nq1\td1\t-1.0\nq2 0 d3 1.0\n")
    assert load_beir(folder).qrels == {"q1": {"d2": 2, "d1": -1}, "q2": {"d3": 1}}


def test_a_set_may_be_read_without_its_corpus(folder: Path) -> None:
    (folder / "corpus.jsonl").unlink()
    dataset = load_beir(folder, corpus=False)
    assert (dataset.texts, list(dataset.queries), list(dataset.qrels)) == ({}, ["q1", "q2"], ["q1", "q2"])


def test_a_query_begins_with_its_title(folder: Path) -> None:
    append(folder / "queries.jsonl", '{"_id": "q4", "title": "green", "text": "pears"}\n')
    append(folder / "qrels" / "test.tsv", "q4\td2\t1\n")
    assert load_beir(folder).queries["q4"] == "green pears"


def test_another_split_has_other_judgements(folder: Path) -> None:
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq3\td1\t1\n")
    assert load_beir(folder, "dev").queries == {"q3": "unjudged"}


def test_qrels_are_cut_at_line_feeds_alone(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").write_text("q1\td\u20282\t1\r\nq1\td\x0b3\t0\r\n", newline="")
    assert load_beir(folder).qrels == {"q1": {"d\u20282": 1, "d\x0b3": 0}}


def test_qrels_may_lack_the_header_and_have_a_byte_order_mark(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").write_text("\ufeffq1\td2\t-1\n")
    assert load_beir(folder).qrels == {"q1": {"d2": -1}}


@pytest.mark.parametrize("missing", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_a_missing_file_is_named(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(InputError, match=f"is not a judged set in BEIR format: {missing} not found"):
        load_beir(folder)


@pytest.mark.parametrize(
    ("file", "line", "reason"),
    [
        ("corpus.jsonl", "{bad", "corpus.jsonl line 4: not JSON"),
        ("corpus.jsonl", '{"_id": "d1", "text": ""}', "corpus.jsonl line 4: the id 'd1' already exists"),
        ("queries.jsonl", '{"_id": "q4"}', 'queries.jsonl line 4: a row needs a "text"'),
        ("qrels/test.tsv", "q1\td2", "test.tsv line 5: must be query id, document id and a whole number"),
        ("qrels/test.tsv", "q1\td2\t0.5", "test.tsv line 5: must be query id, document id and a whole number"),
        (
            "qrels/test.tsv",
            "q1 d2 1",
            "a whole number up to 1,000, separated by tabs, or TREC's four columns, got 'q1 d2 1'",
        ),
        ("qrels/test.tsv", "q1 0 d2 0.5", "test.tsv line 5: must be query id, document id and a whole number"),
        (
            "qrels/test.tsv",
            "q1\td2\t1001",
            "test.tsv line 5: must be query id, document id and a whole number up to 1,000",
        ),
        (
            "qrels/test.tsv",
            "q1 0 d2 1e30",
            "test.tsv line 5: must be query id, document id and a whole number up to 1,000",
        ),
        ("qrels/test.tsv", "q1\td2\tinf", "test.tsv line 5: must be query id, document id and a whole number"),
        (
            "qrels/test.tsv",
            "q1\td9\t1\nq1\td9\t1\nq1\td9\t0",
            "line 7: the document 'd9' already has the grade 1 for 'q1'",
        ),
        ("qrels/test.tsv", "q9\td2\t1", "has judgements of the query 'q9', which is not in queries.jsonl"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(folder: Path, file: str, line: str, reason: str) -> None:
    append(folder / file, line + "\n")
    with pytest.raises(InputError) as caught:
        load_beir(folder)
    assert reason in str(caught.value)


def test_a_first_judgement_with_a_fraction_is_no_header(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").write_text("q1\td2\t0.5\nq1\td2\t1\n")
    with pytest.raises(InputError, match="line 1: must be query id"):
        load_beir(folder)


def test_qrels_that_are_not_utf_8_are_refused(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").write_bytes(b"q1\td\xff\t1\n")
    with pytest.raises(InputError, match=r"test\.tsv: not UTF-8 at byte 4 of the file"):
        load_beir(folder)


@pytest.mark.parametrize("file", ["corpus.jsonl", "qrels/test.tsv"])
def test_an_empty_set_is_refused(folder: Path, file: str) -> None:
    (folder / file).write_text("")
    with pytest.raises(InputError, match="nothing to evaluate"):
        load_beir(folder)


# Lengths


def test_mean_length_counts_characters_or_terms() -> None:
    assert mean_length(["ab", "abcd"], "characters", str.split) == 3.0
    assert mean_length(["a b c", "a"], "terms", str.split) == 2.0


def test_mean_length_of_nothing_is_still_a_chunk_size() -> None:
    assert mean_length(["", ""], "characters", str.split) == 1.0


def test_auto_mean_is_the_mean_that_the_index_measures() -> None:
    texts = ["to be or not", "to be"]
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(1, length_unit="terms", analyzer=str.split))
    index.add(texts)
    assert mean_length(texts, "terms", str.split) == index.stats().mean_length


# Measuring


def test_ndcg_has_linear_gain() -> None:
    measured = measure({"q": {"a": 2, "b": 1}}, {"q": ["b", "a"]})
    assert measured.ndcg_10 == pytest.approx((1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3)))


def test_queries_without_hits_count_zero() -> None:
    measured = measure({"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}}, {"q1": ["a"], "q2": []})
    assert measured.to_dict() == pytest.approx({"ndcg@10": 1 / 3, "recall@100": 1 / 3, "mrr@10": 1 / 3})


def test_depths_are_10_and_100() -> None:
    ranking = [f"x{n}" for n in range(100)]
    below_10 = measure({"q": {"x10": 1}}, {"q": ranking})
    assert (below_10.ndcg_10, below_10.mrr_10, below_10.recall_100) == (0.0, 0.0, 1.0)
    assert measure({"q": {"x9": 1}}, {"q": ranking}).mrr_10 == pytest.approx(0.1)
    assert measure({"q": {"x100": 1}}, {"q": [*ranking, "x100"]}).recall_100 == 0.0


def test_the_order_of_hits_counts_however_long() -> None:
    ranking = [f"{n:03}" for n in range(100)]
    assert measure({"q": {"000": 1}}, {"q": ranking}).mrr_10 == 1.0
    assert measure({"q": {"099": 1}}, {"q": ranking[::-1]}).mrr_10 == 1.0


def test_further_measures_have_their_names_in_ir_measures() -> None:
    ranking = [f"x{n}" for n in range(1_000)]
    measured = measure({"q": {"x0": 1, "x10": 1, "x999": 1}}, {"q": ranking}, ["nDCG@20", "R@1000", "nDCG@10", "P@5"])
    assert list(measured.to_dict()) == ["ndcg@10", "recall@100", "mrr@10", "nDCG@20", "R@1000", "nDCG@10", "P@5"]
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    expected = [(1 + 1 / math.log2(12)) / ideal, 1.0, measured.ndcg_10, 0.2]
    assert list(measured.others.values()) == pytest.approx(expected)


@pytest.mark.skipif(shutil.which("perl") is None, reason="this measure is computed by a program in Perl")
def test_gain_may_be_exponential_whatever_the_ids_of_queries() -> None:
    measured = measure({"a question": {"a": 2, "b": 1}}, {"a question": ["b", "a"]}, ["nDCG(dcg='exp-log2')@5"])
    expected = (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))
    assert list(measured.others.values()) == pytest.approx([expected], abs=1e-4)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nope@3", "measure not found: nope"),
        ("alpha_nDCG@10", "Unsupported measures"),
        ("recall", "got 'recall': it needs the parameter cutoff, as in recall@100$"),
        ("P", "got 'P': it needs the parameter cutoff, as in P@100$"),
        ("IPrec", "got 'IPrec': it needs the parameter recall, as in IPrec@0.1$"),
        ("SDCG", "got 'SDCG': it needs the parameter cutoff and max_rel$"),
        ("nDCG@", "invalid syntax"),
        ("nDCG@16385", "got 'nDCG@16385': its cutoff must be an int in 1..16384"),
        ("nDCG@0", "got 'nDCG@0': its cutoff must be an int in 1..16384"),
    ],
)
def test_a_measure_that_cannot_be_computed_is_refused_before_the_work(folder: Path, name: str, reason: str) -> None:
    store = MemoryStore()
    index = BM25Index.from_store(store, config=IndexConfig(20, analyzer=str.split))
    with pytest.raises(ParameterError, match=reason):
        evaluate(index, load_beir(folder), measures=[name])
    assert store.collections.chunks == {}


@pytest.mark.parametrize("name", ["nDCG@5", "P(rel=2)@5", "nDCG(dcg='exp-log2')@20"])
def test_a_measure_is_read_without_classes_that_python_3_14_removes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for removed in ("Num", "Str", "NameConstant"):
        monkeypatch.delitem(vars(ast), removed, raising=False)
    assert list(measure({"q": {"d": 1}}, {"q": ["d"]}, [name]).others) == [name]


@pytest.mark.parametrize(("measures", "depth"), [([], 100), (["P@5", "R@300"], 300), (["AP"], 1_000)])
def test_searches_are_as_deep_as_the_measures(folder: Path, measures: list[str], depth: int) -> None:
    asked: list[int] = []

    def search(index: BM25Index, queries: Sequence[str], k: int, **options: Any) -> list[list[Hit]]:
        asked.append(k)
        return index.search_batch(queries, k, **options)

    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(20, analyzer=str.split))
    assert list(evaluate(index, load_beir(folder), measures=measures, search=search).measures.others) == measures
    assert asked == [depth]


def test_a_hybrid_search_is_evaluated(folder: Path) -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, float("submarines" in text or text == "nothing")] for text in texts]

    def search(index: BM25Index, queries: Sequence[str], k: int, **options: Any) -> list[list[HybridHit]]:
        return [index.search_hybrid(query, embed([query])[0], k, **options) for query in queries]

    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(20, analyzer=str.split, dense_dim=2))
    result = evaluate(index, load_beir(folder), search=search, embeddings=embed)
    assert [next(iter(hits)) for hits in result.run.values()] == ["d2", "d3"]
    assert result.measures.ndcg_10 == 1.0


def test_an_index_that_has_the_corpus_is_evaluated_as_it_is(folder: Path) -> None:
    store, config = MemoryStore(), IndexConfig(20, analyzer=str.split)
    whole = evaluate(BM25Index.from_store(store, config=config), load_beir(folder))
    stored = copy.deepcopy(store.collections.chunks)
    again = evaluate(BM25Index.from_store(store, read_only=True, analyzer=str.split), load_beir(folder, corpus=False))
    assert (again.run, again.measures, again.chunks) == (whole.run, whole.measures, 3)
    assert "chunks_per_second" not in again.to_dict()
    assert store.collections.chunks == stored


@pytest.mark.parametrize(("judged", "ranking"), [(["a", "b"], ["b", "a"]), (["a#0", "b"], ["b#1", "a#0", "b#0"])])
def test_a_document_in_an_index_has_the_place_of_its_best_chunk(judged: list[str], ranking: list[str]) -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(3, analyzer=str.split))
    index.add(["kiwi kiwi", "kiwi", "kiwi plum"], ids=["b#1", "a#0", "b#0"])
    dataset = BeirDataset({}, {"q": "kiwi"}, {"q": dict.fromkeys(judged, 1)})
    assert list(evaluate(index, dataset).run["q"]) == ranking


def test_queries_ask_for_100_hits_in_several_batches() -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(20, analyzer=str.split))
    add_corpus(index, {f"d{n}": "apple" for n in range(101)})
    steps: list[Progress] = []
    run = search_queries(index, {f"q{n}": "apple" for n in range(51)}, steps.append)
    assert {len(hits) for hits in run.values()} == {100}
    assert steps == [Progress("queries", done, 51) for done in (50, 51)]


def test_evaluate_adds_searches_and_measures(folder: Path) -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(20, analyzer=str.split))
    steps: list[Progress] = []
    result = evaluate(index, load_beir(folder), steps.append)
    assert result.measures.to_dict() == {"ndcg@10": 0.5, "recall@100": 0.5, "mrr@10": 0.5}
    assert (result.queries, result.chunks, index.stats().num_chunks) == (2, 3, 3)
    assert steps == [Progress("chunks", 3, 3), Progress("queries", 2, 2)]


def test_a_result_is_one_flat_object_of_numbers(folder: Path) -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(20, analyzer=str.split))
    found = evaluate(index, load_beir(folder)).to_dict()
    keys = "ndcg@10 recall@100 mrr@10 queries chunks queries_per_second chunks_per_second"
    assert list(found) == keys.split()
    assert json.loads(json.dumps(found)) == found


def test_a_missing_extra_is_named_before_anything_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    store = MemoryStore()
    index = BM25Index.from_store(store, config=IndexConfig(20, analyzer=str.split))
    with pytest.raises(MissingExtraError, match=re.escape(install_extra("eval"))):
        evaluate(index, load_beir(folder))
    assert store.collections.chunks == {}


# Query by query


def test_measures_of_each_query_are_in_the_order_of_the_judgements() -> None:
    qrels = {"q2": {"a": 1}, "q1": {"a": 1, "b": 1}, "q3": {"a": 1}}
    found = measure_queries(qrels, {"q1": {"x": 3.0, "a": 2.0}, "q2": {"a": 1.0}, "unjudged": {"a": 1.0}})
    assert found.queries == ["q2", "q1", "q3"]
    assert found.values["recall@100"].tolist() == [1.0, 0.5, 0.0]
    assert found.values["mrr@10"].tolist() == [1.0, 0.5, 0.0]
    assert found.mean() == measure(qrels, {"q1": ["x", "a"], "q2": ["a"]})


@pytest.mark.parametrize("grade", [-1, -2, -(10**30)])
def test_a_negative_grade_is_not_relevant(grade: int) -> None:
    run = {"q1": ["spam", "a"], "q2": ["b"]}
    judged, expected = ({"q1": {"a": 1, "spam": each}, "q2": {"b": 1}} for each in (grade, 0))
    assert measure(judged, run, ["AP", "Bpref"]) == measure(expected, run, ["AP", "Bpref"])


@pytest.mark.parametrize("grade", [1_001, 2**32, 10**22, 1.0, 0.5, "1", None])
def test_a_grade_that_the_evaluator_cannot_count_is_refused(grade: Any) -> None:
    with pytest.raises(InputError, match=r"^a grade must be a whole number up to 1,000, got "):
        measure({"q": {"a": grade}}, {"q": ["a"]})


def test_the_highest_grade_has_a_gain_of_its_own() -> None:
    assert measure({"q": {"a": 1, "b": 1_000}}, {"q": ["b", "a"]}).ndcg_10 == 1.0
    assert measure({"q": {"a": 1, "b": 1_000}}, {"q": ["a", "b"]}).ndcg_10 < 0.7


def test_a_measure_that_fails_with_the_grades_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def iter_calc(_measures: object, judged: dict[str, dict[str, int]], _scored: object) -> list[Any]:
        if max(judged.popitem()[1].values()) > 4:
            raise OSError("perl")
        return []

    monkeypatch.setattr("ir_measures.iter_calc", iter_calc)
    assert measure({"q": {"a": 4}}, {}).ndcg_10 == 0.0
    with pytest.raises(ParameterError, match=r"nDCG@10, R@100, RR@10, ERR@20 cannot be computed of these grades: perl"):
        measure({"q": {"a": 5}}, {}, ["ERR@20"])


def test_a_repeated_document_counts_once_in_its_first_place() -> None:
    qrels = {"q": {"a": 1, "b": 2}}
    assert measure(qrels, {"q": ["a", "c", "a", "a", "b", "a"]}) == measure(qrels, {"q": ["a", "c", "b"]})


def test_measures_of_no_judgements_are_refused() -> None:
    with pytest.raises(InputError, match=r"^no query is judged: nothing to measure$"):
        measure({}, {"q": ["a"]})


@pytest.mark.parametrize(
    ("dataset", "given", "error", "message"),
    [
        (JUDGED, {"measures": None}, ParameterError, "measures must be a list of names of ir-measures, got None"),
        (JUDGED, {"measures": 5}, ParameterError, "measures must be a list of names of ir-measures, got 5"),
        (JUDGED, {"measures": "AP@5"}, ParameterError, "measures must be a list of names of ir-measures, got 'AP@5'"),
        (JUDGED, {"search": 5}, ParameterError, "search must be a callable, such as BM25Index.search_batch, got 5"),
        (JUDGED, {"search": None}, ParameterError, "search must be a callable, such as"),
        (JUDGED, {"progress": 5}, ParameterError, "progress must be a callable or None, got 5"),
        (BeirDataset({"a": "b"}, {}, {}), {}, InputError, "no query is judged"),
        (BeirDataset({"a": "b"}, {"q": "b"}, {"q": {"a": 2**32}}), {}, InputError, "a grade must be a whole number"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_documents_are_added(
    dataset: BeirDataset, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(20, analyzer=str.split))
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        evaluate(index, dataset, **given)
    assert index.stats().num_chunks == 0


# Several configurations


@pytest.fixture
def opened() -> list[BM25Index]:
    return []


@pytest.fixture
def open_index(opened: list[BM25Index]) -> Callable[[IndexConfig], BM25Index]:
    """Opens empty indexes, and notes them in `opened`."""

    def open_index(config: IndexConfig) -> BM25Index:
        opened.append(BM25Index.from_store(MemoryStore(), config=config))
        return opened[-1]

    return open_index


def test_configs_that_differ_on_the_query_side_share_an_index(
    folder: Path, opened: list[BM25Index], open_index: Callable[[IndexConfig], BM25Index]
) -> None:
    base = IndexConfig(20, analyzer=str.split)
    configs = [base, IndexConfig(9, analyzer=str.split), IndexConfig(20, idf="lucene", analyzer=str.split)]
    steps: list[Progress] = []
    results = evaluate_each(configs, load_beir(folder), open_index, steps.append)
    assert len(opened) == 2
    told = [("chunks", 3), ("queries", 2), ("queries", 4), ("chunks", 6), ("queries", 6)]
    assert steps == [Progress(what, done, 6) for what, done in told]
    alone = [evaluate(BM25Index.from_store(MemoryStore(), config=config), load_beir(folder)).run for config in configs]
    assert [result.run for result in results] == alone
    assert len({json.dumps(run) for run in alone}) == 3


@pytest.mark.parametrize(("stored", "num_indexes"), [({}, 1), ({"k1": 0.0}, 2)])
def test_configs_that_differ_in_k1_and_b_share_an_index_unless_weights_tell_no_frequency(
    folder: Path,
    opened: list[BM25Index],
    open_index: Callable[[IndexConfig], BM25Index],
    stored: dict[str, Any],
    num_indexes: int,
) -> None:
    base = IndexConfig(20, analyzer=str.split, **stored)
    configs = [base, replace(base, k1=0.9), replace(base, k1=0.9, b=0.1, length="mean")]
    results = evaluate_each(configs, load_beir(folder), open_index)
    assert len(opened) == num_indexes
    alone = [evaluate(BM25Index.from_store(MemoryStore(), config=config), load_beir(folder)).run for config in configs]
    assert [result.run for result in results] == alone
    assert len({json.dumps(run) for run in alone}) > 1


def test_titles_go_into_the_metadata_of_an_index_that_has_the_field(folder: Path) -> None:
    fields = {"title": FieldWeight(chunk_size=5, weight=2)}
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(20, analyzer=str.split, fields=fields))
    evaluate(index, load_beir(folder))
    assert {chunk.id: (chunk.text, chunk.metadata) for chunk in index.chunks()} == {
        "d1": ("Apples grow on trees", {"title": "Apples"}),
        "d2": ("pears grow on trees too", {}),
        "d3": ("submarines dive", {}),
    }
    assert [hit.id for hit in index.search("Apples")] == ["d1"]


def test_configs_with_other_fields_have_indexes_of_their_own(
    folder: Path, opened: list[BM25Index], open_index: Callable[[IndexConfig], BM25Index]
) -> None:
    fields = {"title": FieldWeight(chunk_size=5)}
    configs = [IndexConfig(20), IndexConfig(20, fields=fields), IndexConfig(20, idf="zero")]
    evaluate_each(configs, load_beir(folder), open_index)
    assert len(opened) == 2


# TREC runs


def test_a_run_is_written_in_the_form_of_trec(tmp_path: Path) -> None:
    write_run(tmp_path / "bm25.run", {"q1": {"文档": 2.5, "b": 0.1}, "q2": {}, "q3": {"a": 1.0}}, "k1=0.9")
    assert (tmp_path / "bm25.run").read_text(encoding="utf-8").splitlines() == [
        "q1 Q0 文档 1 2.5 k1=0.9",
        "q1 Q0 b 2 0.1 k1=0.9",
        "q3 Q0 a 1 1.0 k1=0.9",
    ]


def test_tools_that_order_by_score_see_our_ranking(tmp_path: Path) -> None:
    import ir_measures

    qrels = {"q": {"c": 1}}
    run = {"q": {"a": 1.5, "z": 1.5, "c": 1.5, "d": 0.2}}  # trec_eval puts equal scores in falling order of the ids
    write_run(tmp_path / "bm25.run", run, "bm25")
    read = list(ir_measures.read_trec_run(str(tmp_path / "bm25.run")))
    assert [one.doc_id for one in sorted(read, key=lambda one: -one.score)] == list(run["q"])
    found = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, read)
    assert found[ir_measures.nDCG @ 10] == pytest.approx(measure(qrels, run).ndcg_10)


@pytest.mark.parametrize(
    ("run", "tag"),
    [({"q 1": {"a": 1.0}}, "t"), ({"q": {"a\tb": 1.0}}, "t"), ({"q": {"": 1.0}}, "t"), ({}, "two words")],
)
def test_a_run_cannot_hold_names_with_white_space(tmp_path: Path, run: dict[str, dict[str, float]], tag: str) -> None:
    with pytest.raises(InputError, match="names in a TREC run must not be empty or have white space, got"):
        write_run(tmp_path / "bm25.run", run, tag)
    assert list(tmp_path.iterdir()) == []


def test_a_run_cannot_hold_what_utf_8_cannot(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names in a TREC run must be encodable as UTF-8, got"):
        write_run(tmp_path / "bm25.run", {"q": {"a": 1.0, "\ud800": 0.5}}, "bm25")
    assert list(tmp_path.iterdir()) == []


# The confidence that a hit answers


@pytest.mark.parametrize("name", ["{}", "{}#0"])
def test_answers_are_calibrated_by_judgements_of_chunks_or_of_their_documents(name: str) -> None:
    chunks, judged = make_set()
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(4, analyzer=str.split))
    index.add(list(chunks.values()), ids=[f"{id_}#0" for id_ in chunks])
    queries = {f"q{at}": text for at, text in enumerate(judged)}
    qrels = {query: {name.format(id_): 1 for id_ in judged[text]} | {"other": 0} for query, text in queries.items()}
    found = calibrate_answers(index, BeirDataset({}, queries, qrels))
    expected = index.calibrate_answers(list(judged), lambda query, hit: hit.id[:-2] in judged[str(query)])
    assert found.to_dict() == expected.to_dict()
    assert found.answered > 0.5
