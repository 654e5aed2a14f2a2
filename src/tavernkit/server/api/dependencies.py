"""What routes ask for: the service, and who the client is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, cast

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from tavernkit.server.errors import ServiceError
from tavernkit.server.keys import Client, Scope
from tavernkit.server.service import Service

_bearer = HTTPBearer(auto_error=False, description="An API key; none is needed on loopback unless configured.")


async def service_of(request: Request) -> Service:
    """The service of an application."""
    return cast("Service", request.app.state.service)


async def client_of(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
) -> Client:
    """Who asks; every request of theirs counts against their limit. Anthropic's SDKs have a header of their own."""
    service = await service_of(request)
    token = credentials.credentials if credentials is not None else request.headers.get("x-api-key")
    client = await service.keys.client(token)
    await service.keys.count(client)
    return client


def _with_scope(scope: Scope) -> Callable[..., Awaitable[Client]]:
    async def check(client: Annotated[Client, Depends(client_of)]) -> Client:
        if not client.may(scope):
            raise ServiceError(403, f"the API key lacks the scope {scope!r}", code="missing_scope")
        return client

    return check


TheService = Annotated[Service, Depends(service_of)]
ChatClient = Annotated[Client, Depends(_with_scope("chat"))]
Reader = Annotated[Client, Depends(_with_scope("read"))]
Writer = Annotated[Client, Depends(_with_scope("write"))]
Admin = Annotated[Client, Depends(_with_scope("admin"))]
