"""Number the distinct tokens of many chunks, with arrays instead of a dictionary.

A dictionary takes 130 ns a token, mostly waiting for memory. Here the tokens of a chunk are joined while they are in
the processor's cache, and all tokens are hashed at once, in half the time. Hash collisions are resolved: tokens get the
same number if and only if they are equal.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.errors import InputError
from rag_bm25.vectors.sparse import SparseBatch, group_starts, sort_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

SEPARATOR = "\ud800"  # a lone surrogate, which no storable text has
CHARACTER_BITS = 21  # every character + 1 fits
IN_A_CODE = 3  # characters that fit into 63 bits
LONG = np.uint64(1 << 63)  # flag of the codes of longer tokens
PIECE = 1 << 28  # characters; numpy strings have at most 2 GiB

_random = random.Random()  # noqa: S311  # separate, lest it disturb a seed of the user


@dataclass(frozen=True, eq=False)
class NumberedTokens:
    """The tokens of chunks as numbers."""

    terms: list[str]  # number -> term, in the order of first occurrence
    numbers: NDArray[np.uint32]  # of all tokens, chunk after chunk
    per_chunk: NDArray[np.int64]  # number of tokens of each chunk

    def frequencies(self) -> SparseBatch:
        """Count the terms of each chunk."""
        numbers = self.numbers.astype(np.uint32)
        sort_spans(numbers, self.per_chunk)
        keys = numbers | np.repeat(np.arange(len(self.per_chunk), dtype=np.uint64) << np.uint64(32), self.per_chunk)
        starts = group_starts(keys)
        tf = np.diff(starts, append=len(keys)).astype(np.float32)
        return SparseBatch.from_keys(keys[starts], tf, len(self.per_chunk))


def number_tokens(chunks: Iterable[Sequence[str]]) -> NumberedTokens:
    """Assign numbers to the tokens of chunks, in the order of their first occurrence."""
    per_chunk: list[int] = []
    joined: list[str] = []
    for tokens in chunks:
        per_chunk.append(len(tokens))
        joined.extend([SEPARATOR.join(tokens)] * bool(tokens))
    text = SEPARATOR.join([*joined, SEPARATOR * IN_A_CODE])
    characters = _characters(text)
    ends = np.flatnonzero(characters == ord(SEPARATOR))[:-IN_A_CODE]
    counts = np.array(per_chunk, np.int64)
    if len(ends) != counts.sum():
        raise InputError("an analyzer must not return tokens with lone surrogates, which cannot be stored")
    starts = np.concatenate(([0], ends[:-1] + 1))[: len(ends)]
    new, numbers = number_first(first_equal(_codes(text, characters, starts, ends)))
    return NumberedTokens(_slices(text, starts[new], ends[new]), numbers, counts)


def _characters(text: str) -> NDArray[np.uint32]:
    """Convert a non-empty text to code points."""
    pieces = [np.array([text[at : at + PIECE]]).view(np.uint32) for at in range(0, len(text), PIECE)]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _codes(
    text: str, characters: NDArray[np.uint32], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Map each token to an integer: its characters, or a serial number if it is long."""
    # Each character + 1, so that a token does not equal the one with a NUL before it. The text ends with IN_A_CODE
    # separators, so that characters can be read beyond the last token.
    lengths = ends - starts
    codes = np.zeros(len(starts), np.uint64)
    for place in range(IN_A_CODE):
        codes = codes << np.uint64(CHARACTER_BITS) | (characters[starts + place] + np.uint32(1))
    codes >>= (CHARACTER_BITS * np.maximum(IN_A_CODE - lengths, 0)).astype(np.uint64)
    long = np.flatnonzero(lengths > IN_A_CODE)
    known: dict[str, int] = {}
    codes[long] = LONG + np.fromiter(
        map(known.setdefault, _slices(text, starts[long], ends[long]), count()), np.uint64, len(long)
    )
    return codes


def _slices(text: str, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[str]:
    """Cut substrings out of a text."""
    return list(map(text.__getitem__, map(slice, starts.tolist(), ends.tolist())))


def first_equal(codes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the position of the first occurrence of each code."""
    # Each round writes the positions into a table by a hash of the code, from last to first, so that the first one
    # remains. Codes that collide with another code go on to the next round, with another hash.
    first = np.empty(len(codes), np.int64)
    left = np.arange(len(codes))
    bits = max(8, len(codes).bit_length())
    table = np.empty(1 << bits, np.int64)
    while len(left):
        hashed = (codes[left] * np.uint64(_random.getrandbits(64) | 1)) >> np.uint64(64 - bits)
        table[hashed[::-1]] = left[::-1]
        found = table[hashed]
        same = codes[found] == codes[left]
        first[left[same]] = found[same]
        left = left[~same]
    return first


def number_first(first: NDArray[np.integer]) -> tuple[NDArray[np.intp], NDArray[np.uint32]]:
    """Return the places of the first ones, and the number of each token, given the first one that equals each."""
    new = np.flatnonzero(first == np.arange(len(first)))
    numbers = np.empty(len(first), np.uint32)
    numbers[new] = np.arange(len(new), dtype=np.uint32)
    return new, numbers[first]
