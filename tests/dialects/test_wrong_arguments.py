"""Wrong arguments to the names of ``tavernkit.dialects``."""

from __future__ import annotations

import inspect

import pytest

from tavernkit import ConfigError
from tavernkit.dialects import (
    Attachment,
    DialectRegistry,
    anthropic_tool_choice,
    anthropic_tools,
    convert,
    google_tool_config,
    google_tools,
    message_from_openai,
    parse_attachment,
    register,
    unregister,
)
from tavernkit.dialects.registry import BUILT_IN
from tests.wrong_arguments import Call, Odd, Sweep

MESSAGES = [{"role": "user", "content": "Hi"}]
URL = "https://example.org/cat.png"
REGISTRY = DialectRegistry({"plain": lambda messages: messages, "gone": lambda messages: None})
TOOLS = [{"type": "function", "function": {"name": "look"}}]

CALLS: dict[str, Call] = {
    "Attachment": (Attachment, {"kind": "image", "url": URL}),
    "Attachment.audio": (Attachment.audio, {"data": b"RIFF"}),
    "Attachment.file": (Attachment.file, {"data": "aGk="}),
    "Attachment.image": (Attachment.image, {"url": URL}),
    "Attachment.make": (Attachment.make, {"kind": "image", "url": URL}),
    "DialectRegistry": (DialectRegistry, {}),
    "DialectRegistry.convert": (REGISTRY.convert, {"messages": MESSAGES, "dialect": "plain"}),
    "DialectRegistry.register": (REGISTRY.register, {"name": "own", "dialect": list}),
    "DialectRegistry.unregister": (REGISTRY.unregister, {"name": "gone"}),
    "anthropic_tool_choice": (anthropic_tool_choice, {"choice": "auto"}),
    "anthropic_tools": (anthropic_tools, {"tools": TOOLS}),
    "convert": (convert, {"messages": MESSAGES}),
    "google_tool_config": (google_tool_config, {"choice": "auto"}),
    "google_tools": (google_tools, {"tools": TOOLS}),
    "message_from_openai": (message_from_openai, {"message": MESSAGES[0]}),
    "parse_attachment": (parse_attachment, {"raw": {"type": "image", "url": URL}}),
}

IN_ORDER: dict[str, Call] = {
    "register": (register, {"name": "of_a_test", "dialect": list}),
    "unregister": (unregister, {"name": "of_a_test"}),
}
"""They change what the whole process shares."""

ANYTHING = {
    "anthropic_tool_choice.choice": "what a request holds; what says nothing chooses nothing",
    "google_tool_config.choice": "what a request holds; what says nothing chooses nothing",
    "parse_attachment.raw": "a part of a message from outside; what is none gives nothing",
}

FIELDS = ("media_type", "name", "file_id", "detail")
KEYWORDS = {f"Attachment.{maker}": FIELDS for maker in ("audio", "file", "image", "make")}

OPTIONS = [
    (dialect, option)
    for dialect, function in BUILT_IN.items()
    for option in inspect.signature(function).parameters
    if option not in ("messages", "_", "stop_sequences", "tool_choice")  # the last two are read tolerantly
]


SWEEP = Sweep("tavernkit.dialects", CALLS | IN_ORDER, anything=ANYTHING, keywords=KEYWORDS)


def test_every_public_name_is_called() -> None:
    SWEEP.assert_complete()


@pytest.mark.parametrize("name", CALLS)
def test_right_arguments_are_taken(name: str) -> None:
    SWEEP.call(name)


def test_right_arguments_are_taken_in_order() -> None:
    for name in IN_ORDER:
        SWEEP.call(name)


@pytest.mark.parametrize(("name", "parameter"), SWEEP.pairs())
def test_wrong_arguments_are_refused_by_name(name: str, parameter: str) -> None:
    SWEEP.assert_refused(name, parameter)


@pytest.mark.parametrize(("dialect", "option"), OPTIONS)
def test_wrong_options_of_dialects_are_refused_by_name(dialect: str, option: str) -> None:
    with pytest.raises(ConfigError, match=f"^{option} must be "):
        convert(MESSAGES, dialect, **{option: Odd()})


@pytest.mark.parametrize("field", FIELDS)
def test_the_fields_of_an_attachment_are_texts(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be text, not Odd"):
        Attachment.image(url=URL, **{field: Odd()})  # pyright: ignore[reportArgumentType]  # the mistake


@pytest.mark.parametrize("messages", ["Hi", {"role": "user", "content": "Hi"}, [Odd()], [None]])
def test_messages_that_are_none_are_refused(messages: object) -> None:
    with pytest.raises(ConfigError, match="a message must be a Message or a mapping with a role"):
        convert(messages)  # pyright: ignore[reportArgumentType, reportCallIssue]  # the mistake
