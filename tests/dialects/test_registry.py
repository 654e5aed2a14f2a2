from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tavernkit import dialects
from tavernkit.dialects import DialectRegistry, convert, message_from_openai, registered
from tavernkit.errors import ConfigError, WarningLog
from tavernkit.prompt import Message


def shout(messages: Sequence[Message], *, mark: str = "!", **_: object) -> str:
    return " ".join(message.content.upper() + mark for message in messages)


@pytest.fixture
def shouting() -> Iterator[None]:
    dialects.register("shout", shout)
    yield
    dialects.unregister("shout")


def test_the_built_in_dialects_are_there() -> None:
    assert registered() == ("openai", "anthropic", "google", "cohere", "ai21", "mistral", "xai", "text")


def test_an_unknown_dialect_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="'anthropic'") as caught:
        convert([], "antropic")
    assert caught.value.code == "UNKNOWN_DIALECT"


@pytest.mark.usefixtures("shouting")
def test_a_dialect_can_be_added_for_the_whole_process() -> None:
    assert convert([Message("user", "hi")], "shout", mark="?", other=1) == "HI?"
    with pytest.raises(ConfigError) as caught:
        dialects.register("shout", shout)
    assert caught.value.code == "DUPLICATE_DIALECT"


def test_a_registry_of_ones_own_changes_nothing_elsewhere() -> None:
    mine = DialectRegistry()
    mine.register("openai", shout, replace=True)
    assert mine.convert([Message("user", "hi")]) == "HI!"
    assert convert([Message("user", "hi")]) == [{"role": "user", "content": "hi"}]
    mine.unregister("openai")
    assert "openai" not in mine.registered()
    with pytest.raises(ConfigError):
        mine.unregister("openai")


def test_unknown_options_are_ignored_by_every_dialect() -> None:
    for name in registered():
        assert convert([Message("user", "hi")], name, no_such_option=1) is not None


def test_messages_in_openais_shape_are_taken_too() -> None:
    conversation = [
        {"role": "system", "content": "S"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "ok", "tool_call_id": "c"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "Ann"},
    ]
    assert convert(conversation) == [
        {"role": "system", "content": "S"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "content": "ok", "tool_call_id": "c"},
        {"role": "user", "content": "a\nb", "name": "Ann"},
    ]


def test_parts_that_are_no_text_become_attachments() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://e.x/i.png"}}
    message = message_from_openai({"role": "user", "content": ["look", part], "metadata": {"cache_control": {}}})
    assert message.content == "look"
    assert message.attachments == (part,)
    assert message.metadata == {"cache_control": {}}
    assert convert([{"role": "user", "content": ["look", part]}], attachments=True) == [
        {"role": "user", "content": [{"type": "text", "text": "look"}, part]}
    ]


@pytest.mark.parametrize("message", [{}, {"role": 1}, "hi"])
def test_what_is_no_message_is_refused(message: object) -> None:
    with pytest.raises(ConfigError):
        convert([message])  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.mark.parametrize("name", ["mistral", "ai21", "xai", "google", "cohere", "text"])
def test_what_a_dialect_leaves_out_is_reported(name: str) -> None:
    log = WarningLog()
    messages = [
        Message("assistant", "", metadata={"tool_calls": [{"id": "c"}]}),
        Message("user", "look", attachments=[{"type": "image", "url": "https://e.x/i.png"}]),
    ]
    convert(messages, name, warn=log)
    assert len(log.messages) == 2
    assert "tool calls" in log.messages[0]
    assert "attachments" in log.messages[1]


@pytest.mark.parametrize(
    ("given", "listed"),
    [(None, []), ("a", ["a"]), (["a", None, 7], ["a", "7"]), ([], []), (("x",), ["x"]), (True, ["true"])],
)
def test_stop_sequences_become_a_list_of_texts(given: object, listed: list[str]) -> None:
    messages = [Message("system", "S"), Message("user", ""), Message("user", " ")]
    assert convert(messages, "text", stop_sequences=given) == {"prompt": "S\n ", "stop_sequences": listed}
