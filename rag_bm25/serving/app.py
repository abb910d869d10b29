"""The HTTP application: routes, and requests from bodies and query strings."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from rag_bm25.serving import requests
from rag_bm25.serving.answers import RefusedError, parse, to_bytes, to_refusal
from rag_bm25.serving.guard import Guard, refusal_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request as HttpRequest

    from rag_bm25.serving.gate import Gate
    from rag_bm25.serving.operations import Operations
    from rag_bm25.serving.settings import Settings

API = "/api/v1"
PAGE = Path(__file__).with_name("page")
LISTS = {"must", "must_not", "phrases", "relevant", "irrelevant", "ids"}
OBJECTS = {"filter", "statistics", "synonyms", "boosts", "first", "second"}  # JSON, if they look like it
CONNECTION_CLOSED = 499


@dataclass(frozen=True)
class Operation:
    """An operation with its route: the name of the method, its request, and how it is asked."""

    name: str
    path: str
    model: type[requests.Request]
    methods: tuple[str, ...] = ("GET", "POST")
    writes: bool = False


OPERATIONS = (
    Operation("search", "/search", requests.Search),
    Operation("explain", "/explain", requests.Explain),
    Operation("why", "/why", requests.Why),
    Operation("suggest", "/suggest", requests.Suggest),
    Operation("compare", "/compare", requests.Compare),
    Operation("statistics", "/statistics", requests.Statistics),
    Operation("term_statistics", "/statistics/terms", requests.TermStatistics),
    Operation("top_terms", "/statistics/top-terms", requests.TopTerms),
    Operation("lengths", "/statistics/lengths", requests.Lengths),
    Operation("documents", "/documents", requests.Documents, ("GET",)),
    Operation("document", "/documents/{id:path}", requests.Document, ("GET",)),
    Operation("add", "/documents", requests.Add, ("POST",), writes=True),
    Operation("delete", "/documents", requests.Delete, ("DELETE",), writes=True),
    Operation("delete", "/documents/{id:path}", requests.Delete, ("DELETE",), writes=True),
)


def build_app(operations: Operations, gate: Gate, settings: Settings) -> Starlette:
    """Return the application."""
    routes: list[Any] = [
        Route(API + each.path, partial(_answer, each, operations, gate, settings), methods=list(each.methods))
        for each in OPERATIONS
    ]
    routes.append(Route("/healthz", _healthz))
    routes.append(Mount("/", StaticFiles(directory=PAGE, html=True)))
    handlers: Any = {HTTPException: _on_http_error, Exception: _on_error}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.add_middleware(Guard, settings=settings)
    return app


async def _healthz(_: HttpRequest) -> Response:
    return JSONResponse({"status": "ok"})


async def _answer(
    operation: Operation, operations: Operations, gate: Gate, settings: Settings, request: HttpRequest
) -> Response:
    """Answer a request with an operation on the index."""
    try:
        if operation.writes and not settings.allow_writes:
            raise RefusedError(403, "read_only", "this server does not write; rag-bm25 serve --allow-writes does")
        asked = await _read(operation, request, settings)
        call: Callable[[], Any] = partial(getattr(operations, operation.name), asked)
        run: Callable[[Any], Awaitable[bytes]] = gate.write if operation.writes else gate.read
        body = await run(lambda: to_bytes(call(), settings.limits.answer))
    except Exception as error:  # noqa: BLE001 - each becomes an answer
        return refusal_response(to_refusal(error))
    return Response(body, media_type="application/json")


async def _read(operation: Operation, request: HttpRequest, settings: Settings) -> Any:
    """Read a request: the body's JSON object, or the query string, and the id in the path."""
    path = dict(request.path_params)
    if operation.name == "delete" and path:
        path = {"ids": [path["id"]]}
    if request.method in ("GET", "HEAD") or path:
        return parse(operation.model, {**_from_query(request), **path}, strict=False)
    if request.query_params:
        raise RefusedError(400, "bad_request", "the arguments belong into the body, a JSON object")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "wrong_type", "the header Content-Type must be application/json")
    body = await asyncio.wait_for(_read_body(request, settings.limits.body), settings.limits.seconds)
    return parse(operation.model, _parse_json(body))


async def _read_body(request: HttpRequest, most: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise RefusedError(413, "body_too_large", f"the body must have at most {most:,} bytes; send it in parts")
    return bytes(body)


def _parse_json(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body, parse_constant=_refuse_constant)
    except (RecursionError, ValueError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "not UTF-8, or not JSON"
        raise RefusedError(400, "bad_request", f"the body must be a JSON object: {reason}") from None
    if not isinstance(given, dict):
        raise RefusedError(400, "bad_request", "the body must be a JSON object")
    return given


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _from_query(request: HttpRequest) -> dict[str, Any]:
    """Return the arguments of a query string: a list is a repeated name, an object is JSON."""
    given: dict[str, Any] = {}
    for name in request.query_params:
        values = request.query_params.getlist(name)
        one = values[-1]
        if name in OBJECTS and one.lstrip().startswith(("{", "[")):
            try:
                given[name] = json.loads(one, parse_constant=_refuse_constant)
            except (RecursionError, ValueError):
                raise RefusedError(400, "bad_request", f"{name} must be JSON") from None
        else:
            given[name] = values if name in LISTS or len(values) > 1 else one
    return given


async def _on_http_error(_: HttpRequest, error: Exception) -> Response:
    """Answer for routes and methods that do not exist."""
    assert isinstance(error, HTTPException)
    codes = {404: ("not_found", "there is nothing at this address; /openapi.json lists the routes")}
    code, message = codes.get(error.status_code, ("bad_request", error.detail))
    answer = refusal_response(RefusedError(error.status_code, code, message))
    answer.headers.update(error.headers or {})
    return answer


async def _on_error(_: HttpRequest, error: Exception) -> Response:
    return refusal_response(to_refusal(error))
