"""Chats of RisuAI: what operations do, and what is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from tavernkit._turns import Turn
from tavernkit.cards import Character, User
from tavernkit.errors import ConfigError
from tavernkit.models._reply import Reply, ToolCall
from tavernkit.models.errors import ConnectionFailedError
from tavernkit.risu_ai import (
    Chat,
    Preset,
    PromptTemplateError,
    RisuCharacter,
    RisuPersona,
    Save,
    Settings,
    TriggerError,
)
from tests.risu_ai.conversation.host import Answer, ScriptedHost

CHARACTER = {
    "chaId": "mira",
    "name": "Mira",
    "desc": "{{char}} keeps the archive.",
    "firstMessage": "Welcome, {{user}}.",
    "alternateGreetings": ["Hello again.", "You here?"],
}


def made(*answers: Answer, **inputs: Any) -> tuple[Chat, ScriptedHost]:
    host = ScriptedHost(*answers)
    settings = inputs.pop("settings", Settings(username="Ann", request_retries=0))
    given = {"character": RisuCharacter.from_json(CHARACTER), "settings": settings, "warn": None, **inputs}
    return Chat(host=host, **given), host


def texts(chat: Chat) -> list[object]:
    return [line["data"] for line in chat.lines]


async def test_a_card_a_preset_and_a_user_make_a_chat() -> None:
    host = ScriptedHost("Hi, Bo.")
    card = Character(name="Mira", description="Keeps the archive.", first_mes="Welcome, {{user}}.")
    chat = Chat(host=host, character=card, user=User(name="Bo"), preset=Preset(main_prompt="Play {{char}}."))
    turn = await chat.send("I am {{user}}.")
    assert turn.text == "Hi, Bo."
    assert texts(chat) == ["I am Bo.", "Hi, Bo."]
    assert "Welcome, Bo." in [message.content for message in host.plans[0].messages]


async def test_the_users_message_is_saved_before_the_model_is_asked() -> None:
    chat, host = made("Hi.")
    saved: list[list[object]] = []
    host.at_checkpoint = lambda: saved.append(texts(chat))
    await chat.send("Hello.")
    assert host.events == ["checkpoint", "ask", "checkpoint"]
    assert saved == [["Hello."], ["Hello.", "Hi."]]


async def test_a_failed_request_keeps_the_users_message_and_raises() -> None:
    chat, host = made(ConnectionFailedError("nobody there"), "Hi.")
    with pytest.raises(ConnectionFailedError, match="nobody there"):
        await chat.send("Hello.")
    assert texts(chat) == ["Hello."]
    assert chat.error is not None
    assert chat.error.message == "Error: error in request:nobody there"
    assert host.events[-1] == "checkpoint"
    assert (await chat.swipe()).text == "Hi."


async def test_a_broken_stream_keeps_what_came() -> None:
    chat, _ = made(["One ", "two", ConnectionFailedError("gone")])
    with pytest.raises(ConnectionFailedError):
        await chat.send("Count.")
    assert texts(chat) == ["Count.", "One two"]


async def test_cancelling_keeps_what_came_and_saves_it() -> None:
    chat, host = made(["One ", asyncio.CancelledError()])
    saved: list[list[object]] = []
    host.at_checkpoint = lambda: saved.append(texts(chat))
    with pytest.raises(asyncio.CancelledError):
        await chat.send("Count.")
    assert saved[-1] == ["Count.", "One"]


async def test_swiping_goes_through_replies_and_asks_for_more() -> None:
    chat, host = made("one", "two")
    await chat.send("Hello.")
    assert (await chat.swipe("right")).text == "two"
    assert (await chat.swipe("left")).text == "one"
    assert (await chat.swipe("left")) == Turn(kind="swipe")
    assert (await chat.swipe("right")).text == "two"
    assert len(host.plans) == 2


async def test_swiping_an_empty_chat_makes_an_empty_first_choice() -> None:
    chat, host = made("one")
    await chat.swipe("right")
    await chat.generate()
    await chat.swipe("left")
    assert (texts(chat), chat.rerolls.position, len(host.plans)) == (["one"], 0, 1)
    await chat.swipe("right")
    assert (texts(chat), chat.rerolls.position, len(host.plans)) == (["one"], 1, 1)


async def test_a_message_that_an_input_trigger_loses_keeps_the_earlier_replies() -> None:
    chat, _ = made("one", "two")
    await chat.send("Hello.")
    await chat.swipe("right")
    broken = {"comment": "t", "type": "input", "conditions": [], "effect": [{"type": "triggerlua", "code": "x = = 1"}]}
    chat.character = RisuCharacter.from_json(CHARACTER | {"triggerscript": [broken]})
    with pytest.raises(TriggerError):
        await chat.send("Lost.")
    assert texts(chat) == ["Hello.", "two"]
    assert (await chat.swipe("left")).text == "one"


@pytest.mark.parametrize(("quirks", "expected"), [("", ["a", "/setvar key=x 1 more"]), ("reference", ["a", "Hi."])])
async def test_continuing_with_a_command_line_runs_it_in_risu_ai(quirks: str, expected: list[str]) -> None:
    chat, _ = made("Hi.", " more", quirks=quirks)
    await chat.send("a")
    await chat.continue_reply("/setvar key=x 1")
    assert texts(chat)[0] == expected[0]
    assert texts(chat)[-1] == expected[-1]
    assert chat.stored_variables == ({"x": "1"} if quirks else {})


async def test_a_command_that_fails_is_reported_and_what_came_before_it_stays() -> None:
    chat, host = made()
    with pytest.raises(TriggerError, match="there is no variable 'gone'"):
        await chat.send("/send Hello. | /getvar key=gone | /send Lost.")
    assert (texts(chat), host.plans) == (["Hello."], [])


@pytest.mark.parametrize("mode", ["input", "start", "output"])
async def test_the_error_of_a_trigger_says_what_caused_it(mode: str) -> None:
    effect = {"type": "setvar", "operator": "=", "var": "x"}  # without a value
    broken = {"comment": "t", "type": mode, "conditions": [], "effect": [effect]}
    chat, _ = made(character=RisuCharacter.from_json(CHARACTER | {"triggerscript": [broken]}))
    with pytest.raises(TriggerError) as caught:
        await chat.send("Hello.")
    assert str(caught.value.__cause__) == "a text is missing"


async def test_a_button_whose_script_cannot_be_loaded_is_reported() -> None:
    lua = {"comment": "t", "type": "manual", "conditions": [], "effect": [{"type": "triggerlua", "code": "x = = 1"}]}
    chat, _ = made(character=RisuCharacter.from_json(CHARACTER | {"triggerscript": [lua]}))
    with pytest.raises(TriggerError):
        await chat.click("ring")


@pytest.mark.parametrize("reply", ["Hi", ["H", "i"]])
async def test_what_a_lua_listener_of_replies_does_to_other_messages_stays(reply: Answer) -> None:
    code = """
        listenEdit("editOutput", function(id, text, meta)
          setChat(id, 0, "changed " .. meta.index)
          return text .. "!"
        end)
    """
    lua = {"comment": "t", "type": "start", "conditions": [], "effect": [{"type": "triggerlua", "code": code}]}
    settings = Settings.from_json({"requestRetrys": 0, "useSayNothing": False, "useStreaming": True})
    character = RisuCharacter.from_json(CHARACTER | {"triggerscript": [lua]})
    chat, _ = made(reply, reply, character=character, settings=settings)
    await chat.send("Hello.")
    assert texts(chat) == ["changed 1", "Hi!"]
    chat.edit(0, "edited")
    await chat.continue_reply()
    assert texts(chat) == ["changed 1", "Hi!Hi!"]


async def test_scripts_of_displayed_texts_know_the_greeting() -> None:
    script = {"type": "editdisplay", "in": "$", "out": " {{isfirstmsg}} {{role}}"}
    chat, _ = made("Hi.", character=RisuCharacter.from_json(CHARACTER | {"customscript": [script]}))
    await chat.send("Hello.")
    assert [chat.display(index) for index in (-1, 0, 1)] == ["Welcome, Ann. 1 char", "Hello. 0 user", "Hi. 0 char"]


def test_a_lua_listener_of_displayed_texts_may_set_variables() -> None:
    code = """
        listenEdit("editDisplay", function(id, text)
          setChatVar(id, "shown", getChatVar(id, "shown") .. "+")
          addChat(id, "user", "refused")
          return text .. "{{getvar::shown}}{{setvar::shown::never}}"
        end)
    """
    lua = {"comment": "t", "type": "start", "conditions": [], "effect": [{"type": "triggerlua", "code": code}]}
    chat, _ = made(character=RisuCharacter.from_json(CHARACTER | {"triggerscript": [lua]}))
    assert chat.display(-1) == "Welcome, Ann.null+{{setvar::shown::never}}"
    assert (chat.display(-1), texts(chat)) == ("Welcome, Ann.null++{{setvar::shown::never}}", [])
    assert chat.stored_variables == {"shown": "null++"}


async def test_other_texts_are_returned_and_not_stored() -> None:
    chat, host = made("Hi.", "I go.", "Calm.")
    await chat.send("Hello.")
    assert (await chat.impersonate()).text == "I go."
    assert (await chat.quiet("How is the mood?")).text == "Calm."
    assert texts(chat) == ["Hello.", "Hi."]
    assert host.plans[-1].messages[-1].content == "How is the mood?"


@pytest.mark.parametrize("change", [Chat.delete, Chat.delete_from, Chat.disable, Chat.branch])
async def test_a_line_that_does_not_exist_is_an_error(change: Callable[[Chat, int], object]) -> None:
    chat, _ = made("Hi.")
    with pytest.raises(ConfigError, match="there is no line -1: the chat has 0"):
        change(chat, -1)
    await chat.send("Hello.")
    with pytest.raises(ConfigError, match="there is no line 2: the chat has 2"):
        chat.edit(2, "x")
    chat.hide(1, 9)
    chat.hide(5)
    assert [line.get("disabled", False) for line in chat.lines] == [False, True]


def test_a_chat_needs_a_host_and_shows_lines_that_exist() -> None:
    with pytest.raises(ConfigError, match="host must be"):
        Chat(host=cast("Any", 5))
    with pytest.raises(ConfigError, match="there is no line 0: the chat has 0"):
        made()[0].display(0)


async def test_impersonation_speaks_for_the_persona_that_the_chat_is_bound_to() -> None:
    settings = Settings(username="Ann", personas=(RisuPersona(id="p", name="Cleo", prompt=""),))
    chat, host = made("I go.", settings=settings, history={"message": [], "bindedPersona": "p"})
    await chat.impersonate()
    asked = host.plans[-1].messages[-1].content
    assert asked == "[Write the next message of Cleo, in their own voice. Write nothing for Mira.]"
    assert chat.preview(kind="impersonate").messages[-1].content == asked


def test_a_preview_changes_nothing() -> None:
    chat, _ = made()
    before = chat.snapshot()
    plan = chat.preview("{{setvar::a::1}}Hello.")
    assert "Hello." in [message.content for message in plan.messages]
    assert chat.snapshot() == before


async def test_a_preview_shows_the_memory_that_is_stored_and_makes_none() -> None:
    lines = [{"role": "user" if n % 2 else "char", "data": "word " * 40, "chatId": f"m{n}"} for n in range(8)]
    settings = {"aiModel": "gpt4o", "maxContext": 260, "maxResponse": 20, "supaModelType": "subModel"}
    stored = {"message": lines, "supaMemoryData": "m5\nThey met."}
    character = RisuCharacter.from_json(CHARACTER | {"supaMemory": True})
    chat, host = made("Hi.", character=character, history=stored, settings=Settings.from_json(settings))
    shown = [message.content for message in chat.preview("Hello.").messages]
    assert "<Previous Conversation>They met\n\n</Previous Conversation>" in shown
    await chat.send("Hello.")
    assert [message.content for message in host.plans[-1].messages] == shown
    chat.change_chat({"supaMemoryData": ""})
    host.plans.clear()
    assert not any("Previous" in message.content for message in chat.preview("Bye.").messages)
    assert host.plans == []


@pytest.mark.parametrize(("similar", "summaries"), [(0, 1), (0.4, 0)])
async def test_memory_that_does_not_search_asks_the_model_of_the_chat(similar: float, summaries: int) -> None:
    lines = [{"role": "user" if n % 2 else "char", "data": "word " * 40, "chatId": f"m{n}"} for n in range(8)]
    preset = {"settings": {"recentMemoryRatio": 0.5, "similarMemoryRatio": similar, "memoryTokensRatio": 0.2}}
    settings = {"aiModel": "gpt4o", "maxContext": 330, "maxResponse": 20, "hypaV3": True, "hypaV3Presets": [preset]}
    character = RisuCharacter.from_json(CHARACTER | {"supaMemory": True})
    host = ScriptedHost(*["They met."] * 9)
    chat = Chat(character=character, history={"message": lines}, settings=Settings.from_json(settings), host=host)
    await chat.send("Hello.")
    stored = chat.stored.get("hypaV3Data")
    found = stored["summaries"] if isinstance(stored, dict) else []
    assert bool(found) == bool(summaries)


def test_a_preview_that_reads_variables_changes_nothing() -> None:
    chat, _ = made(character=RisuCharacter.from_json(CHARACTER | {"desc": "Seen {{getvar::seen}}."}))
    before = chat.snapshot()
    chat.preview("Hello.")
    assert chat.snapshot() == before


@pytest.mark.parametrize(("quirks", "shown"), [("", "Another dog."), ("reference", "A cat.")])
async def test_a_streamed_reply_never_turns_into_its_raw_text(quirks: str, shown: str) -> None:
    script = {"customscript": [{"type": "editoutput", "in": "cat", "out": "dog"}]}
    character = RisuCharacter.from_json(CHARACTER | script)
    chat, _ = made(["A ", "cat."], ["Another ", "cat."], character=character, quirks=quirks)
    await chat.send("Hello.")
    await chat.swipe("left")
    assert texts(chat) == ["Hello.", "A dog."]
    await chat.swipe("right")
    assert texts(chat) == ["Hello.", shown]


async def test_edit_delete_and_hide_change_lines() -> None:
    chat, host = made("one", "two", "three")
    await chat.send("a")
    await chat.send("b")
    chat.edit(-1, "{{setvar::seen::yes}}changed")
    chat.hide(0)
    chat.delete(1)
    await chat.send("c")
    assert texts(chat) == ["a", "b", "changed", "c", "three"]
    assert chat.stored_variables == {"seen": "yes"}
    assert "a" not in [message.content for message in host.plans[-1].messages]
    chat.unhide(0)
    chat.delete_from(1)
    assert "a" in [message.content for message in chat.preview("d").messages]
    assert texts(chat) == ["a"]


async def test_a_branch_has_its_own_variables() -> None:
    chat, _ = made("{{setvar::a::1}}one", "{{setvar::a::2}}two")
    await chat.send("go")
    branch = chat.branch(1)
    branch.host = chat.host
    await branch.send("on")
    assert (chat.stored_variables, branch.stored_variables) == ({"a": "1"}, {"a": "2"})
    assert [each.name for each in branch.chats] == [" (Branch)", ""]
    assert len(chat.chats) == 1


def test_greetings_go_around() -> None:
    chat, _ = made()
    chat.choose_greeting(2)
    assert chat.preview().greeting == "You here?"
    chat.choose_greeting(3)
    assert chat.preview().greeting == "Welcome, Ann."


async def test_a_snapshot_of_a_chat_is_json_and_goes_back() -> None:
    chat, _ = made("{{setvar::a::1}}one", "two", "three")
    await chat.send("go")
    before = json.loads(json.dumps(chat.snapshot()))
    await chat.swipe("right")
    await chat.send("on")
    chat.restore(before)
    assert texts(chat) == ["go", "one"]
    assert chat.snapshot() == before


async def test_the_comment_of_a_branch_is_no_reason_for_a_warning() -> None:
    chat, _ = made("one", "two")
    await chat.send("go")
    branch = chat.branch(1)
    await branch.send("on")
    assert str(texts(branch)[2]).startswith("{{specialcomment::")
    assert branch.warnings == ()


async def test_a_save_opens_a_chat() -> None:
    stored = {"message": [{"role": "user", "data": "Hi"}], "id": "c1", "name": "First", "scriptstate": {"$a": "1"}}
    save = Save.from_json({"characters": [{**CHARACTER, "chats": [stored]}], "username": "Ann"})
    host = ScriptedHost("{{addvar::a::1}}Hello.")
    chat = save.open("Mira", host=host)
    await chat.send("Again {{getvar::a}}")
    again = save.with_state("Mira", chat.snapshot()).open("Mira")
    assert texts(again) == ["Hi", "Again 1", "Hello."]
    assert again.stored_variables == {"a": "2"}


def test_a_save_keeps_what_changed_in_all_chats_of_a_character() -> None:
    stored = [{"id": name, "name": name, "message": [{"role": "user", "data": name}]} for name in ("A", "B")]
    save = Save.from_json({"characters": [{**CHARACTER, "chats": stored, "chatPage": 1}]})
    chat = save.open("Mira")
    chat.new_chat()
    chat.open_chat(1)
    chat.edit(0, "changed")
    chat.open_chat(2)
    chat.variables.set("gold", "1")
    chat.open_chat(0)
    after = save.with_state("Mira", json.loads(json.dumps(chat.snapshot())))
    found = [[message.data for message in each.messages] for each in after.chats("Mira")]
    assert found == [[], ["changed"], ["B"]]
    assert after.chat("Mira").name == "New Chat 3"
    assert after.chat("Mira", "B").raw["scriptstate"] == {"$gold": "1"}
    assert after.with_chat("Mira", after.chat("Mira", "A")).chat("Mira").name == "New Chat 3"


def test_a_save_keeps_the_changes_of_the_character_that_was_selected() -> None:
    crew = {"chaId": "crew", "type": "group", "name": "Crew", "characters": ["mira"], "chats": []}
    save = Save.from_json({"characters": [crew, CHARACTER | {"chats": [{"id": "c", "message": []}]}]})
    chat = save.open("Crew")
    chat.select("mira")
    chat.change_chat({"note": "N"})
    after = save.with_state("Crew", chat.snapshot())
    assert after.character("Crew").is_group
    assert after.chat("Mira").note == "N"


async def test_a_chat_without_a_host_says_so() -> None:
    chat = Chat(character=RisuCharacter.from_json(CHARACTER), warn=None)
    with pytest.raises(ConfigError, match="host"):
        await chat.send("Hello.")


async def test_tools_are_called_and_their_results_stay_in_the_chat() -> None:
    call = ToolCall(id="c1", name="weather", arguments='{"at": "sea"}')
    chat, host = made(Reply(text="Let me see. ", tool_calls=(call,)), "It rains.", "Yes.")
    turn = await chat.send("Weather?")
    (mark,) = chat.tool_calls
    assert turn.text == f"Let me see. <tool_call>{mark}</tool_call>\n\nIt rains."
    assert [event for event in host.events if event != "checkpoint"] == ["ask", "tool weather", "ask"]
    asked = host.plans[1].messages
    assert [message.role for message in asked][-3:] == ["assistant", "tool", "assistant"]
    assert asked[-2].content == 'weather of {"at": "sea"}'
    assert all(plan.source_map().exact for plan in host.plans)
    again, _ = made()
    again.restore(json.loads(json.dumps(chat.snapshot())))
    again.host = host
    await again.send("Sure?")
    told = [(message.role, message.content) for message in host.plans[-1].messages][-5:]
    assert [role for role, _ in told] == ["user", "assistant", "tool", "assistant", "user"]
    assert "tool_call" not in "".join(content for _, content in told)


async def test_a_stream_keeps_the_marks_of_tools() -> None:
    call = ToolCall(id="c1", name="dice", arguments="{}")
    chat, _ = made(Reply(tool_calls=(call,)), ["A ", "six."])
    await chat.send("Roll.")
    (mark,) = chat.tool_calls
    assert texts(chat)[-1] == f"<tool_call>{mark}</tool_call>\n\nA six."


async def test_the_model_says_which_picture_is_shown() -> None:
    pictures = {"viewScreen": "emotion", "emotionImages": [["Joy", "a"], ["grief", "b"]]}
    character = RisuCharacter.from_json(CHARACTER | pictures)
    chat, host = made("Hooray!", "It is joy.", "Oh.", ConnectionFailedError("gone"), character=character)
    await chat.send("We won.")
    assert chat.emotions == ("Joy",)
    assert host.plans[1].messages[-1].content == "Hooray!"
    assert texts(chat) == ["We won.", "Hooray!"]
    await chat.send("Or not.")
    assert chat.emotions == ()
    assert texts(chat)[-1] == "Oh."


async def test_a_picture_that_a_script_chose_is_not_asked_for() -> None:
    pictures = {"viewScreen": "emotion", "emotionImages": [["Joy", "a"]]}
    script = {"customscript": [{"type": "editoutput", "in": "Hooray", "out": "@@emo Joy"}]}
    chat, host = made("Hooray!", character=RisuCharacter.from_json(CHARACTER | pictures | script))
    await chat.send("We won.")
    assert (chat.emotions, len(host.plans)) == (("Joy",), 1)


async def test_suggestions_are_made_beside_the_chat() -> None:
    settings = Settings.from_json({"username": "Ann", "autoSuggestPrompt": "What would {{user}} say?"})
    chat, host = made("Hi.", " Bye.\n\nStay. ", settings=settings)
    await chat.send("Hello.")
    assert await chat.suggest() == ["Bye.", "Stay."]
    asked = [message.content for message in host.plans[-1].messages]
    assert asked == ["Hello.", "Hi.", "What would Ann say?"]
    assert texts(chat) == ["Hello.", "Hi."]


async def test_translations_keep_styles_and_run_scripts() -> None:
    scripts = {
        "customscript": [{"type": "edittrans", "in": "chat", "out": "gros chat"}, {"type": "edittrans", "in": "("}]
    }
    chat, host = made('<style-data style-index="0"></style-data>Un chat.', character=RisuCharacter.from_json(CHARACTER))
    shown = await chat.translate("<risu-style>p {}</risu-style>A cat.", "fr")
    assert shown == "p {}Un chat."
    assert host.plans[0].messages[-1].content == '<style-data style-index="0"></style-data>A cat.'

    async def translator(text: str, language: str) -> str:
        return f"{language}: {text}"

    assert await chat.translate("Cat.", "de", translator=translator) == "de: Cat."
    only = RisuCharacter.from_json(CHARACTER | {"customscript": scripts["customscript"][:1]})
    chat, _ = made(character=only)
    assert await chat.translate("chat", "fr", translator=translator) == "fr: gros chat"
    chat, _ = made(character=RisuCharacter.from_json(CHARACTER | scripts))
    assert await chat.translate("chat", "fr", translator=translator) == "fr: chat"


async def test_a_save_keeps_what_triggers_personas_and_presets_changed() -> None:
    effects = [{"type": "v2SetCharacterDesc", "value": "Changed.", "valueType": "value", "indent": 0}]
    trigger = {"comment": "t", "type": "start", "conditions": [], "effect": effects}
    character = CHARACTER | {"triggerscript": [trigger], "unknown": 1, "chats": [{"id": "c", "message": []}]}
    personas = [{"id": "p0", "name": "Ann", "note": "kept"}, {"id": "p1", "name": "Bo", "personaPrompt": "B."}]
    presets = [{"name": "one"}, {"name": "two", "mainPrompt": "Two."}]
    save = Save.from_json(
        {"characters": [character], "username": "Ann", "personas": personas, "botPresets": presets, "botPresetsId": 0}
    )
    chat = save.open("Mira", host=ScriptedHost("Hi."))
    await chat.send("Hello.")
    chat.switch_persona(1)
    chat.switch_preset(1)
    chat.variables.set("toggle_x", "1", "global")
    after = save.with_state("Mira", json.loads(json.dumps(chat.snapshot())))
    opened = after.character("Mira")
    assert (opened.description, opened.raw["unknown"]) == ("Changed.", 1)
    assert [message.data for message in after.chat("Mira").messages] == ["Hello.", "Hi."]
    assert (after.settings.username, after.settings.selected_persona) == ("Bo", 1)
    assert after.settings.raw["personas"][0]["note"] == "kept"  # type: ignore[index, call-overload]
    assert (after.settings.preset.main_prompt, after.settings.raw["botPresetsId"]) == ("Two.", 1)
    assert after.settings.global_variables == {"toggle_x": "1"}
    assert save.character("Mira").description == CHARACTER["desc"]


GROUP = {
    "chaId": "crew",
    "type": "group",
    "name": "Crew",
    "characters": ["mira", "oak"],
    "characterTalks": [1, 1],
    "characterActive": [True, True],
    "orderByOrder": True,
}
MEMBERS = [
    RisuCharacter.from_json(each) for each in (CHARACTER, {"chaId": "oak", "name": "Oak", "firstMessage": "Hm."})
]


async def test_a_group_speaks_in_rounds_and_one_member_alone() -> None:
    chat, host = made("m", "o", "again", character=RisuCharacter.from_json(GROUP), members=MEMBERS)
    await chat.send("Hi {{char}}.")
    assert [(line.get("saying"), line["data"]) for line in chat.lines] == [
        (None, "Hi Mira."),
        ("mira", "m"),
        ("oak", "o"),
    ]
    await chat.speak("Oak")
    assert chat.lines[-1]["data"] == "again"
    with pytest.raises(ConfigError, match="choose one of Mira, Oak"):
        await chat.speak("nobody")
    assert len(host.plans) == 3


async def test_a_group_has_no_buttons_and_no_manual_triggers() -> None:
    code = 'function onButtonClick(id) setChatVar(id, "x", "1") end function ring(id) setChatVar(id, "x", "2") end'
    lua = {"comment": "t", "type": "manual", "conditions": [], "effect": [{"type": "triggerlua", "code": code}]}
    database = {"modules": [{"id": "m", "name": "M", "trigger": [lua]}], "enabledModules": ["m"]}
    chat, _ = made(character=RisuCharacter.from_json(GROUP), members=MEMBERS, settings=Settings.from_json(database))
    await chat.click("bell")
    await chat.run_trigger("ring")
    assert chat.stored_variables == {}


async def test_a_group_in_which_nobody_is_active_says_so() -> None:
    muted = GROUP | {"characterActive": [False, False], "orderByOrder": False}
    chat, _ = made(character=RisuCharacter.from_json(muted), members=MEMBERS)
    with pytest.raises(PromptTemplateError, match="no one"):
        await chat.send("Hi.")
    assert texts(chat) == ["Hi."]


@pytest.mark.parametrize(("quirks", "expected"), [("", ["Welcome, {{user}}.", "Hm."]), ("reference", [])])
def test_a_new_chat_of_a_group_has_the_greetings_of_its_members(quirks: str, expected: list[str]) -> None:
    chat, _ = made(character=RisuCharacter.from_json(GROUP), members=MEMBERS, quirks=quirks)
    chat.new_chat()
    assert texts(chat) == expected
    chat.open_chat(1)
    assert bool(texts(chat)) is (quirks == "reference")


async def test_what_is_added_to_replies_must_be_written_in_chatml() -> None:
    settings = Settings.from_json({"igpPrompt": "no ChatML", "requestRetrys": 0})
    chat, _ = made("Hi.", settings=settings, quirks="reference")
    with pytest.raises(PromptTemplateError, match="ChatML"):
        await chat.send("Hello.")
    assert texts(chat) == ["Hello.", "Hi."]
    chat, _ = made("Hi.", settings=settings)
    assert (await chat.send("Hello.")).text == "Hi."
    chatml = "<|im_start|>user\nDraw {{char}}.<|im_end|>"
    chat, host = made("Hi.", " A boat.", settings=Settings.from_json({"igpPrompt": chatml}))
    assert (await chat.send("Hello.")).text == "Hi. A boat."
    assert host.plans[1].messages[0].content == "Draw Mira."
    block = f"{{{{#if 1}}}}{chatml}{{{{/if}}}}"
    chat, host = made("Hi.", " A boat.", settings=Settings.from_json({"igpPrompt": block}))
    assert (await chat.send("Hello.")).text == "Hi. A boat."


async def test_results_of_scripts_are_remembered_until_other_modules_are_switched_on() -> None:
    script = {"type": "editprocess", "in": "x", "out": "{{getvar::mood}}"}
    character = RisuCharacter.from_json(CHARACTER | {"customscript": [script]})
    database = {"username": "Ann", "modules": [{"id": "m", "name": "M"}]}
    chat, host = made(character=character, settings=Settings.from_json(database))
    chat.variables.set("mood", "calm")
    await chat.send("x")
    chat.variables.set("mood", "wild")
    await chat.send("on")
    assert "calm" in [message.content for message in host.plans[-1].messages]
    chat.settings = Settings.from_json(database | {"enabledModules": ["m"]})
    await chat.send("on")
    assert "wild" in [message.content for message in host.plans[-1].messages]
