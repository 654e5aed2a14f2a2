"""What a chat's header and lines carry into a prompt besides their texts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit.conversation import Conversation, MemoryStore, SavedChat
from tavernkit.errors import WarningLog
from tavernkit.silly_tavern import (
    Chat,
    ChatFile,
    ChatMessage,
    ContextTemplate,
    Persona,
    RegexScripts,
    Settings,
    WorldBook,
)
from tavernkit.silly_tavern._chat.attachments import attached_files, attached_media, shown_media
from tavernkit.silly_tavern._chat.extension_prompts import script_injects, stored_summary
from tavernkit.silly_tavern._files.chat_file import ChatMetadata
from tavernkit.silly_tavern._scripts.regex_scripts import read_scripts
from tavernkit.silly_tavern._text_completion.guidance import Guidance
from tavernkit.testing import ScriptedModel
from tests.silly_tavern.scene import CHAT, build, card, contents, preset
from tests.silly_tavern.text_completion.scene import build as build_text

RAIN = {"value": "It rains.", "position": 1, "depth": 0, "scan": False, "role": 0}


def injects(stored: object, log: WarningLog | None = None) -> list[Any]:
    return list(script_injects(stored, lambda text: text.replace("{{user}}", "Mira"), log or WarningLog()))


def test_an_inject_of_the_chat_is_in_the_prompt_and_says_where_it_is_stored():
    plan = build(chat_metadata={"script_injects": {"w": RAIN}})
    block = next(block for block in plan.blocks if block.content == "It rains.")
    assert "stored in the chat's header by /inject" in str(block.source)


def test_injects_come_in_the_order_javascript_has_for_keys():
    stored = {"b": RAIN, "10": RAIN, "a": RAIN, "2": RAIN}
    assert [each.key for each in injects(stored)] == [f"script_inject_{key}" for key in ("2", "10", "b", "a")]
    assert [each.key for each in injects([RAIN, RAIN])] == ["script_inject_0", "script_inject_1"]


@pytest.mark.parametrize(("missing", "shown"), [("position", False), ("depth", False), ("role", True), ("scan", True)])
def test_an_inject_without_a_place_is_never_printed(missing: str, shown: bool):
    inject = {key: value for key, value in RAIN.items() if key != missing}
    assert ("It rains." in contents(build(chat_metadata={"script_injects": {"w": inject}}))) is shown


def test_an_inject_without_a_value_is_the_word_javascript_has_for_nothing():
    assert injects({"w": {**RAIN, "value": None}})[0].value == "null"
    assert injects({"w": {"position": 1}})[0].value == "undefined"


@pytest.mark.parametrize(
    ("script", "passes"),
    [
        ("", True),
        ("/return true", True),
        ("/return ON", True),
        ("{: /return 1 :}", True),
        ("/return", False),
        ("/return maybe", False),
        ("/if left={{user}} right=Mira rule=eq else={: /return false :} {: /return true :}", True),
        ("/if left={{user}} right=Bob rule=eq else={: /return false :} {: /return true :}", False),
        ("/if left={{user}} right=Bob rule=neq {: /return true :}", True),
    ],
)
def test_simple_filters_are_worked_out(script: str, passes: bool):
    log = WarningLog()
    assert injects({"w": {**RAIN, "filter": script}}, log)[0].filtered is not passes
    assert log.messages == ()


def test_a_filter_that_is_a_script_is_reported_and_taken_as_active():
    log = WarningLog()
    assert not injects({"w": {**RAIN, "filter": "/echo hi | /return true"}}, log)[0].filtered
    assert "its filter is a script" in log.messages[0]


def unused(plan: Any) -> list[tuple[str, str]]:
    return [(each.kind, each.reason) for each in plan.omissions if each.kind != "prompt"]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ({"depth": 10_001}, "its depth is more than 10,000"),
        ({"depth": 1.5}, "its depth is not a whole number"),
        ({"role": "user"}, "its role is unknown"),
        ({"position": -1}, "its position is none"),
        ({"position": "x"}, "it has no position"),
    ],
)
@pytest.mark.parametrize("make", [build, build_text])
def test_an_inject_without_a_place_is_listed_with_the_reason(make: Any, place: dict[str, Any], reason: str):
    plan = make(chat_metadata={"script_injects": {"w": {**RAIN, **place}}})
    assert "It rains." not in str([block.content for block in plan.blocks])
    assert unused(plan) == [("inject", reason)]


def test_an_inject_whose_filter_says_no_is_listed_where_the_filter_counts():
    metadata = {"script_injects": {"w": {**RAIN, "position": 0, "filter": "/return false"}}}
    assert unused(build(chat_metadata=metadata)) == [("inject", "its filter says no")]
    told = build_text(chat_metadata=metadata, context_template=ContextTemplate(story_string="{{anchorAfter}}"))
    assert "It rains." in told.prompt
    assert unused(told) == []


def test_an_inject_that_is_no_object_is_left_out_with_a_warning():
    log = WarningLog()
    assert injects({"a": None, "b": "text"}, log) == []
    assert [message.split(":")[0] for message in log.messages] == ["inject 'a' is left out", "inject 'b' is left out"]


def test_a_summary_without_a_place_is_listed():
    settings = Settings.from_json({"extension_settings": {"memory": {"position": -1}}})
    assert unused(build(history=summarized(memory="They met."), settings=settings)) == [
        ("summary", "its position is none")
    ]


def test_a_filtered_inject_is_left_out_beside_the_main_prompt_and_stays_in_the_chat():
    def shown(position: int) -> bool:
        inject = {**RAIN, "position": position, "filter": "/return false"}
        return "It rains." in contents(build(chat_metadata={"script_injects": {"w": inject}}))

    assert (shown(0), shown(1), shown(2)) == (False, True, False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_any_stored_injects_can_be_read(stored: object):
    injects(stored)
    injects({"w": stored})


def summarized(**extra: Any) -> list[dict[str, Any]]:
    return [{**CHAT[0], "extra": extra}, *CHAT[1:]]


def test_the_stored_summary_is_in_the_prompt():
    plan = build(history=summarized(memory=" They met. "))
    block = next(block for block in plan.blocks if "They met." in block.content)
    assert block.content == "[Summary: They met.]"
    assert "summary stored on message 0" in str(block.source)


def test_the_newest_summary_counts_but_for_one_that_is_no_text():
    assert stored_summary([{}, {"memory": ""}, {"memory": "new"}, {"memory": "old"}]) == "new"
    assert stored_summary([{"memory": 3}, {"memory": "old"}]) == ""


def test_the_summary_of_the_last_line_does_not_count_and_that_is_listed():
    chat = [{**CHAT[0], "extra": {"memory": "Old."}}, {**CHAT[1], "extra": {"memory": "New."}}]
    assert "[Summary: Old.]" in contents(build(history=chat))
    assert "[Summary: New.]" in contents(build(history=[*chat, CHAT[2]]))
    assert unused(build(history=chat[1:])) == [
        ("summary", "it was on message 0, the last one, when the chat was opened")
    ]
    assert unused(build(history=[{**line, "extra": {"memory": ""}} for line in CHAT])) == []


SUMMARIES = pytest.mark.parametrize(
    ("memories", "found"), [(["Old.", "New."], "[Summary: Old.]"), ([None, "New."], None), (["Old.", None], "Old.")]
)


@SUMMARIES
async def test_a_summary_is_looked_for_when_a_chat_is_opened_and_not_again(
    memories: list[str | None], found: str | None
):
    model = ScriptedModel("Aye.", repeat_last=True)
    extras = [{"memory": memory} if memory else {} for memory in memories]
    stored = [{**line, "extra": extra} for line, extra in zip(CHAT, extras, strict=False)]
    file = ChatFile(messages=tuple(map(ChatMessage.from_json, stored)))

    def shown() -> bool:
        return (found or "[Summary") in str(model.requests[-1]["messages"])

    store = MemoryStore(SavedChat(file=file.dumps().encode()))
    chat = Conversation.open(store, card=card(), user="Mira", model=model, inputs={"settings": Settings()})
    for operation in (chat.send, chat.send, chat.regenerate, chat.swipe):
        await operation()
        assert shown() is (found is not None)
    assert isinstance(chat.chat, Chat)
    branch = chat.chat.branch(3)  # a branch is opened
    newest = next(memory for memory in reversed(memories) if memory)
    assert f"[Summary: {newest}]" in contents(branch.preview("Hello."))
    await chat.undo()
    await chat.send("Hello.")
    assert shown() is (found is not None)


def test_a_summary_is_placed_as_the_settings_say_and_goes_with_its_extension():
    def texts(**settings: Any) -> list[str]:
        extensions = Settings.from_json({"extension_settings": settings})
        return contents(build(history=summarized(memory="S"), settings=extensions))

    assert "Summary: S" in texts(memory={"template": "", "position": 1, "depth": 0})
    assert not any("S]" in text for text in texts(disabledExtensions=["memory"]))


@pytest.mark.parametrize("new_engine", [True, False])
def test_the_macro_of_a_summary_goes_with_its_extension(new_engine: bool) -> None:
    def asked(**extensions: Any) -> str:
        power_user = {"experimental_macro_engine": new_engine}
        settings = Settings.from_json({"extension_settings": extensions, "power_user": power_user})
        return contents(build(history=summarized(memory="S"), settings=settings, message="So far: {{summary}}"))[-1]

    assert "So far: S" in asked()
    assert "So far: {{summary}}" in asked(disabledExtensions=["memory"])


def test_a_file_of_the_folder_stands_before_the_line():
    history = [{"name": "Mira", "is_user": True, "mes": "Read.", "extra": {"files": [{"url": "/user/files/a.txt"}]}}]
    assert contents(build(history=history, attachments={"/user/files/a.txt": "Log."}))[-1] == "Log.\n\nRead."


def test_a_file_that_is_nowhere_is_left_out_with_a_warning():
    history = [{"name": "Mira", "is_user": True, "mes": "Read.", "extra": {"files": [{"url": "u", "name": "a.txt"}]}}]
    plan = build(history=history)
    assert "a.txt" in plan.warnings[0]
    assert [each.id for each in plan.omissions if each.kind == "attachment"] == ["a.txt"]


def test_older_lines_have_one_file_and_one_picture():
    assert attached_files({"file": {"url": "b"}, "files": [{"url": "a"}]}) == [{"url": "a"}, {"url": "b"}]
    assert attached_media({"image": "i.png"}) == [{"url": "i.png", "type": "image"}]
    assert attached_media({"video": "v.mp4"}) == [{"url": "v.mp4", "type": "video"}]
    assert attached_media({"media": [], "image": "i.png"}) == [{"url": "i.png", "type": "image"}]
    swipes: Any = {"image_swipes": ["a.png", "b.png"], "image": "b.png"}
    assert shown_media(swipes, "list") == [{"url": "b.png", "type": "image"}]


def test_a_picture_of_the_folder_is_sent_as_a_data_url():
    history = [{"name": "Mira", "is_user": True, "mes": "Look.", "extra": {"image": "/user/images/a.png"}}]

    def content(media: dict[str, str]) -> Any:
        chosen = preset(openai_model="gpt-4o", media_inlining=True)
        messages: Any = build(history=history, media=media, preset=chosen).to_request()["messages"]
        return messages[-1]["content"]

    assert content({"/user/images/a.png": "data:image/png;base64,AA=="})[1]["image_url"]["url"].startswith("data:")
    assert content({}) == [{"type": "text", "text": "Look."}]


def test_reasoning_that_a_script_empties_is_not_printed():
    script = {"findRegex": "/.*/s", "replaceString": "", "placement": [6], "promptOnly": True, "scriptName": "r"}
    scripts = RegexScripts(global_=read_scripts([script], "scripts"))
    reasoning = Settings.from_json({"power_user": {"reasoning": {"add_to_prompts": True, "max_additions": 5}}})
    plan = build(history=summarized(reasoning="hm"), settings=reasoning, regex_scripts=scripts)
    assert not any("<think>" in text for text in contents(plan))


def guidance(settings: dict[str, Any], **header: Any) -> Guidance:
    return Guidance.of(ChatMetadata.from_json(header), settings, "Lyra")


CFG = {
    "global": {"guidance_scale": 1.5, "positive_prompt": "G", "negative_prompt": "g"},
    "chara": [{"name": "Lyra", "guidance_scale": 3, "positive_prompt": "H"}],
}


def test_guidance_is_the_chats_else_the_characters_else_the_global_one():
    assert guidance(CFG).scale == 3
    assert guidance(CFG, cfg_guidance_scale=2).scale == 2
    assert guidance({"global": CFG["global"]}).positive == "G"
    assert not guidance({}).in_use


def test_guidance_texts_are_combined_as_the_chat_asks():
    found = guidance(
        CFG, cfg_guidance_scale=2, cfg_positive_prompt="C", cfg_prompt_combine=[1, 2], cfg_prompt_separator='" / "'
    )
    assert (found.positive, found.negative) == ("G / H / C", "g")
    assert guidance(CFG, cfg_prompt_combine=[2], cfg_prompt_separator="no JSON").positive == "G\nH"


def test_global_guidance_is_used_in_text_completion():
    settings = Settings.from_json({"extension_settings": {"cfg": CFG}})
    plan = build_text(settings=settings)
    assert plan.guidance_scale == 3
    assert "g" not in plan.negative_prompt.split("\n")


def test_a_filter_of_endless_closures_is_not_looked_at():
    log = WarningLog()
    assert not injects({"w": {**RAIN, "filter": "{:" * 50_000 + ":}" * 50_000}}, log)[0].filtered
    assert len(log.messages) == 1


STORM = {"entries": {"0": {"uid": 0, "key": ["storm"], "content": "Storms close the harbour.", "position": 0}}}


@pytest.mark.parametrize("scanned", [True, False])
@pytest.mark.parametrize("make", [build, build_text])
def test_the_switch_that_lets_notes_be_scanned_is_the_depth_prompts_too(make: Any, scanned: bool):
    told = card(extensions={"depth_prompt": {"prompt": "A storm is near.", "depth": 1}})
    settings = Settings.from_json({"extension_settings": {"note": {"allowWIScan": scanned}}})
    plan = make(character=told, books=[WorldBook.from_json(STORM, name="sea")], settings=settings)
    assert ("Storms close the harbour." in str([block.content for block in plan.blocks])) is scanned


async def test_a_persona_at_a_depth_is_scanned_by_the_next_prompt_of_a_conversation():
    model = ScriptedModel("Aye.", repeat_last=True)
    chat = Conversation.open(
        MemoryStore(),
        card=card(),
        user="Mira",
        model=model,
        inputs={
            "persona": Persona("Mira fears the storm.", "at_depth"),
            "books": [WorldBook.from_json(STORM, name="sea")],
            "settings": Settings(),
        },
    )
    found: list[bool] = []
    for _ in range(2):
        await chat.send("Hello.")
        found.append("Storms close the harbour." in str(model.requests[-1]["messages"]))
    assert found == [False, True]
    assert isinstance(chat.chat, Chat)
    chat.chat.change(persona=Persona("Mira fears the storm."))
    for _ in range(2):
        await chat.send("Hello.")
        found.append("Storms close the harbour." in str(model.requests[-1]["messages"]))
    assert found[2:] == [True, False]


def test_a_filter_may_contain_any_characters():
    script = "/if left=\0001\000 right={{user}} rule=neq {:/return \0007\000:}"
    assert injects({"w": {**RAIN, "filter": script}})[0].filtered
