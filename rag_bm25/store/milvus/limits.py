"""Sizes that engines take, and what they refuse."""

from __future__ import annotations

from rag_bm25.errors import StoreError

MESSAGE_BYTES = 32 * 2**20  # half of what a server takes by default
MAX_ROWS = 16_384  # of one search
DENIED = "permission deny"  # in the message of a server whose user may not do what was asked


class ReplyTooLargeError(StoreError):
    """A message exceeds the engine's limit; asking for less helps."""
