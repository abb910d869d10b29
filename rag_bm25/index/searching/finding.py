"""Find a pattern in stored texts, character by character, without analysis and ranking.

Patterns are those of the Rust crate ``regex``, which pydantic brings. They have no look-around and no back-references:
nothing backtracks, and matching takes linear time. A large automaton is refused.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import TYPE_CHECKING, Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

from rag_bm25.budget import check_budget
from rag_bm25.documents.chunks import pk_digest
from rag_bm25.errors import InputError, short_repr
from rag_bm25.hits.neighbors import source_of
from rag_bm25.index.searching.rows import drop_superseded, to_chunk
from rag_bm25.store.rows import SLOTS, pk_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.documents.chunks import Chunk
    from rag_bm25.store.rows import Scope

MAX_READ = 50_000  # chunks of one call
MAX_FOUND = 12_000  # characters of one answer, without those of its form
MAX_MATCH = 200  # characters of a match that are shown
COPIES = 4  # of a pattern, for which the 10 MiB of the engine must do: no thread goes on while it looks at a text
MARKS = re.compile(r"[\\.+*?()|\[\]{}^$]")
WORDS = re.compile(r"[^\W_\U00010000-\U0010ffff]+")  # what all engines compare alike
UNSURE = re.compile(r"[(\[]|\\[^\WdDwWsSbB]")  # groups, classes, and escapes that a literal may follow as their part
OPTIONAL = re.compile(r".?(?:[?*]|\{[^}]*\})|\\.", re.DOTALL)
KEY = re.compile("(?:[0-9a-f]{40}[ab](?:@[0-9]{1,4})?)?")
FAULT = re.compile(r"\n {4}.*\n {4}( *)\^.*\nerror: (.*)")


class Pattern:
    """A literal or a regular expression, of which a text may have many matches.

    The engine tells only whether a text matches. A place is found by halving: a window matches as the whole text does
    there, because assertions look at one character on either side, and the window has it.
    """

    def __init__(self, text: str, *, regex: bool = False, ignore_case: bool = False) -> None:
        written = text if regex else MARKS.sub(r"\\\g<0>", text)
        _compile(written)  # by itself: its parentheses must be pairs
        _compile(f"(?:{written}){{{COPIES}}}")
        flags = "im" if ignore_case else "m"
        self.required = _required(text, regex=regex, ignore_case=ignore_case)
        sides = product(("", "(?s:.)"), ("", r"(?s:.*)(?s:.)\z"))
        self._windows = [_compile(rf"\A{left}(?s:.*)(?{flags}:{written}){right}") for left, right in sides]

    def first(self, text: str, begin: int = 0) -> tuple[int, int] | None:
        """Return start and end of the match that ends first, the shortest of them; None without a match."""
        if not self._is_in(text, begin, len(text)):
            return None
        end = bisect_left(range(len(text)), 1, begin, key=lambda end: self._is_in(text, begin, end))
        start = bisect_left(range(end), 1, begin, key=lambda start: not self._is_in(text, start + 1, end))
        return start, end

    def _is_in(self, text: str, start: int, end: int) -> bool:
        check_budget()
        left, right = start > 0, end < len(text)
        return self._windows[2 * left + right].isinstance_python(text[start - left : end + right])


def _compile(written: str) -> SchemaValidator:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=written, regex_engine="rust-regex"))
    except SchemaError as error:
        fault = FAULT.search(str(error))
        told = f"{fault[2]}, at its character {len(fault[1]) + 1}" if fault else str(error).rpartition(": ")[2]
        raise InputError(f"pattern is no regular expression that can be searched for: {told}") from None


def _required(text: str, *, regex: bool, ignore_case: bool) -> str:
    """Return the longest word that each match has, for the engine to look for; "" if there is none for sure."""
    if regex:
        text = "" if "|" in text else OPTIONAL.sub(" ", UNSURE.split(text, maxsplit=1)[0])
    if ignore_case:
        text = "".join(char if char.lower() == char.upper() else " " for char in text)
    return max(WORDS.findall(text), key=len, default="")


@dataclass(frozen=True)
class Finding:
    """A chunk that matches: the place of its first match, what is around it, and whether a later line matches, too."""

    chunk: Chunk
    start: int
    text: str
    more: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the chunk with what is around the match instead of its text."""
        place = {"source": source_of(self.chunk), "start": self.start, "text": self.text, "more": self.more}
        return {**self.chunk.to_dict(), **place}

    @property
    def size(self) -> int:
        """Number of its characters in an answer."""
        return len(self.chunk.id) + len(source_of(self.chunk) or "") + len(self.text)


@dataclass(frozen=True)
class Findings:
    """Chunks that match, of so many that were read; if a bound was reached, the reason, and the key to go on after."""

    found: list[Finding]
    read: int
    after: str = ""
    reason: str = ""


def find(
    index: Any,
    pattern: Pattern,
    scope: Scope,
    limit: int,
    around: int = 0,
    *,
    after: str = "",
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Findings:
    """Find chunks, in the order of their keys, until one of the bounds is reached."""
    if not KEY.fullmatch(after):
        raise InputError(f"after must be the `next` of an answer, got {short_repr(after)}")
    reasons = f"limit={limit}", f"{MAX_FOUND:,} characters", f"{MAX_READ:,} chunks", f"{seconds:g} seconds"
    end, found, read, size = clock() + seconds, list[Finding](), 0, 0
    index._live.finish_failed_batch()  # noqa: SLF001
    pages = index._store.scan_chunks(replace(scope, having=pattern.required, after=after), contents=True)  # noqa: SLF001
    for read, row in enumerate(drop_superseded(chain.from_iterable(pages)), 1):
        if (finding := _look(pattern, to_chunk(row), around)) is not None:
            found.append(finding)
            size += finding.size
        reached = len(found) >= limit, size >= MAX_FOUND, read >= MAX_READ, clock() >= end
        if any(reached):
            key = pk_in(row.part, pk_digest(row.namespace, row.id) + SLOTS[-1])
            return Findings(found, read, key, reasons[reached.index(True)])
    return Findings(found, read)


def _look(pattern: Pattern, chunk: Chunk, around: int) -> Finding | None:
    """Look for the first match in a chunk."""
    if (place := pattern.first(chunk.text)) is None:
        return None
    start, end = place
    line = chunk.text.find("\n", end)
    more = line >= 0 and pattern.first(chunk.text, line + 1) is not None
    return Finding(chunk, start, chunk.text[max(0, start - around) : min(end, start + MAX_MATCH) + around], more)
