"""Any sequence of operations, saved and loaded in between, goes as it goes without."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tavernkit.errors import TavernKitError
from tavernkit.risu_ai import Chat, RisuCharacter, Settings
from tests.risu_ai.conversation.host import ScriptedHost

CHARACTER: dict[str, Any] = {
    "chaId": "mira",
    "name": "Mira",
    "desc": "Seen {{getvar::seen}} times.",
    "firstMessage": "Welcome, {{user}}. {{random::a::b::c}}",
    "alternateGreetings": ["Again?"],
    "globalLore": [
        {"key": "map", "content": "@@keep_activate_after_match\nThe map is old.", "insertorder": 1, "id": "m"},
        {"key": "door", "content": "@@probability 50\nThe door creaks.", "insertorder": 2},
    ],
    "customscript": [{"type": "editoutput", "in": "cat", "out": "dog"}],
    "triggerscript": [
        {
            "comment": "count",
            "type": "start",
            "conditions": [],
            "effect": [{"type": "setvar", "var": "starts", "operator": "+=", "value": "1"}],
        },
        {
            "comment": "note",
            "type": "manual",
            "conditions": [],
            "effect": [{"type": "impersonate", "role": "char", "value": "A note {{getvar::starts}}."}],
        },
    ],
}
DATABASE: dict[str, Any] = {
    "username": "Ann",
    "aiModel": "gpt4o",
    "mainPrompt": "Play {{char}}.",
    "requestRetrys": 0,
    "personas": [{"id": "p0", "name": "Ann", "personaPrompt": "A."}, {"id": "p1", "name": "Bo", "personaPrompt": "B."}],
    "selectedPersona": 0,
    "botPresets": [{"name": "one", "mainPrompt": "One."}, {"name": "two", "mainPrompt": "Two {{char}}."}],
    "botPresetsId": 0,
}
TEXTS = ("", "the map", "{{addvar::seen::1}}door", "cat {{getvar::seen}}", "/setvar key=seen 5", "/nothing")
INDEXES = st.integers(-4, 4)

OPERATIONS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(TEXTS)),
    st.tuples(st.just("continue_reply"), st.sampled_from(("", "And"))),
    st.tuples(st.just("swipe"), st.sampled_from(("left", "right"))),
    st.tuples(st.sampled_from(("regenerate", "generate", "impersonate"))),
    st.tuples(st.just("run_trigger"), st.just("note")),
    st.tuples(st.just("edit"), INDEXES, st.sampled_from(TEXTS)),
    st.tuples(st.sampled_from(("delete", "delete_from", "hide", "unhide", "branch", "choose_greeting")), INDEXES),
    st.tuples(st.just("new_chat")),
    st.tuples(st.sampled_from(("open_chat", "switch_persona", "switch_preset")), st.integers(0, 1)),
)
ANSWERS: tuple[Any, ...] = ("One cat.", ["Two ", "cats{{addvar::seen::1}}"], "Three")


def opened(host: ScriptedHost) -> Chat:
    return Chat(
        host=host,
        character=RisuCharacter.from_json(CHARACTER),
        settings=Settings.from_json(DATABASE, warn=lambda _: None),
        seed=7,
        clock=lambda: datetime(2024, 3, 7, tzinfo=UTC),
        warn=None,
    )


async def played(operations: Sequence[tuple[Any, ...]], *, saved: bool) -> list[object]:
    host = ScriptedHost(*ANSWERS * 8)
    chat, seen = opened(host), []
    for name, *arguments in operations:
        try:
            result = getattr(chat, name)(*arguments)
            if asyncio.iscoroutine(result):
                result = await result
            chat = result if name == "branch" else chat
        except TavernKitError as error:
            seen.append(str(error))
        if saved:
            snapshot = json.loads(json.dumps(chat.snapshot()))
            chat = opened(host)
            chat.restore(snapshot)
            assert json.loads(json.dumps(chat.snapshot())) == snapshot
        requests = [[(message.role, message.content) for message in plan.messages] for plan in host.plans]
        names = [each.name for each in chat.chats]
        seen.append((requests, chat.lines, chat.variables.to_dict(), names, chat.page, chat.settings.username))
    return seen


@settings(max_examples=20)
@given(st.lists(OPERATIONS, min_size=1, max_size=6))
@example([("swipe", "left"), ("swipe", "left"), ("swipe", "right")])
@example([("switch_persona", 1), ("switch_preset", 1), ("branch", 0), ("send", "door"), ("open_chat", 1)])
def test_saving_and_loading_between_operations_changes_nothing(operations: list[tuple[Any, ...]]) -> None:
    operations = [("send", "the map"), ("swipe", "right"), *operations]
    assert asyncio.run(played(operations, saved=True)) == asyncio.run(played(operations, saved=False))
