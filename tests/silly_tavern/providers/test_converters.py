from __future__ import annotations

import pytest

from tavernkit._values import JsonObject
from tavernkit.errors import ConfigError, StrictModeError, refuse_warning
from tavernkit.silly_tavern.providers import Connection, chat_request
from tavernkit.silly_tavern.providers._chat.claude import convert_claude
from tavernkit.silly_tavern.providers._chat.message_forms import post_process
from tavernkit.silly_tavern.providers._chat.messages import MessageConversionError, PromptNames
from tavernkit.silly_tavern.providers._request import SillyTavernConfig
from tests.conformance import runner

KEY = Connection(key="k3y")
NAMES = PromptNames(char_name="Vesna", user_name="Tomas")
IMAGE: JsonObject = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}


@pytest.mark.parametrize("case", list(runner.cases("silly_tavern/provider_requests")), ids=lambda case: case.id)
def test_a_recorded_request_has_nothing_but_what_was_recorded(case: runner.Case) -> None:
    outcome = runner.run(case).actual
    assert isinstance(outcome, dict)
    assert outcome["body"] == case.expected["body"]


@pytest.mark.parametrize("kind", ["merge", "single"])
def test_a_leading_picture_survives_a_name_in_front_of_it(kind: str) -> None:
    message: JsonObject = {"role": "user", "name": "Tomas", "content": [IMAGE, {"type": "text", "text": "look"}]}
    (merged,) = post_process([message], kind, NAMES)
    assert merged["content"] == [{"type": "text", "text": "Tomas: "}, IMAGE, {"type": "text", "text": "look"}]


def test_converting_leaves_the_given_messages_alone() -> None:
    messages: list[JsonObject] = [{"role": "user", "name": "Tomas", "content": "hi"}]
    post_process(messages, "strict", NAMES)
    convert_claude(messages, names=NAMES)
    assert messages == [{"role": "user", "name": "Tomas", "content": "hi"}]


def test_content_without_a_place_for_a_name_says_which_message() -> None:
    with pytest.raises(MessageConversionError, match="assistant message"):
        convert_claude([{"role": "assistant", "content": None}], names=NAMES)


def test_an_unknown_source_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="openai, claude, openrouter") as caught:
        chat_request({"chat_completion_source": "telepathy", "messages": []})
    assert caught.value.code == "UNKNOWN_SOURCE"


def test_claude_caches_system_prompt_tools_and_depth_when_asked() -> None:
    tool: JsonObject = {"type": "function", "function": {"name": "wx", "description": "w", "parameters": {}}}
    body: JsonObject = {
        "chat_completion_source": "claude",
        "model": "claude-3-5-sonnet-20241022",
        "use_sysprompt": True,
        "max_tokens": 100,
        "tools": [tool],
        "tool_choice": "auto",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
    }
    config = SillyTavernConfig(
        claude_enable_system_prompt_cache=True, claude_caching_at_depth=0, claude_extended_ttl=True
    )
    sent = chat_request(body, KEY, config).body
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert sent["system"] == [{"type": "text", "text": "s", "cache_control": mark}]
    assert sent["tools"][0]["cache_control"] == mark  # type: ignore[index, call-overload]
    assert sent["messages"][-1]["content"][-1]["cache_control"] == mark  # type: ignore[index, call-overload]


def test_broken_yaml_of_a_custom_endpoint_is_ignored_with_a_warning() -> None:
    body: JsonObject = {"chat_completion_source": "custom", "messages": [], "custom_include_body": "a: [1"}
    warnings: list[str] = []
    assert "a" not in chat_request(body, KEY, warn=warnings.append).body
    assert [text.partition(":")[0] for text in warnings] == ["a custom endpoint's YAML is ignored"]
    with pytest.raises(StrictModeError, match="YAML"):
        chat_request(body, KEY, warn=refuse_warning)
