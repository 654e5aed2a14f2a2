"""The fast path for the busiest routes: the same endpoints without FastAPI's steps around them.

FastAPI takes three times as long to find the route, resolve the dependencies and read the body. Only valid requests
take this path; FastAPI answers all others, and says what is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tavernkit.server.api.dependencies import Caller, bearer, client_of, require_scope
from tavernkit.server.limits import MAX_ID_CHARACTERS
from tavernkit.server.service import Service

TRACED = "fastapi.telemetry"
"""What a request has that FastAPI itself follows through its steps."""

Body: TypeAlias = BaseModel


@dataclass(frozen=True, slots=True)
class FastRoute:
    """A route of which a request is its body and its caller, and the id of a session if its path has one."""

    path: str
    body: type[Body]
    endpoint: Callable[..., Awaitable[Response | BaseModel]]
    """Gets the id, if there is one, the body and the caller."""


class FastPath:
    """Answers the requests that it can, and hands on all others as they came."""

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
        session, key = headers.get("x-tavern-session"), headers.get("idempotency-key")
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
