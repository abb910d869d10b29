"""Certificates of a connection to a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rag_bm25.errors import ParameterError


@dataclass(frozen=True)
class TLS:
    """Certificates for an ``https://`` address, beside the authorities that gRPC knows.

    Only paths are kept here; the files are read when connecting, and their contents are never shown.

    Parameters
    ----------
    ca_file : str or Path, optional
        PEM file with the certificates of the authority that signed the server's certificate, or with that one itself.
    cert_file, key_file : str or Path, optional
        PEM files with certificate and private key of the client, for servers that demand them; both must be given,
        together with `ca_file`.
    server_name : str, optional
        Name in the server's certificate, if it differs from that of the address.

    Examples
    --------
    >>> TLS(ca_file="missing.pem")
    Traceback (most recent call last):
    rag_bm25.errors.ParameterError: ca_file must be a file, got 'missing.pem'
    """

    ca_file: str | Path | None = None
    cert_file: str | Path | None = None
    key_file: str | Path | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        for name in ("ca_file", "cert_file", "key_file"):
            path = getattr(self, name)
            if path is not None and not Path(path).is_file():
                raise ParameterError(f"{name} must be a file, got {str(path)!r}")
        own = (self.cert_file, self.key_file)
        if own != (None, None) and None in (self.ca_file, *own):  # the client would go on without its certificate
            raise ParameterError("cert_file and key_file must be given together, and with ca_file")
