"""Retries, fallbacks, time limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.models import (
    ConnectionFailedError,
    Endpoint,
    HTTPError,
    Model,
    ModelError,
    ModelWrapper,
    OpenAIModel,
    ProviderError,
    RequestTimeoutError,
    ScriptedModel,
    fallback,
    with_retries,
    with_timeout,
)
from tavernkit.models._protocol import jittered_backoff
from tavernkit.testing import Body, Disconnect, Hang, failure, streamed
from tests.models.native_server import Wire, serve_wire
from tests.models.support import ask, pieces_of, text_of


class Clock:
    """Notes pauses instead of making them."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def retrying(*script: Any, retries: int = 2) -> tuple[Model, ScriptedModel, Clock]:
    scripted, clock = ScriptedModel(*script), Clock()
    model = with_retries(scripted, retries=retries, backoff=lambda retry: 1.0 + retry, max_wait=20, sleep=clock.sleep)
    return model, scripted, clock


async def text(model: Model, *, stream: bool) -> str:
    return text_of(await pieces_of(model)) if stream else (await model.send(ask())).text


both = pytest.mark.parametrize("stream", [False, True])


@both
async def test_failures_before_the_reply_are_retried(stream: bool) -> None:
    model, scripted, clock = retrying(failure(503), Disconnect(), "Hello.")
    assert await text(model, stream=stream) == "Hello."
    assert len(scripted.requests) == 3
    assert clock.pauses == [1.0, 2.0]


@both
@pytest.mark.parametrize("script", [failure(400), failure(401), failure(504), Hang(), Body({"choices": []})])
async def test_what_would_fail_again_is_not_retried(stream: bool, script: Any) -> None:
    scripted, clock = ScriptedModel(script, "never"), Clock()
    model = with_retries(with_timeout(scripted, 0.05), sleep=clock.sleep)
    with pytest.raises(ModelError):
        await text(model, stream=stream)
    assert (len(scripted.requests), clock.pauses) == (1, [])


@both
async def test_an_error_object_with_a_status_counts_like_the_status(stream: bool) -> None:
    busy = Body({"error": {"message": "busy", "code": 502}})
    model, scripted, _ = retrying(busy, "Hello.")
    assert await text(model, stream=stream) == "Hello."
    assert len(scripted.requests) == 2


@both
async def test_a_server_that_breaks_off_its_answer_is_not_asked_again(stream: bool) -> None:
    # Nothing was said, but the server had accepted the request: the model was at work.
    cut = Wire(raw=b": waiting\n\n", drop=True)
    async with serve_wire(cut, Wire({})) as server, OpenAIModel("m", Endpoint(base_url=server.url)) as inner:
        with pytest.raises(ConnectionFailedError):
            await text(with_retries(inner, sleep=Clock().sleep), stream=stream)
    assert len(server.requests) == 1


async def test_a_reply_that_has_begun_is_not_asked_for_again() -> None:
    model, scripted, clock = retrying(Disconnect(after=["Hel"]), "never")
    with pytest.raises(ConnectionFailedError) as caught:
        await model.send(ask(), on_delta=lambda _: None)
    assert caught.value.partial is not None
    assert (len(scripted.requests), clock.pauses) == (1, [])


@both
async def test_retries_end(stream: bool) -> None:
    model, scripted, _ = retrying(failure(500), failure(500), failure(500), "never")
    with pytest.raises(HTTPError):
        await text(model, stream=stream)
    assert len(scripted.requests) == 3


@both
@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"retry_after": "5"}, 5.0),
        ({"Retry_After": "0.2"}, 1.0),
        ({"retry_after": "soon"}, 1.0),
        ({"retry_after": "nan"}, 1.0),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:10 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 10.0),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:10 GMT"}, 1.0),
    ],
)
async def test_the_provider_may_say_how_long_to_wait(stream: bool, headers: dict[str, str], pause: float) -> None:
    model, _, clock = retrying(failure(429, "slow down", **headers), "Hello.")
    assert await text(model, stream=stream) == "Hello."
    assert clock.pauses == [pause]


@both
async def test_a_pause_that_is_too_long_is_not_waited_for(stream: bool) -> None:
    model, scripted, clock = retrying(failure(429, "tomorrow", retry_after="86400"), "never")
    with pytest.raises(HTTPError):
        await text(model, stream=stream)
    assert (len(scripted.requests), clock.pauses) == (1, [])


def test_pauses_grow_up_to_a_limit() -> None:
    assert all(0.25 <= jittered_backoff(0) <= 0.5 for _ in range(20))
    assert all(10 <= jittered_backoff(30) <= 20 for _ in range(20))
    with pytest.raises(ConfigError):
        with_retries(ScriptedModel(), retries=-1)


@both
async def test_another_model_is_asked_under_its_own_name(stream: bool) -> None:
    first, second = ScriptedModel(failure(400), name="a"), ScriptedModel(streamed("Hel", "lo."), name="b")
    model = fallback(first, second)
    assert (model.name, model.dialect) == ("a", "openai")
    assert await text(model, stream=stream) == "Hello."
    assert (first.requests[0]["model"], second.requests[0]["model"]) == ("a", "b")


@both
async def test_the_last_error_is_raised(stream: bool) -> None:
    model = fallback(ScriptedModel(failure(500, "first")), ScriptedModel(failure(500, "second")))
    with pytest.raises(HTTPError, match="second"):
        await text(model, stream=stream)


async def test_no_other_model_goes_on_with_a_reply() -> None:
    other = ScriptedModel("never")
    with pytest.raises(ConnectionFailedError):
        await pieces_of(fallback(ScriptedModel(Disconnect(after=["Hel"])), other))
    assert other.requests == []


async def test_a_silent_stream_is_given_up_with_what_there_is() -> None:
    model = with_timeout(ScriptedModel(Hang(after=["Hel", "lo"])), 0.05)
    with pytest.raises(RequestTimeoutError) as caught:
        await pieces_of(model)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hello"


async def test_closing_a_wrapper_closes_what_is_inside() -> None:
    closed: list[str] = []

    class Closing(ScriptedModel):
        async def aclose(self) -> None:
            closed.append(self.name)

    async with ModelWrapper(with_timeout(with_retries(fallback(Closing(name="a"), Closing(name="b"))), 1)):
        pass
    assert closed == ["a", "b"]


async def test_provider_errors_without_a_status_have_none() -> None:
    for body in (None, {}, {"error": "x"}, {"error": {"code": "busy"}}, {"error": {"code": 7}}):
        assert ProviderError("x", body=body).status is None


@pytest.mark.parametrize(
    "wrap", [with_retries, lambda model: with_timeout(model, 3), lambda model: fallback(ScriptedModel(), model)]
)
def test_the_name_of_a_model_cannot_be_wrapped(wrap: Callable[[Any], object]) -> None:
    with pytest.raises(ConfigError, match=r"model must be a model, such as tk\.model\(.*\), not str 'openai:gpt-4o'"):
        wrap("openai:gpt-4o")
