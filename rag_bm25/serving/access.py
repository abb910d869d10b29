"""What the token of a request gives access to; `Served.ask` applies it to every request, over HTTP and MCP."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rag_bm25.errors import InputError
from rag_bm25.index.arguments import list_namespaces
from rag_bm25.serving.answers import RefusedError
from rag_bm25.serving.requests import OneNamespace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rag_bm25.serving.fields import Request

R = TypeVar("R", bound="Request")


@dataclass(frozen=True)
class Access:
    """The part of the index that requests see, and whether they may write to it."""

    namespaces: tuple[str, ...] | None = None  # by default all
    filter: Mapping[str, Any] | None = None  # that chunks must fit
    writes: bool = False  # where the server allows that

    @property
    def is_whole(self) -> bool:
        """Whether requests see the whole index."""
        return self.namespaces is None and self.filter is None

    def place(self, asked: R) -> R:
        """Return a request with its namespaces: those that it names, or else all that it may see."""
        own, names = self.namespaces, _names_in(asked)
        if own is None or names is None:
            return asked
        if names == [""] and "" not in own:
            names = []  # it is the default, and names none
        chunk_namespace = getattr(asked, "chunk_namespace", None)
        if not set(names).union(() if chunk_namespace is None else (chunk_namespace,)) <= set(own):
            raise RefusedError(403, "out_of_scope", "the access token is for other namespaces")
        return _with_names(asked, tuple(names) or own)


EVERYTHING = Access(writes=True)
NOTHING = Access(())

ACCESS: ContextVar[Access] = ContextVar("access")
"""That of the request under way. Without one, nothing is answered."""


def _names_in(asked: Request) -> list[str] | None:
    """Return the namespaces that a request names; None if it takes none."""
    if not hasattr(asked, "namespace"):
        return None
    given = asked.namespace
    if given is None or (given == "" and getattr(asked, "all_namespaces", False)):
        return []
    return [given] if isinstance(given, str) else list(given)


def _with_names(asked: R, names: tuple[str, ...]) -> R:
    if not isinstance(asked, OneNamespace):
        changes: dict[str, Any] = {"all_namespaces": False} if hasattr(asked, "all_namespaces") else {}
        return replace(asked, namespace=names, **changes)  # type: ignore[call-arg]
    if len(names) > 1:
        raise InputError(f"namespace must be one of those of the access token: {list_namespaces(names)}")
    return replace(asked, namespace=names[0])
