"""RisuAI's database as a JSON file: the user's settings, and every character with its chats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tavernkit.arguments import check_fields, checked
from tavernkit.cards.json_text import parse_json
from tavernkit.cards.source import FileContent, called, read_file
from tavernkit.errors import FileFormatError, Warn, log_warning, refuse_warning
from tavernkit.risu_ai.files.settings import Settings
from tavernkit.risu_ai.limits import MAX_DATABASE_BYTES
from tavernkit.risu_ai.lorebook.imports import migrate_entries
from tavernkit.risu_ai.objects import RisuCharacter, RisuChat
from tavernkit.values import JsonObject, is_mapping, is_object, is_sequence, thaw_object


@dataclass(frozen=True, slots=True)
class Database:
    """All that RisuAI stores, apart from pictures. ``characters`` has the groups too."""

    settings: Settings
    characters: tuple[RisuCharacter, ...]

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    @checked
    def load(cls, source: FileContent, *, warn: Warn = log_warning, strict: bool = False) -> Database:
        """Read a file; raises :class:`FileFormatError` if it holds no database."""
        warn = refuse_warning if strict else warn
        data = parse_json(
            read_file(source, MAX_DATABASE_BYTES, limit="MAX_DATABASE_BYTES"), what=called(source), warn=warn
        )
        if not is_mapping(data) or not is_sequence(data.get("characters")):
            raise FileFormatError(f"{called(source)}: this is no RisuAI database: it has no characters")
        return cls.from_json(data, warn=warn)

    @classmethod
    @checked
    def from_json(cls, data: Mapping[str, object], *, warn: Warn = log_warning) -> Database:
        """Read the database object. Lore of old versions is brought up to date, as RisuAI does when it starts."""
        listed = data.get("characters")
        characters: list[RisuCharacter] = []
        for index, each in enumerate(listed if is_sequence(listed) else ()):
            if is_mapping(each):
                characters.append(RisuCharacter.from_json(_up_to_date(each)))
            else:
                warn(f"database: character {index} is left out: it must be an object, not {type(each).__name__}")
        return cls(Settings.from_json(data, warn=warn), tuple(characters))

    @checked
    def character(self, name: str) -> RisuCharacter | None:
        """Find a character or group by its name or id."""
        return next((each for each in self.characters if name in (each.name, each.id)), None)

    @checked
    def inputs(self, character: RisuCharacter, chat: RisuChat | None = None) -> dict[str, object]:
        """What a :class:`Builder` takes to go on with a chat of a character: the open one if none is given."""
        return {
            "character": character,
            "members": tuple(each for each in self.characters if not each.is_group) if character.is_group else (),
            "settings": self.settings,
            "history": character.opened(chat if chat is not None else character.stored_chat or RisuChat()),
        }


def _up_to_date(character: Mapping[str, object]) -> JsonObject:
    found = thaw_object(character)
    _migrate(found, "globalLore")
    chats = found.get("chats")
    for chat in chats if isinstance(chats, list) else ():
        if is_object(chat):
            _migrate(chat, "localLore")
    return found


def _migrate(owner: JsonObject, key: str) -> None:
    entries = owner.get(key)
    if isinstance(entries, list):
        owner[key] = [migrate_entries([each])[0] if is_object(each) else each for each in entries]
