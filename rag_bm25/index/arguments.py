"""Check and parse the arguments that several methods of an index share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from rag_bm25.checks import check_int
from rag_bm25.documents.checks import check_namespace
from rag_bm25.errors import InputError, short_repr
from rag_bm25.filters import conjoin, parse_filter
from rag_bm25.store.rows import MAX_K, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FilterLike: TypeAlias = "Mapping[Any, Any] | None"
Namespaces: TypeAlias = "str | Sequence[str] | None"  # None for all

MAX_LISTED = 5
EVERYTHING = 1 << 40  # more chunks than any document has


def parse_scope(filter: FilterLike, namespace: Namespaces) -> Scope:
    """Parse a filter and namespaces."""
    return Scope(parse_filter(filter), check_namespaces(namespace))


def narrow(scope: Scope, filter: FilterLike) -> Scope:
    """Add a filter to a scope."""
    return replace(scope, where=conjoin(scope.where, parse_filter(filter)))


def check_namespaces(namespace: Namespaces) -> tuple[str, ...] | None:
    """Check namespaces; None for all."""
    if namespace is None:
        return None
    names = [namespace] if isinstance(namespace, str) else namespace
    if isinstance(names, bytes) or not isinstance(names, Sequence) or not names:
        msg = f"namespace must be a str, a non-empty sequence of str, or None for all, got {short_repr(namespace)}"
        raise InputError(msg)
    return tuple(check_namespace(name) for name in names)


def check_chunk_namespace(chunk_namespace: str | None, searched: tuple[str, ...] | None) -> str | None:
    """Check the namespace of a chunk that a search is said to have found; `searched` is None for all namespaces."""
    if chunk_namespace is None:
        return None
    place = check_namespace(chunk_namespace, "chunk_namespace")
    if searched is not None and place not in searched:
        places = list_namespaces(searched)
        msg = f"chunk_namespace must be one of the namespaces that were searched, {places}, got {place!r}"
        raise InputError(msg)
    return place


def name_namespace(namespace: str) -> str:
    """Return a namespace as messages name it."""
    return f"the namespace {namespace!r}" if namespace else "the default namespace"


def list_namespaces(names: Iterable[str]) -> str:
    """List distinct namespaces in a message."""
    return list_first(map(name_namespace, sorted(set(names))))


def list_first(items: Iterable[str], most: int = MAX_LISTED) -> str:
    """List items in a message, the first ones and the number of others if there are many."""
    every = list(items)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def check_k(k: int, name: str = "k") -> int:
    """Check a number of hits or candidates."""
    return check_int(name, k, 1, MAX_K)


def check_window(name: str, count: int | None) -> int:
    """Check a number of neighbours; None for all."""
    return EVERYTHING if count is None else check_int(name, count, 0, MAX_K)
