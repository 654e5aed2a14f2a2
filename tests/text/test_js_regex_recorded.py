"""Regular expressions as V8 runs them."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit._text.js_regex import JSMatch, JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values import join_surrogates, python_index, utf16_index, utf16_length
from tests.text.recorded import read

ROWS = read("regex.jsonl")


def test_patterns_that_v8_refuses_are_refused() -> None:
    refused = [row for row in ROWS if "error" in row]
    assert len(refused) > 50
    for row in refused:
        with pytest.raises(JSRegexSyntaxError):
            JSRegex.compile(row["source"], row["flags"])


def place(found: JSMatch | None) -> list[object] | None:
    return None if found is None else [found.utf16_start, found.text]


def searches(row: dict[str, Any], text: str) -> dict[str, object]:
    """What is found from the middle; offsets inside a character have no Python counterpart."""
    start = python_index(text, row["start"])
    if utf16_index(text, start) != row["start"]:
        return {}
    return {
        "found_from_start": place(JSRegex.compile(row["source"], row["flags"]).search(text, start, timeout=30)),
        "sticky_at_start": place(JSRegex.compile(row["source"], row["flags"] + "y").search(text, start, timeout=30)),
    }


def test_matches_replacements_and_splits_are_v8s() -> None:
    rows = [row for row in ROWS if "error" not in row]
    assert len(rows) > 300
    for row in rows:
        source, flags, text = row["source"], row["flags"], join_surrogates(row["text"])
        once, every = JSRegex.compile(source, flags), JSRegex.compile(source, flags + "g")
        actual = {
            "matches": [
                [m.utf16_start, utf16_length(m.text), list(m.groups)] for m in every.find_all(text, timeout=30)
            ],
            "replaced_all": every.replace(text, row["template"], timeout=30),
            "replaced_first": once.replace(text, row["template"], timeout=30),
            "split": once.split(text, timeout=30),
            "sticky_all": [m.utf16_start for m in JSRegex.compile(source, flags + "gy").find_all(text, timeout=30)],
            **searches(row, text),
        }
        assert actual == {key: row[key] for key in actual}, (source, flags, text)
