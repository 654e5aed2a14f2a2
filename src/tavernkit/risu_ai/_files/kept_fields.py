"""Characters and groups that are kept as cards and lists of members: what these have no place for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._values import EMPTY_OBJECT, JsonObject, is_list, is_mapping, thaw, thaw_object
from tavernkit.cards._bundle import Bundle
from tavernkit.errors import Warn
from tavernkit.risu_ai._objects import RisuCharacter, RisuModule

KEPT_FIELDS = ("chaId", "escapeOutput", "modules")
"""What cards have no place for of a character: its id, which chats name speakers by, and what else shapes prompts."""
KEPT_IN = "tavernkit_risuai"
"""The extension of a card in which they are kept."""
GROUP_KEYS = (
    *("characterTalks", "characterActive", "orderByOrder", "globalLore", "customscript", "loreSettings", "modules"),
)
"""What a group may say in RisuAI's words."""
TALKATIVENESS = 0.5
NEW_MEMBER_TALKS = 2 / 3
"""How talkative RisuAI makes those who join a group, whatever their cards say."""


def with_kept_fields(raw: Mapping[str, object]) -> JsonObject:
    """Return a character to make a card of, which then holds what cards have no place for."""
    others = raw.get("extentions")  # as RisuAI spells it
    extensions: JsonObject = thaw_object(others) if is_mapping(others) else {}
    extensions[KEPT_IN] = {key: thaw(raw[key]) for key in KEPT_FIELDS if raw.get(key)}
    card: JsonObject = {key: thaw(value) for key, value in raw.items()}
    card["extentions"] = extensions
    return card


def kept_fields(bundle: Bundle) -> Mapping[str, object]:
    """Return what a card was given to keep."""
    kept = bundle.character.extensions.get(KEPT_IN)
    return {key: kept[key] for key in KEPT_FIELDS if key in kept} if is_mapping(kept) else EMPTY_OBJECT


def kept_character(bundle: Bundle, **fields: object) -> RisuCharacter:
    """Return the character of a card, with what the card was given to keep and other fields."""
    from tavernkit.risu_ai._files.card_import import character_from_card  # with the lorebook's engine

    return RisuCharacter.from_json({**character_from_card(bundle).raw, **kept_fields(bundle), **fields})


def group_of(members: Sequence[RisuCharacter]) -> RisuCharacter:
    """Make a group of these characters, as RisuAI makes a new one: all of them speak."""
    return RisuCharacter.from_json(
        {
            "type": "group",
            "chaId": "group",
            "name": ", ".join(member.name for member in members),
            "characters": [member.id for member in members],
            "characterTalks": [NEW_MEMBER_TALKS for _ in members],
            "characterActive": [True for _ in members],
        }
    )


def make_group(
    name: str,
    members: Mapping[str, object],
    *,
    group_id: str,
    muted: Sequence[str],
    in_order: bool,
    own: Mapping[str, object],
) -> RisuCharacter:
    """Make a group.

    Args:
        name: Its name.
        members: The ids of its members, and how talkative each is.
        group_id: Its id.
        muted: The ids of those who do not speak.
        in_order: True if all speak in the order of the list.
        own: What is said in RisuAI's words, which wins.
    """
    data: JsonObject = {
        "type": "group",
        "chaId": group_id,
        "name": name,
        "characters": [*members],
        "characterTalks": [_talkativeness(each) for each in members.values()],
        "characterActive": [member not in muted for member in members],
        "orderByOrder": in_order,
    }
    said: JsonObject = {key: thaw(own[key]) for key in GROUP_KEYS if key in own}
    talks = said.get("characterTalks")
    if is_list(talks):
        said["characterTalks"] = [_talkativeness(each) for each in talks]
    return RisuCharacter.from_json(data | said)


def lore_module(module_id: str, name: str, book: object, *, warn: Warn) -> RisuModule:
    """Make a module that contains only the lore of a book, because RisuAI has no separate books.

    Args:
        module_id: The id of the module.
        name: Its name.
        book: The book, as SillyTavern or a card has it.
        warn: Called with each warning.
    """
    from tavernkit.risu_ai._lorebook.book import import_lorebook

    entries = import_lorebook(book, warn=warn)
    return RisuModule.from_json({"id": module_id, "name": name, "lorebook": entries})


def _talkativeness(value: object) -> float:
    try:
        return float(value) if isinstance(value, (int, float, str)) else TALKATIVENESS
    except (ValueError, OverflowError):
        return TALKATIVENESS
