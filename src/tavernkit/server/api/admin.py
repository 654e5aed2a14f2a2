"""Keys of clients and of upstreams."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Response

from tavernkit.server.api.dependencies import Admin, TheService
from tavernkit.server.api.library import PathId
from tavernkit.server.api.rest_types import KeyIn, KeyOut, NewKeyOut, UpstreamKeyIn, UpstreamOut

router = APIRouter(prefix="/api", tags=["admin"])


@router.get("/keys")
async def list_keys(service: TheService, client: Admin) -> list[KeyOut]:
    """All API keys, without their secrets."""
    del client
    return [KeyOut.model_validate(asdict(info)) for info in await service.keys.list()]


@router.post("/keys", status_code=201)
async def create_key(body: KeyIn, service: TheService, client: Admin) -> NewKeyOut:
    """Make an API key; it is shown this once."""
    del client
    info, token = await service.keys.create(body.name, tuple(dict.fromkeys(body.scopes)), body.rate_limit)
    return NewKeyOut.model_validate({**asdict(info), "key": token})


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
    """Give a configured upstream its key, stored encrypted; other processes use it within seconds.

    Addresses come from the configuration only.
    """
    del client
    await service.upstream_keys.set(name, body.api_key)
    return Response(status_code=204)


@router.delete("/upstreams/{name}/key", status_code=204)
async def remove_upstream_key(name: PathId, service: TheService, client: Admin) -> Response:
    """Forget the stored key of an upstream: the one of the settings is used again."""
    del client
    await service.upstream_keys.remove(name)
    return Response(status_code=204)
