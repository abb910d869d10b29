"""The page has each of its texts in both languages, and every reason and error in Chinese."""

from __future__ import annotations

import re
from pathlib import Path

import rag_bm25
from rag_bm25.index.searching.diagnosing import choosing, dropping

PACKAGE = Path(rag_bm25.__file__).parent
ENGLISH, CHINESE = (
    set(re.findall(r"(\w+): \"", part))
    for part in (PACKAGE / "serving/page/texts.js").read_text(encoding="utf-8").split("  zh: {")
)


def codes_in(folder: str, pattern: str) -> set[str]:
    return {code for path in (PACKAGE / folder).rglob("*.py") for code in re.findall(pattern, path.read_text("utf-8"))}


def test_each_text_is_there_in_both_languages() -> None:
    assert {name for name in CHINESE if not name.startswith(("error_", "reason_"))} <= ENGLISH
    assert ENGLISH <= CHINESE


def test_each_reason_is_said_in_chinese() -> None:
    codes = codes_in("index/searching", r'Reason\("(\w+)"') | {*dropping(), *choosing()}
    assert len(codes) > 15
    assert {f"reason_{code}" for code in codes} - CHINESE == set()
    assert {"reason_filter_met", "reason_filter_met_or_more"} <= CHINESE


def test_each_error_of_the_page_is_said_in_chinese() -> None:
    codes = codes_in("serving", r'\b\d{3}, "(\w+)"')
    assert len(codes) > 10
    own_words = {"error_bad_request", "error_not_installed"}  # whose messages say what is wrong or missing
    assert {f"error_{code}" for code in codes} - CHINESE == own_words
