"""RisuAI characters and groups, made from those of the library, and the speakers of lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tavernkit import risu_ai
from tavernkit.models import Reply
from tavernkit.risu_ai._files.kept_fields import kept_character, kept_fields, make_group
from tavernkit.server.errors import ServiceError
from tavernkit.server.library import Cast
from tavernkit.server.storage.chats import ChatLine
from tavernkit.server.swipes import RISU_SPEAKER
from tavernkit.server.talks.talk import NEUTRAL, Spoken, TalkInput


def ids_of(cast: Cast) -> dict[str, str]:
    """Return the RisuAI ids of a group's members, by their ids here."""
    found: dict[str, str] = {}
    for member, bundle in cast.members.items():
        own = kept_fields(bundle).get("chaId")
        found[member] = own if isinstance(own, str) and own and own not in found.values() else member
    return found


def owner_of(cast: Cast) -> risu_ai.RisuCharacter | None:
    """Return the character or the group of a cast as RisuAI has it."""
    group, ids = cast.group, ids_of(cast)
    if group is None:
        return kept_character(cast.character) if cast.character is not None else None
    muted = group.disabled_members if group.activation_strategy not in ("manual", None) else cast.members
    talks = {ids[each]: bundle.character.extensions.get("talkativeness") for each, bundle in cast.members.items()}
    return make_group(
        group.name,
        talks,
        group_id=cast.selection.group or "",
        muted=[ids[member] for member in muted if member in ids],
        in_order=group.activation_strategy == "list",
        own=group.source,
    )


def members_of(cast: Cast) -> list[risu_ai.RisuCharacter]:
    """Return the members of a cast's group."""
    ids = ids_of(cast)
    return [kept_character(bundle, chaId=ids[member]) for member, bundle in cast.members.items()]


def chosen_speaker(given: TalkInput) -> str | None:
    """Return the RisuAI id of the speaker of a turn: chosen by the client, or the speaker of the swiped reply."""
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
    """Return the lines with the names of their speakers."""
    names = {own: cast.members[member].character.name for member, own in ids_of(cast).items()}
    return [_with_speaker(line, names) for line in lines]


def speaker_of(line: ChatLine) -> str:
    """Return the name of a line's sender; empty if unknown."""
    return str(line.native.get(RISU_SPEAKER) or "")


def spoken_since(lines: Sequence[ChatLine], kept: Sequence[ChatLine], replies: Sequence[Reply]) -> list[Spoken]:
    """Return the replies of a round, as stored."""
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
    if name is None or line.native.get(RISU_SPEAKER) == name:
        return line
    return dataclasses.replace(line, native={**line.native, RISU_SPEAKER: name})
