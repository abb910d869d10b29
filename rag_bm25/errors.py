"""The exceptions of the package, and the representation of values in their messages.

::

    RagBM25Error
    ├── InputError(ValueError)            data that breaks a rule: a text, id, metadata, query, vector or namespace
    │   └── FilterError                   an invalid filter, or one that the engine cannot evaluate
    ├── ParameterError(ValueError)        a parameter that breaks a rule: ``k``, ``idf``, ``workers``, a config's ``k1``
    ├── ConfigMismatchError(ValueError)   the index was made with other parameters or another analyzer
    ├── IndexNotFoundError(KeyError)      index not found
    ├── ChunkNotFoundError(KeyError)      chunk not found
    ├── FormatError(ValueError)           stored data is damaged, or has another format
    ├── ReadOnlyError(PermissionError)    a write through an index opened with ``read_only=True``
    ├── MissingExtraError(ImportError)    an optional package is not installed; the message names the extra
    ├── WorkerError(RuntimeError)         a process that analyses chunks died
    └── StoreError(ConnectionError)       Milvus is not reachable, refused, timed out or failed
        ├── IndexGoneError                the index was dropped while it was open, and perhaps made again
        ├── ClockError                    the clock of this computer is behind the rows of the database file
        └── StoreLockedError              another process has the database file open

**InputError or ParameterError?** *Input* is the data that an index stores or searches for: texts, ids, metadata,
queries with their boosts, filters, vectors, namespaces, and files of them. It comes from users and documents at run
time. A *parameter* controls how this is done. It has a name in a signature or an :class:`~rag_bm25.IndexConfig`, and is
written by a programmer: ``k``, ``fusion``, ``statistics``, ``syntax``, ``feedback``, ``mode``. An unknown keyword is a
``TypeError``, as for every Python function.
"""

from __future__ import annotations

import os
import re

REINDEX = "`rag-bm25 reindex --to-collection NAME` makes a new index from its texts"
"""The way out of an index of an earlier format."""

MAX_SHOWN = 200

INSTALL_EXTRA = 'pip install ".[{0}]" in a clone of rag-bm25, or its wheel with [{0}]'
"""How an extra is installed while no version is on PyPI, where the name may be another's."""


def install_extra(name: str) -> str:
    """Say how an extra is installed.

    Parameters
    ----------
    name : str
        The extra.

    Returns
    -------
    str
        What to run.
    """
    return INSTALL_EXTRA.format(name)


def short_repr(value: object) -> str:
    """Represent a value of any size in an error message.

    Parameters
    ----------
    value : object
        Any object.

    Returns
    -------
    str
        Its ``repr``, cut to 200 characters; its type if ``repr`` fails, as it does for integers of 5,000 digits.

    Examples
    --------
    >>> short_repr(10**5000)
    '<int that cannot be shown>'
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # the repr of a foreign class may raise anything
        return f"<{type(value).__name__} that cannot be shown>"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


class RagBM25Error(Exception):
    """Base class of the package's errors."""

    def __str__(self) -> str:
        """Return the message itself; ``KeyError`` would return its repr."""
        return str(self.args[0]) if self.args else ""


class InputError(RagBM25Error, ValueError):
    """A text, id, metadata, query, vector or namespace is invalid; nothing of its batch was written."""


class FilterError(InputError):
    """A filter is invalid, or the engine cannot evaluate it."""


class ParameterError(RagBM25Error, ValueError):
    """A parameter is not of its documented type or range; the message has its name, that rule and the given value."""


class ConfigMismatchError(RagBM25Error, ValueError):
    """The stored parameters or analyzer differ from the given ones."""


class IndexNotFoundError(RagBM25Error, KeyError):
    """No index of that name was found at that URI."""


class ChunkNotFoundError(RagBM25Error, KeyError):
    """No chunk with that id was found in that namespace."""


class FormatError(RagBM25Error, ValueError):
    """Stored data is damaged, or has a newer format than this version reads."""


class ReadOnlyError(RagBM25Error, PermissionError):
    """An index that was opened read-only cannot be written to."""


class MissingExtraError(RagBM25Error, ImportError):
    """An optional package is not installed; the message names the extra.

    Parameters
    ----------
    message : str
        What needs it, and how it is installed.
    """

    def __init__(self, message: str = "") -> None:
        if "RAG_BM25_IMAGE" in os.environ:  # which has no pip
            message = re.sub(r"pip install (?:--\S+ )?", "build an image with ", message)
        super().__init__(message)


class StoreError(RagBM25Error, ConnectionError):
    """Milvus is not reachable, refused the token, timed out or failed."""


class ClockError(StoreError):
    """The clock of this computer is behind the last write: milvus-lite 2.5 hides rows that were written later."""


class IndexGoneError(StoreError):
    """The index was dropped while it was open, and perhaps another one was made in its place: open it anew."""


class StoreLockedError(StoreError):
    """Another process has the database file open."""


class WorkerError(RagBM25Error, RuntimeError):
    """A process that analyses chunks died, or could not be started."""
