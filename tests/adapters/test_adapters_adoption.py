"""Adopting a collection that others fill, over fakes: what is counted, stored, compared and refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.foreign import Foreign, Source
from support.memory_store import Collections, MemoryStore
from support.reference import Corpus, in_all_channels, split
from support.strategies import texts

from rag_bm25 import BM25Index, ConfigMismatchError, FilterError, FormatError, IndexConfig, IndexNotFoundError, Progress
from rag_bm25.adapters import AdoptedEncoder, BM25Encoder, adopt
from rag_bm25.adapters.encoder import document_encoding
from rag_bm25.errors import ParameterError
from rag_bm25.query.expansion import QueryExpansion
from rag_bm25.query.spelling import Fuzzy
from rag_bm25.statistics.log.settings import ConfigRow
from rag_bm25.statistics.portable import read_statistics
from rag_bm25.vectors.sparse import SparseVector
from rag_bm25.vectors.terms import term_id

TEXTS = ["apple banana", "apple apple cherry", "", "fig"]
QUERIES = ["apple fig", "apple apple", "unknown", ""]


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Foreign:
    return Foreign(TEXTS, monkeypatch)


def adopted(config: IndexConfig | None = None, **options: Any) -> AdoptedEncoder:
    return adopt("x.db", "X", config=config, **options)


def opened(config: IndexConfig) -> AdoptedEncoder:
    return AdoptedEncoder.open("x.db", "X", config=config)


# Counting


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(texts(), max_size=8), st.integers(1, 4))
def test_counts_what_loops_count(foreign: Foreign, tmp_path: Path, some: list[str], page: int) -> None:
    foreign.texts, foreign.page, foreign.beside = some, page, Collections()
    config = IndexConfig(chunk_size=4, length_unit="terms", analyzer=in_all_channels)
    encoder = adopted(config)
    corpus = Corpus({str(at): in_all_channels(text) for at, text in enumerate(some)})
    for figures in (encoder.stats(), opened(config).stats()):
        assert (figures.num_chunks, figures.num_terms) == (corpus.n, len(corpus.dfs()))
        assert figures.total_length == sum(len(split(text)) for text in some)
        means = figures.average_idf, figures.average_bigram_idf, figures.average_character_idf
        assert means == pytest.approx(corpus.average_idfs(), abs=1e-12)
    encoder.save(tmp_path / "file")
    _, total, _ = read_statistics(tmp_path / "file")
    counted = dict(zip(total.ids.tolist(), total.df.tolist(), strict=True))
    assert counted == {term_id(term): df for term, df in corpus.dfs().items()}


def test_pages_are_analysed_in_bounded_batches(
    foreign: Foreign, config: IndexConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_bm25.adapters.adoption.BATCH", 2)
    told: list[Progress] = []
    adopted(config, progress=told.append)
    assert told == [Progress("texts counted", done, 4) for done in (2, 3, 4)]


def test_more_rows_than_were_there_at_first_are_no_more_than_all(foreign: Foreign, config: IndexConfig) -> None:
    told: list[Progress] = []
    original = Source.count
    Source.count = lambda *_: 2  # type: ignore[method-assign]
    try:
        adopted(config, progress=told.append)
    finally:
        Source.count = original  # type: ignore[method-assign]
    assert told == [Progress("texts counted", 3, 3), Progress("texts counted", 4, 4)]


@pytest.mark.usefixtures("tiny_id_space")
def test_terms_of_one_hash_share_their_id_as_writers_without_a_vocabulary_have_it(
    foreign: Foreign, config: IndexConfig
) -> None:
    foreign.texts = ["apple", "banana", "cherry", "fig", "grape", "kiwi", "lemon", "melon", "nut", "olive", "pear"] * 2
    vectors = BM25Encoder(config).encode_documents(foreign.texts)
    encoder = adopted(config)
    assert encoder.encode_documents(foreign.texts) == vectors
    for text, vector, query in zip(foreign.texts, vectors, encoder.encode_queries(foreign.texts), strict=True):
        assert query.dot(vector) > 0, text
    again = opened(config)
    assert again.encode_queries(foreign.texts) == encoder.encode_queries(foreign.texts)


# Storing


def test_what_is_stored_is_read_by_others(foreign: Foreign, config: IndexConfig) -> None:
    encoder, other = adopted(config), opened(config)
    assert other.encode_queries(QUERIES) == encoder.encode_queries(QUERIES)
    assert (other.text_field, other.filter, other.stats()) == ("text", "", encoder.stats())


def test_the_analyzer_of_the_package_needs_no_config_to_be_read(foreign: Foreign) -> None:
    assert adopted(IndexConfig(chunk_size=50, k1=1.2)).config == AdoptedEncoder.open("x.db", "X").config


def test_adopting_again_counts_what_is_there_now(foreign: Foreign, config: IndexConfig) -> None:
    other = (adopted(config), opened(config))[1]
    foreign.texts = ["apple grape", "grape", "fig", "fig fig"]  # added, deleted, changed
    again = adopted(config)
    assert again.encode_queries([*QUERIES, "grape"]) == BM25Encoder(config).fit(foreign.texts).encode_queries(
        [*QUERIES, "grape"]
    )
    assert other.encode_queries(["grape"]) == [SparseVector.from_dict({})]
    other.refresh()
    assert other.encode_queries(["grape"]) == again.encode_queries(["grape"])


def test_adopting_again_without_a_change_writes_nothing(foreign: Foreign, config: IndexConfig) -> None:
    adopted(config)
    before = set(foreign.beside.log)
    foreign.calls.clear()
    adopted(config)
    assert set(foreign.beside.log) == before
    assert {"insert_log", "delete_log", "drop"}.isdisjoint(foreign.calls)


def test_a_change_of_lengths_alone_is_stored(foreign: Foreign) -> None:
    config = IndexConfig(4, length_unit="characters", analyzer=split)
    adopted(config)
    foreign.texts[3] = "fig      "
    adopted(config)
    assert opened(config).stats().total_length == sum(map(len, foreign.texts))


def test_only_the_log_is_touched(foreign: Foreign, config: IndexConfig) -> None:
    adopted(config)
    opened(config).refresh()
    assert not [name for name in foreign.calls if "chunks" in name or "search" in name]
    assert foreign.closed == 1


def test_the_log_does_not_grow(foreign: Foreign, config: IndexConfig) -> None:
    adopted(config)
    rows = len(foreign.beside.log)
    for number in range(20):
        foreign.texts = [f"apple word{number % 2}"]
        adopted(config)
    assert len(foreign.beside.log) == rows
    assert opened(config).num_chunks == 1


def test_terms_stay_known_for_ever(foreign: Foreign, config: IndexConfig, tmp_path: Path) -> None:
    adopted(config)
    foreign.texts = ["grape"]
    adopted(config)
    opened(config).save(tmp_path / "file")
    _, _, vocabulary = read_statistics(tmp_path / "file")
    assert set(vocabulary) == {"apple", "banana", "cherry", "fig", "grape"}
    assert BM25Encoder.load(tmp_path / "file", config=config).num_chunks == 1


@pytest.mark.parametrize("after", ["create", "insert_log", "delete_log"])
def test_an_adoption_that_is_cut_short_leaves_the_old_counts_or_the_new_ones(
    foreign: Foreign, config: IndexConfig, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = adopted(config).encode_queries(QUERIES)
    foreign.texts = ["apple grape", "fig"]
    new = BM25Encoder(config).fit(foreign.texts).encode_queries(QUERIES)
    normal = foreign.open_beside

    def failing(*args: Any, **options: Any) -> MemoryStore:
        store = normal(*args, **options)

        def fail(method: str) -> None:
            if method == after:
                raise KeyboardInterrupt

        store.on_call = None if options["read_only"] else fail
        return store

    monkeypatch.setattr("rag_bm25.adapters.adoption.MilvusLogStore", failing)
    with pytest.raises(KeyboardInterrupt):
        adopted(config)
    assert opened(config).encode_queries(QUERIES) == (new if after == "delete_log" else old)
    monkeypatch.setattr("rag_bm25.adapters.adoption.MilvusLogStore", normal)
    adopted(config)
    assert opened(config).encode_queries(QUERIES) == new


def test_a_first_adoption_that_is_cut_short_can_be_repeated(foreign: Foreign, config: IndexConfig) -> None:
    foreign.beside.exist = True  # created, and nothing written
    with pytest.raises(
        IndexNotFoundError, match="there are no statistics beside the collection 'X'; call adopt to count it"
    ):
        opened(config)
    assert adopted(config).num_chunks == opened(config).num_chunks == 4


# Files


def test_without_storing_nothing_is_written(foreign: Foreign, config: IndexConfig, tmp_path: Path) -> None:
    encoder = adopted(config, store=False)
    assert foreign.beside == Collections()
    encoder.save(tmp_path / "file")
    loaded = BM25Encoder.load(tmp_path / "file", config=config)
    assert loaded.encode_queries(QUERIES) == encoder.encode_queries(QUERIES)
    with pytest.raises(IndexNotFoundError, match="no statistics beside"):
        encoder.refresh()


def test_what_was_opened_can_be_saved(foreign: Foreign, config: IndexConfig, tmp_path: Path) -> None:
    encoder = adopted(config)
    encoder.save(tmp_path / "adopted")
    opened(config).save(tmp_path / "opened")
    names = ("adopted", "opened")
    one, two = (BM25Encoder.load(tmp_path / name, config=config) for name in names)
    assert one.encode_queries(QUERIES) == two.encode_queries(QUERIES) == encoder.encode_queries(QUERIES)
    vocabularies = [list(read_statistics(tmp_path / name)[2]) for name in names]
    assert vocabularies[0] == vocabularies[1]


def test_without_storing_other_settings_are_allowed_and_the_stored_ones_are_taken_for_the_rest(
    foreign: Foreign, config: IndexConfig
) -> None:
    adopted(config, text_field="body", filter="apple")
    other = IndexConfig(chunk_size=9, analyzer=split)
    encoder = adopted(other, store=False)
    assert (encoder.config, encoder.text_field, encoder.filter) == (other, "body", "apple")
    encoder = adopted(config, store=False, filter="")
    assert (encoder.num_chunks, opened(config).num_chunks) == (4, 2)


# Settings


def test_field_and_filter_are_remembered(foreign: Foreign, config: IndexConfig) -> None:
    adopted(config, text_field="body", filter="apple")
    foreign.asked.clear()
    assert adopted(config).num_chunks == 2
    assert foreign.asked[-1] == ("body", "apple")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"text_field": "body"}, "text_field: stored 'text', given 'body'"),
        ({"filter": "n > 1"}, "filter: stored '', given 'n > 1'"),
    ],
)
def test_other_settings_than_the_stored_are_refused(
    foreign: Foreign, config: IndexConfig, given: dict[str, str], says: str
) -> None:
    adopted(config)
    foreign.calls.clear()
    with pytest.raises(ConfigMismatchError, match=f"{says}\\. To start over, drop the collection 'X_bm25'"):
        adopted(config, **given)
    assert "insert_log" not in foreign.calls


def test_another_config_than_the_stored_one_is_refused(foreign: Foreign, config: IndexConfig) -> None:
    adopted(config)
    with pytest.raises(ConfigMismatchError, match="chunk_size: stored 4, given 5"):
        adopted(IndexConfig(chunk_size=5, length_unit="terms", analyzer=split))


def test_the_query_s_side_may_differ(foreign: Foreign, config: IndexConfig) -> None:
    adopted(config)
    lucene = IndexConfig(chunk_size=4, length_unit="terms", analyzer=split, idf="lucene")
    assert opened(lucene).encode_queries(["fig"]) == BM25Encoder(lucene).fit(TEXTS).encode_queries(["fig"])


def test_the_first_time_needs_a_config(foreign: Foreign) -> None:
    with pytest.raises(IndexNotFoundError, match="to adopt it, pass config=IndexConfig"):
        adopted()
    assert foreign.beside == Collections()


def test_a_lost_callable_is_named(foreign: Foreign, config: IndexConfig) -> None:
    adopted(config)
    with pytest.raises(ConfigMismatchError, match=r"the analyzer support\.reference\.split: pass that callable"):
        adopted()


def test_a_callable_may_be_given_without_a_config(foreign: Foreign, config: IndexConfig) -> None:
    given = adopted(config)
    assert adopted(analyzer=split).num_chunks == 4
    reader = AdoptedEncoder.open("x.db", "X", analyzer=split)
    assert (reader.config, reader.encode_queries(QUERIES)) == (config, given.encode_queries(QUERIES))
    with pytest.raises(ParameterError, match="analyzer must be left out beside a config"):
        adopted(config, analyzer=split)


def test_the_figures_need_no_callable(foreign: Foreign, config: IndexConfig) -> None:
    figures = adopted(config).stats()
    reader = AdoptedEncoder.open("x.db", "X")
    assert reader.stats() == figures
    for encode in (reader.encode_queries, reader.encode_documents):
        with pytest.raises(ConfigMismatchError, match=r"the analyzer support\.reference\.split: pass that callable"):
            encode(["fig"])


def test_what_was_opened_reads_the_vocabulary_for_near_spellings(foreign: Foreign, config: IndexConfig) -> None:
    pytest.importorskip("rapidfuzz", reason='needs rag-bm25[fuzzy]: pip install "rag-bm25[fuzzy]"')
    adopted(config)
    fuzzy = QueryExpansion(fuzzy=Fuzzy())
    encoder = opened(config)
    found = encoder.encode_queries(["cherri"], expansion=fuzzy)
    assert found == BM25Encoder(config).fit(TEXTS).encode_queries(["cherri"], expansion=fuzzy)
    assert pickle.loads(pickle.dumps(encoder)).encode_queries(["cherri"], expansion=fuzzy) == found
    assert len(found[0]) == 1


def test_readers_notice_when_it_is_adopted_with_other_parameters(foreign: Foreign, config: IndexConfig) -> None:
    adopted(config)
    reader = opened(config)
    foreign.beside.log.clear()
    adopted(IndexConfig(chunk_size=5, length_unit="terms", analyzer=split))
    with pytest.raises(ConfigMismatchError, match="chunk_size: stored 5, given 4"):
        reader.refresh()


def test_a_filter_is_an_expression(foreign: Foreign, config: IndexConfig) -> None:
    with pytest.raises(FilterError, match=r"filter must be a Milvus expression over the fields of 'X', got \{'n': 1\}"):
        adopted(config, filter={"n": 1})


def test_fields_are_checked_before_anything_is_counted(foreign: Foreign, config: IndexConfig) -> None:
    for options in ({"text_field": "sparse"}, {"vector_field": "text"}):
        with pytest.raises(ParameterError, match=f"{next(iter(options))} must be"):
            adopted(config, **options)
    assert (foreign.asked, foreign.beside) == ([], Collections())


def test_the_statistics_of_an_index_are_not_replaced(foreign: Foreign, config: IndexConfig) -> None:
    index = BM25Index.from_store(MemoryStore(collections=foreign.beside), config=config)
    index.add(["plum"])
    before = dict(foreign.beside.log)
    for call in (lambda: adopted(config), lambda: opened(config)):
        with pytest.raises(FormatError, match="has the statistics of an index beside it"):
            call()
    assert foreign.beside.log == before


@pytest.mark.parametrize("damaged", [None, [], {"text_field": "text"}, {"text_field": 1, "filter": ""}])
def test_damaged_settings_are_not_used(foreign: Foreign, config: IndexConfig, damaged: object) -> None:
    adopted(config)
    [key] = [key for key in foreign.beside.log if key.startswith("config")]
    stored = ConfigRow.decode([foreign.beside.log[key]])
    [foreign.beside.log[key]] = ConfigRow.encode({**stored, "adopted": damaged})
    for call in (lambda: adopted(config), lambda: opened(config)):
        with pytest.raises(FormatError, match="does not say which texts were counted"):
            call()


# Vectors


def test_vectors_of_the_same_parameters_pass(foreign: Foreign, config: IndexConfig) -> None:
    foreign.vectors = list(zip(TEXTS, BM25Encoder(config).encode_documents(TEXTS), strict=True))
    assert adopted(config, vector_field="sparse").num_chunks == 4


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (IndexConfig(chunk_size=5, length_unit="terms", analyzer=split), "its weights differ"),
        (IndexConfig(chunk_size=4, length_unit="terms", analyzer=lambda text: split(text.upper())), "its terms differ"),
    ],
)
def test_vectors_of_other_parameters_are_refused(
    foreign: Foreign, config: IndexConfig, other: IndexConfig, says: str
) -> None:
    vectors = BM25Encoder(config).encode_documents(TEXTS[:1]) + BM25Encoder(other).encode_documents(TEXTS[1:])
    foreign.vectors = list(zip(TEXTS, vectors, strict=True))
    with pytest.raises(ConfigMismatchError, match=f"in field 'sparse' of row 1 was not made with .*{says}"):
        adopted(config, vector_field="sparse")
    assert foreign.beside == Collections()


def test_it_cannot_be_taught_by_an_adapter(foreign: Foreign, config: IndexConfig) -> None:
    encoder = adopted(config)
    assert document_encoding(encoder, learn=False)(TEXTS) == encoder.encode_documents(TEXTS)
    with pytest.raises(ParameterError, match="learn=True needs a BM25Encoder, got AdoptedEncoder"):
        document_encoding(encoder, learn=True)
