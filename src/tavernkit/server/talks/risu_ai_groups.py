"""Groups in the way of RisuAI: what it makes of a group of the library, and who said what."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tavernkit import risu_ai
from tavernkit._values import JsonObject, freeze_object, is_list, thaw
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

TALKATIVENESS = 0.5
SPEAKER = "tavernkit_speaker"
"""Where the name of a message's sender is kept in it: RisuAI keeps an id."""


def group_of(cast: Cast) -> risu_ai.RisuCharacter:
    """The group of a cast as RisuAI has it."""
    group = cast.group
    assert group is not None
    muted = {*group.disabled_members} if group.activation_strategy not in ("manual", None) else {*cast.members}
    data: JsonObject = {
        "type": "group",
        "chaId": cast.selection.group or "",
        "name": group.name,
        "characters": list(cast.members),
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
    """The members of a cast's group, by the ids they have here."""
    made = [(member, risu_ai.character_from_card(bundle)) for member, bundle in cast.members.items()]
    return [
        dataclasses.replace(each, id=member, raw=freeze_object({**each.raw, "chaId": member})) for member, each in made
    ]


def chosen_speaker(given: TalkInput) -> str | None:
    """The id of the member that a turn is about: named by the client, or the sender of what is swiped or continued."""
    members = given.cast.members
    if given.cast.group is None:
        return None
    if given.kind in ("swipe", "continue"):
        saying = given.lines[-1].native.get("saying") if given.lines else None
        return saying if isinstance(saying, str) and saying in members else next(iter(members), None)
    if given.speaker is None or given.speaker in members:
        return given.speaker
    named = next((each for each, bundle in members.items() if bundle.character.name == given.speaker), None)
    if named is None:
        raise ServiceError(
            422, f"{given.speaker!r:.200} is no member of the group", code="no_such_speaker", param="speaker"
        )
    return named


def is_round(given: TalkInput) -> bool:
    """Return True if several members of a group may speak in a turn."""
    return given.cast.group is not None and given.speaker is None and given.kind in ("normal", "regenerate")


def with_speakers(lines: Sequence[ChatLine], cast: Cast) -> list[ChatLine]:
    """The lines with the names of those who said them."""
    return [_with_speaker(line, cast) for line in lines]


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


def _with_speaker(line: ChatLine, cast: Cast) -> ChatLine:
    bundle = cast.members.get(str(line.native.get("saying")))
    if bundle is None or line.native.get(SPEAKER) == bundle.character.name:
        return line
    return dataclasses.replace(line, native={**line.native, SPEAKER: bundle.character.name})


def _talkativeness(value: object) -> float:
    try:
        return float(value) if isinstance(value, (int, float, str)) else TALKATIVENESS
    except (ValueError, OverflowError):
        return TALKATIVENESS
