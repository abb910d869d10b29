"""Groups of indexes: what belongs together, the same id twice, and one moment of all."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from support.indexes import CONFIG, filled
from support.reference import split

from rag_bm25 import (
    AsyncBM25Index,
    BM25Index,
    ChunkNotFoundError,
    ConfigMismatchError,
    Event,
    FieldWeight,
    IndexConfig,
    IndexGroup,
    InputError,
    ParameterError,
    Query,
    QueryWeighting,
    ReadOnlyError,
)
from rag_bm25.events import Events
from rag_bm25.index import dry_run
from rag_bm25.index.group import GroupStatistics
from rag_bm25.index.live_statistics import LiveStatistics
from rag_bm25.index.searching.group_store import Threads
from rag_bm25.ingestion import find_files, ingest, reindex
from rag_bm25.statistics.count_table import Counts, _Level
from rag_bm25.statistics.merging import MergedTerms
from rag_bm25.statistics.view import StatisticsView
from rag_bm25.vectors.terms import Vocabulary

LEFT, RIGHT = {"1": "apple pie", "2": "fig"}, {"1": "apple apple tart", "3": "plum apple"}


@pytest.fixture
def group() -> IndexGroup:
    return IndexGroup([filled(LEFT), filled(RIGHT)])


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"chunk_size": 5, "k1": 1.1}, "chunk_size: stored 4, given 5; k1: stored 1.5, given 1.1"),
        ({"b": 0.5}, "b: stored 0.75, given 0.5"),
        ({"length_unit": "characters"}, "length_unit"),
        ({"fields": {"title": FieldWeight(chunk_size=3)}}, "fields"),
        ({"weighting": "bm25+"}, "weighting"),
        ({"dense_dim": 2}, "dense_dim"),
        ({"analyzer": str.upper}, None),
    ],
)
def test_indexes_that_were_made_otherwise_are_refused_with_each_difference(
    changed: dict[str, Any], named: str | None
) -> None:
    settings = {"chunk_size": 4, "length_unit": "terms", "analyzer": split}
    if named is None:
        changed, named = {"analyzer": lambda text: text.upper().split()}, "tokens of"
    other = BM25Index.open(":memory:", "docs", config=IndexConfig(**{**settings, **changed}))
    with pytest.raises(ConfigMismatchError, match="index 1 of the group was created with other parameters") as refused:
        IndexGroup([filled(LEFT), other])
    assert named in str(refused.value)


def test_what_ingest_makes_and_a_config_without_fields_differ_with_the_way_out() -> None:
    plain, made = (
        BM25Index.open(":memory:", "docs", config=IndexConfig(500, fields=fields)) for fields in ({}, "default")
    )
    with pytest.raises(
        ConfigMismatchError, match=r'counts titles and headings, as IndexConfig\(fields="default"\) does'
    ):
        IndexGroup([plain, made])


def test_indexes_whose_queries_are_weighed_otherwise_are_refused() -> None:
    first, second = filled(LEFT, IndexConfig(4, length_unit="terms", analyzer=split, idf="lucene")), filled(RIGHT)
    with pytest.raises(ConfigMismatchError, match=r"index 1 .* than index 0: idf: 'lucene' and 'epsilon'\. Set them"):
        IndexGroup([first, second])
    second.set_query_defaults(weighting=QueryWeighting(idf="lucene"))
    asked = {"weighting": QueryWeighting(idf="lucene")}
    assert IndexGroup([first, second]).search("apple") == IndexGroup([first, second]).search("apple", **asked)


@pytest.mark.parametrize(
    ("given", "message"), [([], "got none"), ("ab", "sequence of"), ([1], "got int"), (5, "sequence")]
)
def test_a_group_is_of_indexes(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        IndexGroup(given)


def test_an_index_counts_once_also_of_groups_within() -> None:
    left, right = filled(LEFT), filled(RIGHT)
    inner = IndexGroup([left, right])
    with pytest.raises(InputError, match="got one of them twice"):
        IndexGroup([inner, left])
    assert IndexGroup([inner, filled({"9": "kiwi"})]).parts[:2] == (left, right)


def test_the_same_id_in_two_indexes_is_two_chunks(group: IndexGroup) -> None:
    found = [(hit.id, hit.part) for hit in group.search("apple tart")]
    assert (found[0], set(found)) == (("1", 1), {("1", 1), ("3", 1), ("1", 0)})
    assert [hit.to_dict()["part"] for hit in group.search("apple")] == [1, 0, 1]
    assert "part" not in filled(LEFT).search("apple")[0].to_dict()
    reranked = group.search("apple", rerank=lambda _, hits: [float(hit.part == 0) for hit in hits])
    assert (reranked[0].part, reranked[0].score) == (0, 1.0)
    explained = group.explain("apple", "1", part=0, rerank=lambda _, hits: [len(hit.text) for hit in hits])
    assert "hit 3" in str(explained)
    assert [(chunk.id, chunk.part) for chunk in group.chunks()] == [("2", 0), ("1", 0), ("3", 1), ("1", 1)]
    assert [chunk.part for chunk in group.get(["2", "3"])] == [0, 1]


def test_an_explanation_of_an_id_in_two_indexes_needs_the_part(group: IndexGroup) -> None:
    with pytest.raises(InputError, match="2 indexes of the group have a chunk '1', 0, 1: give part"):
        group.explain("apple", "1")
    for hit in group.search("apple"):
        assert group.explain("apple", hit.id, part=hit.part).value == pytest.approx(hit.score, rel=1e-5)
    with pytest.raises(ChunkNotFoundError):
        group.explain("apple", "2", part=1)
    for bad in (-1, "0", True, 1.5):
        with pytest.raises(ParameterError, match="part must be"):
            group.explain("apple", "1", part=cast("int", bad))


def test_reasons_for_an_id_in_two_indexes_need_the_part(group: IndexGroup) -> None:
    with pytest.raises(InputError, match="2 indexes of the group have a chunk '1', 0, 1: give part"):
        group.diagnose("tart", "1")
    assert "no word of the query" in str(group.diagnose("tart", "1", part=0))
    assert group.diagnose("tart", "1", part=1).rank == 1
    assert "no chunk has this id" in str(group.diagnose("tart", "2", part=1))
    with pytest.raises(ParameterError, match=r"part must be an int in 0\.\.1, got 2"):
        group.diagnose("tart", "1", part=2)


def test_a_part_of_a_single_index_is_refused() -> None:
    index = filled(LEFT)
    for ask in (index.explain, index.diagnose):
        with pytest.raises(InputError, match="part must be left out: it is for a group of indexes"):
            ask("apple", "1", part=0)


def test_what_hears_of_events_is_a_callable() -> None:
    with pytest.raises(ParameterError, match="on_event must be a callable or None, got 5"):
        IndexGroup([filled(LEFT)], on_event=cast("Any", 5))


def test_reasons_are_those_of_the_whole(group: IndexGroup) -> None:
    assert "no word of the query" in str(group.diagnose("apple", "2"))
    assert "no chunk has" in str(group.diagnose("zebra"))
    assert "must" in str(group.diagnose(Query("apple", must=["fig"])))


def test_a_group_writes_nothing(group: IndexGroup, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("new words")
    for write in (
        lambda: group.add(["x"]),
        lambda: group.delete(["1"]),
        lambda: group.drop_namespace(""),
        lambda: group.repair(),
        lambda: group.verify(),
        lambda: group.calibrate_answers(["apple"], lambda _, hit: hit.id == "1"),
        lambda: reindex(group, CONFIG),
        lambda: dry_run(group).__enter__(),
        lambda: ingest(group, find_files([tmp_path])),
        lambda: reindex(group, filled({}, CONFIG)),
    ):
        with pytest.raises(ReadOnlyError, match="a group of indexes is only searched"):
            write()
    with pytest.raises(ParameterError, match=r"a group of 2 indexes: .* has none: in a group, compare"):
        group.search("apple", min_confidence=0.5)


def test_a_group_goes_on_to_the_next_generations_of_its_parts() -> None:
    other, asked = replace(CONFIG, chunk_size=9, k1=0.9), QueryWeighting(b=0.2, length="mean")
    group, one = IndexGroup([filled(LEFT), filled(RIGHT)]), filled({**LEFT, **RIGHT, "0": LEFT["1"]}, other)
    group.search("apple")
    reindex(group.parts[0], other)
    for method in (group.search, group.suggest):
        with pytest.raises(ConfigMismatchError, match=r"index 1 of the group .* chunk_size: stored 9, given"):
            method("apple")
    reindex(group.parts[1], other)
    for weighting in (None, asked):
        found, expected = (each.search("apple", weighting=weighting) for each in (group, one))
        assert [(hit.score, hit.score_share) for hit in found] == [(hit.score, hit.score_share) for hit in expected]
    assert group.config == other
    assert group.problems == []


def test_what_was_joined_of_former_generations_is_freed(group: IndexGroup) -> None:
    joined = weakref.ref(group._generation.live)
    for part in group.parts:
        reindex(part, replace(CONFIG, k1=0.9))
    assert group.search("apple")
    gc.collect()
    assert joined() is None


def test_coroutines_and_events_are_those_of_the_group() -> None:
    events: list[Event] = []
    group = IndexGroup([filled(LEFT), filled(RIGHT)], on_event=events.append)
    assert asyncio.run(AsyncBM25Index(group).search("apple")) == group.search("apple")
    assert [(event.name, event.counts["hits"]) for event in events] == [("search", 3)] * 2
    assert repr(group).startswith("<IndexGroup a group of 2 indexes: memory, ")


class Part:
    """Statistics that move on each time that they are looked at, for a while."""

    vocabulary = Vocabulary
    problems = ()

    def __init__(self, written: list[int], until: int) -> None:
        self._written, self._until = written, until
        self._views = [StatisticsView() for _ in range(until + 1)]

    @property
    def view(self) -> StatisticsView:
        """The other index is written to after this one was read."""
        seen = self._views[self._written[0]]
        self._written[0] = min(self._written[0] + 1, self._until)
        return seen


def test_all_indexes_are_read_at_one_moment() -> None:
    written = [0]
    parts = [Part(written, 6), Part(written, 6)]
    seen = GroupStatistics(cast("list[LiveStatistics]", parts), MergedTerms(2), Threads(2), Events("group"))._merged[0]
    assert [part._views.index(view) for part, view in zip(parts, seen, strict=True)] == [6, 6]


def test_a_change_of_one_index_is_merged_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum after a write looks at what was written, and not at the thousands of terms before."""
    chunks = {str(at): " ".join(f"w{at}x{number}" for number in range(50)) for at in range(100)}
    parts = [filled(chunks), filled(RIGHT)]
    group = IndexGroup(parts)
    before = group.term_statistics("apple")[0]
    looked_at: list[int] = []
    whole = _Level.counts

    def counts(level: _Level) -> Counts:
        looked_at.append(len(level.ids))
        return whole.fget(level)  # type: ignore[attr-defined]

    monkeypatch.setattr(_Level, "counts", property(counts))
    parts[0].add(["apple w1x1"], ids=["new"])
    after = group.term_statistics("apple")[0]
    assert (after.df, after.num_chunks) == (before.df + 1, before.num_chunks + 1)
    assert 0 < sum(looked_at) < 10


def test_terms_that_were_erased_may_come_back_with_other_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.vectors.terms.ID_SPACE", 29)
    words = [f"w{at}" for at in range(14)]
    one, parts = filled({}), [filled({}), filled({})]
    group = IndexGroup(parts)

    def add(id_: str, text: str, part: int) -> None:
        for index in (one, parts[part]):
            index.add([text], ids=[id_])

    for at, word in enumerate(words):
        add(str(at), f"{word} {words[-at]}", at % 2)
    assert group.search("w1")
    for index in (one, *parts):
        index.delete([str(at) for at in range(0, 14, 3)])
    for part in parts:
        part.repair(erase=True)
    group.search("w1")
    for at, word in enumerate(reversed(words)):
        add(f"new{at}", f"{word} {words[at - 5]}", 1 - at % 2)
    for word in words:
        assert {hit.id for hit in group.search(word, 50)} == {hit.id for hit in one.search(word, 50)}
        assert group.term_statistics(word) == one.term_statistics(word)
    assert any(each.moved for each in group._live._terms.renumberings)
