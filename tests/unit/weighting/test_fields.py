from __future__ import annotations

from collections.abc import Callable

import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, FieldWeight, IndexConfig, QueryWeighting
from rag_bm25.documents.checks import check_chunks
from rag_bm25.errors import InputError
from rag_bm25.weighting.fields import field_text

CONFIG = IndexConfig(
    chunk_size=4,
    length_unit="terms",
    analyzer=split,
    fields={"title": FieldWeight(chunk_size=2, weight=3.0), "tags": FieldWeight(chunk_size=2)},
)


@pytest.fixture
def config() -> IndexConfig:
    return CONFIG


def found(index: BM25Index, query: str) -> list[str]:
    return [hit.id for hit in index.search(query)]


@pytest.mark.parametrize("weight", [0.001, 1000])
def test_weights_at_the_limits_are_taken(weight: float) -> None:
    assert FieldWeight(chunk_size=30, weight=weight).weight == weight


@pytest.mark.parametrize(
    ("value", "text"), [("a b", "a b"), (["a", "b"], "a\nb"), ([], ""), (None, ""), (7, ""), (["a", 7], "a"), ({}, "")]
)
def test_text_of_a_field(value: object, text: str) -> None:
    assert field_text({"title": value}, "title") == text


def test_field_that_is_not_there_is_empty() -> None:
    assert field_text({"other": "a"}, "title") == ""


@pytest.mark.parametrize("value", [7, True, {"a": "b"}, ["a", 7], [["a"]], [None]])
def test_other_values_are_refused_before_anything_is_written(
    store: MemoryStore, index: BM25Index, value: object
) -> None:
    writes = len(store.calls)
    with pytest.raises(InputError) as caught:
        index.add(["a", "b"], metadatas=[{"title": "c"}, {"title": value}])
    assert str(caught.value) == (
        f"metadatas[1]['title'] must be a str or a list of str, since 'title' is a field of the index, got {value!r}"
    )
    assert store.calls[writes:] == []


def test_other_metadata_may_be_anything() -> None:
    (chunk,) = check_chunks(["a"], None, [{"page": 7, "title": None}], ["title", "tags"])
    assert chunk.metadata == {"page": 7, "title": None}


def test_length_is_that_of_the_text(index: BM25Index) -> None:
    index.add(["x y z"], ids=["1"], metadatas=[{"title": "apple fig"}])
    assert [chunk.length for chunk in index.get(["1"])] == [3]
    assert index.stats().total_length == 3


def test_changed_field_is_an_update(index: BM25Index) -> None:
    index.add(["x"], ids=["1"], metadatas=[{"title": "apple"}])
    index.add(["x"], ids=["1"], metadatas=[{"title": "fig"}])
    assert (found(index, "apple"), found(index, "fig")) == ([], ["1"])
    assert index.verify().ok


def test_repair_finds_lost_terms_in_the_fields(
    store: MemoryStore, index: BM25Index, reopened: Callable[..., BM25Index]
) -> None:
    index.add(["x"], ids=["1"], metadatas=[{"title": "apple"}])
    for key in [key for key in store.collections.log if key.startswith("terms:")]:
        del store.collections.log[key]
    repaired = reopened(repair=True)
    assert repaired.repaired is not None
    assert (repaired.repaired.recovered_terms, repaired.repaired.nameless_terms) == (2, 0)
    assert repaired.verify().ok


def test_explanation_shows_each_field(index: BM25Index) -> None:
    index.add(["apple fig", "fig"], ids=["1", "2"], metadatas=[{"title": "apple"}, None])
    # 1 / (0.25 + 0.75 * 2 / 4) = 1.6; 3 / (0.25 + 0.75 * 1 / 2) = 4.8; 6.4 / 7.9 = 0.810127
    assert "\n".join(index.explain("apple", "1", weighting=QueryWeighting(idf="lucene")).tree.splitlines()[7:]) == (
        "    0.810127 = stored weight, tf / (tf + k1) from:\n"
        "      6.4 = tf, occurrences weighted and normalised by field, sum of:\n"
        "        1.6 = in the text, weight * tf / (1 - b + b * length / chunk_size) from:\n"
        "          1 = weight\n"
        "          1 = tf, occurrences in the text\n"
        "          0.75 = b, share of the length\n"
        "          2 = length of the text in terms\n"
        "          4 = chunk_size in terms, in place of the mean length\n"
        "        0 = not in the field 'tags'\n"
        "        4.8 = in the field 'title', weight * tf / (1 - b + b * length / chunk_size) from:\n"
        "          3 = weight\n"
        "          1 = tf, occurrences in the field 'title'\n"
        "          0.75 = b, share of the length\n"
        "          1 = length of the field 'title' in terms\n"
        "          2 = chunk_size in terms, in place of the mean length\n"
        "      1.5 = k1, saturation"
    )
