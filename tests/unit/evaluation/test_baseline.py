"""Baselines, and the reasons of what is worse than in one, on made cases."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.indexes import CONFIG, filled
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig, InputError
from rag_bm25.evaluation import BeirDataset, evaluate
from rag_bm25.evaluation.baseline import Baseline, RecordedHit, RecordedQuery, RunRecorder
from rag_bm25.evaluation.changes import ALPHA, Fall, compare

LUCENE = replace(CONFIG, idf="lucene")
SET = BeirDataset({}, {"q": "apple fig"}, {"q": {"d": 1, "e": 0}})
TEXTS = {"d": "apple fig", "e": "apple plum plum", "f": "plum pear"}


def baseline(index: BM25Index, earlier: Baseline | None = None, dataset: BeirDataset = SET) -> Baseline:
    recorder = RunRecorder(dataset, "", {}, earlier=earlier.queries if earlier else {})
    evaluate(index, dataset, inspect=recorder.record)
    return Baseline.of(dataset, {"k1": index.config.k1, "rerank": baseline}, recorder.queries)


def fall(changed: dict[str, str | None], texts: dict[str, str] = TEXTS, dataset: BeirDataset = SET) -> Fall:
    """Return how the one relevant document falls where chunks are changed, added and (None) deleted."""
    with filled(texts, LUCENE) as index:
        before = baseline(index, dataset=dataset)
        new = {id_: text for id_, text in changed.items() if text is not None}
        if new:
            index.add(list(new.values()), ids=list(new))
        index.delete([id_ for id_, text in changed.items() if text is None] or ["none"])
        changes = compare(before, baseline(index, before, dataset))
    [query] = changes.worse
    [found] = query.falls
    return found


@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, query_k1=0.4, length="mean")], ids=["stored", "reweighed"])
def test_what_is_recorded_is_what_the_search_gave(config: IndexConfig) -> None:
    with filled(TEXTS, config) as index:
        query = baseline(index).queries["q"]
        hits = index.search("apple fig")
        explained = {hit.id: index.explain("apple fig", hit.id) for hit in hits}
    assert query.first_hits == [hit.id for hit in hits] == ["d", "e"]
    assert (query.num_chunks, query.df) == (3, {"'apple'": 2, "'fig'": 1})
    for hit in hits:
        recorded = query.hits[hit.id]
        assert (recorded.rank, recorded.chunk) == (hits.index(hit) + 1, hit.id)
        terms = {f"'{term.term}'": term for term in explained[hit.id].terms if term.weight}
        assert recorded.score == pytest.approx(hit.score, rel=1e-6)
        assert recorded.weights == pytest.approx({name: term.weight for name, term in terms.items()}, rel=1e-6)
        assert {name: query.weights[name] for name in terms} == pytest.approx(
            {name: term.query_weight for name, term in terms.items()}, rel=1e-6
        )


def test_a_chunk_that_was_replaced_names_the_term_that_it_lost() -> None:
    found = fall({"d": "fig plum plum plum plum plum"}, TEXTS | {"g": "fig pear"})
    assert (found.id, found.before, found.after, found.displaced_by) == ("d", 1, 3, "e")
    assert found.reasons[0].startswith("'apple' is not in the chunk any more: it gave ")
    assert any(reason.startswith("'fig' has the weight 0.52 -> ") for reason in found.reasons)


def test_a_chunk_that_was_deleted_is_named() -> None:
    found = fall({"d": None})
    assert (found.before, found.after, found.displaced_by) == (1, None, "e")
    assert found.reasons == ["the chunk 'd' is not in the index any more"]


def test_a_new_chunk_names_the_terms_that_it_has() -> None:
    found = fall({"new": "apple apple fig fig"}, TEXTS | {"d": "apple fig plum plum"})
    assert (found.before, found.after, found.displaced_by) == (1, 2, "new")
    assert {reason.split(" gives ")[0] for reason in found.reasons if " gives " in reason} == {"'apple'", "'fig'"}
    assert all(" to new, " in reason for reason in found.reasons if " gives " in reason)


def test_a_df_that_moved_is_named_with_both_numbers() -> None:
    """Neither of the two chunks has changed: only how rare `fig` is."""
    texts = {"d": "fig pear", "e": "apple plum"} | {f"n{at}": "pear plum" for at in range(20)}
    found = fall({f"f{at}": "fig kiwi kiwi kiwi kiwi kiwi" for at in range(8)}, texts)
    assert (found.before, found.after, found.displaced_by) == (1, 2, "e")
    assert found.reasons[0].startswith("'fig' has df 1 of 22 -> 9 of 30, query weight ")


def test_a_weight_that_moved_without_its_df_is_named_alone() -> None:
    """As with another idf or k3."""
    d, e = RecordedHit(1, 1.0, 1, "d", {"fig": 0.2}), RecordedHit(2, 1.0, 0, "e", {"fig": 0.5})
    before = RecordedQuery("fig", {"m": 1.0}, 3, {"fig": 1}, {"fig": 1.0}, {"d": d, "e": e})
    swapped = {"e": replace(e, rank=1), "d": replace(d, rank=2)}
    after = replace(before, measures={"m": 0.5}, weights={"fig": 2.0}, hits=swapped)
    [found] = compare(*(Baseline("", {}, {"q": query}) for query in (before, after))).worse[0].falls
    assert found.reasons == ["fig has the query weight 1.00 -> 2.00"]


def test_a_chunk_above_that_has_changed_is_named() -> None:
    found = fall({"e": "apple fig"}, {"d": "apple fig pear", "e": "apple pear pear", "f": "kiwi"})
    assert (found.displaced_by, found.reasons[0]) == ("e", "'fig' has the weight 0.00 -> 0.52 in e")


def test_other_terms_of_the_query_are_named() -> None:
    words = {"apple": 1, "fig": 2}
    hit = {"d": RecordedHit(1, 2.0, 1, "d", {"apple": 0.5, "fig": 0.5})}
    before = RecordedQuery("apple fig", {"m": 1.0}, 3, words, {"apple": 2.0, "fig": 2.0}, hit)
    other = RecordedHit(1, 3.0, 0, "e", {"figs": 1.0})
    hits = {"e": other, "d": RecordedHit(2, 1.0, 1, "d", {"apple": 0.5})}
    after = RecordedQuery("apple fig", {"m": 0.5}, 3, {"apple": 1, "figs": 1}, {"apple": 2.0, "figs": 3.0}, hits)
    runs = [Baseline("", {}, {"q": query}) for query in (before, after)]
    [found] = compare(*runs).worse[0].falls
    assert found.reasons == [
        "figs gives 3.00 to e, 0.00 to this one",
        "fig is not in the query any more: it gave 1.00",
    ]


def runs_of(differences: list[float]) -> tuple[Baseline, Baseline]:
    first, second = (
        {str(at): RecordedQuery("", {"m": 0.5 + by * one}, 1, {}, {}, {}) for at, one in enumerate(differences)}
        for by in (0, 1)
    )
    return Baseline("", {}, first), Baseline("", {}, second)


@given(st.lists(st.sampled_from([-0.4, -0.3, -0.1, 0.0, 0.2]), min_size=1, max_size=9))
def test_worse_is_what_a_test_over_all_signs_says(differences: list[float]) -> None:
    observed = sum(differences)
    sums = [
        sum(sign * one for sign, one in zip(signs, differences, strict=True))
        for signs in product((-1, 1), repeat=len(differences))
    ]
    share = sum(abs(one) >= abs(observed) - 1e-9 for one in sums) / len(sums)
    found = compare(*runs_of(differences)).measures["m"]
    assert found.is_worse == (observed < -1e-9 and share < ALPHA)
    assert found.test.p_value == pytest.approx(share)


def test_five_queries_are_too_few_and_six_are_enough() -> None:
    assert [compare(*runs_of([-0.1] * count)).measures["m"].is_worse for count in (5, 6)] == [False, True]


def test_queries_are_sorted_by_what_has_changed() -> None:
    before, after = runs_of([0.0, -0.1, 0.2, -0.4])
    changes = compare(before, after)
    assert [query.id for query in changes.worse] == ["3", "1"]
    assert [query.id for query in changes.better] == ["2"]
    assert (changes.reordered, changes.num_queries) == ([], 4)


def test_a_file_is_read_as_it_was_written_and_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one.json", "two.json"):
        with filled(TEXTS) as index:
            run = baseline(index)
        run.write(tmp_path / name)
    assert Baseline.read(tmp_path / "one.json") == run
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert json.loads((tmp_path / "one.json").read_text())["settings"] == {"k1": 1.5, "rerank": "baseline"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json", "two.json"]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(TEXTS) as index:
        run = baseline(index)
    run.write(tmp_path / "one.json")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", "one.json.part")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_text", fail)
        with pytest.raises(OSError, match="No space") as raised:
            Baseline(run.judgements, {}, run.queries).write(tmp_path / "one.json")
    assert raised.value.filename == str(tmp_path / "one.json")
    assert Baseline.read(tmp_path / "one.json") == run


MUCH = 10**400
QUERY, MEASURES = ("queries", "q"), ("queries", "q", "measures")
HIT = ("queries", "q", "hits", "d")
DAMAGED = [
    ((), [], "its format is None, and this version reads 1"),
    (("rag_bm25 baseline",), 99, "its format is 99, and this version reads 1"),
    (("more",), 1, "the file must have the keys judgements, settings, queries"),
    (("judgements",), None, "judgements must be a text"),
    (("settings",), None, "settings must be an object"),
    (("queries",), {}, "queries must be an object with a query"),
    (("queries",), [1], "queries must be an object with a query"),
    (QUERY, {"text": "fig"}, "query 'q' must have the keys text, measures, num_chunks, df, weights, hits"),
    ((*QUERY, "text"), 1, "query 'q': text must be a text"),
    (MEASURES, None, "query 'q': measures must be an object of numbers"),
    (MEASURES, {}, "query 'q' must have the same measures as every query, ndcg@10, recall@100, mrr@10 among them"),
    ((*MEASURES, "ndcg@10"), -7, "query 'q': measures: ndcg@10 must be a number in 0..1, got -7"),
    ((*MEASURES, "ndcg@10"), 1.5, "query 'q': measures: ndcg@10 must be a number in 0..1, got 1.5"),
    ((*MEASURES, "ndcg@10"), "much", "query 'q': measures: ndcg@10 must be a number in 0..1, got 'much'"),
    ((*MEASURES, "NumRet"), math.inf, "query 'q': measures: NumRet must be a finite number, got inf"),
    ((*QUERY, "num_chunks"), math.nan, "query 'q': num_chunks must be a finite number, got nan"),
    ((*QUERY, "df"), {}, "query 'q': df and weights must be of the same terms"),
    ((*QUERY, "weights", "'fig'"), MUCH, "query 'q': weights: 'fig' must be a finite number, got 1000"),
    ((*QUERY, "hits"), [], "query 'q': hits must be an object"),
    (HIT, {}, "query 'q': hit 'd' must have the keys rank, score, grade, chunk, weights"),
    ((*HIT, "rank"), 0, "query 'q': hit 'd': rank must be > 0 or null"),
    ((*HIT, "score"), None, "query 'q': hit 'd': score must be a finite number, got None"),
    ((*HIT, "grade"), True, "query 'q': hit 'd': grade must be a finite number, got True"),
    ((*HIT, "chunk"), 7, "query 'q': hit 'd': chunk must be a text"),
    ((*HIT, "weights"), 7, "query 'q': hit 'd': weights must be an object of numbers"),
]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with filled(TEXTS) as index:
        baseline(index).write(tmp_path / "one.json")
    return tmp_path / "one.json"


def change(plain: Any, path: tuple[str, ...], value: Any) -> Any:
    """Return a JSON value with another one in a place."""
    return {**plain, path[0]: change(plain.get(path[0]), path[1:], value)} if path else value


@pytest.mark.parametrize(("path", "value", "rule"), DAMAGED, ids=[".".join(path) or "file" for path, *_ in DAMAGED])
def test_a_file_that_is_damaged_is_named_with_the_place_and_the_rule(
    written: Path, path: tuple[str, ...], value: Any, rule: str
) -> None:
    written.write_text(json.dumps(change(json.loads(written.read_text()), path, value)))
    with pytest.raises(InputError) as raised:
        Baseline.read(written)
    prefix = f"{written} is not a file of `rag-bm25 evaluate --save`, or is damaged: "
    assert str(raised.value).startswith(f"{prefix}{rule}")


def test_every_query_has_the_same_measures(written: Path) -> None:
    plain = json.loads(written.read_text())
    query = plain["queries"]["q"]
    plain["queries"]["r"] = {**query, "measures": {**query["measures"], "NumRet": 7.0}}
    written.write_text(json.dumps(plain))
    with pytest.raises(InputError, match="query 'r' must have the same measures as every query"):
        Baseline.read(written)


def test_a_file_that_is_cut_short_is_named(written: Path) -> None:
    written.write_text(written.read_text()[:400])
    with pytest.raises(InputError, match=r"one.json is not a file of `rag-bm25 evaluate --save`, or is damaged"):
        Baseline.read(written)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(b"\xff\x00")
    with pytest.raises(InputError, match=r"one.json is not a file"):
        Baseline.read(tmp_path / "one.json")


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (BeirDataset({}, {"q": "apple"}, SET.qrels), "of other queries than this set, such as q: save"),
        (BeirDataset({}, {**SET.queries, "r": "fig"}, SET.qrels), "of other queries than this set, such as r: save"),
        (BeirDataset({}, SET.queries, {"q": {"d": 2, "e": 0}}), "of other judgements than this set has: save"),
    ],
)
def test_another_set_is_refused(tmp_path: Path, dataset: BeirDataset, message: str) -> None:
    with filled(TEXTS) as index:
        run = baseline(index)
    run.require_same_set(tmp_path, SET)
    with pytest.raises(InputError, match=message):
        run.require_same_set(tmp_path, dataset)


def test_documents_are_recorded_with_their_best_chunk() -> None:
    with filled({"d#0": "apple kiwi kiwi", "d#1": "apple fig", "e#0": "plum"}) as index:
        query = baseline(index).queries["q"]
    assert {id_: (hit.chunk, hit.rank) for id_, hit in query.hits.items()} == {"d": ("d#1", 1)}


def test_the_chunk_of_the_searched_namespace_is_recorded() -> None:
    with BM25Index.from_store(MemoryStore(), config=CONFIG) as index:
        index.add(["apple kiwi kiwi kiwi"], ids=["d"])
        index.add(["apple fig"], ids=["d"], namespace="law")
        recorder = RunRecorder(SET, "law", {})
        evaluate(
            index,
            SET,
            search=lambda index, texts, k, **more: index.search_batch(texts, k, namespace="law", **more),
            inspect=recorder.record,
        )
    assert recorder.queries["q"].hits["d"].weights == pytest.approx({"'apple'": 16 / 31, "'fig'": 16 / 31})
