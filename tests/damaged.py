"""Files with something wrong in them: recorded ones, with a value or two that nobody would expect."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tavernkit import cards, risu_ai, silly_tavern
from tavernkit.errors import PipelineError, TavernKitError
from tests.conformance.runner import VECTORS

ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        1.5,
        2**70,
        -0.0,
        "",
        "x",
        "0",
        "-1",
        "true",
        "NaN",
        "Infinity",
        "😀",
        "\ud83d",
        "\0",
    ),
    *("{{char}}", "{{", "}}", "{{#if}}", "<START>", "/x/g", "/(/", "\n\n\r\n", "__proto__", "a" * 300),
    *([], [None], [[]], {}, {"a": 1}, [1, "x", {}], [[1, 2], [3]]),
]
"""What may stand in the place of any value."""

BEL = cards.Character(name="Bel")

Json = Any  # what json.loads gives: the tests change it freely


def _objects(value: Json) -> Iterator[dict[str, Json]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(inner)


@cache
def _recorded(surface: str) -> list[Json]:
    lines = (VECTORS / f"{surface}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["input"] for line in lines]


def _having(
    *keys: str, surfaces: tuple[str, ...] = ("silly_tavern/build_chat", "silly_tavern/build_text")
) -> list[Json]:
    found = (each for surface in surfaces for each in _objects(_recorded(surface)))
    return [each for each in found if all(key in each for key in keys)][:40]


def _quiet(_message: str) -> None:
    """Warnings are what is wanted here."""


def _card(data: Json) -> None:
    character = cards.load(json.dumps(data).encode(), warn=_quiet).character
    for package in (silly_tavern, risu_ai):
        plan = package.build(character=character, message="Hello?", warn=None)
        plan.to_messages(dialect="openai")


def _world(data: Json) -> None:
    book = silly_tavern.WorldBook.loads(json.dumps(data), name="book", warn=_quiet)
    book.to_character_book()
    silly_tavern.build(character=BEL, books=[book], message="Hello?", warn=None)


def _preset(data: Json) -> None:
    preset = silly_tavern.Preset.from_json(data, warn=_quiet)
    preset.to_json()
    silly_tavern.build(character=BEL, preset=preset, message="Hello?", warn=None)


def _database(data: Json) -> None:
    save = risu_ai.Save.from_json(data, warn=_quiet)
    for character in save.characters[:1]:
        builder = save.builder(character.id).replace(warn=None)
        builder.build(message="Hello?").to_messages(dialect="openai")


def _databases() -> list[Json]:
    return [{**one.get("db", {}), "characters": one.get("characters", [])} for one in _recorded("risu_ai/build")]


def _risu_chats() -> list[Json]:
    chats = [chat for one in _databases() for each in one["characters"] for chat in each.get("chats", ())]
    return [{"type": "risuChat", "ver": 2, "data": chat} for chat in chats[:40]]


KINDS: dict[str, tuple[Callable[[], list[Json]], Callable[[Json], object]]] = {
    "card": (lambda: _having("spec", "data"), _card),
    "world": (lambda: _having("entries", surfaces=("silly_tavern/world_info", "silly_tavern/build_chat")), _world),
    "preset": (lambda: _having("prompts", "prompt_order"), _preset),
    "settings": (
        lambda: _having("power_user"),
        lambda data: silly_tavern.Settings.from_json(data, warn=_quiet),
    ),
    "instruct": (
        lambda: _having("input_sequence"),
        lambda data: silly_tavern.InstructTemplate.from_json(data, warn=_quiet).to_json(),
    ),
    "context": (
        lambda: _having("story_string"),
        lambda data: silly_tavern.ContextTemplate.from_json(data, warn=_quiet).to_json(),
    ),
    "database": (_databases, _database),
    "risu preset": (_databases, lambda data: risu_ai.Preset.load(json.dumps(data).encode(), warn=_quiet).to_json()),
    "risu chat": (_risu_chats, lambda data: risu_ai.ChatFile.load(json.dumps(data).encode(), warn=_quiet)),
}


def _places(value: Json, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _places(each, (*at, key))


@st.composite
def damaged(draw: st.DrawFn, kind: str) -> Json:
    """A file of a kind with up to three odd values, or members that are gone."""
    data = copy.deepcopy(draw(st.sampled_from(KINDS[kind][0]())))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(data))
        if not places:
            break
        *above, last = draw(st.sampled_from(places))
        holder = data
        for key in above:
            holder = holder[key]
        if draw(st.integers(0, 4)) == 0:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(draw(st.sampled_from(ODD)))
    return data


def check_damage_is_survived(kind: str, data: Json) -> None:
    """Use a file: it may be refused, but only on purpose."""
    try:
        KINDS[kind][1](data)
    except PipelineError as error:
        cause: BaseException | None = error
        while isinstance(cause, TavernKitError) and cause.__cause__ is not None:
            cause = cause.__cause__
        if not isinstance(cause, TavernKitError):
            raise
    except TavernKitError:
        pass
