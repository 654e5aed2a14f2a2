"""RisuAI builds: the shared workload as RisuAI would have it (a template of 15 cards, lore, scripts, 300 messages)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from benchmarks import workloads
from tavernkit.budget._tokenizers import get_tokenizer
from tavernkit.cards import User
from tavernkit.cards._character import Character
from tavernkit.risu_ai import Builder, Preset, RisuChat, RisuMessage, RisuModule, Settings, character_from_card
from tavernkit.risu_ai._chat.chat_log import with_messages
from tavernkit.risu_ai._prompt_template.cards import read_cards
from tavernkit.stores import InMemoryVariablesStore

LONG_HISTORY = 5000


def template(extra: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A template with the workload's prompts before and behind the chat."""
    plain = [{"type": "plain", "type2": "normal", "text": each["content"], "role": "system"} for each in extra]
    return [
        {"type": "plain", "type2": "main", "text": "Write {{char}}'s next reply to {{user}}.", "role": "system"},
        *plain[:8],
        {"type": "description"},
        {"type": "persona", "innerFormat": "<persona>{{slot}}</persona>"},
        {"type": "lorebook"},
        {"type": "chat", "rangeStart": 0, "rangeEnd": "end"},
        *plain[8:],
        {"type": "authornote"},
        {"type": "plain", "type2": "globalNote", "text": "Stay in character.", "role": "system"},
    ]


def lore() -> list[dict[str, Any]]:
    """The workload's world info as lorebook entries."""
    (book,) = workloads.build()["world_info"].values()
    return [
        {
            "key": ", ".join(entry["key"]),
            "secondkey": "",
            "insertorder": entry["order"],
            "comment": entry["comment"],
            "content": entry["content"],
            "mode": "normal",
            "alwaysActive": False,
            "selective": False,
        }
        for entry in book["entries"].values()
    ]


SCRIPTS = [
    {"comment": "quotes", "in": "[“”]", "out": '"', "type": "editprocess"},
    {"comment": "stars", "in": r"\*([^*\n]+)\*", "out": "<i>$1</i>", "type": "editprocess"},
]


def inputs() -> dict[str, Any]:
    """The workload of ``gen.py build`` as a builder's inputs."""
    given = workloads.build()
    return {
        "character": character_from_card(Character.from_card(given["card"])),
        "user": User(name=given["user_name"], persona="{{user}} has lost a boat."),
        "preset": Preset(
            prompt_template=read_cards(template(given["extra_prompts"])),
            max_context=16000,
            max_response=500,
            ai_model="gpt4",
        ),
        "settings": Settings(lorebook_tokens=4000, lorebook_depth=10),
        "modules": [RisuModule.from_json({"id": "m", "name": "M", "lorebook": lore(), "regex": SCRIPTS})],
        "history": RisuChat(messages=tuple(stored(line) for line in given["chat"])),
        "variables": InMemoryVariablesStore(),
        "seed": 1,
    }


def stored(line: dict[str, Any]) -> RisuMessage:
    return RisuMessage(role="user" if line.get("is_user") else "char", data=line["mes"])


def long_history() -> RisuChat:
    """The workload's chat, made longer."""
    rng = random.Random(5)
    chat: RisuChat = inputs()["history"]
    texts = (" ".join(rng.choice(workloads.WORDS) for _ in range(50)) + "." for _ in range(LONG_HISTORY))
    more = (RisuMessage(role="user" if n % 2 else "char", data=text) for n, text in enumerate(texts))
    return with_messages(chat, [*chat.messages, *more][:LONG_HISTORY])


@pytest.fixture(autouse=True)
def loaded_tokenizer() -> None:
    get_tokenizer("cl100k_base")


def test_first_build(benchmark: Any) -> None:
    """A fresh builder: lore is compiled, texts parsed, tokens counted."""
    plan = benchmark.pedantic(
        lambda **given: Builder(**given).build(message="Who keeps the tower?"), setup=lambda: ((), inputs()), rounds=10
    )
    assert plan.trim_report.fits


def test_next_turn(benchmark: Any) -> None:
    """The same builder, a reply and a message later."""
    _next_turn(benchmark, inputs()["history"])


def test_next_turn_of_a_long_history(benchmark: Any) -> None:
    """5,000 messages, of which a few hundred fit."""
    _next_turn(benchmark, long_history())


def test_source_map(benchmark: Any) -> None:
    """The map of a turn, without its spans; ``bench_source_map`` compares maps with builds."""
    builder = Builder(**inputs())
    builder.build(message="Good evening.")

    def turn() -> tuple[tuple[Any], dict[str, Any]]:
        return (builder.build(message="Who keeps the tower?"),), {}

    assert benchmark.pedantic(lambda plan: plan.source_map().messages, setup=turn, rounds=10)


def _next_turn(benchmark: Any, history: RisuChat) -> None:
    builder = Builder(**inputs())
    chat = builder.build(history=history, message="Good evening.").chat

    def turn() -> Any:
        nonlocal chat
        reply = RisuMessage(role="char", data=f"The sea answers {len(chat.messages)}.")
        plan = builder.build(history=with_messages(chat, (*chat.messages, reply)), message="Go on.")
        chat = plan.chat
        return plan

    assert benchmark.pedantic(turn, rounds=10).trim_report.fits
