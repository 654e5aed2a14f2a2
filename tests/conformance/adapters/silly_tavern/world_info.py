"""Single World Info scans; the multi-turn surface uses the same parts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tavernkit._text.js_values import UNDEFINED
from tavernkit.budget import get_tokenizer
from tavernkit.silly_tavern._chat.authors_note import AuthorsNote, NoteSettings, authors_note, with_lore
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.core_chat import core_chat, scan_messages
from tavernkit.silly_tavern._chat.extension_prompts import AUTHORS_NOTE, ExtensionPrompt, ExtensionPrompts
from tavernkit.silly_tavern._files.chat_file import ChatMetadata
from tavernkit.silly_tavern._scripts.regex_scripts import RegexPlacement, RegexScript, RegexScripts
from tavernkit.silly_tavern._world_info import (
    DepthGroup,
    Entry,
    ScanData,
    ScanInput,
    Speaker,
    WorldBook,
    WorldInfoEngine,
    WorldInfoResult,
    WorldInfoSettings,
    character_book_names,
    character_lore,
    select_books,
)
from tests.conformance.adapters.silly_tavern.expand_macros import ExpandMacros
from tests.conformance.runner import Case

ENGINE = WorldInfoEngine()


def ignore(message: str) -> None:
    """Wording is ours and not compared."""


class Random:
    """The recorded numbers, counted as they are used."""

    def __init__(self, values: list[float]) -> None:
        self._values = values
        self.used = 0

    def __call__(self) -> float:
        self.used += 1
        return self._values[self.used - 1]


def estimate(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / 3.35)


def counter(name: str) -> Callable[[str], int]:
    if name == "estimate":
        return estimate
    count = get_tokenizer("cl100k_base").count
    return count if name == "cl100k_base" else lambda text: count(text) + 6


def library(given: Mapping[str, Any]) -> dict[str, WorldBook]:
    books = {name: WorldBook.from_json(world, name=name) for name, world in given["books"].items()}
    for name, text in given.get("books_json", {}).items():
        books[name] = WorldBook.loads(text, name=name)
    return books


def note(given: Mapping[str, Any]) -> AuthorsNote:
    metadata = ChatMetadata.from_json(given["chat_metadata"])
    users = sum(bool(message.get("is_user")) for message in given["chat"])
    return authors_note(metadata, NoteSettings(), users, None)


def named(books: Mapping[str, WorldBook], names: Iterable[str | None]) -> list[WorldBook]:
    return [books[name] for name in names if name is not None and name in books]


def scan_input(given: Mapping[str, Any], books: dict[str, WorldBook], random: Random) -> ScanInput:
    settings = WorldInfoSettings.from_json(given["settings"])
    character = given.get("character")
    avatar = character["avatar"] if character else None
    world = character.get("data", {}).get("extensions", {}).get("world") if character else None
    macros = ExpandMacros(given["user_name"], character["name"] if character else "")
    scripts = RegexScripts(tuple(map(RegexScript.from_json, given.get("regex_scripts", ()))))
    data = given.get("scan_data", {})
    prompts = [
        ExtensionPrompt(key, prompt["value"], scan=prompt["scan"])
        for key, prompt in given.get("extension_prompts", {}).items()
        if prompt.get("filter_result", True)
    ]
    if character:
        prompts.append(ExtensionPrompt(AUTHORS_NOTE, note(given).text, scan=given.get("note_allow_wi_scan", False)))
    return ScanInput(
        messages=scan_messages(
            core_chat(
                [ChatMessage.from_json(line) for line in given["chat"]], generation_type=given["type"], with_tools=False
            ),
            with_names=settings.include_names,
        ),
        books=select_books(
            global_=named(books, given["global_select"]),
            character=named(books, character_book_names(world, avatar, character_lore(given.get("char_lore")))),
            chat=named(books, [given["chat_metadata"].get("world_info")]),
            persona=named(books, [given.get("persona_lorebook")]),
        ),
        max_context=given["max_context"],
        count_tokens=counter(given["tokenizer"]),
        settings=settings,
        scan_data=ScanData(
            persona_description=data.get("personaDescription", ""),
            character_description=data.get("characterDescription", ""),
            character_personality=data.get("characterPersonality", ""),
            character_depth_prompt=data.get("characterDepthPrompt", ""),
            scenario=data.get("scenario", ""),
            creator_notes=data.get("creatorNotes", ""),
        ),
        injects=ExtensionPrompts(prompts).scanned(macros),
        generation_type=given["type"],
        speaker=Speaker(avatar, frozenset(given.get("tag_map", {}).get(avatar, ()))) if avatar else None,
        timed_state=ChatMetadata.from_json(given["chat_metadata"]).timed_world_info,
        forced=given.get("force_activate", ()),
        dry_run=given["dry_run"],
        expand=macros,
        apply_regex=lambda text, depth: scripts.apply(
            text, RegexPlacement.WORLD_INFO, expand=macros, is_prompt=True, depth=depth
        ),
        random=random,
        warn=ignore,
    )


def uid_of(entry: Entry) -> dict[str, object]:
    """A missing uid is a missing key."""
    return {} if entry.uid is UNDEFINED else {"uid": entry.uid}


def depth_group(group: DepthGroup) -> dict[str, object]:
    shown = {"role": group.role, "entries": [placed.content for placed in group.entries]}
    return shown if group.depth is UNDEFINED else {"depth": group.depth, **shown}


def shown(result: WorldInfoResult, given: Mapping[str, Any], random_used: int) -> dict[str, object]:
    if given.get("character"):
        text = with_lore(note(given).text, result.an_top, result.an_bottom) if note(given).due else ""
    else:
        text = None
    return {
        "activated": [{"world": one.world, **uid_of(one.entry)} for one in result.activated],
        "worldInfoBefore": result.before,
        "worldInfoAfter": result.after,
        "anBefore": list(result.an_top),
        "anAfter": list(result.an_bottom),
        "emEntries": [{"position": 0 if one.before else 1, "content": one.content} for one in result.examples],
        "depthEntries": [depth_group(group) for group in result.depth_groups],
        "outletEntries": {
            name: [placed.content for placed in entries] for name, entries in result.placement.outlets.items()
        },
        "authorsNotePrompt": text,
        "budget": result.budget,
        "overflowed": result.overflowed,
        "loops": [
            {"state": one.type, "next": one.next, "new": one.new, "successful": one.successful} for one in result.passes
        ],
        "timedWorldInfo": json.loads(json.dumps(result.timed_state)),
        "random_consumed": random_used,
    }


def run(case: Case) -> object:
    random = Random(case.input["random"])
    result = ENGINE.scan(scan_input(case.input, library(case.input), random))
    return shown(result, case.input, random.used)
