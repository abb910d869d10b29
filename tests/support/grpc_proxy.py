"""A proxy that knows calls: it looks at each, asks for a token, and loses those that a test has chosen."""

from __future__ import annotations

import base64
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NoReturn, TypeAlias
from urllib.parse import urlsplit

import grpc

Fault: TypeAlias = Literal["before", "after", "silent", "limited"] | None
ALL_SIZES = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
LONGEST = 60.0
REFUSED = "auth check failure, please check username and password are correct"  # as Milvus says it


def refusal() -> bytes:
    """Return a server's answer to a write beyond the limit of its rate."""
    from pymilvus.grpc_gen import common_pb2, milvus_pb2

    status = common_pb2.Status(code=8, error_code=common_pb2.RateLimit, reason="rate limit exceeded")
    return bytes(milvus_pb2.MutationResult(status=status).SerializeToString())


class GrpcProxy(grpc.GenericRpcHandler):
    """Passes calls on to a server, and keeps them in `calls`: the method's name, and the message.

    Parameters
    ----------
    uri : str
        The server's.
    token : str, optional
        ``user:password`` that every call must bring; without it, all calls are let in.
    """

    def __init__(self, uri: str, *, token: str | None = None) -> None:
        self.calls: list[tuple[str, bytes]] = []
        self._token = None if token is None else base64.b64encode(token.encode()).decode()
        self._faults: dict[str, list[Fault]] = defaultdict(list)
        self._closing = threading.Event()
        self._server = grpc.insecure_channel(urlsplit(uri).netloc, ALL_SIZES)
        self._threads = ThreadPoolExecutor(16)
        self._proxy = grpc.server(self._threads, [self], options=ALL_SIZES)
        self.uri = f"http://127.0.0.1:{self._proxy.add_insecure_port('127.0.0.1:0')}"
        self._proxy.start()

    def fail(self, method: str, *faults: Fault) -> None:
        """Lose the next calls of a method: each before it reaches the server, after it took place, or not at all.

        A silent loss is one after it took place as well, but the connection stays open and nothing comes back. A
        "limited" write is refused, as by a server with a limit of its rate.
        """
        self._faults[method] = list(faults)

    def messages(self, method: str) -> list[bytes]:
        """What was asked of a method."""
        return [message for name, message in self.calls if name == method]

    def close(self) -> None:
        """Stop, whoever is still waiting."""
        self._closing.set()
        self._proxy.stop(grace=0).wait()
        self._server.close()
        self._threads.shutdown()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Handle a call of whatever method."""
        path = handler_call_details.method
        return grpc.unary_unary_rpc_method_handler(lambda message, context: self._handle(path, message, context))

    def _handle(self, path: str, message: bytes, context: Any) -> bytes:
        method = path.rpartition("/")[2]
        self.calls.append((method, message))
        if self._token is not None and dict(context.invocation_metadata()).get("authorization") != self._token:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, REFUSED)
        fault = self._faults[method].pop(0) if self._faults[method] else None
        if fault == "before":
            self._lose(context, fault)
        if fault == "limited":
            return refusal()
        answer = self._pass_on(path, message, context)
        if fault == "silent":
            self._closing.wait(LONGEST)
        if fault is not None:
            self._lose(context, fault)
        return answer

    def _lose(self, context: Any, fault: Fault) -> NoReturn:
        context.abort(grpc.StatusCode.UNAVAILABLE, f"lost {fault}")
        raise AssertionError

    def _pass_on(self, path: str, message: bytes, context: Any) -> bytes:
        database = [item for item in context.invocation_metadata() if item[0] == "dbname"]
        try:
            return bytes(self._server.unary_unary(path)(message, metadata=database, timeout=LONGEST))
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
            raise AssertionError from error
