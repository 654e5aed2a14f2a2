"""What a scan does when nothing else is said: the defaults of RisuAI, and a caller who does not listen."""

from __future__ import annotations

import pytest

from tavernkit.risu_ai._lorebook import LorebookEngine, LorebookEntry, LoreMessage, ScanInput, engine

ENGINE = LorebookEngine()


def messages(*texts: str) -> list[LoreMessage]:
    return [LoreMessage("user", text) for text in texts]


def test_five_messages_are_scanned_unless_said_otherwise() -> None:
    entries = [LorebookEntry(key="dragon")]
    for later, active in ((4, 1), (5, 0)):
        chat = messages("a dragon", *["hm"] * later)
        assert len(ENGINE.scan(ScanInput(entries=entries, messages=chat)).actives) == active


def test_eight_hundred_tokens_of_lore_fit_unless_said_otherwise() -> None:
    for size, active in ((800, 1), (801, 0)):
        entries = [LorebookEntry(always_active=True, content="x" * size)]
        assert len(ENGINE.scan(ScanInput(entries=entries)).actives) == active


def test_a_variable_that_nobody_knows_is_null() -> None:
    assert ScanInput().chat_variable("mood") == "null"


def test_a_scan_that_nobody_listens_to_stops_at_its_limit_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_PASSES", 1)
    entries = [LorebookEntry(key="b", content="c"), LorebookEntry(key="a", content="b")]
    result = ENGINE.scan(ScanInput(entries=entries, messages=messages("a")))
    assert [each.text for each in result.actives] == ["b"]
