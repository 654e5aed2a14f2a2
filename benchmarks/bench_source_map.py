"""Source maps against builds: a turn with the map of all its messages should take at most twice a turn without.

``python -m benchmarks.bench_source_map [scenario…]`` prints both and their ratio; with ``--json``, one JSON object.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import pytest

from benchmarks import bench_risu_build, bench_st_build, bench_st_text, workloads
from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit.budget._tokenizers import get_tokenizer
from tavernkit.cards import Character
from tavernkit.prompt import HookRegistry, InjectionRegistry, Plan
from tavernkit.stores import InMemoryVariablesStore

Inputs: TypeAlias = dict[str, Any]
Turns: TypeAlias = Iterator[Callable[[], Plan]]
"""Functions that build one turn of a chat after the other."""
Each: TypeAlias = Callable[[int], Inputs]
"""Gives the inputs of a turn by its number."""

ROUNDS = 12
REPEATS = 5
KEYS = [entry["key"][0] for entry in workloads.lore(200)["book"]["entries"].values()]


def _message(turn: int) -> Inputs:
    return {"message": f"And what about door {turn}?"}


def _other_lore(turn: int) -> Inputs:
    return {"message": f"And what about {KEYS[turn % len(KEYS)]}?"}


def _variables(turn: int) -> Inputs:
    store = InMemoryVariablesStore()
    store.set("mood", f"mood {turn}", scope="local")
    return {**_message(turn), "variables": store}


def _silly_tavern(given: Inputs, each: Each = _message) -> Turns:
    builder, history, turn = st.Builder(**given), list(given["history"]), 0
    while True:
        turn += 1
        history.append(st.ChatMessage(name="Lyra", mes=f"The {turn}th lantern is lit."))
        given = each(turn) | {"history": tuple(history)}
        yield partial(builder.build, **given)
        history.append(st.ChatMessage(name="Mira", mes=str(each(turn)["message"]), is_user=True))


def _risu(given: Inputs, each: Each = _message) -> Turns:
    builder, chat, turn = risu_ai.Builder(**given), given["history"], 0
    while True:
        turn += 1
        chat = replace(
            chat, messages=(*chat.messages, risu_ai.RisuMessage(role="char", data=f"The {turn}th lantern is lit."))
        )
        given = each(turn) | {"history": chat}
        yield partial(builder.build, **given)
        said = risu_ai.RisuMessage(role="user", data=str(each(turn)["message"]))
        chat = replace(chat, messages=(*chat.messages, said))


def _with_description(given: Inputs, added: str) -> Inputs:
    card = given["character"]
    return {**given, "character": replace(card, description=card.description + added)}


def _hooks() -> HookRegistry:
    hooks = HookRegistry()

    @hooks.before_build
    def _shout(state: Any) -> None:
        state.change_inputs(message=state.context.message.upper())

    return hooks


def _injections() -> InjectionRegistry:
    registry = InjectionRegistry()
    registry.register("weather", "It rains on {{char}}.", "in_chat", depth=2)
    return registry


def _st_scenarios(name: str, inputs: Callable[[], Inputs]) -> Iterator[tuple[str, Callable[[], Turns]]]:
    note = st.ChatMetadata.from_json({"note_prompt": "{{char}} is tired.", "note_interval": 1, "note_depth": 4})
    second = Character(name="Bel", description="{{char}} sails.", first_mes="Ahoy.")

    def group() -> Inputs:
        given = inputs()
        members = {"a.png": given.pop("character"), "b.png": second}
        return {
            **given,
            "group": st.Group(members=tuple(members), generation_mode="append"),
            "members": members,
            "speaker": "a.png",
        }

    yield f"{name} new message", lambda: _silly_tavern(inputs())
    yield f"{name} other lore", lambda: _silly_tavern(inputs(), _other_lore)
    yield (
        f"{name} variables",
        lambda: _silly_tavern(
            _with_description(inputs(), " {{setvar::seen::yes}}{{char}} is in a {{getvar::mood}}."), _variables
        ),
    )
    yield f"{name} note", lambda: _silly_tavern({**inputs(), "chat_metadata": note})
    yield f"{name} hooks", lambda: _silly_tavern({**inputs(), "hooks": _hooks()})
    yield f"{name} injections", lambda: _silly_tavern({**inputs(), "injections": _injections()})
    yield (
        f"{name} scripts",
        lambda: _silly_tavern(
            {**inputs(), "regex_scripts": st.RegexScripts.from_settings({"regex": bench_st_build.SCRIPTS})}
        ),
    )
    yield f"{name} group", lambda: _silly_tavern(group())


def _risu_scenarios() -> Iterator[tuple[str, Callable[[], Turns]]]:
    inputs = bench_risu_build.inputs

    def group() -> Inputs:
        given = inputs()
        first = replace(given["character"], id="a")
        second = risu_ai.RisuCharacter(name="Bel", id="b", description="{{char}} sails.", first_message="Ahoy.")
        owner = risu_ai.RisuCharacter.from_json(
            {"type": "group", "name": "Two", "chaId": "g", "characters": ["a", "b"], "characterTalks": [1, 1]}
        )
        return {**given, "character": owner, "members": [first, second], "speaker": "a"}

    yield "risu new message", lambda: _risu(inputs())
    yield "risu other lore", lambda: _risu(inputs(), _other_lore)
    yield (
        "risu variables",
        lambda: _risu(
            _with_description(inputs(), " {{setvar::seen::yes}}{{char}} is in a {{getvar::mood}}."), _variables
        ),
    )
    yield (
        "risu note",
        lambda: _risu({**inputs(), "history": replace(inputs()["history"], note="{{char}} is tired.")}),
    )
    yield "risu hooks", lambda: _risu({**inputs(), "hooks": _hooks()})
    yield "risu group", lambda: _risu(group())


SCENARIOS: Mapping[str, Callable[[], Turns]] = dict(
    [*_st_scenarios("chat", bench_st_build.inputs), *_st_scenarios("text", bench_st_text.inputs), *_risu_scenarios()]
)


def read_map(plan: Plan) -> None:
    """Make the map of a plan, with the spans of all messages."""
    for _ in plan.source_map().messages:
        pass


def _time(turn: Callable[[], Plan], *, mapped: bool) -> float:
    gc.collect()
    begun = time.process_time()
    plan = turn()
    if mapped:
        read_map(plan)
    return time.process_time() - begun


def measure(name: str) -> dict[str, tuple[float, float]]:
    """Milliseconds of a build, and of a build and its map: with a warm builder, a new one, and ten turns late.

    Each turn is measured several times, and the least counts: other programs only ever add to it.
    """
    make = SCENARIOS[name]
    for _ in range(2):  # imports and tokenizers
        _time(next(make()), mapped=True)
    first = [min(_time(next(make()), mapped=mapped) for _ in range(REPEATS)) for mapped in (False, True)]
    late: list[list[float]] = [[], []]
    for _ in range(REPEATS):
        turns = make()
        for _ in range(10):
            next(turns)()
        late[0].append(_time(next(turns), mapped=False))
        late[1].append(_time(next(turns), mapped=True))
    rounds = [_steady(make) for _ in range(REPEATS)]
    steady = [sum(min(times) for times in zip(*each, strict=True)) / ROUNDS for each in zip(*rounds, strict=True)]
    return {
        what: (build * 1000, both * 1000)
        for what, (build, both) in (("next", steady), ("first", first), ("late", map(min, late)))
    }


def _steady(make: Callable[[], Turns]) -> tuple[list[float], list[float]]:
    """Measure the same turns of two builders, of which the second makes maps, one after the other."""
    plain, mapped = make(), make()
    for _ in range(3):
        _time(next(plain), mapped=False)
        _time(next(mapped), mapped=True)
    times = [(_time(next(plain), mapped=False), _time(next(mapped), mapped=True)) for _ in range(ROUNDS)]
    return [without for without, _ in times], [both for _, both in times]


@pytest.mark.parametrize("name", SCENARIOS)
def test_build_and_map(benchmark: Any, name: str) -> None:
    """A turn and its map; ``ratio`` compares it with a turn alone."""
    found = measure(name)
    benchmark.extra_info.update({what: both / build for what, (build, both) in found.items()})
    turns = SCENARIOS[name]()
    read_map(next(turns)())
    benchmark.pedantic(lambda turn: read_map(turn()), setup=lambda: ((next(turns),), {}), rounds=5)


def main() -> None:
    """Print a table of all scenarios, or of those whose names have the words given."""
    get_tokenizer("cl100k_base")
    words = [word for word in sys.argv[1:] if word != "--json"]
    chosen = [name for name in SCENARIOS if not words or any(word in name for word in words)]
    if "--json" in sys.argv:
        print(json.dumps({name: measure(name) for name in chosen}))
        return
    print(f"{'milliseconds':20}" + "".join(f"{what:>30}" for what in ("next", "first", "late")))
    for name in chosen:
        shown = [f"{build:8.2f} {both:8.2f} = {both / build:5.2f} x" for build, both in measure(name).values()]
        print(f"{name:20}" + "".join(f"{each:>30}" for each in shown), flush=True)


if __name__ == "__main__":
    main()
