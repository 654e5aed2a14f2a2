"""What is known about providers and models, and how it is overridden."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._capabilities import CapabilitiesRegistry
from tavernkit.vibe_tavern._runner_config import SHARED


@pytest.fixture
def registry() -> CapabilitiesRegistry:
    return CapabilitiesRegistry()


def test_unknown_provider_is_judged_carefully(registry: CapabilitiesRegistry) -> None:
    found = registry.resolve(" My-Server ", "some/model")
    assert found.provider == "my_server"
    assert found.supports_tools
    assert found.supports_response_format_json_object
    assert not found.supports_response_format_json_schema
    assert not found.supports_parallel_tool_calls
    assert (found.context_window_tokens, found.reserved_response_tokens) == (None, 0)


def test_provider_spellings_are_one_provider(registry: CapabilitiesRegistry) -> None:
    assert registry.resolve("Open-Router", "m").provider == "openrouter"
    assert registry.resolve("volcano", "m").supports_parallel_tool_calls
    assert not registry.resolve("open_router", "openai/gpt").supports_response_format_json_object


def test_all_matching_model_rules_count(registry: CapabilitiesRegistry) -> None:
    her = registry.resolve("openrouter", "minimax/minimax-m2-her")
    assert not her.supports_tools
    assert not her.supports_response_format_json_schema
    assert registry.resolve("openrouter", "minimax/minimax-m2-her:nitro").supports_tools


def test_default_overrides_hold_below_the_overrides_of_a_call(registry: CapabilitiesRegistry) -> None:
    registry.configure_default_overrides(
        context_window_tokens=1000, reserved_response_tokens=100, supports_streaming=False
    )
    found = registry.resolve("openai", "m", {"context_window_tokens": 500, "supports_streaming": None})
    assert (found.context_window_tokens, found.reserved_response_tokens) == (500, 100)
    assert not found.supports_streaming
    registry.configure_default_overrides()
    assert registry.resolve("openai", "m").context_window_tokens is None


def test_a_copy_learns_alone(registry: CapabilitiesRegistry) -> None:
    twin = registry.copy()
    twin.register_provider("mine", supports_response_format_json_schema=True)
    assert twin.resolve("mine", "m").supports_response_format_json_schema
    assert not registry.resolve("mine", "m").supports_response_format_json_schema
    assert not SHARED.capabilities.resolve("mine", "m").supports_response_format_json_schema


@pytest.mark.parametrize(
    ("overrides", "code"),
    [
        ({"supports_magic": True}, "UNKNOWN_CAPABILITY"),
        ({"supports_tools": "yes"}, "CAPABILITY_NOT_BOOLEAN"),
        ({"context_window_tokens": 0}, "INVALID_CONTEXT_WINDOW"),
        ({"context_window_tokens": True}, "INVALID_CONTEXT_WINDOW"),
        ({"reserved_response_tokens": -1}, "INVALID_RESERVED_TOKENS"),
        ({"context_window_tokens": 10, "reserved_response_tokens": 11}, "INVALID_RESERVED_TOKENS"),
    ],
)
def test_impossible_overrides_are_refused(registry: CapabilitiesRegistry, overrides: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.resolve("openai", "m", overrides)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("provider", "model", "code"), [("", "m", "PROVIDER_REQUIRED"), ("openai", "  ", "MODEL_REQUIRED")]
)
def test_provider_and_model_must_be_named(registry: CapabilitiesRegistry, provider: str, model: str, code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.resolve(provider, model)
    assert caught.value.code == code
