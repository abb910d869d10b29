from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import reference
from support.strategies import document_weightings, texts, weightings, words

from rag_bm25.documents.encoder import DocumentEncoder, LengthUnit, _with_ids
from rag_bm25.documents.token_numbers import number_tokens
from rag_bm25.vectors.sparse import SparseBatch
from rag_bm25.vectors.terms import NO_TERMS_ID, term_id
from rag_bm25.weighting.document import DocumentWeighting
from rag_bm25.weighting.fields import FieldWeight

IDS = {"a": 5, "b": 3, "c": 2**32 - 2}


def encoder(length_unit: LengthUnit = "terms", chunk_size: float = 4) -> DocumentEncoder:
    return DocumentEncoder(str.split, DocumentWeighting(chunk_size), length_unit)


def term_frequencies(tokens: list[list[str]], ids: dict[str, int]) -> SparseBatch:
    numbered = number_tokens(tokens)
    return _with_ids(numbered.frequencies(), numbered.terms, ids)


@given(st.lists(st.lists(words, max_size=8), max_size=6))
def test_term_frequencies_are_counts(tokens: list[list[str]]) -> None:
    tf = term_frequencies(tokens, {word: term_id(word) for chunk in tokens for word in chunk})
    assert [row.to_dict() for row in tf] == [{term_id(word): chunk.count(word) for word in chunk} for chunk in tokens]


@given(st.lists(st.lists(words, max_size=8), max_size=6))
def test_ids_rise_strictly_within_each_chunk(tokens: list[list[str]]) -> None:
    tf = term_frequencies(tokens, {word: term_id(word) for chunk in tokens for word in chunk})
    assert all((np.diff(row.ids.astype(np.int64)) > 0).all() for row in tf)


def test_greatest_id_does_not_run_into_the_next_chunk() -> None:
    tf = term_frequencies([["c"], ["c", "b"], ["c"]], IDS)
    assert [row.to_dict() for row in tf] == [{2**32 - 2: 1}, {3: 1, 2**32 - 2: 1}, {2**32 - 2: 1}]


def test_terms_of_one_id_are_counted_together() -> None:
    tf = term_frequencies([["a", "x", "a"], ["x"], ["b", "a"]], {"a": 5, "x": 5, "b": 3})
    assert [row.to_dict() for row in tf] == [{5: 3}, {5: 1}, {3: 1, 5: 1}]
    assert tf.values.dtype == np.float32


def test_no_chunks_give_no_rows() -> None:
    encoded = encoder().encode([])
    assert (len(encoded.vectors), encoded.lengths.tolist()) == (0, [])


def test_arrays_have_the_documented_types() -> None:
    encoded = encoder().encode(["a b", ""], IDS)
    batch = encoded.vectors
    types = (batch.indptr.dtype, batch.ids.dtype, batch.values.dtype, encoded.lengths.dtype)
    assert types == (np.int64, np.uint32, np.float32, np.int64)


@given(st.lists(texts(), max_size=5), document_weightings, st.sampled_from(["terms", "characters"]))
def test_weights_are_the_printed_formula(chunks: list[str], weighting: DocumentWeighting, unit: LengthUnit) -> None:
    encoded = DocumentEncoder(str.split, weighting, unit).encode(chunks)
    for text, vector, length in zip(chunks, encoded.vectors, encoded.lengths.tolist(), strict=True):
        tokens = text.split()
        assert length == (len(tokens) if unit == "terms" else len(text))
        model = reference.BM25(
            weighting.chunk_size, weighting.k1, weighting.b, form=weighting.form, delta=weighting.delta
        )
        expected = {term_id(term): model.weight(term, tokens, length, {}) for term in tokens}
        assert vector.to_dict() == pytest.approx(expected or {NO_TERMS_ID: 1.0}, rel=1e-6)


def test_characters_are_code_points_not_bytes() -> None:
    assert encoder("characters").encode(["中文 检索", "é𝄞"]).lengths.tolist() == [5, 2]


def test_lengths_in_terms_leave_bigrams_out() -> None:
    made = DocumentEncoder(lambda _: ["劳动", "合同", "\0劳动", "\0动合"], DocumentWeighting(4), "terms")
    encoded = made.encode(["劳动合同"])
    assert encoded.lengths.tolist() == [2]
    assert set(encoded.vectors[0].to_dict()) == set(map(term_id, ["劳动", "合同", "\0劳动", "\0动合"]))


def test_empty_mapping_of_ids_is_not_taken_for_none() -> None:
    with pytest.raises(KeyError):
        encoder().encode(["a"], {})


def test_each_text_is_analysed_once() -> None:
    seen: list[str] = []

    def analyzer(text: str) -> list[str]:
        seen.append(text)
        return text.split()

    DocumentEncoder(analyzer, DocumentWeighting(4), "terms").encode(["a", "b"], IDS)
    assert seen == ["a", "b"]


# Fields

TITLE = FieldWeight(chunk_size=2, weight=3.0, b=0.5)
FIELDED = DocumentEncoder(str.split, DocumentWeighting(4, fields={"title": TITLE}), "terms")


@pytest.mark.parametrize("metadata", [{}, {"title": None}, {"title": ""}, {"title": []}, {"title": 7}, {"other": "c"}])
def test_chunk_without_the_field_is_its_text(metadata: dict[str, object]) -> None:
    (vector,) = FIELDED.encode(["a b"], IDS, [metadata]).vectors
    (plain,) = encoder().encode(["a b"], IDS).vectors
    assert vector == plain


@given(st.lists(st.tuples(texts(), texts()), min_size=1, max_size=5), weightings(max_fields=2))
def test_fields_change_no_bit_of_chunks_that_have_none(
    chunks: list[tuple[str, str]], weighting: DocumentWeighting
) -> None:
    name = next(iter(weighting.fields), "x")
    metadatas = [{name: text} if text else {} for _, text in chunks]
    bodies = [text for text, _ in chunks]
    with_fields = DocumentEncoder(str.split, weighting, "terms").encode(bodies, None, metadatas).vectors
    without = DocumentEncoder(str.split, replace(weighting, fields={}), "terms").encode(bodies).vectors
    for one, plain, metadata in zip(with_fields, without, metadatas, strict=True):
        assert metadata or one == plain


def test_chunk_that_is_only_a_title_has_its_terms() -> None:
    encoded = FIELDED.encode(["", "", "b"], IDS, [{"title": "c"}, {}, {"title": "a"}])
    assert [list(row.to_dict()) for row in encoded.vectors] == [[2**32 - 2], [NO_TERMS_ID], [3, 5]]


def test_values_of_a_list_are_one_text() -> None:
    listed, joined = FIELDED.encode(["b", "b"], IDS, [{"title": ["a", "c a"]}, {"title": "a c a"}]).vectors
    assert listed == joined


def test_without_metadata_fields_are_empty() -> None:
    assert FIELDED.encode(["a b"], IDS).vectors[0] == FIELDED.encode(["a b"], IDS, [{}]).vectors[0]


def test_no_chunks_with_fields_give_no_rows() -> None:
    assert len(FIELDED.encode([], IDS, []).vectors) == 0


def test_terms_of_a_chunk_are_those_of_its_fields_too() -> None:
    assert FIELDED.terms("b a b", {"title": "c a"}) == ["b", "a", "c"]


def test_field_counts_have_the_length_of_the_field() -> None:
    counts = FIELDED.field_counts({"title": "a a c"})["title"]
    assert (dict(counts.tf), counts.length) == ({"a": 2, "c": 1}, 3)
    in_characters = DocumentEncoder(str.split, FIELDED.weighting, "characters")
    assert in_characters.field_counts({"title": "a a c"})["title"].length == 5


@given(st.lists(st.tuples(texts(), texts(), texts()), min_size=1, max_size=5), weightings(max_fields=2), st.data())
def test_vector_with_fields_does_not_depend_on_its_batch(
    chunks: list[tuple[str, str, str]], weighting: DocumentWeighting, data: st.DataObject
) -> None:
    fielded = DocumentEncoder(str.split, weighting, "terms")
    names = [*weighting.fields, "x", "y"]
    metadatas = [{names[0]: one, names[1]: other} for _, one, other in chunks]
    order = data.draw(st.permutations(range(len(chunks))))
    together = fielded.encode([chunks[at][0] for at in order], None, [metadatas[at] for at in order])
    for place, at in enumerate(order):
        alone = fielded.encode([chunks[at][0]], None, [metadatas[at]])
        assert together.vectors[place] == alone.vectors[0]
