"""RisuAI's prompts that keep a prompt cache."""

from __future__ import annotations

import pytest

import tavernkit as tk
from benchmarks.bench_cache import chat, chat_messages, report_of
from tavernkit import risu_ai
from tavernkit.cache import ReplayedTurn
from tavernkit.errors import ConfigError
from tavernkit.examples import example_path
from tavernkit.prompt import Plan


def builder(turns: int = 40, **more: object) -> risu_ai.Builder:
    messages: list[object] = [
        {"role": "user" if line.is_user else "char", "data": line.mes, "chatId": f"m{number}", "time": 0}
        for number, line in enumerate(chat(turns).messages)
    ]
    preset = risu_ai.Preset().replace(max_context=4000, max_response=400)
    character = tk.load(example_path("aria.json")).character.replace(extensions={})
    return risu_ai.Builder(
        character=character, history={"message": messages, "fmIndex": -1, **more}, preset=preset, warn=None, seed=1
    )


@pytest.fixture(scope="module")
def reference() -> list[ReplayedTurn]:
    return list(risu_ai.replay(builder()))


@pytest.fixture(scope="module")
def kept() -> list[ReplayedTurn]:
    return list(risu_ai.replay(builder(), strategy="cache"))


def test_larger_steps_keep_the_cache(reference: list[ReplayedTurn], kept: list[ReplayedTurn]) -> None:
    assert report_of(reference).common_share < 0.5
    assert report_of(kept).common_share > 0.8


def test_half_of_what_risuai_keeps_is_kept(reference: list[ReplayedTurn], kept: list[ReplayedTurn]) -> None:
    for theirs, mine in zip(reference, kept, strict=True):
        assert chat_messages(mine) >= chat_messages(theirs) / 2


def test_what_is_left_out_is_reported(kept: list[ReplayedTurn]) -> None:
    plan = kept[-1].plan
    assert any("cut in a large step" in each.reason for each in plan.omissions)
    assert plan.trim_report is not None
    assert plan.trim_report.strategy == "cache"


def test_unknown_profiles_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown cache profile"):
        builder(1).build(cache_profile="nobody")
    with pytest.raises(ConfigError, match="expected_turns"):
        builder(1).build(expected_turns=-1)


KEEP: risu_ai.RisuAIInputs = {"strategy": "cache", "lore": "freeze", "volatile": "tail"}
LAMP = {"key": "lamp", "comment": "The lamp", "content": "It burns oil.", "mode": "normal", "insertorder": 100}
ALWAYS = {"comment": "The sea", "content": "It is grey.", "mode": "normal", "insertorder": 90, "alwaysActive": True}
DEEP = {**ALWAYS, "comment": "Style", "content": "@@reverse_depth 2\nShort words."}
SAID = ("The lamp?", "It failed.", "The lamp again?")
CARDS: list[object] = [
    {"type": "plain", "type2": "main", "text": "Write.", "role": "system"},
    {"type": "authornote"},
    {"type": "lorebook"},
    {"type": "description"},
    {"type": "chat", "rangeStart": 0, "rangeEnd": "end"},
]


def small(said: int = 3, *, cards: list[object] | None = CARDS, **more: object) -> risu_ai.Builder:
    messages = [
        {"role": "char" if number % 2 else "user", "data": text, "chatId": f"m{number}"}
        for number, text in enumerate(SAID[:said])
    ]
    preset = {"maxContext": 4000, "maxResponse": 400, **({"promptTemplate": cards} if cards is not None else {})}
    chat = {"message": messages, "fmIndex": -1, "note": "Keep it wet.", "localLore": [LAMP, ALWAYS, DEEP], **more}
    return risu_ai.Builder(
        character=tk.Character(name="Aria", description="Keeps the light."),
        history=chat,
        preset=risu_ai.Preset.from_json(preset),
        warn=None,
        seed=1,
    )


def texts(plan: Plan) -> list[str]:
    return [block.content for block in plan.enabled_blocks]


def place(plan: Plan, text: str) -> int:
    return next(number for number, each in enumerate(texts(plan)) if text in each)


def test_nothing_changes_by_default() -> None:
    plan = small().build()
    assert texts(plan) == texts(small().build(lore="reference", volatile="reference"))
    assert not plan.moved
    assert "tavernkit_cache" not in plan.memory_data


@pytest.mark.parametrize("cards", [CARDS, None], ids=["template", "order"])
def test_lore_that_fires_by_key_becomes_a_message_that_stays(cards: list[object] | None) -> None:
    first = small(1, cards=cards).build(lore="freeze", volatile="tail")
    second = small(3, cards=cards, **first.memory_data).build(lore="freeze", volatile="tail")
    for plan in (first, second):
        assert place(plan, "It burns oil.") == place(plan, "The lamp?") + 1
        assert sum("It burns oil." in text for text in texts(plan)) == 1
    assert second.memory_data == first.memory_data
    moved = next(each for each in first.moved if each.name == "The lamp")
    assert (moved.reference, moved.place) == ("with the lorebook", "after message #0")
    without = small(3, cards=cards, **first.memory_data, localLore=[ALWAYS, DEEP]).build(lore="freeze", volatile="tail")
    assert texts(without) == texts(second)


def test_constant_lore_stays_and_lore_behind_an_edited_message_may_fire_again() -> None:
    first = small(1).build(lore="freeze")
    assert place(first, "It is grey.") < place(first, "The lamp?")
    stored = first.memory_data["tavernkit_cache"]
    edited = [
        {"role": "user", "data": "The lamp, then?", "chatId": "m0"},
        {"role": "char", "data": "Hm.", "chatId": "m1"},
    ]
    again = small(message=edited, tavernkit_cache=stored).build(lore="freeze")
    assert place(again, "It burns oil.") == place(again, "Hm.") + 1


@pytest.mark.parametrize("stored", [7, [], {"lore": 5}, {"lore": [5, {}, {"after": 3}]}], ids=str)
def test_what_cannot_be_read_does_not_count(stored: object) -> None:
    assert texts(small(tavernkit_cache=stored).build(**KEEP)) == texts(small().build(**KEEP))


@pytest.mark.parametrize("cards", [CARDS, None], ids=["template", "order"])
def test_notes_and_depth_lore_go_behind_the_chat(cards: list[object] | None) -> None:
    plan = small(cards=cards).build(volatile="tail")
    assert place(plan, "The lamp again?") < place(plan, "Short words.")
    assert place(plan, "The lamp again?") < place(plan, "Keep it wet.")
    assert "lore Style" in {each.name for each in plan.moved}


def test_cards_inside_the_chat_and_those_with_random_functions_go_behind_it() -> None:
    cards: list[object] = [
        {"type": "plain", "type2": "main", "text": "Write {{random::well::ill}}.", "role": "system"},
        {"type": "chat", "rangeStart": 0, "rangeEnd": -1},
        {"type": "plain", "type2": "normal", "text": "Between.", "role": "user"},
        {"type": "chat", "rangeStart": -1, "rangeEnd": "end"},
        {"type": "plain", "type2": "globalNote", "text": "Last.", "role": "user"},
    ]
    plan = small(cards=cards).build(volatile="tail")
    order = [place(plan, text) for text in ("The lamp again?", "Write ", "Between.", "Last.")]
    assert order == sorted(order)
    reasons = {each.reference: each.reason for each in plan.moved}
    assert reasons["inside the chat"] == "every message would move it"
    assert "function of CBS" in reasons["before the chat"]


def test_a_hint_names_the_function_that_makes_every_turn_a_miss() -> None:
    cards: list[object] = [{"type": "plain", "type2": "main", "text": "It is {{time}}.", "role": "system"}, *CARDS[1:]]
    hints = small(cards=cards).build().explain().hints
    assert any("{{time}} in main prompt" in hint and "every turn a miss" in hint for hint in hints)


def test_lore_that_is_called_up_when_its_message_is_cut_away_is_said_again() -> None:
    lore = [{"key": "lamp", "comment": "The lamp", "content": "It burns oil.", "mode": "normal", "insertorder": 1}]
    begins: set[object] = set()
    for turn in risu_ai.replay(builder(40, localLore=lore), **KEEP):
        plan = turn.plan
        assert isinstance(plan, risu_ai.RisuPlan)
        begins.add(plan.last_memory)
        result = plan.lore_result
        assert result is not None
        if any(row.active for row in result.rows()):
            assert sum("It burns oil." in text for text in texts(plan)) == 1
        assert plan.trim_report is not None
        assert plan.trim_report.final_tokens <= plan.trim_report.budget_tokens
    assert len(begins) > 2


def test_long_term_memory_and_frozen_lore_do_not_go_together() -> None:
    told: list[str] = []
    settings = risu_ai.Settings.from_json({"hypaV3": True, "supaModelType": "subModel"})
    character = risu_ai.RisuCharacter.from_json({"name": "Aria", "supaMemory": True})
    memory = risu_ai.MemoryModels(summarize=lambda _: "summary")
    small(1).replace(character=character, settings=settings, memory=memory, warn=told.append).build(lore="freeze")
    assert any("long-term memory" in warning for warning in told)


def test_unknown_places_are_refused() -> None:
    with pytest.raises(ConfigError, match="lore"):
        small().build(lore="frozen")  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(ConfigError, match="volatile"):
        small().build(volatile="end")  # pyright: ignore[reportArgumentType]  # on purpose
