"""The table of exactness notices scores that do not follow changes, and ours are right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import exactness
import pytest
from exactness import FTS5, Engine, Result, compare_scores
from support import engines

if TYPE_CHECKING:
    from collections.abc import Collection


class Forgetful(FTS5):
    """A table that hides deleted texts but keeps them in its statistics."""

    def delete(self, numbers: Collection[int]) -> None:
        self.gone = set(numbers)

    def search(self, query: str) -> dict[int, float]:
        gone = getattr(self, "gone", ())
        return {number: score for number, score in super().search(query).items() if number not in gone}


@pytest.mark.own_engine
@pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")
def test_our_scores_and_those_of_sqlite_are_right_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert exactness.main(["rag_bm25", "sqlite"]) == 0
    assert [row.split(" | ")[2:] for row in capsys.readouterr().out.splitlines()[2:]] == [["at once", "0", "0 |"]] * 2


def test_statistics_that_keep_deleted_texts_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Engine("", Forgetful)
    ((_, result),) = exactness.measure(kept)
    assert result.error > 0.1
    assert result.changed > 0
    monkeypatch.setitem(exactness.ENGINES, "rag_bm25", kept)
    assert exactness.main(["rag_bm25"]) == 1


def test_an_engine_that_fails_or_is_missing_leaves_the_others_their_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(exactness.ENGINES, "lancedb", Engine("no-such-package", FTS5))
    monkeypatch.setitem(exactness.ENGINES, "tantivy", Engine("", lambda _folder: 1 / 0))
    assert exactness.main(["lancedb", "tantivy", "sqlite"]) == 1
    missing, failed, others = capsys.readouterr().out.splitlines()[2:]
    assert "skipped: not installed" in missing
    assert "failed: ZeroDivisionError" in failed
    assert others.startswith("| sqlite |")


def test_ties_at_the_tenth_place_and_rounding_are_no_change() -> None:
    right = dict.fromkeys(range(12), 2.0)
    assert compare_scores(dict.fromkeys(reversed(range(12)), 2.0 + 1e-08), right) == Result(0.0, 0)
    assert compare_scores({**right, 3: 1.0}, right) == Result(0.5, 0)
    assert compare_scores({**right, 12: 9.0}, right).changed == 1
