"""The HTTP application: routes, and requests from bodies and query strings."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from rag_bm25.definitions import read_json
from rag_bm25.errors import ParameterError
from rag_bm25.serving.agents import build_mcp_server
from rag_bm25.serving.answers import RefusedError, to_bytes
from rag_bm25.serving.fields import read, read_words
from rag_bm25.serving.guard import Guard, refusal_response
from rag_bm25.serving.openapi import describe
from rag_bm25.serving.routes import API, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.requests import Request as HttpRequest

    from rag_bm25.serving.routes import Operation
    from rag_bm25.serving.served import Served
    from rag_bm25.serving.settings import Limits, Settings

PAGE = Path(__file__).with_name("page")
DISCARDED = 8 << 20  # bytes of a body that is too large: a client that still sends would not read the refusal
PARSING = threading.Lock()  # no other thread goes on meanwhile: two in turns would hold up the event loop


def build_app(server: Served, settings: Settings) -> Starlette:
    """Return the application: the API, MCP, the page, and what watches over them."""
    if settings.tokens is not None:
        settings.tokens.check_scopes(server.check)
    manager = StreamableHTTPSessionManager(
        build_mcp_server(server, allow_writes=settings.allow_writes),
        json_response=True,
        stateless=True,  # nothing is kept between requests, so that a stop waits for none
        max_request_body_size=settings.limits.question,
    )
    of_api = [
        Route(each.path, partial(_answer, each, server, settings), methods=list(each.methods)) for each in OPERATIONS
    ]
    routes = [
        Mount(API, routes=of_api),
        Route("/mcp", StreamableHTTPASGIApp(manager), methods=["POST"]),
        Route("/mcp", _refuse_stream, methods=["GET", "DELETE"]),
        Route("/openapi.json", partial(_describe, settings)),
        Route("/metrics", partial(_metrics, server)),
        Route("/healthz", _healthz),
        Mount("/", StaticFiles(directory=PAGE, html=True)),
    ]
    handlers: Any = {HTTPException: _on_http_error}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lambda _: manager.run())
    app.add_middleware(Guard, settings=settings, events=server.events)
    return app


async def _refuse_stream(_: HttpRequest) -> Response:
    raise HTTPException(405, "there are no streams and no sessions here: use POST", {"allow": "POST"})


async def _describe(settings: Settings, _: HttpRequest) -> Response:
    return JSONResponse(describe(API, OPERATIONS, with_token=not settings.is_open))


async def _metrics(server: Served, _: HttpRequest) -> Response:
    return Response(server.observer.metrics(), media_type="text/plain; version=0.0.4")


async def _healthz(_: HttpRequest) -> Response:
    return JSONResponse({"status": "ok"})


async def _answer(operation: Operation, server: Served, settings: Settings, request: HttpRequest) -> Response:
    """Answer a request with an operation on the index."""
    try:
        if operation.call.writes and not settings.allow_writes:
            raise RefusedError(403, "read_only", "this server does not write; rag-bm25 serve --allow-writes does")
        asked = await _receive(operation, request, settings.limits)
        answer = server.ask(operation.call, asked, lambda _, answer: to_bytes(answer, settings.limits.answer))
        body = await (answer if operation.call.writes else _while_waited_for(request, answer))
    except ClientDisconnect:
        return Response(None, 400)  # that nobody reads; no failure of the server, which a log would have
    except Exception as error:  # noqa: BLE001 - each becomes an answer
        return refusal_response(server.to_refusal(error))
    return Response(body, media_type="application/json")


async def _while_waited_for(request: HttpRequest, answer: Coroutine[Any, Any, bytes]) -> bytes:
    """Return an answer, or leave it once the client has gone: as one types, each keystroke gives up the search before.

    What waits in the queue then goes out of it.
    """
    answered, gone = asyncio.ensure_future(answer), asyncio.ensure_future(_wait_for_end(request))
    try:
        await asyncio.wait((answered, gone), return_when=asyncio.FIRST_COMPLETED)
        if answered.done():
            return answered.result()
    except asyncio.CancelledError:  # at a stop, of which the gate tells
        answered.cancel()
        return await answered
    finally:
        gone.cancel()
    answered.cancel()
    with suppress(asyncio.CancelledError, RefusedError):
        await answered
    raise ClientDisconnect


async def _wait_for_end(request: HttpRequest) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _receive(operation: Operation, request: HttpRequest, limits: Limits) -> Callable[[], Any]:
    """Return what reads a request: the body's JSON object, or the query string, and the id in the path."""
    path = {"ids" if operation.name == "delete" else name: [value] for name, value in request.path_params.items()}
    if request.method in ("GET", "HEAD") or path:
        if "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0":
            raise RefusedError(400, "bad_request", "the arguments belong into the address, and there must be no body")
        words = {name: request.query_params.getlist(name) for name in request.query_params}
        if again := path.keys() & words.keys():
            raise RefusedError(400, "bad_request", f"{again.pop()} must be given once, and is in the path")
        return lambda: read_words(operation.model, {**words, **path})
    if request.query_params:
        raise RefusedError(400, "bad_request", "the arguments belong into the body, a JSON object")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "wrong_type", "the header Content-Type must be application/json")
    body = await _receive_body(request, limits.body if operation.call.writes else min(limits.body, limits.question))
    return lambda: read(operation.model, _parse_json(body))


async def _receive_body(request: HttpRequest, most: int) -> bytes:
    body, size = bytearray(), 0
    async for part in request.stream():
        size += len(part)
        if size <= most:
            body += part
        elif size > DISCARDED:
            break
    if size > most:
        raise RefusedError(413, "body_too_large", f"the body must have at most {most:,} bytes; send it in parts")
    return bytes(body)


def _parse_json(body: bytes) -> dict[str, Any]:
    try:
        with PARSING:
            given = read_json(body, parse_constant=_refuse_constant)
    except ParameterError as error:
        raise RefusedError(400, "bad_request", str(error)) from None
    except (RecursionError, ValueError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "not UTF-8, or not JSON"
        raise RefusedError(400, "bad_request", f"the body must be a JSON object: {reason}") from None
    if not isinstance(given, dict):
        raise RefusedError(400, "bad_request", "the body must be a JSON object")
    return given


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


async def _on_http_error(request: HttpRequest, error: Exception) -> Response:
    """Answer for routes and methods that do not exist."""
    assert isinstance(error, HTTPException)
    code, message = "bad_request", error.detail
    if error.status_code == HTTPStatus.NOT_FOUND:
        code, message = "not_found", "there is nothing at this address; /openapi.json lists the routes"
    elif message == HTTPStatus.METHOD_NOT_ALLOWED.phrase:
        message = f"nothing at this address answers {request.method}; /openapi.json lists the routes"
    answer = refusal_response(RefusedError(error.status_code, code, message))
    answer.headers.update(error.headers or {})
    return answer
