"""What a save of RisuAI's holds: characters, presets, modules, personas, settings, groups, and all chats."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._values import JsonObject, is_sequence, thaw, thaw_object
from tavernkit.cards._png import placeholder_png
from tavernkit.cards._risu_ai.exporting import export_charx
from tavernkit.errors import TavernKitError, Warn, WarningLog
from tavernkit.risu_ai._files.file_kinds import is_database
from tavernkit.risu_ai._files.kept_fields import GROUP_KEYS, with_kept_fields
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.chat_settings import chosen_settings
from tavernkit.server.library.item_files import NewItem, persona_item, read_item
from tavernkit.server.library.library import RISU_AI, StoredPersona

SAVE_SUFFIXES = (".bin", ".risudat")
_LIVE = "live"
_LIVE_NAME = "RisuAI"
"""Name of items with current values that no stored item has."""
_CHECKED_BYTES = 16


@dataclass(frozen=True, slots=True)
class FoundSaveGroup:
    """A group of a save, its members by their ids."""

    key: str
    group: st.Group


@dataclass(frozen=True, slots=True)
class FoundSaveChats:
    """The chats of a character or group of a save, with its id."""

    owner: str
    name: str
    in_group: bool
    chats: tuple[risu_ai.RisuChat, ...]
    preset: str = ""
    """The name of the active preset's item."""
    personas: tuple[str, ...] = ()
    """For each chat, the name of the user's item."""


def is_save(path: Path, filename: str) -> bool:
    """Return True for a RisuAI backup, database or data folder, by its name or first bytes."""
    if path.is_dir():
        return True
    with path.open("rb") as file:
        return filename.lower().endswith(SAVE_SUFFIXES) or is_database(file.read(_CHECKED_BYTES))


class SaveSource:
    """The items of a save in import order: characters before groups, both before their chats."""

    def __init__(self, path: Path, warn: Warn) -> None:
        try:
            self._save = risu_ai.Save.load(path, warn=warn)
        except TavernKitError as error:
            raise ServiceError(422, f"the save cannot be read: {error}", code="invalid_save") from error

    def characters(self) -> Iterator[tuple[str, risu_ai.RisuCharacter]]:
        """Yield every character with its file name."""
        return ((f"characters/{each.id}", each) for each in self._save.characters if not each.is_group)

    def character_item(self, character: risu_ai.RisuCharacter) -> NewItem:
        """Return a character as a card. Only its main picture is included; the others are referred to by name."""
        raw = {key: value for key, value in character.raw.items() if key not in ("chats", "chatFolders")}

        def read(path: str) -> bytes:
            asset = self._save.assets.get(path) if path == character.image else None
            return placeholder_png() if asset is None else asset.read()

        # The same character makes the same file, so that it is not stored again.
        changed = raw.get("modification_date")
        now = int(changed) if isinstance(changed, (int, float)) and math.isfinite(changed) else 0
        content = export_charx(with_kept_fields(raw), read, now=now, new_id=lambda: character.id)
        return read_item("character", f"{character.id}.charx", content, name=character.name or character.id)

    def preset_items(self) -> Iterator[tuple[str, NewItem]]:
        """Yield every preset; the active one with its current values, all without the user's keys."""
        # Not above: it loads RisuAI's engines, which a service without saves does not need.
        from tavernkit.risu_ai._files.preset_file import write_preset

        presets = {str(index): preset for index, preset in enumerate(self._save.presets)}
        live = self._save.settings.preset
        presets[self._active_preset] = live if "name" in live.raw else live.replace(name=_LIVE_NAME)
        for key, preset in presets.items():
            # RisuAI stores an active preset in another order than the one it was made with.
            ordered = risu_ai.Preset.from_json(dict(sorted(preset.to_json().items())), warn=WarningLog())
            content = write_preset(ordered, ".json")
            yield f"presets/{key}", read_item("preset", f"{preset.name}.json", content, name=preset.name)

    @property
    def _active_preset(self) -> str:
        index = self._save.settings.raw.get("botPresetsId")
        return str(index) if isinstance(index, int) and 0 <= index < len(self._save.presets) else _LIVE

    def module_items(self) -> Iterator[tuple[str, NewItem]]:
        """Yield every module, active or not."""
        for module in self._save.modules:
            content = risu_ai.write_module(module)
            yield f"modules/{module.id}", read_item("module", f"{module.id}.risum", content, name=module.name)

    def persona_items(self) -> Iterator[tuple[str, NewItem]]:
        """Every persona, and the user's current name and text if no persona has them."""
        for index, persona in enumerate(self._save.personas):
            yield f"personas/{index}", _persona_item(persona.name, persona.prompt)
        if self._user == _LIVE:
            settings = self._save.settings
            yield f"personas/{_LIVE}", _persona_item(settings.username, settings.persona_prompt)

    @cached_property
    def _user(self) -> str:
        """The persona that has the user's current name and text; a chat may have another one."""
        settings = self._save.settings
        index, live = settings.selected_persona, (settings.username, settings.persona_prompt)
        stored = settings.personas[index] if 0 <= index < len(settings.personas) else None
        same = stored is not None and (stored.name or "", stored.prompt or "") == live
        return str(index) if same else _LIVE

    def _persona_of(self, chat: risu_ai.RisuChat) -> str:
        bound = (index for index, each in enumerate(self._save.personas) if each.id == chat.bound_persona)
        return str(next(bound, self._user))

    def settings(self) -> JsonObject:
        """The settings of its database that count for every chat."""
        return chosen_settings(self._save.settings.raw, RISU_AI)

    def variables(self) -> JsonObject:
        """The variables that all chats share, among them the toggles."""
        return thaw_object(self._save.settings.global_variables)

    def groups(self) -> Iterator[FoundSaveGroup]:
        """Every group."""
        for each in self._save.characters:
            members = each.raw.get("characters")
            if each.is_group and is_sequence(members):
                own = {key: thaw(each.raw[key]) for key in GROUP_KEYS if key in each.raw}
                listed = [f"{member}" for member in members]
                yield FoundSaveGroup(
                    each.id, st.Group.from_json({"id": each.id, "name": each.name, "members": listed, **own})
                )

    def chats(self) -> Iterator[FoundSaveChats]:
        """The chats of every character and group that has any."""
        for index, each in enumerate(self._save.characters):
            chats = tuple(chat for chat in self._save.chats(index) if chat.messages)
            if chats:
                personas = tuple(map(self._persona_of, chats))
                yield FoundSaveChats(each.id, each.name, each.is_group, chats, self._active_preset, personas)


def _persona_item(name: str | None, prompt: str | None) -> NewItem:
    return persona_item(StoredPersona(name=name or "User", description=prompt or ""))
