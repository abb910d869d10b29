"""Signs of life of other writers, on two clocks of which one may be wrong."""

from __future__ import annotations

import pytest
from support.clocks import Clocks

from rag_bm25.statistics.log.life_signs import LifeSigns


def test_a_silence_that_was_asked_for_goes_on_by_the_own_clock(clocks: Clocks) -> None:
    signs, begun = LifeSigns(), clocks.now
    signs.look(["batch"])
    clocks.wait(50)
    assert signs.silence("batch", [begun]) == pytest.approx(50, abs=0.01)  # as its writer has noted
    clocks.wait(100)
    clocks.now -= 3_600
    assert signs.silence("batch", [begun]) == pytest.approx(150, abs=0.01)
    assert signs.silence("batch", [begun, begun + 120]) == 0  # a new sign, just seen
    clocks.wait(10)
    assert signs.silence("batch", [begun, begun + 120]) == pytest.approx(10)
