"""Attributes that raise StoreError after close."""

from __future__ import annotations

from typing import Generic, TypeVar

from rag_bm25.errors import StoreError

T = TypeVar("T")


class WhileOpen(Generic[T]):
    """An attribute of an index; reading that of a closed one is a ``StoreError``.

    Stores refuse calls when they are closed, but not every method needs one: the statistics are in memory.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, index: object, value: T) -> None:
        vars(index)[self._name] = value

    def __get__(self, index: object, owner: type) -> T:
        if index is None:
            raise AttributeError(self._name)  # the class has none
        state = vars(index)
        if not state["_is_open"]:
            raise StoreError(f"{state['_store'].name} is closed")
        value: T = state[self._name]
        return value
