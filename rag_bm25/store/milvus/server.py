"""Milvus behind an address: standalone, distributed, managed, or milvus-lite 3 in another process."""

from __future__ import annotations

import base64
import socket
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import grpc
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from rag_bm25.budget import check_budget
from rag_bm25.errors import StoreError
from rag_bm25.store.milvus.address import login_in
from rag_bm25.store.milvus.client import pymilvus
from rag_bm25.store.milvus.engine import NO_PINGS, UNREACHABLE, Engine, connect_client
from rag_bm25.store.milvus.limits import DENIED
from rag_bm25.store.milvus.lite3 import FlushingEngine
from rag_bm25.store.protocol import AmbiguousWriteError
from rag_bm25.store.storage import ALGOS, INDEX_TYPES, MILVUS_2_ALGOS, QUANT_TYPES, parse_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tenacity import RetryCallState

    from rag_bm25.store.milvus.connection import Connection
    from rag_bm25.store.tls import TLS

CONNECT_TIMEOUT = 10.0
CALL_TIMEOUT = 60.0
RETRY_SECONDS = 10.0
LATE_SECONDS = 60.0  # during which a server may go on with a write that it should have given up
DEFAULT_PORT = 19530
PROBE_TIMEOUT = 2.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
UNKNOWN_NAME = "is not known"
NOT_LOADED = frozenset({101, 201})  # collection, partitions
# Codes of a server that restarts or recovers: service, collection, partition, channel, segment or node not ready.
UNREADY = NOT_LOADED | {1, 2, 103, 106, 202, 503, 505, 507, 901, 905}
# Codes of a server that has refused a request before it stored anything: for limits and quotas, or for a collection,
# partition, database, parameter, privilege, alias or field.
REFUSALS = frozenset({3, 4, *range(6, 12), *range(100, 300), *range(800, 900), *range(1100, 1200), *range(1400, 1900)})
REFUSED_STATUSES = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
LOADED_ONLY = frozenset({"query", "search"})  # methods that find no released collection


class Server(Engine):
    """A Milvus server, 2.5 or later."""

    keys_per_query = 4000  # each query waits for a tick; one with too long a reply is halved
    channel: Mapping[str, int] = {}

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.place)
        uri, timeout = str(connection.uri), connection.timeout
        seconds = CONNECT_TIMEOUT if timeout is None else timeout
        token = connection.token or unquote(login_in(uri))
        self._secrets = _secrets(uri, token)
        self.options: dict[str, Any] = {"timeout": CALL_TIMEOUT if timeout is None else timeout}
        self.client = self._connect(seconds, token=token, grpc_options=self.channel, **_certificates(connection.tls))

    def _connect(self, seconds: float, **options: Any) -> Any:
        """Connect, for some seconds also to a server that restarts."""
        began, failure = time.monotonic(), f"cannot reach Milvus at {self.place}"
        repeated = Retrying(
            retry=retry_if_exception(lambda error: not _is_refused(error) and self._has_known_name()),
            wait=wait_random_exponential(FIRST_PAUSE, LONGEST_PAUSE),
            stop=stop_after_delay(min(RETRY_SECONDS, seconds)),
            reraise=True,
        )
        try:
            return repeated(connect_client, self.place, failure, timeout=seconds, **options)
        except StoreError as error:
            if _is_refused(error):
                given = "the token" if options["token"] else "a connection without a token"
                raise StoreError(f"Milvus at {self.place} refused {given}") from error
            raise StoreError(
                f"{error}, tried for {time.monotonic() - began:.1f} s: {_find_cause(self.place)}; check that it runs, "
                "its address and port, http or https, certificates, and whether a proxy is set"
            ) from error.__cause__

    def _has_known_name(self) -> bool:
        return UNKNOWN_NAME not in _find_cause(self.place)

    @property
    def late_seconds(self) -> float:
        """Seconds from its call during which a write that was given up may still take place."""
        # pymilvus repeats a call over a rate limit until the timeout, and the last attempt may take as long again.
        timeout: float = self.options["timeout"]
        return 2 * timeout + LATE_SECONDS

    def read(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the server, and repeat the call for some time if it cannot be reached, or is not ready.

        Writes are not repeated: whether they took place is unknown, and the index finds that out.
        """
        repeated = Retrying(
            retry=retry_if_exception(lambda error: _is_lost(error) or _is_unready(error)),
            wait=wait_random_exponential(FIRST_PAUSE, LONGEST_PAUSE),  # so that not all clients come back at once
            stop=self._is_too_late,
            reraise=True,
        )
        return repeated(self._read_loaded, method, *args, **kwargs)

    def write(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the server; unless it refuses, a write that fails may still take place."""
        try:
            return super().write(method, *args, **kwargs)
        except StoreError as error:
            if _is_refusal(error):
                raise
            raise AmbiguousWriteError(str(error)) from error.__cause__

    def _is_too_late(self, state: RetryCallState) -> bool:
        """Return whether to give up: a server that restarts is unready for longer than it is not reached."""
        check_budget()  # of a request that would wait longer than it may
        timeout: float = self.options["timeout"]
        error = state.outcome and state.outcome.exception()
        seconds = timeout if error and _is_unready(error) else min(RETRY_SECONDS, timeout)
        return (state.seconds_since_start or 0.0) >= seconds

    def _read_loaded(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the server; load the collection again before the next attempt where somebody has released it."""
        try:
            return super().read(method, *args, **kwargs)
        except StoreError as error:
            if _code(error) in NOT_LOADED and method in LOADED_ONLY:
                self.prepare(args[0])
            raise

    def storage_choices(self) -> Mapping[str, tuple[Any, ...]]:
        """Return every option that the version has: an unknown one is ignored, or no index is built by it."""
        is_new = parse_version(self.version)[:1] != (2,)
        newer: dict[str, tuple[Any, ...]] = {"quant_type": QUANT_TYPES} if is_new else {}
        algos = ALGOS if is_new else MILVUS_2_ALGOS
        return {"shards": (), "mmap": (), "index_type": INDEX_TYPES, "inverted_index_algo": algos, **newer}

    def prepare(self, collection: str) -> None:
        """Load the collection unless it is: a second time it would lose its replicas and resource groups."""
        try:
            state = self.read("get_load_state", collection)["state"]
        except StoreError as error:
            if DENIED not in str(error):
                raise
            return  # to a role that may only read what others load
        if state == pymilvus.client.types.LoadState.NotLoad:
            self.read("load_collection", collection)

    def close(self) -> None:
        if not self.is_inherited:
            self.client.close()

    def reason(self, error: Exception) -> str:
        """Return the message of the server, without the token."""
        text = super().reason(error)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


class _Unknown(Server):
    """A server of unknown kind: Milvus demands pings, and milvus-lite hangs up over them."""

    channel = NO_PINGS


class Lite3Server(FlushingEngine, Server):
    """milvus-lite 3 as a server of other processes."""

    channel = NO_PINGS


def connect(connection: Connection) -> Server:
    """Ask a server for its kind, and connect to it accordingly."""
    unknown = _Unknown(connection)
    try:
        version = unknown.read("get_server_version")
    finally:
        unknown.close()
    kind = Lite3Server if version.startswith("milvus_lite") else Server
    server = kind(connection)
    server.version = version
    return server


def _find_cause(place: str) -> str:
    """Find out why an address does not answer, as far as the system knows."""
    parts = urlsplit(place)
    if parts.hostname is None:
        return "nothing answers there"
    try:
        socket.create_connection((parts.hostname, parts.port or DEFAULT_PORT), timeout=PROBE_TIMEOUT).close()
    except socket.gaierror:
        return f"the name {parts.hostname!r} {UNKNOWN_NAME}"
    except ConnectionRefusedError:
        return "nothing listens on that port"
    except OSError as error:
        return str(error)
    return "something listens there, but does not answer as Milvus does"


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, StoreError) and any(sign in str(error) for sign in UNREACHABLE)


def _is_unready(error: BaseException) -> bool:
    return isinstance(error, StoreError) and _code(error) in UNREADY


def _code(error: StoreError) -> int | None:
    """Return the code that Milvus gives an error."""
    return getattr(error.__cause__, "code", None) if isinstance(error.__cause__, pymilvus.MilvusException) else None


def _is_refusal(error: StoreError) -> bool:
    """Return whether a call was not sent, or the server has refused it; any other failure leaves its outcome open."""
    if error.__cause__ is None or DENIED in str(error):
        return True
    if isinstance(error.__cause__, grpc.Call):
        return error.__cause__.code() in REFUSED_STATUSES
    return _code(error) in REFUSALS


def _is_refused(error: BaseException) -> bool:
    cause = error.__cause__ and error.__cause__.__cause__  # the client's error, and the call's
    return isinstance(cause, grpc.Call) and cause.code() == grpc.StatusCode.UNAUTHENTICATED


def _secrets(uri: str, token: str) -> list[str]:
    """Return all strings that must not be shown, longest first: the password is a part of some tokens."""
    given = {token, login_in(uri), unquote(login_in(uri))}
    passwords = {password for user, _, password in (text.partition(":") for text in given) if user}
    sent = {base64.b64encode(text.encode(errors="replace")).decode() for text in given}  # as in the client's header
    return sorted((given | passwords | sent) - {""}, key=len, reverse=True)


def _certificates(tls: TLS | None) -> dict[str, str]:
    """Name the files for the client."""
    if tls is None:
        return {}
    names = {"client_pem_path": tls.cert_file, "client_key_path": tls.key_file, "server_name": tls.server_name}
    names["server_pem_path" if tls.cert_file is None else "ca_pem_path"] = tls.ca_file
    return {name: str(value) for name, value in names.items() if value is not None}
