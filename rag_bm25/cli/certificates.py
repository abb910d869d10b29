"""The certificates of the command that runs: options of ``rag-bm25`` itself, since it may open several connections."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from rag_bm25.store.tls import TLS

_certificates: ContextVar[TLS | None] = ContextVar("certificates", default=None)


def use_certificates(ca: Path | None, cert: Path | None, key: Path | None, server_name: str | None) -> None:
    """Keep what is given for the command that follows; without any of it, nothing is imported."""
    given = (ca, cert, key, server_name)
    _certificates.set(_read(*given) if any(given) else None)


def _read(*given: Any) -> TLS:
    from rag_bm25.cli.console import fail
    from rag_bm25.errors import ParameterError
    from rag_bm25.store.tls import TLS

    try:
        return TLS(*given)
    except ParameterError as error:
        fail(str(error))


def get_tls(uri: str | Path) -> TLS | None:
    """Return the certificates if they can be used: they are for ``https://`` addresses."""
    return _certificates.get() if str(uri).lower().startswith("https://") else None
