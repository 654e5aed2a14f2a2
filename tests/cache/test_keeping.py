"""Builds that keep a prompt cache: history cut in steps, frozen lore, what changes after the chat."""

from __future__ import annotations

import dataclasses
import json

import pytest

import tavernkit as tk
from benchmarks.bench_cache import WANTED, Scene, chat, measure, report_of, scenes
from tavernkit import silly_tavern as st
from tavernkit._values import is_mapping, is_sequence
from tavernkit.cache import plan_spans
from tavernkit.cards import User
from tavernkit.errors import ConfigError, MaxTokensExceededError
from tavernkit.examples import example_path
from tavernkit.prompt import Plan
from tavernkit.silly_tavern._caching.frozen_lore import METADATA_KEY

KEEP: st.SillyTavernInputs = {"strategy": "cache", "lore": "freeze", "volatile": "tail"}


LAMP = st.WorldBook.from_json(
    {"entries": {"0": {"uid": 0, "comment": "The lamp", "key": ["lamp"], "position": 0, "content": "It burns oil."}}},
    name="World",
)


def builder(**inputs: object) -> st.Builder:
    made = st.Builder(
        character=tk.load(example_path("aria.json")).character,
        user=User(name="Ann"),
        preset=st.Preset.load(example_path("preset.json")),
        books=[st.WorldBook.load(example_path("tidewatch.json"))],
        history=chat(4),
        warn=None,
        seed=1,
    )
    return made.replace(**inputs)  # pyright: ignore[reportArgumentType]


def texts(plan: Plan) -> list[str]:
    return [block.content for block in plan.enabled_blocks]


def _list(value: object) -> list[object]:
    return list(value) if is_sequence(value) else []


def titles(plan: Plan) -> list[str]:
    return [span.origin.title for span in plan_spans(plan)]


@pytest.mark.parametrize("scene", scenes(), ids=lambda scene: scene.name)
def test_all_chats_reach_what_is_wanted_at_the_smallest_context(scene: Scene) -> None:
    row = measure(scene, 4096)
    assert row.kept >= WANTED[4096]
    assert row.least_history >= 0.5
    assert row.reference < 0.3


def test_nothing_changes_by_default() -> None:
    assert builder().build().fingerprint() == builder(strategy="reference", lore="reference").build().fingerprint()
    plan = builder().build()
    assert not plan.moved
    assert not plan.metadata_changes


def test_a_chat_that_fits_is_in_sillytaverns_order_with_the_cache_strategy_alone() -> None:
    assert texts(builder(strategy="cache").build()) == texts(builder().build())


def test_lore_that_fires_by_key_becomes_a_line_behind_the_newest_message() -> None:
    history = st.ChatFile((st.ChatMessage(name="Ann", mes="The lamp?", is_user=True),))
    plan = builder(lore="freeze", history=history, books=[LAMP]).build()
    place = titles(plan).index("World Info: The lamp")
    assert plan.enabled_blocks[place - 1].content == "The lamp?"
    assert "World Info before the character" not in titles(plan)
    moved = next(each for each in plan.moved if each.name == "The lamp")
    assert (moved.reference, moved.place) == ("World Info before the character", "after message #0")
    assert "The lamp" in str(plan.explain())


def test_a_frozen_line_stays_at_its_place_and_is_not_said_twice() -> None:
    lines = [
        st.ChatMessage(name="Ann", mes="The lamp?", is_user=True),
        st.ChatMessage(name="Aria", mes="It failed."),
        st.ChatMessage(name="Ann", mes="The lamp again?", is_user=True),
    ]
    frozen = builder(lore="freeze", volatile="tail", books=[LAMP])
    first = frozen.build(history=lines[:1])
    second = frozen.build(history=lines, chat_metadata=first.metadata_changes)
    assert titles(second).count("World Info: The lamp") == 1
    place = titles(first).index("World Info: The lamp") + 1
    assert texts(second)[:place] == texts(first)[:place]
    assert second.metadata_changes == first.metadata_changes


def test_a_reload_gives_the_same_bytes_even_if_the_book_changed() -> None:
    first = builder(lore="freeze", history=chat(3)).build()
    stored = st.ChatFile(chat(3).messages, st.ChatMetadata.from_json(first.metadata_changes))
    loaded = st.ChatFile.loads(stored.dumps())
    again = builder(lore="freeze", history=loaded).build()
    assert texts(again) == texts(first)
    without_book = builder(lore="freeze", history=loaded, books=[]).build()
    assert [text for text in texts(without_book) if "Sailors speak" in text] == [
        text for text in texts(first) if "Sailors speak" in text
    ]


def test_lore_behind_a_message_that_was_edited_or_deleted_may_fire_again() -> None:
    lines = [st.ChatMessage(name="Ann", mes="The lamp?", is_user=True), st.ChatMessage(name="Aria", mes="It failed.")]
    frozen = builder(lore="freeze", books=[LAMP])
    first = frozen.build(history=lines[:1])
    edited = [lines[0].replace(mes="The lamp, then?"), lines[1]]
    again = frozen.build(history=edited, chat_metadata=first.metadata_changes)
    place = titles(again).index("World Info: The lamp")
    assert texts(again)[place - 1] == "It failed."
    deleted = frozen.build(history=[], chat_metadata=first.metadata_changes)
    assert "World Info: The lamp" not in titles(deleted)


@pytest.mark.parametrize(
    "stored",
    [7, [], {"lore": 5, "cut": -1}, {"lore": [5, {}, {"after": -1}, {"after": True, "line": "a"}], "cut": "x"}],
    ids=str,
)
def test_damaged_metadata_does_not_count(stored: object) -> None:
    plan = builder(**KEEP).build(chat_metadata={METADATA_KEY: stored})
    assert texts(plan) == texts(builder(**KEEP).build())


def test_constant_lore_stays_in_the_head() -> None:
    entry = {"uid": 0, "constant": True, "position": 0, "content": "The sea is grey."}
    book = st.WorldBook.from_json({"entries": {"0": entry}}, name="World")
    plan = builder(lore="freeze", books=[book]).build()
    assert titles(plan).index("World Info before the character") < titles(plan).index("New Chat")


def test_notes_and_depth_injections_go_behind_the_chat() -> None:
    plan = builder(
        volatile="tail", chat_metadata={"note_prompt": "Be brief.", "note_position": 1, "note_depth": 3}
    ).build()
    order = titles(plan)
    last = max(place for place, title in enumerate(order) if title.startswith("message #"))
    assert last < order.index("Character's Note") < order.index("Author's Note")
    assert order.index("Author's Note") < order.index("World Info at depth 2 (system)")
    assert {each.name for each in plan.moved} >= {"Author's Note", "Character's Note"}


@pytest.mark.parametrize("macro", ["{{random::calm::tense}}", "{{time}}", "{{lastMessage}}"])
def test_prompts_with_macros_that_change_go_behind_the_chat(macro: str) -> None:
    data = st.Preset.load(example_path("preset.json")).to_json()
    main: dict[str, object] = {"identifier": "main", "system_prompt": True, "content": f"Write. {macro}"}
    others = [each for each in _list(data["prompts"]) if is_mapping(each) and each["identifier"] != "main"]
    preset = st.Preset.from_json({**data, "prompts": [main, *others]})
    order = titles(builder(volatile="tail", preset=preset).build())
    assert order.index("preset prompt Main Prompt") > max(n for n, title in enumerate(order) if "message #" in title)
    assert order.index("preset prompt Main Prompt") < order.index("Character's Note")


def test_a_card_with_a_random_macro_keeps_its_cache() -> None:
    character = tk.load(example_path("aria.json")).character
    moody = character.replace(description=f"{character.description} Today: {{{{random::calm::cold::loud}}}}.")
    shares = [
        report_of(list(st.replay(builder(history=chat(20), character=moody), **inputs))).common_share
        for inputs in (st.SillyTavernInputs(), KEEP)
    ]
    assert shares[0] < 0.2
    assert shares[1] > 0.85


def test_the_cut_is_reported_and_the_latest_message_is_kept() -> None:
    preset = st.Preset.load(example_path("preset.json")).replace(openai_max_context=3000)
    plan = builder(strategy="cache", history=chat(30), preset=preset).build(message="And now?")
    stored = plan.metadata_changes[METADATA_KEY]
    assert is_mapping(stored)
    cut = stored["cut"]
    assert f"message #{cut} of" in " ".join(titles(plan))
    assert any(f"older than message #{cut}" in each.reason for each in plan.omissions)
    assert plan.trim_report is not None
    assert plan.trim_report.strategy == "cache"
    assert plan.trim_report.final_tokens <= plan.trim_report.budget_tokens
    assert "And now?" in texts(plan)
    with pytest.raises(MaxTokensExceededError, match="needs"):
        builder(strategy="cache", preset=preset).build(message="word " * 5000)


def test_examples_leave_once_and_stay_away() -> None:
    preset = st.Preset.load(example_path("preset.json")).replace(openai_max_context=3000)
    seen = [
        any("example dialogue" in title for title in titles(turn.plan))
        for turn in st.replay(builder(history=chat(30), preset=preset, books=[]), strategy="cache")
    ]
    assert seen[0]
    assert not seen[-1]
    assert seen == sorted(seen, reverse=True)


def test_lore_that_is_called_up_when_its_line_is_cut_away_is_said_again() -> None:
    preset = st.Preset.load(example_path("preset.json")).replace(openai_max_context=3000)
    for turn in st.replay(builder(history=chat(30), preset=preset), **KEEP):
        result = turn.plan.lore_result
        assert result is not None
        fired = {row.id for row in result.rows() if row.active}
        said = {span.origin.id for span in turn.spans if span.origin.kind == "frozen lore"}
        assert fired - said <= {"tidewatch.6"}  # which is constant


def test_unknown_values_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected_turns"):
        builder(expected_turns=-1).build()
    with pytest.raises(ConfigError, match="lore"):
        builder(lore="frozen").build()
    with pytest.raises(ConfigError, match="did you mean 'anthropic'"):
        builder(cache_profile="antropic").build()


def test_the_profile_is_that_of_the_presets_source() -> None:
    names = {
        source: builder(preset=st.Preset.default().replace(chat_completion_source=source))
        for source in ("claude", "mistralai")
    }
    assert {source: each.make_context().active_cache_profile.name for source, each in names.items()} == {
        "claude": "anthropic",
        "mistralai": "openai",
    }


def test_a_plan_with_a_report_can_be_saved() -> None:
    plan = builder(**KEEP).build()
    assert plan.to_dict()["moved"] == [dataclasses.asdict(each) for each in plan.moved]
    assert plan.explain().to_dict()["moved"]


def marks(dialect: str, **changes: object) -> int:
    plan = builder(history=chat(8), strategy="cache").replace(**changes).build()  # pyright: ignore[reportArgumentType]
    return json.dumps(plan.request(dialect, model="m", options={"max_tokens": 9}).body()).count("cache_control")


def test_requests_of_a_build_that_keeps_anthropics_cache_have_its_marks() -> None:
    assert 1 <= marks("anthropic", cache_profile="anthropic") <= 4
    assert marks("google", cache_profile="anthropic") == 0
    assert marks("anthropic", cache_profile="anthropic", strategy="reference") == 0
    assert marks("anthropic", cache_profile="openai") == 0


def test_openais_protocol_has_marks_only_for_a_provider_that_was_named() -> None:
    assert 1 <= marks("openai", cache_profile="openrouter") <= 4
    preset = st.Preset.load(example_path("preset.json")).replace(chat_completion_source="openrouter")
    assert marks("openai", preset=preset) == 0
    claude = preset.replace(chat_completion_source="claude")
    assert marks("openai", preset=claude) == 0
    assert marks("anthropic", preset=claude) >= 1
