"""Milvus behind an address: standalone, distributed, managed, or milvus-lite 3 in another process."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from rag_bm25.errors import StoreError
from rag_bm25.milvus_store.address import refuse_tls, without_secrets
from rag_bm25.milvus_store.engines import NO_PINGS, UNREACHABLE, Engine, connect_client
from rag_bm25.milvus_store.lite3 import FlushingEngine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rag_bm25.tls import TLS

__all__ = ["Lite3Server", "Server", "connect"]

CONNECT_TIMEOUT = 10.0
CALL_TIMEOUT = 60.0
RETRY_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


class Server(Engine):
    """A Milvus server, 2.5 or later."""

    imports = True
    channel: Mapping[str, int] = {}

    def __init__(self, uri: str, *, token: str | None, timeout: float | None, tls: TLS | None = None) -> None:
        super().__init__(without_secrets(uri))
        seconds = CONNECT_TIMEOUT if timeout is None else timeout
        self._secrets = _secrets(uri, token)
        self.options: dict[str, Any] = {"timeout": CALL_TIMEOUT if timeout is None else timeout}
        self.client = connect_client(
            uri,
            f"cannot reach Milvus at {self.place} within {seconds:g} s; check that it runs, its address and port, "
            "http or https, certificates, the token, and whether a proxy is set",
            token=token or "",
            timeout=seconds,
            grpc_options=self.channel,
            **_certificates(uri, tls),
        )

    def read(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the server; where it cannot be reached, again for some time.

        Writes are not repeated: whether they took place is unknown, and finding that out is the index's matter.
        """
        end = time.monotonic() + min(RETRY_SECONDS, self.options["timeout"])
        longest = FIRST_PAUSE
        while True:
            pause = random.uniform(0, longest)  # noqa: S311 - so that clients do not all come back at once
            try:
                return super().read(method, *args, **kwargs)
            except StoreError as error:
                if time.monotonic() + pause > end or not any(sign in str(error) for sign in UNREACHABLE):
                    raise
            time.sleep(pause)
            longest = min(2 * longest, LONGEST_PAUSE)

    def prepare(self, collection: str) -> None:
        """Load the collection, which may be done twice: servers search only what is loaded."""
        self.read("load_collection", collection)

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def reason(self, error: Exception) -> str:
        """Return what the server says, without the token."""
        text = super().reason(error)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


class Lite3Server(FlushingEngine, Server):
    """milvus-lite 3, served to other processes."""

    imports = False
    channel = NO_PINGS


def connect(uri: str, *, token: str | None, timeout: float | None, tls: TLS | None = None) -> Server:
    """Connect to a server, and see which kind it is."""
    server = Server(uri, token=token, timeout=timeout, tls=tls)
    if not server.read("get_server_version").startswith("milvus_lite"):
        return server
    server.close()
    return Lite3Server(uri, token=token, timeout=timeout, tls=tls)


def _secrets(uri: str, token: str | None) -> list[str]:
    """Return everything that must not be shown, longest first: the password is a part of some tokens."""
    password = urlsplit(uri).password or ""
    user, separator, rest = (token or "").partition(":")
    return sorted({token or "", rest if separator and user else "", password, unquote(password)} - {""}, key=len)[::-1]


def _certificates(uri: str, tls: TLS | None) -> dict[str, str]:
    """Name the files as the client does."""
    if not uri.lower().startswith("https://"):
        refuse_tls(uri, tls)
    if tls is None:
        return {}
    names = {"client_pem_path": tls.cert_file, "client_key_path": tls.key_file, "server_name": tls.server_name}
    names["server_pem_path" if tls.cert_file is None else "ca_pem_path"] = tls.ca_file
    return {name: str(value) for name, value in names.items() if value is not None}
