"""``plan.request()``: everything that is sent, from one place."""

from __future__ import annotations

from typing import Any

import pytest

import tavernkit as tk
from tavernkit import Character, ConfigError, risu_ai
from tavernkit import silly_tavern as st
from tavernkit.errors import WarningLog
from tavernkit.prompt import Block, Plan
from tests.models.native_server import Wire, sent_json, serve_wire

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


TEXT_SETTINGS = {
    "textgenerationwebui_settings": {
        "type": "koboldcpp",
        "temp": 0.4,
        "min_p": 0.1,
        "streaming": True,
        "server_urls": {"koboldcpp": "http://localhost:5001"},
        "send_banned_tokens": True,
        "banned_tokens": "[1, 2]",
        "length_penalty": 2,
    },
    "kai_settings": {"temp": 0.6},
    "nai_settings": {"temperature": 0.7, "model_novel": "kayra-v1"},
    "power_user": {"tokenizer": 3, "request_token_probabilities": True},
    "main_api": "textgenerationwebui",
    "amount_gen": 99,
}


def text_plan(**changes: Any) -> st.TextPlan:
    settings = st.Settings.from_json({**TEXT_SETTINGS, **changes}, warn=WarningLog())
    plan = st.build(character=CARD, settings=settings, message="Hi {{banned::delve}}", dialect="text", warn=None)
    assert isinstance(plan, st.TextPlan)
    return plan


def test_a_text_plan_has_every_field_of_the_page() -> None:
    plan = text_plan()
    body = plan.to_request()
    assert plan.backend == "koboldcpp"
    assert len(body) > 60
    assert (body["temperature"], body["min_p"], body["max_new_tokens"], body["stream"]) == (0.4, 0.1, 99, True)
    assert body["logprobs"] == 10
    # Ids as they are; words that macros ban, by the tokenizer of the settings.
    assert str(body["custom_token_bans"]).startswith("1,2,")
    assert text_plan(main_api="novel").to_request()["temperature"] == 0.7
    assert text_plan(main_api="kobold").to_request()["temperature"] == 0.6


def test_the_text_requests_of_every_backend_go_where_the_settings_say() -> None:
    plan, log = text_plan(), WarningLog()
    wire = plan.request(reference=True, warn=log).wire
    assert wire is not None
    assert wire.url == "http://127.0.0.1:5001/v1/completions"
    assert any("koboldcpp does not get length_penalty" in message for message in log.messages)
    kobold = plan.request("kobold", reference=True, base_url="http://h:1", warn=log).wire
    assert kobold is not None
    assert (kobold.url, kobold.body["temperature"]) == ("http://h:1/api/v1/generate", 0.6)
    assert kobold.body["stop_sequence"]
    novelai = plan.request("novelai", model="clio-v1", reference=True, warn=log).wire
    assert novelai is not None
    assert (novelai.url, novelai.headers["authorization"]) == (
        "https://api.novelai.net/ai/generate-stream",
        "Bearer <key>",
    )
    vllm = plan.request("vllm", model="mine", reference=True, warn=log, base_url="http://h:1/v1").wire
    assert vllm is not None
    assert (vllm.url, vllm.body["model"]) == ("http://h:1/v1/completions", "mine")
    with pytest.raises(ConfigError, match="unknown text backend 'openai'"):
        plan.request("openai", reference=True)


async def test_a_reference_request_is_sent_by_the_model_of_that_name() -> None:
    plan = text_plan()
    answers = Wire({"choices": [{"text": "Hello.", "finish_reason": "stop"}]}), Wire({"results": [{"text": "Hello."}]})
    async with serve_wire(*answers) as server:
        for name in ("koboldcpp", "kobold"):
            async with tk.model(f"{name}:{server.url}", api_key="k-1") as model:
                request = plan.request(name, reference=True, base_url=server.url, warn=WarningLog())
                assert (await model.send(request)).text == "Hello."
    assert [each.path for each in server.requests] == ["/v1/completions", "/api/v1/generate"]
    assert server.requests[0].headers["authorization"] == "Bearer k-1"
    assert sent_json(server, 0)["api_server"] == server.url


def test_a_request_without_a_key_waits_for_the_models() -> None:
    wire = chat_plan().request("openrouter", reference=True).wire
    assert wire is not None
    assert wire.headers["authorization"] == "Bearer <key>"
    with pytest.raises(ConfigError, match="openrouter: an API key is needed"):
        chat_plan().request("openrouter", reference=True, api_key="")


def test_reference_requests_take_common_names_models_and_addresses() -> None:
    log = WarningLog()
    wire = chat_plan().request("anthropic", model="claude-x", reference=True, warn=log).wire
    assert wire is not None
    assert (wire.url, wire.body["model"]) == ("https://api.anthropic.com/v1/messages", "claude-x")
    custom = chat_plan().request("custom", base_url="http://h:1/v1", reference=True, warn=log).wire
    assert custom is not None
    assert custom.url == "http://h:1/v1/chat/completions"
    chat_plan().request("groq", base_url="http://h:1", reference=True, warn=log)
    assert any("base_url is left out" in message for message in log.messages)
    own = chat_plan(llm_options={"seed": 99}).request(reference=True, warn=log).wire
    assert own is not None
    assert own.body["seed"] == 99


def test_settings_that_the_source_does_not_get_are_named() -> None:
    log = WarningLog()
    chat_plan().request("groq", model="m", reference=True, warn=log)
    assert any("groq does not get top_k" in message for message in log.messages)


def test_biases_and_probabilities_of_the_settings_are_sent() -> None:
    settings = st.Settings.from_json(
        {
            "oai_settings": {"bias_presets": {"Mine": [{"text": "[7]", "value": -5}, {"text": "ship", "value": 2}]}},
            "power_user": {"request_token_probabilities": True},
        },
        warn=WarningLog(),
    )
    preset = PRESET.replace(source={"bias_preset_selected": "Mine"}).with_model("gpt-4o")
    plan = st.build(character=CARD, preset=preset, settings=settings, message="Hi", warn=None)
    body = plan.to_request()
    assert body["logprobs"] == 5
    assert body["logit_bias"] == {"7": -5, "12407": 2}
    nobody = st.build(character=CARD, preset=PRESET, settings=settings, warn=None)
    assert "logit_bias" not in nobody.to_request()


def test_risuai_has_options_and_a_reference_too() -> None:
    preset = risu_ai.Preset().replace(ai_model="gpt4o", temperature=70, max_response=111)
    plan = risu_ai.build(character=CARD, preset=preset, message="Hi", warn=None)
    assert plan.request(model="m").options["temperature"] == 0.7
    wire = plan.request("openai", reference=True, api_key="k-2").wire
    assert wire is not None
    assert wire.body["model"] == "gpt-4o"
    log = WarningLog()
    waiting = plan.request(reference=True, model="other", warn=log).wire
    assert waiting is not None
    assert waiting.needs_key
    assert any("model is left out" in message for message in log.messages)


def test_a_plan_of_no_program_has_no_reference() -> None:
    plan = Plan([Block("user", "Hi")], llm_options={"temperature": 1})
    assert plan.request(model="m").body()["temperature"] == 1
    with pytest.raises(ConfigError, match="belongs to neither"):
        plan.request(reference=True)
