from __future__ import annotations

from dataclasses import replace

import pytest

from tavernkit.budget import MaxTokens, TokenEstimator, get_tokenizer
from tavernkit.errors import ConfigError, MaxTokensExceededError
from tavernkit.prompt import Block, BuildState, Context, Pipeline, Plan, Step, TraceCollector
from tests.budget.estimators import CHARACTERS

State = BuildState[Context]


def make_state(*contents: str, **inputs: object) -> State:
    context = Context.make(**{"token_estimator": CHARACTERS, "warn": None, **inputs})
    state = BuildState(context)
    state.blocks = [Block(role="user", content=content) for content in contents]
    return state


def run(state: State, **options: object) -> State:
    Pipeline(MaxTokens(None, **options)).run(state)
    return state


@pytest.mark.parametrize("limit", [None, 0, "0"])
def test_without_a_limit_nothing_is_checked(limit: object) -> None:
    assert run(make_state("x" * 100), max_tokens=limit).warnings == []


def test_a_prompt_that_just_fits_passes_and_one_token_more_warns() -> None:
    assert run(make_state("12345", "67890"), max_tokens=12, reserve_tokens=2).warnings == []
    state = run(make_state("12345", "678901"), max_tokens=12, reserve_tokens=2)
    assert len(state.warnings) == 1
    assert "11" in state.warnings[0]
    assert "10" in state.warnings[0]


def test_error_mode_raises_with_the_numbers_and_the_steps_name() -> None:
    with pytest.raises(MaxTokensExceededError) as caught:
        run(make_state("x" * 20), max_tokens=15, reserve_tokens=5, mode="error")
    error = caught.value
    assert (error.estimated_tokens, error.max_tokens, error.reserve_tokens, error.limit_tokens) == (20, 15, 5, 10)
    assert error.step == "max_tokens"


@pytest.mark.parametrize("mode", ["off", "none", None])
def test_the_check_can_be_switched_off(mode: str | None) -> None:
    assert run(make_state("x" * 20), max_tokens=1, mode=mode).warnings == []


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": -1},
        {"max_tokens": "many"},
        {"max_tokens": "++5"},
        {"max_tokens": True},
        {"max_tokens": 1.5},
        {"reserve_tokens": -1},
        {"message_overhead_tokens": "x"},
        {"mode": "panic"},
        {"no_such_option": 1},
    ],
)
def test_options_that_make_no_sense_are_refused_when_the_step_is_made(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        MaxTokens(None, **options)
    assert caught.value.step == "max_tokens"


@pytest.mark.parametrize("options", [{"max_tokens": lambda state: -1}, {"max_tokens": 5, "mode": lambda state: "x"}])
def test_functions_that_return_nonsense_are_refused_when_they_run(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        run(make_state("x"), **options)


def test_every_option_may_be_a_function_of_the_state() -> None:
    state = make_state("x" * 10, data={"window": 20})
    with pytest.raises(MaxTokensExceededError) as caught:
        run(
            state,
            max_tokens=lambda state: state.context["window"],
            reserve_tokens=lambda state: "15",
            mode=lambda state: "error",
            token_estimator=lambda state: CHARACTERS,
            model_hint=lambda state: "gpt-4",
            message_overhead_tokens=lambda state: 1,
            include_message_metadata_tokens=lambda state: False,
            tools=lambda state: [],
            response_format=lambda state: None,
        )
    assert (caught.value.estimated_tokens, caught.value.limit_tokens) == (11, 5)


def test_the_plans_messages_are_counted_after_the_in_chat_merge() -> None:
    class Assemble(Step[State, object]):
        def before(self, state: State) -> None:
            blocks = [Block(role="system", content=text, insertion_point="in_chat") for text in ("ab", "cd")]
            state.plan = Plan(blocks=[*blocks, Block(role="user", content="no", enabled=False)])

    collector = TraceCollector()
    state = make_state("x" * 50, instrumenter=collector)
    Pipeline(MaxTokens(max_tokens=100, message_overhead_tokens=2), Assemble()).run(state)
    stats = collector.to_trace().steps[0].stats
    assert stats["message_count"] == 1
    assert stats["estimated_prompt_tokens"] == len("ab\ncd") + 2


def test_tools_and_schemas_count_as_the_json_that_is_sent() -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    schema = {"type": "json_object"}
    collector = TraceCollector()
    run(make_state("hi", instrumenter=collector), max_tokens=999, tools=tools, response_format=schema)
    stats = collector.to_trace().steps[0].stats
    extra = len('[{"type":"function","function":{"name":"look","parameters":{}}}]') + len('{"type":"json_object"}')
    assert stats["estimated_tools_tokens"] == extra
    assert stats["estimated_prompt_tokens"] == 2 + extra


def test_metadata_is_counted_when_asked_for() -> None:
    collector = TraceCollector()
    state = make_state(instrumenter=collector)
    state.blocks = [Block(role="tool", content="ok", message_metadata={"tool_call_id": "c1"})]
    run(state, max_tokens=999, include_message_metadata_tokens=True)
    stats = collector.to_trace().steps[0].stats
    assert stats["estimated_metadata_tokens"] == len('{"tool_call_id":"c1"}')
    assert stats["estimated_content_tokens"] == 2
    assert stats["token_estimator"] == {"backend": "Characters"}


def test_the_estimator_comes_from_the_option_then_the_context_then_the_default() -> None:
    text = "お誕生日おめでとう"

    def estimated(state: State, **options: object) -> object:
        with pytest.raises(MaxTokensExceededError) as caught:
            run(state, max_tokens=1, mode="error", **options)
        return caught.value.estimated_tokens

    assert estimated(make_state(text)) == len(text)
    assert estimated(make_state(text), token_estimator=TokenEstimator()) == get_tokenizer("cl100k_base").count(text)
    default = make_state(text, token_estimator=None, model_hint="gpt-4o")
    assert estimated(default) == get_tokenizer("o200k_base").count(text)
    assert estimated(default, model_hint="gpt-4") == get_tokenizer("cl100k_base").count(text)


def test_options_can_be_overridden_for_one_build() -> None:
    state = make_state("x" * 20, step_configs={"max-tokens": {"max_tokens": 10}})
    assert len(run(state, max_tokens=100).warnings) == 1


def test_a_config_can_be_changed_like_any_dataclass() -> None:
    config = MaxTokens(max_tokens=5).config
    assert replace(config, mode="off").max_tokens == 5
