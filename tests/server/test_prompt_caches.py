"""Sessions whose prompts are kept stable, and what providers should have cached of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.models import Reply, ReplyPiece, Request
from tavernkit.models._scripted import usage
from tavernkit.server import UpstreamConfig, load_config
from tavernkit.server.turns.upstream_calls import PromptCaches
from tavernkit.silly_tavern._conversation.numbered_lines import moved
from tavernkit.testing import ScriptedModel, answer
from tests.server.conftest import Client, StartApp

CHAT = "/v1/chat/completions"
STABLE = {"strategy": "cache", "lore": "freeze", "volatile": "tail"}


async def say(client: Client, text: str, **options: object) -> dict[str, Any]:
    body = {"model": "aria@preset", "messages": [{"role": "user", "content": text}]}
    reply = await client.post(CHAT, json={**body, "tavernkit": {"session": "s", **options}})
    assert reply.status_code == 200, reply.text
    return reply.json()


def is_prefix(model: ScriptedModel) -> bool:
    """Whether the second request begins as the first: only what was put behind the history is gone."""
    bodies: list[Any] = list(model.requests[:2])
    first, second = (body["messages"] for body in bodies)
    said = [message["content"] for message in first].index("Tell me about Hern and the storm glass.")
    return second[: said + 1] == first[: said + 1]


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_a_session_keeps_how_its_prompts_are_made(start: StartApp, platform: str) -> None:
    model = ScriptedModel("Yes.", "No.")
    preset = {"preset": "preset"} if platform == "silly_tavern" else {}
    async with start(model) as client:
        body = {"model": "aria", "tavernkit": {"platform": platform, **STABLE, **preset}}
        made = (await client.post("/api/sessions", json=body)).json()
        assert made["options"] == STABLE
        path = f"/api/sessions/{made['id']}"
        await client.post(f"{path}/messages", json={"content": "Tell me about Hern and the storm glass."})
        await client.post(f"{path}/messages", json={"content": "And what did you eat?"})
        assert is_prefix(model)
        changed = await client.patch(path, json={"lore": None, "volatile": "reference"})
        assert changed.json()["options"] == {"strategy": "cache", "volatile": "reference"}


async def test_a_request_changes_what_the_session_keeps(start: StartApp) -> None:
    model = ScriptedModel("Yes.", "No.", "Well.")
    async with start(model) as client:
        first = await say(client, "Tell me about Hern and the storm glass.", **STABLE)
        await say(client, "And what did you eat?")
        assert is_prefix(model)
        path = f"/api/sessions/{first['tavernkit']['session_id']}"
        stored = (await client.get(path)).json()
        assert stored["options"] == STABLE
        assert stored["details"]["tavernkit_cache"]["lore"]
        await say(client, "And drink?", lore="reference")
        assert (await client.get(path)).json()["options"] == {**STABLE, "lore": "reference"}
        branch = {"message_id": (await client.get(f"{path}/messages")).json()["data"][-1]["id"]}
        made = await client.post(f"{path}/actions/branch", json=branch)
        assert made.json()["options"] == {**STABLE, "lore": "reference"}
        wrong = await client.post(CHAT, json={"model": "aria", "messages": [], "tavernkit": {"lore": "melt"}})
        assert wrong.status_code == 400


async def test_an_upstream_may_say_it_for_all(start: StartApp) -> None:
    model = ScriptedModel("Yes.", "No.")
    async with start(model, upstreams={"scripted": {"dialect": "scripted", **STABLE}}) as client:
        await say(client, "Tell me about Hern and the storm glass.")
        await say(client, "And what did you eat?")
    assert is_prefix(model)


class RequestedModel(ScriptedModel):
    """Keeps the last request as it is before it is written in a protocol."""

    dialect = "anthropic"
    last = Request(prompt="")

    async def send(self, request: Request, *, on_delta: Callable[[ReplyPiece], object] | None = None) -> Reply:
        self.last = request
        return await super().send(request, on_delta=on_delta)


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
@pytest.mark.parametrize("strategy", ["cache", "reference"])
async def test_requests_have_cache_marks_where_a_provider_needs_them(
    start: StartApp, platform: str, strategy: str
) -> None:
    model = RequestedModel("Yes.", "No.")
    async with start(model, upstreams={"scripted": {"dialect": "scripted", "cache_profile": "anthropic"}}) as client:
        body = {"model": "aria", "tavernkit": {"platform": platform, **STABLE, "strategy": strategy}}
        path = f"/api/sessions/{(await client.post('/api/sessions', json=body)).json()['id']}"
        for text in ("Tell me about the storm glass. " * 300, "And what did you eat?"):
            answer = await client.post(f"{path}/messages", json={"content": text})
            assert answer.status_code == 200, answer.text
    assert ("cache_control" in str(model.last.messages)) == (strategy == "cache")


async def test_predicted_tokens_stand_beside_reported_ones(start: StartApp) -> None:
    counts = {**usage(3000, 5), "prompt_tokens_details": {"cached_tokens": 2000}}
    model = ScriptedModel(*[answer("Yes.", usage=counts)] * 2)
    upstreams = {"scripted": {"dialect": "scripted", "cache_profile": "vllm"}}
    async with start(model, upstreams=upstreams) as client:
        for text in ("Tell me about Hern.", "And Maud?"):
            await say(client, text, **STABLE)
        metrics = (await client.get("/metrics")).text.splitlines()
        row = (await client.get("/api/usage")).json()["data"][0]
    found = {line.split(" ")[0]: float(line.split(" ")[1]) for line in metrics if line.startswith("tavernkit_tokens_t")}
    assert found['tavernkit_tokens_total{kind="cached",upstream="scripted"}'] == 4000
    predicted = found['tavernkit_tokens_total{kind="predicted",upstream="scripted"}']
    assert predicted > 300
    assert (row["cached_tokens"], row["predicted_tokens"]) == (4000, predicted)


async def test_nothing_is_predicted_unless_somebody_cares(start: StartApp) -> None:
    model = ScriptedModel("Yes.", "No.")
    async with start(model) as client:
        client.service.turns._caches.predict = None  # type: ignore[method-assign, assignment]
        await say(client, "Tell me about Hern and the storm glass.")
        await say(client, "And what did you eat?")
    assert not is_prefix(model)  # the platform's own order


def test_a_prediction_forgets_what_the_provider_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.server.turns.upstream_calls.MAX_PREDICTED_TURNS", 3)
    now = [0.0]
    caches = PromptCaches(clock=lambda: now[0])
    config = UpstreamConfig(cache_profile="deepseek")
    request = Request(messages=[{"role": "system", "content": "word " * 1000}])

    def predict(session: str = "s") -> int:
        return caches.predict(session, "main", config, request)

    first, second, other = predict(), predict(), predict("other")
    assert (first, other) == (0, 0)
    assert second > 900
    assert [predict() for _ in range(4)] == [second] * 4  # beginning anew changes nothing
    now[0] = 10_000.0
    assert predict() == 0


def test_numbers_of_messages_move_with_what_is_not_read() -> None:
    details = {
        "note": "n",
        "tavernkit_cache": {"version": 1, "cut": 1500, "lore": [{"after": 400, "id": "a"}, {"after": 1700, "id": "b"}]},
    }
    there = moved(details, -1000)
    assert there["tavernkit_cache"] == {"version": 1, "cut": 500, "lore": [{"after": 700, "id": "b"}]}
    back = {"version": 1, "cut": 1500, "lore": [{"after": 1700, "id": "b"}]}
    assert moved(there, 1000) == {"note": "n", "tavernkit_cache": back}
    assert moved({"tavernkit_cache": {"cut": 5}}, -1000) == {"tavernkit_cache": {"cut": 0}}


def test_a_wrong_profile_is_told() -> None:
    with pytest.raises(ConfigError, match="did you mean 'anthropic'"):
        load_config(environment={}, overrides={"upstreams": {"main": {"cache_profile": "antropic"}}})
