"""Attributes that raise StoreError after close, and those of the generation in force."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from rag_bm25.errors import StoreError

T = TypeVar("T")


def require_open(index: object) -> None:
    """Refuse a closed index: not every method needs its store, whose calls fail, since statistics are in memory."""
    state = vars(index)
    if not state["_is_open"]:
        raise StoreError(f"{state['_generation'].store.name} is closed")


class WhileOpen(Generic[T]):
    """An attribute of an index; reading that of a closed one is a ``StoreError``."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, index: object, value: T) -> None:
        vars(index)[self._name] = value

    def __get__(self, index: object, owner: type) -> T:
        if index is None:
            raise AttributeError(self._name)  # the class has none
        require_open(index)
        value: T = vars(index)[self._name]
        return value


class OfGeneration(Generic[T]):
    """A part of the generation in force, while the index is open.

    Two of them may be of two generations: a call that needs several takes them from one generation.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._part = name.removeprefix("_")

    def __get__(self, index: Any, owner: type) -> T:
        if index is None:
            raise AttributeError(self._part)  # the class has none
        value: T = getattr(index._current(), self._part)  # noqa: SLF001 - this is a part of the index
        return value
