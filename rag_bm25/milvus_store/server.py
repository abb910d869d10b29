"""Milvus behind an address: standalone, distributed, managed, or milvus-lite 3 in another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rag_bm25.milvus_store.address import without_secrets
from rag_bm25.milvus_store.engines import NO_PINGS, Engine, connect_client
from rag_bm25.milvus_store.lite3 import FlushingEngine

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Lite3Server", "Server", "connect"]

CONNECT_TIMEOUT = 10.0
CALL_TIMEOUT = 60.0


class Server(Engine):
    """A Milvus server, 2.5 or later."""

    channel: Mapping[str, int] = {}

    def __init__(self, uri: str, *, token: str | None, timeout: float | None) -> None:
        super().__init__(without_secrets(uri))
        seconds = CONNECT_TIMEOUT if timeout is None else timeout
        self._secrets = [secret for secret in (token, urlsplit(uri).password) if secret]
        self.options: dict[str, Any] = {"timeout": CALL_TIMEOUT if timeout is None else timeout}
        self.client = connect_client(
            uri,
            f"cannot reach Milvus at {self.place} within {seconds:g} s; check that it runs, its address and port, "
            "http or https, the token, and whether a proxy is set",
            token=token or "",
            timeout=seconds,
            grpc_options=self.channel,
        )

    def prepare(self, collection: str) -> None:
        """Load the collection: servers search only what is loaded."""
        self.write("load_collection", collection)

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

    channel = NO_PINGS


def connect(uri: str, *, token: str | None, timeout: float | None) -> Server:
    """Connect to a server, and see which kind it is."""
    server = Server(uri, token=token, timeout=timeout)
    if not server.read("get_server_version").startswith("milvus_lite"):
        return server
    server.close()
    return Lite3Server(uri, token=token, timeout=timeout)
