from __future__ import annotations

from typing import Any

import pytest

from tavernkit.cards import BookEntry, Character, CharacterBook, Participant, User, card_version, load
from tavernkit.cards.errors import NotACardError
from tavernkit.errors import ConfigError, WarningLog
from tests.cards.files import FILES, card

READABLE = sorted(
    path.name
    for path in FILES.glob("*.json")
    if path.name not in ("arr.json", "bad.json", "badutf8.json", "nest100k.json", "noid.json", "null.json", "str.json")
    and path.name != "utf16.json"
)


@pytest.mark.parametrize("name", READABLE)
def test_an_unchanged_card_is_written_as_it_was_read(name: str) -> None:
    source = card(name)
    assert Character.from_card(source, warn=WarningLog()).to_card() == source


def test_only_the_changed_field_is_rewritten() -> None:
    source = card("v2_unknown.json") | {"tags": "kept, odd"}
    written = Character.from_card(source, warn=WarningLog()).replace(first_mes="New").to_card()
    expected = source | {"data": source["data"] | {"first_mes": "New"}}
    assert written == expected


def test_sillytavern_copies_beside_data_follow_a_change() -> None:
    source = card("v2_mirror.json")
    written = Character.from_card(source, warn=WarningLog()).replace(name="Nova").to_card()
    assert (written["name"], written["data"]) == ("Nova", source["data"] | {"name": "Nova"})
    assert written["description"] == "wrong"


def test_changing_one_lore_entry_keeps_what_other_programs_put_into_the_book() -> None:
    source = card("v3_book.json")
    character = Character.from_card(source)
    book = character.character_book
    assert book is not None
    changed = book.replace(entries=(book.entries[0].replace(content="new"), *book.entries[1:]))
    written = character.replace(character_book=changed).to_card()
    source["data"]["character_book"]["entries"][0]["content"] = "new"
    assert written == source


def test_all_versions_give_the_same_fields() -> None:
    first = {"name": "A", "description": "d", "personality": "p", "scenario": "s", "first_mes": "f", "mes_example": "m"}
    cards = (first, {"spec": "chara_card_v2", "spec_version": "2.0", "data": first})
    characters = [Character.from_card(each) for each in cards]
    assert [character.version for character in characters] == ["v1", "v2"]
    assert (
        len({(c.name, c.description, c.personality, c.scenario, c.first_mes, c.mes_example) for c in characters}) == 1
    )


def test_pygmalion_keys_are_read_and_kept() -> None:
    source = card("pyg.json")
    character = Character.from_card(source)
    assert (character.name, character.description, character.first_mes) == ("Vesna", "Night baker.", "Hello")
    assert character.replace(name="Nova").to_card() == source | {"char_name": "Nova"}


def test_wrong_types_are_reported_with_their_place() -> None:
    log = WarningLog()
    source = {
        "spec": "chara_card_v2",
        "spec_version": "2.0",
        "data": {"name": 7, "description": [], "tags": "a, b,,c "},
    }
    character = Character.from_card(source, warn=log)
    assert (character.name, character.description, character.tags) == ("7", "", ("a", "b", "c"))
    assert [message.split()[0] for message in log.messages] == ["/data/name", "/data/description"]


def test_entries_given_as_an_object_are_read_in_order() -> None:
    log = WarningLog()
    book = CharacterBook.from_json({"entries": {"0": {"keys": ["a"]}, "1": "broken"}}, warn=log)
    assert book.entries == (BookEntry.from_json({"keys": ["a"]}),)
    assert len(log.messages) == 2


def test_what_is_no_card_says_what_it_may_be() -> None:
    with pytest.raises(NotACardError, match="world book"):
        Character.from_card({"entries": {}})
    with pytest.raises(NotACardError, match="looks like regex scripts"):
        Character.from_card({"type": "regex", "data": []})
    with pytest.raises(NotACardError, match="a list"):
        Character.from_card([])


def test_newer_and_unknown_specs_are_read_with_a_warning() -> None:
    log = WarningLog()
    assert card_version({"spec": "chara_card_v3", "spec_version": "3.4", "data": {}}, warn=log) == "v3"
    assert card_version({"spec": "chara_card_v9", "spec_version": "9", "data": {}}, warn=log) == "v3"
    assert card_version({"spec": None, "data": {}}, warn=log) == "v2"
    assert len(log.messages) == 3


def test_a_new_character_writes_every_required_key() -> None:
    written = Character(name="Ida", version="v3").to_card()
    assert written["spec"] == "chara_card_v3"
    assert isinstance(written["data"], dict)
    assert written["data"]["group_only_greetings"] == []
    assert "assets" not in written["data"]
    assert Character(name="Ida", version="v1").to_card()["mes_example"] == ""


def test_greetings_nickname_and_notes() -> None:
    character = Character(
        name="Ida",
        nickname="Idy",
        first_mes="one",
        alternate_greetings=("", "two"),
        group_only_greetings=("three",),
        creator_notes="plain",
        creator_notes_multilingual={"en": "english", "de": "deutsch"},
    )
    assert character.display_name == "Idy"
    assert character.all_greetings == ("one", "two")
    assert character.group_greetings == ("one", "two", "three")
    assert [character.creator_notes_for(language) for language in ("de", "fr")] == ["deutsch", "english"]
    assert Character(name="Ida", creator_notes="plain").creator_notes_for("de") == "plain"


def test_the_main_picture_is_the_one_named_main() -> None:
    character = load(FILES / "c_full.charx").character
    assert character.main_icon is not None
    assert character.main_icon.name == "main"
    assert character.main_background is not None
    assert character.main_background.name == "Hall.jpg"
    assert Character(name="Ida").main_icon is None


@pytest.mark.parametrize(("value", "expected"), [("0.8", 0.8), (0, 0.0), ("x", 0.5), (None, 0.5), ("", 0.0)])
def test_talkativeness_is_read_as_javascript_reads_a_number(value: object, expected: float) -> None:
    extensions: Any = {"talkativeness": value}
    assert Character(name="Ida", extensions=extensions).talkativeness() == expected


def test_characters_and_users_are_participants() -> None:
    people: list[Participant] = [User("Ann", "curious"), Character(name="Ida", description="d", personality="p")]
    assert [(one.name, one.persona_text) for one in people] == [("Ann", "curious"), ("Ida", "d\n\np")]


def test_extensions_cannot_be_changed() -> None:
    character = Character.from_card(card("v2.json"))
    with pytest.raises(TypeError):
        character.extensions["x"] = 1  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize("name", ["tags", "alternate_greetings", "group_only_greetings", "source"])
def test_a_text_instead_of_a_list_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name} must be a list: pass {name}=\['Hello'\]"):
        Character(name="Aria", **{name: "Hello"})  # pyright: ignore[reportArgumentType]
