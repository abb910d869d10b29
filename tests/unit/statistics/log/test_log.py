from __future__ import annotations

import time
from dataclasses import replace

import pytest
from support.log_writing import asked_of, counted, intent, kinds, read_anew, rows, shown, taken, write
from support.memory_store import MemoryStore

from rag_bm25 import QueryWeighting
from rag_bm25.errors import FormatError, StoreError
from rag_bm25.statistics.log.keys import LogKey, keys_of
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.repair import overwrite
from rag_bm25.statistics.log.settings import ensure_birth
from rag_bm25.statistics.log.writes import Change, Delta, DeltaRow, Intent
from rag_bm25.store.rows import LogRow
from rag_bm25.vectors.terms import Vocabulary, term_id
from rag_bm25.weighting.confidence import AnswerModel, Signals, Usual

# Deltas


def test_delta_is_what_changed(log: StatisticsLog, store: MemoryStore) -> None:
    write(log, counted(1, 4, a=1, b=1))
    write(log, after=counted(1, 6, a=1, c=1), before=counted(1, 4, a=1, b=1))
    expected = (1, 6, {term_id("a"): 1, term_id("c"): 1})
    assert shown(log) == expected
    assert shown(read_anew(store)) == expected


def test_counts_that_did_not_change_are_not_stored(log: StatisticsLog, store: MemoryStore) -> None:
    write(log, after=counted(1, 6, a=1, c=1), before=counted(1, 4, a=1, b=1))
    (row,) = rows(store, "delta")
    change = DeltaRow.decode([row]).change
    assert (change.num_chunks, change.total_length) == (0, 2)
    assert dict(zip(change.ids.tolist(), change.df.tolist(), strict=True)) == {term_id("c"): 1, term_id("b"): -1}


def test_refresh_reads_only_what_is_new(log: StatisticsLog, store: MemoryStore) -> None:
    other = StatisticsLog(store)
    write(other, counted(1, 4, a=1))
    log.refresh()
    write(other, counted(1, 4, b=1))
    assert [LogKey.parse(key).kind for key in asked_of(store, log.refresh)] == ["delta"]
    assert shown(log) == (2, 8, {term_id("a"): 1, term_id("b"): 1})


@pytest.mark.usefixtures("small_rows")
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_delta_of_which_a_part_is_missing_is_passed_over(log: StatisticsLog, store: MemoryStore, missing: int) -> None:
    write(log, counted(1, 4, a=1, b=1, c=1, d=1, e=1))
    assert kinds(store) == ["delta"] * 3 + ["intent"]
    last = taken(store, rows(store, "delta")[missing].key)
    reader = read_anew(store)
    assert shown(reader) == (0, 0, {})
    store.collections.log.update(last)
    reader.refresh()
    assert shown(reader) == (1, 4, {term_id(term): 1 for term in "abcde"})


def test_refresh_gives_up_where_rows_keep_vanishing(log: StatisticsLog, store: MemoryStore) -> None:
    write(StatisticsLog(store), counted(1, 4, a=1))
    store.get_log = lambda keys, **options: []  # type: ignore[method-assign]
    with pytest.raises(StoreError) as caught:
        log.refresh()
    expected = "the statistics of memory changed 10 times while they were read: try again"
    assert str(caught.value) == expected


@pytest.mark.usefixtures("small_rows")
def test_delta_that_goes_while_it_is_read_is_none(log: StatisticsLog, store: MemoryStore) -> None:
    written = log.open_write(intent(log), {})
    written.commit(counted(1, 4, a=1, b=1, c=1))
    found = written.stored_delta()
    assert found is not None
    assert found.df.tolist() == [1, 1, 1]
    get_log = store.get_log
    store.get_log = lambda keys, **options: get_log(keys[1:], **options)  # type: ignore[method-assign]
    assert written.stored_delta() is None


# Batches


def test_batches_rise(log: StatisticsLog) -> None:
    batches = [log.new_batch() for _ in range(50)]
    assert batches == sorted(set(batches))
    assert {len(batch) for batch in batches} == {24}


def test_batches_rise_where_the_clock_steps_back(
    log: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, counted(1, 1, a=1))
    name = LogKey.parse(rows(store, "delta")[0].key).name
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)
    assert log.new_batch() > name
    assert read_anew(store).new_batch() > name


def test_older_batch_of_another_writer_does_not_turn_the_clock_back(
    log: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = StatisticsLog(store)
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)
    older = intent(slow)
    monkeypatch.setattr(time, "time_ns", lambda: 9_000_000)
    newer = log.new_batch()
    slow.open_write(older, {})
    log.refresh()
    monkeypatch.setattr(time, "time_ns", lambda: 2_000_000)
    assert log.new_batch() > newer


# Intents


@pytest.mark.usefixtures("small_rows")
def test_intent_of_several_rows_comes_back_as_it_was(log: StatisticsLog, store: MemoryStore) -> None:
    changes = [Change("0" * 40, "b", "a"), Change("f" * 40, "", "ab"), Change("a" * 40, "a", "")]
    began = Intent(log.new_batch(), "me", 7.5, "law", changes, counted(2, 9, a=2, b=1, c=1, d=1, e=2))
    log.open_write(began, {})
    assert kinds(store) == ["intent"] * 4
    (found,) = read_anew(store).intents()
    assert (found.batch, found.writer, found.time, found.namespace) == (began.batch, "me", 7.5, "law")
    assert found.changes == changes
    before = found.before
    assert (before.num_chunks, before.total_length) == (2, 9)
    assert (before.ids.tolist(), before.df.tolist()) == (began.before.ids.tolist(), began.before.df.tolist())


@pytest.mark.usefixtures("small_rows")
def test_intent_of_which_a_row_is_missing_has_not_begun(log: StatisticsLog, store: MemoryStore) -> None:
    log.open_write(intent(log, counted(2, 9, a=2, b=1, c=1)), {})
    last = taken(store, rows(store, "intent")[-1].key)
    reader = read_anew(store)
    assert not reader.has_intents
    store.collections.log.update(last)
    reader.refresh()
    assert len(reader.intents()) == 1


def test_intents_are_listed_oldest_first(log: StatisticsLog, store: MemoryStore) -> None:
    began = []
    for _ in range(4):
        writer = StatisticsLog(store)
        began.append((intent(writer), writer))
    for one, writer in reversed(began):
        writer.open_write(one, {})
    log.refresh()
    assert [found.batch for found in log.intents()] == [one.batch for one, _ in began]


def test_of_one_writer_the_last_intent_alone_is_open(log: StatisticsLog, store: MemoryStore) -> None:
    """A writer ends its batches in order: what an older one has changed is in a delta, or was."""
    first, second = intent(log), intent(log)
    log.open_write(first, {})
    log.open_write(second, {})
    for one in (log, read_anew(store)):
        assert [found.batch for found in one.intents()] == [second.batch]


def test_intent_ends_with_its_delta_and_stays_in_the_log(log: StatisticsLog, store: MemoryStore) -> None:
    """One call less for each batch; the compaction after next deletes it."""
    began = intent(log)
    opened = log.open_write(began, {})
    assert opened.is_open
    store.calls.clear()
    opened.commit(counted(1, 1, a=1))
    assert [call for call in store.calls if call.endswith("_log") and call != "get_log"] == ["insert_log"]
    assert kinds(store) == ["delta", "intent"]
    assert not opened.is_open
    for one in (log, read_anew(store)):
        assert (one.has_intents, one.intents()) == (False, [])


def test_renewed_lease_counts(log: StatisticsLog, store: MemoryStore) -> None:
    began = intent(log)
    opened = log.open_write(began, {})
    opened.renew()
    assert log.intents()[0].time > began.time
    assert read_anew(store).intents()[0].time > began.time


def test_lease_is_renewed_when_it_is_due(log: StatisticsLog, store: MemoryStore) -> None:
    write = log.open_write(intent(log), {})
    write.renew(after=60.0)
    assert "lease" not in kinds(store)
    write.renew(after=0.0)
    write.renew(after=0.0)
    assert kinds(store).count("lease") == 2


# Terms


def test_terms_are_stored_with_or_before_their_intent(log: StatisticsLog, store: MemoryStore) -> None:
    store.calls.clear()
    log.open_write(intent(log), {"a": term_id("a")})
    assert [call for call in store.calls if call != "log_keys"] == ["insert_log"]
    assert [LogKey.parse(key).kind for key in store.collections.log] == ["terms", "intent"]


def test_displaced_terms_are_known_without_the_vocabulary(log: StatisticsLog, store: MemoryStore) -> None:
    log.open_write(intent(log), {"a": term_id("a"), "moved": 7})
    reader = read_anew(store)
    assert reader.view.displaced == {"moved": 7}
    assert reader.view.vocabulary is None
    log.refresh()
    assert log.view.displaced == {"moved": 7}


def test_reader_without_vocabulary_does_not_fetch_terms(log: StatisticsLog, store: MemoryStore) -> None:
    log.open_write(intent(log), {"a": term_id("a")})
    reader, packed = StatisticsLog(store), []
    get_log = store.get_log

    def spying(keys: list[str], *, packed_too: bool = True, **options: bool) -> object:
        packed.append(options.get("packed", packed_too))
        return get_log(keys, **options)

    store.get_log = spying  # type: ignore[method-assign,assignment]
    reader.refresh()
    assert packed == [False]


def test_a_failed_read_of_the_vocabulary_is_not_taken_for_an_empty_one(log: StatisticsLog, store: MemoryStore) -> None:
    log.open_write(intent(log), {"a": term_id("a")})
    reader = StatisticsLog(store)

    def fail(method: str) -> None:
        if method == "get_log":
            raise StoreError("no answer")

    store.on_call = fail
    with pytest.raises(StoreError, match="no answer"):
        reader.vocabulary()
    store.on_call = None
    assert list(reader.vocabulary()) == ["a"]


def test_vocabulary_in_use_grows_with_refresh(log: StatisticsLog, store: MemoryStore) -> None:
    reader = StatisticsLog(store)
    assert len(reader.vocabulary()) == 0
    log.open_write(intent(log), {"a": term_id("a")})
    reader.refresh()
    assert list(reader.vocabulary()) == ["a"]


def test_many_new_terms_are_cut_into_rows(log: StatisticsLog, store: MemoryStore) -> None:
    words = [f"{number * 7919 % 1_000_003:x}" for number in range(60_000)]
    log.open_write(intent(log), {word: term_id(word) for word in words})
    assert kinds(store).count("terms") > 1
    assert all(len(row.packed) <= 65_535 for row in store.collections.log.values())
    assert list(read_anew(store).vocabulary()) == words


# The model of the confidence of hits


def test_newer_model_counts_where_the_clock_steps_back(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    older, newer = (AnswerModel(intercept, Signals(1.0, 2.0, 3.0, 0.1), QueryWeighting()) for intercept in (-1.5, -2.5))
    read_anew(store).write_answers(older)
    reader = read_anew(store)
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)
    StatisticsLog(store).write_answers(newer)
    reader.refresh()
    assert reader.view.answers == newer


def test_repair_keeps_a_sound_model_and_drops_a_damaged_one(store: MemoryStore) -> None:
    model = AnswerModel(-1.5, Signals(1.0, 2.0, 3.0, 0.1), QueryWeighting(idf="lucene", k3=None))
    ensure_birth(store)
    log = read_anew(store)
    log.write_answers(model)
    overwrite(store, {}, Vocabulary())
    assert read_anew(store).view.answers == log.view.answers == model
    (key,) = keys_of(store.log_keys(), "answers")
    store.collections.log[key] = LogRow(key, "answers", {"weights": []})
    with pytest.raises(FormatError, match="Run repair"):
        read_anew(store)
    overwrite(store, {}, Vocabulary())
    assert read_anew(store).view.answers is None


def test_a_model_keeps_the_usual_signals_and_one_of_before_has_none(store: MemoryStore) -> None:
    usual = Usual(Signals(0.5, -1.0, 0.9, 2.0), Signals(0.1, 0.5, 0.2, 0.7))
    model = AnswerModel(-1.5, Signals(1.0, 2.0, 3.0, 0.1), QueryWeighting(), usual)
    log = read_anew(store)
    log.write_answers(model)
    assert read_anew(store).view.answers == model
    (key,) = keys_of(store.log_keys(), "answers")
    meta = store.collections.log[key].meta
    store.collections.log[key] = LogRow(key, "answers", {name: meta[name] for name in meta.keys() - {"usual"}})
    assert read_anew(store).view.answers == replace(model, usual=None)
    damaged = {**meta["usual"], "mean": {**meta["usual"]["mean"], "share": float("nan")}}
    store.collections.log[key] = LogRow(key, "answers", {**meta, "usual": damaged})
    with pytest.raises(FormatError, match="Run repair"):
        read_anew(store)


def test_a_model_whose_signals_had_another_meaning_is_not_read(store: MemoryStore) -> None:
    log = read_anew(store)
    log.write_answers(AnswerModel(-1.5, Signals(1.0, 2.0, 3.0, 0.1), QueryWeighting()))
    (key,) = keys_of(store.log_keys(), "answers")
    meta = store.collections.log[key].meta
    for other in ({name: value for name, value in meta.items() if name != "signals"}, {**meta, "signals": "others"}):
        store.collections.log[key] = LogRow(key, "answers", other)
        assert read_anew(store).view.answers is None
        overwrite(store, {}, Vocabulary())
        assert read_anew(store).view.answers is None
        (key,) = keys_of(store.log_keys(), "answers")


# A delta that was stored in part


@pytest.mark.parametrize("stored", [1, 2])
def test_delta_that_was_stored_in_part_may_be_stored_again_with_other_rows(
    log: StatisticsLog, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, stored: int
) -> None:
    monkeypatch.setattr("rag_bm25.statistics.log.packing.COUNTS_PER_ROW", 2)
    began = intent(log)
    log.open_write(began, {})
    rows = DeltaRow.encode(began.batch, Delta("", counted(1, 5, a=1, b=1, c=1, d=1, e=1)))
    store.insert_log(rows[:stored])
    finisher = read_anew(store)
    finisher.resume_write(began).commit(counted(1, 2, a=1))
    for reader in (finisher, read_anew(store)):
        assert shown(reader) == (1, 2, {term_id("a"): 1})
        assert reader.open_batches.batches == []


def test_remains_of_a_delta_are_deleted(log: StatisticsLog, store: MemoryStore) -> None:
    began, other = intent(log), intent(StatisticsLog(store))
    for one in (began, other):
        log.open_write(one, {})
        store.insert_log(DeltaRow.encode(one.batch, Delta("", counted(1, 1, a=1))))
    log.resume_write(began).drop_remains()
    assert [key for key in store.collections.log if key.startswith("delta")] == [f"delta:{other.batch}:0:1"]
