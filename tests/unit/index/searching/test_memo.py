from __future__ import annotations

import weakref
from typing import Any

import pytest
from support.memory_store import MemoryStore

from rag_bm25 import BM25Index, IndexConfig, Query, QueryWeighting
from rag_bm25.index.searching.memo import QueryMemo
from rag_bm25.query.encoder import QueryEncoder

NOW, LATER = object(), object()


class TestMemo:
    def test_keeps_a_value_while_the_statistics_are_the_same(self) -> None:
        memo: QueryMemo[int] = QueryMemo()
        assert [
            memo.get("a", figures, lambda at=at: at) for at, figures in enumerate([NOW, NOW, LATER, LATER, NOW])
        ] == [
            *(0, 0),
            *(2, 2),
            4,
        ]

    def test_equal_figures_of_other_statistics_are_not_taken_for_the_same(self) -> None:
        memo: QueryMemo[int] = QueryMemo()
        assert (memo.get("a", [1], lambda: 1), memo.get("a", [1], lambda: 2)) == (1, 2)

    def test_forgets_what_was_not_used_for_the_longest_time(self) -> None:
        memo: QueryMemo[str] = QueryMemo(size=2)
        for key in ("a", "b", "a", "c"):
            memo.get(key, NOW, lambda key=key: f"old {key}")
        assert len(memo) == 2
        assert [memo.get(key, NOW, lambda: "new") for key in ("a", "c", "b")] == ["old a", "old c", "new"]

    def test_forgets_an_older_view_which_is_as_large_as_the_statistics(self) -> None:
        class View: ...

        memo, old = QueryMemo[int](), View()
        memo.get("a", old, lambda: 1)
        seen = weakref.ref(old)
        del old
        memo.get("b", NOW, lambda: 2)
        assert seen() is None

    def test_a_value_that_was_slow_to_come_is_not_taken_for_one_of_a_later_view(self) -> None:
        memo: QueryMemo[int] = QueryMemo()
        memo.get("a", NOW, lambda: memo.get("b", LATER, lambda: 1))
        assert memo.get("a", LATER, lambda: 2) == 2

    def test_what_fails_is_not_kept(self) -> None:
        memo: QueryMemo[int] = QueryMemo()
        with pytest.raises(ZeroDivisionError):
            memo.get("a", NOW, lambda: 1 // 0)
        assert len(memo) == 0


@pytest.fixture
def weighed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that were weighed, each time that they were."""
    queries: list[str] = []
    terms = QueryEncoder.terms
    monkeypatch.setattr(
        QueryEncoder, "terms", lambda self, query, corpus: (queries.append(str(query)), terms(self, query, corpus))[1]
    )
    return queries


@pytest.fixture
def index() -> BM25Index:
    index = BM25Index.from_store(MemoryStore(), config=IndexConfig(chunk_size=5))
    index.add(["apple pie", "apple fig", "pear"], ids=["1", "2", "3"])
    index.add(["apple"], ids=["1"], namespace="other")
    index.add(["fig"], ids=["1"], namespace="third")
    return index


class TestSearches:
    def test_a_query_that_comes_again_is_not_weighed_again(self, index: BM25Index, weighed: list[str]) -> None:
        first = index.search("apple pie")
        assert index.search("apple pie", k=3) == first
        assert index.explain("apple pie", "1").value == pytest.approx(first[0].score)
        assert index.max_scores(["apple pie"])[0] > first[0].score
        assert weighed == ["apple pie"]

    def test_nor_after_a_refresh_without_news(self, weighed: list[str]) -> None:
        store = MemoryStore(exclusive=False)
        index = BM25Index.from_store(store, config=IndexConfig(chunk_size=5), refresh_interval=0)
        index.add(["apple pie"])
        assert index.search("apple pie") == index.search("apple pie")
        assert weighed == ["apple pie"]

    def test_it_is_weighed_again_after_a_write(self, index: BM25Index, weighed: list[str]) -> None:
        before = index.search("apple")
        index.add(["kiwi", "plum"])
        after = index.search("apple")
        assert [hit.id for hit in after] == [hit.id for hit in before]
        assert [hit.score for hit in after] != [hit.score for hit in before]
        index.delete(["1"])
        assert [hit.id for hit in index.search("apple")] == ["2"]
        assert weighed == ["apple"] * 3

    @pytest.mark.parametrize(
        "other",
        [
            {"weighting": QueryWeighting(idf="lucene")},
            {"weighting": QueryWeighting(k3=1.0)},
            {"namespace": "other"},
            {"namespace": ["", "other"]},
            {"namespace": None},
            {"statistics": "all"},
        ],
    )
    def test_other_options_are_other_weights(self, index: BM25Index, other: dict[str, Any]) -> None:
        query = "apple fig^3 apple"
        alone = BM25Index.from_store(index._store)
        index.search(query)
        (mine,), (fresh,) = index.encode_queries([query], **other), alone.encode_queries([query], **other)
        assert mine == fresh
        assert mine != index.encode_queries([query])[0]

    def test_what_depends_on_the_vocabulary_is_weighed_each_time(self, index: BM25Index, weighed: list[str]) -> None:
        for _ in range(2):
            index.search(Query.parse("app*"))
        assert weighed == ["app", "app"]

    def test_long_texts_are_weighed_each_time(self, index: BM25Index, weighed: list[str]) -> None:
        text = "apple " * 200
        index.search(text)
        index.search(text)
        assert weighed == [text] * 2

    def test_vectors_that_users_get_are_their_own(self, index: BM25Index) -> None:
        (vector,) = index.encode_queries(["apple"])
        expected = vector.to_dict()
        vector.values[:] *= 2
        vector.ids[:] = 1
        assert index.encode_queries(["apple"])[0].to_dict() == expected
