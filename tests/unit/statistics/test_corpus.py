from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.reference import average_idf

from rag_bm25.statistics import count_table
from rag_bm25.statistics.corpus import Contribution, CorpusCounts, CountsByNamespace
from rag_bm25.statistics.count_table import END, Counts, CountTable, _Level
from rag_bm25.vectors.sparse import SparseVector

IDS = st.integers(1, 12)
chunks = st.tuples(st.frozensets(IDS, max_size=6), st.integers(0, 100))


def contribution(*given: tuple[frozenset[int], int]) -> Contribution:
    vectors = [SparseVector.from_dict(dict.fromkeys(ids or {0}, 0.5)) for ids, _ in given]
    return Contribution.of(vectors, [length for _, length in given])


class ByThrees:
    """Channels of ids: each has the rest of a division."""

    def channels(self, ids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        return (ids % 3).astype(np.uint8)


def one(*ids: int, length: int = 1) -> Contribution:
    return contribution((frozenset(ids), length))


def shown(change: Contribution) -> tuple[int, int, dict[int, int]]:
    return change.num_chunks, change.total_length, dict(zip(change.ids.tolist(), change.df.tolist(), strict=True))


def ids_of(*ids: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.array(ids, np.uint32)


def histograms(statistics: CorpusCounts) -> tuple[dict[int, int], ...]:
    return tuple(dict(zip(dfs.tolist(), terms.tolist(), strict=True)) for dfs, terms in statistics.histograms)


# Contribution


@given(st.lists(chunks, max_size=6))
def test_contribution_counts_chunks_lengths_and_df(some: list[tuple[frozenset[int], int]]) -> None:
    df = Counter(id_ for ids, _ in some for id_ in ids)
    assert shown(contribution(*some)) == (len(some), sum(length for _, length in some), df)


@given(st.lists(chunks, max_size=4), st.lists(chunks, max_size=4))
def test_sum_of_contributions_is_the_contribution_of_all(
    left: list[tuple[frozenset[int], int]], right: list[tuple[frozenset[int], int]]
) -> None:
    assert shown(contribution(*left) + contribution(*right)) == shown(contribution(*left, *right))


@given(st.lists(chunks, max_size=4), st.lists(chunks, max_size=4))
def test_difference_undoes_a_sum(
    left: list[tuple[frozenset[int], int]], right: list[tuple[frozenset[int], int]]
) -> None:
    both = contribution(*left, *right)
    assert shown(both - contribution(*right)) == shown(contribution(*left))


def test_nothing_contributes_nothing() -> None:
    assert shown(Contribution()) == shown(Contribution.of([], [])) == (0, 0, {})


# CorpusCounts


@given(st.lists(chunks, max_size=8), st.data())
def test_statistics_after_adds_and_removals_are_those_of_what_is_left(
    some: list[tuple[frozenset[int], int]], data: st.DataObject
) -> None:
    removed = data.draw(st.lists(st.sampled_from(some), unique=True) if some else st.just([]))
    statistics = CorpusCounts()
    for chunk in some:
        statistics.add(contribution(chunk).marked(ByThrees()))
    for chunk in removed:
        statistics.add(-contribution(chunk))  # who deletes need not know the channels
    left = list((Counter(some) - Counter(removed)).elements())
    total = statistics.contribution()
    assert shown(total) == shown(contribution(*left))
    df = Counter(id_ for ids, _ in left for id_ in ids)
    words, bigrams, characters = ([count for id_, count in df.items() if id_ % 3 == rest] for rest in range(3))
    assert histograms(statistics) == (Counter(words), Counter(bigrams), Counter(characters))
    assert statistics.num_terms == len(df)
    stats = statistics.idf_inputs
    assert stats.average_idf == pytest.approx(average_idf(words, len(left)), abs=1e-12)
    assert stats.average_bigram_idf == pytest.approx(average_idf(bigrams, len(left)), abs=1e-12)
    assert stats.average_character_idf == pytest.approx(average_idf(characters, len(left)), abs=1e-12)
    assert total.channels is not None
    assert total.channels.tolist() == (total.ids % 3).tolist()


def test_term_that_is_found_to_be_no_word_moves_to_its_channel() -> None:
    """Two writers may have given one id to a word and a bigram."""
    statistics = CorpusCounts()
    statistics.add(contribution((frozenset({1, 2, 4}), 1), (frozenset({2}), 1)))
    assert histograms(statistics) == ({1: 2, 2: 1}, {}, {})
    statistics.add(one(2, 4).marked(ByThrees()))
    assert histograms(statistics) == ({1: 1}, {2: 1}, {3: 1})
    statistics.add(
        Contribution(1, 1, ids_of(2), np.array([1]), np.array([0], np.uint8))
    )  # by who does not know of it yet
    assert histograms(statistics) == ({1: 1}, {2: 1}, {4: 1})


def test_sum_has_marks_where_all_of_its_parts_have_them() -> None:
    marked, plain = one(1, 2).marked(ByThrees()), one(2, 3)
    assert (marked + plain).channels is (plain + plain).channels is None
    total = marked + -one(4).marked(ByThrees()) + Contribution(5, 7)
    assert total.channels is not None
    assert total.channels.tolist() == [1, 2, 1]
    disagreeing = marked + Contribution(1, 1, ids_of(1, 2), np.array([1, 1]), np.zeros(2, np.uint8))
    assert disagreeing.channels is not None
    assert disagreeing.channels.tolist() == [1, 2]


def test_mean_length_is_total_by_chunks() -> None:
    statistics = CorpusCounts()
    statistics.add(contribution((frozenset({1}), 3), (frozenset({1}), 4)))
    assert statistics.mean_length == 3.5


def test_figures_change_with_the_corpus() -> None:
    statistics = CorpusCounts()
    statistics.add(one(1))
    before = statistics.idf_inputs
    assert statistics.idf_inputs is before  # computed once
    statistics.add(one(2))
    assert before.num_chunks == 1
    assert statistics.idf_inputs.num_chunks == 2
    assert statistics.idf_inputs.average_idf != before.average_idf


def test_df_keeps_the_order_of_the_question() -> None:
    statistics = CorpusCounts()
    statistics.add(contribution((frozenset({2, 9}), 1), (frozenset({9}), 1)))
    assert statistics.df(ids_of(9, 5, 2)).tolist() == [2, 0, 1]


def test_df_of_no_terms_is_empty() -> None:
    assert CorpusCounts().df(ids_of()).tolist() == []


@pytest.mark.parametrize(
    "damage",
    [Contribution(1, 1, ids_of(7), np.array([5])), Contribution(-1, -1, ids_of(7), np.array([2])), -one(7, 8)],
)
def test_damaged_statistics_still_give_possible_figures(damage: Contribution) -> None:
    statistics = CorpusCounts()
    statistics.add(damage)
    df = statistics.df(ids_of(7))
    figures = statistics.idf_inputs
    assert 0 <= df[0] <= figures.num_chunks
    assert np.isfinite(figures.average_idf)


# The table under it


@pytest.mark.parametrize("large", [0, count_table.LARGE])
def test_table_gives_counts_across_merges(monkeypatch: pytest.MonkeyPatch, large: int) -> None:
    monkeypatch.setattr(CountTable, "FACTOR", 2)
    monkeypatch.setattr(count_table, "LARGE", large)
    monkeypatch.setattr(count_table, "MANY", 1)
    table, expected, marked = CountTable(), Counter[int](), set[int]()
    rng = np.random.default_rng(7)
    for _ in range(200):
        ids = np.unique(rng.integers(1, 60, 5, dtype=np.uint32))
        changes = rng.integers(-1, 3, len(ids))
        marks = (changes > 0) & (ids % 2 == 0)
        table.add(Counts(ids, changes, marks))
        marked.update(ids[marks].tolist())
        expected.update(dict(zip(ids.tolist(), changes.tolist(), strict=True)))
        assert table.get(ids_of(*range(70))).tolist() == [expected[id_] for id_ in range(70)]
        counts, marks = table.get_marked(ids_of(*range(70)))
        assert counts.tolist() == [expected[id_] for id_ in range(70)]
        assert [mark for mark, count in zip(marks, counts, strict=True) if count > 0] == [
            id_ in marked for id_ in range(70) if expected[id_] > 0
        ]
    found = table.nonzero()
    ids = found.ids
    assert dict(zip(ids.tolist(), found.df.tolist(), strict=True)) == {i: n for i, n in expected.items() if n}
    assert (np.diff(ids.astype(np.int64)) > 0).all()


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 63, 64, 65, 1000])
@pytest.mark.parametrize("block", [4, 64])
def test_a_large_level_is_searched_block_by_block(monkeypatch: pytest.MonkeyPatch, length: int, block: int) -> None:
    level = _Level.of(np.arange(10, 10 + 3 * length, 3, dtype=np.uint32), np.full(length, 2))
    sought = np.random.default_rng(1).permutation(np.arange(1, 3 * length + 20, dtype=np.uint32))
    sought[-1] = END - 1
    expected = np.searchsorted(level.ids, sought).tolist()
    for name, value in {"LARGE": 0, "MANY": 0, "BLOCK": block}.items():
        monkeypatch.setattr(count_table, name, value)
    assert level._places(sought).tolist() == expected
    assert level.get(sought).tolist() == [2 if id_ in level.ids[:-1] else 0 for id_ in sought]


def test_table_copies_a_count_a_logarithmic_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    merged_with = _Level.merged_with

    def counted(level: _Level, other: _Level) -> _Level:
        copied.append(len(level.ids) + len(other.ids))
        return merged_with(level, other)

    monkeypatch.setattr(_Level, "merged_with", counted)
    table, num_levels = CountTable(), 1 + math.log(20_000 / 10, CountTable.FACTOR)
    for start in range(1, 20_000, 10):
        table.add(Counts(np.arange(start, start + 10, dtype=np.uint32), np.ones(10, np.int64)))
        assert len(table._levels) <= num_levels
    assert sum(copied) < 20_000 * CountTable.FACTOR * num_levels


# Namespaces


def test_namespaces_are_counted_apart_and_together() -> None:
    statistics = CountsByNamespace()
    statistics.add("a", one(1, 2, length=5))
    statistics.add("b", one(2, 3, length=7))
    statistics.add("a", one(2, length=1))
    assert shown(statistics.of_one("a").contribution()) == (2, 6, {1: 1, 2: 2})
    assert shown(statistics.of_one("b").contribution()) == (1, 7, {2: 1, 3: 1})
    assert shown(statistics.whole.contribution()) == (3, 13, {1: 1, 2: 3, 3: 1})
    assert statistics.namespaces == ["a", "b"]


def test_single_namespace_is_the_whole_and_kept_once() -> None:
    statistics = CountsByNamespace()
    statistics.add("a", one(1))
    assert statistics.whole is statistics.of_one("a")
    assert statistics.of(["a"]) is statistics.whole


def test_some_namespaces_are_summed() -> None:
    statistics = CountsByNamespace()
    for name in "abc":
        statistics.add(name, one(1, length=2))
    assert shown(statistics.of(["a", "c"]).contribution()) == (2, 4, {1: 2})
    assert statistics.of(["b"]) is statistics.of_one("b")
    assert statistics.of(["a", "b", "c", "unknown"]) is statistics.whole
    assert statistics.of(None) is statistics.whole


def test_some_namespaces_are_summed_once_after_a_change() -> None:
    statistics = CountsByNamespace()
    for name in "abcd":
        statistics.add(name, one(1, length=2))
    summed = statistics.of(["a", "c"])
    assert statistics.of(["c", "a", "c"]) is summed
    assert statistics.of(["a", "b"]) is not summed
    statistics.add("c", one(1, 2))
    assert shown(statistics.of(["a", "c"]).contribution()) == (3, 5, {1: 3, 2: 1})


def test_few_sums_are_kept() -> None:
    statistics = CountsByNamespace()
    for name in "abcdef":
        statistics.add(name, one(1))
    sums = [statistics.of(["a", name]) for name in "bcdef"]
    assert [statistics.of(["a", name]) is kept for name, kept in zip("fedcb", reversed(sums), strict=True)] == [
        *(True, True, True, True),
        False,
    ]


def test_unknown_namespace_is_empty() -> None:
    statistics = CountsByNamespace()
    assert statistics.of(["x"]).num_chunks == statistics.of_one("x").num_chunks == 0
    statistics.add("a", one(1))
    assert statistics.of(["x"]).num_chunks == statistics.of_one("x").num_chunks == 0


def test_emptied_namespace_is_still_listed() -> None:
    statistics = CountsByNamespace()
    statistics.add("a", one(1))
    statistics.add("a", -one(1))
    assert statistics.namespaces == ["a"]
    assert statistics.whole.num_chunks == 0
