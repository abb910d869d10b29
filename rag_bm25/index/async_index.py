"""The index in an event loop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from rag_bm25.index.coroutines import iterate_in_thread, run_in_thread
from rag_bm25.index.index import BM25Index

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _opening(
    method: Callable[P, BM25Index],
) -> Callable[Concatenate[type[AsyncBM25Index], P], Coroutine[Any, Any, AsyncBM25Index]]:
    @wraps(getattr(method, "__func__", method))
    async def open_index(cls: type[AsyncBM25Index], /, *args: P.args, **kwargs: P.kwargs) -> AsyncBM25Index:
        return cls(await run_in_thread(method, *args, **kwargs))

    return _rename(open_index)


def _in_thread(
    method: Callable[Concatenate[BM25Index, P], R],
) -> Callable[Concatenate[AsyncBM25Index, P], Coroutine[Any, Any, R]]:
    @wraps(method)
    async def call(self: AsyncBM25Index, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await run_in_thread(method, self.index, *args, **kwargs)

    return _rename(call)


def _in_write_thread(
    method: Callable[Concatenate[BM25Index, P], R],
) -> Callable[Concatenate[AsyncBM25Index, P], Coroutine[Any, Any, R]]:
    @wraps(method)
    async def write(self: AsyncBM25Index, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.index._write_thread.submit(method, self.index, *args, **kwargs)  # noqa: SLF001

    return _rename(write)


def _streaming(
    method: Callable[Concatenate[BM25Index, P], Iterator[T]],
) -> Callable[Concatenate[AsyncBM25Index, P], AsyncIterator[T]]:
    @wraps(method)
    async def stream(self: AsyncBM25Index, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        async for item in iterate_in_thread(partial(method, self.index, *args, **kwargs)):
            yield item

    return _rename(stream)


def _rename(function: Callable[P, R]) -> Callable[P, R]:
    function.__module__, function.__qualname__ = __name__, f"AsyncBM25Index.{function.__name__}"
    return function


@dataclass(frozen=True)
class AsyncBM25Index:
    """A :class:`~rag_bm25.BM25Index` whose methods are awaited; they run in threads.

    It has the methods of :class:`~rag_bm25.BM25Index` with the same parameters, :meth:`open` included; `chunks` is read
    with ``async for``. Writes run one after the other. If a task is cancelled, a write that has begun ends
    nevertheless.

    Parameters
    ----------
    index : BM25Index
        An open index. Its attributes, such as `config`, are read from it.

    Examples
    --------
    ::

        async with await AsyncBM25Index.open("./rag.db", "docs") as index:
            hits = await index.search("sparse vectors", k=3)
    """

    index: BM25Index

    async def __aenter__(self) -> AsyncBM25Index:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    open = classmethod(_opening(BM25Index.open))
    from_store = classmethod(_opening(BM25Index.from_store))
    close = _in_thread(BM25Index.close)

    add = _in_write_thread(BM25Index.add)
    add_stream = _in_write_thread(BM25Index.add_stream)
    delete = _in_write_thread(BM25Index.delete)
    drop_namespace = _in_write_thread(BM25Index.drop_namespace)
    repair = _in_write_thread(BM25Index.repair)
    calibrate_answers = _in_write_thread(BM25Index.calibrate_answers)
    learn_k1 = _in_write_thread(BM25Index.learn_k1)
    set_query_defaults = _in_write_thread(BM25Index.set_query_defaults)
    verify = _in_write_thread(BM25Index.verify)  # writers wait for it

    refresh = _in_thread(BM25Index.refresh)
    get = _in_thread(BM25Index.get)
    get_embeddings = _in_thread(BM25Index.get_embeddings)
    chunks = _streaming(BM25Index.chunks)
    chunk_terms = _in_thread(BM25Index.chunk_terms)
    search = _in_thread(BM25Index.search)
    search_batch = _in_thread(BM25Index.search_batch)
    search_dense = _in_thread(BM25Index.search_dense)
    search_hybrid = _in_thread(BM25Index.search_hybrid)
    more_like_this = _in_thread(BM25Index.more_like_this)
    neighbors = _in_thread(BM25Index.neighbors)
    highlight = _in_thread(BM25Index.highlight)
    encode_documents = _in_thread(BM25Index.encode_documents)
    encode_queries = _in_thread(BM25Index.encode_queries)
    max_scores = _in_thread(BM25Index.max_scores)
    suggest = _in_thread(BM25Index.suggest)
    explain = _in_thread(BM25Index.explain)
    explain_hybrid = _in_thread(BM25Index.explain_hybrid)
    diagnose = _in_thread(BM25Index.diagnose)
    term_statistics = _in_thread(BM25Index.term_statistics)
    terms = _in_thread(BM25Index.terms)
    stats = _in_thread(BM25Index.stats)
    frequent_names = _in_thread(BM25Index.frequent_names)
