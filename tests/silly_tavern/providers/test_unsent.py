"""What a provider cannot take is named."""

from __future__ import annotations

import pytest

from tavernkit._values import Json, JsonObject
from tavernkit.silly_tavern import Preset
from tavernkit.silly_tavern.providers import (
    CHAT_SOURCES,
    TEXT_BACKENDS,
    ChatInput,
    TextInput,
    unsent_chat_settings,
    unsent_text_settings,
)

EVERYTHING: JsonObject = {
    "temperature": 0.8,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.05,
    "top_a": 0.1,
    "frequency_penalty": 0.2,
    "presence_penalty": 0.3,
    "repetition_penalty": 1.1,
    "seed": 7,
    "n": 2,
}
GIVEN = TextInput(prompt="p", max_tokens=9, max_context=99)


def unsent(source: str, model: str, given: ChatInput | None = None, /, **values: Json) -> list[str]:
    preset = Preset.from_json({"chat_completion_source": source, **values}).with_model(model)
    return unsent_chat_settings(preset, given or ChatInput())


@pytest.mark.parametrize("source", CHAT_SOURCES)
def test_who_chose_nothing_misses_nothing(source: str) -> None:
    assert unsent(source, "m") == []


def test_openai_gets_the_usual_samplers_only() -> None:
    assert unsent("openai", "gpt-4o", **EVERYTHING) == ["top_k", "min_p", "top_a", "repetition_penalty"]
    tool: JsonObject = {"type": "function", "function": {"name": "wx"}}
    assert unsent("openai", "gpt-4o", ChatInput(tools=[tool], token_probabilities=True)) == ["tools"]
    assert unsent("openai", "gpt-4o", ChatInput(tools=[tool]), function_calling=True) == []


def test_a_reasoning_model_gets_no_samplers() -> None:
    missed = unsent("openai", "gpt-5", ChatInput(stop_strings=["a"]), temperature=0.8, top_p=0.9)
    assert missed == ["temperature", "top_p", "stop_strings"]


def test_what_the_server_drops_is_named_too() -> None:
    schema: JsonObject = {"name": "n", "value": {"type": "object"}}
    assert unsent("minimax", "m", ChatInput(json_schema=schema), presence_penalty=1) == [
        "presence_penalty",
        "json_schema",
    ]
    assert unsent("claude", "claude-3-7-sonnet", temperature=0.8, reasoning_effort="high") == ["temperature"]


def test_a_request_that_is_refused_misses_nothing() -> None:
    assert unsent("workers_ai", "m", **EVERYTHING) == []


@pytest.mark.parametrize("backend", TEXT_BACKENDS)
def test_who_changed_no_sampler_misses_none(backend: str) -> None:
    assert unsent_text_settings(backend, {}, GIVEN) == []


def test_samplers_that_a_backend_does_not_know_are_named() -> None:
    settings: JsonObject = {"temp": 0.8, "dry_multiplier": 0.8, "xtc_probability": 0.5, "preset": "Mine", "mine": 1}
    assert unsent_text_settings("koboldcpp", settings, GIVEN) == []
    assert unsent_text_settings("togetherai", settings, GIVEN) == ["dry_multiplier", "xtc_probability"]
    # The page writes `tfs`, and Ollama's list of options says `tfs_z`.
    assert unsent_text_settings("ollama", {"tfs": 0.9, "min_p": 0.2}, GIVEN) == ["tfs"]
    assert unsent_text_settings("huggingface", {"temp": 0.8}, GIVEN) == []
