from __future__ import annotations

import itertools
import json
import re
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from support.strategies import any_terms, metadatas

from rag_bm25.documents import chunks as module
from rag_bm25.documents.checks import check_chunks, check_distinct, check_ids, check_namespace
from rag_bm25.documents.chunks import Chunk, Fragment, Hit, HybridHit, NewChunk, Passage, batches, pk_digest
from rag_bm25.errors import InputError
from rag_bm25.index.searching.rows import to_chunk
from rag_bm25.store.rows import ChunkRow


def refusal(*args: Any) -> str:
    with pytest.raises(InputError) as caught:
        check_chunks(*args)
    return str(caught.value)


# Keys


@given(any_terms, any_terms)
def test_digest_is_40_hex_digits(namespace: str, id_: str) -> None:
    assert re.fullmatch("[0-9a-f]{40}", pk_digest(namespace, id_))


def test_digest_never_changes() -> None:
    assert pk_digest("law", "条例 1") == "b5c66abc950d094403055724df20ee760790b584"


@pytest.mark.parametrize("other", [("", "aab"), ("a", "b"), ("aa", ""), ("ab", "a"), ("aa", "c")])
def test_digest_keeps_namespace_and_id_apart(other: tuple[str, str]) -> None:
    assert pk_digest("aa", "b") != pk_digest(*other)


def test_digest_is_not_fooled_by_a_length_prefix() -> None:
    assert pk_digest("", "1:ab") != pk_digest("1:a", "b")


# Ids and namespaces


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ("ab", "ids must be a sequence of str, got str; for a single one, pass a list: [ids]"),
        ({"a"}, "ids must be a sequence of str, got set; list(ids) may be one"),
        ([""], "ids[0] must not be empty"),
        (["a", 7], "ids[1] must be a str, got int"),
        (["x" * 513], "ids[0] has 513 bytes of UTF-8, at most 512 are allowed"),
        (["中" * 171], "ids[0] has 513 bytes of UTF-8, at most 512 are allowed"),
        (["a\0"], "ids[0] has a NUL at character 1"),
        (["ab\udc80"], "ids[0] has a lone surrogate at character 2"),
    ],
)
def test_bad_ids_are_refused(ids: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_ids(ids)
    assert str(caught.value) == message


def test_ids_up_to_512_bytes_and_with_odd_characters_are_taken() -> None:
    ids = ["x" * 512, "it's", 'a"b', "back\\slash", "line\nbreak", " ", "中文"]
    assert check_ids(ids) == ids


@pytest.mark.parametrize(
    ("namespace", "message"),
    [
        (None, "namespace must be a str, got NoneType"),
        ("a\nb", "namespace must not have control characters, got 'a\\nb'"),
        ("a\x1f", "namespace must not have control characters, got 'a\\x1f'"),
        ("a\0", "namespace has a NUL at character 1"),
        ("\ud800", "namespace has a lone surrogate at character 0"),
        ("x" * 257, "namespace has 257 bytes of UTF-8, at most 256 are allowed"),
    ],
)
def test_bad_namespace_is_refused(namespace: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_namespace(namespace)
    assert str(caught.value) == message


@pytest.mark.parametrize("namespace", ["", "law", "x" * 256, "it's", "中文"])
def test_good_namespace_is_taken(namespace: str) -> None:
    assert check_namespace(namespace) == namespace


# Texts


@pytest.mark.parametrize(
    ("texts", "ids", "message"),
    [
        ("abc", None, "texts must be a sequence of str, got str; for a single one, pass a list: [texts]"),
        ({"abc"}, None, "texts must be a sequence of str, got set; list(texts) may be one"),
        (map(str, range(1_001)), None, "texts is a map of more than 1,000 items; add_stream takes any number"),
        (np.array([["a"]]), None, "texts must have one dimension, such as a column, got a ndarray of 2"),
        (Document(page_content="a"), None, "texts must be a sequence of str, got Document; list(texts) may be one"),
        ([Chunk("1", "a")], ["1"], "ids must not be given: each Chunk of texts has its own"),
        ([Chunk("1", "a"), Chunk("", "b")], None, "texts[1]: id must not be empty"),
        (
            [Chunk("1", "a"), "b"],
            None,
            "texts[1]: it must have id, text (or page_content) and metadata as attributes, got str",
        ),
        (["a", None], None, "texts[1] must be a str, got NoneType"),
        ([b"a"], None, "texts[0] must be a str, got bytes"),
        (["a", "b\0c"], None, "texts[1] has a NUL at character 1"),
        (["ab\ud800"], None, "texts[0] has a lone surrogate at character 2"),
        (["ab\ud800"], ["law"], "texts[0] (id 'law') has a lone surrogate at character 2"),
        (["x" * 65_536], ["law"], "texts[0] (id 'law') has 65,536 bytes of UTF-8, at most 65,535 are allowed"),
        (["中" * 21_846], None, "texts[0] has 65,538 bytes of UTF-8, at most 65,535 are allowed"),
        (["a", "b"], ["1"], "ids and texts must have the same length, got 1 and 2"),
        (["a"], "1", "ids must be a sequence of str, got str; for a single one, pass a list: [ids]"),
    ],
)
def test_bad_texts_and_ids_are_refused(texts: Any, ids: Any, message: str) -> None:
    assert refusal(texts, ids, None) == message


@pytest.mark.parametrize("make", [iter, tuple, np.array, lambda items: dict.fromkeys(items).keys()])
def test_texts_and_ids_come_in_whatever_has_an_order(make: Any) -> None:
    chunks = check_chunks(make(["a", "b"]), make(["1", "2"]), None)
    assert [(chunk.id, chunk.text) for chunk in chunks] == [("1", "a"), ("2", "b")]


def test_a_column_may_be_longer_than_a_batch() -> None:
    assert len(check_chunks(np.array(["a"] * 1_001), None, None)) == 1_001


def test_documents_have_their_own_ids_and_metadata() -> None:
    documents = (Document(id="1", page_content="a", metadata={"page": 2}), Document(page_content="b"))
    assert check_chunks(iter(documents), None, None) == check_chunks(["a", "b"], ["1", None], [{"page": 2}, {}])


# Chunks of one call with one id


def different(texts: list[str], ids: list[str | None], metadatas: Any = None) -> str:
    with pytest.raises(InputError) as caught:
        check_distinct(check_chunks(texts, ids, metadatas))
    return str(caught.value)


def test_two_chunks_with_one_id_are_refused() -> None:
    message = "ids must be distinct in one call: texts[0] and texts[2] both have the id '1', and differ in their text"
    assert different(["a", "b", "c"], ["1", "2", "1"]) == message


@pytest.mark.parametrize("given_first", [True, False])
def test_an_id_that_is_the_hash_of_another_chunk_is_refused(given_first: bool) -> None:
    chunks: list[tuple[str, str | None]] = [("first", None), ("second", made_id("first"))]
    texts, ids = zip(*(reversed(chunks) if given_first else chunks), strict=True)
    assert "texts[0] and texts[1] both have the id '" in different(texts, ids)


@pytest.mark.parametrize("values", [(1, 2), (1, 1.0), (1, True), ([0], [False])])
def test_two_chunks_with_one_id_that_differ_in_metadata_are_refused(values: tuple[Any, Any]) -> None:
    message = different(["a", "a"], ["1", "1"], [{"x": value} for value in values])
    assert message.endswith("and differ in their metadata")


def test_the_same_chunk_may_be_there_twice() -> None:
    chunks = check_chunks(["a", "b", "a", "b"], [None, "1", None, "1"], [{"x": 1, "y": 2}, {}, {"y": 2, "x": 1}, {}])
    check_distinct(chunks)


def test_long_id_is_shortened_in_messages() -> None:
    assert f"both have the id '{'x' * 57}...', and" in different(["a", "b"], ["x" * 61, "x" * 61])


@pytest.mark.parametrize("text", ["x" * 65_535, "中" * 21_845, "", " ", "\x01", "line\nbreak"])
def test_odd_texts_are_taken_as_they_are(text: str) -> None:
    assert [chunk.text for chunk in check_chunks([text], None, None)] == [text]


def test_size_counts_bytes_of_text_and_metadata() -> None:
    (chunk,) = check_chunks(["中文"], ["1"], [{"a": "é"}])
    assert chunk.size == len("中文".encode()) + len('{"a": "é"}')


# Ids made from the contents


def made_id(text: str, metadata: Any = None) -> str:
    return check_chunks([text], None, [metadata])[0].id


def test_id_made_from_contents_is_32_hex_digits() -> None:
    assert re.fullmatch("[0-9a-f]{32}", made_id("text"))


def test_same_contents_have_the_same_id() -> None:
    assert made_id("text", {"a": 1, "b": 2}) == made_id("text", {"b": 2, "a": 1})
    assert made_id("text") == made_id("text", {})


@pytest.mark.parametrize(("text", "metadata"), [("texts", {}), ("text", {"a": 1}), ("text", {"a": "1"})])
def test_other_contents_have_another_id(text: str, metadata: dict[str, Any]) -> None:
    assert made_id(text, metadata) != made_id("text")


def test_one_and_true_make_different_ids() -> None:
    assert len({made_id("text", {"a": value}) for value in (1, 1.0, True)}) == 3


# Metadata


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ([1], "metadatas[0] must be a mapping, got list"),
        ({"a": float("nan")}, "metadatas[0]['a'] is nan, which JSON does not have"),
        ({"a": [1, {"b": float("-inf")}]}, "metadatas[0]['a'][1]['b'] is -inf, which JSON does not have"),
        ({"a": {"b": 1, 2: 3}}, "metadatas[0]['a'] has the key 2: keys must be str"),
        ({None: 1}, "metadatas[0] has the key None: keys must be str"),
        ({"a": "b\0"}, "metadatas[0]['a'] has a NUL at character 1"),
        ({"a": ["\udfff"]}, "metadatas[0]['a'][0] has a lone surrogate at character 0"),
        ({"\0a": 1}, "metadatas[0] key '\\x00a' has a NUL at character 0"),
        ({"a": "x" * 65_536}, "metadatas[0] has 65,545 bytes of JSON, at most 65,536 are allowed"),
    ],
)
def test_bad_metadata_is_refused(metadata: Any, message: str) -> None:
    assert refusal(["text"], None, [metadata]) == message


@pytest.mark.parametrize("value", [b"a", {1}, (1,), object(), 1j])
def test_values_that_json_does_not_have_are_refused(value: Any) -> None:
    expected = "metadatas[1]['a'] must be a JSON value (str, int, float, bool, None, list, dict), got "
    assert refusal(["t", "u"], None, [None, {"a": value}]) == expected + type(value).__name__


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{}], "metadatas and texts must have the same length, got 1 and 2"),
        ({"a": 1, "b": 2}, "metadatas must be a sequence of mappings, got dict"),
        ("ab", "metadatas must be a sequence of mappings, got str"),
        (iter([{}]), "metadatas and texts must have the same length, got 1 and 2"),
    ],
)
def test_bad_metadatas_are_refused(given: Any, message: str) -> None:
    assert refusal(["t", "u"], None, given) == message


@pytest.mark.parametrize("depth", [100, 2_000, 100_000])
def test_metadata_nested_too_deeply_is_refused(depth: int) -> None:
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    message = refusal(["t"], None, [{"a": nested}])
    assert message.startswith("metadatas[0]['a'][0][0]")
    assert message.endswith("... is nested more than 100 levels deep")


def test_metadata_of_the_greatest_depth_is_taken() -> None:
    nested: Any = 1
    for _ in range(99):
        nested = {"k": nested}
    assert check_chunks(["t"], None, [{"a": nested}])[0].metadata == {"a": nested}


def test_metadata_that_contains_itself_is_refused() -> None:
    circular: dict[str, Any] = {}
    circular["a"] = circular
    assert refusal(["t"], None, [circular]).endswith("is nested more than 100 levels deep")


@given(metadatas)
def test_metadata_is_kept_exactly(metadata: dict[str, Any]) -> None:
    (chunk,) = check_chunks(["text"], None, [metadata])
    assert json.dumps(chunk.metadata) == json.dumps(metadata, sort_keys=True) or chunk.metadata == metadata
    assert chunk.metadata is not metadata


def test_metadata_is_copied_deeply() -> None:
    given: dict[str, Any] = {"a": [1]}
    (chunk,) = check_chunks(["text"], None, [given])
    given["a"].append(2)
    assert chunk.metadata == {"a": [1]}


def test_any_mapping_will_do() -> None:
    (chunk,) = check_chunks(["text"], None, [MappingProxyType({"a": 1})])
    assert chunk.metadata == {"a": 1}


# Batches


def sized(*sizes: int) -> list[NewChunk]:
    return [NewChunk(str(number), "", {}, size) for number, size in enumerate(sizes)]


def test_no_chunks_give_no_batches() -> None:
    assert list(batches([])) == []


@given(st.lists(st.integers(0, 7), max_size=30))
def test_batches_keep_all_chunks_in_order_and_the_limits(sizes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_BATCH_CHUNKS", 4)
        patch.setattr(module, "MAX_BATCH_BYTES", 10)
        given = sized(*sizes)
        cut = list(batches(given))
        assert [chunk for batch in cut for chunk in batch] == given
        assert all(len(batch) <= 4 and sum(chunk.size for chunk in batch) <= 10 for batch in cut)
        for batch, following in itertools.pairwise(cut):
            assert len(batch) == 4 or sum(chunk.size for chunk in [*batch, following[0]]) > 10


def test_limits_of_a_batch_fit_into_one_message() -> None:
    assert (module.MAX_BATCH_CHUNKS, module.MAX_BATCH_BYTES) == (1000, 8 * 2**20)


# Reading


def test_chunk_of_a_row_has_its_facts() -> None:
    row = ChunkRow("pk", "1", "law", 7, "batch", "text", {"a": 1})
    assert to_chunk(row) == Chunk("1", "text", {"a": 1}, "law", 7)


# JSON


def test_a_hit_has_what_was_asked_for_as_json_values() -> None:
    plain = {"id": "a#0", "score": 1.5, "text": "词 a", "metadata": {"none": None, "tags": ["x"]}, "namespace": "n"}
    hit = Hit(**plain)
    assert hit.to_dict() == plain
    fragment = Fragment("词", 0, 1, 0.5, ((0, 1),))
    marked = {"text": "词", "start": 0, "end": 1, "score": 0.5, "marks": [[0, 1]]}
    context = Passage("词 a\nb", 0, 3, (Chunk("a#0", "词 a"), Chunk("a#1", "b")))
    more = {
        "highlights": (fragment,),
        "field_highlights": {"title": (fragment,)},
        "context": context,
        "group_score": 2.0,
    }
    assert HybridHit(**plain, **more, dense_score=0.0).to_dict() == {
        **plain,
        "highlights": [marked],
        "field_highlights": {"title": [marked]},
        "context": {"text": "词 a\nb", "start": 0, "end": 3, "ids": ["a#0", "a#1"]},
        "group_score": 2.0,
        "dense_score": 0.0,
    }
    assert Hit(**plain, highlights=()).to_dict() == {**plain, "highlights": []}


def test_what_changes_in_the_json_of_a_chunk_does_not_change_the_chunk() -> None:
    chunk = Chunk("a", "b", {"tags": ["x"]}, length=1)
    answer = chunk.to_dict()
    assert answer == {"id": "a", "text": "b", "metadata": {"tags": ["x"]}, "namespace": "", "length": 1}
    answer["metadata"]["tags"].append("y")
    assert chunk.metadata == {"tags": ["x"]}
