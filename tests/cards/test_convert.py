from __future__ import annotations

from typing import Any

import pytest

from tavernkit.cards import CardVersion, Character, convert
from tavernkit.cards._conversion import V3_IN_V2
from tavernkit.errors import ConfigError
from tests.cards.files import card

VERSIONS: tuple[CardVersion, ...] = ("v1", "v2", "v3")


@pytest.mark.parametrize("name", ["v1.json", "v2.json", "v2_book.json", "v3.json", "v3_book.json"])
@pytest.mark.parametrize("version", VERSIONS)
def test_there_and_back_again_is_the_same_card(name: str, version: CardVersion) -> None:
    character = Character.from_card(card(name))
    converted, _ = convert(character, version)
    assert converted.version == version
    back, _ = convert(converted, character.version)
    if name != "v2_book.json" or version != "v3":  # V3 adds use_regex to entries
        assert back == character


def test_an_upgrade_loses_nothing() -> None:
    for name in ("v1.json", "v1_extras.json", "pyg.json", "v2_unknown.json"):
        _, report = convert(Character.from_card(card(name)), "v3")
        assert report.notes == ()


def test_a_downgrade_says_where_each_newer_field_went() -> None:
    converted, report = convert(Character.from_card(card("v3.json")), "v2")
    assert not report.lost
    kept = {note.pointer: note.kept_at for note in report.kept}
    assert kept["/data/nickname"] == "/data/extensions/cc_extractor~1v3/nickname"
    data: Any = converted.to_card()["data"]
    assert set(data["extensions"][V3_IN_V2]) == {pointer.removeprefix("/data/") for pointer in kept}
    assert "nickname" not in data


def test_two_steps_down_are_reported_as_one() -> None:
    _, report = convert(Character.from_card(card("v3.json")), "v1")
    kept = {note.pointer: note.kept_at for note in report.kept}
    assert kept["/data/nickname"] == "/extensions/cc_extractor~1v3/nickname"
    assert kept["/data/creator"] == "/creator"


def test_without_preserve_a_downgrade_lists_what_is_lost() -> None:
    converted, report = convert(Character.from_card(card("v3.json")), "v2", preserve=False)
    assert V3_IN_V2 not in converted.extensions
    assert "/data/nickname" in {note.pointer for note in report.lost}
    assert not report.kept


def test_empty_newer_fields_are_no_loss() -> None:
    _, report = convert(Character(name="Ida", version="v3"), "v1")
    assert report.notes == ()


def test_a_taken_keeping_place_is_not_overwritten() -> None:
    source = card("v3.json")
    source["data"]["extensions"][V3_IN_V2] = {"nickname": "mine"}
    converted, report = convert(Character.from_card(source), "v2")
    assert converted.extensions[V3_IN_V2] == {"nickname": "mine"}
    assert "/data/nickname" in {note.pointer for note in report.lost}


def test_v2_lore_becomes_v3_lore() -> None:
    converted, _ = convert(Character.from_card(card("v2_book.json")), "v3")
    data: Any = converted.to_card()["data"]
    assert all(entry["use_regex"] is False for entry in data["character_book"]["entries"])


@pytest.mark.parametrize(
    ("fields", "upgraded"),
    [
        ({}, {"keys": [], "use_regex": False, "extensions": {}}),
        ({"keys": "rye", "secondary_keys": "bread"}, {"keys": ["rye"], "secondary_keys": ["bread"]}),
        ({"keys": ["a", 1], "use_regex": "true"}, {"keys": ["a", 1], "use_regex": True}),
        (
            {"keys": None, "use_regex": None, "secondary_keys": {}},
            {"keys": [], "use_regex": False, "secondary_keys": []},
        ),
    ],
)
def test_entries_get_the_form_that_v3_asks_for(fields: dict[str, Any], upgraded: dict[str, Any]) -> None:
    source = card("v2_book.json")
    source["data"]["character_book"]["entries"] = [{"content": "x", **fields}]
    data: Any = convert(Character.from_card(source, warn=lambda _: None), "v3")[0].to_card()["data"]
    entry = data["character_book"]["entries"][0]
    assert {key: entry[key] for key in upgraded} == upgraded


def test_unknown_keys_beside_and_inside_data_survive() -> None:
    converted, _ = convert(Character.from_card(card("v2_unknown.json")), "v3")
    source: Any = card("v2_unknown.json")
    written: Any = converted.to_card()
    assert {key: written[key] for key in source if key not in ("spec", "spec_version", "data")} == {
        key: value for key, value in source.items() if key not in ("spec", "spec_version", "data")
    }
    assert written["data"]["foo"] == "bar"


def test_keys_of_v1_that_mean_something_in_v2_are_not_mixed_up() -> None:
    source = {"name": "Ida", "data": {"description": "d"}, "spec_version": "mine"}
    character = Character.from_card(source)
    upgraded, _ = convert(character, "v2")
    assert (upgraded.name, upgraded.description) == ("Ida", "")
    back, _ = convert(upgraded, "v1")
    assert {key: back.to_card()[key] for key in source} == source


def test_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="one of v1, v2, v3, not 'v4'"):
        convert(Character(name="Ida"), "v4")  # pyright: ignore[reportArgumentType]


def test_a_path_is_not_a_character() -> None:
    path: Any = "aria.png"
    with pytest.raises(
        ConfigError, match=r"character must be a Character \(tk.load\(…\).character\), not str 'aria.png'"
    ):
        convert(path, "v2")
