"""Encode the parts of a corpus in processes of this machine."""

from __future__ import annotations

import signal
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

from rag_bm25.bulk.encoding import encode_part
from rag_bm25.chunks import check_namespace
from rag_bm25.errors import InputError
from rag_bm25.parameters import is_iterable
from rag_bm25.workers import check_picklable, check_workers, deaths_told, interrupts_blocked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path
    from typing import Any

    from rag_bm25.bulk.encoding import PartReport
    from rag_bm25.config import IndexConfig

__all__ = ["encode_parts"]


def encode_parts(
    parts: Iterable[Sequence[Mapping[str, Any]]],
    config: IndexConfig,
    folder: str | Path,
    *,
    namespace: str = "",
    workers: int = 0,
) -> Iterator[PartReport]:
    """Encode parts by :func:`encode_part`, several at once: number 0 is the first.

    Parameters
    ----------
    parts : iterable of sequences of mappings
        The chunks of each part, as for :func:`encode_part`. Taken one by one; there are at most one more in memory
        than there are workers, so that parts of some 20,000 chunks are a good size.
    config, folder, namespace
        As for :func:`encode_part`.
    workers : int
        Processes, in 0..61; 0 encodes in this one. They are spawned: a script must call this below
        ``if __name__ == "__main__":``.

    Returns
    -------
    iterator of PartReport
        What was written, in the order of the parts; a part is encoded as its report is asked for.

    Raises
    ------
    ParameterError
        The number of workers is out of its range, or the analyzer cannot be sent to another process; at the call.
    InputError
        The namespace breaks a rule, or `parts` is no iterable, at the call; a chunk breaks a rule, as its part is
        encoded.
    WorkerError
        A process died; the parts that were yielded are there.
    """
    number, namespace = check_workers(workers), check_namespace(namespace)
    if not is_iterable(parts):
        msg = f"parts must be an iterable of sequences of mappings, got {type(parts).__name__}"
        raise InputError(msg)
    if not number:
        return (encode_part(each, config, folder, part, namespace=namespace) for part, each in enumerate(parts))
    check_picklable(config)
    return _encoded_by(number, parts, config, folder, namespace)


def _encoded_by(
    workers: int, parts: Iterable[Sequence[Mapping[str, Any]]], config: IndexConfig, folder: str | Path, namespace: str
) -> Iterator[PartReport]:
    """Encode parts in other processes."""
    numbered = enumerate(parts)
    pool = ProcessPoolExecutor(workers, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))
    with pool, deaths_told("its part was encoded; the parts that are finished stay"):
        waiting: deque[Future[PartReport]] = deque()
        try:
            for part, chunks in numbered:
                with interrupts_blocked():  # a process may be started now
                    waiting.append(pool.submit(encode_part, chunks, config, folder, part, namespace=namespace))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
