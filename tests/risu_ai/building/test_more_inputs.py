"""Lorebooks, regex scripts and the greeting that an application gives to a build."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tavernkit.cards import BookEntry, Character, CharacterBook
from tavernkit.errors import ConfigError, LoreParseError, StrictModeError
from tavernkit.risu_ai import (
    Builder,
    Chat,
    Lorebook,
    LorebookResult,
    RegexScript,
    RisuChat,
    RisuModule,
    export_lorebook,
    read_scripts,
)
from tests.risu_ai.building.scene import CHAT, STANDARD, build, character, contents, inputs, lore, preset

EXPORT = export_lorebook([lore("The lamp burns oil.")])
SHOUT = RegexScript(pattern="now", out="NOW", type="editprocess")


def module(content: str, name: str, script: dict[str, Any]) -> RisuModule:
    return RisuModule.from_json({"id": name, "name": name, "lorebook": [lore(content)], "regex": [script]})


@pytest.mark.parametrize(
    "book",
    [
        EXPORT,
        Lorebook.from_json(EXPORT, name="lamp"),
        CharacterBook(entries=(BookEntry(content="The lamp burns oil.", constant=True),)),
        CharacterBook(entries=(BookEntry(content="The lamp burns oil.", constant=True),)).to_json(),
        {"entries": {"0": {"uid": 0, "key": [], "content": "The lamp burns oil.", "constant": True}}},
    ],
)
def test_books_of_every_kind_are_lore_of_the_prompt(book: Any):
    assert any("The lamp burns oil." in text for text in contents(build(books=[book])))


def test_a_book_is_named_after_its_file_or_itself(tmp_path: Path):
    file = tmp_path / "lamp.json"
    file.write_text(json.dumps(EXPORT))
    loaded = Lorebook.load(file)
    assert loaded == Lorebook.from_json(EXPORT, name="lamp")
    assert loaded.to_json() == EXPORT
    assert Lorebook.from_character_book(CharacterBook(name="Sea")).name == "Sea"


def test_what_is_not_a_lorebook_is_refused(tmp_path: Path):
    with pytest.raises(LoreParseError):
        Lorebook.load(b"[]")
    with pytest.raises(LoreParseError):
        Builder(books=[{"name": "a card"}])
    with pytest.raises(ConfigError, match="books must be"):
        Builder(books="lamp.json")  # pyright: ignore[reportArgumentType]


def test_damaged_entries_are_reported(tmp_path: Path):
    damaged: Any = {**EXPORT, "data": [3]}
    warnings: list[str] = []
    assert Builder(books=[damaged], warn=warnings.append).make_context().books == (Lorebook(""),)
    assert any("lorebook entry 0 is left out" in warning for warning in warnings)
    with pytest.raises(StrictModeError):
        Builder(books=[damaged], strict=True)


def test_books_and_scripts_work_like_modules_after_all_others():
    def script(pattern: str, out: str) -> dict[str, Any]:
        return {"in": pattern, "out": out, "type": "editprocess"}

    rain = module("Rain.", "rain", script("now", "then"))
    book, scripts = {"type": "risu", "data": [lore("Lamp.")]}, read_scripts([script("then", "THEN")], "here")
    as_inputs = build(preset=preset(STANDARD), modules=[rain], books=[book], regex_scripts=scripts)
    as_module = build(preset=preset(STANDARD), modules=[rain, module("Lamp.", "lamp", script("then", "THEN"))])
    assert contents(as_inputs) == contents(as_module)
    assert "What THEN?" in contents(as_inputs)


def test_regex_scripts_come_after_the_presets_and_the_characters():
    own = [{"in": "now", "out": "2", "type": "editprocess"}]
    plan = build(character=character(customscript=own), regex_scripts=[SHOUT, RegexScript("2", "3", "editprocess")])
    assert "What 3?" in contents(plan)
    assert "What NOW?" in contents(build(regex_scripts=read_scripts([SHOUT.to_json()], "here")))


def test_the_explanation_and_the_source_map_name_the_book():
    plan = build(books=[Lorebook.from_json(EXPORT, name="lamp")])
    assert isinstance(plan.lore_result, LorebookResult)
    assert [row.book for row in plan.lore_result.rows()] == ["module lamp"]
    (place,) = plan.source_map().where("burns oil")
    (source,) = [span.source for span in place.spans]
    assert source is not None
    assert (source.kind, source.name, source.pointer) == ("lore", "lamp", "/data/0/content")


@pytest.mark.parametrize(("greeting", "text"), [(0, "Hello."), (1, "Good day."), (2, "Psst.")])
def test_the_greeting_counts_the_first_message_as_0(greeting: int, text: str):
    plan = build(character=character(alternateGreetings=["Good day.", "Psst."]), greeting=greeting)
    assert (plan.greeting, plan.greeting_index) == (text, greeting)
    assert text in contents(plan)


def test_a_greeting_that_does_not_exist_is_left_out_with_a_warning():
    plan = build(greeting=5)
    assert plan.greeting is None
    assert any("greeting" in warning for warning in plan.warnings)


def test_a_greeting_changes_nothing_of_the_given_chat():
    chat = RisuChat.from_json({"message": CHAT, "fmIndex": -1})
    builder = Builder(**inputs(character=character(alternateGreetings=["Psst."]), history=chat, greeting=1))
    assert builder.build().greeting == "Psst."
    assert chat.greeting_index == -1
    assert builder.build(greeting=None).greeting == "Hello."


def test_a_chat_begins_with_the_greeting_and_can_choose_another():
    card = character(alternateGreetings=["Psst."], chats=[{"message": [], "fmIndex": -1, "id": "x"}])
    chat = Chat(character=card, greeting=1, regex_scripts=[SHOUT], books=[EXPORT])
    assert chat.greeting_index == 1
    assert chat.preview("now").greeting == "Psst."
    chat.choose_greeting(0)
    plan = chat.preview("now")
    assert plan.greeting == "Hello."
    texts = contents(plan)
    assert "NOW" in texts
    assert any("The lamp burns oil." in text for text in texts)


def test_a_builder_converts_cards_and_books_once():
    builder = Builder(character=Character(name="Bel"), members=[Character(name="Mia")], books=[EXPORT])
    first, second = builder.make_context(), builder.replace(message="Hi").make_context()
    assert first.character is second.character
    assert first.members[0] is second.members[0]
    assert first.books[0] is second.books[0]
    again = pickle.loads(pickle.dumps(builder)).make_context()  # our own bytes
    assert again.books == first.books
