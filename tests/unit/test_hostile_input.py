"""Whatever is given to a public method: an error of ours that names it, before anything is written, or it is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import (
    MMR,
    RRF,
    RSJ,
    AnalyzerConfig,
    BM25Index,
    Chunk,
    Decay,
    FieldWeight,
    FilterError,
    FunctionBoost,
    Fuzzy,
    Grouping,
    Highlighting,
    Hit,
    IndexConfig,
    InputError,
    NearDuplicates,
    ParameterError,
    Proximity,
    Query,
    QueryExpansion,
    QueryPart,
    QueryWeighting,
    StorageOptions,
    Synonyms,
    ValueBoost,
    Weighted,
)
from rag_bm25.ingestion.source_roots import read_source_roots, set_source_roots

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
NO_COLUMN = [*(each for each in NO_SEQUENCE if each is not ARRAY), np.array([["apple", "fig"]])]
NO_TEXT = ["\0", "apple\ud800"]
NO_NAMESPACE = [*NO_STR, *NO_TEXT, "a\n", "x" * 257]
NO_NUMBER = [None, "1", math.nan, math.inf, 1j, True, -1, 10**400, np.float32(1), ARRAY, Silent(), nested(5_000)]
NO_COUNT = [*NO_NUMBER, 0, 1.0, np.int64(3), 10**20]
NO_SWITCH = [None, 0, 1, "yes", np.True_, ARRAY, Silent()]
NO_NAME = [5, "no such", b"apple", ["apple"], ARRAY, Silent(), nested(5_000), float]
NO_FILTER = [5, b"apple", ["apple"], ARRAY, Silent(), " ", "\0", {5: 1}, {"a": {}}, {"a": Silent()}, {"a": ARRAY}]
NO_JSON = [b"apple", {1}, (1,), math.nan, 1j, 10**20, np.int64(1), np.float32(1), np.True_, ARRAY, Silent(), {5: 1}]
NO_CALLABLE = [5, "print", [], ARRAY, Silent()]

# What is called, how the message begins, and what is given, by the error
CASES: dict[type[Exception], list[tuple[Call, str, list[Any]]]] = {
    InputError: [
        (lambda i, v: i.add(v), "texts must (be a s|have one)", NO_COLUMN),
        (lambda i, v: i.add(v for _ in range(1_001)), "texts is a generator of more than 1,000 .* add_stream", ["fig"]),
        (lambda i, v: i.add(["fig", v]), r"texts\[1\] (must be a str|has a)", [*NO_STR, *NO_TEXT]),
        (lambda i, v: i.add(["a"], ids=v), r"ids(\[0\])? (must be a s|and texts must)", NO_SEQUENCE[1:]),
        (lambda i, v: i.add(["a"], ids=[v]), r"ids\[0\] ", [*NO_STR[1:], *NO_TEXT, "", "x" * 513]),
        (lambda i, v: i.add(["a"], metadatas=v), r"metadatas(\[0\])? (must be a|and texts must)", NO_SEQUENCE[1:]),
        (lambda i, v: i.add(["a"], metadatas=[v]), r"metadatas\[0\] must be a mapping", NO_STR[1:]),
        (lambda i, v: i.add(["a"], metadatas=[{"x": v}]), r"metadatas\[0\]\['x'\]", NO_JSON),
        (lambda i, v: i.add(["a"], metadatas=[{"x": [{"y": v}]}]), r"meta.*\['x'\]\[0\]\['y'\]", NO_JSON),
        (lambda i, v: i.add(["a"], metadatas=[{v: 1}]), r"metadatas\[0\] (has the )?key", [5, None, "\0"]),
        (lambda i, v: i.add(["a"], metadatas=[{"title": v}]), r".*\['title'\] must be a s", [5, [5], {}]),
        (lambda i, v: i.add(["a"], namespace=v), "namespace (must|has)", NO_NAMESPACE),
        (lambda i, v: i.add(["a"], embeddings=v), "embeddings given, but memory has no", [[[1.0]], len]),
        (lambda i, v: i.neighbors(v), "hit must be a Hit or a Chunk", NO_STR),
        (lambda i, v: i.more_like_this(v), "id (must|has)", [*NO_STR, *NO_TEXT, ""]),
        (lambda i, v: read_source_roots(i, namespace=v), "namespace (must|has)", NO_NAMESPACE),
        (lambda i, v: set_source_roots(i, v), "roots must be a sequence of SourceRoot", [*NO_SEQUENCE, ["apple"]]),
        (lambda i, v: set_source_roots(i, [], namespace=v), "namespace (must|has)", NO_NAMESPACE),
        (lambda i, v: i.add_stream(v), "chunks must be an iterable", [None, 5, np.array("a"), len]),
        (lambda i, v: i.add_stream(v), "chunk 0 of the stream: it must have id, text", ["ab", [5]]),
        (lambda i, v: i.add_stream([Chunk("1", v)]), "chunk 0 of the stream: text", NO_STR),
        (lambda i, v: i.add_stream([Chunk(v, "a")]), "chunk 0 of the stream: id", NO_STR[1:]),
        (lambda i, v: i.add_stream([Chunk("1", "a", v)]), "chunk 0 .* a mapping", NO_STR[1:]),
        (lambda i, v: i.add_stream([], namespace=v), "namespace (must|has)", NO_NAMESPACE),
        (lambda i, v: i.add_stream([], embeddings=v), "embeddings of a stream must", NO_CALLABLE),
        (lambda i, v: i.delete(v), "ids must be a sequence of str", NO_SEQUENCE[1:]),
        (lambda i, v: i.delete([v]), r"ids\[0\] ", NO_STR),
        (
            lambda i, v: i.delete(filter=v),
            "delete needs .* drop_namespace",
            [{}, None],
        ),
        (lambda i, v: i.delete(["1"], filter=v), "delete needs ids or a filter, and not both", [{"page": 1}]),
        (lambda i, v: i.delete(["1"], namespace=v), "namespace (must|has)", NO_NAMESPACE),
        (lambda i, v: i.drop_namespace(v), "namespace (must|has)", NO_NAMESPACE),
        (lambda i, v: i.get(v), "ids must be a sequence of str", NO_SEQUENCE),
        (lambda i, v: i.get([v]), r"ids\[0\] ", NO_STR),
        (lambda i, v: i.get(["1"], namespace=v), "namespace (must|has)", NO_NAMESPACE),
        (lambda i, v: i.chunks(namespace=v), "namespace must", [[], {}, 5, b"a", ["a", 5], ARRAY]),
        (lambda i, v: i.search(v), "a (part of a )?query must be a str", NO_STR),
        (
            lambda i, v: i.search({"apple": v}),
            r"boost of 'apple' must be a number in 0\.001\.\.1000",
            [*NO_NUMBER, 0, 1e-4, 1001],
        ),
        (lambda i, v: i.search({v: 1.0}), "a part of a query must be a str", [5, None, b"a"]),
        (lambda i, v: i.search("apple", namespace=v), "namespace must", [[], {}, 5, b"a", [5], ARRAY]),
        (lambda i, v: i.search(Query.parse(v)), "a query must be a str", NO_STR),
        (lambda i, v: i.search_batch(v), "queries must be a sequence", NO_SEQUENCE),
        (lambda i, v: i.encode_documents(v), "texts must be a sequence of str", NO_SEQUENCE),
        (lambda i, v: i.encode_documents(["a", v]), r"texts\[1\] must be a str", NO_STR),
        (lambda i, v: i.encode_documents(["a"], v), "metadatas", [5, "a", [], ["a"], [5]]),
        (lambda i, v: i.encode_documents(["a"], [{"title": v}]), r".*\['title'\] must be", [5, [5]]),
        (lambda i, v: i.encode_queries(v), "queries must be a sequence", NO_SEQUENCE),
        (lambda i, v: i.max_scores(v), "queries must be a sequence", NO_SEQUENCE),
        (lambda i, v: i.suggest(v), "a query must", [*NO_STR, "x" * 65_536]),
        (lambda i, v: i.suggest("aple", namespace=v), "namespace must", [[], {}, 5, b"a", [5]]),
        (lambda i, v: i.search(Query("apple", must=v)), "must must be a sequence of str", ["a", b"a", 5, {}]),
        (lambda i, v: i.search(Query("apple", must_not=[v])), r"must_not\[0\] must be", [*NO_STR, "", " "]),
        (lambda i, v: i.search(Query("apple", phrases=[v])), r"phrases\[0\] must be", [*NO_STR, "", " "]),
        (lambda i, v: i.term_statistics(v), "terms must be a sequence", [None, 5, b"a", {"a"}, ARRAY]),
        (lambda i, v: i.term_statistics([v]), r"terms\[0\] must be a str", NO_STR),
        (lambda i, v: i.term_statistics("a", v), "namespace must", [[], {}, 5, [5]]),
        (lambda i, v: i.frequent_names(namespace=v), "namespace must", [[], {}, 5, [5]]),
        (lambda i, v: i.terms(prefix=v), "prefix must be a str", NO_STR),
        (lambda i, v: i.explain(v, "1"), "a (part of a )?query must be a str", NO_STR),
        (lambda i, v: i.explain("apple", v), "id (must|has)", [*NO_STR, *NO_TEXT, ""]),
        (lambda i, v: i.explain("apple", "1", namespace=v), "namespace must", [[], {}, 5, [5]]),
        (lambda i, v: i.chunk_terms(v), "id (must|has)", [*NO_STR, *NO_TEXT, ""]),
        (lambda i, v: i.highlight(v, "apple"), "a (part of a )?query must be a str", NO_STR),
        (lambda i, v: i.diagnose(v), "a (part of a )?query must be a str", NO_STR),
        (lambda i, v: i.diagnose("apple", v), "id (must|has)", [*NO_STR[1:], *NO_TEXT, ""]),
        (lambda i, v: i.explain("apple", "1", chunk_namespace=v), "chunk_namespace ", NO_NAMESPACE[1:]),
        (lambda i, v: i.stats(namespace=v), "namespace must", [[], {}, 5, b"a", [5], ARRAY]),
        (lambda i, v: i.calibrate_answers(v, lambda *_: True), "queries must be a sequence", NO_SEQUENCE),
        (lambda _, v: Synonyms.parse(v), "synonyms must be a str", NO_STR),
        (lambda _, v: Synonyms.of(v), "synonyms must be a mapping", NO_STR),
        (lambda _, v: Synonyms.of({"a": v}), "synonyms of 'a'", [*NO_STR[:4], np.array("a"), [5]]),
        (lambda _, v: Synonyms(v), "rules must be a tuple of SynonymRule", [*NO_STR, ("a",)]),
        (lambda _, v: Query(v), r"text(\[\d\])? must be a", [("a",), (QueryPart("a"), None), [QueryPart("a")]]),
        (lambda _, v: Synonyms.of({"a": {"b": v}}), r"synonyms of 'a': weight .* in 0\.001\.\.1", [*NO_NUMBER, 0, 2]),
        (lambda _, v: Synonyms.of({v: ["b"]}), "synonyms of .*: a word must be a str and not blank", [" ", "", 5]),
        (lambda _, v: Query.parse(v), "a query must be a str", NO_STR),
        (lambda _, v: QueryPart("a", prefix=v), "prefix of 'a' must be True or False", NO_SWITCH),
    ],
    ParameterError: [
        (lambda i, v: i.add(["a"], assume_new=v), "assume_new must be True or False", NO_SWITCH),
        (lambda i, v: i.add(["a"], workers=v), r"workers must be an int in 0\.\.61", NO_NUMBER),
        (lambda i, v: i.search("fig", group=Grouping(v)), "key must be a str", NO_STR[1:]),
        (lambda i, v: i.search("fig", group=Grouping("a", size=v)), r"size must be an int in 1\.\.16384", NO_COUNT),
        (lambda i, v: i.search("fig", group=Grouping("a", score=v)), "score must be one of max, sum", NO_NAME),
        (
            lambda i, v: i.search("fig", diversity=NearDuplicates(v)),
            r"cosine must be a number in \(0, 1\]",
            [*NO_NUMBER[1:6], *NO_NUMBER[6:], 0, 2],
        ),
        (lambda i, v: i.search("fig", diversity=MMR(v)), r"trade_off must be a number in \[0, 1\]", NO_NUMBER[1:]),
        (lambda i, v: i.search("fig", candidates=v), r"candidates must be an int in 1\.\.16384", NO_COUNT[1:]),
        (lambda i, v: i.search("fig", boosts=v), "boosts must be a sequence of", NO_STR[1:]),
        (lambda i, v: i.search("fig", rerank=v), "rerank must be a callable", NO_CALLABLE),
        (lambda i, v: i.search("fig", context=v), "context must be one of neighbors", NO_NAME),
        (lambda i, v: i.neighbors(Chunk("1", "fig"), v), r"before must be an int in 0\.\.16384", NO_NUMBER[1:]),
        (lambda i, v: i.more_like_this("1", max_terms=v), r"max_terms must be an int in 1\.\.1024", NO_COUNT),
        (
            lambda i, v: i.more_like_this("1", **v),
            ".* is not supported here: the query is a stored vector",
            [{"expansion": QueryExpansion()}, {"min_should_match": 2}, {"feedback": RSJ(["1"])}],
        ),
        (lambda i, v: i.add_stream([Chunk("9", "a")], progress=v), "progress must", NO_CALLABLE),
        (lambda i, v: i.search("apple", v), r"k must be an int in 1\.\.16384", NO_COUNT),
        (lambda i, v: i.search("apple", weighting=QueryWeighting(idf=v)), "idf must be one of epsilon", NO_NAME),
        (lambda i, v: i.search("apple", statistics=v), "statistics must be one of namespace", NO_NAME),
        (lambda i, v: i.search("apple", weighting=QueryWeighting(k3=v)), "k3 must be", NO_NUMBER[1:]),
        (lambda i, v: i.search("apple", weighting=QueryWeighting(epsilon=v)), "epsilon must be", NO_NUMBER[1:]),
        (
            lambda i, v: i.search("apple", weighting=QueryWeighting(bigram_weight=v)),
            "bigram_weight must be",
            NO_NUMBER[1:],
        ),
        (
            lambda i, v: i.search("apple", weighting=QueryWeighting(latin_weight=v)),
            "latin_weight must be",
            NO_NUMBER[1:],
        ),
        (lambda i, v: i.search("apple", expansion=v), "expansion must be a Query", NO_CALLABLE),
        (lambda i, v: i.search("apple", feedback=v), "feedback must be an RSJ", [False, RSJ, 1]),
        (lambda i, v: i.search("apple", feedback=RSJ(v)), "relevant must be a seq", NO_SEQUENCE),
        (lambda i, v: i.search("apple", feedback=RSJ(v)), "relevant must be a seq", [[value] for value in NO_STR]),
        (lambda i, v: i.search("apple", min_should_match=v), "min_should_match must", NO_NAME[1:]),
        (lambda i, v: i.search("apple", search_params=v), "search_params must", NO_CALLABLE),
        (lambda i, v: i.encode_queries(["a"], min_should_match=v), "min_should_match ", [1]),
        (lambda i, v: i.suggest("aple", fuzzy=v), "fuzzy must be a Fuzzy", [True, 1, Fuzzy, {}]),
        (lambda i, v: i.suggest("aple", statistics=v), "statistics must be one of namespace", NO_NAME),
        (lambda i, v: i.search(Query("apple", slop=v)), "slop must be", [-1, 1001, "1", True, 1.5]),
        (lambda i, v: i.encode_queries([Query("a", must=v)]), "must, must_not and phrases", [["a"]]),
        (lambda i, v: i.terms(k=v), "k must be", [0, 1_000_001, "1", True, None]),
        (
            lambda i, v: i.diagnose("apple", min_score=v),
            "min_score must be a finite number",
            ["1", [], float("nan"), float("inf")],
        ),
        (lambda i, v: i.calibrate_answers([], v), "is_answer must be a callable", [None, *NO_CALLABLE]),
        (lambda i, v: i.repair(progress=v), "progress must be a callable", NO_CALLABLE),
        (lambda i, v: i.learn_k1(progress=v), "progress must be a callable", NO_CALLABLE),
        (lambda i, v: i.verify(progress=v), "progress must be a callable", NO_CALLABLE),
        (lambda _, v: Synonyms.read(v), "path must be a str or a Path", [None, 1, "\0", b"a", "", " "]),
        (lambda _, v: Fuzzy(max_edits=v), "max_edits must be one of auto", NO_NAME),
        (lambda _, v: Decay(v, 1), "key must be a str that is not empty", [*NO_STR, ""]),
        (lambda _, v: Decay("n", v), "scale must be a finite number > 0", [*NO_NUMBER, 0]),
        (lambda _, v: Decay("n", 1, v), "origin must be a (str or a )?date", ["soon", True, math.nan, [], Silent()]),
        (lambda _, v: Decay("n", 1, shape=v), "shape must be one of exp, gauss, linear", NO_NAME),
        (lambda _, v: Decay("n", 1, decay=v), r"decay must be a number in \(0, 1\)", [*NO_NUMBER, 0, 1]),
        (lambda _, v: Decay("n", 1, floor=v), r"floor must be a number in \[0, 1\)", [*NO_NUMBER, 1]),
        (lambda _, v: Decay("n", 1, offset=v), "offset must be a finite number >= 0", NO_NUMBER),
        (lambda _, v: Decay("n", 1, missing=v), r"missing must be a number in \[0, 1,000\]", [*NO_NUMBER, 1001]),
        (lambda _, v: ValueBoost("n", v), "factors must be a mapping", [{}, *NO_STR]),
        (lambda _, v: ValueBoost("n", {"a": v}), r"factor of 'a' must be a number in \[0, 1,000\]", [*NO_NUMBER, 1001]),
        (lambda _, v: ValueBoost("n", {"a": 1}, v), r"default must be a number in \[0, 1,000\]", [*NO_NUMBER, 1001]),
        (lambda _, v: FunctionBoost(len, v), r"maximum must be a number in \(0, 1,000\]", [*NO_NUMBER, 0, 1001]),
        (lambda _, v: FunctionBoost(v, 2), "function must be a callable", NO_CALLABLE),
        (lambda i, v: Proximity(i, weight=v), "weight must be a finite number >= 0", NO_NUMBER),
        (lambda i, v: Proximity(i, depth=v), r"depth must be an int in 1\.\.16384", NO_COUNT),
        (lambda _, v: Highlighting(v), r"max_fragments must be an int in 1\.\.1000", [*NO_COUNT, 1001]),
        (lambda _, v: Highlighting(size=v), r"size must be an int in 20\.\.65535", [*NO_COUNT, 19, 65_536]),
        (lambda _, v: Fuzzy(prefix_length=v), r"prefix_length must be an int in 0\.\.8", [*NO_NUMBER, 9]),
        (lambda _, v: Fuzzy(max_terms=v), r"max_terms must be an int in 1\.\.1024", [*NO_COUNT, 1025]),
        (lambda _, v: Fuzzy(terms=v), "terms must be one of unknown, all", NO_NAME),
        (
            lambda _, v: QueryExpansion(v),
            "synonyms must be a Synonyms or a mapping of str",
            ["a, b", 5, ["a"], Silent()],
        ),
        (lambda _, v: QueryExpansion(fuzzy=v), "fuzzy must be a Fuzzy or True or False or None", NO_SWITCH[1:]),
        (lambda _, v: RSJ([], fb_terms=v), "fb_terms must be an int >= 0", NO_NUMBER),
        (lambda _, v: RSJ([], max_df=v), r"max_df must be a number in \(0, 1\]", [*NO_NUMBER, 0, 1.1]),
        (lambda _, v: RSJ([], min_df=v), "min_df must be an int >= 1", [*NO_NUMBER, 0, 1.0]),
        (lambda _, v: RRF(v), r"k must be a number in \(0, 16,384\)", [*NO_NUMBER, 0, 16_384]),
        (lambda _, v: Weighted(v), "sparse must be a finite number >= 0", NO_NUMBER),
        (lambda _, v: Weighted(1, v), "dense must be a finite number >= 0", NO_NUMBER),
        (lambda _, v: Weighted(0, v), "the sum of both weights must be > 0, got 0", [0]),
        (lambda _, v: Weighted(normalization=v), "normalization must be one of z-score, min-max", NO_NAME),
        (lambda _, v: FieldWeight(chunk_size=v), "chunk_size must be a finite number > 0", [*NO_NUMBER, 0]),
        (lambda _, v: FieldWeight(chunk_size=1, weight=v), r"weight .* in \[0\.001, 1,000\]", [*NO_NUMBER, 0, 1001]),
        (lambda _, v: StorageOptions(shards=v), r"shards must be an int in 1\.\.1024", [*NO_COUNT[1:], 1025]),
        (lambda _, v: StorageOptions(mmap=v), "mmap must be True or False", NO_SWITCH[1:]),
        (lambda _, v: StorageOptions(index_type=v), "index_type must be one of", NO_NAME),
        (lambda _, v: StorageOptions(inverted_index_algo=v), "inverted_index_algo must be one of", NO_NAME),
        (lambda _, v: StorageOptions(quant_type=v), "quant_type must be one of", NO_NAME),
        (lambda _, v: IndexConfig(5, k1=v), "k1 must be a finite number >= 0", NO_NUMBER),
        (lambda _, v: IndexConfig(5, b=v), r"b must be a number in \[0, 1\]", [*NO_NUMBER, 1.1]),
        (lambda i, v: i.search("fig", weighting=v), "weighting must be a QueryWeighting", NO_STR[1:]),
        (lambda i, v: i.set_query_defaults(weighting=v), "weighting must be a QueryWeighting", NO_STR[1:]),
        (lambda i, v: i.set_query_defaults(fusion=v), "fusion must be a Weighted or an RRF", NO_STR[1:]),
        (lambda i, v: i.search("fig", group=v), "group must be a Grouping", NO_STR[1:]),
        (lambda _, v: IndexConfig(v), "chunk_size must be a finite number > 0", [*NO_NUMBER, 0]),
        (lambda _, v: IndexConfig(5, idf=v), "idf must be one of", NO_NAME),
        (lambda _, v: IndexConfig(5, weighting=v), "weighting must be one of", NO_NAME),
        (lambda _, v: IndexConfig(5, length_unit=v), "length_unit must be one of", NO_NAME),
        (lambda _, v: IndexConfig(5, dense_metric=v), "dense_metric must be one of", NO_NAME),
        (lambda _, v: IndexConfig(5, dense_dim=v), r"dense_dim must be an int in 2\.\.32768", [*NO_COUNT[1:], 1]),
        (
            lambda _, v: IndexConfig(5, k3=v),
            r"k3 must be a number in \[0, 1,000,000\] or None",
            [*NO_NUMBER[1:], 1e308],
        ),
        (lambda _, v: IndexConfig(5, epsilon=v), r"epsilon must be a number in \(0, 1,000\]", [*NO_NUMBER, 0, 1001]),
        (lambda _, v: IndexConfig(5, delta=v), "delta must be ", NO_NUMBER[1:]),
        (lambda _, v: IndexConfig(5, fields=v), "fields must", [5, "a", {"a": 1}, {5: 1}, {"": 1}]),
        (lambda _, v: IndexConfig(5, analyzer=v), "analyzer must be", NO_CALLABLE),
        (lambda _, v: AnalyzerConfig(segmentation=v), "segmentation must be one of", NO_NAME),
        (lambda _, v: AnalyzerConfig(stop_words=v), "stop_words must be", [5, "a", np.array("a")]),
    ],
    FilterError: [
        (lambda i, v: i.delete(filter=v), ".*", NO_FILTER),
        (lambda i, v: i.chunks(filter=v), ".*", NO_FILTER),
        (lambda i, v: i.search("apple", filter=v), ".*", NO_FILTER),
        (lambda i, v: i.term_statistics("a", filter=v), "", [5, "a", {"a": []}]),
    ],
}


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
    ("error", "call", "message", "values"),
    [
        pytest.param(error, *case, id=" ".join(case[0].__code__.co_names))  # type: ignore[attr-defined]
        for error, cases in CASES.items()
        for case in cases
    ],
)
def test_bad_input_is_an_error_of_ours_and_nothing_is_written(
    index: BM25Index, store: MemoryStore, error: type[Exception], call: Call, message: str, values: list[Any]
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
    source = " ".join(ascii(call.__code__.co_names) for cases in CASES.values() for call, *_ in cases)  # type: ignore[attr-defined]
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
        feedback=RSJ(["1"]),
        statistics="all",
        namespace="law",
    )
    options: Any = {
        "weighting": QueryWeighting(idf=kind("lucene")),
        "statistics": kind("all"),
        "feedback": RSJ([one]),
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
