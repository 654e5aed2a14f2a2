"""``plan.request()``: everything that is sent, from one place."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit import Character, ConfigError, risu_ai
from tavernkit import silly_tavern as st
from tavernkit.errors import WarningLog
from tavernkit.prompt import Block, Plan

CARD = Character(name="Aria", description="A bard.")
PRESET = (
    st.Preset.default()
    .replace(temperature=0.3, top_p=0.9, top_k=40, openai_max_tokens=222, seed=7, chat_completion_source="openai")
    .with_model("o3")
)


def chat_plan(**more: Any) -> st.ChatPlan:
    settings = st.Settings.from_json({"power_user": {"custom_stopping_strings": '["END"]'}}, warn=WarningLog())
    return st.build(character=CARD, preset=PRESET, settings=settings, message="Hi", warn=None, **more)


def test_the_samplers_limits_and_stops_of_a_preset_are_in_the_request() -> None:
    request = chat_plan().request(model="some-model")
    body = request.body()
    assert body["model"] == "some-model"
    assert (body["temperature"], body["top_p"], body["top_k"], body["seed"]) == (0.3, 0.9, 40, 7)
    assert (body["max_tokens"], body["stop"]) == (222, ["END"])
    assert body["messages"] == chat_plan().to_messages()


def test_the_model_that_is_asked_decides_not_the_presets() -> None:
    log = WarningLog()
    assert "temperature" not in chat_plan().request(model="o3").body(warn=log)
    assert any("temperature" in message for message in log.messages)
    assert "temperature" in chat_plan().request(model="gpt-4o").body(warn=log)


def test_options_of_the_caller_win() -> None:
    assert chat_plan().request(options={"temperature": 1.5}, model="m").body()["temperature"] == 1.5


def test_a_limit_of_the_caller_replaces_the_presets_by_any_name() -> None:
    body = chat_plan().request(options={"max_completion_tokens": 9}, model="m").body()
    assert (body.get("max_tokens"), body["max_completion_tokens"]) == (None, 9)


def test_auto_is_not_sent() -> None:
    preset = PRESET.replace(reasoning_effort="auto", verbosity="auto")
    plan = st.build(character=CARD, preset=preset, message="Hi", warn=None)
    assert not {"reasoning_effort", "verbosity"} & set(plan.request(model="m").body())


def test_claude_gets_the_presets_prefill() -> None:
    preset = PRESET.replace(assistant_prefill="{{char}} nods. ", assistant_impersonation="I say:")
    plan = st.build(character=CARD, preset=preset, message="Hi", warn=None)
    body: Any = plan.request("anthropic", model="claude-sonnet-4-5").body(warn=WarningLog())
    assert body["messages"][-1] == {"role": "assistant", "content": [{"type": "text", "text": "Aria nods."}]}
    # Newer models refuse to go on with a reply: SillyTavern gives it to them as the user's.
    newer: Any = plan.request("anthropic", model="claude-opus-4-6").body(warn=WarningLog())
    assert newer["messages"][-1]["role"] == "user"
    assert "Aria nods." in str(newer["messages"][-1])
    assert "nods" not in str(plan.request("openai", model="m").body())
    own = st.build(character=CARD, preset=preset, message="Hi", generation_type="impersonate", warn=None).request(
        "anthropic"
    )
    assert "I say:" in str(own.body(warn=WarningLog()))


def test_a_custom_body_of_a_preset_is_sent() -> None:
    preset = PRESET.replace(
        chat_completion_source="custom", custom_include_body="dry_base: 2\nmin_p: 0.2", custom_exclude_body="- top_k"
    )
    body = st.build(character=CARD, preset=preset, message="Hi", warn=None).request(model="m").body()
    assert (body["dry_base"], body["min_p"], body.get("top_k")) == (2, 0.2, None)


def test_another_dialect_gets_its_own_shape() -> None:
    body = chat_plan().request("anthropic", model="claude-x").body(warn=WarningLog())
    assert body["max_tokens"] == 222
    assert body["stop_sequences"] == ["END"]


def test_a_reference_request_is_sillytaverns_own() -> None:
    request = chat_plan().request("openai", reference=True, api_key="k-1")
    assert request.wire is not None
    assert request.wire.url.startswith("https://api.openai.com/")
    assert "Bearer k-1" in request.wire.headers.values()
    assert "k-1" not in repr(request)
    # SillyTavern goes by the preset's model: o3 takes no temperature.
    assert "temperature" not in request.wire.body


def test_a_reference_request_for_another_source() -> None:
    wire = chat_plan().request("openrouter", reference=True, api_key="k").wire
    assert wire is not None
    assert "openrouter.ai" in wire.url


def test_a_text_plan_is_a_prompt_with_its_stops() -> None:
    samplers = {"temp": 0.4, "min_p": 0.1, "seed": -1}
    settings = st.Settings.from_json({"textgenerationwebui_settings": samplers, "amount_gen": 99}, warn=WarningLog())
    plan = st.build(character=CARD, settings=settings, message="Hi", dialect="text", warn=None)
    assert isinstance(plan, st.TextPlan)
    request = plan.request(model="m")
    assert request.prompt == plan.prompt
    assert tuple(request.stop) == plan.stop_strings
    assert request.options == {"temperature": 0.4, "min_p": 0.1, "max_tokens": 99}
    reference = plan.request("koboldcpp", reference=True)
    wire = reference.wire
    assert reference.prompt == plan.prompt
    assert wire is not None
    assert wire.body["prompt"] == plan.prompt


def test_risuai_has_options_and_a_reference_too() -> None:
    preset = risu_ai.Preset().replace(ai_model="gpt4o", temperature=70, max_response=111)
    plan = risu_ai.build(character=CARD, preset=preset, message="Hi", warn=None)
    assert plan.request(model="m").options["temperature"] == 0.7
    wire = plan.request("openai", reference=True, api_key="k-2").wire
    assert wire is not None
    assert wire.body["model"] == "gpt-4o"


def test_a_plan_of_no_program_has_no_reference() -> None:
    plan = Plan([Block("user", "Hi")], llm_options={"temperature": 1})
    assert plan.request(model="m").body()["temperature"] == 1
    with pytest.raises(ConfigError, match="belongs to neither"):
        plan.request(reference=True)
