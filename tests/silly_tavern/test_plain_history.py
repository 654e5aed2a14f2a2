from __future__ import annotations

from tavernkit.silly_tavern import ExtensionPrompt
from tavernkit.silly_tavern.extension_prompts import IN_CHAT, ExtensionPrompts
from tavernkit.silly_tavern.plain_history import Speakers, TextMessage, history_lines, inject_texts

SPEAKERS = Speakers("Mira", "Lyra")
CHAT = [TextMessage("Lyra", "a"), TextMessage("Mira", "b", is_user=True)]


def lines(messages: list[TextMessage], *, continuing: bool = False, stored: int = 2, named: bool = True) -> list[str]:
    found = history_lines(messages, SPEAKERS, continuing=continuing, stored_messages=stored, name_reply=named)
    return [text for text, _ in found]


def injected(*prompts: ExtensionPrompt, continuing: bool = False) -> list[str]:
    found = inject_texts(CHAT, ExtensionPrompts(prompts).in_chat(), SPEAKERS, str, continuing=continuing)
    return [message.line for message in found]


def test_the_reply_begins_after_the_characters_name():
    assert lines(CHAT) == ["Lyra: a\n", "Mira: b\nLyra:"]
    assert lines(CHAT, named=False) == ["Lyra: a\n", "Mira: b"]


def test_a_continued_message_is_not_part_of_the_history():
    assert lines(CHAT[::-1], continuing=True) == ["Mira: b\nLyra:"]


def test_continuing_the_users_words_names_nobody():
    assert lines(CHAT, continuing=True) == ["Lyra: a\n"]


def test_the_only_message_stays_when_it_is_continued():
    assert lines(CHAT[:1], continuing=True, stored=1) == ["Lyra: a\n"]


def test_no_messages_are_no_lines():
    assert lines([]) == []


def test_narration_and_nameless_messages_are_only_text():
    assert [TextMessage("Narrator", "rain", narrator=True).line, TextMessage("", "rain").line] == ["rain\n", "rain\n"]


def test_roles_decide_who_speaks_an_injection():
    prompts = [ExtensionPrompt(f"k{role}", f"p{role}", IN_CHAT, 0, role) for role in (0, 1, 2)]
    assert injected(*prompts) == ["Lyra: a\n", "Mira: b\n", "Lyra: p2\n", "Mira: p1\n", "p0\n"]


def test_what_is_continued_stays_last():
    assert injected(ExtensionPrompt("k", "p", IN_CHAT, 0), continuing=True) == ["Lyra: a\n", "p\n", "Mira: b\n"]


def test_blank_injections_disappear():
    assert injected(ExtensionPrompt("k", "  ", IN_CHAT, 0)) == ["Lyra: a\n", "Mira: b\n"]
