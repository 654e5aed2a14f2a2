"""Too much to do: clients are told to come back."""

from __future__ import annotations

from typing import Any

import pytest
from openai import AsyncOpenAI, InternalServerError

from tavernkit.models import ConnectionFailedError
from tavernkit.server.storage import database
from tavernkit.testing import ScriptedModel
from tests.server.conftest import StartApp

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Databases have a single connection, and nobody waits for it."""
    monkeypatch.setattr(database, "POOL_SIZE", 1)
    monkeypatch.setattr(database, "MAX_OVERFLOW", 0)
    monkeypatch.setattr(database, "POOL_SECONDS", 0.01)


@pytest.mark.usefixtures("one_connection")
@pytest.mark.parametrize("stream", [False, True])
async def test_clients_are_told_to_come_back_when_no_connection_is_free(start: StartApp, stream: bool) -> None:
    async with start(ScriptedModel("Hello.", "Hello.")) as client:
        over: Any = client
        openai = AsyncOpenAI(base_url="http://127.0.0.1/v1", api_key="x", max_retries=0, http_client=over)
        ask: Any = openai.chat.completions.create
        async with client.service.database.read() as connection:
            await connection.exec_driver_sql("SELECT 1")
            with pytest.raises(InternalServerError) as refused:
                await ask(model="aria", messages=HELLO, stream=stream)
            listed = await client.get("/api/characters")
        assert (refused.value.status_code, refused.value.code, refused.value.type) == (503, "overloaded", "api_error")
        assert int(refused.value.response.headers["retry-after"]) >= 1
        assert (listed.status_code, listed.json()["error"]["code"]) == (503, "overloaded")
        again = await ask(model="aria", messages=HELLO)
    assert again.choices[0].message.content == "Hello."


async def test_an_upstream_that_keeps_failing_is_told_with_a_time_to_come_back(start: StartApp) -> None:
    class Broken(ScriptedModel):
        async def send(self, request: Any, **options: Any) -> Any:
            raise ConnectionFailedError("gone")

    upstreams = {"scripted": {"dialect": "scripted", "max_retries": 0}}
    async with start(Broken(), upstreams=upstreams) as client:
        body = {"model": "aria", "messages": HELLO}
        statuses = [(await client.post("/v1/chat/completions", json=body)).status_code for _ in range(6)]
        last = await client.post("/v1/chat/completions", json=body)
    assert statuses == [502] * 5 + [503]
    assert last.json()["error"]["code"] == "upstream_unavailable"
    assert int(last.headers["retry-after"]) > 1
