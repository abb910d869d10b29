from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from support.faulty_store import FaultyStore, Moment
from support.memory_store import MemoryStore
from support.reference import split

from rag_bm25 import BM25Index, FieldWeight, IndexConfig, Progress
from rag_bm25.documents.chunks import pk_digest
from rag_bm25.errors import FormatError, StoreError
from rag_bm25.index.maintenance.reencoding import StoredChunks
from rag_bm25.statistics.log.term_k1 import TermK1Row
from rag_bm25.store.rows import ChunkRow
from rag_bm25.vectors.sparse import EMPTY, SparseVector
from rag_bm25.vectors.terms import term_id
from rag_bm25.weighting.formulas import WeightingName

CONFIG = IndexConfig(8, length_unit="terms", analyzer=split, weighting="bm25t", idf="lucene")


def corpus(size: int = 30) -> list[str]:
    """Draw chunks in which some words come in bursts."""
    drawn = random.Random(7)
    texts = []
    for _ in range(size):
        words = drawn.choices("abcdef", k=drawn.randint(1, 8))
        texts.append(" ".join([*words, *["burst"] * drawn.choice([0, 0, 5, 9])]))
    return texts


TEXTS = corpus()
IDS = [f"{number:02d}" for number in range(len(TEXTS))]


def filled(store: MemoryStore | None = None, config: IndexConfig = CONFIG) -> BM25Index:
    index = BM25Index.from_store(store or MemoryStore(), config=config)
    index.add(TEXTS, ids=IDS)
    return index


def vectors(store: MemoryStore) -> dict[str, dict[int, float]]:
    return {row.id: row.vector.to_dict() for row in store.collections.chunks.values()}


def k1_in_loops(term: str) -> float:
    """Find the k1 of BM25T by halving an interval."""
    logs = []
    of_mean = 0.25 + 0.75 * sum(len(text.split()) for text in TEXTS) / len(TEXTS) / 8  # norm of a mean length
    for text in TEXTS:
        tokens = text.split()
        if term in tokens:
            logs.append(math.log(1 + tokens.count(term) * of_mean / (0.25 + 0.75 * len(tokens) / 8)))
    low, high = 1e-6, 10.0
    for _ in range(60):
        k1 = (low + high) / 2
        if k1 / (k1 - 1) * math.log(k1) < sum(logs) / len(logs):
            low = k1
        else:
            high = k1
    return low / of_mean


def test_every_chunk_is_encoded_with_the_k1_of_its_terms() -> None:
    store = MemoryStore()
    index = filled(store)
    before = vectors(store)
    report = index.reencode()
    after = vectors(store)
    assert (report.num_chunks, report.reencoded, report.num_terms) == (30, 30, 7)
    assert before != after
    k1 = {term: k1_in_loops(term) for term in [*"abcdef", "burst"]}
    assert report.mean_k1 == pytest.approx(sum(k1.values()) / 7, rel=1e-3)
    assert k1["burst"] > k1["a"]
    for id_, text in zip(IDS, TEXTS, strict=True):
        tokens = text.split()
        norm = 0.25 + 0.75 * len(tokens) / 8
        expected = {
            term_id(term): tokens.count(term) * (k1[term] + 1) / (tokens.count(term) + k1[term] * norm)
            for term in set(tokens)
        }
        assert after[id_] == pytest.approx(expected, rel=1e-3)


def test_statistics_stay_as_they_are() -> None:
    index = filled()
    before = index.stats()
    index.reencode()
    assert index.stats() == before
    assert index.verify().ok


def test_texts_metadata_dense_vectors_and_lengths_stay_as_they_are() -> None:
    config = IndexConfig(8, length_unit="terms", analyzer=split, weighting="bm25t", dense_dim=2)
    index = BM25Index.from_store(MemoryStore(), config=config)
    index.add(["a a b", "b"], ids=["1", "2"], embeddings=[[1, 0], [0, 1]], metadatas=[{"n": 1}, None])
    before = index.get(["1", "2"])
    assert index.reencode().reencoded > 0
    assert index.get(["1", "2"]) == before
    assert [hit.score for hit in index.search_dense([1.0, 0.0])] == [1, 0]


def test_again_there_is_nothing_to_write() -> None:
    store = MemoryStore()
    index = filled(store)
    first = index.reencode()
    rows = set(store.collections.chunks)
    again = index.reencode()
    assert (again.reencoded, again.num_terms, again.mean_k1) == (0, first.num_terms, first.mean_k1)
    assert set(store.collections.chunks) == rows
    assert sum(key.startswith("k1:") for key in store.collections.log) == 1


@pytest.mark.parametrize("form", ["bm25", "bm25+", "tf"])
def test_nothing_is_written_where_a_vector_is_its_chunk_s_alone(form: WeightingName) -> None:
    store = MemoryStore()
    index = filled(store, IndexConfig(8, length_unit="terms", analyzer=split, weighting=form))
    before = (set(store.collections.chunks), set(store.collections.log))
    store.calls.clear()
    report = index.reencode()
    assert (report.num_chunks, report.reencoded, report.num_terms, report.mean_k1) == (30, 0, 0, 0.0)
    assert {"scan_chunks", "get_chunks"}.isdisjoint(store.calls)
    assert (set(store.collections.chunks), set(store.collections.log)) == before


def test_later_chunks_are_encoded_with_the_table_also_by_others() -> None:
    store = MemoryStore(exclusive=False)
    other = BM25Index.from_store(store, config=CONFIG)
    index = filled(store.reopen())
    index.reencode()
    index.add(["burst burst a"], ids=["x"])
    other.add(["burst burst a"], ids=["y"])
    later = BM25Index.from_store(store.reopen(), config=CONFIG)
    later.add(["burst burst a"], ids=["z"])
    found = vectors(store)
    assert found["x"] == found["y"] == found["z"]
    assert found["x"] != vectors_of_a_new_index("burst burst a")
    assert [vector.to_dict() for vector in later.encode_documents(["burst burst a"])] == [found["x"]]
    assert later.verify().ok


def test_chunks_added_during_the_survey_are_encoded_with_the_table() -> None:
    store = MemoryStore()
    index = filled(store)
    added: list[str] = []

    def add_once(_: Progress) -> None:
        if not added:
            added.extend(index.add(["burst burst a"], ids=["x"]) + index.add(["a a"], ids=["y"], namespace="new"))

    report = index.reencode(progress=add_once)
    assert (report.num_chunks, report.reencoded) == (32, 32)
    expected = [vector.to_dict() for vector in index.encode_documents(["burst burst a", "a a"])]
    assert [vectors(store)[id_] for id_ in added] == expected
    assert vectors(store)["x"] != vectors_of_a_new_index("burst burst a")
    assert index.verify().ok


def vectors_of_a_new_index(text: str) -> dict[int, float]:
    (vector,) = BM25Index.from_store(MemoryStore(), config=CONFIG).encode_documents([text])
    return vector.to_dict()


def test_new_terms_have_the_k1_of_the_config() -> None:
    index = filled()
    index.reencode()
    index.add(["new new a a"], ids=["x"])
    explanation = index.explain("new a", "x")
    own, new = (
        next(node for node in term.details[1].details if node.description.startswith("k1"))
        for term in sorted(explanation.details, key=lambda term: term.description)
    )
    assert (new.value, new.description) == (1.5, "k1, saturation")
    assert own.value == pytest.approx(k1_in_loops("a"), rel=1e-3)
    assert own.description == "k1, saturation of this term"


def test_explanation_of_a_stale_vector_says_so_and_has_its_k1() -> None:
    index = filled()
    index.reencode()
    first = k1_in_loops("burst")
    index.add(["burst " * 30] * 40, ids=[f"more{number}" for number in range(40)])
    index._live.log.write_term_k1(
        SparseVector.from_dict({term_id("burst"): 3.5})
    )  # as a call that was cut short leaves it
    stale = next(id_ for id_, text in zip(IDS, TEXTS, strict=True) if "burst" in text)
    weight = index.explain("burst", stale).details[0].details[1]
    k1 = next(node for node in weight.details if node.description.startswith("k1"))
    assert k1.value == pytest.approx(first, rel=1e-3)
    assert k1.description == "k1, saturation of this term when the chunk was encoded; reencode brings it up to date"


def test_fields_count_for_the_k1() -> None:
    fields = {"title": FieldWeight(chunk_size=2, weight=3.0)}
    config = IndexConfig(8, length_unit="terms", analyzer=split, weighting="bm25t", fields=fields)
    index = BM25Index.from_store(MemoryStore(), config=config)
    index.add(["a", "a b"], ids=["1", "2"], metadatas=[{"title": "a a"}, None])
    # a: 1 / (0.25 + 0.75 / 8) + 3 * 2 = 8.909091 and 1 / (0.25 + 0.75 / 4) = 2.285714, times the norm of a text of mean
    # length, 0.25 + 0.75 * 1.5 / 8 = 0.390625
    mean = (math.log(1 + 8.909091 * 0.390625) + math.log(1 + 2.285714 * 0.390625)) / 2
    index.reencode()
    k1 = index._live.log.view.term_k1.get(term_id("a")) * 0.390625
    assert k1 / (k1 - 1) * math.log(k1) == pytest.approx(mean, rel=1e-3)
    assert index.explain("a", "1").value == pytest.approx(index.search("a")[0].score, rel=1e-5)


def test_namespaces_are_one_collection_for_the_k1() -> None:
    apart = BM25Index.from_store(MemoryStore(), config=CONFIG)
    for number, text in enumerate(TEXTS):
        apart.add([text], ids=[IDS[number]], namespace=str(number % 3))
    together = filled()
    assert apart.reencode() == together.reencode()
    assert apart.verify().ok


def test_progress_rises_to_its_end() -> None:
    told: list[Progress] = []
    filled().reencode(progress=told.append)
    assert all(one.done <= other.done for one, other in pairwise(told))
    assert told[-1] == Progress("chunks read and encoded", 60, 60)


def test_empty_index_is_reencoded_at_once() -> None:
    index = BM25Index.from_store(MemoryStore(), config=CONFIG)
    report = index.reencode()
    assert (report.num_chunks, report.reencoded, report.num_terms) == (0, 0, 0)


def test_chunks_without_terms_keep_their_placeholder() -> None:
    store = MemoryStore()
    index = filled(store)
    index.add([""], ids=["empty"])
    index.reencode()
    assert vectors(store)["empty"] == {0: 1.0}
    assert index.verify().ok


@pytest.mark.parametrize("moment", ["before", "halfway", "after"])
def test_cut_short_at_every_step_it_can_be_done_again(moment: Moment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.index.maintenance.reencoding.MAX_BATCH_CHUNKS", 12)
    whole = MemoryStore()
    filled(whole).reencode()
    for calls in range(200):
        store = FaultyStore()
        index = filled(store)
        store.fail_at(calls, moment)
        try:
            index.reencode()
        except StoreError:
            store.fail_at(None)
        else:
            break
        again = BM25Index.from_store(store.reopen(), config=CONFIG)
        assert again.verify().ok
        again.reencode()
        assert again.verify().ok
        assert vectors(store) == vectors(whole)
    assert 15 < calls < 199


def test_same_index_goes_on_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.index.maintenance.reencoding.MAX_BATCH_CHUNKS", 12)
    store = FaultyStore()
    index = filled(store)
    store.fail_at(14)
    with pytest.raises(StoreError):
        index.reencode()
    store.fail_at(None)
    index.reencode()
    assert index.verify().ok
    assert index.reencode().reencoded == 0


def test_rows_of_other_tools_are_left_alone() -> None:
    store = MemoryStore()
    index = filled(store)
    other = ChunkRow("f" * 40 + "a", "other", "", 1, "0" * 24, "a a burst", {}, SparseVector.from_dict({7: 1.0}))
    store.insert_chunks([other])
    assert index.reencode().num_chunks == 30
    assert store.collections.chunks[other.pk] == other


def test_batches_are_small_enough_for_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.index.maintenance.reencoding.MAX_BATCH_BYTES", 10)
    monkeypatch.setattr("rag_bm25.index.maintenance.reencoding.MAX_BATCH_CHUNKS", 3)
    chunks = StoredChunks()
    sizes = {"a": 4, "b": 6, "c": 1, "d": 20, "e": 1, "f": 1, "g": 1, "h": 1}
    digests = {pk_digest("", id_): id_ for id_ in sizes}
    chunks.note([ChunkRow(f"{pk_digest('', id_)}a", id_, "", 1, "", "x" * size) for id_, size in sizes.items()])
    chunks.note([ChunkRow(f"{pk_digest('', 'a')}b", "a", "", 1, "", "xxxx")])  # both slots of one chunk
    chunks.note([ChunkRow(f"{pk_digest('n', 'a')}a", "a", "n", 1, "", "x")])
    found = [
        (namespace, "".join(digests.get(digest, "?") for digest in batch)) for namespace, batch in chunks.batches()
    ]
    assert found == [("", "ab"), ("", "c"), ("", "d"), ("", "efg"), ("", "h"), ("n", "?")]
    chunks.note_latecomers([ChunkRow(f"{pk_digest('', id_)}a", id_, "", 1, "") for id_ in ("h", "i", "j")])
    digests |= {pk_digest("", id_): id_ for id_ in ("i", "j")}
    found = [
        (namespace, "".join(digests.get(digest, "?") for digest in batch)) for namespace, batch in chunks.batches()
    ]
    assert found[4:] == [("", "h"), ("", "i"), ("", "j"), ("n", "?")]  # of unknown size, so one by one


# The stored table


def test_table_comes_back_from_its_rows() -> None:
    ids = np.arange(1, 10_001, dtype=np.uint32) * 7
    table = SparseVector(ids, np.linspace(0, 10, 10_000).round(4).astype(np.float32))
    rows = TermK1Row.encode("0123", table)
    assert [row.key for row in rows] == ["k1:0123:0:3", "k1:0123:1:3", "k1:0123:2:3"]
    assert max(len(row.packed) for row in rows) < 65_536
    assert TermK1Row.decode(rows) == table
    assert TermK1Row.decode(TermK1Row.encode("0123", EMPTY)) == EMPTY


def test_repair_keeps_the_table() -> None:
    store = MemoryStore()
    filled(store).reencode()
    before = vectors(store)
    repaired = BM25Index.from_store(store.reopen(), config=CONFIG, repair=True)
    assert vectors(store) == before
    assert repaired.encode_documents(["burst a"]) != BM25Index.from_store(
        MemoryStore(), config=CONFIG
    ).encode_documents(["burst a"])
    assert repaired.reencode().reencoded == 0


@pytest.mark.parametrize("packed", ["!!", ""])
def test_damaged_table_is_told_and_repaired(packed: str) -> None:
    store = MemoryStore()
    filled(store).reencode()
    (key,) = [key for key in store.collections.log if key.startswith("k1:")]
    row = store.collections.log[key]
    if packed:
        object.__setattr__(row, "packed", packed)
        with pytest.raises(FormatError, match=f"its log row '{key}' cannot be read.*Run repair"):
            BM25Index.from_store(store.reopen(), config=CONFIG)
    else:
        del store.collections.log[key]
    repaired = BM25Index.from_store(store.reopen(), config=CONFIG, repair=True)
    assert [name for name in store.collections.log if name.startswith("k1:")] == []
    assert repaired.verify().ok
    repaired.reencode()
    fresh = MemoryStore()
    filled(fresh).reencode()
    assert vectors(store) == vectors(fresh)


def test_half_written_table_is_passed_over() -> None:
    store = MemoryStore()
    index = filled(store)
    index.reencode()
    rows = TermK1Row.encode("f" * 24, SparseVector(np.arange(1, 9_001, dtype=np.uint32), np.ones(9_000, np.float32)))
    store.insert_log(rows[:2])
    later = BM25Index.from_store(store.reopen(), config=CONFIG)
    assert later._live.view.term_k1 == index._live.log.view.term_k1
    later.reencode()
    assert sum(key.startswith("k1:") for key in store.collections.log) == 1
