"""URIs: the path of a database file, or the address of a server."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from rag_bm25.errors import ParameterError, StoreError

SCHEMES = ("http", "https", "tcp")
AFTER_ADDRESS = re.compile("[?#]")  # a query or a fragment begins


def is_missing_file(uri: str | Path) -> bool:
    """Return whether a URI is the path of a database file that does not exist."""
    return not is_address(uri) and not check_path(uri).exists()


def is_address(uri: str | Path) -> bool:
    """Return whether a URI is the address of a server and not a path; refuse other schemes."""
    if not isinstance(uri, str):
        return False
    scheme, separator, _ = uri.partition("://")
    if separator and scheme.lower() not in SCHEMES:
        raise ParameterError(_rule(uri))
    return bool(separator) or uri.startswith("unix:")


def database_path(uri: str | Path) -> Path:
    """Check a path and resolve its links, so that a file has one name."""
    path = check_path(uri).resolve()
    if not path.parent.is_dir():
        raise StoreError(f"cannot open {path}: the folder {path.parent} does not exist; create it first")
    return path


def check_address(uri: str) -> None:
    """Refuse an address whose host or port cannot be parsed, or that has a query or a fragment."""
    place = without_secrets(uri)
    if AFTER_ADDRESS.search(uri):
        raise ParameterError(
            f"uri must have no query and no fragment, got {place!r} with one: give a token as token=..., and write ? "
            "and # in a user name or password as %3F and %23"
        )
    try:
        parts = urlsplit(place)
        _ = parts.port
    except ValueError as error:
        msg = f"uri must be an address with a host and a port in 0..65535, got {place!r}: {error}"
        raise ParameterError(msg) from None
    if not parts.hostname and parts.scheme != "unix":
        raise ParameterError(f"uri must be an address with a host, as in http://localhost:19530, got {place!r}")


def without_secrets(uri: str) -> str:
    """Remove user, password, query and fragment from an address.

    A password may contain a question mark or a hash that should have been quoted. Then its end is unknown, and only the
    scheme is shown.
    """
    scheme, separator, rest = uri.partition("://")
    login, _, place = rest.rpartition("@") if separator else ("", "", uri)
    if AFTER_ADDRESS.search(login):
        place = "***"
    shown = AFTER_ADDRESS.split(place, maxsplit=1)[0] if separator or uri.startswith("unix:") else uri
    return f"{scheme}://{shown}" if separator else shown


def login_in(uri: str) -> str:
    """Return user and password, or the API key, of an address, as they are quoted there; "" without."""
    return uri.partition("://")[2].rpartition("@")[0]


def check_path(uri: str | Path) -> Path:
    """Check that a URI is a path to a database file."""
    if not isinstance(uri, (str, Path)) or not str(uri).endswith(".db") or not _is_path(str(uri)):
        raise ParameterError(_rule(uri))
    return Path(uri)


def _is_path(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _rule(uri: object) -> str:
    shown = uri
    if isinstance(uri, str):  # an address, but for a sign
        shown = AFTER_ADDRESS.split(without_secrets(uri).rpartition("@")[2], maxsplit=1)[0]
    return (
        "uri must be a path ending in .db, such as ./rag.db, or an address starting with http://, https://, tcp:// or "
        f"unix:, got {str(shown)!r}"
    )
