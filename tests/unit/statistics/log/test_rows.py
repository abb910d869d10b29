"""Rows that nobody here has written, or that came to harm: an error that names them, and no memory beyond the limit."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.memory_store import MemoryStore

from rag_bm25.errors import FormatError, ParameterError
from rag_bm25.statistics.corpus import Contribution
from rag_bm25.statistics.log import packing
from rag_bm25.statistics.log.keys import LogKey
from rag_bm25.statistics.log.log import StatisticsLog
from rag_bm25.statistics.log.settings import FORMAT, ConfigRow, read_settings, unfinished_copy
from rag_bm25.statistics.log.terms import TermsRow
from rag_bm25.statistics.log.writes import Intent
from rag_bm25.store.rows import LogRow

BATCH = "0" * 24
BOMB = base64.b64encode(zlib.compress(bytes(17 << 20))).decode()


def packed(value: Any) -> str:
    return raw(json.dumps(value).encode())


def raw(plain: bytes) -> str:
    return base64.b64encode(zlib.compress(plain)).decode()


def page(*pairs: tuple[int, int]) -> str:
    """Gaps between ids, then df, as planes of bytes."""
    gaps, df = np.array([gap for gap, _ in pairs], "<u4"), np.array([count for _, count in pairs], "<i8")
    return raw(gaps.view(np.uint8).reshape(-1, 4).T.tobytes() + df.view(np.uint8).reshape(-1, 8).T.tobytes())


def row(kind: str, meta: Any = None, packed: str = "", *, name: str = BATCH, part: str = "0:1", **more: Any) -> LogRow:
    return LogRow(f"{kind}:{name}:{part}", kind, {} if meta is None else meta, packed, **more)


def read(*rows: LogRow) -> None:
    """Read everything that there may be in a log."""
    store = MemoryStore()
    store.create()
    store.insert_log(rows)
    unfinished_copy(store)
    read_settings(store)
    log = StatisticsLog(store)
    log.vocabulary()
    log.statistics.contributions()
    log.intents()


INTENT = {"writer": "w", "time": 1.0, "namespace": "", "chunks": 0, "length": 0}
DELTA = {"namespace": "", "number": 1, "terms": 0, "chunks": 1, "length": 2}
ANSWERS = dict.fromkeys(("intercept", "share", "margin", "coverage", "specificity"), 0.5) | {"weighting": {}}
HEAD = {"base": "", "runs": [], "covers": [], "num_deltas": 0, "missing": 0, "nameless": 0, "num_terms": 0, "epoch": ""}


@pytest.mark.parametrize(
    "damaged",
    [
        row("config", {}, packed({}), name="index"),
        row("config", {"format": "1"}, packed({}), name="index"),
        row("config", {"format": float("inf")}, packed({}), name="index"),
        row("config", {"format": FORMAT}, packed([]), name="index"),
        row("config", {"format": FORMAT}, "not base64", name="index"),
        row("config", {"format": FORMAT}, packed({})[:-8], name="index"),
        row("config", {"format": FORMAT}, raw(b"[" * 100_000), name="index"),
        row("config", {"format": FORMAT}, raw(b"{}")[:-4] + "AAAA", name="index"),
        row("copy", {}, name="index"),
        row("copy", {"source": 1, "fingerprint": ""}, name="index"),
        row("terms", {"count": 1, "displaced": []}, packed(["a"])),
        row("terms", {"count": 1, "displaced": {"a": 0}}, packed(["a"])),
        row("terms", {"count": 1, "displaced": {"a": 2**32}}, packed(["a"])),
        row("terms", {"count": 1, "displaced": {"a": True}}, packed(["a"])),
        row("terms", {"count": 1, "displaced": {}}, packed({"a": 1})),
        row("terms", {"count": 1, "displaced": {}}, packed([1])),
        row("terms", {"count": 1, "displaced": {}}, packed(["\ud800"])),
        row("terms", {"count": 1, "displaced": {}}, BOMB),
        row("intent", {**INTENT, "time": "now"}, packed([])),
        row("intent", {**INTENT, "time": float("nan")}, packed([])),
        row("intent", {**INTENT, "namespace": None}, packed([])),
        row("intent", INTENT, packed([1])),
        row("intent", INTENT, packed(["no change"])),
        row("delta", {**DELTA, "namespace": []}),
        row("delta", {**DELTA, "chunks": 2**53 + 1}),
        row("delta", {"namespace": "", "chunks": 1, "length": 2}),
        row("delta", []),
        row("delta", DELTA, page((0, 1))),
        row("delta", DELTA, page((2**32 - 1, 1))),
        row("delta", DELTA, page((3, 2**53 + 1))),
        row("delta", DELTA, raw(b"seven..")),
        row("delta", DELTA, BOMB),
        row("delta", {**DELTA, "terms": None}),
        row("delta", {**DELTA, "length": 1.5}),
        row("head", {}, packed([])),
        row("head", {}, packed({**HEAD, "covers": [1]})),
        row("head", {}, packed({**HEAD, "base": None})),
        row("head", {}, packed({**HEAD, "num_deltas": "1"})),
        row("head", {}, packed({name: value for name, value in HEAD.items() if name != "epoch"})),
        row("head", {}, packed({**HEAD, "runs": [[BATCH, 0, 1]]})),
        row("head", {}, packed({**HEAD, "runs": [[BATCH, 0, 1, None]]})),
        row("head", {}, packed({**HEAD, "runs": None})),
        row("head", {}, BOMB),
        row("terms", {"count": 1, "displaced": {}, "replaced": [1]}, packed(["a"])),
        row("answers", {}),
        row("answers", {**ANSWERS, "share": None}),
        row("answers", {**ANSWERS, "margin": float("nan")}),
        row("answers", {**ANSWERS, "other": 1.0}),
        row("answers", {**ANSWERS, "weighting": {"idf": "none"}}),
    ],
    ids=lambda row: f"{row.key.split(':')[0]}-{json.dumps(row.meta)[:40]}-{row.packed[:8]}",
)
def test_a_damaged_row_is_an_error_that_names_it(damaged: LogRow) -> None:
    with pytest.raises(FormatError, match=f"its log row '{damaged.key}' cannot be read .*Run repair"):
        read(damaged)


@pytest.mark.parametrize(
    "key",
    [
        *("delta", "delta:", f"delta:{BATCH}", f"delta:{BATCH}:0", f"delta:{BATCH}:0:1:2", f"delta:{BATCH}:x:1"),
        *(f"delta:{BATCH}:00:1", f"delta:{BATCH}:0:0", f"delta:{BATCH}:-1:1", f"delta:{BATCH}:١:1", "delta:zzz:0:1"),
        *(
            "delta:index:0:1",
            f"config:{BATCH}:0:1",
            f"delta:{BATCH}:0:1 ",
        ),
        *(f"delta:{BATCH}:{'9' * 5000}:1", "", "\n", f"a b:{BATCH}:0:1"),
    ],
)
def test_a_key_that_is_none_of_ours_is_an_error_that_names_it(key: str) -> None:
    with pytest.raises(FormatError, match="the log is damaged: it has a row with the invalid key"):
        LogKey.parse(key)


def test_a_damaged_lease_is_an_error_that_names_it() -> None:
    with pytest.raises(FormatError, match=f"its log row 'lease:{BATCH}:0:1' cannot be read .*Run repair"):
        read(row("lease", {"time": None}), row("intent", INTENT, packed([])))


def test_a_row_with_such_a_key_is_found_when_the_log_is_read() -> None:
    with pytest.raises(FormatError, match="it has a row with the invalid key 'delta:x:0:1'"):
        read(LogRow("delta:x:0:1", "delta"))


def test_a_row_does_not_unpack_to_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = zlib.decompressobj

    class Watched:
        def __init__(self) -> None:
            self._real = real()

        def decompress(self, data: bytes, limit: int) -> bytes:
            plain = self._real.decompress(data, limit)
            made.append(len(plain))
            return plain

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    monkeypatch.setattr(packing.zlib, "decompressobj", Watched)
    with pytest.raises(FormatError, match="unpacks to more than 16,777,216 bytes"):
        read(row("terms", {"count": 1, "displaced": {}}, BOMB))
    assert made == [(16 << 20) + 1]


def test_parameters_that_nobody_could_read_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.statistics.log.settings.MAX_CONFIG", 10)
    with pytest.raises(ParameterError, match="the parameters of an index must have at most 10 bytes of JSON, got 15"):
        ConfigRow.encode({"words": "abc"}, "")


def test_terms_are_cut_into_rows_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_bm25.statistics.log.packing.MAX_PLAIN", 40)
    terms = {f"term{number}": number + 1 for number in range(20)}
    rows = TermsRow.encode(BATCH, terms)
    assert len(rows) > 2
    assert {term: id_ for row in rows for term, id_ in TermsRow.decode(row).items()} == terms


def test_a_damaged_term_count_is_named_when_the_log_is_read() -> None:
    store = MemoryStore()
    store.create()
    log = StatisticsLog(store)
    for _ in range(2):
        intent = Intent(log.new_batch(), "w", 1.0, "", [], Contribution())
        log.open_write(intent, {f"term of {intent.batch}": 7}).commit(Contribution(1, 1))
    [key, *_] = [key for key in store.collections.log if key.startswith("terms")]
    store.collections.log[key] = replace(store.collections.log[key], meta={"displaced": {}})
    with pytest.raises(FormatError, match=f"its log row '{key}' cannot be read"):
        StatisticsLog(store.reopen()).refresh()
