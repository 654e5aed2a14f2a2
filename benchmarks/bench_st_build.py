"""SillyTavern chat builds: the shared workload (300 messages, 200 lore entries, 16k context) and a long history."""

from __future__ import annotations

import random
from typing import Any

import pytest

from benchmarks import workloads
from tavernkit.budget._tokenizers import get_tokenizer
from tavernkit.cards import Character, User
from tavernkit.silly_tavern import Builder, ChatMessage, Preset, RegexScripts, Settings, WorldBook

LONG_HISTORY = 5000
SCRIPTS = [
    {"scriptName": find, "findRegex": find, "replaceString": replacement, "placement": [1, 2], "promptOnly": True}
    for find, replacement in [
        (r"/\btower\b/g", "{{char}}'s tower"),
        (r"/\*([^*\n]+)\*/g", "<i>$1</i>"),
        *((rf"/<status{number}>([\s\S]*?)<\/status{number}>/g", "$1") for number in range(18)),
    ]
]


def inputs() -> dict[str, Any]:
    """The workload of ``gen.py build`` as a builder's inputs."""
    given = workloads.build()
    default = Preset.default()
    order = [{"identifier": entry.identifier, "enabled": entry.enabled} for entry in default.effective_order]
    prompts = [prompt.to_json() for prompt in default.prompts] + given["extra_prompts"]
    order += [{"identifier": prompt["identifier"], "enabled": True} for prompt in given["extra_prompts"]]
    preset = {
        **given["preset"],
        "openai_model": "gpt-4",
        "prompts": prompts,
        "prompt_order": [{"character_id": 100001, "order": order}],
    }
    return {
        "character": Character.from_card(given["card"]),
        "user": User(name=given["user_name"]),
        "preset": Preset.from_json(preset),
        "settings": Settings.from_json({"world_info_settings": given["world_info_settings"]}),
        "books": [WorldBook.from_json(book, name=name) for name, book in given["world_info"].items()],
        "history": [ChatMessage.from_json(line) for line in given["chat"]],
        "seed": 1,
    }


def long_history() -> list[ChatMessage]:
    """The workload's chat, made longer."""
    rng = random.Random(5)
    chat: list[ChatMessage] = list(inputs()["history"])
    while len(chat) < LONG_HISTORY:
        user = len(chat) % 2 == 1
        text = " ".join(rng.choice(workloads.WORDS) for _ in range(50)) + "."
        chat.append(ChatMessage(name="Mira" if user else "Lyra", mes=text, is_user=user))
    return chat


@pytest.fixture(autouse=True)
def loaded_tokenizer() -> None:
    get_tokenizer("cl100k_base")


def test_first_build(benchmark: Any) -> None:
    """A fresh builder: books are compiled, macros parsed, tokens counted."""
    plan = benchmark.pedantic(
        lambda **given: Builder(**given).build(message="Who keeps the tower?"), setup=lambda: ((), inputs()), rounds=10
    )
    assert plan.trim_report.fits


def test_next_turn(benchmark: Any) -> None:
    """The same builder, a reply and a message later."""
    _next_turn(benchmark, inputs()["history"])


def test_next_turn_of_a_long_history(benchmark: Any) -> None:
    """5,000 messages, of which 260 fit."""
    _next_turn(benchmark, long_history())


def test_next_turn_of_a_long_history_with_scripts(benchmark: Any) -> None:
    """5,000 messages and twenty regex scripts, one of which asks macros in every second message."""
    _next_turn(benchmark, long_history(), regex_scripts=RegexScripts.from_settings({"regex": SCRIPTS}))


def test_source_map(benchmark: Any) -> None:
    """The map of a turn, without its spans; ``bench_source_map`` compares maps with builds."""
    builder = Builder(**inputs())
    builder.build(message="Good evening.")

    def turn() -> tuple[tuple[Any], dict[str, Any]]:
        return (builder.build(message="Who keeps the tower?"),), {}

    assert benchmark.pedantic(lambda plan: plan.source_map().messages, setup=turn, rounds=10)


def _next_turn(benchmark: Any, history: list[ChatMessage], **more: Any) -> None:
    builder = Builder(**inputs(), **more)
    state = {"chat": history, "turn": 0}
    builder.build(history=history, message="Good evening.")

    def turn() -> tuple[tuple[()], dict[str, Any]]:
        state["turn"] += 1
        reply = ChatMessage(name="Lyra", mes=f"The {state['turn']}th lantern is lit.")
        return (), {"history": [*state["chat"], reply], "message": f"And the {state['turn']}th door?"}

    def build(**given: Any) -> Any:
        plan = builder.build(**given)
        state["chat"] = plan.chat
        return plan

    plan = benchmark.pedantic(build, setup=turn, rounds=50)
    assert plan.trim_report.fits
