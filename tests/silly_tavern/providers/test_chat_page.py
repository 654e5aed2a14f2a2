"""The page's body for chat-completion sources: what recordings leave open."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit._values import Json, JsonObject
from tavernkit.errors import ConfigError
from tavernkit.prompt import Message
from tavernkit.silly_tavern import Preset
from tavernkit.silly_tavern.providers import CHAT_SOURCES, ChatInput, Connection, chat_page_body, chat_request
from tavernkit.silly_tavern.providers._chat.page_models import translate_effort

TOOL: JsonObject = {"type": "function", "function": {"name": "wx"}}
IMAGE: JsonObject = {"type": "image_url", "image_url": {"url": "data:,"}}


def body(source: str, model: str = "m", given: ChatInput | None = None, /, **values: Json) -> dict[str, Any]:
    preset = Preset.from_json({"chat_completion_source": source, **values}).with_model(model)
    return chat_page_body(preset, [{"role": "system", "content": "s"}], given or ChatInput())


@pytest.mark.parametrize(("source", "model"), [("openai", "o1-mini"), ("openrouter", "openai/o1-pro")])
def test_o1_gets_no_system_role_and_no_tools(source: str, model: str) -> None:
    made = body(source, model, ChatInput(tools=[TOOL]), function_calling=True)
    assert made["messages"] == [{"role": "user", "content": "s"}]
    assert not {"tools", "tool_choice", "temperature", "max_tokens"} & made.keys()
    assert made["max_completion_tokens"] == 300


def test_messages_are_not_changed_in_place() -> None:
    messages: list[JsonObject] = [{"role": "system", "content": "s"}]
    chat_page_body(Preset.from_json({}).with_model("o1"), messages, ChatInput())
    assert messages == [{"role": "system", "content": "s"}]


@pytest.mark.parametrize(
    ("allowed", "values", "kind"),
    [
        (True, {"function_calling": True}, "normal"),
        (False, {}, "normal"),
        (False, {"function_calling": True}, "quiet"),
        (False, {"function_calling": True, "n": 2}, "normal"),
        (False, {"function_calling": True, "custom_prompt_post_processing": "strict"}, "normal"),
        (True, {"function_calling": True, "custom_prompt_post_processing": "strict_tools"}, "normal"),
    ],
)
def test_tools_are_offered_where_they_may_be_called(allowed: bool, values: dict[str, Json], kind: str) -> None:
    made = body("openai", "gpt-4o", ChatInput(tools=[TOOL], generation_type=kind), **values)
    assert (made.get("tools") == [TOOL]) is allowed
    assert ("tool_choice" in made) is allowed


def test_the_providers_list_decides_about_tools() -> None:
    for known, offered in ((None, True), (True, True), (False, False)):
        made = body("openrouter", "m", ChatInput(tools=[TOOL], can_call_tools=known), function_calling=True)
        assert ("tools" in made) is offered


@pytest.mark.parametrize(
    ("source", "stops"),
    [
        ("openai", ["1", "2", "3", "4"]),
        ("claude", ["1", "2", "3", "4", "", "6" * 17, "7"]),
        ("makersuite", ["1", "2", "3", "4"]),
        ("cohere", ["1", "2", "3", "4", ""]),
        ("zai", ["1"]),
        ("perplexity", None),
    ],
)
def test_each_source_gets_as_many_stop_strings_as_it_takes(source: str, stops: list[str] | None) -> None:
    given = ChatInput(stop_strings=["1", "2", "3", "4", "", "6" * 17, "7"])
    assert body(source, "m", given).get("stop") == stops


@pytest.mark.parametrize(
    ("source", "model", "effort", "sent"),
    [
        ("openai", "gpt-5.6", "max", "xhigh"),
        ("openai", "gpt-5.6", "min", "none"),
        ("openai", "gpt-5", "min", "min"),
        ("openai", "gpt-4o", "min", "low"),
        ("openai", "gpt-6-astra", "max", "max"),
        ("deepseek", "deepseek-chat", "medium", "high"),
        ("deepseek", "deepseek-chat", "min", "low"),
        ("fireworks", "m", "max", "max"),
        ("custom", "koboldcpp/x", "max", "xhigh"),
        ("openrouter", "m", "min", "none"),
        ("aimlapi", "m", "auto", None),
        ("groq", "m", "auto", "auto"),
        ("claude", "claude-opus-5", "max", "max"),
        ("openrouter", "anthropic/claude-opus-5", "max", None),
    ],
)
def test_efforts_have_the_words_of_the_source(source: str, model: str, effort: str, sent: str | None) -> None:
    assert translate_effort(source, model, effort, shows_thoughts=False) == sent


def test_pictures_of_a_character_are_not_sent_where_only_users_may_send_them() -> None:
    preset = Preset.from_json({"chat_completion_source": "deepseek"}).with_model("DeepSeek-V4-Flash-Vision-Exp")
    messages: list[JsonObject] = [
        {"role": "assistant", "content": [IMAGE]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, IMAGE]},
        {"role": "user", "content": [IMAGE]},
    ]
    assert chat_page_body(preset, messages, ChatInput())["messages"] == [
        {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": [IMAGE]},
    ]


def test_messages_of_a_plan_are_not_left_out_silently() -> None:
    messages: Any = [Message("user", "Hi")]
    with pytest.raises(ConfigError, match="messages must be a list of messages in OpenAI's form"):
        chat_page_body(Preset.default(), messages, ChatInput())


def test_a_reverse_proxy_is_told_to_sources_that_have_one() -> None:
    proxy: dict[str, Json] = {"reverse_proxy": "https://p.example", "proxy_password": "pw"}
    assert {**body("claude", **proxy), **proxy} == body("claude", **proxy)
    assert not proxy.keys() & body("groq", **proxy).keys()
    assert not proxy.keys() & body("claude").keys()


SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5) | st.lists(st.text())
KEYS = sorted(key for key, value in Preset.default().to_json().items() if not isinstance(value, list | dict))


@given(st.sampled_from(CHAT_SOURCES), st.dictionaries(st.sampled_from(KEYS), SCALARS, max_size=8))
@settings(max_examples=200)
def test_no_preset_breaks_a_body(source: str, values: dict[str, Json]) -> None:
    ignored: list[str] = []
    preset = Preset.from_json({**values, "chat_completion_source": source}, warn=ignored.append).with_model("m")
    made = chat_page_body(preset, [], ChatInput())
    assert made["chat_completion_source"] == source
    if source not in ("cometapi", "azure_openai", "workers_ai", "custom"):
        assert chat_request({**made, "reverse_proxy": ""}, Connection(key="k")).method == "POST"
