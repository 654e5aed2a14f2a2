from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tavernkit.silly_tavern import ChatMessage, ReasoningSettings
from tavernkit.silly_tavern._chat.attachments import attached_text
from tavernkit.silly_tavern._chat.core_chat import (
    CoreMessage,
    add_reasoning,
    core_chat,
    name_prefix,
    prepare_texts,
    role_of,
)


def line(mes: str = "m", name: str = "Lyra", **fields: Any) -> ChatMessage:
    return ChatMessage(name=name, mes=mes, **fields)


def reasoned(core: list[CoreMessage], kind: str = "normal", **settings: Any) -> list[str]:
    add_reasoning(
        core,
        ReasoningSettings(**settings),
        generation_type=kind,
        only_name=None,
        expand=str,
        scripts=None,
    )
    return [message.text for message in core]


def thoughts(*texts: str) -> list[CoreMessage]:
    chat = [line(f"m{index}", extra={"reasoning": text}) for index, text in enumerate(texts)]
    return core_chat(chat, generation_type="normal", with_tools=False)


def test_hidden_messages_stay_out_and_keep_the_others_places():
    chat = [line("a"), line("b", is_system=True), line("c")]
    assert [(each.index, each.text) for each in core_chat(chat, generation_type="normal", with_tools=False)] == [
        (0, "a"),
        (2, "c"),
    ]


def test_hidden_tool_calls_stay_where_tools_are_supported():
    chat = [line("a", is_system=True, extra={"tool_invocations": []})]
    assert len(core_chat(chat, generation_type="normal", with_tools=True)) == 1
    assert core_chat(chat, generation_type="normal", with_tools=False) == []


def test_a_swipe_drops_the_last_visible_message():
    chat = [line("a"), line("b"), line("c", is_system=True)]
    assert [each.text for each in core_chat(chat, generation_type="swipe", with_tools=False)] == ["a"]


def test_files_come_before_the_text_and_titles_behind():
    extra: Any = {
        "files": [{"text": "F1"}, {"text": "F2"}, {"name": "gone.txt"}],
        "append_title": True,
        "title": "T",
        "media": [{"title": "U", "append_title": True}, {"title": "no"}],
    }
    core = core_chat([line("m", extra=extra)], generation_type="normal", with_tools=False)
    missing: list[object] = []

    def file_text(
        _message: CoreMessage, files: Sequence[Mapping[str, object]]
    ) -> tuple[str, Sequence[Mapping[str, object]]]:
        return attached_text(files, {}, lambda file: missing.append(file["name"]))

    prepare_texts(core, range(len(core)), generation_type="normal", scripts=None, file_text=file_text)
    assert core[0].text == "F1\n\nF2\n\nm\n\nT\n\nU"
    assert core[0].file_length == len("F1\n\nF2")
    assert missing == ["gone.txt"]


def test_reasoning_stays_out_unless_asked_for():
    assert reasoned(thoughts("a", "b")) == ["m0", "m1"]


def test_the_newest_reasonings_are_added_up_to_the_limit():
    texts = reasoned(thoughts("a", "", "\u200b", "b", "c"), add_to_prompts=True, max_additions=2)
    assert texts == ["m0", "m1", "m2", "<think>b</think>\nm3", "<think>c</think>\nm4"]


def test_a_continued_message_always_gets_its_own_reasoning():
    assert reasoned(thoughts("a", "b"), "continue", max_additions=0) == ["m0", "<think>b</think>\nm1"]


def test_reasoning_of_an_empty_continued_message_stays_open():
    core = core_chat([line("", extra={"reasoning": "cut"})], generation_type="continue", with_tools=False)
    assert reasoned(core, "continue") == ["<think>cut"]


def test_in_a_group_only_the_speakers_reasoning_counts():
    chat = [line("a", "Bram", extra={"reasoning": "x"}), line("b", "Lyra", extra={"reasoning": "y"})]
    core = core_chat(chat, generation_type="normal", with_tools=False)
    settings = ReasoningSettings(add_to_prompts=True, max_additions=5)
    add_reasoning(core, settings, generation_type="normal", only_name="Bram", expand=str, scripts=None)
    assert [each.text for each in core] == ["<think>x</think>\na", "b"]


def test_roles_follow_who_wrote_a_message():
    assert [role_of(line()), role_of(line(is_user=True)), role_of(line(extra={"type": "narrator"}))] == [
        "assistant",
        "user",
        "system",
    ]


@pytest.mark.parametrize(
    ("behavior", "in_group", "fields", "prefix"),
    [
        (-1, True, {}, ""),
        (1, True, {}, ""),
        (0, False, {}, ""),
        (0, True, {}, "Lyra: "),
        (0, True, {"extra": {"type": "narrator"}}, "Lyra: "),
        (0, True, {"name": "Mira"}, ""),
        (0, False, {"force_avatar": "x.png"}, "Lyra: "),
        (0, False, {"force_avatar": "x.png", "extra": {"type": "narrator"}}, ""),
        (2, False, {}, "Lyra: "),
        (2, False, {"name": "Mira"}, "Mira: "),
        (2, True, {"extra": {"type": "narrator"}}, ""),
    ],
)
def test_names_are_shown_as_the_preset_asks(behavior: int, in_group: bool, fields: dict[str, Any], prefix: str):
    message = line(**fields)
    assert name_prefix(message, behavior, user_name="Mira", in_group=in_group) == prefix
