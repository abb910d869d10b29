from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from support.milvus_model_reference import saved_json
from support.reference import split
from support.strategies import corpora

from rag_bm25 import FormatError, IndexConfig, MissingExtraError
from rag_bm25.adapters import BM25Encoder
from rag_bm25.adapters.milvus_model import DIMENSION, BM25EmbeddingFunction, read_json

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["apple banana", "apple fig fig", "apple cherry", "grape", "banana grape fig"]


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(saved: Any) -> BM25Encoder:
        path = tmp_path / "bm25.json"
        path.write_text(saved if isinstance(saved, str) else json.dumps(saved), encoding="utf-8")
        return read_json(path, split)

    return read


def queries_of(encoder: BM25Encoder, texts: list[str] = TEXTS) -> list[Any]:
    return encoder.encode_queries([*texts, "unknown"])


def rows(matrix: Any) -> list[dict[int, float]]:
    parts = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    return [dict(zip(matrix.indices[a:b].tolist(), matrix.data[a:b].tolist(), strict=True)) for a, b in parts]


class TestMatrices:
    def test_hold_the_vectors(self, config: IndexConfig) -> None:
        encoder = BM25Encoder(config).fit(TEXTS)
        function = BM25EmbeddingFunction(encoder)
        documents, queries = function.encode_documents(TEXTS), function.encode_queries(["apple fig", "unknown"])
        assert documents.shape == (5, DIMENSION)
        assert (documents.format, documents.dtype, function.dim) == ("csr", np.float32, DIMENSION)
        assert rows(documents) == [vector.to_dict() for vector in encoder.encode_documents(TEXTS)]
        assert rows(queries) == [vector.to_dict() for vector in encoder.encode_queries(["apple fig", "unknown"])]

    def test_of_nothing_have_no_rows(self, config: IndexConfig) -> None:
        assert BM25EmbeddingFunction(BM25Encoder(config)).encode_documents([]).shape == (0, DIMENSION)

    def test_need_scipy(self, config: IndexConfig, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "scipy.sparse", None)
        with pytest.raises(MissingExtraError, match="pip install scipy"):
            BM25EmbeddingFunction(BM25Encoder(config))


class TestMilvusModel:
    def test_gives_n_and_every_df_back(self, read: Any) -> None:
        encoder = read(saved_json(TEXTS))
        fitted = BM25Encoder(encoder.config).fit(TEXTS)
        assert encoder.num_chunks == 5
        assert queries_of(encoder) == queries_of(fitted)

    def test_gives_the_parameters_and_the_mean_length_as_chunk_size(self, read: Any) -> None:
        config = read(saved_json(TEXTS)).config
        assert (config.k1, config.b, config.epsilon, config.idf) == (1.2, 0.5, 0.25, "epsilon")
        assert (config.chunk_size, config.length_unit) == (11 / 5, "terms")

    def test_can_be_learned_on(self, read: Any) -> None:
        encoder = read(saved_json(TEXTS))
        encoder.learn(["apple", "new words"])
        fitted = BM25Encoder(encoder.config).fit([*TEXTS, "apple", "new words"])
        assert queries_of(encoder) == queries_of(fitted)

    @given(corpora(min_size=1))
    def test_gives_every_df_back_or_says_that_it_cannot(
        self, tmp_path_factory: pytest.TempPathFactory, corpus: dict[str, str]
    ) -> None:
        texts = [text for text in corpus.values() if text] or ["apple"]
        path = tmp_path_factory.mktemp("json") / "bm25.json"
        path.write_text(json.dumps(saved_json(texts)), encoding="utf-8")
        with suppress(FormatError):
            encoder = read_json(path, split)
            assert queries_of(encoder, texts) == queries_of(BM25Encoder(encoder.config).fit(texts), texts)

    def test_with_two_terms_in_most_chunks_is_refused(self, read: Any) -> None:
        with pytest.raises(FormatError, match="2 of its terms, such as 'apple', are in more than half of the chunks"):
            read(saved_json(["apple fig", "apple fig", "cherry"]))

    def test_whose_floor_could_be_a_df_is_refused(self, read: Any) -> None:
        with pytest.raises(FormatError, match="the df of 'apple' is ambiguous: its IDF may be the floor"):
            read(saved_json(["apple", "apple", "apple", "fig"]))

    def test_with_epsilon_0_and_a_term_in_most_chunks_is_refused(self, read: Any) -> None:
        with pytest.raises(FormatError, match="1 of its terms, such as 'apple'"):
            read(saved_json(["apple", "apple", "cherry"], epsilon=0.0))

    def test_with_an_idf_of_no_df_is_refused(self, read: Any) -> None:
        saved = saved_json(["apple", "fig", "cherry", "apple"])
        saved["idf_value"][1] = 9.0
        with pytest.raises(FormatError, match="an idf_value does not belong to any df"):
            read(saved)


class TestBM25Milvus:
    def test_gives_everything_back(self, read: Any) -> None:
        texts = ["apple fig", "apple fig cherry", "apple", "grape"]
        encoder = read(saved_json(texts, chunk_size=500))
        assert encoder.config.chunk_size == 500
        assert queries_of(encoder, texts) == queries_of(BM25Encoder(encoder.config).fit(texts), texts)

    def test_whose_df_were_lost_is_refused(self, read: Any) -> None:
        saved = saved_json(TEXTS, chunk_size=500)
        saved["term_document_frequencies"] = {"apple": 1}
        with pytest.raises(FormatError, match="term_document_frequencies lacks 4 of 5 terms, such as 'banana'"):
            read(saved)

    def test_whose_df_are_not_those_of_the_idf_is_refused(self, read: Any) -> None:
        saved = saved_json(TEXTS, chunk_size=500)
        saved["term_document_frequencies"]["fig"] = 1
        with pytest.raises(FormatError, match="idf_value does not belong to the df of 'fig'"):
            read(saved)


@pytest.mark.parametrize(
    ("saved", "reason"),
    [
        ("{", "it is not JSON"),
        ("[1]", 'it is not a JSON object with version "v1"'),
        ({"version": "v2"}, 'it is not a JSON object with version "v1"'),
        ({"version": "v1", "k1": 1, "b": 1, "avgdl": 1}, "it lacks corpus_size, epsilon, idf_value, idf_word"),
        ({key: value for key, value in saved_json(TEXTS).items() if key != "avgdl"}, "it lacks avgdl or chunk_size"),
        ({**saved_json(TEXTS), "idf_word": ["apple"]}, "idf_word and idf_value have different lengths"),
        ("[" * 100_000, "it is not JSON"),
        ({**saved_json(TEXTS), "corpus_size": "3"}, "corpus_size is damaged"),
        ({**saved_json(TEXTS), "corpus_size": 10**400}, "corpus_size is damaged"),
        ({**saved_json(TEXTS), "idf_word": {"a": 1}}, "idf_word is damaged"),
        ({**saved_json(TEXTS), "idf_word": ["a", "a"]}, "idf_word is damaged"),
        ({**saved_json(TEXTS), "idf_value": 1.0}, "idf_value is damaged"),
        ({**saved_json(TEXTS), "idf_value": ["1"]}, "idf_value is damaged"),
        ({**saved_json(TEXTS), "idf_value": [1e300] * 5}, "idf_value is damaged"),
        ({**saved_json(TEXTS), "idf_value": [900.0] * 5}, "5 of its terms, such as 'apple', are in more than half"),
        ({**saved_json(TEXTS), "term_document_frequencies": [1]}, "term_document_frequencies is damaged"),
        ({**saved_json(TEXTS), "avgdl": True}, "k1, b, epsilon, avgdl or chunk_size is damaged"),
        ({**saved_json(TEXTS), "epsilon": float("nan")}, "k1, b, epsilon, avgdl or chunk_size is damaged"),
    ],
)
def test_another_file_is_refused_with_the_reason(read: Any, saved: Any, reason: str) -> None:
    with pytest.raises(FormatError, match=f"cannot import the statistics in .*bm25.json: {reason}"):
        read(saved)
