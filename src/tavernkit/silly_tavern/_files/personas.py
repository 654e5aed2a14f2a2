"""Which persona a chat is opened with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_number
from tavernkit._values import EMPTY_OBJECT, FrozenObject, is_mapping, is_sequence
from tavernkit.silly_tavern._chat.card_fields import Persona, stored_position
from tavernkit.silly_tavern._files.settings import Settings


@dataclass(frozen=True, slots=True)
class ChosenPersona:
    """The persona of a chat: its avatar file, the user's name, the description and its place, and why it was chosen."""

    avatar: str
    """The file name of the persona's picture, which is its id."""
    name: str
    """The user's name."""
    persona: Persona
    """The description and its place."""
    reason: str = "the persona in use"
    """Why it was chosen."""


def choose_persona(
    settings: Settings, *, avatars: Sequence[str], lock: object = None, connected_to: str | None = None
) -> ChosenPersona:
    """Choose the persona as SillyTavern does when it opens a chat.

    The chat's lock comes first, then connections to the character or group, then the default persona, then the active
    one. The active persona is not looked up: its live copy in the settings counts.

    Args:
        settings: The user's settings.
        avatars: Names of the files in ``User Avatars``, in order.
        lock: ``chat_metadata.persona``.
        connected_to: The file name of the character's card, or the group's id.
    """
    power_user = settings.source.get("power_user")
    stored: FrozenObject = power_user if isinstance(power_user, Mapping) else EMPTY_OBJECT
    live = ChosenPersona(settings.user_avatar, settings.username, settings.persona)
    dropped = ""
    if avatars and live.avatar not in avatars:
        live = _switched(live, avatars[0], stored, "the first avatar: the one in use has no file")
    if isinstance(lock, str) and lock in avatars:
        return _switched(live, lock, stored, "the chat is locked to it")
    if isinstance(lock, str) and lock:
        dropped = f"; the chat's lock to {lock} does not count, there is no such file in User Avatars"
    connected = _connected(stored, connected_to) if connected_to else []
    if connected and (len(connected) == 1 or not stored.get("persona_allow_multi_connections")):
        return _switched(live, connected[0], stored, f"connected to {connected_to}{dropped}")
    if connected:
        dropped += f"; {len(connected)} personas are connected to {connected_to}: SillyTavern asks which"
    default = stored.get("default_persona")
    if isinstance(default, str) and default:
        return _switched(live, default, stored, f"the default persona{dropped}")
    return _explained(live, f"{live.reason}{dropped}")


def _explained(chosen: ChosenPersona, reason: str) -> ChosenPersona:
    """Return a persona with the reason why it was chosen, and where its description is stored."""
    name = f"{chosen.name} ({chosen.avatar})" if chosen.avatar else chosen.name
    persona = replace(chosen.persona, reason=f"persona {name} of settings.json: {reason}")
    return replace(chosen, persona=persona, reason=reason)


def _connected(stored: FrozenObject, connected_to: str) -> list[str]:
    """Return the personas connected to a character or group, in order. Only the id is compared, not its type."""
    found: list[str] = []
    descriptions = stored.get("persona_descriptions")
    for avatar, entry in descriptions.items() if is_mapping(descriptions) else ():
        connections = entry.get("connections") if is_mapping(entry) else None
        ids = [each.get("id") for each in connections if is_mapping(each)] if is_sequence(connections) else []
        if connected_to in ids:
            found.append(avatar)
    return found


def _switched(live: ChosenPersona, avatar: str, stored: FrozenObject, reason: str) -> ChosenPersona:
    """Switch to an avatar: its stored name and description are used, unless it is already active."""
    if avatar == live.avatar:
        return _explained(live, reason)
    names, descriptions = stored.get("personas"), stored.get("persona_descriptions")
    name = names.get(avatar) if is_mapping(names) else None
    if not isinstance(name, str) or not name:
        # An avatar without a name changes the picture only, as in SillyTavern.
        return _explained(replace(live, avatar=avatar), reason)
    entry = descriptions.get(avatar) if is_mapping(descriptions) else None
    described = read_description(entry if is_mapping(entry) else EMPTY_OBJECT)
    return _explained(ChosenPersona(avatar, name, described), reason)


def read_description(entry: Mapping[str, object]) -> Persona:
    """Read an entry of ``persona_descriptions``."""
    description, lorebook = entry.get("description"), entry.get("lorebook")
    return Persona(
        description=description if isinstance(description, str) else "",
        position=stored_position(entry.get("position")),
        depth=2 if entry.get("depth") is None else to_number(entry.get("depth")),
        role=to_number(entry.get("role")),
        lorebook=lorebook if isinstance(lorebook, str) and lorebook else None,
    )
