"""Model servers that fail, hang and come back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.models import HTTPError, ModelError, Request, RequestTimeoutError
from tavernkit.models._scripted import Disconnect, Hang
from tavernkit.prompt import Message
from tavernkit.server.api.replies import ReplyListener
from tavernkit.server.config import ServerConfig, UpstreamConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.upstreams.example_model import ExampleModel
from tavernkit.server.upstreams.listeners import ClientDisconnectedError
from tavernkit.server.upstreams.upstream import CircuitBreaker, Upstream, as_service_error, kind_of_failure
from tavernkit.server.upstreams.upstreams import Upstreams
from tavernkit.testing import ScriptedModel, failure, streamed
from tests.server.conftest import StartApp

REQUEST = Request(model="m", messages=[])


def upstream(*script: Any, **config: Any) -> tuple[Upstream, ScriptedModel]:
    """An upstream that does not wait before it tries again."""
    model = ScriptedModel(*script)
    return Upstream("u", UpstreamConfig(dialect="scripted", **config), model, backoff=lambda _: 0), model


async def ask(each: Upstream, *, streaming: bool = False) -> Any:
    return await each.ask(REQUEST, ReplyListener(streaming=streaming))


async def test_failures_that_pass_are_retried() -> None:
    each, model = upstream(failure(503), Disconnect(), "Here.", max_retries=2)
    assert (await ask(each)).text == "Here."
    assert len(model.requests) == 3


async def test_retries_have_an_end_and_mistakes_have_none() -> None:
    each, model = upstream(*[failure(503)] * 5, max_retries=2)
    with pytest.raises(HTTPError):
        await ask(each)
    assert len(model.requests) == 3
    each, model = upstream(failure(400), "never asked")
    with pytest.raises(HTTPError):
        await ask(each)
    assert len(model.requests) == 1


async def test_a_stream_that_began_is_not_asked_for_again() -> None:
    each, model = upstream(Disconnect(after=["Once "]), "never asked")
    reply = await ask(each, streaming=True)
    assert (reply.text, bool(reply.interrupted)) == ("Once ", True)
    assert len(model.requests) == 1


async def test_a_stream_gives_its_pieces() -> None:
    each, _ = upstream(streamed("a", "b"))
    reply = await ask(each, streaming=True)
    assert (reply.text, reply.interrupted, reply.finish_reason) == ("ab", "", "stop")


async def test_an_upstream_that_says_nothing_times_out() -> None:
    each, _ = upstream(Hang(), timeout=0.01, max_retries=0)
    with pytest.raises(RequestTimeoutError):
        await ask(each)


async def test_a_time_out_is_not_tried_again() -> None:
    each, model = upstream(Hang(), "never", timeout=0.01, max_retries=2)
    with pytest.raises(RequestTimeoutError):
        await ask(each)
    assert len(model.requests) == 1


async def test_a_time_out_counts_once() -> None:
    each, model = upstream(*[Hang()] * 5, timeout=0.01, max_retries=2)
    for number in range(5):
        assert not each.breaker.is_open
        with pytest.raises(RequestTimeoutError):
            await ask(each)
        assert len(model.requests) == number + 1
    assert each.breaker.is_open


async def test_a_listener_that_leaves_ends_the_request() -> None:
    each, _ = upstream(Hang())
    listener = ReplyListener(streaming=False)
    asking = asyncio.create_task(each.ask(REQUEST, listener))
    await asyncio.sleep(0)
    listener.gone.set()
    with pytest.raises(ClientDisconnectedError):
        await asking


async def test_an_upstream_that_keeps_failing_is_left_alone_and_tried_again() -> None:
    now = [0.0]
    breaker = CircuitBreaker(failures=2, seconds=30, clock=lambda: now[0])
    model = ScriptedModel(failure(500), failure(500), failure(500), "Back.")
    each = Upstream("u", UpstreamConfig(dialect="scripted", max_retries=0), model, breaker=breaker)
    for _ in range(2):
        with pytest.raises(ModelError):
            await ask(each)
    with pytest.raises(ServiceError) as refused:
        await ask(each)
    assert (refused.value.status, refused.value.retry_after, len(model.requests)) == (503, 30, 2)
    now[0] = 31
    with pytest.raises(ModelError):
        await ask(each)
    assert breaker.is_open
    now[0] = 62
    assert (await ask(each)).text == "Back."
    assert not breaker.is_open


async def test_a_failure_of_ours_does_not_keep_an_upstream_away_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    breaker = CircuitBreaker(failures=1, seconds=30, clock=lambda: now[0])
    model = ScriptedModel(failure(500), "Back.")
    each = Upstream("u", UpstreamConfig(dialect="scripted", max_retries=0), model, breaker=breaker)
    with pytest.raises(ModelError):
        await ask(each)
    now[0] = 31

    async def mistaken(request: object, **_: object) -> None:
        raise ValueError("ours")

    with monkeypatch.context() as patch:
        patch.setattr(model, "send", mistaken)
        with pytest.raises(ValueError, match="ours"):
            await ask(each)
    assert (await ask(each)).text == "Back."


def test_what_clients_are_told() -> None:
    told = [
        (HTTPError("slow down", status=429, headers={"retry-after": "7"}), 429),
        (HTTPError("bad", status=400), 400),
        (HTTPError("who?", status=401), 502),
        (RequestTimeoutError("late"), 504),
    ]
    assert [as_service_error(error).status for error, _ in told] == [status for _, status in told]


async def test_named_upstreams_are_chosen_by_the_request(start: StartApp) -> None:
    upstreams = {"scripted": {"dialect": "scripted"}, "other": {"dialect": "scripted", "model": "big"}}
    body: dict[str, Any] = {"model": "aria", "messages": [{"role": "user", "content": "Hi"}]}
    async with start(ScriptedModel("default"), upstreams=upstreams) as client:
        path = "/v1/chat/completions"
        first = (await client.post(path, json=body)).json()
        other = (await client.post(path, json={**body, "tavernkit": {"upstream": "other"}})).json()
        unknown = await client.post(path, json={**body, "tavernkit": {"upstream": "nowhere"}})
        dialect = await client.post(path, json={**body, "tavernkit": {"dialect": "anthropic"}})
    assert first["choices"][0]["message"]["content"] == "default"
    assert "scripted model" in other["choices"][0]["message"]["content"]
    assert (unknown.status_code, dialect.status_code) == (400, 400)


ROUTE: dict[str, Any] = {
    "main": {
        "route": [
            {"upstream": "a", "weight": 3},
            {"upstream": "b"},
            {"upstream": "spare", "weight": 0, "on": ["timeout"]},
        ]
    },
    "a": {"dialect": "scripted", "model": "model-a", "max_retries": 0},
    "b": {"dialect": "scripted", "model": "model-b", "max_retries": 0},
    "spare": {"dialect": "scripted", "max_retries": 0},
}


def test_sessions_keep_their_upstream_and_weights_share_them_out() -> None:
    found = Upstreams(ServerConfig.model_validate({"upstreams": ROUTE}))
    chosen = [found.route(None, None, f"session {number}")[0][0].name for number in range(400)]
    assert chosen == [found.route(None, None, f"session {number}")[0][0].name for number in range(400)]
    assert 240 < chosen.count("a") < 360
    assert chosen.count("a") + chosen.count("b") == 400
    assert [each.name for each, _ in found.route("b", None, "x")] == ["b"]
    with pytest.raises(ConfigError, match="'nobody'"):
        Upstreams(ServerConfig.model_validate({"upstreams": {"main": {"route": [{"upstream": "nobody"}]}}}))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (HTTPError("slow down", status=429), "rate_limit"),
        (HTTPError("maximum context length is 8192 tokens", status=400), "context_length"),
        (HTTPError("bad", status=400), None),
        (HTTPError("who?", status=401), "error"),
        (RequestTimeoutError("late"), "timeout"),
        (ServiceError(503, "open", code="upstream_unavailable"), "error"),
        (ServiceError(400, "no", code="invalid_request"), None),
    ],
)
def test_why_another_upstream_is_asked(error: Exception, kind: str | None) -> None:
    assert kind_of_failure(error) == kind


@pytest.mark.parametrize("stream", [False, True])
async def test_the_next_upstream_is_asked_when_one_fails(start: StartApp, stream: bool) -> None:
    one, other, spare = ScriptedModel(failure(500)), ScriptedModel("From the other."), ScriptedModel()
    listed = [
        {"upstream": "a"},
        {"upstream": "spare", "on": ["timeout"], "weight": 0},
        {"upstream": "b", "weight": 0},
    ]
    route = {**ROUTE, "main": {"route": listed}}
    models = {"a": one, "b": other, "spare": spare}
    body: dict[str, Any] = {"model": "aria", "messages": [{"role": "user", "content": "Hi"}], "stream": stream}
    async with start(upstreams=route, models=models) as client:
        answer = await client.post("/v1/chat/completions", json=body)
        metrics = (await client.get("/metrics")).text
    assert "other." in answer.text
    assert [model.requests[0]["model"] for model in (one, other)] == ["model-a", "model-b"]
    assert spare.requests == []
    assert 'tavernkit_upstream_errors_total{reason="500",upstream="a"} 1.0' in metrics


async def test_a_mistake_of_the_request_is_told_at_once(start: StartApp) -> None:
    one, other = ScriptedModel(failure(400, "bad")), ScriptedModel("never")
    route = {**ROUTE, "main": {"route": [{"upstream": "a"}, {"upstream": "b", "weight": 0}]}}
    body = {"model": "aria", "messages": [{"role": "user", "content": "Hi"}]}
    async with start(upstreams=route, models={"a": one, "b": other}) as client:
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 400
    assert other.requests == []


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "First"}, {"role": "user", "content": "Said"}, {"role": "system", "content": "y"}],
        [Message("user", "Said")],
        [{"role": "user", "content": [{"type": "text", "text": "Said"}, {"type": "image_url"}]}],
    ],
)
async def test_the_example_model_quotes_the_user_in_parts_too(messages: list[Any]) -> None:
    assert '"Said' in (await ExampleModel().send(Request(model="m", messages=messages))).text


@pytest.mark.parametrize(
    "messages",
    [
        [
            {"role": "user", "content": "First"},
            {"role": "user", "content": "x" * 300},
            {"role": "system", "content": "y"},
        ],
        [Message("user", "Said"), Message("user", "Seen", attachments=[{"type": "image_url"}])],
        [{"role": "user", "content": [{"type": "text", "text": "parts"}]}],
        [{"role": "user", "content": ""}],
        [],
    ],
)
async def test_the_example_model_says_the_same_whole_and_in_pieces(messages: list[Any]) -> None:
    request = Request(model="m", messages=messages)
    pieces = [piece.text async for piece in ExampleModel().stream(request)]
    whole = await ExampleModel().send(request)
    assert (whole.text, whole.finish_reason, whole.model) == ("".join(pieces), "stop", "m")
