"""Text prompts that keep a prompt cache."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tavernkit as tk
from benchmarks.bench_cache import CHAT_ML, STORY, chat, report_of, scenes
from tavernkit import silly_tavern as st
from tavernkit._values import is_mapping
from tavernkit.cache import PROFILES, PromptCache, ReplayedTurn, plan_spans
from tavernkit.cards import User
from tavernkit.examples import example_path
from tavernkit.prompt import Plan
from tavernkit.testing import HttpReply, HttpRequest, LoopbackServer
from tests.cache.provider_caches import TOKENIZER, SlotCache
from tests.conformance import runner
from tests.conformance.adapters.silly_tavern.build_text import inputs

KEEP: st.SillyTavernInputs = {"strategy": "cache", "lore": "freeze", "volatile": "tail"}
LAMP = st.WorldBook.from_json(
    {"entries": {"0": {"uid": 0, "comment": "The lamp", "key": ["lamp"], "position": 0, "content": "It burns oil."}}},
    name="World",
)
ASKED = [st.ChatMessage(name="Ann", mes="The lamp?", is_user=True)]
LATER = [
    *ASKED,
    st.ChatMessage(name="Aria", mes="It failed."),
    st.ChatMessage(name="Ann", mes="The lamp again?", is_user=True),
]


def builder(**changes: object) -> st.Builder:
    made = st.Builder(
        character=tk.load(example_path("aria.json")).character,
        user=User(name="Ann"),
        books=[st.WorldBook.load(example_path("tidewatch.json"))],
        dialect="text",
        context_template=STORY,
        context_length=8192,
        response_length=300,
        history=chat(4),
        warn=None,
        seed=1,
    )
    return made.replace(**changes)  # pyright: ignore[reportArgumentType]


def text(plan: Plan) -> str:
    assert isinstance(plan, st.TextPlan)
    return plan.prompt


def titles(plan: Plan) -> list[str]:
    return [span.origin.title for span in plan_spans(plan)]


def test_a_prompt_that_fits_is_sillytaverns_with_the_cache_strategy_alone() -> None:
    assert text(builder(strategy="cache").build()) == text(builder().build())


@pytest.mark.parametrize("instruct", [None, CHAT_ML], ids=["lines", "instruct"])
def test_lore_that_fires_by_key_becomes_a_line_that_stays(instruct: st.InstructTemplate | None) -> None:
    frozen = builder(lore="freeze", volatile="tail", books=[LAMP], instruct=instruct)
    first = frozen.build(history=ASKED)
    second = frozen.build(history=LATER, chat_metadata=first.metadata_changes)
    assert text(second).count("It burns oil.") == 1
    assert text(second).index("The lamp?") < text(second).index("It burns oil.") < text(second).index("It failed.")
    assert second.metadata_changes == first.metadata_changes
    moved = next(each for each in first.moved if each.name == "The lamp")
    assert (moved.reference, moved.place) == ("World Info before the character", "after message #0")
    again = frozen.build(history=LATER, books=[], chat_metadata=first.metadata_changes)
    assert text(again) == text(second)


def test_lore_that_the_story_string_does_not_ask_for_is_not_sent_either() -> None:
    template = st.ContextTemplate(story_string="{{description}}")
    plan = builder(lore="freeze", books=[LAMP], context_template=template, history=ASKED).build()
    assert "It burns oil." not in text(plan)
    assert any("does not ask for it" in each.reason for each in plan.omissions)


def test_notes_go_behind_the_chat_and_keep_their_order() -> None:
    note = {"note_prompt": "Be brief.", "note_position": 1, "note_depth": 3}
    plan = builder(volatile="tail", chat_metadata=note).build()
    order = titles(plan)
    last = max(place for place, title in enumerate(order) if title.startswith("message #"))
    assert last < order.index("Character's Note") < order.index("Author's Note")
    assert order.index("Author's Note") < order.index("World Info at depth 2 (system)")
    assert {each.name for each in plan.moved} >= {"Author's Note", "Character's Note"}
    assert text(plan).endswith("Aria:")


def test_a_card_text_that_changes_by_itself_goes_behind_the_chat() -> None:
    card = tk.load(example_path("aria.json")).character.replace(scenario="It is {{time}}, and it rains.")
    plan = builder(volatile="tail", character=card).build()
    assert text(plan).index("and it rains") > text(plan).index(chat(4).messages[-1].mes[:40])
    moved = next(each for each in plan.moved if each.id == "scenario")
    assert moved.reference == "in the story string"
    assert moved.tokens
    assert builder(character=card).build().explain().hints[0].startswith("{{time}} in the scenario makes every turn")


def test_an_empty_chat_can_be_continued() -> None:
    card = tk.load(example_path("aria.json")).character.replace(scenario="It is {{time}}, and it rains.")
    changes = {"history": [], "character": card, "chat_metadata": {"note_prompt": "Be brief.", "note_depth": 1}}
    plan = builder(volatile="tail", **changes).build(generation_type="continue")
    assert "and it rains" in text(plan)
    assert "Be brief." in text(plan)


def test_a_message_that_is_continued_stays_the_last() -> None:
    plan = builder(**KEEP).build(generation_type="continue")
    assert text(plan).rstrip().endswith(chat(4).messages[-1].mes[-40:])


def test_the_cut_is_reported_and_stored() -> None:
    plan = builder(strategy="cache", history=chat(40), context_length=3000).build(message="And now?")
    stored = plan.metadata_changes["tavernkit_cache"]
    assert is_mapping(stored)
    cut = stored["cut"]
    assert isinstance(cut, int)
    assert next(title for title in titles(plan) if title.startswith("message #")).startswith(f"message #{cut} of")
    assert any(f"older than message #{cut}" in each.reason for each in plan.omissions)
    assert any("begin alike" in each.reason for each in plan.omissions if each.kind == "example")
    assert plan.trim_report is not None
    assert plan.trim_report.strategy == "cache"
    assert plan.trim_report.final_tokens <= plan.trim_report.budget_tokens
    assert "And now?" in text(plan)


def test_a_message_without_room_is_left_out_as_in_sillytavern() -> None:
    plan = builder(strategy="cache", context_length=3000).build(message="word " * 5000)
    assert text(plan) == text(builder(context_length=3000).build(message="word " * 5000))


def test_lore_that_is_called_up_when_its_line_is_cut_away_is_said_again() -> None:
    cuts: set[int] = set()
    for turn in st.replay(builder(history=chat(30), context_length=3000), **KEEP):
        result, stored = turn.plan.lore_result, turn.plan.metadata_changes["tavernkit_cache"]
        assert result is not None
        assert is_mapping(stored)
        cut = stored["cut"]
        assert isinstance(cut, int)
        cuts.add(cut)
        fired = {row.id for row in result.rows() if row.active}
        said = {span.origin.id for span in turn.spans if span.origin.kind == "frozen lore"}
        assert fired - said <= {"tidewatch.6"}  # which is constant
    assert len(cuts) > 2


def test_the_profile_is_that_of_the_backend() -> None:
    def profile(kind: str) -> object:
        settings = st.Settings.from_json({"textgenerationwebui_settings": {"type": kind}})
        return builder(settings=settings).make_context().active_cache_profile

    assert profile("vllm") is PROFILES["vllm"]
    assert profile("koboldcpp") is PROFILES["llama_cpp"]


@pytest.mark.parametrize("keep", [False, True], ids=["reference", "keep"])
async def test_a_server_with_llama_cpps_rules_agrees(*, keep: bool) -> None:
    turns: list[ReplayedTurn] = scenes(16)[2].turns(4096, keep=keep)
    slot = SlotCache()

    async def answer(request: HttpRequest) -> HttpReply:
        ids = TOKENIZER.encode(json.loads(request.body)["prompt"])
        body: dict[str, object] = {"content": "Hm.", "stop": True, "tokens_evaluated": len(ids), "tokens_predicted": 1}
        return HttpReply(body=json.dumps({**body, "timings": {"cache_n": slot.send(ids)}}).encode())

    predicted = PromptCache("llama_cpp")
    cached = total = 0
    async with LoopbackServer(answer).running() as server:
        model = tk.model("llamacpp:", base_url=server.url, api_key="none")
        for turn in turns:
            predicted.send(turn.spans)
            reply = await model.send(turn.plan.request("text"))
            predicted.receive(reply.usage)
            cached, total = cached + reply.usage.cached_tokens, total + reply.usage.input_tokens
        await model.aclose()
    assert cached
    assert predicted.report.share == pytest.approx(cached / total, abs=0.02)


def test_causes_are_named() -> None:
    breaks = [one for one, _, _ in report_of(list(st.replay(builder(history=chat(12)))), "llama_cpp").causes]
    assert any("in the chat at depth 4" in one.reason for one in breaks)
    causes = {one.cause for one in breaks}
    assert causes <= {"lore", "depth", "examples", "trimmed", "new message", "came"}
    assert {"lore", "depth"} <= causes


CASES = list(runner.cases("silly_tavern/build_text"))


@pytest.mark.parametrize("case", CASES[::40], ids=lambda case: case.id)
def test_a_recorded_scene_is_built_again_with_the_same_bytes(case: runner.Case) -> None:
    given: Any = {**inputs(case.input), **KEEP, "warn": None, "seed": 1}
    kept = st.build(**given)
    metadata = given.get("chat_metadata") or st.ChatMetadata()
    given["chat_metadata"] = {**metadata.to_json(), **kept.metadata_changes}
    again = st.build(**given)
    assert text(again) == text(kept)
