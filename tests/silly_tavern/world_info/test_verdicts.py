"""What a verdict tells besides its reason, and values of a file that are null."""

from __future__ import annotations

import pytest

from tests.silly_tavern.world_info.scanning import make_book, scan


def test_an_entry_that_waits_tells_how_long() -> None:
    book = make_book(
        {"key": ["go"], "content": "late", "delay": 3},
        {"key": ["go"], "content": "off", "disable": True, "delay": 3},
    )
    late, off = (scan(book, "go").explain(uid) for uid in (0, 1))
    assert (late.verdict.until, off.verdict.until) == (3, None)
    assert "3" in late.text


@pytest.mark.parametrize("logic", [0, None])
@pytest.mark.parametrize(("text", "active"), [("go ice", 1), ("go", 0), ("go ice fire", 1)])
def test_a_logic_of_null_asks_for_any_secondary_key(logic: int | None, text: str, active: int) -> None:
    book = make_book({"key": ["go"], "keysecondary": ["ice", "fire"], "selective": True, "selectiveLogic": logic})
    assert len(scan(book, text).activated_entries) == active
