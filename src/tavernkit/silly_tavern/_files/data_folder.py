"""A user's SillyTavern data folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, is_mapping, is_sequence
from tavernkit.cards._character import Character, User
from tavernkit.errors import FileFormatError, TavernKitError, Warn
from tavernkit.silly_tavern._builder import Builder
from tavernkit.silly_tavern._context import TEXT_DIALECT
from tavernkit.silly_tavern._conversation.greetings import greeted
from tavernkit.silly_tavern._files.attached_files import FolderMedia, FolderTexts
from tavernkit.silly_tavern._files.chat_file import ChatFile
from tavernkit.silly_tavern._files.folder_files import AVATARS, GROUP_CHATS, FolderFiles
from tavernkit.silly_tavern._files.personas import ChosenPersona, choose_persona
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._group import CharacterExtras, Group
from tavernkit.silly_tavern._inputs import SillyTavernInputs
from tavernkit.silly_tavern._macros.environment import CHAT_COMPLETION_API
from tavernkit.silly_tavern._scripts.regex_scripts import RegexScripts
from tavernkit.silly_tavern._world_info.book import WorldBook
from tavernkit.silly_tavern._world_info.selection import character_book_names


@dataclass(frozen=True, slots=True)
class _Opened:
    """An opened chat of the folder."""

    group: Group | None
    history: ChatFile | None
    persona: ChosenPersona


class DataFolder(FolderFiles):
    """``data/<user>`` of a SillyTavern installation: settings, characters, chats, groups, worlds and presets.

    An installation or its ``data`` is accepted too if it has only one user.

    Nothing is written. Names cannot escape the folder. Files are read on demand; world books are read once, so that
    builders can reuse compiled data.

    Args:
        path: The folder.
        warn: Called with each warning; by default they are logged.

    Raises:
        ConfigError: The path is an installation with several users; the message lists their folders.
        FileFormatError: It is not a folder.
    """

    _named = False

    def builder(self, character: str | None = None, chat: str | None = None, *, group: str | None = None) -> Builder:
        """Return a builder for a character's or group's chat, with everything in the folder that belongs to it.

        It builds for the API of the settings: messages for chat completion, one text for any other.

        >>> DataFolder("data/default-user").builder("Lyra", "a chat").build(message="Hello")  # doctest: +SKIP

        Args:
            character: The name of the card's file, with or without its extension.
            chat: The name of the chat's file. By default a group's open chat, and none for a character.
            group: The id of the group.
        """
        if not self._named:
            self._named = True
            for each in self.unsupported():
                self._warn(each)
        inputs = self._inputs(character, chat, group)
        builder, history = Builder(**inputs), inputs.get("history")
        if isinstance(history, ChatFile) and not history.messages:
            return builder.replace(history=greeted(builder, history))
        return builder

    def persona(
        self, character: str | None = None, chat: str | None = None, *, group: str | None = None
    ) -> ChosenPersona:
        """Return the persona that a chat is opened with, and why.

        Args:
            character: The character's card.
            chat: The chat's name.
            group: The group's id, for a chat of a group.
        """
        return self._opened(character, chat, group, header_only=True).persona

    def _opened(
        self, character: str | None, chat: str | None, group: str | None, *, header_only: bool = False
    ) -> _Opened:
        chosen = self.group(group) if group is not None else None
        path = self._path(character, chat, chosen)
        history = ChatFile.load_end(path, header_only=header_only, warn=self._warn) if path is not None else None
        if path is None and chosen is not None:
            history = ChatFile()
        avatars, lock = self.avatars(), history.metadata.get("persona") if history is not None else None
        if isinstance(lock, str) and lock and lock not in avatars:
            self._warn(f"the chat's lock to the persona {lock} is ignored: it has no file in {AVATARS}")
        persona = choose_persona(
            self.settings,
            avatars=avatars,
            lock=lock,
            connected_to=chosen.id if chosen is not None else self.avatar(character) if character is not None else None,
        )
        return _Opened(chosen, history, persona)

    def _path(self, character: str | None, chat: str | None, group: Group | None) -> Path | None:
        """Return the file of a chat. A group's open chat starts empty if its file is not there, as in SillyTavern."""
        if group is None:
            return self._chat_path(character, chat) if character is not None and chat is not None else None
        name = chat if chat is not None else group.source.get("chat_id")
        if not isinstance(name, str) or not name:
            return None
        try:
            return self._file(GROUP_CHATS, name, ".jsonl")
        except FileFormatError as error:
            if chat is not None:
                raise
            self._warn(f"group {group.name or group.id!r}: its chat {name!r} starts empty: {error}")
            return None

    def _inputs(self, character: str | None, chat: str | None, group: str | None) -> SillyTavernInputs:
        settings, opened = self.settings, self._opened(character, chat, group)
        persona, chosen, history = opened.persona, opened.group, opened.history
        lorebook = persona.persona.lorebook
        found: SillyTavernInputs = {
            "user": User(name=persona.name),
            "persona": persona.persona,
            "settings": settings,
            "dialect": TEXT_DIALECT if settings.main_api != CHAT_COMPLETION_API else None,
            "books": self._books(settings.world_info.global_select),
            "persona_books": self._books([lorebook] if lorebook else []),
            "use_embedded_book": False,
            "attachments": FolderTexts(self.path, self._warn),
            "media": FolderMedia(self.path, self._warn),
            "tokenizers": self.tokenizers,
        }
        if chosen is not None:
            members = self.members(chosen)
            extras = {avatar: self._extras(avatar, card) for avatar, card in members.items()}
            found |= {"group": chosen, "members": members, "member_extras": extras}
        if character is not None:
            avatar, card = self.avatar(character), self.character(character)
            extras = self._extras(avatar, card)
            found |= {
                "character": card,
                "avatar": avatar,
                "tags": extras.tags,
                "character_books": extras.books,
                "regex_scripts": extras.regex_scripts,
            }
        if history is not None:
            found["history"] = history
            if history.metadata.world_info:
                found["chat_books"] = self._books([history.metadata.world_info])
        return found

    def _extras(self, avatar: str, card: Character) -> CharacterExtras:
        worlds = character_book_names(card.world_name, avatar, self.settings.world_info.character_lore)
        scripts = allowed_scripts(self.settings, card, avatar, warn=self._warn)
        return CharacterExtras(books=self._books(worlds), tags=tags_of(self.settings, avatar), regex_scripts=scripts)

    def _books(self, names: tuple[str, ...] | list[str]) -> list[WorldBook]:
        books: list[WorldBook] = []
        for name in names:
            try:
                books.append(self.world(name))
            except (TavernKitError, OSError) as error:
                self._warn(f"world book {name!r} is left out: {error}")
        return books


def tags_of(settings: Settings, avatar: str) -> tuple[str, ...]:
    """Return the ids of a character's tags."""
    by_avatar = settings.source.get("tag_map")
    tags = by_avatar.get(avatar) if is_mapping(by_avatar) else None
    return tuple(str(tag) for tag in tags) if is_sequence(tags) else ()


def allowed_scripts(
    settings: Settings, card: Character | None, avatar: str | None, *, preset: Preset | None = None, warn: Warn
) -> RegexScripts:
    """Return the global regex scripts, and those of the character and the preset that the settings allow.

    Args:
        settings: The settings.
        card: The character.
        avatar: The character's file.
        preset: Another chat-completion preset than that of the settings.
        warn: Called with each warning.
    """
    extensions, name = _preset_scripts(settings, preset)
    return RegexScripts.from_settings(
        settings.extension_settings,
        card_data={"extensions": card.extensions} if card is not None else None,
        avatar=avatar,
        preset={"extensions": extensions},
        preset_name=name,
        api=settings.main_api,
        warn=warn,
    )


def _preset_scripts(settings: Settings, preset: Preset | None = None) -> tuple[Mapping[str, object], str]:
    """Return the extensions of the active preset, which may contain regex scripts, and its name.

    Args:
        settings: The settings, whose API decides which preset is active.
        preset: Another chat-completion preset than that of the settings.
    """
    if settings.main_api == CHAT_COMPLETION_API:
        chosen = preset if preset is not None else settings.preset
        return chosen.extensions, chosen.name
    samplers = settings.source.get("textgenerationwebui_settings")
    stored = samplers if is_mapping(samplers) else EMPTY_OBJECT
    found = stored.get("extensions")
    return found if is_mapping(found) else EMPTY_OBJECT, str(stored.get("preset") or "")
