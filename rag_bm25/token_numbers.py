"""Numbers for the distinct tokens of many chunks, found in arrays.

A dictionary that is asked for each token spends most of its time waiting for memory: 130 ns a token. Here the tokens
of a chunk become one string while they are in the processor's cache, and numbers are found for all of them at once, in
half of that. Nothing is guessed: tokens get the same number if and only if they are equal.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from rag_bm25.errors import InputError
from rag_bm25.sparse import SparseBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["NumberedTokens", "number_tokens"]

SEPARATOR = "\ud800"  # a lone surrogate: text that is stored as UTF-8 has none
CHARACTER_BITS = 21  # hold every character, counted from 1
IN_A_CODE = 3  # of them fit into 63 bits
LONG = np.uint64(1 << 63)
PIECE = 1 << 28  # characters; a string of numpy has at most 2 GiB

_random = random.Random()  # noqa: S311  # of its own: a user's seed stays as it is


@dataclass(frozen=True, eq=False)
class NumberedTokens:
    """The tokens of some chunks as numbers.

    Parameters
    ----------
    terms : list of str
        The distinct tokens, in the order in which they were first seen: number -> term.
    numbers : ndarray of int64, shape (n_tokens,)
        Number of each token, chunk after chunk.
    per_chunk : ndarray of int64, shape (n_chunks,)
        How many tokens each chunk has.
    """

    terms: list[str]
    numbers: NDArray[np.int64]
    per_chunk: NDArray[np.int64]

    def frequencies(self) -> SparseBatch:
        """Count the terms of each chunk.

        Returns
        -------
        SparseBatch
            A row per chunk: number -> tf. Rows of chunks without tokens are empty.
        """
        # Chunk and number in one integer: sorting groups the chunks, and the terms within each.
        rows = np.repeat(np.arange(len(self.per_chunk), dtype=np.uint64), self.per_chunk)
        keys = self.numbers.astype(np.uint64) | (rows << np.uint64(32))
        keys.sort()
        starts = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
        tf = np.diff(starts, append=len(keys)).astype(np.float32)
        return SparseBatch.from_keys(keys[starts], tf, len(self.per_chunk))


def number_tokens(chunks: Iterable[Sequence[str]]) -> NumberedTokens:
    """Give the tokens of some chunks numbers.

    Parameters
    ----------
    chunks : iterable of sequences of str
        Tokens of each chunk; of each chunk only one string is kept.

    Returns
    -------
    NumberedTokens
        Their numbers.

    Raises
    ------
    InputError
        A token has a lone surrogate.

    Examples
    --------
    >>> numbered = number_tokens([["to", "be", "to"], [], ["be", "or"]])
    >>> numbered.terms, numbered.numbers.tolist(), numbered.per_chunk.tolist()
    (['to', 'be', 'or'], [0, 1, 0, 1, 2], [3, 0, 2])
    """
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
        msg = "an analyzer must not return tokens with lone surrogates, which cannot be stored"
        raise InputError(msg)
    starts = np.concatenate(([0], ends[:-1] + 1))[: len(ends)]
    first = _first_equal(_codes(text, characters, starts, ends))
    new = np.flatnonzero(first == np.arange(len(first)))
    numbers = np.empty(len(first), np.int64)
    numbers[new] = np.arange(len(new))
    return NumberedTokens(_slices(text, starts[new], ends[new]), numbers[first], counts)


def _characters(text: str) -> NDArray[np.uint32]:
    """Return the characters of a text that is not empty."""
    pieces = [np.array([text[at : at + PIECE]]).view(np.uint32) for at in range(0, len(text), PIECE)]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _codes(
    text: str, characters: NDArray[np.uint32], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return an integer for each token: its characters, or for a long one a number of its own.

    Characters are counted from 1, so that a shorter token has a smaller code. As many as fit into one follow the last.
    """
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
    """Cut pieces out of a text."""
    return list(map(text.__getitem__, map(slice, starts.tolist(), ends.tolist())))


def _first_equal(codes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return where each code stands first.

    Each round writes the places into a table by a hash of the code, from the last to the first, so that the first one
    stays; codes that found another one's place go on to the next round, with another hash.
    """
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
