from __future__ import annotations

from collections.abc import Mapping

import pytest

from tavernkit._values import FrozenJson
from tavernkit.cards import Character
from tavernkit.cards._risu_ai import convert_character_book
from tavernkit.errors import LoreParseError, WarningLog
from tavernkit.risu_ai._files.card_import import character_from_card
from tavernkit.risu_ai._lorebook.book import export_lorebook, import_lorebook, migrate_entries


def test_an_export_file_comes_back_as_it_was() -> None:
    entries = [{"key": "a", "content": "b", "unknown": {"x": [1]}}]
    written = export_lorebook(entries)
    assert {**written, "data": None} == {"type": "risu", "ver": 1, "data": None}
    assert import_lorebook(written) == entries
    assert import_lorebook({**written, "type": "other", "entries": []}) == []


def test_what_is_no_lorebook_says_what_is_expected() -> None:
    with pytest.raises(LoreParseError, match="entries"):
        import_lorebook({"type": "preset"})


def test_an_entry_that_is_no_object_is_reported_and_left_out() -> None:
    log = WarningLog()
    found = import_lorebook({"entries": {"1": "x", "0": {"keys": ["a"]}}}, warn=log)
    assert [entry["key"] for entry in found] == ["a"]
    assert "entry 1" in log.messages[0]


def test_migrating_twice_changes_nothing_more() -> None:
    once = migrate_entries([{"content": "@@end\n<user>", "activationPercent": 5}])
    assert migrate_entries(once) == once


def test_keys_are_joined_as_javascript_joins_arrays() -> None:
    (entry,) = import_lorebook({"entries": [{"key": None, "keys": ["a", None, 5, ["b", "c"]], "secondary_keys": []}]})
    assert entry["key"] == "a, , 5, b,c"
    assert entry["secondkey"] == ""


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({}, {"key": "", "insertorder": 0, "comment": "", "content": "", "alwaysActive": False, "secondkey": ""}),
        ({"key": [], "keys": ["b"]}, {"key": ""}),
        ({"keywords": ["d", "e"]}, {"key": "d, e"}),
        ({"order": None, "priority": 5}, {"insertorder": 5}),
        ({"order": 0, "priority": 5}, {"insertorder": 0}),
        ({"contextConfig": {"budgetPriority": 7}}, {"insertorder": 7}),
        ({"comment": "", "displayName": "d", "content": "", "text": "t"}, {"comment": "d", "content": "t"}),
        ({"constant": False, "forceActivation": True}, {"alwaysActive": False}),
        ({"constant": None, "forceActivation": True, "selective": True}, {"alwaysActive": True, "selective": True}),
        ({"keysecondary": ["a"], "disable": True, "mode": "child"}, {"secondkey": "", "mode": "normal"}),
    ],
)
def test_entries_of_other_programs_are_read_by_the_first_name_they_have(
    entry: FrozenJson, found: Mapping[str, FrozenJson]
) -> None:
    (converted,) = import_lorebook({"entries": [entry]})
    assert {key: converted[key] for key in found} == found


def test_entries_come_in_the_order_of_javascript_keys() -> None:
    found = import_lorebook({"entries": {key: {"comment": key} for key in ("b", "10", "2", "01")}})
    assert [entry["comment"] for entry in found] == ["2", "10", "b", "01"]


@pytest.mark.parametrize(
    ("entry", "content"),
    [
        ({"bookVersion": 2}, "<user> @@end"),
        ({"bookVersion": 1}, "{{user}} @@depth 0"),
        ({"activationPercent": 100}, "@@probability 100\n{{user}} @@depth 0"),
        ({"activationPercent": 0}, "{{user}} @@depth 0"),
    ],
)
def test_only_old_entries_are_brought_up_to_date(entry: Mapping[str, FrozenJson], content: str) -> None:
    (migrated,) = migrate_entries([{"content": "<user> @@end", **entry}])
    assert (migrated["content"], migrated["bookVersion"]) == (content, 2)


@pytest.mark.parametrize(
    ("extensions", "lines"),
    [
        ({"useProbability": True, "probability": 0}, ["@@probability 0"]),
        ({"useProbability": False, "probability": 5}, []),
        ({"position": 4, "depth": 0, "role": 0}, ["@@depth 0", "@@role system"]),
        ({"position": 4, "depth": 2, "role": 1}, ["@@depth 2", "@@role user"]),
        ({"position": 4, "depth": "2", "role": 1}, []),
        ({"selectiveLogic": 0}, []),
        ({"selectiveLogic": 1, "delay": 0}, ["@@exclude_keys_all a,b"]),
        ({"delay": 1}, ["@@activate_only_after 1"]),
        ({"selectiveLogic": 3, "delay": 2}, ["@@activate_only_after 2", "@@additional_keys b", "@@additional_keys a"]),
        ({"match_whole_words": None}, []),
    ],
)
def test_extensions_of_a_card_book_become_decorators_the_latest_on_top(
    extensions: Mapping[str, FrozenJson], lines: list[str]
) -> None:
    entry = {"keys": ["k"], "secondary_keys": ["a", "b"], "selective": True, "content": "x", "extensions": extensions}
    (found,) = convert_character_book({"entries": [entry]}).lorebook
    assert isinstance(found, dict)
    assert found["content"] == "\n".join([*lines, "x"])
    assert found["selective"] is not any(line.endswith(("a,b", " a")) for line in lines)


@pytest.mark.parametrize("missing", ["recursive_scanning", "scan_depth", "token_budget", ""])
def test_a_card_book_has_settings_only_if_it_states_all_three(missing: str) -> None:
    stated = {"recursive_scanning": False, "scan_depth": 0, "token_budget": 0, missing: None}
    settings = convert_character_book({**stated, "entries": []}).settings
    assert settings == (
        None if missing else {"recursiveScanning": False, "scanDepth": 0, "tokenBudget": 0, "fullWordMatching": False}
    )


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"keys": ["/a/i", "b"], "use_regex": True}, {"useRegex": True, "key": "/a/i, b"}),
        ({"keys": ["b", "/a/i"], "use_regex": True}, {"useRegex": False}),
        ({"keys": [], "use_regex": True}, {"useRegex": False}),
        ({"keys": ["/a/i"]}, {"useRegex": False, "mode": "normal", "alwaysActive": False, "selective": False}),
        ({"mode": "child", "constant": True, "folder": "f"}, {"mode": "child", "alwaysActive": True, "folder": "f"}),
        ({"name": "", "comment": "c"}, {"comment": ""}),
        ({"name": None, "comment": "c"}, {"comment": "c"}),
        ({"selective": True, "extensions": {"selectiveLogic": 2}}, {"selective": True, "content": "x"}),
        ({"enabled": False, "insertion_order": 5}, {"insertorder": 5}),
    ],
)
def test_entries_of_a_card_book_are_read_as_they_are(entry: FrozenJson, found: Mapping[str, FrozenJson]) -> None:
    assert isinstance(entry, dict)
    (converted,) = convert_character_book({"entries": [{"content": "x", "extensions": {}, **entry}]}).lorebook
    assert isinstance(converted, dict)
    assert {key: converted[key] for key in found} == found


@pytest.mark.parametrize(
    ("book", "warning"),
    [
        ({"type": "risu", "data": [{"key": "a"}, 5]}, "lorebook entry 1 is left out: it must be an object, not int"),
        ({"entries": [{"key": ["a"]}, "x"]}, "lorebook entry 1 is left out: it must be an object, not str"),
        ({"entries": 5}, "the lorebook's entries are left out: they must be a list or an object, not int"),
    ],
)
def test_what_is_left_out_is_reported(book: object, warning: str) -> None:
    warnings: list[str] = []
    import_lorebook(book, warn=warnings.append)
    assert warnings == [warning]


def test_the_activation_percentage_of_a_cards_entry_is_kept_and_acts() -> None:
    data = {
        "name": "Bel",
        "character_book": {
            "entries": [
                {
                    "keys": ["a"],
                    "content": "Never <user>.",
                    "constant": True,
                    "extensions": {"risu_activationPercent": 5},
                }
            ]
        },
    }
    (entry,) = convert_character_book(data["character_book"]).lorebook  # type: ignore[arg-type]
    assert entry["activationPercent"] == 5  # type: ignore[index, call-overload]
    card = Character.from_card({"spec": "chara_card_v2", "spec_version": "2.0", "data": data})
    lore = character_from_card(card).lore
    assert lore is not None
    assert lore[0]["content"] == "@@probability 5\nNever {{user}}."
