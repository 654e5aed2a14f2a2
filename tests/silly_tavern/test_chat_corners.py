"""Chats, tools, media and settings in forms that the vectors do not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tavernkit._text.json_reader import JsonReader
from tavernkit.errors import ConfigError, FileFormatError, StrictModeError, WarningLog
from tavernkit.silly_tavern import ChatFile, ChatMessage, Preset, RegexScripts, Settings
from tavernkit.silly_tavern._chat.attachments import inline_media, size_of_data_url
from tavernkit.silly_tavern._chat.chat_log import chat_log
from tavernkit.silly_tavern._chat.core_chat import CoreMessage
from tavernkit.silly_tavern._chat_completion.tools import tool_calls
from tavernkit.silly_tavern._scripts.regex_scripts import read_scripts
from tavernkit.silly_tavern._world_info.entry import new_entry
from tavernkit.silly_tavern._world_info.importers import read_lore_png
from tavernkit.silly_tavern.errors import LoreParseError, UnconsumedMacroError
from tavernkit.silly_tavern.providers._chat.google import convert_google
from tavernkit.silly_tavern.providers._chat.messages import PromptNames
from tavernkit.silly_tavern.providers._chat.own import convert_mistral
from tavernkit.silly_tavern.providers._chat.page import tools_supported
from tests.silly_tavern.scene import build, contents, preset

GEMINI = {"chat_completion_source": "makersuite", "google_model": "gemini-2.5-pro", "media_inlining": True}
ROME: dict[str, Any] = {
    "id": "1",
    "name": "weather",
    "parameters": '{"city":"Rome"}',
    "result": "sunny",
    "signature": "s1",
}


def called(chosen: Preset, *, api: str, model: str) -> Any:
    line = ChatMessage(mes="", extra={"tool_invocations": [ROME], "api": api, "model": model})
    message = CoreMessage(line=line, text="", index=0)
    found = tool_calls(message, [message], 0, chosen)
    assert found is not None
    return found.calls[0]


def test_googles_signature_of_a_call_goes_back_to_the_model_that_gave_it() -> None:
    chosen = preset(**GEMINI)
    assert called(chosen, api="makersuite", model="gemini-2.5-pro")["signature"] == "s1"
    assert "signature" not in called(chosen, api="makersuite", model="gemini-1.5-pro")
    routed = preset(chat_completion_source="openrouter", openrouter_model="google/gemini-2.5-pro")
    assert called(routed, api="openrouter", model="google/gemini-2.5-pro")["signature"] == "s1"
    other = preset(chat_completion_source="openrouter", openrouter_model="mistral/large")
    assert "signature" not in called(other, api="openrouter", model="mistral/large")


@pytest.mark.parametrize(
    ("mode", "narrates", "sent"),
    [
        ("since_last_user", False, "Near."),
        ("since_last_user", True, "Far."),
        ("active_chain", False, "Near."),
        ("active_chain", True, None),
    ],
)
def test_only_the_characters_reasoning_goes_with_a_call(mode: str, narrates: bool, sent: str | None) -> None:
    model = {"api": "custom", "model": "m"}
    chosen = preset(chat_completion_source="custom", custom_model="m", tool_reasoning_mode=mode)
    far, near = ({**model, "reasoning": thought} for thought in ("Far.", "Near."))
    lines = [
        ChatMessage(mes="One.", extra=far),
        ChatMessage(mes="Two.", extra={**near, "type": "narrator"} if narrates else near),
        ChatMessage(extra={**model, "tool_invocations": [ROME]}),
    ]
    core = [CoreMessage(line, index, line.mes) for index, line in enumerate(lines)]
    found = tool_calls(core[-1], core, 2, chosen)
    assert found is not None
    assert found.reasoning == sent


def test_a_tool_may_have_the_form_of_openais_api() -> None:
    described = {"name": "weather", "description": "of a city", "parameters": {"type": "object"}}
    chosen = preset(function_calling=True)
    plain, wrapped = (
        build(preset=chosen, tools=[tool]).to_request()["tools"]
        for tool in (described, {"type": "function", "function": described})
    )
    assert plain == wrapped == [{"type": "function", "function": described}]


def test_a_message_without_calls_sends_none() -> None:
    message = CoreMessage(line=ChatMessage(mes="Hi"), text="Hi", index=0)
    assert tool_calls(message, [message], 0, preset()) is None


def test_a_model_that_takes_no_tools_is_given_none() -> None:
    assert tools_supported(preset(function_calling=True))
    assert not tools_supported(preset(function_calling=True, openai_model="gpt-6-astra-mini"))
    assert not tools_supported(preset(function_calling=False))


def test_sounds_are_sent_to_models_that_hear() -> None:
    line = ChatMessage(mes="listen", extra={"media": [{"url": "data:audio/mp3;base64,AA==", "type": "audio"}]})
    found = inline_media(line, preset(**GEMINI), default_display="list", measure=None)
    assert found is not None
    assert found[0].part == {"type": "audio_url", "audio_url": {"url": "data:audio/mp3;base64,AA=="}}
    assert inline_media(line, preset(media_inlining=True), default_display="list", measure=None) is None


def test_a_picture_that_is_no_base64_has_no_size() -> None:
    assert size_of_data_url("data:image/png;base64,A") is None


NAMES = PromptNames(char_name="Bel", user_name="Ann", group_names=())


def test_mistral_reads_a_name_in_the_text_and_no_system_message_after_an_answer() -> None:
    turns = [
        {"role": "user", "name": "Ann", "content": "Hi"},
        {"role": "user", "name": "Ann", "content": "Ann: again"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "system", "content": "Be brief."},
    ]
    assert convert_mistral(turns, names=NAMES) == [
        {"role": "user", "content": "Ann: Hi"},
        {"role": "user", "name": "Ann", "content": "Ann: again"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Be brief."},
    ]


def test_a_picture_on_the_web_is_not_sent_to_google() -> None:
    parts = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
    sent = convert_google(
        [{"role": "user", "content": parts}], names=NAMES, model="gemini-2.5-pro", use_system_prompt=True
    )
    assert list(sent.contents) == [{"role": "user", "parts": [{"text": "Look"}]}]


def test_a_history_of_nothing_and_a_chat_file_are_histories() -> None:
    nothing = chat_log(None, user_name="Ann", character_name="Bel")
    assert (len(nothing), list(nothing)) == (0, [])
    file = ChatFile(messages=(ChatMessage(name="Bel", mes="Hello"), ChatMessage(name="Ann", mes="Hi", is_user=True)))
    log = chat_log(file, user_name="Ann", character_name="Bel")
    assert [message.content for message in log] == [message.content for message in file] == ["Hello", "Hi"]
    assert len(log) == len(file) == 2
    log.clear()
    assert (len(log), len(file)) == (0, 2)


def test_an_unreadable_settings_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("[]")
    with pytest.raises(FileFormatError, match=r"settings\.json: settings are a JSON object"):
        Settings.load(tmp_path / "settings.json")
    (tmp_path / "settings.json").write_text('{"power_user": 3}')
    with pytest.raises(StrictModeError):
        Settings.load(tmp_path / "settings.json", strict=True)


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (lambda reader: reader.text("null"), ""),
        (lambda reader: reader.text("list", "x"), "x"),
        (lambda reader: reader.optional_text("list"), None),
        (lambda reader: reader.objects("list"), ({"a": 1},)),
    ],
)
def test_what_a_file_says_in_another_type_is_reported_where_it_stands(read: Any, found: object) -> None:
    warnings = WarningLog()
    reader = JsonReader({"null": None, "list": [{"a": 1}, 2]}, "preset", warnings)
    assert read(reader) == found
    assert all("preset" in message and "list" in message for message in warnings.messages)


@pytest.mark.parametrize(
    "change",
    [
        {"tools": [3]},
        {"tools": [{"type": "function", "function": {"description": "no name"}}]},
        {"extension_prompts": [3]},
        {"regex_scripts": [{"findRegex": "/a/"}]},
        {"response_length": -1},
    ],
)
def test_what_is_no_tool_prompt_or_collection_of_scripts_is_a_mistake_of_the_caller(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must be"):
        build(**change)


def test_the_reasoning_of_a_message_goes_through_the_scripts_for_reasoning() -> None:
    script = {
        "scriptName": "soft",
        "findRegex": "/hate/g",
        "replaceString": "like",
        "placement": [6],
        "promptOnly": True,
    }
    history = [
        {"name": "Lyra", "mes": "Fine.", "extra": {"reasoning": "I hate rain."}},
        {"name": "Mira", "is_user": True, "mes": "So?"},
    ]
    reasoning = {"add_to_prompts": True, "max_additions": 3, "prefix": "<t>", "suffix": "</t>", "separator": "\n"}
    settings = Settings.from_json({"power_user": {"reasoning": reasoning}})
    plan = build(
        history=history, settings=settings, regex_scripts=RegexScripts(global_=read_scripts([script], "scripts"))
    )
    assert "<t>I like rain.</t>\nFine." in contents(plan)


def test_a_world_without_entries_gets_its_first() -> None:
    world: dict[str, Any] = {"name": "Harbour"}
    assert new_entry(world)["uid"] == 0
    assert list(world["entries"]) == ["0"]


def test_a_picture_without_a_lorebook_says_so() -> None:
    with pytest.raises(LoreParseError, match="does not start like a PNG"):
        read_lore_png(b"GIF89a", WarningLog())


def test_left_over_macros_are_named_by_their_error() -> None:
    error = UnconsumedMacroError("left over", remaining_macros=["user", "char"], position=4)
    assert (error.macro_name, error.remaining_macros, error.position) == ("user", ("user", "char"), 4)
    assert UnconsumedMacroError("left over").macro_name is None
