"""Every exception that the package raises on purpose, and how their messages show a value.

::

    RagBM25Error
    ├── InputError(ValueError)            data that breaks a rule: a text, id, metadata, query, vector or namespace
    │   └── FilterError                   a filter that cannot be read, or that the engine refuses
    ├── ParameterError(ValueError)        a parameter that breaks a rule: ``k``, ``idf``, ``workers``, a config's ``k1``
    ├── ConfigMismatchError(ValueError)   the index was made with other parameters or another analyzer
    ├── IndexNotFoundError(KeyError)      no index of that name
    ├── ChunkNotFoundError(KeyError)      no chunk with that id
    ├── FormatError(ValueError)           stored data of a newer format, or damaged
    ├── ReadOnlyError(PermissionError)    a write through an index opened with ``read_only=True``
    ├── MissingExtraError(ImportError)    an optional package is needed; the message names the extra
    ├── WorkerError(RuntimeError)         a process that analyses chunks died
    └── StoreError(ConnectionError)       Milvus not reachable, refused, timed out or failed
        └── StoreLockedError              another process has the database file open

**InputError or ParameterError?** What an index stores or looks for is *input*: texts, ids, metadata, queries with their
boosts, filters, vectors, namespaces, files of them. It comes from users and documents at run time, and is refused as an
:class:`InputError`. What says how to do it is a *parameter*: it has a name of its own, in a signature or an
:class:`~rag_bm25.IndexConfig`, and is written by a programmer: ``k``, ``fusion``, ``statistics``, ``syntax``,
``feedback``, ``mode``. It is refused as a :class:`ParameterError`. Both are a ``ValueError``. A keyword that there is
not is a ``TypeError``, as for every function of Python.
"""

from __future__ import annotations

__all__ = [
    "ChunkNotFoundError",
    "ConfigMismatchError",
    "FilterError",
    "FormatError",
    "IndexNotFoundError",
    "InputError",
    "MissingExtraError",
    "ParameterError",
    "RagBM25Error",
    "ReadOnlyError",
    "StoreError",
    "StoreLockedError",
    "WorkerError",
    "shown",
]

MAX_SHOWN = 200


def shown(value: object) -> str:
    """Return a value as a message shows it, however large it is.

    Parameters
    ----------
    value : object
        What somebody has given.

    Returns
    -------
    str
        Its ``repr``, cut to 200 characters; its type where that fails, as for integers of 5,000 digits.

    Examples
    --------
    >>> shown("a"), shown(10**5000)
    ("'a'", '<int that cannot be shown>')
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # a class of somebody else may raise anything
        return f"<{type(value).__name__} that cannot be shown>"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


class RagBM25Error(Exception):
    """Base of every error that the package raises on purpose."""

    def __str__(self) -> str:
        """Return the message; ``KeyError`` alone would show its repr."""
        return str(self.args[0]) if self.args else ""


class InputError(RagBM25Error, ValueError):
    """Data break a rule: texts, ids, metadata, queries, vectors or namespaces; of the batch nothing was written."""


class FilterError(InputError):
    """A filter cannot be read, or the engine refuses it."""


class ParameterError(RagBM25Error, ValueError):
    """A parameter, which has a name of its own, breaks its rule: the message has name, rule and value."""


class ConfigMismatchError(RagBM25Error, ValueError):
    """The stored parameters or analyzer differ from the given ones."""


class IndexNotFoundError(RagBM25Error, KeyError):
    """There is no index of that name at that URI."""


class ChunkNotFoundError(RagBM25Error, KeyError):
    """There is no chunk with that id in that namespace."""


class FormatError(RagBM25Error, ValueError):
    """Stored data has a newer format than this version reads, or is damaged."""


class ReadOnlyError(RagBM25Error, PermissionError):
    """A write was asked of an index that was opened read-only."""


class MissingExtraError(RagBM25Error, ImportError):
    """An optional package is not installed; the message names the extra."""


class StoreError(RagBM25Error, ConnectionError):
    """Milvus could not be reached, refused the token, timed out or failed."""


class StoreLockedError(StoreError):
    """Another process has the database file open."""


class WorkerError(RagBM25Error, RuntimeError):
    """A process that analyses chunks died, or could not be started."""
