"""Open an index for an object that closes it."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from rag_bm25.index.coroutines import run_in_thread
from rag_bm25.index.index import BM25Index
from rag_bm25.index.opening import closed_on_failure

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

_OPENING = signature(BM25Index.open).parameters.keys()


class IndexOwner:
    """A wrapper around an index, which it closes if it has opened it."""

    if TYPE_CHECKING:  # pydantic would take these for fields
        index: BM25Index
        _owns_index: bool  # False, unless from_uri has made the object

    @classmethod
    def from_uri(cls, uri: str | Path, collection: str, **options: Any) -> Self:
        """Open an index, and return an object that owns it: use it in a ``with`` statement, or call :meth:`close`.

        Parameters
        ----------
        uri, collection
            As for :meth:`rag_bm25.BM25Index.open`.
        **options
            Those of :meth:`rag_bm25.BM25Index.open`, and those of the constructor.
        """
        opening = {name: options.pop(name) for name in options.keys() & _OPENING}
        index = BM25Index.open(uri, collection, **opening)
        make: Any = cls
        with closed_on_failure(index):
            made: Self = make(index=index, **options)
        made._owns_index = True
        return made

    def close(self) -> None:
        """Close the index if this object has opened it. Closing twice is allowed."""
        if self._owns_index:
            self.index.close()

    async def aclose(self) -> None:
        """Do as :meth:`close`, without blocking the event loop."""
        await run_in_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
