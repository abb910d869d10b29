"""What a URI means: a database file or a server's address. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from rag_bm25.errors import ParameterError, StoreError

if TYPE_CHECKING:
    from rag_bm25.tls import TLS

__all__ = ["database_path", "is_address", "is_missing_file", "refuse_tls", "without_secrets"]

SCHEMES = ("http", "https", "tcp")


def is_missing_file(uri: str | Path) -> bool:
    """Tell whether a URI is a database file that is not there yet.

    Parameters
    ----------
    uri : str or Path
        A path ending in ``.db``, or the address of a server.

    Returns
    -------
    bool
        False for addresses.

    Raises
    ------
    ParameterError
        If it is neither.

    Examples
    --------
    >>> is_missing_file("http://localhost:19530")
    False
    >>> is_missing_file(":memory:")
    Traceback (most recent call last):
    rag_bm25.errors.ParameterError: uri must be a path ending in .db, such as ./rag.db, or an address ...
    """
    return not is_address(uri) and not _checked_path(uri).exists()


def is_address(uri: str | Path) -> bool:
    """Tell a server's address from a path; refuse other schemes."""
    if not isinstance(uri, str):
        return False
    scheme, separator, _ = uri.partition("://")
    if separator and scheme.lower() not in SCHEMES:
        raise ParameterError(_rule(uri))
    return bool(separator) or uri.startswith("unix:")


def database_path(uri: str | Path) -> Path:
    """Check a path and return it with links resolved, so that one file has one name."""
    path = _checked_path(uri).resolve()
    if not path.parent.is_dir():
        msg = f"cannot open {path}: the folder {path.parent} does not exist; create it first"
        raise StoreError(msg)
    return path


def refuse_tls(uri: str | Path, tls: TLS | None) -> None:
    """Refuse certificates for a connection that would go on without them."""
    if tls is not None:
        msg = f"tls must be given with an https:// address only, got {without_secrets(str(uri))!r}"
        raise ParameterError(msg)


def without_secrets(uri: str) -> str:
    """Take user and password out of an address."""
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _checked_path(uri: str | Path) -> Path:
    """Check that something is a path to a database."""
    if not isinstance(uri, (str, Path)) or not str(uri).endswith(".db") or "\0" in str(uri):
        raise ParameterError(_rule(uri))
    return Path(uri)


def _rule(uri: object) -> str:
    """State what a URI may be."""
    shown = without_secrets(uri) if isinstance(uri, str) else uri
    return (
        "uri must be a path ending in .db, such as ./rag.db, or an address starting with http://, https://, tcp:// or "
        f"unix:, got {str(shown)!r}"
    )
