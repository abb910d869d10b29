"""Find the places of pieces in the text that they were cut from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def find_places(text: str, pieces: Sequence[str]) -> list[int]:
    """Return the first character of each piece, given pieces in order that leave out nothing but white space.

    Of several places of a piece, the last one that leaves no gap is taken: an earlier one would leave a gap later on.
    """
    places: list[int] = []
    end, longest = 0, max(map(len, pieces), default=0)
    for piece in pieces:
        while end < len(text) and text[end].isspace() and not text.startswith(piece, end):
            end += 1
        place = text.rfind(piece, max(0, end - 2 * longest), end + len(piece))
        places.append(place if place >= 0 else end)  # a splitter may have changed the text
        end = places[-1] + len(piece)
    return places
