"""Settings of a server, and the rules for those that open it to others."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_bm25.errors import ParameterError

if TYPE_CHECKING:
    from pathlib import Path

    from rag_bm25.serving.tokens import TokenFile

MIN_TOKEN = 16


@dataclass(frozen=True)
class Limits:
    """Bounds of one request, and of all together; those of data are in bytes."""

    body: int = 4 << 20
    question: int = 1 << 20  # the body of a request that only reads
    answer: int = 8 << 20
    held: int = 64 << 20  # by the bodies of all requests together
    seconds: float = 30.0  # of a request, with its time in the queue
    work: float = 3.0  # seconds that the index works for a request that reads
    running: int = 4  # requests that the index answers at once
    waiting: int = 64  # requests in the queue


@dataclass(frozen=True)
class Settings:
    """Settings of an HTTP server; an address that other machines reach needs a token and TLS."""

    host: str = "127.0.0.1"
    port: int = 8765  # 0 is a free one
    token: str | None = None  # for everything
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False  # which speaks TLS with the clients
    hosts: tuple[str, ...] = ()  # further names in `Host` that are the server's own
    origins: tuple[str, ...] = ()  # further ones whose pages may ask the server
    allow_writes: bool = False
    limits: Limits = Limits()
    tokens: TokenFile | None = None  # each with a scope

    def __post_init__(self) -> None:
        if self.token is not None and (len(self.token) < MIN_TOKEN or not self.token.isascii()):
            raise ParameterError(f"the access token must have at least {MIN_TOKEN} characters, all of them ASCII")
        if (self.certificate is None) != (self.key is None):
            raise ParameterError("a certificate and its key belong together: give both, or none")
        if is_loopback(self.host):
            return
        if self.is_open:
            raise ParameterError(f"{self.host} can be reached from other machines, and needs an access token")
        if self.certificate is None and not self.behind_proxy:
            raise ParameterError(
                f"{self.host} can be reached from other machines, and needs a certificate and its key, or a proxy that "
                "speaks TLS and is stated with --behind-proxy"
            )
        if is_any(self.host) and not self.hosts:
            raise ParameterError(f"{self.host} stands for all addresses: name those that clients use with --allow-host")

    @property
    def is_open(self) -> bool:
        """Whether requests need no token."""
        return self.token is None and self.tokens is None

    @property
    def scheme(self) -> str:
        """The scheme of the server's own address."""
        return "http" if self.certificate is None else "https"

    def own_hosts(self) -> frozenset[str]:
        """Return the names in ``Host`` that are the server's own, without ports."""
        loopback = {"localhost", "127.0.0.1", "::1"} if is_loopback(self.host) or is_any(self.host) else set()
        return frozenset(name.lower() for name in (*self.hosts, *loopback, *([] if is_any(self.host) else [self.host])))


def parse_address(text: str) -> tuple[str, int]:
    """Read HOST:PORT; an IPv6 address stands in brackets."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ParameterError(f"the address must be HOST:PORT, such as 127.0.0.1:8765 or [::1]:8765, got {text!r}")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_any(host: str) -> bool:
    """Return whether an address stands for all of the machine's."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
