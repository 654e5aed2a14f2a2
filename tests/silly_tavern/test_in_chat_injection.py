from __future__ import annotations

from collections.abc import Sequence

from tavernkit.silly_tavern import ExtensionPrompt
from tavernkit.silly_tavern._chat.extension_prompts import IN_CHAT, ExtensionPrompts
from tavernkit.silly_tavern._chat_completion.layout import InChatPrompt, inject, injections


def prompt(
    content: str, depth: float | None = 0, role: str | None = "system", order: float | None = None
) -> InChatPrompt:
    return InChatPrompt(content, {}, role, content, depth, order)


def result(
    prompts: Sequence[InChatPrompt] = (), *extensions: ExtensionPrompt, chat: Sequence[str] = ("1", "2", "3")
) -> list[str]:
    newest_first = list(reversed(chat))
    inject(
        newest_first, injections(prompts, ExtensionPrompts(extensions).in_chat(), str.lower), lambda each: each.content
    )
    return newest_first[::-1]


def extension(key: str, value: str, depth: float = 0, role: float = 0) -> ExtensionPrompt:
    return ExtensionPrompt(key, value, IN_CHAT, depth, role)


def test_depth_counts_from_the_end_and_is_clamped_at_the_start():
    assert result([prompt("a", 0), prompt("b", 1), prompt("c", 99), prompt("d", 98)]) == [
        "c",
        "d",
        "1",
        "2",
        "b",
        "3",
        "a",
    ]


def test_at_one_depth_low_orders_come_first_then_assistant_user_system():
    prompts = [
        prompt("s"),
        prompt("a", role="assistant"),
        prompt("u", role="user"),
        prompt("late", order=200),
        prompt("early", order=5),
    ]
    assert result(prompts, chat=()) == ["early", "a", "u", "s", "late"]


def test_prompts_of_a_role_are_joined_and_extensions_follow_in_key_order():
    assert result(
        [prompt("p"), prompt("q")], extension("b", "B"), extension("10", "Ten"), extension("9", "Nine"), chat=()
    ) == ["p\nq\nten\nnine\nb"]


def test_extension_prompts_join_only_the_default_order():
    assert result([prompt("p", order=7)], extension("k", "E"), chat=()) == ["p", "e"]


def test_blank_extension_values_leave_an_empty_line():
    assert result([], extension("a", "A"), extension("b", "  "), extension("c", "C"), chat=()) == ["a\n\nc"]


def test_odd_depths_and_roles_never_show():
    assert result(
        [prompt("x", 1.5), prompt("y", None), prompt("z", -1), prompt("w", role="narrator"), prompt("v", 10_001)]
    ) == ["1", "2", "3"]
    assert result([], extension("a", "A", 0.5), extension("b", "B", -1), extension("c", "C", 0, 7)) == ["1", "2", "3"]


def test_a_registered_text_is_read_as_javascript_reads_it():
    read = ExtensionPrompt.from_json({"key": 7, "value": 5, "position": "1", "depth": "2", "role": None})
    assert (read.key, read.value, read.position, read.depth, read.role) == ("7", "5", 1, 2, 0)
    assert ExtensionPrompt.from_json({"key": "k", "value": None, "position": 1}).value == ""
    for number in ("depth", "role"):
        hidden = ExtensionPrompt.from_json({"key": "k", "value": "K", "position": 1, number: "deep"})
        assert ExtensionPrompts([hidden]).in_chat() == {}


def test_keys_that_silly_tavern_manages_cannot_be_set_from_outside():
    assert result(
        [], extension("DEPTH_PROMPT", "X"), extension("customDepthWI_4_0", "Y"), extension("PERSONA_DESCRIPTION", "Z")
    ) == [
        "1",
        "2",
        "3",
    ]
