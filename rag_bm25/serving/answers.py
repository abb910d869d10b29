"""Answers and refusals, the same over HTTP and MCP: no traceback and no secret in any of them."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from rag_bm25.errors import (
    ChunkNotFoundError,
    IndexGoneError,
    IndexNotFoundError,
    MissingExtraError,
    RagBM25Error,
    ReadOnlyError,
    StoreError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LOGGER = logging.getLogger("rag_bm25.serving")
LEVELS = 2  # of an answer, to its hits: together they may be larger than the memory

STATUSES: tuple[tuple[type[Exception], int, str], ...] = (
    (ChunkNotFoundError, 404, "not_found"),
    (ReadOnlyError, 403, "read_only"),
    (MissingExtraError, 501, "not_installed"),
    (RecursionError, 400, "bad_request"),
)


class RefusedError(Exception):
    """A request that is not answered: its status, a reason for programs and people, and seconds until it may be."""

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after

    def to_json(self) -> dict[str, Any]:
        """Return the body of the answer."""
        return {"error": {"code": self.code, "message": self.message}}


def to_refusal(error: Exception) -> RefusedError:
    """Map an exception to an error response. Internal errors are logged and their details hidden."""
    if isinstance(error, RefusedError):
        return error
    for kind, status, code in STATUSES:
        if isinstance(error, kind):
            return RefusedError(status, code, str(error) or "the request is nested too deeply")
    if isinstance(error, IndexGoneError):
        LOGGER.error("%s", error)
        return RefusedError(503, "index_gone", "the index was dropped while it was served: start the server again")
    if isinstance(error, StoreError | IndexNotFoundError):
        LOGGER.error("the index failed: %s", type(error).__name__)
        return RefusedError(503, "index_failed", "the index cannot be reached now; ask again later", retry_after=5)
    if isinstance(error, RagBM25Error):
        return RefusedError(400, "bad_request", str(error))
    LOGGER.error("a request failed: %s at %s", type(error).__name__, _place_of(error))
    return RefusedError(500, "internal", "the request failed in the server; its log names the place")


def _place_of(error: Exception) -> str:
    """Return where an error was raised; its message may have a text or a secret in it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "unknown" if trace is None else f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"


def to_bytes(answer: Any, most: int) -> bytes:
    """Return an answer as JSON, unless it is too large; no more of that is made than one hit beyond the bound."""
    parts: list[bytes] = []
    size = 0
    for part in _encode(answer, LEVELS):
        parts.append(part)
        size += len(part)
        if size > most:
            message = f"the answer has more than {most:,} bytes: lower k, or cut texts with max_text"
            raise RefusedError(413, "answer_too_large", message)
    return b"".join(parts)


def _encode(value: Any, levels: int) -> Iterator[bytes]:
    """Yield the JSON of a value, that of each member by itself down to some level."""
    if not levels or not isinstance(value, dict | list) or not value:
        yield _to_json(value)
        return
    is_object = isinstance(value, dict)
    before = b"{" if is_object else b"["
    for member in value:
        yield before
        if is_object:
            yield _to_json(member) + b":"
        yield from _encode(value[member] if is_object else member, levels - 1)
        before = b","
    yield b"}" if is_object else b"]"


def _to_json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace")  # a lone surrogate, as JSON spells it
