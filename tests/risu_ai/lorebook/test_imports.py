from __future__ import annotations

import pytest

from tavernkit.errors import LoreParseError, WarningLog
from tavernkit.risu_ai.lorebook.imports import export_lorebook, import_lorebook, migrate_entries


def test_an_export_file_comes_back_as_it_was() -> None:
    entries = [{"key": "a", "content": "b", "unknown": {"x": [1]}}]
    assert import_lorebook(export_lorebook(entries)) == entries


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
