"""World Info over several turns, with the timed state carried from one to the next."""

from __future__ import annotations

from typing import Any

from tavernkit.silly_tavern._world_info import WorldBook
from tests.conformance.adapters.silly_tavern.world_info import ENGINE, Random, library, scan_input, shown
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given: dict[str, Any] = {**case.input, "chat": list(case.input["chat"])}
    books = library(given)
    timed: object = given["chat_metadata"].get("timedWorldInfo")
    random = Random(given["random"])
    forced: list[Any] = []
    turns: list[object] = []
    for turn in given["turns"]:
        chat = given["chat"][: len(given["chat"]) - turn.get("remove_last", 0)]
        books |= {name: WorldBook.from_json(world, name=name) for name, world in turn.get("books", {}).items()}
        timed = turn.get("set_timed", timed)
        forced += turn.get("force_activate", ())
        given |= {
            "chat": [*chat, *turn.get("add", ())],
            "chat_metadata": {**given["chat_metadata"], "timedWorldInfo": timed},
            "global_select": turn.get("global_select", given["global_select"]),
            "settings": {**given["settings"], **turn.get("settings", {})},
            "force_activate": forced,
            "type": turn.get("type", "normal"),
            "dry_run": turn.get("dry_run", False),
        }
        before = random.used
        scanned = scan_input(given, books, random)
        result = ENGINE.scan(scanned)
        timed = result.timed_state
        if result.passes:
            # They wait for the next scan that has entries.
            forced = []
        turns.append({**shown(result, given, random.used - before), "scan_length": len(scanned.messages)})
    return {"turns": turns}
