"""Snapshots of a chat as JSON: what a store keeps, and what undo goes back to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import json_stringify
from tavernkit._values import (
    FrozenJson,
    GrowingJoin,
    Json,
    JsonObject,
    freeze_object,
    is_mapping,
    is_sequence,
    same_start,
    thaw,
    thaw_object,
)
from tavernkit.dialects._attachments import parse_attachment
from tavernkit.risu_ai._chat.prompt_message import Inlay
from tavernkit.risu_ai._files.chat_file import chat_json
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage, RisuPersona

_PERSONA_KEYS = {"id": "id", "name": "name", "prompt": "personaPrompt", "icon": "icon"}


class StoredMessages:
    """The cached forms of a chat's messages. Messages are immutable, so identity decides."""

    def __init__(self) -> None:
        self._messages: tuple[RisuMessage, ...] = ()
        self._json: list[Json] = []
        self._written: list[bytes] = []
        self._joined = GrowingJoin(b",")

    def json(self, messages: tuple[RisuMessage, ...]) -> list[Json]:
        """Return messages as JSON, in a list that must not be changed: it is the same until the messages change."""
        self._see(messages)
        return self._json

    def written(self, messages: tuple[RisuMessage, ...]) -> list[bytes]:
        """Return messages in file format, with commas between them; most are already joined."""
        self._see(messages)
        same = len(self._written)
        self._written += [json_stringify(each).encode("utf-8", "surrogatepass") for each in self._json[same:]]
        return self._joined.join(self._written, same)

    def _see(self, messages: tuple[RisuMessage, ...]) -> None:
        if messages is self._messages:
            return
        same = same_start(self._messages, messages)
        del self._written[same:]
        self._json = [*self._json[:same], *(thaw(message.to_json()) for message in messages[same:])]
        self._messages = messages


@dataclass(frozen=True, slots=True)
class AppState:
    """What a chat has besides its messages and variables; most of it never changes."""

    character: RisuCharacter
    members: tuple[RisuCharacter, ...]
    settings: Settings
    other_chats: Sequence[RisuChat]
    page: int
    inlays: Mapping[str, Inlay]

    def changes(self, now: AppState) -> JsonObject:
        """Return what is different now."""
        found: JsonObject = {}
        if attached := {name: each for name, each in now.inlays.items() if name not in self.inlays}:
            found["inlays"] = {name: each.attachment.to_dict() for name, each in attached.items()}
        if now.page != self.page or now.other_chats != self.other_chats:
            found["page"] = now.page
            found["other_chats"] = [chat_json(each) for each in now.other_chats]
        if now.character is not self.character:
            found["character"] = thaw_object(now.character.raw)
        if now.members is not self.members and now.members != self.members:
            found["members"] = [thaw(each.raw) for each in now.members]
        if now.settings is not self.settings and (changes := _settings_changes(self.settings, now.settings)):
            found["settings"] = changes
        return found

    def with_changes(self, changes: Mapping[str, object]) -> AppState:
        """Return this with what ``changes()`` found; what is not in it stays."""
        character, members, settings = (changes.get(name) for name in ("character", "members", "settings"))
        others, page, attached = (changes.get(name) for name in ("other_chats", "page", "inlays"))
        chats = [RisuChat.from_json(each) for each in others if is_mapping(each)] if is_sequence(others) else []
        chats = [*self.other_chats] if others is None else chats
        read = {name: parse_attachment(each) for name, each in attached.items()} if is_mapping(attached) else {}
        return AppState(
            character=RisuCharacter.from_json(character) if is_mapping(character) else self.character,
            members=(
                tuple(RisuCharacter.from_json(each) for each in members if is_mapping(each))
                if is_sequence(members)
                else self.members
            ),
            settings=_with_settings_changes(self.settings, settings) if is_mapping(settings) else self.settings,
            other_chats=chats,
            page=min(max(page, 0), len(chats)) if isinstance(page, int) else self.page,
            inlays={**self.inlays, **{name: Inlay(each) for name, each in read.items() if each is not None}},
        )


def _settings_changes(before: Settings, after: Settings) -> JsonObject:
    """Return the settings that triggers, personas and presets have changed."""
    found: JsonObject = {}
    if after.username != before.username:
        found["username"] = after.username
    if after.persona_prompt != before.persona_prompt:
        found["persona_prompt"] = after.persona_prompt
    if after.selected_persona != before.selected_persona:
        found["selected_persona"] = after.selected_persona
    if after.personas != before.personas:
        found["personas"] = [
            {key: getattr(persona, name) for name, key in _PERSONA_KEYS.items()} for persona in after.personas
        ]
    if after.preset != before.preset:
        found["preset"] = after.preset.to_json()
    if after.presets != before.presets:
        found["presets"] = [preset.to_json() for preset in after.presets]
    if after.raw is not before.raw and (changed := _changed(before.raw, after.raw)):
        found["raw"] = changed
    return found


def _with_settings_changes(settings: Settings, changes: Mapping[str, object]) -> Settings:
    """Return the settings with what ``_settings_changes()`` found, and nothing else."""
    found: dict[str, object] = {}
    for name, kind in (("username", str), ("persona_prompt", str), ("selected_persona", int)):
        if isinstance(changes.get(name), kind):
            found[name] = changes[name]
    personas, preset, presets, raw = (changes.get(name) for name in ("personas", "preset", "presets", "raw"))
    if is_sequence(personas):
        found["personas"] = tuple(RisuPersona.from_json(each) for each in personas if is_mapping(each))
    if is_mapping(preset):
        found["preset"] = Preset.from_json(preset)
    if is_sequence(presets):
        found["presets"] = tuple(Preset.from_json(each) for each in presets if is_mapping(each))
    if is_mapping(raw):
        found["raw"] = freeze_object({**settings.raw, **raw})
    return settings.replace(**found)


def _changed(before: Mapping[str, FrozenJson], after: Mapping[str, FrozenJson]) -> JsonObject:
    return {key: thaw(value) for key, value in after.items() if key not in before or before[key] != value}
