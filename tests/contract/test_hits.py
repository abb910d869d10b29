"""Groups, boosts, near duplicates and neighbours of an index: the same answers on every engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from support.reference import split

from rag_bm25 import BM25Index, Fragment, Grouping, Highlighting, Hit, IndexConfig, NearDuplicates, ParameterError

CONFIG = IndexConfig(chunk_size=12, analyzer=split, idf="lucene", dense_dim=2)
PAGES = ['say "hi"', "法律", 7, True]


def chunks() -> Iterator[tuple[str, str, dict[str, Any], list[float]]]:
    """120 chunks; most of the best ones are of one page, and the last page has one far down."""
    for at in range(120):
        page = PAGES[0] if at < 80 else PAGES[at % 3 + 1]
        text = "fig " * (1 + at % 2) + "plum " * (at // 4)
        yield f"text#{at}", text.strip(), {"page": page, "source": "text", "chunk": at, "year": at}, [1.0, at / 120]
    yield "best", "fig fig fig", {"page": "法律"}, [0.5, 1.0]
    yield "alone", "fig fig lonely", {}, [0.0, 1.0]


@pytest.fixture
def index(new_index: Callable[[IndexConfig], BM25Index]) -> BM25Index:
    index = new_index(CONFIG)
    ids, texts, metadatas, embeddings = zip(*chunks(), strict=True)
    index.add(texts, ids=ids, metadatas=metadatas, embeddings=embeddings)
    return index


def name(hit: Hit) -> tuple[str, object]:
    page = hit.metadata.get("page")
    return type(page).__name__, page if page is not None else hit.id


def grouped(hits: Sequence[Hit], k: int, size: int) -> list[str]:
    groups: dict[object, list[str]] = {}
    for hit in hits:
        groups.setdefault(name(hit), []).append(hit.id)
    return [id_ for members in list(groups.values())[:k] for id_ in members[:size]]


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.id for hit in hits]


@pytest.mark.parametrize(("k", "size"), [(1, 1), (1, 2), (2, 3), (5, 1), (5, 30), (9, 2)])
def test_groups(index: BM25Index, k: int, size: int) -> None:
    group = Grouping("page", size)
    assert ids(index.search("fig", k, group=group)) == grouped(index.search("fig", 999), k, size)
    scope: dict[str, Any] = {"filter": {"year": {"$gte": 60}}}
    expected = grouped(index.search("fig", 999, **scope), k, size)
    assert ids(index.search("fig", k, **scope, group=group)) == expected
    different: dict[str, Any] = {"diversity": NearDuplicates(1.0)}
    expected = grouped(index.search("fig", 999, **different), k, size)
    assert ids(index.search("fig", k, **different, group=group)) == expected
    hybrid = index.search_hybrid("fig", [1.0, 0.0], 999, sparse_k=200, dense_k=200)
    found = index.search_hybrid("fig", [1.0, 0.0], k, sparse_k=200, dense_k=200, group=group)
    assert ids(found) == grouped(hybrid, k, size)


def test_neighbours(index: BM25Index) -> None:
    (own,) = index.get(["text#50"])
    assert [chunk.id for chunk in index.neighbors(own, 1, 2).chunks] == [f"text#{at}" for at in range(49, 53)]
    assert len(index.neighbors(own, None, None).chunks) == 120
    (alone,) = index.get(["alone"])
    assert index.neighbors(alone).chunks == (alone,)
    index.delete(["text#52"])
    assert [chunk.id for chunk in index.neighbors(own, 1, 9).chunks] == ["text#49", "text#50", "text#51"]
    index.delete(["text#31"])  # at the end of the first read
    assert [chunk.id for chunk in index.neighbors(own, None, None).chunks] == [f"text#{at}" for at in range(32, 52)]


def test_neighbours_without_ids_that_tell(index: BM25Index) -> None:
    places = [
        {"source": 's"q', "start_index": 0},
        {"source": 's"q', "start_index": 5},
        {"source": "s", "start_index": 9},
    ]
    vectors = [[1.0, 0.0]] * 3
    index.add(["fig plum", "lum pear", "apple"], ids=["x", "y", "z"], metadatas=places, embeddings=vectors)
    (own,) = index.get(["y"])
    assert index.neighbors(own).text == "fig plum pear"


def test_more_like_this_is_a_search_for_the_vector_of_the_chunk(index: BM25Index) -> None:
    stored = {chunk.id: index.encode_documents([chunk.text])[0].to_dict() for chunk in index.chunks()}
    df = {id_: sum(id_ in vector for vector in stored.values()) for id_ in stored["text#40"]}
    idf = {id_: math.log(1 + (len(stored) - n + 0.5) / (n + 0.5)) for id_, n in df.items()}
    scores = {
        other: sum(weight * idf[id_] * vector.get(id_, 0.0) for id_, weight in stored["text#40"].items())
        for other, vector in stored.items()
        if other != "text#40"
    }
    found = index.more_like_this("text#40", 3)
    assert [hit.score for hit in found] == pytest.approx(sorted(scores.values(), reverse=True)[:3], rel=1e-5)
    assert [hit.score for hit in found] == pytest.approx([scores[hit.id] for hit in found], rel=1e-5)
    assert index.more_like_this("alone", 3, max_terms=1)
    (one,) = index.more_like_this("text#40", 1, max_terms=1)
    assert one.score < found[0].score
    assert len(index.more_like_this("text#40", 5, group=Grouping("page"))) == 5


def test_highlights_mark_the_terms_of_the_query_in_each_hit(index: BM25Index) -> None:
    for hits in index.search_batch(["fig lonely", "plum", "never"], 5, highlight=Highlighting(size=20)):
        for hit in hits:
            assert hit.highlights
            for one in hit.highlights:
                assert one.text == hit.text[one.start : one.end]
                assert {hit.text[start:end] for start, end in one.marks} <= {"fig", "lonely", "plum"}
    (alone,) = index.search("lonely", 1, highlight=True, group=Grouping("page"), context="neighbors")
    weight = index.term_statistics(["lonely"])[0].idf
    assert alone.highlights == (Fragment("fig fig lonely", 0, 14, pytest.approx(weight), ((8, 14),)),)
    (both,) = index.search_hybrid("lonely", [0.0, 1.0], 1, highlight=True)
    assert both.highlights == alone.highlights
    assert index.search("lonely", 1)[0].highlights is None
    assert index.highlight("lonely", "a lonely fig")[0].marks == ((2, 8),)
    with pytest.raises(ParameterError, match="highlight is not supported here: a dense search has no query text"):
        index.search_dense([0.0, 1.0], 1, highlight=True)


def test_highlights_of_chunks_that_resemble_one_mark_what_they_share(index: BM25Index) -> None:
    (hit,) = index.more_like_this("best", 1, highlight=True)
    assert {hit.text[start:end] for one in hit.highlights or () for start, end in one.marks} == {"fig"}


def test_values_that_an_engine_cannot_compare_with_are_group_keys_and_sources(
    new_index: Callable[[IndexConfig], BM25Index],
) -> None:
    index = new_index(CONFIG)
    places = [{"page": f"Chapter\r{at % 3}", "source": "a\rb", "start_index": 10 * at} for at in range(90)]
    texts = [f"fig{' plum' * at}" for at in range(90)]
    index.add(texts, ids=[f"{at:02}" for at in range(90)], metadatas=places, embeddings=[[1.0, 0.0]] * 90)
    found = index.search("fig", 3, group=Grouping("page", size=20))
    assert ids(found) == [f"{at:02}" for first in range(3) for at in range(first, 60, 3)]
    passage = index.neighbors(found[0], 1, 1)
    assert [chunk.id for chunk in passage.chunks] == ["00", "01"]
