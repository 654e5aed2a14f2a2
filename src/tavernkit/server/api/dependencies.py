"""What routes share: the service, the client, and JSON answers that cannot fail on the way out."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Header, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.responses import JSONResponse

from tavernkit.server.errors import ServiceError
from tavernkit.server.keys import Client, Scope
from tavernkit.server.limits import MAX_ID_CHARACTERS
from tavernkit.server.service import Service
from tavernkit.server.storage.tables import storable_json

bearer = HTTPBearer(auto_error=False, description="An API key; none is needed on loopback unless configured.")


async def service_of(request: Request) -> Service:
    """The service of an application."""
    return cast("Service", request.app.state.service)


async def client_of(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
) -> Client:
    """Return the client; every request counts towards its rate limit. Anthropic's SDKs use their own header."""
    service = await service_of(request)
    token = credentials.credentials if credentials is not None else request.headers.get("x-api-key")
    client = await service.keys.client(token)
    await service.keys.count(client)
    return client


def require_scope(client: Client, scope: Scope) -> None:
    """Raise ServiceError 403 if a client may not do something."""
    if not client.may(scope):
        raise ServiceError(403, f"the API key does not have the scope {scope!r}", code="missing_scope")


def _with_scope(scope: Scope) -> Callable[..., Awaitable[Client]]:
    async def check(client: Annotated[Client, Depends(client_of)]) -> Client:
        require_scope(client, scope)
        return client

    return check


TheService = Annotated[Service, Depends(service_of)]
ChatClient = Annotated[Client, Depends(_with_scope("chat"))]
IdHeader = Annotated[str | None, Header(max_length=MAX_ID_CHARACTERS)]


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a turn, and its headers."""

    request: Request
    service: Service
    client: Client
    session: str | None
    """The client's id of a session."""
    idempotency_key: str | None

    def session_or(self, user: str | None) -> str | None:
        """Return the session of the header, or the body's user if the settings use users as sessions."""
        return self.session or (user if self.service.config.user_is_session else None)


async def _caller(
    request: Request,
    service: TheService,
    client: ChatClient,
    x_tavern_session: IdHeader = None,
    idempotency_key: IdHeader = None,
) -> Caller:
    return Caller(request, service, client, x_tavern_session or None, idempotency_key or None)


TheCaller = Annotated[Caller, Depends(_caller)]
Reader = Annotated[Client, Depends(_with_scope("read"))]
Writer = Annotated[Client, Depends(_with_scope("write"))]
Admin = Annotated[Client, Depends(_with_scope("admin"))]


class SafeJSONResponse(JSONResponse):
    """JSON whose texts are made encodable: models and clients may send lone surrogates."""

    def render(self, content: Any) -> bytes:
        """Write the body."""
        try:
            return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (UnicodeEncodeError, ValueError):
            return json.dumps(storable_json(content), ensure_ascii=False, separators=(",", ":")).encode()
