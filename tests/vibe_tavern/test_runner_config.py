"""The configuration object: what it takes, what it refuses, what it hands to the pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import ConfigError, MaxTokensExceededError
from tavernkit.prompt import Context
from tavernkit.vibe_tavern import PIPELINE, PromptRunner, RunnerConfig, VibeTavernContext
from tavernkit.vibe_tavern.infrastructure import SHARED
from tavernkit.vibe_tavern.tool_calling.presets import RELIABLE_RESPONSE_TRANSFORMS
from tests.vibe_tavern.support import config, loose, scripted


def test_sections_are_parsed_over_the_presets() -> None:
    built = config(
        "openrouter",
        "deepseek/deepseek-v3.2",
        context={
            "tool_calling": {"max_tool_calls_per_turn": 3, "message_transforms": ["mine"]},
            "directives": {"modes": ["prompt_only"]},
            "output_tags": {"enabled": True},
            "language_policy": {"enabled": True, "target_lang": "ja"},
        },
    )
    assert built.tool_calling.max_tool_calls_per_turn == 3
    assert built.tool_calling.message_transforms == ("assistant_tool_calls_reasoning_content_empty_if_missing", "mine")
    assert built.tool_calling.response_transforms == RELIABLE_RESPONSE_TRANSFORMS
    assert built.directives.modes == ("prompt_only",)
    assert built.output_tags.enabled
    assert built.language_policy.target_lang == "ja"
    assert loose(built.pipeline["language_policy"]).config.target_lang == "ja"


def test_presets_can_be_left_out() -> None:
    model = "deepseek/deepseek-v3.2"
    bare = config("openrouter", model, presets="none")
    assert bare.tool_calling.response_transforms == ()
    assert bare.directives.structured_request_overrides == {}
    provider_only = config("openrouter", model, presets="provider")
    assert provider_only.tool_calling.message_transforms == ()
    assert provider_only.tool_calling.request_overrides == {"parallel_tool_calls": False}


def test_a_known_window_is_enforced() -> None:
    small = config(capabilities_overrides={"context_window_tokens": 20, "reserved_response_tokens": 10})
    runner, model = scripted("never sent")
    with pytest.raises(MaxTokensExceededError) as caught:
        runner.build_request(small, message="word " * 50)
    assert (caught.value.max_tokens, caught.value.reserve_tokens) == (20, 10)
    assert model.requests == []
    assert runner.build_request(small, message="hi").messages == [{"role": "user", "content": "hi"}]


def test_step_options_win_over_sections_and_budget() -> None:
    built = config(
        context={"language_policy": {"enabled": True, "target_lang": "ja", "style_hint": "casual"}},
        capabilities_overrides={"context_window_tokens": 1},
        step_options={
            "Language-Policy": {"target_lang": "ko", "policy_text_builder": lambda *_: "P"},
            "max_tokens": {"mode": "off"},
        },
    )
    policy = loose(built.pipeline["language_policy"]).config
    assert (policy.target_lang, policy.style_hint) == ("ko", "casual")
    request = PromptRunner(scripted()[1]).build_request(built, message="a long enough message")
    assert request.messages[0] == {"role": "system", "content": "P"}


def test_pipeline_without_the_usual_steps_is_taken() -> None:
    pipeline = PIPELINE.without("language_policy").without("max_tokens")
    built = config(pipeline=pipeline, capabilities_overrides={"context_window_tokens": 1})
    assert built.pipeline.names == ("prepare", "plan_assembly")


def test_context_may_be_ready_made_and_step_configs_go_by_their_old_name_too() -> None:
    ready = VibeTavernContext(data={"tool_calling": {"tool_use_mode": "disabled"}})
    assert RunnerConfig.build(provider="x", model="m", context=ready).tool_calling.tool_use_mode == "disabled"
    neutral = Context(message="hi", data={"tool_calling": {"tool_use_mode": "disabled"}}, strict=True)
    taken = RunnerConfig.build(provider="x", model="m", context=neutral)
    assert (taken.tool_calling.tool_use_mode, taken.context.type) == ("disabled", "app")
    assert (taken.context.message, taken.context.strict) == ("hi", True)
    built = config(context={"module_configs": {"Max-Tokens": {"max_tokens": 5}}})
    assert built.context.step_configs == {"max_tokens": {"max_tokens": 5}}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"context": 5}, "INVALID_CONTEXT"),
        ({"context": {"tool_calling": []}}, "SECTION_NOT_A_MAPPING"),
        ({"context": {"tool_calling": {"tool_use_mode": "sometimes"}}}, "TOOL_USE_MODE"),
        ({"context": {"tool_calling": {"tool_failure_policy": "shrug"}}}, "TOOL_FAILURE_POLICY"),
        ({"context": {"directives": 1}}, "SECTION_NOT_A_MAPPING"),
        ({"context": {"language_policy": 1}}, "SECTION_NOT_A_MAPPING"),
        ({"llm_options_defaults": {"model": "x"}}, "RESERVED_LLM_OPTION"),
        ({"llm_options_defaults": {"stream": True}}, "RESERVED_LLM_OPTION"),
        ({"step_options": {"nope": {}}}, "UNKNOWN_STEP"),
        ({"step_options": {"prepare": {"x": 1}}}, "UNKNOWN_STEP_OPTION"),
    ],
)
def test_wrong_configurations_are_refused_at_once(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RunnerConfig.build(provider="openai", model="m", **fields)
    assert caught.value.code == code


def test_registries_of_ones_own_are_nobody_elses() -> None:
    mine = SHARED.copy()
    mine.message_transforms.register("Shout-It", lambda messages: messages[0].update(content="LOUD"))
    built = config(infrastructure=mine)
    request = scripted()[0].build_request(built, message="hi", message_transforms=["shout_it"])
    assert request.request["messages"] == [{"role": "user", "content": "LOUD"}]
    assert "shout_it" not in SHARED.message_transforms.names
