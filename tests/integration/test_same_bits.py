"""All ways into an index store the same bits; the script compares 10,000 chunks, or as many as one asks for."""

from __future__ import annotations

import pytest
from soak import same_bits
from support import engines

pytestmark = pytest.mark.skipif(not engines.lite_version(), reason="milvus-lite is not installed")


@pytest.mark.slow
def test_all_ways_store_the_same_bits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(same_bits, "PART", 40)
    assert same_bits.main(["--chunks", "100", "--workers", "1"]) == 0
    assert capsys.readouterr().out.endswith("the same bits\n")


def test_a_difference_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = iter([{"rows": "a", "verified": "True"}, {"rows": "b", "verified": "True"}])
    monkeypatch.setattr(same_bits, "added", lambda *_: None)
    monkeypatch.setattr(same_bits, "fingerprints", lambda *_: next(found))
    assert same_bits.main(["--chunks", "1"]) == 1
    assert "NOT the same bits" in capsys.readouterr().out
