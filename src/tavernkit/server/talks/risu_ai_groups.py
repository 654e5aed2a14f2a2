"""Characters and groups in the way of RisuAI: what it makes of those of the library, and who said what."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tavernkit import risu_ai
from tavernkit._values import JsonObject, is_list, is_mapping, thaw, thaw_object
from tavernkit.cards import Bundle
from tavernkit.models import Reply
from tavernkit.server.errors import ServiceError
from tavernkit.server.library import Cast
from tavernkit.server.storage.chats import ChatLine
from tavernkit.server.talks.risu_ai_lines import NEUTRAL
from tavernkit.server.talks.talk import Spoken, TalkInput

OWN_KEYS = (
    "characterTalks",
    "characterActive",
    "orderByOrder",
    "globalLore",
    "customscript",
    "loreSettings",
    "modules",
)
"""What a group may say in RisuAI's words; else it is made of SillyTavern's."""

KEPT_FIELDS = ("chaId", "escapeOutput", "modules")
"""What cards have no place for of a character: its id, which chats name speakers by, and what else shapes prompts."""
KEPT_IN = "tavernkit_risuai"
"""The extension of a card in which they are kept."""

TALKATIVENESS = 0.5
SPEAKER = "tavernkit_speaker"
"""Where the name of a message's sender is kept in it: RisuAI keeps an id."""


def with_kept_fields(raw: Mapping[str, object]) -> JsonObject:
    """A character of a save to make a card of, which then holds what cards have no place for."""
    others = raw.get("extentions")  # as RisuAI spells it
    extensions: JsonObject = thaw_object(others) if is_mapping(others) else {}
    extensions[KEPT_IN] = {key: thaw(raw[key]) for key in KEPT_FIELDS if raw.get(key)}
    card: JsonObject = {key: thaw(value) for key, value in raw.items()}
    card["extentions"] = extensions
    return card


def character_of(bundle: Bundle) -> risu_ai.RisuCharacter:
    """The character of a card, with what the card was given to keep."""
    made = risu_ai.character_from_card(bundle)
    kept = bundle.character.extensions.get(KEPT_IN)
    if not is_mapping(kept):
        return made
    return risu_ai.RisuCharacter.from_json({**made.raw, **{key: kept[key] for key in KEPT_FIELDS if key in kept}})


def ids_of(cast: Cast) -> dict[str, str]:
    """The ids that the members of a group have in RisuAI's chats, by those they have here."""
    found: dict[str, str] = {}
    for member, bundle in cast.members.items():
        kept = bundle.character.extensions.get(KEPT_IN)
        own = kept.get("chaId") if is_mapping(kept) else None
        found[member] = own if isinstance(own, str) and own and own not in found.values() else member
    return found


def group_of(cast: Cast) -> risu_ai.RisuCharacter:
    """The group of a cast as RisuAI has it."""
    group = cast.group
    assert group is not None
    muted = {*group.disabled_members} if group.activation_strategy not in ("manual", None) else {*cast.members}
    data: JsonObject = {
        "type": "group",
        "chaId": cast.selection.group or "",
        "name": group.name,
        "characters": list(ids_of(cast).values()),
        "characterTalks": [
            _talkativeness(bundle.character.extensions.get("talkativeness")) for bundle in cast.members.values()
        ],
        "characterActive": [member not in muted for member in cast.members],
        "orderByOrder": group.activation_strategy == "list",
    }
    own: JsonObject = {key: thaw(group.source[key]) for key in OWN_KEYS if key in group.source}
    talks = own.get("characterTalks")
    if is_list(talks):
        own["characterTalks"] = [_talkativeness(each) for each in talks]
    return risu_ai.RisuCharacter.from_json(data | own)


def members_of(cast: Cast) -> list[risu_ai.RisuCharacter]:
    """The members of a cast's group."""
    ids = ids_of(cast)
    made = {member: character_of(bundle) for member, bundle in cast.members.items()}
    return [risu_ai.RisuCharacter.from_json({**each.raw, "chaId": ids[member]}) for member, each in made.items()]


def chosen_speaker(given: TalkInput) -> str | None:
    """The RisuAI id of the member that a turn is about: named by the client, or who said what is swiped."""
    members, ids = given.cast.members, ids_of(given.cast)
    if given.cast.group is None:
        return None
    if given.kind in ("swipe", "continue"):
        saying = given.lines[-1].native.get("saying") if given.lines else None
        return saying if isinstance(saying, str) and saying in ids.values() else next(iter(ids.values()), None)
    if given.speaker is None:
        return None
    if given.speaker in members:
        return ids[given.speaker]
    named = next((each for each, bundle in members.items() if bundle.character.name == given.speaker), None)
    if named is None:
        raise ServiceError(
            422, f"{given.speaker!r:.200} is not a member of the group", code="no_such_speaker", param="speaker"
        )
    return ids[named]


def is_round(given: TalkInput) -> bool:
    """Return True if several members of a group may speak in a turn."""
    return given.cast.group is not None and given.speaker is None and given.kind in ("normal", "regenerate")


def with_speakers(lines: Sequence[ChatLine], cast: Cast) -> list[ChatLine]:
    """The lines with the names of those who said them."""
    names = {own: cast.members[member].character.name for member, own in ids_of(cast).items()}
    return [_with_speaker(line, names) for line in lines]


def speaker_of(line: ChatLine) -> str:
    """The name of a line's sender; empty if unknown."""
    return str(line.native.get(SPEAKER) or "")


def spoken_since(lines: Sequence[ChatLine], kept: Sequence[ChatLine], replies: Sequence[Reply]) -> list[Spoken]:
    """The replies of a round, as they are stored."""
    known = {line.id for line in kept}
    new = [line for line in lines if line.id not in known and line.role == "assistant" and NEUTRAL not in line.native]
    # RisuAI may ask more than once for one message: then the cost of each is unknown.
    own = replies if len(replies) == len(new) else [Reply(finish_reason="stop") for _ in new]
    return [
        Spoken(
            speaker=speaker_of(line),
            reply=dataclasses.replace(reply, text=line.content),
            line_id=line.id,
        )
        for line, reply in zip(new, own, strict=True)
    ]


def _with_speaker(line: ChatLine, names: Mapping[str, str]) -> ChatLine:
    name = names.get(str(line.native.get("saying")))
    if name is None or line.native.get(SPEAKER) == name:
        return line
    return dataclasses.replace(line, native={**line.native, SPEAKER: name})


def _talkativeness(value: object) -> float:
    try:
        return float(value) if isinstance(value, (int, float, str)) else TALKATIVENESS
    except (ValueError, OverflowError):
        return TALKATIVENESS
