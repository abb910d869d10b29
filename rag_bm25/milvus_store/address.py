"""What a URI means: a database file or a server's address. Imports nothing heavy."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rag_bm25.errors import ParameterError, StoreError

if TYPE_CHECKING:
    from rag_bm25.tls import TLS

__all__ = [
    "database_path",
    "is_address",
    "is_missing_file",
    "login_in",
    "refuse_malformed",
    "refuse_tls",
    "without_secrets",
]

SCHEMES = ("http", "https", "tcp")
AFTER_ADDRESS = re.compile("[?#]")  # a query or a fragment begins


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


def refuse_malformed(uri: str) -> None:
    """Refuse an address whose host or port cannot be read, or that has more than these and a database."""
    place = without_secrets(uri)
    if AFTER_ADDRESS.search(uri):
        msg = (
            f"uri must have no query and no fragment, got {place!r} with one: give a token as token=..., and write ? "
            "and # in a user name or password as %3F and %23"
        )
        raise ParameterError(msg)
    try:
        parts = urlsplit(place)
        _ = parts.port
    except ValueError as error:
        msg = f"uri must be an address with a host and a port in 0..65535, got {place!r}: {error}"
        raise ParameterError(msg) from None
    if not parts.hostname and parts.scheme != "unix":
        msg = f"uri must be an address with a host, as in http://localhost:19530, got {place!r}"
        raise ParameterError(msg)


def without_secrets(uri: str) -> str:
    """Take user, password, query and fragment out of an address.

    A sign in a password may not be quoted as it should be; where it is a question mark or a hash, nothing tells what
    is the password's, and no more is shown than the scheme.
    """
    scheme, separator, rest = uri.partition("://")
    login, _, place = rest.rpartition("@") if separator else ("", "", uri)
    if AFTER_ADDRESS.search(login):
        place = "***"
    shown = AFTER_ADDRESS.split(place, maxsplit=1)[0] if separator or uri.startswith("unix:") else uri
    return f"{scheme}://{shown}" if separator else shown


def login_in(uri: str) -> str:
    """Return user and password of an address, or the key in their place, quoted as they are there; "" without."""
    return uri.partition("://")[2].rpartition("@")[0]


def _checked_path(uri: str | Path) -> Path:
    """Check that something is a path to a database."""
    if not isinstance(uri, (str, Path)) or not str(uri).endswith(".db") or not _is_path(str(uri)):
        raise ParameterError(_rule(uri))
    return Path(uri)


def _is_path(text: str) -> bool:
    """Tell whether the system can be asked for a path."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _rule(uri: object) -> str:
    """State what a URI may be."""
    shown = uri
    if isinstance(uri, str):  # an address, but for a sign
        shown = AFTER_ADDRESS.split(without_secrets(uri).rpartition("@")[2], maxsplit=1)[0]
    return (
        "uri must be a path ending in .db, such as ./rag.db, or an address starting with http://, https://, tcp:// or "
        f"unix:, got {str(shown)!r}"
    )
