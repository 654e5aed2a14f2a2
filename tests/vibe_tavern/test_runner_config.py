"""The configuration object: what it takes, what it refuses, what it hands to the pipeline."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tavernkit.errors import ConfigError, MaxTokensExceededError
from tavernkit.prompt import Context
from tavernkit.vibe_tavern import (
    PIPELINE,
    DirectivesOptions,
    LanguagePolicyOptions,
    OutputTagsOptions,
    PromptRunner,
    RunnerConfig,
    ToolCallingOptions,
    VibeTavernContext,
)
from tavernkit.vibe_tavern._directives.config import DirectivesConfig
from tavernkit.vibe_tavern._output_tags import OutputTagsConfig
from tavernkit.vibe_tavern._runner_config import SHARED
from tavernkit.vibe_tavern._steps import LanguagePolicyConfig
from tavernkit.vibe_tavern._tool_calling.config import RELIABLE_RESPONSE_TRANSFORMS, ToolCallingConfig
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


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"tool_calling": {"tool_denylst": ["x"]}}, "UNKNOWN_OPTION", "did you mean 'tool_denylist'?"),
        ({"context": {"tool_calling": {"tool_denylst": ["x"]}}}, "UNKNOWN_OPTION", "did you mean 'tool_denylist'?"),
        ({"directives": {"mode": ["json_object"]}}, "UNKNOWN_OPTION", "did you mean 'modes'?"),
        ({"language_policy": {"target_language": "ja"}}, "UNKNOWN_OPTION", "did you mean 'target_lang'?"),
        ({"output_tags": {"rulez": []}}, "UNKNOWN_OPTION", "did you mean 'rules'?"),
        ({"output_tags": {"rules": [{"tags": "x"}]}}, "UNKNOWN_OPTION", "did you mean 'tag'?"),
        ({"output_tags": {"escape_hatch": {"enable": True}}}, "UNKNOWN_OPTION", "did you mean 'enabled'?"),
        ({"token_estimation": {"modelhint": "x"}}, "UNKNOWN_OPTION", "did you mean 'model_hint'?"),
        ({"tool_calling": {"xyz": 1}}, "UNKNOWN_OPTION", "it has fallback_retry_count"),
        ({"tool_calling": {"tool_denylist": 5}}, "INVALID_OPTION", "a list of names"),
        ({"tool_calling": {"message_transforms": [5]}}, "INVALID_OPTION", "a list of names"),
        ({"tool_calling": {"fix_empty_final": "maybe"}}, "INVALID_OPTION", "True or False"),
        ({"tool_calling": {"max_total_tokens": "lots"}}, "INVALID_OPTION", "a whole number"),
        ({"tool_calling": {"tool_timeout_seconds": "soon"}}, "INVALID_OPTION", "a number"),
        ({"tool_calling": {"tool_timeout_seconds": []}}, "INVALID_OPTION", "a number"),
        ({"tool_calling": {"fix_empty_final_user_text": 5}}, "INVALID_OPTION", "a text"),
        ({"tool_calling": {"tool_choice": 5}}, "INVALID_OPTION", "a text"),
        ({"tool_calling": {"tool_use_mode": "enforce"}}, "TOOL_USE_MODE", "did you mean 'enforced'?"),
        ({"tool_calling": {"request_overrides": []}}, "SECTION_NOT_A_MAPPING", "must be a mapping"),
        ({"language_policy": {"special_tags": 1}}, "INVALID_OPTION", "a list of names"),
        ({"language_policy": {"enabled": "perhaps"}}, "INVALID_OPTION", "True or False"),
    ],
)
def test_options_that_do_not_exist_or_cannot_be_read_are_refused(fields: Any, code: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RunnerConfig.build(provider="openai", model="m", **fields)
    assert caught.value.code == code
    assert said in str(caught.value)


def test_sections_go_over_those_of_the_context_option_by_option() -> None:
    context = {"tool_calling": {"tool_use_mode": "disabled", "fallback_retry_count": "2"}}
    built = config(
        context=context, tool_calling={"tool_use_mode": "Relaxed"}, toggles={"expand_user_input_macros": True}
    )
    assert (built.tool_calling.tool_use_mode, built.tool_calling.fallback_retry_count) == ("relaxed", 2)
    assert built.context["toggles"] == {"expand_user_input_macros": True}


def test_numbers_out_of_range_are_the_default() -> None:
    options = config(tool_calling={"max_tool_args_bytes": -1, "max_tool_calls_per_turn": 0, "tool_timeout_seconds": 0})
    assert options.tool_calling == config().tool_calling
    with pytest.raises(ConfigError, match="must be a number"):
        config(tool_calling={"tool_timeout_seconds": 10**400})


def test_every_option_of_a_section_is_typed() -> None:
    pairs = {
        ToolCallingOptions: ToolCallingConfig,
        DirectivesOptions: DirectivesConfig,
        LanguagePolicyOptions: LanguagePolicyConfig,
        OutputTagsOptions: OutputTagsConfig,
    }
    for options, settled in pairs.items():
        assert set(options.__annotations__) == {each.name for each in dataclasses.fields(settled)}


def test_sections_and_modes_that_look_misspelt_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    built = config(context={"tool_caling": {}}, directives={"modes": ["json_shema", "prompt_only"]})
    assert built.directives.modes == ("prompt_only",)
    assert "did you mean 'tool_calling'?" in caplog.text
    assert "did you mean 'json_schema'?" in caplog.text
