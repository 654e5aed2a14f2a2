"""RisuAI's saves: local backups, databases and data folders, with all their contents."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tavernkit._atomic import replace_atomically, write_atomically
from tavernkit._text.json_reader import json_object
from tavernkit._values import Json, JsonObject, LazySequence, is_mapping, is_sequence, thaw_object
from tavernkit.cards._json_text import dump_json
from tavernkit.cards._source import FileContent, called
from tavernkit.errors import ConfigError, Warn, log_warning, refuse_warning
from tavernkit.risu_ai._files.backup_file import Companions, StoredFiles, write_backup
from tavernkit.risu_ai._files.chat_file import chat_json, chat_variables
from tavernkit.risu_ai._files.database_codec import Decoder, encode_database
from tavernkit.risu_ai._files.message_pack import Packed, as_json
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.save_database import (
    Kind,
    SaveAsset,
    changed_database,
    file_asset,
    open_save,
    packed,
    read_save,
    with_persona,
    with_preset,
)
from tavernkit.risu_ai._files.settings import BuiltInTexts, Settings
from tavernkit.risu_ai._files.start_up import Stored, open_character, start_up
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuModule, RisuPersona

if TYPE_CHECKING:
    from tavernkit._turns import Host
    from tavernkit.risu_ai._builder import Builder
    from tavernkit.risu_ai._context import RisuAIInputs
    from tavernkit.risu_ai._conversation.chat import Chat


class Save:
    """Everything RisuAI stores: settings, characters with their chats, presets, personas, modules and assets.

    >>> save = Save.load("backup.bin")                                    # doctest: +SKIP
    >>> plan = save.builder("Mira").build(message="How much for a nail?")  # doctest: +SKIP

    ``database`` is RisuAI's own object after start-up: defaults filled in, ids made unique, lore brought up to date.
    ``warnings`` say what was damaged or missing.

    Args:
        database: RisuAI's database object.
        kind: Which kind of save it comes from.
        assets: Pictures and other files by name.
        files: Finds files kept outside the database, such as chats in cold storage.
        texts: RisuAI's built-in texts.
        warnings: What was wrong with the save.
        warn: Called with each warning; by default they are logged.
    """

    def __init__(
        self,
        database: Stored,
        *,
        kind: Kind = "database",
        assets: Mapping[str, SaveAsset] | None = None,
        files: StoredFiles | None = None,
        texts: BuiltInTexts | None = None,
        warnings: Sequence[str] = (),
        warn: Warn = log_warning,
    ) -> None:
        self.database = database
        self.kind: Kind = kind
        self.assets: Mapping[str, SaveAsset] = assets or {}
        self.warnings = tuple(warnings)
        self._files = files or StoredFiles(None)
        self._texts = texts or BuiltInTexts()
        self._warn = warn

    @classmethod
    def load(
        cls,
        source: FileContent,
        *,
        companions: Companions | None = None,
        texts: BuiltInTexts | None = None,
        now: datetime | None = None,
        salvage: bool = True,
        warn: Warn = log_warning,
        strict: bool = False,
    ) -> Save:
        """Read a local backup, a database in any of its forms, or the folder in which RisuAI keeps its data.

        The kind of file is recognised by its content. In a backup only the database is read; assets are read on demand.

        Args:
            source: The path of a file or folder, or the bytes of a file.
            companions: The folder, or files by name, with chats in cold storage and blocks stored elsewhere.
            texts: Replacements for RisuAI's own texts, if the save has none.
            now: The time at which RisuAI is started; decides which deleted characters are removed.
            salvage: Return the readable part of a damaged database, with warnings; RisuAI refuses it completely.
            warn: Called with warnings about everything that is damaged or missing.
            strict: Raise instead of warning.

        Raises:
            DatabaseError: The file is not a RisuAI save, or is completely unreadable.
        """
        warnings: list[str] = []

        def report(message: str) -> None:
            warnings.append(message)
            (refuse_warning if strict else warn)(message)

        folder = isinstance(source, (str, os.PathLike)) and Path(source).is_dir()
        if folder and companions is None and not isinstance(source, bytes):
            companions = source
        files = StoredFiles(companions)
        decoder = Decoder(salvage=salvage and not strict, remote=files.remote, warn=report)
        opened = open_save(source, files)
        database, kind, assets = read_save(opened, called(source), decoder, report)
        if folder:
            assets = {name: file_asset(name, each) for name, each in files.assets()}
        start_up(database, now=_milliseconds(now), texts=texts or BuiltInTexts(), warn=report)
        return cls(database, kind=kind, assets=assets, files=files, texts=texts, warnings=warnings, warn=report)

    @classmethod
    def from_json(
        cls,
        data: Mapping[str, object],
        *,
        texts: BuiltInTexts | None = None,
        now: datetime | None = None,
        warn: Warn = log_warning,
    ) -> Save:
        """Make a save from RisuAI's database object.

        Args:
            data: The database.
            texts: Replacements for RisuAI's own texts, if the save has none.
            now: The time at which RisuAI is started; decides which deleted characters are removed.
            warn: Called with warnings about everything that is damaged or missing.
        """
        warnings: list[str] = []

        def report(message: str) -> None:
            warnings.append(message)
            warn(message)

        stored = thaw_object(json_object(data, "the database"))
        database: Stored = {key: packed(value) for key, value in stored.items()}
        start_up(database, now=_milliseconds(now), texts=texts or BuiltInTexts(), warn=report)
        return cls(database, kind="json", texts=texts, warnings=warnings, warn=report)

    @cached_property
    def settings(self) -> Settings:
        """The settings with the preset, the persona, the modules and the toggles that are switched on."""
        return self._settings(self.database)

    @cached_property
    def characters(self) -> Sequence[RisuCharacter]:
        """Characters and groups, in order."""
        stored = self._stored
        return LazySequence(len(stored), lambda index: RisuCharacter.from_json(_plain(stored[index])))

    @property
    def presets(self) -> tuple[Preset, ...]:
        """The stored presets; the active one is in ``settings``."""
        return self.settings.presets

    @property
    def personas(self) -> tuple[RisuPersona, ...]:
        """The user's personas."""
        return self.settings.personas

    @property
    def modules(self) -> tuple[RisuModule, ...]:
        """The modules, switched on or not."""
        return self.settings.modules

    def character(self, which: str | int) -> RisuCharacter:
        """Open a character or group by its name, id or index, as RisuAI does.

        Raises:
            ConfigError: There is none; the message lists those that exist.
        """
        return RisuCharacter.from_json(_plain(self._open(which)))

    def chats(self, which: str | int) -> tuple[RisuChat, ...]:
        """Return the chats of a character, restored from cold storage if their files exist."""
        return self.character(which).stored_chats

    def chat(self, which: str | int, chat: str | int | None = None) -> RisuChat:
        """Return a chat of a character by its name, id or index; the open one by default.

        Args:
            which: Name, id or index of the character or group.
            chat: Name, id or index of the chat.
        """
        character = self.character(which)
        return _chosen_chat(character, chat)

    def builder(
        self,
        character: str | int,
        chat: str | int | None = None,
        *,
        persona: str | int | None = None,
        preset: str | int | None = None,
    ) -> Builder:
        """Make a builder that continues a chat, with everything that is enabled in the save.

        Args:
            character: Name, id or index of the character or group.
            chat: Name, id or index of the chat; the open one by default.
            persona: Switch to this persona first: its name, id or index.
            preset: Switch to this preset first: its name or index.

        Raises:
            ConfigError: There is no such character, chat, persona or preset; the message lists those that exist.
        """
        from tavernkit.risu_ai._builder import Builder  # which is built on the files

        return Builder(**self.inputs(character, chat, persona=persona, preset=preset))

    def open(
        self,
        character: str | int,
        chat: str | int | None = None,
        *,
        persona: str | int | None = None,
        preset: str | int | None = None,
        host: Host | None = None,
    ) -> Chat:
        """Open a chat to continue it, with everything that is enabled in the save.

        Store the result with ``with_state()``.

        Args:
            character: Name, id or index of the character or group.
            chat: Name, id or index of the chat; the open one by default.
            persona: Switch to this persona first: its name, id or index.
            preset: Switch to this preset first: its name or index.
            host: The host of the chat.
        """
        from tavernkit.risu_ai._conversation.chat import Chat  # which is built on the files

        return Chat(host=host, **self.inputs(character, chat, persona=persona, preset=preset))

    def inputs(
        self,
        character: str | int,
        chat: str | int | None = None,
        *,
        persona: str | int | None = None,
        preset: str | int | None = None,
    ) -> RisuAIInputs:
        """Return the inputs of ``builder()``.

        Args:
            character: Name, id or index of the character or group.
            chat: Name, id or index of the chat; the open one by default.
            persona: Switch to this persona first: its name, id or index.
            preset: Switch to this preset first: its name or index.
        """
        database = self.database
        if persona is not None:
            database = with_persona(database, persona)
        if preset is not None:
            database = with_preset(database, preset)
        opened = self.character(character)
        members = tuple(each for each in self.characters if not each.is_group) if opened.is_group else ()
        return {
            "character": opened,
            "members": members,
            "settings": self.settings if database is self.database else self._settings(database),
            "history": _chosen_chat(opened, chat),
            "say_nothing": bool(database.get("useSayNothing")),
        }

    def with_chat(self, which: str | int, chat: RisuChat, variables: Mapping[str, Json] | None = None) -> Save:
        """Return the save with a chat of a character replaced (by its id), or added in front and opened.

        Args:
            which: Name, id or index of the character or group.
            chat: The chat to store.
            variables: Its variables; by default those it was read with.
        """
        index = self._index(which)
        written: Packed = packed(chat_json(chat, variables))
        chats: list[Packed] = [packed(thaw_object(each.raw)) for each in self.chats(which)]
        places = [place for place, each in enumerate(chats) if isinstance(each, dict) and each.get("id") == chat.id]
        if not places:
            return self._with_chats(index, [written, *chats], page=0)
        chats[places[0]] = written
        return self._with_chats(index, chats)

    def with_state(self, which: str | int, snapshot: Mapping[str, object]) -> Save:
        """Return the save with all that the operations of a chat changed: ``save.with_state("Mira", chat.snapshot())``.

        Args:
            which: Name, id or index of the character or group that was opened.
            snapshot: The result of ``Chat.snapshot()``: the chats, the character, personas, presets, global variables.
        """
        index, own = self._index(which), snapshot.get("character")
        if is_mapping(own):  # which another one may have taken the place of
            same = (place for place, each in enumerate(self._stored) if each.get("chaId") == own.get("chaId"))
            index = next(same, index)
        changed = self._with_database(changed_database(self.database, index, snapshot))
        chat, others, page = (snapshot.get(key) for key in ("chat", "other_chats", "page"))
        if not is_mapping(chat):
            return changed
        stored = RisuChat.from_json(chat)
        variables = chat_variables(stored) if "scriptstate" in chat else None
        if not is_sequence(others) or not isinstance(page, int):
            return changed.with_chat(index, stored, variables)
        chats: list[Packed] = [packed(thaw_object(each)) for each in others if is_mapping(each)]
        chats.insert(page, packed(chat_json(stored, variables)))
        return changed._with_chats(index, chats, page=page)  # noqa: SLF001  # it is one of us

    def _with_chats(self, index: int, chats: list[Packed], *, page: int | None = None) -> Save:
        characters: list[Packed] = [*self._stored]
        opened: Stored = {} if page is None else {"chatPage": page}
        characters[index] = {**self._stored[index], "chats": chats, **opened}
        return self._with_database({**self.database, "characters": characters})

    def _with_database(self, database: Stored) -> Save:
        return Save(
            database,
            kind=self.kind,
            assets=self.assets,
            files=self._files,
            texts=self._texts,
            warnings=self.warnings,
            warn=self._warn,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that RisuAI can load; the file name decides the format.

        ``.json`` is the database as JSON (which only TavernKit reads), a name that begins with ``database`` is a
        database in blocks as in RisuAI's data folder, everything else a local backup with all assets.
        """
        target = Path(path)
        if target.suffix.lower() == ".json":
            write_atomically(target, dump_json(_plain(self.database)).encode())
        elif target.name.startswith("database"):
            write_atomically(target, encode_database(_plain(self.database), blocks=True))
        else:
            replace_atomically(target, self._write_backup)

    def _write_backup(self, path: Path) -> None:
        with path.open("wb") as out:
            assets = ((name, asset.read()) for name, asset in self.assets.items())
            write_backup(out, assets, encode_database(self.database))

    @property
    def used_assets(self) -> Mapping[str, SaveAsset]:
        """Return the assets that are used in the save; RisuAI deletes the others when it starts."""
        used = {path.rpartition("/")[2] for path in _mentioned(self.database)}
        return {name: asset for name, asset in self.assets.items() if name.rpartition("/")[2] in used}

    @property
    def _stored(self) -> list[Stored]:
        characters = self.database["characters"]
        assert isinstance(characters, list)
        return [each for each in characters if isinstance(each, dict)]

    def _index(self, which: str | int) -> int:
        stored = self._stored
        if isinstance(which, int):
            if 0 <= which < len(stored):
                return which
        else:
            for index, each in enumerate(stored):
                if which in (each.get("name"), each.get("chaId")):
                    return index
        names = ", ".join(str(each.get("name")) for each in stored[:12]) or "(there are none)"
        raise ConfigError(f"there is no character {which!r}: choose one of {names}")

    def _open(self, which: str | int) -> Stored:
        opened: Stored = dict(self._stored[self._index(which)])
        chats = opened.get("chats")
        opened["chats"] = [
            self._files.thaw(dict(each), self._warn)
            for each in (chats if isinstance(chats, list) else ())
            if isinstance(each, dict)
        ]
        open_character(opened)
        return opened

    def _settings(self, database: Stored) -> Settings:
        # Characters are large, and no setting.
        stated = {key: value for key, value in database.items() if key != "characters"}
        return Settings.from_json(_plain(stated), warn=self._warn).replace(texts=self._texts)


def _plain(stored: Stored) -> JsonObject:
    """Return an object of the database without values that JSON does not have."""
    return {key: as_json(value) for key, value in stored.items()}


def _milliseconds(now: datetime | None) -> float:
    return (now or datetime.now(UTC)).timestamp() * 1000


def _chosen_chat(character: RisuCharacter, which: str | int | None) -> RisuChat:
    chats = character.stored_chats
    if which is None:
        return character.stored_chat or RisuChat()
    if isinstance(which, int):
        if 0 <= which < len(chats):
            return chats[which]
    else:
        for chat in chats:
            if which in (chat.name, chat.id):
                return chat
    names = ", ".join(chat.name for chat in chats[:12]) or "(there are none)"
    raise ConfigError(f"{character.name} has no chat {which!r}: choose one of {names}")


def _mentioned(database: Stored) -> list[str]:
    """Return the paths of assets that RisuAI keeps because they are used."""
    found: list[Packed] = [database.get("customBackground"), database.get("userIcon")]
    for character in _dicts(database.get("characters")):
        found.append(character.get("image"))
        found += [row[1] for key in ("emotionImages", "additionalAssets") for row in _rows(character.get(key))]
        voice = character.get("vits")
        files = voice.get("files") if isinstance(voice, dict) else None
        found += files.values() if isinstance(files, dict) else ()
        found += [asset.get("uri") for asset in _dicts(character.get("ccAssets"))]
    found += [row[1] for module in _dicts(database.get("modules")) for row in _rows(module.get("assets"))]
    found += [persona.get("icon") for persona in _dicts(database.get("personas"))]
    found += [folder.get("imgFile") for folder in _dicts(database.get("characterOrder"))]
    return [path for path in found if isinstance(path, str) and path]


def _dicts(value: Packed) -> list[Stored]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _rows(value: Packed) -> list[list[Packed]]:
    rows = value if isinstance(value, list) else []
    return [row for row in rows if isinstance(row, list) and len(row) > 1]
