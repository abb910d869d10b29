"""The guard before all routes: Host, Origin, token, and the headers of every answer."""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response

from rag_bm25.serving.access import ACCESS, EVERYTHING, NOTHING
from rag_bm25.serving.answers import RefusedError, to_refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from rag_bm25.events import Events
    from rag_bm25.serving.access import Access
    from rag_bm25.serving.settings import Settings

HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
}
PARTED = ("/api/", "/mcp")  # what is asked here passes `Served.ask`
DATA = (*PARTED, "/metrics")  # all else is the same for everybody
PREFLIGHT = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": "authorization, content-type, mcp-protocol-version, mcp-method, mcp-name",
}
HEALTH = "/healthz"  # says nothing, and is asked by addresses that nobody knows before
PARSED = 40  # times its size: the memory that JSON of small objects takes, and requests at /mcp wait as such


class Guard:
    """Middleware that refuses requests of others: other names, other origins, other tokens."""

    def __init__(self, app: ASGIApp, settings: Settings, events: Events) -> None:
        self._app = app
        self._events = events
        self._seconds = settings.limits.seconds
        self._room = Room(settings.limits.held)
        self._hosts = settings.own_hosts()
        self._origins = frozenset(origin.lower().rstrip("/") for origin in settings.origins)
        self._is_open = settings.is_open
        self._token = None if settings.token is None else settings.token.encode()
        self._tokens = settings.tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no web sockets here
        with self._events.measure("request") as counts:
            await self._handle(scope, receive, send, counts)

    async def _handle(self, scope: Scope, receive: Receive, send: Send, counts: dict[str, int]) -> None:
        given = Headers(scope=scope)
        is_friend = given.get("origin", "").lower() in self._origins
        more = HEADERS | ({"cache-control": "no-store"} if scope["path"].startswith(DATA) else {})
        if is_friend:
            more |= {"access-control-allow-origin": given["origin"], "vary": "Origin"}

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                counts[f"status_{message['status']}"] = 1
                headers = MutableHeaders(scope=message)
                for name, value in more.items():
                    headers.setdefault(name, value)
            await send(message)

        body = _Body(receive, self._seconds, self._room, PARSED if scope["path"] == "/mcp" else 1)
        try:
            self._check(scope["path"], given)
            if is_friend and scope["method"] == "OPTIONS":
                await Response(None, 204, PREFLIGHT)(scope, body, send_guarded)
                return
            ACCESS.set(self._access_to(scope["path"], given))
            await self._app(scope, body, send_guarded)
        except Exception as error:  # noqa: BLE001 - no traceback in any log
            if counts:
                raise RuntimeError("the answer was cut short") from None
            await refusal_response(to_refusal(error))(scope, body, send_guarded)
        finally:
            self._room.leave(body.held)

    def _check(self, path: str, headers: Headers) -> None:
        if path == HEALTH:
            return
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or host_name(host) not in self._hosts:
            raise RefusedError(421, "wrong_host", "this is not a name of this server; --allow-host adds one")
        if path.startswith(DATA):
            self._check_origin(headers, host)

    def _access_to(self, path: str, headers: Headers) -> Access:
        """Return what a request gives access to, or refuse it."""
        if not path.startswith(DATA):
            return NOTHING
        access = EVERYTHING if self._is_open else self._find_access(headers)
        if access is None:
            raise RefusedError(401, "wrong_token", "the header Authorization must be 'Bearer' and the access token")
        if not access.is_whole and not path.startswith(PARTED):
            raise RefusedError(403, "out_of_scope", "this is about the whole index, and the access token is not")
        return access

    def _find_access(self, headers: Headers) -> Access | None:
        scheme, _, token = headers.get("authorization", "").encode("latin-1").partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        if self._token is not None and hmac.compare_digest(token, self._token):
            return EVERYTHING
        return None if self._tokens is None else self._tokens.find(token)

    def _check_origin(self, headers: Headers, host: str) -> None:
        origin = headers.get("origin")
        if origin is not None:
            own = {f"{scheme}://{host}".lower() for scheme in ("http", "https")}
            if origin.lower() not in own | self._origins:
                raise RefusedError(403, "wrong_origin", "pages of another origin may not ask; --allow-origin adds one")
        elif headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise RefusedError(403, "wrong_origin", "pages of another origin may not ask; --allow-origin adds one")


class Room:
    """Room for the bodies of all requests under way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    def enter(self, size: int) -> None:
        """Take some bytes in, or refuse them."""
        if self._held + size > self._most:
            raise RefusedError(429, "busy", "the bodies of other requests fill the room; ask again", retry_after=1)
        self._held += size

    def leave(self, size: int) -> None:
        """Let some bytes go."""
        self._held -= size


class _Body:
    """What receives a body: in time, and as far as there is room; after its end there is nothing to hurry for."""

    def __init__(self, receive: Receive, seconds: float, room: Room, weight: int) -> None:
        self.held = 0
        self._receive = receive
        self._end = asyncio.get_running_loop().time() + seconds
        self._room = room
        self._weight = weight
        self._complete = False

    async def __call__(self) -> Message:
        if self._complete:
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), self._end - asyncio.get_running_loop().time())
        except asyncio.TimeoutError:
            raise RefusedError(408, "timeout", "the body of the request did not come in time") from None
        size = self._weight * len(message.get("body", b""))
        self._room.enter(size)
        self.held += size
        self._complete = not message.get("more_body", False)
        return message


def host_name(host: str) -> str:
    """Return the name in a ``Host`` header, without its port."""
    name, colon, port = host.lower().rpartition(":")
    if colon and not port.endswith("]"):
        host = name if port.isdecimal() else ""
    return host.lower().removeprefix("[").removesuffix("]")


def refusal_response(refusal: RefusedError) -> JSONResponse:
    """Return a refusal as an answer."""
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(refusal.to_json(), refusal.status, headers)
