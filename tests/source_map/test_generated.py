"""Maps of the turns of generated chats are those of new builders, whatever texts, hooks and lore they have."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tavernkit import silly_tavern as st
from tavernkit.cards import Character, User
from tavernkit.prompt import HookRegistry, InjectionRegistry
from tavernkit.stores import InMemoryVariablesStore

KEYS = ("storm", "rain", "lamp", "door")
MACROS = (
    *("{{char}}", "{{user}}", "{{getvar::mood}}", "{{setvar::mood::wild}}", "{{random::a::b::c}}", "{{description}}"),
    *("{{lastMessage}}", "{{pick::x::y}}", "{{trim}}", "{{personality}}", "<USER>", "{{roll:d6}}"),
)
MARKERS = ("worldInfoBefore", "charDescription", "charPersonality", "worldInfoAfter", "dialogueExamples", "chatHistory")


def _text(numbers: random.Random) -> str:
    words = [numbers.choice(("the", "lamp", "sea", "hums", *MACROS[:2])) for _ in range(numbers.randint(2, 6))]
    return " ".join([*words, numbers.choice(("", *MACROS))]) + "."


def _book(numbers: random.Random) -> st.WorldBook:
    entries = [
        {
            "uid": uid,
            "key": [numbers.choice(KEYS)],
            "content": _text(numbers),
            "position": numbers.choice((0, 0, 1, 1, 2, 4, 5)),
            "depth": numbers.randint(0, 3),
            "order": numbers.randint(0, 200),
            "disable": False,
            "useProbability": True,
            "probability": numbers.choice((100, 100, 60)),
        }
        for uid in range(8)
    ]
    return st.WorldBook.from_json({"entries": {str(entry["uid"]): entry for entry in entries}}, name="book")


def _preset(numbers: random.Random) -> st.Preset:
    own = {"role": "system", "system_prompt": False}
    prompts: list[dict[str, Any]] = [
        {"identifier": "main", "role": "system", "content": _text(numbers)},
        {**own, "identifier": "own", "content": _text(numbers)},
        {**own, "identifier": "deep", "content": _text(numbers), "injection_position": 1, "injection_depth": 2},
        *[{"identifier": each, "marker": True} for each in MARKERS],
    ]
    order = [{"identifier": each["identifier"], "enabled": True} for each in prompts]
    wi_format = numbers.choice(("{0}", "{{char}}: {0}", "{{getvar::mood}} {0}"))
    return st.Preset.from_json(
        {"prompts": prompts, "prompt_order": [{"character_id": 100001, "order": order}], "wi_format": wi_format}
    )


def _inputs(numbers: random.Random) -> dict[str, Any]:
    character = Character(
        name="Aria",
        description=_text(numbers),
        personality=_text(numbers),
        first_mes=_text(numbers),
        mes_example="<START>\n{{user}}: Hi\n{{char}}: " + _text(numbers),
    )
    found: dict[str, Any] = {
        "character": character,
        "user": User(name="Ann"),
        "books": [_book(numbers)],
        "preset": _preset(numbers),
        "context_length": numbers.choice((800, 3000, 100_000)),
        "seed": 1,
    }
    if numbers.random() < 0.5:
        story = "{{#if wiBefore}}{{wiBefore}}\n{{/if}}{{description}}\n{{personality}}\n{{wiAfter}}\n"
        template = st.InstructTemplate(enabled=True, input_sequence="### Q", output_sequence="### A")
        found |= {"dialect": "text", "instruct": template, "context_template": st.ContextTemplate(story_string=story)}
    if numbers.random() < 0.4:
        hooks, change = HookRegistry(), numbers.choice((str.upper, "Well, ".__add__))
        hooks.before_build(lambda state: state.change_inputs(message=change(state.context.message)))
        found["hooks"] = hooks
    if numbers.random() < 0.3:
        registry = InjectionRegistry()
        registry.register("note", _text(numbers), numbers.choice(("before_prompt", "in_prompt", "in_chat")))
        found["injections"] = registry
    if numbers.random() < 0.3:
        script = {"scriptName": "shout", "findRegex": "/lamp/g", "replaceString": "LAMP of {{char}}"}
        script |= {"placement": [1, 2, 5], "promptOnly": True}
        found["regex_scripts"] = st.RegexScripts.from_settings({"regex": [script]})
    return found


@pytest.mark.parametrize("seed", range(24))
def test_maps_of_generated_turns_are_those_of_new_builders(seed: int) -> None:
    numbers = random.Random(seed)
    inputs = _inputs(numbers)
    said = [
        {"role": "assistant" if line % 2 else "user", "content": f"{line}: {_text(numbers)}"}
        for line in range(numbers.choice((3, 30, 120)))
    ]
    builder = st.Builder(**inputs)
    for _ in range(3):
        variables = InMemoryVariablesStore()
        variables.set("mood", numbers.choice(("calm", "wild")), scope="local")
        message = f"{numbers.choice(KEYS)} and {numbers.choice(KEYS)}?"
        turn: dict[str, Any] = {"history": list(said), "message": message, "variables": variables}
        found = builder.build(**turn, on_overflow="return").source_map()
        fresh = st.Builder(**inputs).build(**turn, on_overflow="return").source_map()
        assert found.exact
        assert found.to_dict() == fresh.to_dict()
        said += [{"role": "user", "content": message}, {"role": "assistant", "content": _text(numbers)}]
