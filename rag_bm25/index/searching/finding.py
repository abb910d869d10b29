"""Find a pattern in stored texts, character by character, without analysis and ranking.

A regular expression is one of RE2: it has no look-around and no back-references, nothing backtracks, and matching takes
linear time. A pattern that is too large is refused.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from rag_bm25.budget import check_budget
from rag_bm25.checks import require_extra
from rag_bm25.documents.chunks import pk_digest
from rag_bm25.errors import InputError, install_extra, short_repr
from rag_bm25.hits.neighbors import source_of
from rag_bm25.index.searching.rows import drop_superseded, to_chunk
from rag_bm25.store.rows import SLOTS, pk_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from rag_bm25.documents.chunks import Chunk
    from rag_bm25.store.rows import Scope

Search: TypeAlias = "Callable[[str, int], tuple[int, int] | None]"
"""Function of a text and the place to begin at that returns start and end of the first match."""

MAX_READ = 50_000  # chunks of one call
MAX_FOUND = 12_000  # characters of one answer, without those of its form
MAX_MATCH = 200  # characters of a match that are shown
WORDS = re.compile(r"[^\W_\U00010000-\U0010ffff]+")  # what all engines compare alike
UNSURE = re.compile(r"[(\[]|\\[^\WdDwWsSbB]")  # groups, classes, and escapes that a literal may follow as their part
OPTIONAL = re.compile(r".?(?:[?*]|\{[^}]*\})|\\.", re.DOTALL)
KEY = re.compile("(?:[0-9a-f]{40}[ab](?:@[0-9]{1,4})?)?")


class Pattern:
    """A literal, or with the extra ``regex`` a regular expression, that texts are searched for."""

    def __init__(self, text: str, *, regex: bool = False, ignore_case: bool = False) -> None:
        self.required = _required(text, regex=regex, ignore_case=ignore_case)
        self._search = (_regex if regex else _literal)(text, ignore_case)

    def first(self, text: str, begin: int = 0) -> tuple[int, int] | None:
        """Return start and end of the first match from `begin` on; None without a match."""
        check_budget()
        return self._search(text, begin)


def _literal(pattern: str, ignore_case: bool) -> Search:
    """Return the function that finds a literal."""
    if not ignore_case:
        return lambda text, begin: _place(text.find(pattern, begin), pattern)
    folded = _fold(pattern)
    return lambda text, begin: _place(_fold(text).find(folded, begin), pattern)


def _place(start: int, pattern: str) -> tuple[int, int] | None:
    return None if start < 0 else (start, start + len(pattern))


def _fold(text: str) -> str:
    """Fold the case of a text, character by character, so that places stay: ß, whose folding is ss, remains."""
    folded = text.casefold()
    return folded if len(folded) == len(text) else "".join(map(_fold_character, text))


def _fold_character(char: str) -> str:
    return min(char.casefold(), char.lower(), char, key=len)  # the first of the shortest


def _regex(pattern: str, ignore_case: bool) -> Search:
    """Return the function that finds a regular expression."""
    with require_extra(f"a regular expression needs google-re2: {install_extra('regex')}"):
        import re2
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)  # by itself: its parentheses must be pairs
        compiled = re2.compile(f"(?{'i' if ignore_case else ''}m:{pattern})", options)
    except (re2.error, UnicodeError) as error:
        told = error.args[0].decode() if isinstance(error, re2.error) else "it is no text"
        raise InputError(f"pattern is no regular expression that can be searched for: {told}") from None

    def search(text: str, begin: int) -> tuple[int, int] | None:
        match = compiled.search(text, begin)
        return None if match is None else match.span()

    return search


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
