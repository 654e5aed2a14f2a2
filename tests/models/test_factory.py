"""Models from short names."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import tavernkit as tk
from tavernkit.models import (
    AnthropicModel,
    Endpoint,
    GoogleModel,
    ModelWrapper,
    OpenAIModel,
    ScriptedModel,
    TextModel,
)
from tavernkit.models._factory import user_model
from tavernkit.models._http import HttpModel
from tavernkit.testing import serve, serve_in_thread, streamed
from tests.models.support import ask

KEY = "sk-very-secret-key-123"
ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-openai",
    "ANTHROPIC_API_KEY": "sk-anthropic",
    "GEMINI_API_KEY": "sk-gemini",
    "OPENROUTER_API_KEY": "sk-openrouter",
}


def inner(model: tk.Model) -> HttpModel:
    assert isinstance(model, ModelWrapper)
    assert isinstance(model.inner, HttpModel)
    return model.inner


@pytest.mark.parametrize(
    ("name", "fields", "kind", "model", "url", "key"),
    [
        ("openai:gpt-4o", {}, OpenAIModel, "gpt-4o", "https://api.openai.com/v1", "sk-openai"),
        ("openai:m", {"base_url": "http://h:1"}, OpenAIModel, "m", "http://h:1/v1", "sk-openai"),
        ("openai:m", {"base_url": "http://h:1/v1/"}, OpenAIModel, "m", "http://h:1/v1", "sk-openai"),
        ("openai:m", {"base_url": "http://h/paas/v4", "api_key": KEY}, OpenAIModel, "m", "http://h/paas/v4", KEY),
        ("anthropic:c", {}, AnthropicModel, "c", "https://api.anthropic.com/v1", "sk-anthropic"),
        (
            "google:g",
            {},
            GoogleModel,
            "g",
            "https://generativelanguage.googleapis.com/v1beta",
            "sk-gemini",
        ),
        ("text:t", {"base_url": "http://h:1"}, TextModel, "t", "http://h:1/v1", "sk-openai"),
        ("openrouter:a/b:free", {}, OpenAIModel, "a/b:free", "https://openrouter.ai/api/v1", "sk-openrouter"),
    ],
)
def test_a_short_name_makes_a_model(
    name: str, fields: dict[str, Any], kind: type, model: str, url: str, key: str
) -> None:
    made = tk.model(name, environment=ENVIRONMENT, **fields)
    found = inner(made)
    assert isinstance(made, tk.Model)
    assert type(found) is kind
    assert (made.name, found.endpoint.url, found.endpoint.api_key) == (model, url, key)


def test_the_address_may_come_from_the_environment() -> None:
    model = tk.model("openai:m", environment={"OPENAI_BASE_URL": "http://h:1/v1"})
    assert inner(model).endpoint.url == "http://h:1/v1"


@pytest.mark.parametrize("own", [None, "its own"])
@pytest.mark.parametrize(
    ("name", "base_url", "usual"),
    [
        ("openai:m", "http://127.0.0.1:9", None),
        ("openai:http://127.0.0.1:9", None, None),
        ("text:m", "http://127.0.0.1:9", None),
        ("azure_openai:m", "http://127.0.0.1:9", "sk-azure"),  # has no server of its own
        ("vllm:m", "http://127.0.0.1:9", "sk-vllm"),
    ],
)
def test_another_server_gets_no_key_of_a_providers_own_server(
    name: str, base_url: str | None, usual: str | None, own: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {**ENVIRONMENT, "AZURE_OPENAI_API_KEY": "sk-azure", "VLLM_API_KEY": "sk-vllm"}
    for variable, key in keys.items():
        monkeypatch.setenv(variable, key)
    if own is not None:
        monkeypatch.setenv("TAVERNKIT_API_KEY", own)
    made: Any = user_model(name, base_url=base_url)
    assert made.inner.endpoint.api_key == (own or usual)


def test_a_providers_own_server_gets_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("TAVERNKIT_API_KEY", "of another server")
    made: Any = user_model("openai:m")
    assert made.inner.endpoint.api_key == "sk-openai"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("opneai:gpt-4o", "did you mean 'openai:gpt-4o'"),
        ("gpt-4o", "'openai:gpt-4o'"),
        ("nobody:x", "known are openai"),
        ("scriptd", "did you mean 'scripted'"),
    ],
)
def test_an_unknown_provider_is_refused_with_a_suggestion(name: str, hint: str) -> None:
    with pytest.raises(tk.ConfigError, match=hint):
        tk.model(name)


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(tk.ConfigError, match="base_url"):
        tk.model("text:m", environment={})
    with pytest.raises(tk.ConfigError, match="scripted"):
        tk.model("openai:m", replies=["x"])
    with pytest.raises(tk.ConfigError):
        tk.model("openai:m", base_url="localhost")


async def test_a_missing_key_is_named_before_anything_is_sent() -> None:
    async with inner(tk.model("anthropic:c", environment={})) as model:
        with pytest.raises(tk.ConfigError, match="ANTHROPIC_API_KEY"):
            await model.send(ask())
        with pytest.raises(tk.ConfigError, match="ANTHROPIC_API_KEY"):
            model.stream(ask())


async def test_a_model_has_to_be_named_somewhere() -> None:
    model = OpenAIModel("", Endpoint(base_url="http://127.0.0.1:9"))
    with pytest.raises(tk.ConfigError, match="which model"):
        await model.send(ask())


async def test_the_scripted_model_says_its_replies() -> None:
    model = tk.model("scripted", replies=["Hello.", streamed("Bye", ".")])
    assert isinstance(model, ScriptedModel)
    async with model:
        assert (await model.send(ask())).text == "Hello."
        assert [piece.text async for piece in model.stream(ask()) if piece.text] == ["Bye", "."]


async def test_a_whole_request_over_http() -> None:
    scripted = ScriptedModel("Hello.")
    async with serve(scripted) as server:
        model = tk.model("openai:my-model", base_url=server.url, api_key=KEY, headers={"X-Title": "t"}, timeout=5)
        reply = await model.send(ask(options={"temperature": 0.5}))
        await model.aclose()
    assert reply.text == "Hello."
    assert scripted.requests[0]["model"] == "my-model"
    assert scripted.requests[0]["temperature"] == 0.5
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].headers["x-title"] == "t"


async def test_keys_are_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serve(ScriptedModel("Hello.")) as server:
        model = tk.model("openai:m", base_url=server.url, api_key=KEY, headers={"Authorization": f"Bearer {KEY}"})
        await model.send(ask())
        await model.aclose()
    assert KEY not in repr(model) + repr(inner(model).endpoint) + caplog.text


def test_a_model_can_be_used_in_one_event_loop_after_another() -> None:
    async def said(model: tk.Model) -> str:
        async with model:
            return (await model.send(ask())).text

    with serve_in_thread(ScriptedModel("one", "two")) as url:
        model = tk.model("openai:m", base_url=url)
        assert [asyncio.run(said(model)) for _ in range(2)] == ["one", "two"]


@pytest.mark.parametrize("model", [tk.model("scripted", replies=["Hi"]), tk.model("openai:m", api_key="k")])
@pytest.mark.parametrize("value", ["Hi", [{"role": "user", "content": "Hi"}], object()])
async def test_what_is_sent_is_a_request(model: tk.Model, value: Any) -> None:
    wanted = r"request must be a Request \(plan.request\(\) makes one\), not "
    with pytest.raises(tk.ConfigError, match=wanted):
        await model.send(value)
    with pytest.raises(tk.ConfigError, match=wanted):
        async for _ in model.stream(value):
            pass
