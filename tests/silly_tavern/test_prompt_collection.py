from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tavernkit.silly_tavern import OrderEntry, PresetPrompt
from tavernkit.silly_tavern._chat_completion.prompt_collection import Prompt, PromptCollection, collect
from tavernkit.silly_tavern._provenance import source

SOURCE = source("test", "test", "test", "a test", "for a test")


def prompt(identifier: str, content: str = "", **fields: Any) -> PresetPrompt:
    return PresetPrompt(identifier, content=content, **fields)


def order(*identifiers: str) -> list[OrderEntry]:
    return [OrderEntry(each.removeprefix("-"), not each.startswith("-")) for each in identifiers]


def collected(prompts: list[PresetPrompt], entries: list[OrderEntry], kind: str = "normal") -> PromptCollection:
    return collect(prompts, entries, objection(kind), str.upper, lambda _prompt, _reason: None)


def objection(kind: str) -> Callable[[PresetPrompt], str | None]:
    return lambda prompt: None if prompt.triggered_by(kind) else "not triggered"


def test_active_prompts_are_taken_in_order_and_expanded():
    found = collected([prompt("a", "x"), prompt("b", "y")], order("b", "a", "unknown"))
    assert [(each.identifier, each.content) for each in found] == [("b", "Y"), ("a", "X")]


def test_prompts_that_are_off_or_not_triggered_are_told_with_the_reason():
    told: list[tuple[str, str]] = []
    collect(
        [prompt("a"), prompt("b", injection_trigger=("swipe",))],
        order("-a", "b"),
        objection("normal"),
        str,
        lambda each, reason: told.append((each.identifier, reason)),
    )
    assert told == [("a", "switched off in the prompt list"), ("b", "not triggered")]


def test_a_main_prompt_that_is_off_stays_as_an_empty_place():
    found = collected([prompt("main", "x", role="user", injection_position=1, injection_depth=2)], order("-main"))
    main = found.prompts[0]
    assert (main.content, main.role, main.in_chat, main.injection_depth) == ("", "user", True, 2)


def test_the_first_prompt_with_an_identifier_counts():
    assert collected([prompt("a", "x"), prompt("a", "y")], order("a")).prompts[0].content == "X"


def test_merging_takes_the_place_and_placement_of_what_was_there():
    found = collected([prompt("a", "x", role="user", injection_position=1, injection_depth=3)], order("a"))
    found.merge(Prompt("a", "new", SOURCE, role="system"))
    merged = found.prompts[0]
    assert (merged.content, merged.role, merged.in_chat, merged.injection_depth) == ("new", "user", True, 3)


def test_merging_without_a_place_appends():
    found = collected([prompt("a", "x")], order("a"))
    found.merge(Prompt("b", "new", SOURCE))
    assert [each.identifier for each in found] == ["a", "b"]


def test_overrides_see_the_original_and_keep_the_place():
    found = collected([prompt("main", "x", role="user")], order("main"))
    assert found.override("main", "card", lambda text, original: f"{text}+{original}", SOURCE)
    assert (found.prompts[0].content, found.prompts[0].role, found.overridden) == ("card+X", "user", ["main"])


def test_overrides_are_refused_when_forbidden_switched_off_or_empty():
    forbidden = collected([prompt("main", "x", forbid_overrides=True)], order("main"))
    off = collected([prompt("main", "x")], order("-main"))
    for found, text in ((forbidden, "card"), (off, "card"), (collected([prompt("main")], order("main")), "")):
        assert not found.override("main", text, lambda text, _: text, SOURCE)


def test_the_first_line_of_an_identifier_decides_whether_it_is_off():
    assert PromptCollection(order("-a", "a")).disabled("a")
    assert not PromptCollection(order("a", "-a")).disabled("a")
    assert not PromptCollection(order("a")).disabled("b")
