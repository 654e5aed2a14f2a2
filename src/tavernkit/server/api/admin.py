"""Keys of clients and of upstreams."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tavernkit.server.accounts import GROUPINGS, Grouping, period, usage_csv, usage_report
from tavernkit.server.api.dependencies import Admin, ChatClient, TheService
from tavernkit.server.api.library import PathId
from tavernkit.server.api.openai_types import Name
from tavernkit.server.keys import Allowance
from tavernkit.server.sessions.changes import owned_by

router = APIRouter(prefix="/api", tags=["admin"])


class KeyIn(BaseModel):
    """A new API key."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    scopes: list[Literal["chat", "read", "write", "admin"]] = Field(min_length=1, max_length=4)
    rate_limit: int | None = Field(default=None, ge=1, le=1_000_000)
    daily_tokens: int | None = Field(default=None, ge=1, lt=2**62)
    daily_cost: float | None = Field(default=None, gt=0, lt=1e12)


class KeyPatch(BaseModel):
    """Changes of a key; missing fields stay the same, null removes a limit."""

    model_config = ConfigDict(extra="forbid")

    name: Name = ""
    rate_limit: int | None = Field(default=None, ge=1, le=1_000_000)
    daily_tokens: int | None = Field(default=None, ge=1, lt=2**62)
    daily_cost: float | None = Field(default=None, gt=0, lt=1e12)


class UsageOut(BaseModel):
    """Usage; rows contain only the columns that the report is grouped by."""

    key: str | None = None
    key_name: str | None = None
    day: str | None = None
    character: str | None = None
    upstream: str | None = None
    model: str | None = None
    requests: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    predicted_tokens: int
    cost: float


class UsageReport(BaseModel):
    """A report about usage."""

    first: str
    last: str
    data: list[UsageOut]


class KeyOut(BaseModel):
    """An API key without its secret."""

    id: str
    name: str
    scopes: list[str]
    rate_limit: int | None
    daily_tokens: int | None
    daily_cost: float | None
    created_at: float
    revoked_at: float | None


class NewKeyOut(KeyOut):
    """A new API key; ``key`` is shown only once."""

    key: str


class UpstreamKeyIn(BaseModel):
    """The key of an upstream."""

    model_config = ConfigDict(extra="forbid")

    api_key: str = Field(min_length=1, max_length=4096, pattern=r"^[\x21-\x7e]+$")


class UpstreamOut(BaseModel):
    """A model server."""

    name: str
    dialect: str
    model: str | None
    available: bool


def _split(values: list[str]) -> list[str]:
    """``by=key,day`` means the same as ``by=key&by=day``."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


@router.get("/keys")
async def list_keys(service: TheService, client: Admin) -> list[KeyOut]:
    """All API keys, without their secrets."""
    del client
    return [KeyOut.model_validate(asdict(info)) for info in await service.keys.list()]


@router.post("/keys", status_code=201)
async def create_key(body: KeyIn, service: TheService, client: Admin) -> NewKeyOut:
    """Create an API key. It is shown only once."""
    del client
    allowance = Allowance(**body.model_dump(include={"rate_limit", "daily_tokens", "daily_cost"}))
    info, token = await service.keys.create(body.name, tuple(dict.fromkeys(body.scopes)), allowance)
    return NewKeyOut.model_validate({**asdict(info), "key": token})


@router.patch("/keys/{key_id}")
async def change_key(key_id: PathId, body: KeyPatch, service: TheService, client: Admin) -> KeyOut:
    """Change the name, rate limit or budget of a key."""
    del client
    return KeyOut.model_validate(asdict(await service.keys.change(key_id, body.model_dump(exclude_unset=True))))


@router.get("/usage", response_model=UsageReport, response_model_exclude_none=True)
async def usage(
    service: TheService,
    client: ChatClient,
    first: date | None = None,
    last: date | None = None,
    by: Annotated[list[Grouping], BeforeValidator(_split), Query(max_length=20)] = list(GROUPINGS),  # noqa: B006  # FastAPI copies it
    format: Literal["json", "csv"] = "json",  # noqa: A002  # the client's word
) -> dict[str, object] | Response:
    """Usage by day (UTC; by default the last thirty days): the key's own, or everybody's for admins."""
    begin, end = period(first, last, service.accounts.today)
    rows = await usage_report(service.database, first=begin, last=end, by=by, owner=owned_by(client))
    if format == "csv":
        headers = {"content-disposition": f"attachment; filename=usage-{begin}-{end}.csv"}
        return Response(usage_csv(rows, by), media_type="text/csv", headers=headers)
    return {"first": begin, "last": end, "data": rows}


@router.delete("/keys/{key_id}", status_code=204)
async def revoke_key(key_id: PathId, service: TheService, client: Admin) -> Response:
    """Revoke an API key, in all processes at once."""
    del client
    await service.keys.revoke(key_id)
    return Response(status_code=204)


@router.get("/upstreams")
async def list_upstreams(service: TheService, client: Admin) -> list[UpstreamOut]:
    """The model servers, the default one first."""
    del client
    found = [service.upstreams.get(name) for name in service.upstreams.names()]
    return [
        UpstreamOut(
            name=each.name,
            dialect=each.config.dialect,
            model=each.config.model,
            available=not each.breaker.is_open,
        )
        for each in found
    ]


@router.put("/upstreams/{name}/key", status_code=204)
async def set_upstream_key(name: PathId, body: UpstreamKeyIn, service: TheService, client: Admin) -> Response:
    """Set the key of a configured upstream. It is stored encrypted; other processes use it within seconds.

    Addresses can only be set in the configuration.
    """
    del client
    await service.upstream_keys.set(name, body.api_key)
    return Response(status_code=204)


@router.delete("/upstreams/{name}/key", status_code=204)
async def remove_upstream_key(name: PathId, service: TheService, client: Admin) -> Response:
    """Remove the stored key of an upstream; the key of the settings is used again."""
    del client
    await service.upstream_keys.remove(name)
    return Response(status_code=204)
