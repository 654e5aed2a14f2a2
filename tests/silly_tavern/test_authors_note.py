from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.silly_tavern import CharacterNote, ChatMetadata, NoteSettings
from tavernkit.silly_tavern._chat.authors_note import authors_note, read_overrides, with_lore
from tavernkit.silly_tavern._chat.extension_prompts import IN_CHAT, ExtensionPrompt, ExtensionPrompts
from tests.silly_tavern.scene import build, card, contents


def note(user_messages: int = 1, settings: NoteSettings | None = None, **metadata: Any):
    return authors_note(ChatMetadata(note_prompt="N", **metadata), settings or NoteSettings(), user_messages, "Lyra")


@pytest.mark.parametrize(
    ("interval", "messages", "due"),
    [
        (1, 0, True),
        (1, 5, True),
        (2, 0, False),
        (2, 1, False),
        (2, 2, True),
        (3, 6, True),
        (3, 7, False),
        (0, 3, False),
        (-1, 3, False),
    ],
)
def test_a_note_is_due_when_its_interval_comes_round(interval: int, messages: int, due: bool):
    found = note(messages, note_interval=interval)
    assert (found.due, found.text) == (due, "N" if due else "")


def test_missing_values_come_from_the_settings():
    settings = NoteSettings(default="D", default_depth=9, default_position=0, default_role=2)
    found = authors_note(ChatMetadata(), settings, 1, None)
    assert (found.text, found.depth, found.position, found.role) == ("D", 9, 0, 2)


def test_an_empty_note_of_the_chat_is_not_replaced_by_the_default():
    assert authors_note(ChatMetadata(note_prompt=""), NoteSettings(default="D"), 1, None).text == ""


@pytest.mark.parametrize(
    ("overrides", "read"),
    [
        ({}, {}),
        ({"position": "Before", "depth": 2}, {"position": 2, "depth": 2}),
        ({"position": 0, "role": "assistant", "depth": None}, {"position": 0, "role": 2}),
        ({"position": "none", "role": 1}, {"position": -1, "role": 1}),
    ],
)
def test_one_build_may_put_the_note_elsewhere(overrides: dict[str, Any], read: dict[str, int]):
    assert read_overrides(overrides) == read
    assert read_overrides(read_overrides(overrides)) == read
    moved = note(note_depth=7).placed(read)
    assert (moved.text, moved.due, moved.depth) == ("N", True, read.get("depth", 7))


def test_a_note_that_was_moved_is_where_it_was_put():
    texts = contents(build(authors_note={"depth": 0}, chat_metadata={"note_prompt": "NOTE", "note_depth": 9}))
    assert texts.index("NOTE") == len(texts) - 1


@pytest.mark.parametrize(
    "overrides",
    [{"text": "x"}, {"position": "sideways"}, {"depth": -1}, {"depth": True}, {"role": "tool"}, "chat", None],
)
def test_a_place_that_there_is_not_is_refused(overrides: Any):
    with pytest.raises(ConfigError, match="authors_note"):
        build(authors_note=overrides)


@pytest.mark.parametrize(("position", "text"), [(0, "C"), (1, "C\nN"), (2, "N\nC")])
def test_a_characters_own_note_joins_or_replaces(position: int, text: str):
    settings = NoteSettings(characters=(CharacterNote("Lyra", "C", use=True, position=position),))
    assert note(settings=settings).text == text


def test_a_characters_note_counts_only_when_it_is_used():
    assert note(settings=NoteSettings(characters=(CharacterNote("Lyra", "C"),))).text == "N"


@pytest.mark.parametrize(
    ("top", "text", "bottom", "result"),
    [
        (["T"], "N", ["B"], "T\nN\nB"),
        (["T"], "", ["B"], "T\n\nB"),
        ([], "", ["B"], "\nB"),
        ([], "N", [], "N"),
        (["T", "U"], "N", [], "T\nU\nN"),
    ],
)
def test_lore_stands_around_the_note(top: list[str], text: str, bottom: list[str], result: str):
    assert with_lore(text, top, bottom) == result


def test_the_reason_says_why_a_note_is_not_there():
    assert "not due" in note(1, note_interval=2).reason
    assert "switched off" in note(1, note_interval=0).reason


@pytest.mark.parametrize(("depth", "shown"), [(1, True), ("1", True), (1.5, False), (-1, False), (10_001, False)])
def test_a_note_at_an_odd_depth_shows_nowhere(depth: object, shown: bool):
    plan = build(chat_metadata={"note_prompt": "NOTE", "note_depth": depth})
    assert ("NOTE" in contents(plan)) is shown


@pytest.mark.parametrize(
    ("depth", "place"), [(None, -5), (1, -2), ("1", -2), ("", -1), ("deep", None), (1.5, None), ([], -1)]
)
def test_a_depth_prompt_at_an_odd_depth_shows_nowhere(depth: object, place: int | None):
    stored = {"depth_prompt": {"prompt": "DEEP", "depth": depth}}
    found = contents(build(character=card(extensions=stored)))
    assert ("DEEP" in found) is (place is not None)
    assert place is None or found[place] == "DEEP"


def test_a_number_no_browser_could_hold_counts_as_missing():
    assert ChatMetadata.from_json({"note_depth": float("inf"), "note_interval": "3"}) == ChatMetadata(
        note_interval=3, source={"note_depth": float("inf"), "note_interval": "3"}
    )


def test_lore_at_an_endless_depth_shows_nowhere():
    prompts = ExtensionPrompts(
        [ExtensionPrompt("a", "A", IN_CHAT, float("inf")), ExtensionPrompt("b", "B", IN_CHAT, 1)]
    )
    assert list(prompts.in_chat()) == [(1, 0)]
