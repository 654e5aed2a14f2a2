"""Decorators: which are understood, what an ununderstood one leaves to the fallback behind it, what they change."""

from __future__ import annotations

import pytest

from tavernkit.errors import WarningLog
from tavernkit.risu_ai._lorebook import LorebookEngine, LorebookEntry, LorebookResult, LoreMessage, ScanInput
from tavernkit.risu_ai.errors import DecoratorParseError

ENGINE = LorebookEngine()


def scan(content: str, *texts: str, **given: object) -> LorebookResult:
    entries = [LorebookEntry(key="dragon", comment="it", content=content)]
    messages = [LoreMessage("user", text) for text in texts or ("dragon",)]
    return ENGINE.scan(ScanInput(entries=entries, messages=messages, **given))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("line", "understood"),
    [
        ("@@", True),
        ("@@end", True),
        ("@@scan_depth 1", True),
        ("@@scan_depth far", True),
        ("@@activate", True),
        ("@@probability 100", True),
        ("@@additional_keys dragon", True),
        ("@@exclude_keys ghost", True),
        ("@@match_full_word", True),
        ("@@inject_at here", True),
        ("@@recursive", True),
        ("@@no_recursive_search", True),
        ("@@depth 3", True),
        ("@@depth deep", False),
        ("@@depth", False),
        ("@@position scenario", True),
        ("@@position pt_here", True),
        ("@@position nowhere", False),
        ("@@role system", True),
        ("@@role user", True),
        ("@@role assistant", True),
        ("@@role narrator", False),
        ("@@role", False),
        ("@@activate_only_after 1", True),
        ("@@activate_only_after soon", False),
        ("@@activate_only_every 1", True),
        ("@@activate_only_every now", False),
        ("@@is_greeting 0", True),
        ("@@is_greeting first", False),
        ("@@disable_ui_prompt system_prompt", True),
        ("@@disable_ui_prompt post_history_instructions", True),
        ("@@disable_ui_prompt other", False),
        ("@@disable_ui_prompt", False),
        ("@@keep_activate_after_match", False),
        ("@@dont_activate_after_match", False),
        ("@@nosuch", False),
    ],
)
def test_a_fallback_counts_only_behind_a_line_that_was_not_understood(line: str, understood: bool) -> None:
    (lore,) = scan(f"{line}\n@@@priority 7\ntext").actives
    assert lore.priority == (0 if understood else 7)
    assert lore.text == "text"


@pytest.mark.parametrize("between", ["@@", "@@end"])
def test_a_line_that_is_understood_ends_the_wait_for_a_fallback(between: str) -> None:
    assert scan(f"@@nosuch\n{between}\n@@@priority 7\ntext").actives[0].priority == 0


def test_lines_behind_a_fallback_that_was_skipped_count() -> None:
    (lore,) = scan("@@depth 3\n@@@priority 7\n@@role user\ntext").actives
    assert (lore.depth, lore.priority, lore.role) == (3, 0, "user")


def test_a_position_without_a_place_is_an_error_in_strict_scans() -> None:
    with pytest.raises(DecoratorParseError, match="before_desc"):
        scan("@@position\ntext", strict=True)


def test_a_position_without_a_place_costs_that_entry_with_one_warning() -> None:
    warnings: list[str] = []
    entries = [
        LorebookEntry(key="dragon", comment="bad", content="@@position\ntext"),
        LorebookEntry(key="dragon", comment="good", content="fire"),
        LorebookEntry(key="fire", comment="called up", content="smoke"),
    ]
    messages = [LoreMessage("user", "dragon")]
    result = ENGINE.scan(ScanInput(entries=entries, messages=messages, warn=warnings.append))
    assert {lore.source for lore in result.actives} == {"good", "called up"}
    assert warnings == ["lorebook: 'bad' is left out: @@position needs a place such as before_desc or pt_name"]
    assert "needs a place" in result.reasons[0]


@pytest.mark.parametrize(
    ("messages", "after", "every"), [(1, False, True), (2, True, False), (3, True, True), (4, True, False)]
)
def test_the_greeting_counts_as_a_message(messages: int, after: bool, every: bool) -> None:
    texts = ["dragon"] * messages
    assert bool(scan("@@activate_only_after 3\nx", *texts).actives) is after
    assert bool(scan("@@activate_only_every 2\nx", *texts).actives) is every


def test_every_zero_messages_is_never() -> None:
    assert not scan("@@activate_only_every 0\nx").actives


@pytest.mark.parametrize(("index", "wanted"), [(-1, 0), (None, 0), (0, 1), (2, 3)])
def test_the_first_greeting_is_number_zero(index: float | None, wanted: int) -> None:
    assert scan(f"@@is_greeting {wanted}\nx", greeting_index=index).actives
    assert not scan(f"@@is_greeting {wanted + 1}\nx", greeting_index=index).actives


@pytest.mark.parametrize(("roll", "active"), [(0.29, True), (0.3, True), (0.31, False)])
def test_a_roll_may_equal_the_probability(roll: float, active: bool) -> None:
    assert bool(scan("@@probability 30\nx", random=lambda: roll).actives) is active


def test_the_first_reason_to_stay_out_is_reported() -> None:
    result = scan("@@activate_only_after 9\n@@probability 1\nx")
    assert result.explain(0).reason.startswith("@@activate_only_after 9: the chat has 2 messages")


def test_what_was_matched_once_stays_or_stays_away() -> None:
    kept = scan("@@keep_activate_after_match\nx")
    assert len(kept.markers) == 1
    assert set(kept.markers.values()) == {"true"}
    again = scan("@@keep_activate_after_match\nx", "nothing", chat_variable=lambda name: kept.markers.get(name, "null"))
    assert again.explain(0).reason == "it was active before (@@keep_activate_after_match)"
    gone = scan("@@dont_activate_after_match\nx")
    assert len(gone.markers) == 1
    assert not scan("x").markers
    away = scan("@@dont_activate_after_match\nx", chat_variable=lambda name: gone.markers.get(name, "null"))
    assert not away.actives


def test_excluded_keys_may_be_asked_for_one_by_one_or_all_together() -> None:
    assert not scan("@@exclude_keys ice, fire\nx", "dragon fire").actives
    assert scan("@@exclude_keys_all ice, fire\nx", "dragon fire").actives
    assert not scan("@@exclude_keys_all ice, fire\nx", "dragon ice fire").actives
    assert scan("@@exclude_keys_all ice, fire\nx", "dragon ice fire", "dragon").actives


def test_lore_of_the_lowest_priority_is_the_first_to_go() -> None:
    entries = [
        LorebookEntry(always_active=True, comment="least", order=900, content="@@ignore_on_max_context\nab"),
        LorebookEntry(always_active=True, comment="most", order=1, content="ab"),
    ]
    settings = ScanInput().settings
    given = ScanInput(entries=entries, settings=type(settings)(token_budget=2))
    assert [lore.source for lore in ENGINE.scan(given).actives] == ["most"]


def test_a_regex_key_that_cannot_be_compiled_is_not_found() -> None:
    entry = LorebookEntry(key="/dra(/i", use_regex=True, comment="it", content="x")
    given = ScanInput(entries=[entry], messages=[LoreMessage("user", "dragon")], warn=WarningLog())
    assert not ENGINE.scan(given).actives


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("/dragon/i", False),
        ("/x|dragon/i", True),
        ("/dragon/, /x|dragon/i", True),
        ("dragon/i", False),
        ("dragon", False),
    ],
)
def test_a_regex_key_keeps_its_first_slash_and_needs_it(key: str, found: bool) -> None:
    entry = LorebookEntry(key=key, use_regex=True, comment="it", content="x")
    given = ScanInput(entries=[entry], messages=[LoreMessage("user", "a dragon")])
    assert bool(ENGINE.scan(given).actives) is found


def test_a_comment_in_a_text_is_not_there_for_keys() -> None:
    assert scan("x", "dra{{// a note }}gon").actives
    assert not scan("x", "{{// dragon }}").actives


def test_the_text_of_other_entries_is_not_searched_on_request() -> None:
    caller = LorebookEntry(always_active=True, content="a dragon")
    for content, found in (("x", 2), ("@@no_recursive_search\nx", 1)):
        entries = [caller, LorebookEntry(key="dragon", content=content)]
        assert len(ENGINE.scan(ScanInput(entries=entries)).actives) == found


def test_the_first_key_that_was_found_is_the_reason() -> None:
    result = scan("@@additional_keys fire\nx", "dragon fire")
    assert result.explain(0).reason == "key 'fire' in message #0 (user)"


def test_only_lore_is_injected_into_lore() -> None:
    target = LorebookEntry(always_active=True, comment="Target", content="text", order=2)
    for line, texts, reason in (
        ("@@inject_lore Target", ["text more"], "always active; injected into 'Target'"),
        ("@@inject_at Target", ["more", "text"], "always active"),
    ):
        entries = [target, LorebookEntry(always_active=True, content=f"{line}\nmore", order=1)]
        result = ENGINE.scan(ScanInput(entries=entries))
        assert [lore.text for lore in result.actives] == texts
        assert result.explain(1).reason == reason
