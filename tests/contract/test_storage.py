"""How each engine stores the chunks: what it can be told, and what it says that it has built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support import engines
from support.reference import split

from rag_bm25 import BM25Index, ConfigMismatchError, IndexConfig, ParameterError, StorageOptions, StoreError
from rag_bm25.store.storage import StorageInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rag_bm25.store.milvus import MilvusStore

    Open = Callable[..., MilvusStore]

CONFIG = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split)
CLASSIC = ("DAAT_MAXSCORE", "DAAT_WAND", "TAAT_NAIVE")
OTHERS: dict[str, dict[str, Any]] = {  # further options to try on each engine, beside the algorithms that all have
    "lite2": {"index_type": "SPARSE_WAND"},
    "milvus": {"shards": 2, "mmap": True, "index_type": "SPARSE_WAND"},
}
EVERY: dict[str, Any] = {"shards": 2, "mmap": True, "quant_type": "fp32", "inverted_index_algo": "DAAT_WAND"}


@pytest.fixture
def dialect(engine: str) -> str:
    if engine == "memory":
        pytest.skip("it has no options: BM25Index.open refuses them")
    return engines.dialect_of(engine)


@pytest.fixture
def made(opened: Open) -> Iterator[Open]:
    """Opens stores of one index, which is dropped after the test."""

    def open_(**options: Any) -> MilvusStore:
        return opened("built", storage=StorageOptions(**options))

    yield open_
    opened("built").drop()


def choices(dialect: str) -> list[dict[str, Any]]:
    algos = () if dialect == "lite3" else CLASSIC
    others = OTHERS.get(dialect, {})
    return [*({"inverted_index_algo": algo} for algo in algos), *([others] if others else [])]


def test_what_is_asked_for_is_built_and_shown_and_changes_no_score(dialect: str, made: Open, opened: Open) -> None:
    texts = [f"t{number % 7} t{number % 5} t{number % 3} t{number}" for number in range(60)]
    answers = []
    for options in [{}, *choices(dialect)]:
        with BM25Index.from_store(made(**options), config=CONFIG) as index:
            index.add(texts)
            storage = index.stats().storage
            assert storage is not None
            assert {name: getattr(storage, name) for name in options} == options
            answers.append([(hit.text, round(hit.score, 5)) for hit in index.search("t1 t2 t4 t17", 20)])
        opened("built").drop()
    assert answers == answers[:1] * len(answers)


def test_scores_are_as_exact_as_the_engine_says_and_rescored_ones_exact(opened: Open) -> None:
    with BM25Index.from_store(opened("rescored"), config=CONFIG) as index:
        ids = index.add([f"t1 t{number % 7} {'t2 ' * (number % 5)}{'pad ' * number}" for number in range(60)])
        exact = {id_: index.explain("t1 t2 t3", id_).value for id_ in ids}
        tolerance = (index.stats().storage or StorageInfo("none")).score_tolerance
        for rescore, error in ((False, tolerance), (True, 1e-6)):
            hits = index.search("t1 t2 t3", 60, search_params={"rescore": rescore})
            assert {hit.id: hit.score for hit in hits} == pytest.approx(exact, rel=error)
        assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.id))
        assert index.search("t1 t2 t3", 5, search_params={"rescore": True}) == hits[:5]
    opened("rescored").drop()


def test_the_engine_names_itself(dialect: str, made: Open) -> None:
    store = made()
    store.create()
    info = store.storage_info()
    assert info.engine == {"lite2": "milvus-lite 2.5", "lite3": "milvus-lite 3", "milvus": "Milvus"}[dialect]
    assert info.version
    assert info.index_type == "SPARSE_INVERTED_INDEX"
    assert info.shards == (None if dialect == "lite2" else 1)
    assert (info.mmap, info.quant_type, info.inverted_index_algo) == (None, None, None)


@pytest.mark.parametrize("name", EVERY)
def test_what_the_engine_would_ignore_is_refused_before_anything_is_made(dialect: str, made: Open, name: str) -> None:
    store = made(**{name: EVERY[name]})
    if name in store._open.storage_choices():
        pytest.skip("it has this option")
    for call in (lambda: BM25Index.from_store(made(**{name: EVERY[name]}), config=CONFIG), store.create):
        with pytest.raises(ParameterError, match=f"^{name} must be left out: [mM]ilvus"):
            call()
    assert not store.has_collections()


def test_a_creation_that_was_cut_short_is_completed_with_the_same_options(
    dialect: str, made: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = choices(dialect)
    if not tried:
        pytest.skip("it has no options")
    store = made(**tried[-1])
    monkeypatch.setattr(store._chunks, "_make", cut_short_at("create_index", store._chunks._make))
    with pytest.raises(StoreError, match="cut short"):
        store.create()
    BM25Index.from_store(made(**tried[-1]), config=CONFIG).close()
    with BM25Index.from_store(made(**tried[-1]), config=CONFIG) as index:
        storage = index.stats().storage
        assert {name: getattr(storage, name) for name in tried[-1]} == tried[-1]


def cut_short_at(method: str, make: Callable[..., None]) -> Callable[..., None]:
    def made(is_made: Any, called: str, **options: Any) -> None:
        if called == method:
            raise StoreError("cut short")
        make(is_made, called, **options)

    return made


def test_an_index_with_other_options_is_refused_and_opened_without_any(dialect: str, made: Open) -> None:
    tried = choices(dialect)
    if not tried:
        pytest.skip("it has no options")
    BM25Index.from_store(made(), config=CONFIG).add(["t1"], ids=["a"])
    for options in tried:
        with pytest.raises(ConfigMismatchError, match="was created with other storage options: ") as caught:
            BM25Index.from_store(made(**options), config=CONFIG)
        assert all(f"{name}: built" in str(caught.value) for name in options)
        with pytest.raises(ConfigMismatchError):
            made(**options).create()
    with BM25Index.from_store(made(index_type="SPARSE_INVERTED_INDEX"), config=CONFIG) as index:
        assert [hit.id for hit in index.search("t1")] == ["a"]
