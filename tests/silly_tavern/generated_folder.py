"""A data folder of fictional material, laid out as SillyTavern lays its own out. Everything follows from numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tavernkit.cards import Character, save
from tests.conformance.adapters.silly_tavern.folder_inputs import RED_PIXEL, write_bytes, write_json

CHARACTERS, BOOKS, GROUPS, CHATS = 30, 20, 4, 200
FIRST = ("Lyra", "Bram", "Noor", "Edda", "Tomas", "Isolde", "Pell", "Wren", "Casper", "Mirte")
LAST = ("Vale", "Oakes", "Harrow")
PERSONAS = {"mira.png": "Mira", "zoe.png": "Zoe", "ann.png": "Ann", "bob.png": "Bob", "ruth.png": "Ruth"}
THINGS = ("lamp", "bell", "tide", "rope", "gull", "mill", "well", "gate", "cellar", "map")
STORY_STRING = (
    "{{#if anchorBefore}}{{anchorBefore}}\n{{/if}}{{#if wiBefore}}{{wiBefore}}\n{{/if}}{{description}}\n"
    "{{#if scenario}}{{scenario}}\n{{/if}}{{#if wiAfter}}{{wiAfter}}\n{{/if}}{{#if persona}}{{persona}}\n{{/if}}"
    "{{#if anchorAfter}}{{anchorAfter}}\n{{/if}}"
)
DATE = "January 5, 2026 10:30am"


def name_of(index: int) -> str:
    """A character's name."""
    return f"{FIRST[index % len(FIRST)]} {LAST[index // len(FIRST)]}"


def generate(root: Path) -> Path:
    """Write ``<root>/data/default-user`` and return it."""
    folder = root / "data" / "default-user"
    write_json(folder / "settings.json", settings())
    for index in range(CHARACTERS):
        write_character(folder, index)
    for index in range(BOOKS):
        write_json(folder / "worlds" / f"Book {index}.json", book(index))
    for avatar in PERSONAS:
        write_bytes(folder / "User Avatars" / avatar, RED_PIXEL)
    for index, thing in enumerate(THINGS):
        write_bytes(folder / "user" / "files" / f"{thing}.txt", f"Notes on the {thing}, page {index}.".encode())
        write_bytes(folder / "user" / "images" / f"{thing}.png", RED_PIXEL)
    write_presets(folder)
    for index in range(CHATS):
        write_chat(folder, index)
    for index in range(GROUPS):
        write_group(folder, index)
    return folder


def settings() -> dict[str, Any]:
    return {
        "username": "Mira",
        "user_avatar": "mira.png",
        "main_api": "openai",
        "amount_gen": 350,
        "max_context": 8192,
        "oai_settings": {
            "openai_model": "gpt-4o",
            "openai_max_context": 8192,
            "openai_max_tokens": 300,
            "media_inlining": True,
            "preset_settings_openai": "Preset 0",
        },
        "power_user": {
            "tokenizer": 99,
            "personas": PERSONAS,
            "default_persona": None,
            "persona_description": "Mira lost her boat.",
            "persona_descriptions": {
                avatar: {
                    "description": f"{name} is number {index}.",
                    "position": (0, 2, 3, 4, 0)[index],
                    "depth": 2,
                    "role": 0,
                    "lorebook": "Book 3" if avatar == "zoe.png" else "",
                    "connections": [{"type": "character", "id": f"{name_of(7)}.png"}] if avatar == "ann.png" else [],
                }
                for index, (avatar, name) in enumerate(PERSONAS.items())
            },
            "reasoning": {"add_to_prompts": True, "max_additions": 2},
            "context": {"story_string": STORY_STRING, "chat_start": "***"},
        },
        "world_info_settings": {
            "world_info": {
                "globalSelect": ["Book 0", "Book 1"],
                "charLore": [{"name": name_of(2), "extraBooks": ["Book 5", "Book 6"]}],
            },
            "world_info_depth": 4,
            "world_info_budget": 50,
            "world_info_recursive": True,
        },
        "extension_settings": {
            "note": {
                "default": "",
                "chara": [{"name": name_of(4), "prompt": "Own note.", "useChara": True, "position": 2}],
            },
            "memory": {"template": "[Summary: {{summary}}]", "position": 0, "depth": 2},
            "regex": [script("global", "/fog/g", "mist")],
            "character_allowed_regex": [f"{name_of(1)}.png"],
            "variables": {"global": {"season": "winter"}},
            "attachments": [attachment("map")],
            "vectors": {"enabled_files": False, "enabled_chats": False},
        },
        "tag_map": {f"{name_of(index)}.png": [f"tag{index % 3}"] for index in range(CHARACTERS)},
    }


def script(name: str, find: str, replace: str) -> dict[str, Any]:
    return {
        "id": name,
        "scriptName": name,
        "findRegex": find,
        "replaceString": replace,
        "trimStrings": [],
        "placement": [1, 2],
        "disabled": False,
        "promptOnly": True,
        "substituteRegex": 0,
    }


def attachment(thing: str) -> dict[str, Any]:
    return {"url": f"/user/files/{thing}.txt", "name": f"{thing}.txt", "size": 30, "created": 1}


def write_character(folder: Path, index: int) -> None:
    name, thing = name_of(index), THINGS[index % len(THINGS)]
    extensions: dict[str, Any] = {"talkativeness": 0.5}
    if index % 3 == 0:
        extensions["world"] = f"Book {index % BOOKS}"
    if index % 5 == 1:
        extensions["regex_scripts"] = [script(f"of {name}", f"/{thing}/", thing.upper())]
    if index % 7 == 2:
        extensions["depth_prompt"] = {"prompt": f"{name} thinks of the {thing}.", "depth": 2, "role": "system"}
    data = {
        "name": name,
        "description": f"{{{{char}}}} keeps the {thing}.",
        "personality": "dry, patient",
        "scenario": "{{user}} has washed ashore.",
        "first_mes": f"Mind the {thing}, {{{{user}}}}.",
        "mes_example": "<START>\n{{user}}: Do you sleep?\n{{char}}: Between ships.",
        "creator_notes": "",
        "system_prompt": "Be {{char}}. {{original}}" if index % 11 == 0 else "",
        "post_history_instructions": "Stay brief." if index % 13 == 0 else "",
        "tags": ["harbour"],
        "creator": "",
        "character_version": "1",
        "alternate_greetings": ["Oh. You."],
        "extensions": extensions,
    }
    path = folder / "characters" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    save(Character.from_card({"spec": "chara_card_v2", "spec_version": "2.0", "data": data}), path)


def book(index: int) -> dict[str, Any]:
    def entry(uid: int) -> dict[str, Any]:
        thing = THINGS[(index + uid) % len(THINGS)]
        return {
            "uid": uid,
            "key": [thing],
            "keysecondary": [],
            "comment": f"{thing} in book {index}",
            "content": f"Book {index} says of the {thing}: it is {uid}.",
            "constant": uid == 0 and index % 4 == 0,
            "selective": False,
            "order": 100 - uid,
            "position": uid % 5,
            "depth": 3,
            "disable": uid == 7,
            "probability": 100,
            "useProbability": True,
        }

    return {"entries": {str(uid): entry(uid) for uid in range(8)}}


def write_presets(folder: Path) -> None:
    for index in range(3):
        write_json(folder / "OpenAI Settings" / f"Preset {index}.json", {"temperature": 0.5 + index / 10})
    write_json(folder / "TextGen Settings" / "Calm.json", {"temp": 0.7, "top_p": 0.9})
    write_json(folder / "KoboldAI Settings" / "Calm.json", {"temp": 0.7})
    write_json(folder / "NovelAI Settings" / "Calm.json", {"temperature": 0.7})
    write_json(folder / "instruct" / "Plain.json", {"name": "Plain", "input_sequence": "### You:"})
    write_json(folder / "context" / "Plain.json", {"name": "Plain", "story_string": "{{description}}"})
    write_json(folder / "sysprompt" / "Plain.json", {"name": "Plain", "content": "Be {{char}}."})
    write_json(folder / "reasoning" / "Square.json", {"name": "Square", "prefix": "[", "suffix": "]", "separator": " "})
    write_json(folder / "QuickReplies" / "Dice.json", {"name": "Dice", "qrList": [{"label": "d6", "message": "/roll"}]})


def header(metadata: dict[str, Any]) -> dict[str, Any]:
    return {"user_name": "unused", "character_name": "unused", "chat_metadata": metadata}


def line(name: str, mes: str, *, user: bool = False, **extra: Any) -> dict[str, Any]:
    return {"name": name, "is_user": user, "is_system": False, "send_date": DATE, "mes": mes, "extra": extra}


def lines_of(index: int, name: str) -> list[dict[str, Any]]:
    """A chat's lines: a greeting, then turns about things."""
    found = [line(name, f"Mind the {THINGS[index % len(THINGS)]}, {{{{user}}}}.")]
    for turn in range(2 + index % 7):
        thing = THINGS[(index + turn) % len(THINGS)]
        found.append(line("Mira", f"What of the {thing}?", user=True))
        found.append(line(name, f"The {thing} is old, and there is fog. {{{{char}}}} nods."))
    return found


Feature = Callable[[dict[str, Any], list[dict[str, Any]]], None]


def inject(metadata: dict[str, Any], _lines: list[dict[str, Any]]) -> None:
    place = {"position": 1, "depth": 1, "scan": False, "role": 0, "filter": None}
    metadata["script_injects"] = {"w": {"value": "It rains.", **place}}


def lock(metadata: dict[str, Any], _lines: list[dict[str, Any]]) -> None:
    metadata["persona"] = "zoe.png"


def summary(_metadata: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    lines[1]["extra"]["memory"] = "They met."


def note(metadata: dict[str, Any], _lines: list[dict[str, Any]]) -> None:
    metadata |= {"note_prompt": "Mind the note.", "note_interval": 1, "note_position": 1, "note_depth": 2}


def files(_metadata: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    lines[1]["extra"]["files"] = [attachment("tide")]


def picture(_metadata: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    lines[1]["extra"]["image"] = "/user/images/gull.png"


def reasoning(_metadata: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    lines[2]["extra"]["reasoning"] = "Hm, the tide."


def chat_book(metadata: dict[str, Any], _lines: list[dict[str, Any]]) -> None:
    metadata["world_info"] = "Book 8"


def hidden(_metadata: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    lines.append({**line("Note", "Nobody reads this."), "is_system": True})


def overrides(metadata: dict[str, Any], _lines: list[dict[str, Any]]) -> None:
    metadata["scenario"] = "The harbour burns."


FEATURES: tuple[tuple[Feature, str], ...] = (
    (inject, "It rains."),
    (lock, "Zoe is number 1."),
    (summary, "[Summary: They met.]"),
    (note, "Mind the note."),
    (files, "Notes on the tide, page 2."),
    (picture, ""),
    (reasoning, "<think>Hm, the tide.</think>"),
    (chat_book, "Book 8 says of the cellar: it is 0."),
    (hidden, ""),
    (overrides, "The harbour burns."),
)
"""What chats carry, one feature each in turn, and a text that must be in their prompts."""


def chat_name(index: int) -> str:
    return f"chat {index}"


def write_chat(folder: Path, index: int) -> None:
    name = name_of(index % CHARACTERS)
    metadata: dict[str, Any] = {"chat_id_hash": index}
    lines = lines_of(index, name)
    FEATURES[index % len(FEATURES)][0](metadata, lines)
    ends = "\r\n" if index % 9 == 0 else "\n"
    text = ends.join(json.dumps(each) for each in [header(metadata), *lines])
    write_bytes(folder / "chats" / name / f"{chat_name(index)}.jsonl", text.encode())


def write_group(folder: Path, index: int) -> None:
    members = [f"{name_of(index * 5 + each)}.png" for each in range(3)]
    chats = [f"group {index} chat {each}" for each in range(2)]
    group = {
        "id": f"g{index}",
        "name": f"Group {index}",
        "members": members,
        "disabled_members": [],
        "activation_strategy": index % 4,
        "generation_mode": index % 3,
        "allow_self_responses": False,
        "chat_id": chats[0],
        "chats": chats,
    }
    write_json(folder / "groups" / f"g{index}.json", group)
    for each, name in enumerate(chats):
        lines = lines_of(index + each, name_of(index * 5))
        text = "\n".join(json.dumps(line) for line in [header({}), *lines])
        write_bytes(folder / "group chats" / f"{name}.jsonl", text.encode())
