"""Encode parts in worker processes."""

from __future__ import annotations

import signal
from collections import deque
from typing import TYPE_CHECKING

from rag_bm25.bulk.encoding import encode_part
from rag_bm25.checks import is_iterable
from rag_bm25.documents.checks import check_namespace
from rag_bm25.errors import InputError
from rag_bm25.index.writing.workers import ProcessPool, check_picklable, check_workers, worker_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path
    from typing import Any

    from rag_bm25.bulk.encoding import PartReport
    from rag_bm25.index.config import IndexConfig


def encode_parts(
    parts: Iterable[Sequence[Mapping[str, Any]]],
    config: IndexConfig,
    folder: str | Path,
    *,
    namespace: str = "",
    workers: int = 0,
) -> Iterator[PartReport]:
    """Encode parts in parallel, numbered from 0.

    Parameters
    ----------
    parts : iterable of sequences of mappings
        The chunks of each part, as for :func:`encode_part`. Read one by one; memory holds at most ``workers + 1`` of
        them. About 20,000 chunks are a good size.
    config, folder, namespace
        As for :func:`encode_part`.
    workers : int
        Number of processes, in 0..61; 0 encodes in this process. They are spawned, so a script must call this below
        ``if __name__ == "__main__":``.

    Returns
    -------
    iterator of PartReport
        Counts of each part, in order; a part is encoded when its report is requested.

    Raises
    ------
    ParameterError
        The number of workers is out of range, or the analyzer cannot be pickled; raised at the call.
    InputError
        The namespace breaks a rule or `parts` is not iterable, raised at the call; or a chunk breaks a rule.
    WorkerError
        A process died. Parts already yielded are complete.
    """
    number, namespace = check_workers(workers), check_namespace(namespace)
    if not is_iterable(parts):
        raise InputError(f"parts must be an iterable of sequences of mappings, got {type(parts).__name__}")
    if not number:
        return (encode_part(each, config, folder, part, namespace=namespace) for part, each in enumerate(parts))
    check_picklable(config)
    return _encode_in_pool(number, parts, config, folder, namespace)


def _encode_in_pool(
    workers: int, parts: Iterable[Sequence[Mapping[str, Any]]], config: IndexConfig, folder: str | Path, namespace: str
) -> Iterator[PartReport]:
    numbered = enumerate(parts)
    pool = ProcessPool(workers, signal.signal, signal.SIGINT, signal.SIG_IGN)
    with pool, worker_errors("its part was encoded; the parts that are finished stay"):
        waiting: deque[Future[PartReport]] = deque()
        try:
            for part, chunks in numbered:
                waiting.append(pool.submit(encode_part, chunks, config, folder, part, namespace=namespace))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
