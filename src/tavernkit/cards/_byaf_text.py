"""Backyard's texts: its macros, and a card made from its character and scenarios."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tavernkit._values import EMPTY_OBJECT, Json, JsonObject, is_mapping, is_sequence
from tavernkit.errors import Warn

_MACROS = (
    (re.compile(r"#\{user\}:", re.IGNORECASE), "{{user}}:"),
    (re.compile(r"#\{character\}:", re.IGNORECASE), "{{char}}:"),
    (re.compile(r"\{character\}(?!\})", re.IGNORECASE), "{{char}}"),
    (re.compile(r"\{user\}(?!\})", re.IGNORECASE), "{{user}}"),
)


def from_backyard(text: str) -> str:
    """Convert Backyard's macros to the common ones."""
    for pattern, replacement in _MACROS:
        text = pattern.sub(replacement, text)
    return text


def to_backyard(text: str, where: str, warn: Warn) -> str:
    """Convert macros to Backyard's, if reading them gives the same text again."""
    rewritten = text.replace("{{user}}", "{user}").replace("{{char}}", "{character}")
    if from_backyard(rewritten) == text:
        return rewritten
    if from_backyard(text) != text:
        warn(f"{where} has {{user}} or {{character}} in single braces, which Backyard takes for macros")
    return text


def text_of(value: object) -> str:
    """Return a text; an empty text for anything else."""
    return value if isinstance(value, str) else ""


def message_texts(scenario: Mapping[str, object], key: str) -> list[str]:
    """The texts of a scenario's first or example messages."""
    items = scenario.get(key)
    texts = (text_of(item.get("text")) for item in (items if is_sequence(items) else ()) if is_mapping(item))
    return [text for text in texts if text]


def first_message(scenario: Mapping[str, object]) -> str:
    """The text that opens a scenario."""
    items = scenario.get("firstMessages")
    first = items[0] if is_sequence(items) and items else None
    return text_of(first.get("text")) if is_mapping(first) else ""


def example_messages(scenario: Mapping[str, object]) -> str:
    """A scenario's example messages as a card has them."""
    texts = message_texts(scenario, "exampleMessages")
    return "".join(f"<START>\n{from_backyard(text)}\n" for text in texts).rstrip()


def card_data(
    manifest: Mapping[str, object], character: Mapping[str, object], scenarios: Sequence[Mapping[str, object]]
) -> JsonObject:
    """Make the data of a V2 card."""
    stated = manifest.get("author")
    author = stated if is_mapping(stated) else EMPTY_OBJECT
    first = scenarios[0] if scenarios else EMPTY_OBJECT
    display_name = text_of(character.get("displayName"))
    data: JsonObject = {
        "name": text_of(character.get("name")) or display_name,
        "description": from_backyard(text_of(character.get("persona"))),
        "personality": "",
        "scenario": from_backyard(text_of(first.get("narrative"))),
        "first_mes": from_backyard(first_message(first)),
        "mes_example": example_messages(first),
        "creator_notes": text_of(author.get("backyardURL")),
        "system_prompt": from_backyard(text_of(first.get("formattingInstructions"))),
        "post_history_instructions": "",
        "alternate_greetings": [*_alternate_greetings(scenarios)],
        "tags": ["nsfw"] if character.get("isNSFW") else [],
        "creator": text_of(author.get("name")),
        "character_version": "",
        "extensions": {"display_name": display_name} if display_name.strip() else {},
    }
    lore = character.get("loreItems")
    items = [item for item in (lore if is_sequence(lore) else ()) if is_mapping(item)]
    if items:
        entries: list[Json] = [_entry(item, index) for index, item in enumerate(items)]
        data["character_book"] = {"entries": entries, "extensions": {}}
    return data


def _alternate_greetings(scenarios: Sequence[Mapping[str, object]]) -> list[str]:
    opening = first_message(scenarios[0]) if scenarios else ""
    later = (first_message(scenario) for scenario in scenarios[1:])
    return list(dict.fromkeys(from_backyard(text) for text in later if text.strip() and text != opening))


def _entry(item: Mapping[str, object], index: int) -> JsonObject:
    keys: list[Json] = [*split_keys(from_backyard(text_of(item.get("key"))))]
    content = from_backyard(text_of(item.get("value")))
    return {"keys": keys, "content": content, "extensions": {}, "enabled": True, "insertion_order": index}


def split_keys(text: str) -> list[str]:
    """Split a lore item's key at its commas."""
    return [key for key in (part.strip() for part in text.split(",")) if key]
