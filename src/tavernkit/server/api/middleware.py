"""Middleware: ids, limits, checks, headers, logs and metrics of every request, and a fast path around FastAPI."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tavernkit.cards import DEFAULT_LIMITS
from tavernkit.server import logs
from tavernkit.server.api import anthropic
from tavernkit.server.api.dependencies import Caller, SafeJSONResponse, bearer, client_of, require_scope
from tavernkit.server.config import ServerConfig, is_loopback
from tavernkit.server.errors import ServiceError, server_failure
from tavernkit.server.limits import MAX_ID_CHARACTERS, MAX_JSON_BODY_BYTES
from tavernkit.server.metrics import Metrics
from tavernkit.server.service import Service
from tavernkit.server.storage.tables import new_id

logger = logging.getLogger("tavernkit.server.access")

SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
DOCS_POLICY = (
    "default-src 'none'; frame-ancestors 'none'; connect-src 'self'; "
    "img-src 'self' data:; script-src 'self'; style-src 'self' 'unsafe-inline'"
)
DOCS_PATHS = ("/docs",)
TOO_LARGE = "the request is too large"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


TRACED = "fastapi.telemetry"
"""What a request has that FastAPI itself follows through its steps."""

Body: TypeAlias = BaseModel


class _TooLargeError(HTTPException):
    """A body is too large. Code that reads bodies does not catch errors of this class."""

    def __init__(self) -> None:
        super().__init__(413, TOO_LARGE)


class RequestMiddleware:
    """The outermost layer of the application: request ids, limits, logs and metrics."""

    def __init__(self, app: ASGIApp, *, config: ServerConfig, metrics: Metrics) -> None:
        self._app = app
        self._config = config
        self._metrics = metrics
        self._is_open = not config.keys_required
        self._is_local = is_loopback(config.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else new_id()
        token = logs.request_id.set(request_id)
        logs.session_id.set(None)
        started = time.perf_counter()
        status = 500
        answering = False

        async def sending(message: Message) -> None:
            nonlocal status, answering
            if message["type"] == "http.response.start":
                status, answering = message["status"], True
                _add_headers(MutableHeaders(scope=message), scope["path"], request_id)
            await send(message)

        self._metrics.request_began()
        try:
            self._check(headers)
            await self._app(scope, _limit_body(receive, headers), sending)
        except Exception as error:
            refusal = _refusal(error)
            if answering:
                raise
            await error_response(scope["path"], refusal)(scope, receive, sending)
        finally:
            self._record(scope, status, time.perf_counter() - started)
            logs.request_id.reset(token)

    def _check(self, headers: Headers) -> None:
        """Without keys, only local programs are allowed: no web pages, and no other host names."""
        if not self._is_open:
            return
        origin = headers.get("origin")
        if origin is not None and origin not in self._config.cors_origins and not _is_local(origin):
            raise ServiceError(403, "requests from other origins are not allowed", code="origin_not_allowed")
        if self._is_local and not _is_loopback_host(headers.get("host", "")):
            raise ServiceError(403, "this server accepts loopback host names only", code="host_not_allowed")

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "other"
        self._metrics.request_ended(scope["method"], route, status, seconds)
        fields = {"method": scope["method"], "path": route, "status": status, "ms": round(seconds * 1000, 1)}
        logger.info("request", extra={logs.FIELDS: fields})


def _refusal(error: Exception) -> ServiceError:
    """Return the client's error; what the operator must know is logged."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, _TooLargeError):
        return ServiceError(413, TOO_LARGE, code="request_too_large")
    if isinstance(error, PoolTimeoutError):
        logger.warning("timed out waiting for a database connection")
        return ServiceError(503, "the server is overloaded", code="overloaded", retry_after=5)
    logger.error("a request failed", exc_info=error)
    return server_failure()


def _limit_body(receive: Receive, headers: Headers) -> Receive:
    """Count the bytes of a body; uploads may be as large as a card file."""
    upload = headers.get("content-type", "").startswith(("multipart/", "application/octet-stream", "image/"))
    allowed = DEFAULT_LIMITS.max_file_bytes if upload else MAX_JSON_BODY_BYTES
    length = headers.get("content-length", "")
    if length.isdigit() and int(length) > allowed:
        raise _TooLargeError
    received = 0

    async def receiving() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > allowed:
                raise _TooLargeError
        return message

    return receiving


def _add_headers(headers: MutableHeaders, path: str, request_id: str) -> None:
    headers["x-request-id"] = request_id
    given = {name for name, _ in headers.raw}
    headers.raw.extend(pair for pair in SECURITY_HEADERS if pair[0] not in given)
    if path.startswith(DOCS_PATHS):
        headers["content-security-policy"] = DOCS_POLICY


def error_response(path: str, error: ServiceError) -> Response:
    """Return the answer to a request that fails, in the format of its protocol.

    Args:
        path: The path of the request.
        error: The error.
    """
    headers = {"retry-after": str(max(1, round(error.retry_after)))} if error.retry_after is not None else {}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    body = anthropic.error_body(error) if path.startswith(anthropic.PATH) else error.body()
    return SafeJSONResponse(body, status_code=error.status, headers=headers)


def _is_local(origin: str) -> bool:
    try:
        return is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        return False


@lru_cache(maxsize=128)
def _is_loopback_host(header: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{header}").hostname or "")
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class FastRoute:
    """A route of which a request is its body and its caller, and the id of a session if its path has one."""

    path: str
    body: type[Body]
    endpoint: Callable[..., Awaitable[Response | BaseModel]]
    """Gets the id, if there is one, the body and the caller."""


class FastPath:
    """Answers the requests of the busiest routes that it can, and hands on all others as they came.

    The endpoints are the same. FastAPI takes three times as long to find the route, resolve the dependencies and read
    the body. Only valid requests take this path; FastAPI answers all others, and says what is wrong.
    """

    def __init__(self, app: ASGIApp, *, service: Service, routes: tuple[FastRoute, ...]) -> None:
        """Wrap an application.

        Args:
            app: The application.
            service: The service.
            routes: The routes with a fast path.
        """
        self._app = app
        self._service = service
        self._routes: Mapping[str, FastRoute] = {route.path: route for route in routes if "{" not in route.path}
        self._with_ids = [(_pattern(route.path), route) for route in routes if "{" in route.path]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        route, ids = self._find(scope)
        if route is None:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        session, key = headers.get("x-tavern-session") or None, headers.get("idempotency-key") or None
        received = _Received(receive)
        body = None
        if _is_json(headers) and _is_short(session) and _is_short(key):
            body = _read(route.body, await received.body())
        if body is None:
            await self._app(scope, received.again, send)
            return
        scope["route"] = route
        request = Request(scope, receive)
        try:
            client = await client_of(request, await bearer(request))
            require_scope(client, "chat")
            answer = await route.endpoint(*ids, body, Caller(request, self._service, client, session, key))
            response = answer if isinstance(answer, Response) else _response(answer)
        except Exception as error:
            handlers = cast("FastAPI", scope["app"]).exception_handlers
            handler: Any = next((handlers[kind] for kind in type(error).__mro__ if kind in handlers), None)
            if handler is None:
                raise
            response = await handler(request, error)
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> tuple[FastRoute | None, Sequence[str]]:
        """The route of a request, and the ids in its path."""
        if scope["type"] != "http" or scope["method"] != "POST" or TRACED in scope:
            return None, ()
        path: str = scope["path"]
        if (found := self._routes.get(path)) is not None:
            return found, ()
        for pattern, route in self._with_ids:
            if match := pattern.fullmatch(path):
                return route, match.groups()
        return None, ()


class _Received:
    """What came of a request, which another one can receive again."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: list[Message | Exception] = []

    async def body(self) -> bytes | None:
        """The whole body; None if it does not come."""
        parts: list[bytes] = []
        while True:
            try:
                message = await self._receive()
            except Exception as error:  # noqa: BLE001  # the next reader gets it
                self._messages.append(error)
                return None
            self._messages.append(message)
            if message["type"] != "http.request":
                return None
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(parts)

    async def again(self) -> Message:
        """Receive the request from its beginning."""
        if not self._messages:
            return await self._receive()
        message = self._messages.pop(0)
        if isinstance(message, Exception):
            raise message
        return message


def _pattern(path: str) -> re.Pattern[str]:
    """What matches the paths of a route with ids such as ours; FastAPI judges others."""
    return re.compile(re.sub(r"{\w+}", r"([A-Za-z0-9_.-]{1,100})", path))


def _response(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")


def _is_json(headers: Headers) -> bool:
    kind = headers.get("content-type", "").lower()
    return kind == "application/json" or kind.startswith("application/json;")


def _is_short(text: str | None) -> bool:
    return text is None or len(text) <= MAX_ID_CHARACTERS


def _read(kind: type[Body], body: bytes | None) -> Body | None:
    """Read a body as FastAPI does; None if it is not valid."""
    if not body:
        return None
    try:
        return kind.model_validate(json.loads(body), from_attributes=True)
    except (ValueError, RecursionError):  # neither JSON nor valid
        return None
