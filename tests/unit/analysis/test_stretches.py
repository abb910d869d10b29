"""Stretches of a text, and where they are."""

from __future__ import annotations

from typing import Any

from rag_bm25.analysis.stretches import find_stretches, places_of


class CountingText(str):
    """A text that counts how often it is searched."""

    __slots__ = ("searches",)

    def find(self, *given: Any) -> int:
        self.searches = getattr(self, "searches", 0) + 1
        return super().find(*given)


def test_a_stretch_is_none_as_a_part_of_another_one() -> None:
    assert list(places_of("b-b b b-b劳b", "b")) == [4, 10]
    assert list(places_of("b-b b b-b劳b", "b-b")) == [0, 6]


def test_a_stretch_that_others_hold_many_times_is_looked_for_once_in_each() -> None:
    text = CountingText(" ".join("-".join("b" * size) for size in range(1, 101)))
    assert all(len(list(places_of(text, stretch))) == 1 for stretch in find_stretches(text))
    assert text.searches <= 100 * 101
