"""Other weights of the chunks than the stored ones: what is read and analysed for them, and where they are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, ConfigMismatchError, Event, FieldWeight, IndexConfig, ParameterError, QueryWeighting
from rag_bm25.adapters import BM25Encoder
from rag_bm25.hits.options import SearchOptions
from rag_bm25.index.searching import rescoring
from rag_bm25.store.rows import SearchArm

CONFIG = IndexConfig(10, length_unit="terms", analyzer=split)
TITLE = {"title": FieldWeight(chunk_size=2)}
OTHER: SearchOptions = {"weighting": QueryWeighting(k1=0.9, b=0.4)}
TEXTS = [f"fig {'plum ' * (1 + at % 9)}{'pad ' * (at * 7 % 31)}" for at in range(200)]


class Analyzer:
    """Split at blanks, and note the texts."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, text: str) -> list[str]:
        self.seen.append(text)
        return text.split()


def made(config: IndexConfig = CONFIG, **options: Any) -> BM25Index:
    index = BM25Index.from_store(MemoryStore(), config=config, **options)
    index.add(TEXTS, ids=list(map(str, range(len(TEXTS)))), metadatas=[{"title": "a fig"}] * len(TEXTS))
    return index


def seen(index: BM25Index, analyzer: Analyzer, **options: Any) -> list[str]:
    analyzer.seen.clear()
    index.search("plum", 3, **options)
    return analyzer.seen


def test_no_text_is_analysed_where_weights_tell_the_frequencies() -> None:
    analyzer = Analyzer()
    assert seen(made(replace(CONFIG, analyzer=analyzer)), analyzer, **OTHER) == ["plum"]


def test_of_a_chunk_with_fields_these_alone_are_analysed() -> None:
    analyzer = Analyzer()
    assert set(seen(made(replace(CONFIG, analyzer=analyzer, fields=TITLE)), analyzer, **OTHER)) == {"plum", "a fig"}


def test_texts_are_analysed_where_weights_do_not_tell() -> None:
    analyzer = Analyzer()
    index = made(replace(CONFIG, analyzer=analyzer, k1=0.0))
    assert len(seen(index, analyzer, **OTHER)) > 3
    assert [hit.id for hit in index.search("plum", 9, **OTHER)] == [hit.id for hit in other().search("plum", 9)]


def other(**changes: Any) -> BM25Index:
    return made(replace(CONFIG, k1=0.9, b=0.4, **changes))


def test_as_many_rows_are_read_as_the_proof_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    index, asked = made(), []
    index.add([f"plum {'pad ' * (100 + at)}" for at in range(400)])  # which no weights bring to the top
    search = index._store.search

    def spy(queries: Any, arm: SearchArm) -> Any:
        asked.append(arm.limit)
        return search(queries, arm)

    monkeypatch.setattr(index._store, "search", spy)
    assert index.search("plum", 2, weighting=QueryWeighting(k1=1.5, b=0.75))
    assert asked == [2]  # the stored weights are those
    asked.clear()
    index.search("plum", 2, weighting=QueryWeighting(k1=1.2))
    assert 2 < max(asked) < 600


def test_long_chunks_are_searched_for_apart_and_rank_among_the_others() -> None:
    index = BM25Index.from_store(MemoryStore(), config=CONFIG)
    before = [f"plum {'pad ' * 19}"] * 300  # before the long one by the stored weights
    texts = [*before, *["pad " * 8] * 1_500, "plum " * 20, "plum " * 60 + "pad " * 1_540]
    index.add(texts, ids=[*map(str, range(1_800)), "short", "long"])
    assert [hit.id for hit in index.search("plum", 1)] == ["short"]
    assert [hit.id for hit in index.search("plum", 1, weighting=QueryWeighting(b=0))] == ["long"]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    told: list[Event] = []
    monkeypatch.setattr(rescoring, "MAX_K", 40)
    return told


def test_hits_that_are_not_proved_are_told(events: list[Event]) -> None:
    index = made(on_event=events.append)
    index.search("plum", 1, weighting=QueryWeighting(k1=1.49))
    assert [event for event in events if event.name == "incomplete"] == []
    index.search("plum", 30, weighting=QueryWeighting(k1=0.01, b=0.4))
    assert [event.name for event in events if event.counts.get("candidates")] == ["incomplete"]


@pytest.mark.parametrize(
    ("form", "given", "message"),
    [
        ("tf", {"k1": 1.0}, "k1 must be left out for 'tf', whose formula has none, got 1.0"),
        ("tf-normalised", {"b": 0.5}, "b must be left out for 'tf-normalised', whose formula has none, got 0.5"),
        (
            "saturation",
            {"length": "mean"},
            "length must be left out for 'saturation', whose formula has none, got 'mean'",
        ),
        ("saturation-smoothed", {"k1": 0.5}, "k1 must be a finite number >= 1 for 'saturation-smoothed', got 0.5"),
    ],
)
def test_parameters_that_a_form_does_not_have_are_refused(form: Any, given: dict[str, Any], message: str) -> None:
    for search in (
        lambda: made(replace(CONFIG, weighting=form, k1=2)).search("fig", weighting=QueryWeighting(**given)),
        lambda: replace(
            CONFIG,
            weighting=form,
            **{("length" if name == "length" else f"query_{name}"): value for name, value in given.items()},
            k1=2,
        ),
    ):
        with pytest.raises(ParameterError) as caught:
            search()
        assert str(caught.value) == message


def test_a_vector_of_a_query_cannot_weigh_chunks() -> None:
    encoder = BM25Encoder(CONFIG).fit(TEXTS)
    for encode in (made().encode_queries, encoder.encode_queries):
        with pytest.raises(ParameterError, match=r"^k1, b and length .*are not supported here: a vector"):
            encode(["fig"], weighting=QueryWeighting(k1=1.2))
        assert len(encode(["fig"], weighting=QueryWeighting(k1=None, length="chunk_size"))) == 1


def test_an_index_may_ask_for_it_in_all_searches_and_its_vectors_stay() -> None:
    config = replace(CONFIG, query_k1=0.9, query_b=0.4)
    index, store = made(config), MemoryStore()
    assert index.search("fig plum", 20) == other().search("fig plum", 20)
    assert index.search("fig plum", 20, weighting=QueryWeighting(k1=None, b=None)) == made().search("fig plum", 20)
    assert index.encode_documents(TEXTS) == made().encode_documents(TEXTS)
    for given in (config, None, CONFIG):
        assert BM25Index.from_store(store.reopen(), config=given).config.query_k1 == 0.9  # a default changes nothing
    with pytest.raises(ConfigMismatchError, match="k1"):
        BM25Index.from_store(store.reopen(), config=replace(config, k1=0.9))


def test_the_mean_is_that_of_the_chunks_that_count() -> None:
    index = BM25Index.from_store(MemoryStore(), config=CONFIG)
    index.add(["fig plum", "fig"], namespace="short")
    index.add(["fig " * 30], namespace="long")
    weighting = QueryWeighting(length="mean")
    for options, mean in (
        ({"namespace": "short"}, 1.5),
        ({"namespace": "short", "statistics": "all"}, 11),
        ({"namespace": None}, 11),
    ):
        id_ = index.search("plum", weighting=weighting, **options)[0].id  # type: ignore[arg-type]
        explained = index.explain("plum", id_, weighting=weighting, **options)  # type: ignore[arg-type]
        assert f"{mean} = mean_length, of the chunks in terms" in explained.tree


def test_without_chunks_there_is_no_mean_and_no_hit() -> None:
    index = BM25Index.from_store(MemoryStore(), config=CONFIG)
    assert index.search("fig", weighting=QueryWeighting(length="mean")) == []
