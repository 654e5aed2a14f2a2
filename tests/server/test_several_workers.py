"""Several services against one database are one: keys, revocations, metrics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tavernkit.server.api.replies import ReplyListener
from tavernkit.server.config import UpstreamConfig
from tavernkit.server.limits import UPSTREAM_KEY_SECONDS
from tavernkit.server.upstreams import Upstream
from tavernkit.testing import ScriptedModel, serve
from tests.server.conftest import Client, StartApp

CHAT = "/v1/chat/completions"
HELLO = {"model": "aria", "messages": [{"role": "user", "content": "Hello"}]}
ADMIN = {"Authorization": "Bearer the-admin-key"}
KEYED: dict[str, object] = {"require_keys": True, "admin_key": "the-admin-key"}


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def with_clock(*clients: Client) -> Clock:
    clock = Clock()
    for client in clients:
        client.service.upstream_keys._clock = clock
        client.service.upstream_keys._looked_at = clock.now
    return clock


async def test_a_changed_upstream_key_reaches_all_workers_in_seconds(start: StartApp) -> None:
    async with serve(ScriptedModel("ok", repeat_last=True)) as upstream:
        settings: dict[str, Any] = {
            "secret_key": "pass phrase",
            "upstreams": {"main": {"base_url": upstream.url, "api_key": "sk-configured"}},
        }

        async def used(client: Client) -> str:
            assert (await client.post(CHAT, json=HELLO)).status_code == 200
            return upstream.requests[-1].headers["authorization"].removeprefix("Bearer ")

        async with start(**settings) as one, start(**settings) as two:
            clock = with_clock(one, two)
            assert [await used(one), await used(two)] == ["sk-configured"] * 2
            await one.put("/api/upstreams/main/key", json={"api_key": "sk-new"})
            assert [await used(one), await used(two)] == ["sk-new", "sk-configured"]
            clock.now = UPSTREAM_KEY_SECONDS
            assert await used(two) == "sk-new"
            assert (await two.delete("/api/upstreams/main/key")).status_code == 204
            assert (await two.delete("/api/upstreams/main/key")).status_code == 404
            clock.now *= 2
            assert [await used(two), await used(one)] == ["sk-configured"] * 2
    assert UPSTREAM_KEY_SECONDS <= 5


async def test_a_revoked_key_opens_nothing_in_any_worker(start: StartApp) -> None:
    async with start(**KEYED) as one, start(**KEYED) as two:
        made = (await one.post("/api/keys", json={"name": "bot", "scopes": ["chat"]}, headers=ADMIN)).json()
        key = {"Authorization": f"Bearer {made['key']}"}
        assert [(await each.get("/v1/models", headers=key)).status_code for each in (one, two)] == [200, 200]
        await one.delete(f"/api/keys/{made['id']}", headers=ADMIN)
        assert [(await each.get("/v1/models", headers=key)).status_code for each in (one, two)] == [401, 401]


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_request_that_runs_keeps_its_connection_when_the_key_changes(streaming: bool) -> None:
    release = asyncio.Event()

    class Model(ScriptedModel):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    class Slow(Model):
        async def complete(self, request: Any) -> Any:
            await release.wait()
            return await super().complete(request)

    old, new = Slow("old"), Model("new")
    each = Upstream("u", UpstreamConfig(dialect="scripted"), old)
    asking = asyncio.create_task(each.ask({"model": "m", "messages": []}, ReplyListener(streaming=False)))
    while not each._users:  # noqa: ASYNC110  # until the request runs
        await asyncio.sleep(0)
    await each.replace_transport(new)
    assert not old.closed
    release.set()
    assert (await asking).text == "old"
    assert old.closed
    reply = await each.ask({"model": "m", "messages": []}, ReplyListener(streaming=streaming))
    assert (reply.text, new.closed) == ("new", False)
