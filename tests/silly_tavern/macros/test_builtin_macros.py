"""Macros of SillyTavern and its extensions, where the vectors do not look."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest

from tavernkit.silly_tavern import ChatMessage
from tavernkit.silly_tavern._macros import LegacyMacroEngine, MacroEngine, MacroEnvironment, variables
from tavernkit.silly_tavern._macros.call import MacroFailure
from tavernkit.silly_tavern._macros.limits import MAX_ARRAY_LENGTH, MAX_CACHED_CHARS_IN_ALL, MAX_HASHED_CHARS
from tavernkit.silly_tavern._macros.seeding import seeded_draw, text_hash
from tavernkit.stores import InMemoryVariablesStore

ENGINE = MacroEngine()
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ALONE = MacroEnvironment(user_name="Ann", character_name="Bel")


def expand(text: str, environment: MacroEnvironment = ALONE) -> str:
    return ENGINE.expand(text, environment)


def with_memory(*memories: str | int | None) -> MacroEnvironment:
    lines = [ChatMessage(mes="Hm.", extra={} if memory is None else {"memory": memory}) for memory in memories]
    return ALONE.replace(chat=lines)


@pytest.mark.parametrize(
    ("memories", "summary"),
    [
        (("They met.", "They quarrelled.", None, None), "They quarrelled."),
        (("They met.", "told by the newest message"), "They met."),
        (("They met.", 7, "", None), "They met."),
        ((None, None), ""),
        ((), ""),
    ],
)
def test_the_summary_is_the_newest_one_before_the_last_message(
    memories: tuple[str | int | None, ...], summary: str
) -> None:
    assert expand("{{summary}}", with_memory(*memories)) == summary


def test_the_expressions_that_can_be_shown_are_listed() -> None:
    expressions = dataclasses.replace(ALONE.extensions.expressions, labels=("joy", "anger"))
    extensions = dataclasses.replace(ALONE.extensions, expressions=expressions)
    assert expand("{{availableExpressions}}", ALONE.replace(extensions=extensions)) == "joy, anger"
    assert expand("[{{availableExpressions}}]") == "[]"


def test_outside_of_groups_the_macros_of_groups_name_the_two() -> None:
    assert expand("{{groupNotMuted}} {{notChar}}") == "Bel Ann"


@pytest.mark.parametrize(("mobile", "text"), [(True, "true"), (False, "false")])
def test_whether_the_user_is_on_a_phone(mobile: bool, text: str) -> None:
    assert expand("{{isMobile}}", ALONE.replace(is_mobile=mobile)) == text


@pytest.mark.parametrize("date", ["", None])
def test_a_message_without_a_date_was_sent_just_now(date: str | None) -> None:
    lines = [ChatMessage(mes="Hi", is_user=True, send_date=date or ""), ChatMessage(mes="Hello")]
    assert expand("{{idleDuration}}", ALONE.replace(chat=lines, clock=lambda: NOON)) == "just now"


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        ("+000000000002", "2:00 PM"),
        ("+1234567890", "7:30 AM"),
        ("-1234567890", "4:30 PM"),
        ("+123456789012", "6:12 PM"),
        ("+144000000000", "Invalid date"),
        ("-" + "9" * 5000, "Invalid date"),
    ],
)
def test_offsets_may_be_any_number_of_minutes_that_gives_a_javascript_date(offset: str, text: str) -> None:
    environment = ALONE.replace(clock=lambda: NOON)
    assert expand(f"{{{{time::UTC{offset}}}}}", environment) == text
    assert LegacyMacroEngine().expand(f"{{{{time_UTC{offset}}}}}", environment) == text


@pytest.mark.parametrize(("macro", "kept"), [("{{newline::-2}}", True), ("{{newline::-0}}", False)])
def test_nothing_is_repeated_fewer_than_no_times(macro: str, kept: bool) -> None:
    assert expand(f"[{macro}]") == (f"[{macro}]" if kept else "[]")


@pytest.mark.parametrize(
    ("length", "stored"),
    [
        ("1", '["a"]'),
        ("5", '["a","b","c",null,null]'),
        ("0x2", '["a","b"]'),
        ("1.5", None),
        ("-1", None),
        ("x", None),
        ("4294967296", None),
    ],
)
def test_the_length_of_a_list_can_be_set(length: str, stored: str | None) -> None:
    store = InMemoryVariablesStore({"local": {"list": '["a","b","c"]'}})
    assert variables.write_key(store, "list", "length", length, "local") is (stored is not None)
    assert store.get("list") == (stored or '["a","b","c"]')


def test_a_list_cannot_be_made_endless_by_its_length() -> None:
    store = InMemoryVariablesStore({"local": {"list": "[]"}})
    assert variables.write_key(store, "list", "length", str(MAX_ARRAY_LENGTH), "local")
    with pytest.raises(MacroFailure, match="beyond the limit"):
        variables.write_key(store, "list", "length", str(MAX_ARRAY_LENGTH + 1), "local")


def test_a_long_seed_counts_to_its_last_character() -> None:
    seed = "x" * 300
    draws = {seeded_draw(seed), seeded_draw(seed + "a"), seeded_draw("a" + seed), seeded_draw(seed[:256])}
    assert len(draws) == 4
    assert all(0 <= draw < 1 for draw in draws)


def test_the_hash_of_a_long_text_is_the_same_as_if_it_were_remembered() -> None:
    text = "ab" * MAX_HASHED_CHARS
    assert text_hash(text) == text_hash("".join(list(text)))
    assert text_hash(text) != text_hash(text + "c")


def test_an_engine_that_remembers_too_much_forgets_and_goes_on() -> None:
    engine = MacroEngine()
    size = MAX_CACHED_CHARS_IN_ALL // 40
    for number in range(45):
        assert engine.expand(f"{number:{size}} {{{{user}}}}", ALONE).endswith(f"{number} Ann")
    assert engine.expand(f"{0:{size}} {{{{user}}}}", ALONE).endswith("0 Ann")


def test_a_chat_whose_name_is_no_text_has_the_hash_zero_in_both_engines() -> None:
    for engine in (MacroEngine(), LegacyMacroEngine()):
        environment = MacroEnvironment(chat_id="chat", main_chat=5)
        engine.expand("{{pick::a::b}}", environment)
        assert environment.memory.chat_id_hash == 0
