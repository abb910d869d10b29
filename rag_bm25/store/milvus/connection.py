"""The connection to Milvus: address, token, certificates and timeout."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_bm25.checks import is_number, parameter_error
from rag_bm25.errors import ParameterError
from rag_bm25.store.milvus.address import check_address, check_path, is_address, without_secrets
from rag_bm25.store.tls import TLS

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Connection:
    """An address and the options to connect to it, checked."""

    uri: str | Path  # a path ending in .db, or the address of a server
    token: str | None = None  # user:password or an API key, for servers
    tls: TLS | None = None  # for https:// addresses
    timeout: float | None = None  # seconds of one call; None for the defaults

    def __post_init__(self) -> None:
        if not isinstance(self.token, str | None):  # the value may be a secret
            raise ParameterError(f"token must be a str, got {type(self.token).__name__}")
        if self.timeout is not None and not _is_duration(self.timeout):
            raise parameter_error("timeout", "a number greater than 0", self.timeout)
        if not isinstance(self.tls, TLS | None):
            raise ParameterError(f"tls must be a TLS, got {type(self.tls).__name__}")
        if is_address(self.uri):
            check_address(str(self.uri))
        else:
            check_path(self.uri)
        if self.tls is not None and not str(self.uri).lower().startswith("https://"):
            raise ParameterError(f"tls must be given with an https:// address only, got {self.place!r}")

    def __repr__(self) -> str:
        return f"Connection({self.place!r})"

    @property
    def is_server(self) -> bool:
        """Whether the URI is an address, not a path."""
        return is_address(self.uri)

    @property
    def place(self) -> str:
        """The URI without secrets, for messages."""
        return without_secrets(str(self.uri))


def _is_duration(value: object) -> bool:
    return is_number(value) and 0 < value < math.inf
