"""Every block says what it is, where it came from and why it is there, in words for people."""

from __future__ import annotations

import re
from typing import Any

import pytest

from benchmarks import bench_st_build, bench_st_text
from tavernkit._values import is_mapping, is_sequence
from tavernkit.cards import User, load
from tavernkit.examples import example_path
from tavernkit.prompt._inputs import GENERATION_TYPES, GenerationType, InjectionRegistry
from tavernkit.prompt._plan import Plan
from tavernkit.silly_tavern import Builder, ChatFile, Group, Persona, Preset, WorldBook
from tests.silly_tavern.scene import build, card, order, preset

INTERNAL = re.compile(r"\b[a-z]+[A-Z]\w*|customDepthWI|\d_\w+|[A-Z]+_[A-Z_]+|\b\w+_\w+")
"""Names only programs use: camelCase and snake_case identifiers, keys of the registry."""


def example(**changes: Any) -> dict[str, Any]:
    chat = ChatFile.load(example_path("chat.jsonl"))
    return {
        "character": load(example_path("aria.json")).character,
        "user": User(name="Ann"),
        "preset": Preset.load(example_path("preset.json")),
        "books": [WorldBook.load(example_path("tidewatch.json"))],
        "history": chat.messages,
        "chat_metadata": chat.metadata,
        "on_overflow": "return",
        "warn": None,
        **changes,
    }


def small(inputs: dict[str, Any]) -> dict[str, Any]:
    return {**inputs, "preset": inputs["preset"].replace(openai_max_context=900, openai_max_tokens=300)}


INPUTS = {
    "example": example(),
    "example in little room": small(example()),
    "example as text": example(dialect="text"),
    "example as text in little room": example(dialect="text", context_length=700, response_length=200),
    "workload": {**bench_st_build.inputs(), "on_overflow": "return", "warn": None},
    "workload as text": {**bench_st_text.inputs(), "warn": None},
}


def check(plan: Plan) -> None:
    for block in plan.blocks:
        source = block.source
        assert is_mapping(source)
        for key in ("stage", "kind", "title", "reason"):
            assert source.get(key), (block.id, source)
        assert not INTERNAL.search(str(source["title"])), source
    for omission in plan.omissions:
        assert omission.reason
        assert omission.name
    if plan.trim_report is not None:
        for record in plan.trim_report.evictions:
            assert is_mapping(record.source)
            assert record.source["title"]
            assert record.source["reason"]


@pytest.mark.parametrize("kind", GENERATION_TYPES)
@pytest.mark.parametrize("name", INPUTS)
def test_blocks_and_what_is_left_out_have_titles_and_reasons(name: str, kind: GenerationType) -> None:
    more: dict[str, Any] = {"quiet_prompt": "Sum up."} if kind == "quiet" else {}
    check(Builder(**INPUTS[name]).build(generation_type=kind, **more))


@pytest.mark.parametrize("dialect", ["openai", "text"])
def test_blocks_of_every_source_have_titles_and_reasons(dialect: str) -> None:
    registry = InjectionRegistry()
    for position in ("before", "after", "chat"):
        registry.register(f"app {position}", "I", position, depth=1)
    entries = [
        {"uid": number, "content": "Lore.", "constant": True, "position": number, "key": [], "depth": 1, "role": 0}
        for number in range(7)
    ]
    plan = build(
        dialect=dialect,
        injections=registry,
        books=[WorldBook.from_json({"entries": {str(each["uid"]): each for each in entries}}, name="lore")],
        extension_prompts=[
            {"key": "1_memory", "value": "Summary.", "position": 0},
            {"key": "3_vectors", "value": "Past.", "position": 1, "depth": 2, "role": 0},
        ],
        character=card(
            mes_example="<START>\n{{user}}: a\n{{char}}: b",
            system_prompt="S",
            post_history_instructions="J",
            extensions={"depth_prompt": {"prompt": "D"}},
        ),
        chat_metadata={"note_prompt": "N", "note_depth": 1, "note_interval": 1, "note_position": 1},
        persona=Persona("P"),
        message="Well?",
    )
    check(plan)


def test_blocks_of_a_group_have_titles_and_reasons() -> None:
    members = {"a.png": card("Ada"), "b.png": card("Bel", extensions={"depth_prompt": {"prompt": "D"}})}
    group = Group(members=tuple(members), generation_mode="append", activation_strategy="list")
    check(build(character=None, group=group, members=members, speaker="Bel"))


def titles(plan: Plan) -> dict[str, str]:
    return {block.content: block.source["title"] for block in plan.blocks}  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript, reportReturnType]


def test_lore_at_a_depth_is_named_by_its_place_and_its_entries() -> None:
    entry = {"uid": 1, "content": "Fog.", "comment": "Weather", "key": ["alone"], "position": 4, "depth": 2, "role": 1}
    plan = build(books=[WorldBook.from_json({"entries": {"1": entry}}, name="Coast")])
    block = next(block for block in plan.blocks if block.content == "Fog.")
    assert is_mapping(block.source)
    assert block.source["title"] == "World Info at depth 2 (user)"
    assert block.source["reason"] == "Weather (key 'alone') in Coast"
    entries = block.source["entries"]
    assert is_sequence(entries)
    assert [each["id"] for each in entries if is_mapping(each)] == ["Coast.1"]


def test_prompts_that_share_a_place_in_the_chat_are_all_named() -> None:
    note = {"note_prompt": "N", "note_depth": 4, "note_position": 1, "note_interval": 1}
    plan = build(chat_metadata=note, character=card(extensions={"depth_prompt": {"prompt": "D"}}))
    block = next(block for block in plan.blocks if block.content == "N\nD")
    assert is_mapping(block.source)
    assert block.source["title"] == "Author's Note + Character's Note"
    assert block.source["reason"] == (
        "in the chat at depth 4: Author's Note: due every turn, from note_prompt of the chat's header; "
        "Character's Note: a field of the card"
    )


def test_lore_around_the_authors_note_is_told_with_it() -> None:
    entry = {"uid": 1, "content": "Fog.", "comment": "Weather", "constant": True, "key": [], "position": 2}
    note = {"note_prompt": "N", "note_depth": 0, "note_position": 1, "note_interval": 1}
    plan = build(books=[WorldBook.from_json({"entries": {"1": entry}}, name="Coast")], chat_metadata=note)
    block = next(block for block in plan.blocks if block.content == "Fog.\nN")
    assert is_mapping(block.source)
    assert "with World Info: Weather (constant) in Coast" in str(block.source["reason"])


def test_the_cards_own_prompts_say_whose_place_they_took() -> None:
    plan = build(character=card(system_prompt="Mine."), preset=preset(prompt_order=order("main", "chatHistory")))
    assert titles(plan)["Mine."] == "Main Prompt of the card"
    assert titles(plan)["I lost my boat."] == "message #1 of Mira"
