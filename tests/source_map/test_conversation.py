"""Source maps of the prompts of a conversation, made after the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest

import tavernkit as tk
from tavernkit import risu_ai
from tavernkit._values import JsonObject
from tavernkit.cards import Character
from tavernkit.models import ScriptedModel
from tavernkit.prompt import SourceMap
from tests.source_map.recorded import problems

DATA: dict[str, Any] = {
    "name": "Aria",
    "description": "{{char}} keeps the lamp, {{getvar::count}} times.",
    "first_mes": "Hello, {{user}}.",
}
COUNTING = {"type": "setvar", "operator": "+=", "var": "count", "value": "1"}
TRIGGER = {"comment": "count", "type": "output", "conditions": [], "effect": [COUNTING]}


def conversation(platform: Literal["silly_tavern", "risu_ai"], *replies: str, **more: Any) -> tk.Conversation:
    card = Character.from_card({"spec": "chara_card_v3", "spec_version": "3.0", "data": {**DATA, **more}})
    return tk.Conversation.open(card=card, user="Ann", model=ScriptedModel(*replies), platform=platform)


def checked(conversation: tk.Conversation) -> SourceMap:
    assert conversation.last is not None
    assert conversation.last.plan is not None
    found = conversation.last.plan.source_map()
    assert list(problems(found)) == []
    return found


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_every_turn_has_a_map(platform: Literal["silly_tavern", "risu_ai"]) -> None:
    async def talk() -> None:
        async with conversation(platform, "Aye.", "Nay.", "Well", " then.", "I go.") as opened:
            await opened.send("What of the storm?")
            assert checked(opened).exact
            (place,) = checked(opened).where("What of the storm?")
            assert place.spans[0].kind == "verbatim"
            await opened.send("And the lamp?")
            (reply,) = checked(opened).where("Aye.")
            assert [source.kind for source in reply.spans[0].sources] == ["chat"]
            await opened.regenerate()
            assert checked(opened).exact
            await opened.continue_reply()
            assert checked(opened).where("Well")
            await opened.impersonate()
            assert checked(opened).exact

    asyncio.run(talk())


def test_a_question_put_behind_a_prompt_is_its_own_source() -> None:
    async def talk() -> None:
        async with conversation("risu_ai", "A storm.") as opened:
            await opened.quiet("Describe the weather.")
            (place,) = checked(opened).where("Describe the weather.")
            assert [(source.id, span.kind) for span in place.spans for source in span.sources] == [
                ("block:quiet", "verbatim")
            ]

    asyncio.run(talk())


def test_variables_that_triggers_change_after_the_reply_are_those_of_the_prompt() -> None:
    async def talk() -> None:
        extensions = {"risuai": {"triggerscript": [TRIGGER]}}
        async with conversation("risu_ai", "Aye.", "Nay.", extensions=extensions) as opened:
            await opened.send("One.")
            await opened.send("Two.")
            assert checked(opened).exact
            (place,) = checked(opened).where("keeps the lamp, 1 times")
            assert [span.kind for span in place.spans] == ["verbatim", "expanded", "verbatim"]

    asyncio.run(talk())


def test_messages_that_memory_stands_in_for_say_so() -> None:
    def summarize(messages: Sequence[JsonObject]) -> str:
        del messages
        return "They met at the lamp."

    async def talk() -> None:
        settings = {"supaModelType": "subModel", "maxContext": 700, "maxResponse": 100}
        said = ["Line " + "of the lamp " * 30 for _ in range(6)]
        opened = tk.Conversation.open(
            card=Character(name="Aria", description="Aria keeps the lamp.", first_mes="Hello."),
            settings=risu_ai.Settings.from_json(settings),
            user="Ann",
            model=ScriptedModel(*said),
            platform="risu_ai",
            inputs={"memory": risu_ai.MemoryModels(summarize=summarize)},
        )
        assert isinstance(opened.chat, risu_ai.Chat)
        opened.chat.character = replace(opened.chat.character, raw={**opened.chat.character.raw, "supaMemory": True})
        async with opened:
            for number in range(6):
                await opened.send(f"Line {number} " + "of the lamp " * 30)
            found = checked(opened)
            assert found.exact
            assert found.where("They met at the lamp.")
            (use,) = found.uses("/message/0/data")
            assert use.reason == "SupaMemory replaces the oldest messages"

    asyncio.run(talk())
