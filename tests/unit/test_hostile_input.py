"""Whatever is given to a public method: an error of ours that names it, before anything is written, or it is right."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import (
    MMR,
    RM3,
    AnalyzerConfig,
    BM25Index,
    Chunk,
    FieldWeight,
    FilterError,
    Fuzzy,
    Grouping,
    Hit,
    IndexConfig,
    InputError,
    NearDuplicates,
    ParameterError,
    Query,
    QueryExpansion,
    QueryPart,
    QueryWeighting,
    Rocchio,
    Synonyms,
)
from rag_bm25.ingestion.source_roots import read_source_roots, set_source_roots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Call = Callable[[BM25Index, Any], object]

WRITES = {"create", "insert_chunks", "delete_chunks", "insert_log", "delete_log"}


class Silent:
    """Cannot be shown, compared or asked whether it is true."""

    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __bool__ = __eq__ = __repr__  # type: ignore[assignment]
    __hash__ = object.__hash__


class Word(str, Enum):
    """``str(Word.APPLE)`` is ``Word.APPLE``."""

    APPLE = "apple"
    LUCENE = "lucene"
    ALL = "all"
    RELEVANT = "1"
    SPACE = "law"
    SHARE = "100%"


class Number(IntEnum):
    ONE = 1


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def stream(*items: Any) -> Iterator[Any]:
    yield from items


ARRAY = np.array(["apple", "fig"])
NO_STR = [None, 5, b"apple", 1.5, ["apple"], ARRAY, Silent(), nested(5_000)]
NO_SEQUENCE = [None, 5, "apple", b"apple", {"apple"}, {"apple": 1}, ARRAY, np.array("apple"), Silent()]
NO_TEXT = ["\0", "apple\ud800"]
NO_NAMESPACE = [*NO_STR, *NO_TEXT, "a\n", "x" * 257]
NO_NUMBER = [None, "1", math.nan, math.inf, 1j, True, -1, 10**400, np.float32(1), ARRAY, Silent(), nested(5_000)]
NO_COUNT = [*NO_NUMBER, 0, 1.0, np.int64(3), 10**20]
NO_SWITCH = [None, 0, 1, "yes", np.True_, ARRAY, Silent()]
NO_NAME = [5, "no such", b"apple", ["apple"], ARRAY, Silent(), nested(5_000), float]
NO_FILTER = [5, b"apple", ["apple"], ARRAY, Silent(), " ", "\0", {5: 1}, {"a": {}}, {"a": Silent()}, {"a": ARRAY}]
NO_JSON = [b"apple", {1}, (1,), math.nan, 1j, 10**20, np.int64(1), np.float32(1), np.True_, ARRAY, Silent(), {5: 1}]
NO_CALLABLE = [5, "print", [], ARRAY, Silent()]

# What is called, the error, how its message begins, and what is given
CASES: list[tuple[str, Call, type[Exception], str, list[Any]]] = [
    ("add", lambda i, v: i.add(v), InputError, "texts must be a sequence of str", NO_SEQUENCE),
    ("add", lambda i, v: i.add(stream("apple")), InputError, "texts must .* got generator; list", [None]),
    ("add", lambda i, v: i.add(["fig", v]), InputError, r"texts\[1\] (must be a str|has a)", [*NO_STR, *NO_TEXT]),
    ("add", lambda i, v: i.add(["a"], ids=v), InputError, "ids must be a sequence of str", NO_SEQUENCE[1:]),
    ("add", lambda i, v: i.add(["a"], ids=[v]), InputError, r"ids\[0\] ", [*NO_STR[1:], *NO_TEXT, "", "x" * 513]),
    ("add", lambda i, v: i.add(["a"], metadatas=v), InputError, "metadatas must be a sequence", NO_SEQUENCE[1:]),
    ("add", lambda i, v: i.add(["a"], metadatas=[v]), InputError, r"metadatas\[0\] must be a mapping", NO_STR[1:]),
    ("add", lambda i, v: i.add(["a"], metadatas=[{"x": v}]), InputError, r"metadatas\[0\]\['x'\]", NO_JSON),
    (
        "add",
        lambda i, v: i.add(["a"], metadatas=[{"x": [{"y": v}]}]),
        InputError,
        r"meta.*\['x'\]\[0\]\['y'\]",
        NO_JSON,
    ),
    (
        "add",
        lambda i, v: i.add(["a"], metadatas=[{v: 1}]),
        InputError,
        r"metadatas\[0\] (has the )?key",
        [5, None, "\0"],
    ),
    (
        "add",
        lambda i, v: i.add(["a"], metadatas=[{"title": v}]),
        InputError,
        r".*\['title'\] must be a s",
        [5, [5], {}],
    ),
    ("add", lambda i, v: i.add(["a"], namespace=v), InputError, "namespace (must|has)", NO_NAMESPACE),
    ("add", lambda i, v: i.add(["a"], assume_new=v), ParameterError, "assume_new must be True or False", NO_SWITCH),
    ("add", lambda i, v: i.add(["a"], workers=v), ParameterError, r"workers must be an int in 0\.\.61", NO_NUMBER),
    ("add", lambda i, v: i.add(["a"], embeddings=v), InputError, "embeddings given, but memory has no", [[[1.0]], len]),
    # Hits
    (
        "group",
        lambda i, v: i.search("fig", group=Grouping(v)),
        ParameterError,
        "key must be a str",
        NO_STR[1:],
    ),
    (
        "group_size",
        lambda i, v: i.search("fig", group=Grouping("a", size=v)),
        ParameterError,
        r"size must be an int in 1\.\.16384",
        NO_COUNT,
    ),
    (
        "group_score",
        lambda i, v: i.search("fig", group=Grouping("a", score=v)),
        ParameterError,
        "score must be one of max, sum",
        NO_NAME,
    ),
    (
        "near",
        lambda i, v: i.search("fig", diversity=NearDuplicates(v)),
        ParameterError,
        r"cosine must be a number in \(0, 1\]",
        [*NO_NUMBER[1:6], *NO_NUMBER[6:], 0, 2],
    ),
    (
        "mmr",
        lambda i, v: i.search("fig", diversity=MMR(v)),
        ParameterError,
        r"trade_off must be a number in \[0, 1\]",
        NO_NUMBER[1:],
    ),
    (
        "candidates",
        lambda i, v: i.search("fig", candidates=v),
        ParameterError,
        r"candidates must be an int in 1\.\.16384",
        NO_COUNT[1:],
    ),
    ("boosts", lambda i, v: i.search("fig", boosts=v), ParameterError, "boosts must be a sequence of", NO_STR[1:]),
    ("rerank", lambda i, v: i.search("fig", rerank=v), ParameterError, "rerank must be a callable", NO_CALLABLE),
    ("expand", lambda i, v: i.search("fig", context=v), ParameterError, "context must be one of neighbors", NO_NAME),
    ("neighbors", lambda i, v: i.neighbors(v), InputError, "hit must be a Hit or a Chunk", NO_STR),
    (
        "neighbors",
        lambda i, v: i.neighbors(Chunk("1", "fig"), v),
        ParameterError,
        r"before must be an int in 0\.\.16384",
        NO_NUMBER[1:],
    ),
    ("more_like_this", lambda i, v: i.more_like_this(v), InputError, "id (must|has)", [*NO_STR, *NO_TEXT, ""]),
    (
        "more_like_this",
        lambda i, v: i.more_like_this("1", max_terms=v),
        ParameterError,
        r"max_terms must be an int in 1\.\.1024",
        NO_COUNT,
    ),
    (
        "more_like_this",
        lambda i, v: i.more_like_this("1", **v),
        ParameterError,
        ".* is not supported here: the query is a stored vector",
        [{"expansion": QueryExpansion()}, {"min_should_match": 2}, {"feedback": Rocchio(["1"])}],
    ),
    ("roots", lambda i, v: read_source_roots(i, namespace=v), InputError, "namespace (must|has)", NO_NAMESPACE),
    (
        "roots",
        lambda i, v: set_source_roots(i, v),
        InputError,
        "roots must be a sequence of SourceRoot",
        [*NO_SEQUENCE, ["apple"]],
    ),
    (
        "roots",
        lambda i, v: set_source_roots(i, [], namespace=v),
        InputError,
        "namespace (must|has)",
        NO_NAMESPACE,
    ),
    ("stream", lambda i, v: i.add_stream(v), InputError, "chunks must be an iterable", [None, 5, np.array("a"), len]),
    ("stream", lambda i, v: i.add_stream(v), InputError, "chunk 0 of the stream: it must have id, text", ["ab", [5]]),
    ("stream", lambda i, v: i.add_stream([Chunk("1", v)]), InputError, "chunk 0 of the stream: text", NO_STR),
    ("stream", lambda i, v: i.add_stream([Chunk(v, "a")]), InputError, "chunk 0 of the stream: id", NO_STR[1:]),
    ("stream", lambda i, v: i.add_stream([Chunk("1", "a", v)]), InputError, "chunk 0 .* a mapping", NO_STR[1:]),
    ("stream", lambda i, v: i.add_stream([Chunk("9", "a")], progress=v), ParameterError, "progress must", NO_CALLABLE),
    ("stream", lambda i, v: i.add_stream([], namespace=v), InputError, "namespace (must|has)", NO_NAMESPACE),
    ("stream", lambda i, v: i.add_stream([], embeddings=v), InputError, "embeddings of a stream must", NO_CALLABLE),
    ("delete", lambda i, v: i.delete(v), InputError, "ids must be a sequence of str", NO_SEQUENCE[1:]),
    ("delete", lambda i, v: i.delete([v]), InputError, r"ids\[0\] ", NO_STR),
    ("delete", lambda i, v: i.delete(filter=v), FilterError, ".*", NO_FILTER),
    ("delete", lambda i, v: i.delete(filter=v), InputError, "delete needs (a filter|ids)", [{}, None]),
    ("delete", lambda i, v: i.delete(["1"], namespace=v), InputError, "namespace (must|has)", NO_NAMESPACE),
    ("drop", lambda i, v: i.drop_namespace(v), InputError, "namespace (must|has)", NO_NAMESPACE),
    ("get", lambda i, v: i.get(v), InputError, "ids must be a sequence of str", NO_SEQUENCE),
    ("get", lambda i, v: i.get([v]), InputError, r"ids\[0\] ", NO_STR),
    ("get", lambda i, v: i.get(["1"], namespace=v), InputError, "namespace (must|has)", NO_NAMESPACE),
    ("chunks", lambda i, v: i.chunks(filter=v), FilterError, ".*", NO_FILTER),
    ("chunks", lambda i, v: i.chunks(namespace=v), InputError, "namespace must", [[], {}, 5, b"a", ["a", 5], ARRAY]),
    ("search", lambda i, v: i.search(v), InputError, "a (part of a )?query must be a str", NO_STR),
    ("search", lambda i, v: i.search({"apple": v}), InputError, "boost of 'apple' must be a number", NO_NUMBER),
    ("search", lambda i, v: i.search({v: 1.0}), InputError, "a part of a query must be a str", [5, None, b"a"]),
    ("search", lambda i, v: i.search("apple", v), ParameterError, r"k must be an int in 1\.\.16384", NO_COUNT),
    ("search", lambda i, v: i.search("apple", filter=v), FilterError, ".*", NO_FILTER),
    (
        "search",
        lambda i, v: i.search("apple", namespace=v),
        InputError,
        "namespace must",
        [[], {}, 5, b"a", [5], ARRAY],
    ),
    (
        "search",
        lambda i, v: i.search("apple", weighting=QueryWeighting(idf=v)),
        ParameterError,
        "idf must be one of epsilon",
        NO_NAME,
    ),
    (
        "search",
        lambda i, v: i.search("apple", statistics=v),
        ParameterError,
        "statistics must be one of namespace",
        NO_NAME,
    ),
    (
        "search",
        lambda i, v: i.search("apple", weighting=QueryWeighting(k3=v)),
        ParameterError,
        "k3 must be",
        NO_NUMBER[1:],
    ),
    (
        "search",
        lambda i, v: i.search("apple", weighting=QueryWeighting(epsilon=v)),
        ParameterError,
        "epsilon must be",
        NO_NUMBER[1:],
    ),
    (
        "search",
        lambda i, v: i.search("apple", weighting=QueryWeighting(bigram_weight=v)),
        ParameterError,
        "bigram_weight must be",
        NO_NUMBER[1:],
    ),
    (
        "search",
        lambda i, v: i.search("apple", weighting=QueryWeighting(latin_weight=v)),
        ParameterError,
        "latin_weight must be",
        NO_NUMBER[1:],
    ),
    (
        "search",
        lambda i, v: i.search(Query.parse(v)),
        InputError,
        "a query must be a str",
        NO_STR,
    ),
    ("search", lambda i, v: i.search("apple", expansion=v), ParameterError, "expansion must be a Query", NO_CALLABLE),
    (
        "search",
        lambda i, v: i.search("apple", feedback=v),
        ParameterError,
        "feedback must be a Rocchio",
        [False, RM3, 1],
    ),
    (
        "search",
        lambda i, v: i.search("apple", feedback=Rocchio(relevant=v)),
        ParameterError,
        "relevant must be a seq",
        NO_SEQUENCE[1:],
    ),
    (
        "search",
        lambda i, v: i.search("apple", feedback=Rocchio(irrelevant=v)),
        ParameterError,
        "irrelevant must be a seq",
        [[value] for value in NO_STR],
    ),
    (
        "search",
        lambda i, v: i.search("apple", min_should_match=v),
        ParameterError,
        "min_should_match must",
        NO_NAME[1:],
    ),
    ("search", lambda i, v: i.search("apple", search_params=v), ParameterError, "search_params must", NO_CALLABLE),
    ("search", lambda i, v: i.search_batch(v), InputError, "queries must be a sequence", NO_SEQUENCE),
    ("encode", lambda i, v: i.encode_documents(v), InputError, "texts must be a sequence of str", NO_SEQUENCE),
    ("encode", lambda i, v: i.encode_documents(["a", v]), InputError, r"texts\[1\] must be a str", NO_STR),
    ("encode", lambda i, v: i.encode_documents(["a"], v), InputError, "metadatas", [5, "a", [], ["a"], [5]]),
    ("encode", lambda i, v: i.encode_documents(["a"], [{"title": v}]), InputError, r".*\['title'\] must be", [5, [5]]),
    ("encode", lambda i, v: i.encode_queries(v), InputError, "queries must be a sequence", NO_SEQUENCE),
    ("encode", lambda i, v: i.encode_queries(["a"], min_should_match=v), ParameterError, "min_should_match ", [1]),
    ("encode", lambda i, v: i.max_scores(v), InputError, "queries must be a sequence", NO_SEQUENCE),
    ("suggest", lambda i, v: i.suggest(v), InputError, "a query must", [*NO_STR, "x" * 65_536]),
    ("suggest", lambda i, v: i.suggest("aple", fuzzy=v), ParameterError, "fuzzy must be a Fuzzy", [True, 1, Fuzzy, {}]),
    (
        "suggest",
        lambda i, v: i.suggest("aple", statistics=v),
        ParameterError,
        "statistics must be one of namespace",
        NO_NAME,
    ),
    ("suggest", lambda i, v: i.suggest("aple", namespace=v), InputError, "namespace must", [[], {}, 5, b"a", [5]]),
    (
        "search",
        lambda i, v: i.search(Query("apple", must=v)),
        InputError,
        "must must be a sequence of str",
        ["a", b"a", 5, {}],
    ),
    (
        "search",
        lambda i, v: i.search(Query("apple", must_not=[v])),
        InputError,
        r"must_not\[0\] must be",
        [*NO_STR, "", " "],
    ),
    (
        "search",
        lambda i, v: i.search(Query("apple", phrases=[v])),
        InputError,
        r"phrases\[0\] must be",
        [*NO_STR, "", " "],
    ),
    (
        "search",
        lambda i, v: i.search(Query("apple", slop=v)),
        ParameterError,
        "slop must be",
        [-1, 1001, "1", True, 1.5],
    ),
    (
        "encode",
        lambda i, v: i.encode_queries([Query("a", must=v)]),
        ParameterError,
        "must, must_not and phrases",
        [["a"]],
    ),
    ("terms", lambda i, v: i.term_statistics(v), InputError, "terms must be a sequence", [None, 5, b"a", {"a"}, ARRAY]),
    ("terms", lambda i, v: i.term_statistics([v]), InputError, r"terms\[0\] must be a str", NO_STR),
    ("terms", lambda i, v: i.term_statistics("a", filter=v), FilterError, "", [5, "a", {"a": []}]),
    ("terms", lambda i, v: i.term_statistics("a", v), InputError, "namespace must", [[], {}, 5, [5]]),
    ("names", lambda i, v: i.frequent_names(namespace=v), InputError, "namespace must", [[], {}, 5, [5]]),
    ("terms", lambda i, v: i.terms(prefix=v), InputError, "prefix must be a str", NO_STR),
    ("terms", lambda i, v: i.terms(k=v), ParameterError, "k must be", [0, 1_000_001, "1", True, None]),
    ("explain", lambda i, v: i.explain(v, "1"), InputError, "a (part of a )?query must be a str", NO_STR),
    ("explain", lambda i, v: i.explain("apple", v), InputError, "id (must|has)", [*NO_STR, *NO_TEXT, ""]),
    ("explain", lambda i, v: i.explain("apple", "1", namespace=v), InputError, "namespace must", [[], {}, 5, [5]]),
    ("chunk_terms", lambda i, v: i.chunk_terms(v), InputError, "id (must|has)", [*NO_STR, *NO_TEXT, ""]),
    ("highlight", lambda i, v: i.highlight(v, "apple"), InputError, "a (part of a )?query must be a str", NO_STR),
    ("diagnose", lambda i, v: i.diagnose(v), InputError, "a (part of a )?query must be a str", NO_STR),
    (
        "diagnose",
        lambda i, v: i.diagnose("apple", min_score=v),
        ParameterError,
        "min_score must be a finite number",
        ["1", [], float("nan"), float("inf")],
    ),
    ("diagnose", lambda i, v: i.diagnose("apple", v), InputError, "id (must|has)", [*NO_STR[1:], *NO_TEXT, ""]),
    (
        "explain",
        lambda i, v: i.explain("apple", "1", chunk_namespace=v),
        InputError,
        "chunk_namespace ",
        NO_NAMESPACE[1:],
    ),
    ("stats", lambda i, v: i.stats(namespace=v), InputError, "namespace must", [[], {}, 5, b"a", [5], ARRAY]),
    (
        "calibrate_answers",
        lambda i, v: i.calibrate_answers(v, lambda *_: True),
        InputError,
        "queries must be a sequence",
        NO_SEQUENCE,
    ),
    (
        "calibrate_answers",
        lambda i, v: i.calibrate_answers([], v),
        ParameterError,
        "is_answer must be a callable",
        [None, *NO_CALLABLE],
    ),
    ("reencode", lambda i, v: i.reencode(progress=v), ParameterError, "progress must be a callable", NO_CALLABLE),
    ("repair", lambda i, v: i.repair(progress=v), ParameterError, "progress must be a callable", NO_CALLABLE),
    ("verify", lambda i, v: i.verify(progress=v), ParameterError, "progress must be a callable", NO_CALLABLE),
    (
        "files",
        lambda _, v: Synonyms.read(v),
        ParameterError,
        "path must be a str or a Path",
        [None, 1, "\0", b"a", "", " "],
    ),
    ("words", lambda _, v: Synonyms.parse(v), InputError, "synonyms must be a str", NO_STR),
    ("words", lambda _, v: Synonyms.of(v), InputError, "synonyms must be a mapping", NO_STR),
    ("words", lambda _, v: Synonyms.of({"a": v}), InputError, "synonyms of 'a'", [*NO_STR[:4], np.array("a"), [5]]),
    ("words", lambda _, v: Synonyms(v), InputError, "rules must be a tuple of SynonymRule", [*NO_STR, ("a",)]),
    ("words", lambda _, v: Fuzzy(max_edits=v), ParameterError, "max_edits must be one of auto", NO_NAME),
    ("query", lambda _, v: Query.parse(v), InputError, "a query must be a str", NO_STR),
    ("query", lambda _, v: QueryPart("a", prefix=v), InputError, "prefix of 'a' must be True or False", NO_SWITCH),
    ("config", lambda _, v: IndexConfig(v), ParameterError, "chunk_size must be a finite number > 0", NO_NUMBER),
    ("config", lambda _, v: IndexConfig(5, idf=v), ParameterError, "idf must be one of", NO_NAME),
    ("config", lambda _, v: IndexConfig(5, weighting=v), ParameterError, "weighting must be one of", NO_NAME),
    ("config", lambda _, v: IndexConfig(5, length_unit=v), ParameterError, "length_unit must be one of", NO_NAME),
    ("config", lambda _, v: IndexConfig(5, dense_metric=v), ParameterError, "dense_metric must be one of", NO_NAME),
    ("config", lambda _, v: IndexConfig(5, dense_dim=v), ParameterError, "dense_dim must be an int", NO_COUNT[1:]),
    ("config", lambda _, v: IndexConfig(5, delta=v), ParameterError, "delta must be ", NO_NUMBER[1:]),
    (
        "config",
        lambda _, v: IndexConfig(5, fields=v),
        ParameterError,
        "fields must",
        [5, "a", {"a": 1}, {5: 1}, {"": 1}],
    ),
    ("config", lambda _, v: IndexConfig(5, analyzer=v), ParameterError, "analyzer must be", NO_CALLABLE),
    ("config", lambda _, v: AnalyzerConfig(segmentation=v), ParameterError, "segmentation must be one of", NO_NAME),
    (
        "config",
        lambda _, v: AnalyzerConfig(stop_words=v),
        ParameterError,
        "stop_words must be",
        [5, "a", np.array("a")],
    ),
]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def index(store: MemoryStore) -> BM25Index:
    config = IndexConfig(4, length_unit="terms", analyzer=split, fields={"title": FieldWeight(chunk_size=3)})
    index = BM25Index.from_store(store, config=config)
    index.add(["apple pie", "fig"], ids=["1", "2"], metadatas=[{"page": 1}, None])
    index.add(["apple"], ids=["1"], namespace="law")
    return index


@pytest.mark.parametrize(
    ("call", "error", "message", "values"), [pytest.param(*case, id=name) for name, *case in CASES]
)
def test_bad_input_is_an_error_of_ours_and_nothing_is_written(
    index: BM25Index, store: MemoryStore, call: Call, error: type[Exception], message: str, values: list[Any]
) -> None:
    store.calls.clear()
    for value in values:
        with pytest.raises(error, match=f"(?s)^{message}") as caught:
            call(index, value)
        assert type(caught.value) is error
        assert len(str(caught.value)) < 700
    assert WRITES.isdisjoint(store.calls)


@pytest.mark.parametrize(
    ("name", "message", "values"),
    [
        ("config", "config must be an IndexConfig or None", [5, {"chunk_size": 5}, IndexConfig, Silent()]),
        ("read_only", "read_only must be True or False", NO_SWITCH),
        ("repair", "repair must be True or False", NO_SWITCH),
        ("refresh_interval", "refresh_interval must be a finite number >= 0", NO_NUMBER),
        ("on_event", "on_event must be a callable or None", NO_CALLABLE),
    ],
)
def test_opening_is_checked_before_anything_is_made(tmp_path: Path, name: str, message: str, values: list[Any]) -> None:
    for value in values:
        options = {"config": IndexConfig(5), name: value}
        with pytest.raises(ParameterError, match=f"^{message}"):
            BM25Index.open(tmp_path / "x.db", "docs", **options)
        store = MemoryStore()
        with pytest.raises(ParameterError, match=f"^{message}"):
            BM25Index.from_store(store, **options)
        assert store.calls == ["close"]
    assert list(tmp_path.iterdir()) == []


def test_every_public_method_has_a_case() -> None:
    source = " ".join(ascii(case[1].__code__.co_names) for case in CASES)
    without_input = {"open", "from_store", "close", "refresh", "problems", "analyzer", "config"}
    dense = {"search_dense", "search_hybrid", "explain_hybrid", "get_embeddings"}  # tests/contract/test_hybrid.py
    public = {name for name in vars(BM25Index) if not name.startswith("_")}
    assert {name for name in public - without_input - dense if f"'{name}'" not in source} == set()


# Subclasses of str, int and float


@pytest.mark.parametrize("kind", [np.str_, lambda text: Word(text)], ids=["numpy", "enum"])
def test_subclasses_of_str_are_the_text_that_they_hold(
    index: BM25Index, store: MemoryStore, kind: Callable[[str], str], tmp_path: Path
) -> None:
    apple, one, law = kind("apple"), kind("1"), kind("law")
    assert [type(id_) for id_ in index.add([apple], ids=[apple], namespace=law)] == [str]
    index.add([apple], metadatas=[{apple: [{apple: apple}]}], ids=[one], namespace=law)
    index.add_stream([Chunk(one, apple, {"title": apple})], namespace=law)
    stored = store.collections.chunks.values()
    assert {type(each) for row in stored for each in (row.pk, row.id, row.text, row.namespace)} == {str}
    assert [chunk.metadata for chunk in index.get([one], namespace=law)] == [{"title": "apple"}]
    assert index.verify().ok
    expected = index.search(
        "apple",
        weighting=QueryWeighting(idf="lucene"),
        feedback=Rocchio(relevant=["1"]),
        statistics="all",
        namespace="law",
    )
    options: Any = {
        "weighting": QueryWeighting(idf=kind("lucene")),
        "statistics": kind("all"),
        "feedback": Rocchio([one]),
    }
    assert index.search(apple, namespace=[law], min_should_match=kind("100%"), **options) == expected
    assert index.search({apple: 1.0}, namespace=law, **options) == expected
    assert [hit.id for hit in index.search(apple, namespace=law, filter={"title": apple})] == ["1"]
    assert str(index.explain(apple, one, namespace=law)) == str(index.explain("apple", "1", namespace="law"))
    synonyms = QueryExpansion(Synonyms.of({kind("law"): [apple]}))
    assert [hit.id for hit in index.search("law", expansion=synonyms)] == ["1"]
    assert index.encode_documents([apple], [{"title": apple}]) == index.encode_documents(
        ["apple"], [{"title": "apple"}]
    )
    assert (index.suggest(apple), index.stats(namespace=law).num_chunks) == (None, 2)
    assert [chunk.id for chunk in index.chunks(namespace=law, filter={"title": apple})] == ["1"]
    assert (index.delete([one], namespace=law), index.drop_namespace(law)) == (1, 1)


def test_a_config_of_str_enums_is_that_of_plain_ones() -> None:
    class Name(str, Enum):
        UNIT = "terms"
        IDF = "lucene"
        WEIGHTING = "bm25+"
        METRIC = "IP"
        FIELD = "title"
        STOP = "the"
        SEGMENTATION = "exact"

    def config(kind: Callable[[str], str]) -> IndexConfig:
        analyzer = AnalyzerConfig(segmentation=kind("exact"), stop_words=[kind("the")])  # type: ignore[arg-type]
        names: Any = {"idf": kind("lucene"), "weighting": kind("bm25+"), "dense_metric": kind("IP")}
        fields = {kind("title"): FieldWeight(chunk_size=3)}
        return IndexConfig(5, length_unit=kind("terms"), analyzer=analyzer, fields=fields, dense_dim=2, **names)  # type: ignore[arg-type]

    assert repr(config(Name)) == repr(config(str))
    assert repr(config(Name).document_weighting()) == repr(config(str).document_weighting())


def test_subclasses_of_int_and_float_are_numbers(index: BM25Index) -> None:
    index.add(["fig"], ids=["3"], metadatas=[{"int": Number.ONE, "float": np.float64(1.5), "bool": True}])
    (chunk,) = index.get(["3"])
    assert repr(chunk.metadata) == "{'bool': True, 'float': 1.5, 'int': 1}"
    assert len(index.search("fig", Number.ONE)) == 1
    assert index.search("fig", filter={"int": Number.ONE}, min_should_match=Number.ONE)[0].id == "3"


def test_numbers_of_numpy_are_told_how_to_become_ones(index: BM25Index) -> None:
    with pytest.raises(InputError, match=r"^metadatas\[0\]\['page'\] must be .*, got int64; call its item\(\)"):
        index.add(["fig"], metadatas=[{"page": np.int64(3)}])
    with pytest.raises(FilterError, match=r"got np.int64\(3\); call its item\(\)|got 3; call its item\(\)"):
        index.search("fig", filter={"page": np.int64(3)})


def test_a_hit_is_no_query(index: BM25Index) -> None:
    with pytest.raises(InputError, match="got Hit"):
        index.search(Hit("1", 1.0, "apple"))  # type: ignore[arg-type]
