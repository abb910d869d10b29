"""A proxy that knows calls: it can look at each, ask for a token, and lose one before or after it took place."""

from __future__ import annotations

import base64
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import grpc

Fault: TypeAlias = Literal["before", "after", "silent"]
ALL_SIZES = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
LONGEST = 60.0
REFUSED = "auth check failure, please check username and password are correct"  # as Milvus says it


class GrpcProxy(grpc.GenericRpcHandler):
    """Passes calls on to a server, and keeps them in `calls`: name of the method, and what was asked.

    Parameters
    ----------
    uri : str
        The server's.
    token : str, optional
        ``user:password`` that every call must bring; without it, the server is open to all.
    """

    def __init__(self, uri: str, *, token: str | None = None) -> None:
        self.calls: list[tuple[str, bytes]] = []
        self._token = None if token is None else base64.b64encode(token.encode()).decode()
        self._faults: dict[str, list[Fault]] = defaultdict(list)
        self._closing = threading.Event()
        self._server_channel = grpc.insecure_channel(urlsplit(uri).netloc, ALL_SIZES)
        self._threads = ThreadPoolExecutor(16)
        self._proxy = grpc.server(self._threads, [self], options=ALL_SIZES)
        self.uri = f"http://127.0.0.1:{self._proxy.add_insecure_port('127.0.0.1:0')}"
        self._proxy.start()

    def fail(self, method: str, *faults: Fault) -> None:
        """Lose the next calls of a method.

        Before they reach the server, after it did what was asked, or after that and without a word: the connection
        stays open, and nothing comes back.
        """
        self._faults[method] = list(faults)

    def heal(self) -> None:
        """Lose no more calls."""
        self._faults.clear()

    def count(self, method: str) -> int:
        """How many calls of a method there were."""
        return [name for name, _ in self.calls].count(method)

    def close(self) -> None:
        """Stop, whoever is still waiting."""
        self._closing.set()
        self._proxy.stop(grace=0).wait()
        self._server_channel.close()
        self._threads.shutdown()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Handle a call of whatever method."""
        path = handler_call_details.method
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._handle(path, request, context))

    def _handle(self, path: str, request: bytes, context: Any) -> bytes:
        method = path.rpartition("/")[2]
        self.calls.append((method, request))
        metadata = dict(context.invocation_metadata())
        if self._token is not None and metadata.get("authorization") != self._token:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, REFUSED)
        fault = self._faults[method].pop(0) if self._faults[method] else None
        if fault == "before":
            context.abort(grpc.StatusCode.UNAVAILABLE, "lost before")
        answer = self._pass_on(path, request, context)
        if fault == "after":
            context.abort(grpc.StatusCode.UNAVAILABLE, "lost after")
        if fault == "silent":
            self._closing.wait(LONGEST)
        return answer

    def _pass_on(self, path: str, request: bytes, context: Any) -> bytes:
        own = [
            item
            for item in context.invocation_metadata()
            if item[0] in ("authorization", "dbname", "client-request-unixmsec")
        ]
        try:
            call = self._server_channel.unary_unary(path)
            return bytes(call(request, metadata=own, timeout=LONGEST))
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
