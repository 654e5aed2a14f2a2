"""Contexts as the lore and script vectors write them."""

from __future__ import annotations

import itertools
import json
from functools import cache
from typing import Any

from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuPersona, RisuSettings
from tavernkit.stores._variables import InMemoryVariablesStore
from tests.conformance.runner import VECTORS


@cache
def defaults() -> Any:
    return json.loads((VECTORS / "risu_ai" / "risu_build_defaults.json").read_text("utf-8"))


def database(given: Any) -> dict[str, Any]:
    return {**defaults()["db"], **given.get("db", {})}


def characters_of(given: Any) -> list[dict[str, Any]]:
    base = defaults()
    found = []
    for number, character in enumerate(given["characters"]):
        chats = [{**base["chat"], **chat} for chat in character.get("chats", [{}])]
        found.append({**base["character"], "chaId": f"char-{number}", **character, "chats": chats})
    return found


def context_of(given: Any) -> CBSContext:
    characters = characters_of(given)
    db = database(given)
    chat = characters[0]["chats"][0]
    state = {name.removeprefix("$"): value for name, value in chat.get("scriptstate", {}).items()}
    randoms = itertools.cycle(given.get("random", [0.5]))
    return CBSContext(
        char=RisuCharacter.from_json(characters[0]),
        characters=tuple(RisuCharacter.from_json(each) for each in characters),
        chat=RisuChat.from_json(chat),
        user=db.get("username"),
        personas=tuple(RisuPersona.from_json(each) for each in db.get("personas", [])),
        settings=RisuSettings.from_json(db),
        variables=InMemoryVariablesStore({"local": state, "global": db.get("globalChatVariables", {})}),
        random=lambda: next(randoms),
    )
