"""Why each block is in the prompt, and why other texts are not."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import bench_risu_build
from tavernkit._values import is_mapping
from tavernkit.cards import User, load
from tavernkit.errors import MaxTokensExceededError, PipelineError
from tavernkit.examples import example_path
from tavernkit.prompt import InjectionRegistry
from tavernkit.risu_ai import Builder, ChatFile, RisuModule, RisuPlan, Settings
from tavernkit.risu_ai._memory import MemoryModels
from tests.conformance.adapters.risu_ai.build import MODELS, inputs
from tests.conformance.runner import cases
from tests.risu_ai.building.scene import STANDARD, Characters, build, character, lore, omitted, preset

CHAT_CARD = {"type": "chat", "rangeStart": 0, "rangeEnd": "end"}


def why(plan: RisuPlan) -> dict[str, str]:
    return {row.source: row.reason for row in plan.explain().blocks}


def check(plan: RisuPlan) -> None:
    for row in plan.explain().blocks:
        assert row.reason, f"block {row.position} ({row.source}: {row.preview}) has no reason"
        assert row.source != "unknown"
    for block in plan.blocks:
        assert all(part.get("reason") for part in block.metadata.get("parts", ()))  # type: ignore[union-attr]
    assert all(row.reason for row in plan.explain().left_out)


def test_every_block_of_the_shipped_example_has_a_reason() -> None:
    bundle = load(example_path("aria.json"))
    chat = ChatFile.load(example_path("chat.jsonl")).chats[0]
    plan = Builder(character=bundle.character, user=User(name="Ann")).build(history=chat, message="The storm glass?")
    check(plan)
    reasons = why(plan)
    assert reasons["description"] == "the character's description, personality, scenario"
    assert reasons["greeting"].startswith("the character speaks first")
    assert reasons["message #0 of Aria"] == "message of the chat"


def test_every_block_of_the_benchmarked_workload_has_a_reason() -> None:
    plan = Builder(**bench_risu_build.inputs()).build(message="Who keeps the tower?")
    assert len(plan.enabled_blocks) > 100
    check(plan)


def test_every_block_of_every_recorded_build_has_a_reason() -> None:
    built = 0
    for case in cases("risu_ai/build"):
        if case.input.get("real_send"):
            continue
        try:
            plan = Builder().build(**inputs(case.input, strict=False), memory=MODELS)
        except (MaxTokensExceededError, PipelineError):
            continue
        check(plan)
        built += 1
    assert built > 200


def test_texts_say_which_card_of_the_template_printed_them() -> None:
    plan = build(preset=preset(STANDARD, ai_model="mistral"), character=character(globalLore=[lore("x", comment="L")]))
    reasons = why(plan)
    assert reasons["main prompt"] == "a text of the prompt template; card 1"
    assert reasons["description"] == "the character's description; card 2"
    assert reasons["lore L"] == "always active, from character Mira; card 4"
    assert reasons["message #2 of Ann"] == "message of the chat"


def test_messages_say_which_chat_card_printed_them_when_there_are_several() -> None:
    cards = [{**CHAT_CARD, "rangeEnd": -1}, {"type": "description"}, {**CHAT_CARD, "rangeStart": -2}]
    rows = [row for row in build(preset=preset(cards)).explain().blocks if row.source.startswith("message")]
    assert [(row.source, row.reason.partition("; ")[2]) for row in rows] == [
        ("message #0 of Ann", "card 1"),
        ("message #1 of Mira", "card 1"),
        ("message #1 of Mira", "card 3"),
        ("message #2 of Ann", "card 3"),
    ]


@pytest.mark.parametrize("end", ["Infinity", 1e300, {"a": 1}, None, "end"])
def test_a_chat_card_may_end_anywhere(end: object) -> None:
    cards = [{**CHAT_CARD, "rangeStart": "NaN", "rangeEnd": end}]
    rows = [row.source for row in build(preset=preset(cards)).explain().blocks if row.source.startswith("message")]
    assert rows[-2:] == (["message #1 of Mira", "message #2 of Ann"] if end != {"a": 1} else [])


def test_messages_that_no_chat_card_shows_are_reported() -> None:
    plan = build(preset=preset([{**CHAT_CARD, "rangeStart": -1}]))
    assert omitted(plan)["4 messages (start marker to message #1 of Mira)"] == "no chat card of the template shows it"


def test_lore_names_its_book_and_its_key() -> None:
    module = RisuModule.from_json(
        {"id": "m", "name": "Forge", "lorebook": [lore("Hot.", key="now", alwaysActive=False, comment="fire")]}
    )
    plan = build(preset=preset(STANDARD, ai_model="mistral"), modules=[module])
    assert why(plan)["lore fire"] == "key 'now' in message #2 (user), from module Forge; card 4"
    (block,) = (block for block in plan.blocks if block.slot == "lore")
    assert is_mapping(block.source)
    assert (block.source["book"], block.source["id"], block.source["place"]) == ("module Forge", "0", "card 4")


def test_lore_without_a_name_is_called_by_its_keys() -> None:
    entry = lore("Hot.", key="now, then, here, there", alwaysActive=False)
    plan = build(preset=preset(STANDARD, ai_model="mistral"), character=character(globalLore=[entry]))
    assert "lore now, then, here" in why(plan)


@pytest.mark.parametrize("line", ["@@inject_at main", "@@position pt_here"])
def test_a_card_says_which_lore_is_in_it(line: str) -> None:
    cards = [{**STANDARD[0], "text": "Main. {{position::here}}"}, *STANDARD[1:]]
    plan = build(
        preset=preset(cards, ai_model="mistral"),
        character=character(globalLore=[lore(f"{line}\nHot.", comment="fire")]),
    )
    assert "Hot." in plan.blocks[0].content
    assert plan.explain().blocks[0].reason == (
        "a text of the prompt template; with lore fire (always active, from character Mira); card 1"
    )


def test_lore_inside_other_lore_is_in_and_reported_with_it() -> None:
    entries = [lore("Old.", comment="forge"), lore("@@inject_lore forge\nHot.", comment="fire")]
    plan = build(preset=preset(STANDARD, ai_model="mistral"), character=character(globalLore=entries))
    assert "with lore fire (always active" in why(plan)["lore forge"]
    assert "fire" not in omitted(plan)
    assert plan.lore_result is not None
    rows = {row.title: row for row in plan.lore_result.rows()}
    assert rows["fire"].active
    assert rows["fire"].reason == "always active; injected into 'forge'"


def test_a_replaced_text_says_so() -> None:
    mira = character(systemPrompt="Own. {{original}}", replaceGlobalNote="Own note.")
    reasons = why(build(character=mira, preset=preset(ai_model="mistral", global_note="Note.")))
    assert reasons["main prompt"] == "the character's system prompt instead of the preset's main prompt"
    assert reasons["global note"] == "the character's own text instead of the global note"
    reasons = why(build(character=mira, preset=preset(STANDARD, ai_model="mistral")))
    assert reasons["globalNote prompt"] == "the character's own text instead of the global note; card 7"


def test_memory_says_which_kind_it_is_and_what_it_stands_for() -> None:
    lines = [{"role": "user" if n % 2 else "char", "data": f"{n} {'word ' * 10}", "chatId": f"m{n}"} for n in range(8)]
    plan = build(
        character=character(supaMemory=True),
        preset=preset(STANDARD, max_context=500, max_response=0),
        memory=MemoryModels(summarize=lambda messages: "They talked.", embed=lambda texts: [[1.0] for _ in texts]),
        token_estimator=Characters(),
        history={"message": lines, "fmIndex": -1},
        settings=Settings.from_json({"supaModelType": "subModel"}),
    )
    assert why(plan)["memory SupaMemory"].startswith("replaces ")
    assert "SupaMemory replaces the oldest messages" in omitted(plan).values()


def test_texts_that_switches_keep_out_are_reported() -> None:
    cards: list[dict[str, Any]] = [
        {"type": "jailbreak", "text": "Free.", "role": "system", "name": "JB"},
        {"type": "cot", "text": "Think.", "role": "system"},
        {"type": "plain", "type2": "normal", "text": "{{#if 0}}x{{/if}}", "role": "system"},
        {"type": "plain", "type2": "normal", "text": "", "role": "system"},
        CHAT_CARD,
    ]
    reported = omitted(build(preset=preset(cards)))
    assert reported["jailbreak card JB, card 1"] == "the jailbreak toggle is off"
    assert reported["cot card ('Think.'), card 2"] == "chain of thought is switched off"
    assert reported["normal prompt ('{{#if 0}}x{{/if}}'), card 3"] == "nothing is left of it when its CBS is expanded"
    assert reported["normal prompt, card 4"] == "the card is empty"
    assert omitted(build(preset=preset(jailbreak="Free.")))["jailbreak"] == "the jailbreak toggle is off"


def test_a_message_that_scripts_emptied_is_reported() -> None:
    script = {"in": "Welcome\\.", "out": "", "type": "editprocess"}
    reported = omitted(build(character=character(customscript=[script])))
    assert reported["message #1 of Mira"] == "nothing is left of it after CBS and scripts"


def test_a_greeting_that_the_chat_cuts_off_is_reported() -> None:
    lines = [{"role": "user", "data": "Hi.", "disabled": "allBefore"}, {"role": "user", "data": "Ho."}]
    reported = omitted(build(history={"message": lines, "fmIndex": -1}))
    assert reported["greeting"] == "a message of the chat disables everything before it"


def test_injections_and_depth_prompts_say_where_they_stand() -> None:
    registry = InjectionRegistry()
    registry.register(id="mood", content="Sad.", position="chat", depth=1)
    plan = build(
        injections=registry,
        preset=preset(ai_model="mistral"),
        character=character(depth_prompt={"prompt": "Deep.", "depth": 2}),
    )
    assert why(plan)["injection mood"] == "in the chat at depth 1"
    assert why(plan)["depth prompt"] == "the character's depth prompt, 2 messages before the end of the prompt"


def test_a_joined_message_of_many_parts_names_some_and_counts_the_rest() -> None:
    cards = [{**STANDARD[0], "name": f"part {n}"} for n in range(9)]
    row = build(preset=preset([*cards, CHAT_CARD])).explain().blocks[0]
    assert row.source.startswith("main prompt part 0 + main prompt part 1")
    assert row.source.endswith("+ 3 more")
    assert row.reason.startswith("joined for this model: a text of the prompt template; card 1 | ")
