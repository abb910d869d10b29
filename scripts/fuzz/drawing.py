"""Values made of the bytes of one input, so that a fuzzer that changes bytes changes values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Draw"]

_T = TypeVar("_T")

_SPECIAL = [0, -1, 1.5, -0.0, 1e308, 5e-324, float("nan"), float("inf"), 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**400]


@dataclass
class Draw:
    """Reads an input from its start; where it has ended, everything is zero, empty, or the first choice.

    Parameters
    ----------
    data : bytes
        The input.
    """

    data: bytes
    at: int = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes, fewer where the input ends."""
        taken = self.data[self.at : self.at + size]
        self.at += size
        return taken

    def rest(self) -> bytes:
        """Return everything that is left."""
        return self.take(len(self.data))

    def number(self, below: int) -> int:
        """Return an integer in [0, below)."""
        return int.from_bytes(self.take(1 if below <= 256 else 4), "little") % below

    def chance(self, of: int) -> bool:
        """Return True once in so many times."""
        return self.number(of) == of - 1

    def choice(self, members: Sequence[_T]) -> _T:
        """Return one of several."""
        return members[self.number(len(members))]

    def text(self, pieces: Sequence[str], most: int = 8) -> str:
        """Return a text of pieces that mean something to what is tested, now and then with any character."""
        drawn = (self.character() if self.chance(8) else self.choice(pieces) for _ in range(self.number(most + 1)))
        return "".join(drawn)

    def character(self) -> str:
        """Return any character, lone surrogates included."""
        point = int.from_bytes(self.take(3), "little")
        return chr(point % (0x110000, 0x3000, 0x10000)[point >> 22 if point >> 22 < 3 else 0])

    def scalar(self, words: Sequence[str]) -> Any:
        """Return what may stand for a value in JSON, or in a program."""
        kind = self.number(8)
        if kind == 0:
            return self.text(words, 3)
        if kind == 1:
            return self.number(5)
        return (None, True, False, self.choice(_SPECIAL), self.choice(words), self.number(2**32) / 7)[kind - 2]

    def json(self, words: Sequence[str], depth: int = 3) -> Any:
        """Return a JSON value."""
        kind = self.number(8) if depth else 7
        if kind == 0:
            return [self.json(words, depth - 1) for _ in range(self.number(4))]
        if kind == 1:
            return {self.choice(words): self.json(words, depth - 1) for _ in range(self.number(4))}
        return self.scalar(words)

    def mutated(self, value: Any, words: Sequence[str]) -> Any:
        """Return a copy of a JSON value in which some things are something else, are missing, or are there twice."""
        if self.chance(16):
            return self.json(words)
        if isinstance(value, dict):
            kept = {key: self.mutated(member, words) for key, member in value.items() if not self.chance(24)}
            return {**kept, self.choice(words): self.json(words)} if self.chance(12) else kept
        if isinstance(value, list):
            kept_members = [self.mutated(member, words) for member in value if not self.chance(24)]
            return kept_members * 2 if self.chance(24) else kept_members
        return value

    def damaged(self, data: bytes) -> bytes:
        """Return bytes with a few of them changed, left out, repeated, or put in between."""
        for _ in range(self.number(4)):
            at = self.number(2**32) % (len(data) + 1)
            removed = self.number(4)
            data = data[:at] + self.take(self.number(4)) + data[at + removed :]
        return data[: self.number(2**32) % (len(data) + 1)] if self.chance(6) else data
