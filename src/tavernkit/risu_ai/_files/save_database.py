"""The database of a save: finding it (with the list of assets) in each kind of save, reading it, and changing it.

Changes are another persona or preset, and what the operations of a chat changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from tavernkit._values import Json, is_mapping, is_sequence, thaw_object
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._source import FileContent, Source, as_source, read_all
from tavernkit.errors import ConfigError, Warn
from tavernkit.risu_ai._files.backup_file import DATABASE_KEY, StoredFiles, find_database, looks_like_backup, read_index
from tavernkit.risu_ai._files.compression import CompressionError, decompress
from tavernkit.risu_ai._files.database_codec import MARK, DatabaseError, Decoder, parse
from tavernkit.risu_ai._files.file_kinds import foreign_file, foreign_json, foreign_lines, is_database, is_text
from tavernkit.risu_ai._files.message_pack import Packed
from tavernkit.risu_ai._files.preset import preset_from_database, preset_in_database
from tavernkit.risu_ai._files.start_up import Stored
from tavernkit.risu_ai._limits import MAX_COLD_CHAT_BYTES, MAX_DATABASE_BYTES

Kind = Literal["backup", "database", "json"]
_LOOK = 4096
_SHOWN_BYTES = 8
EXPORT = "in RisuAI, Settings > Save Local Backup writes a file with everything"


class SaveAsset:
    """A picture or another file of a save, read on demand.

    Args:
        name: Its name in the save.
        size: Its size in bytes.
        read: Returns its bytes.
    """

    def __init__(self, name: str, size: int, read: Callable[[], bytes]) -> None:
        self.name = name
        self.size = size
        self._read = read

    def __repr__(self) -> str:
        return f"SaveAsset({self.name!r}, {self.size} bytes)"

    def read(self) -> bytes:
        """Read the bytes."""
        return self._read()


def open_save(source: FileContent, files: StoredFiles) -> Source:
    """Open a file, or the database in a folder of RisuAI's."""
    if not isinstance(source, (str, os.PathLike)) or not os.fspath(source).strip() or not Path(source).is_dir():
        return as_source(source, DEFAULT_LIMITS)
    if (found := files.database()) is not None:
        return found
    copies = ", ".join(path.name for path in sorted(Path(source).glob("database/dbbackup-*.bin"), reverse=True)[:3])
    hint = f"; in its folder database are copies, which you can open: {copies}" if copies else ""
    raise DatabaseError(f"{source}: the folder has no {DATABASE_KEY}{hint}; {EXPORT}")


def read_save(source: Source, name: str, decoder: Decoder, warn: Warn) -> tuple[Stored, Kind, dict[str, SaveAsset]]:
    """Read the database and list the assets; raises ``DatabaseError`` for other files."""
    with source.open() as stream:
        start = stream.read(_LOOK)
    if not is_database(start) and looks_like_backup(start, None if decoder.salvage else source.size):
        return _read_backup(source, name, decoder, warn)
    if foreign := foreign_file(start):
        raise DatabaseError(f"{name}: this is {foreign}, not a save of RisuAI; {EXPORT}")
    data = read_all(source, MAX_DATABASE_BYTES, limit="MAX_DATABASE_BYTES", what=name)
    if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return _read_json(data, name), "json", {}
    try:
        database = decoder.decode(data)
    except DatabaseError as error:
        why = str(error) if is_database(start) else f"this is {_unknown(data)}, not a save of RisuAI"
        raise DatabaseError(f"{name}: {why}; {EXPORT}") from error
    if not is_database(start) and (foreign := foreign_json(database)):
        raise DatabaseError(f"{name}: this is {foreign}, not a save of RisuAI; {EXPORT}")
    return database, "database", {}


def _unknown(data: bytes) -> str:
    """Describe a file that could not be decoded, as far as its bytes show what it is."""
    if not data:
        return "an empty file"
    if is_text(data[:_LOOK]):
        return "a web page, perhaps a chat (`risu_ai.ChatFile.load`)" if data.lstrip()[:1] == b"<" else "a text"
    if data.startswith(MARK) and len(data) > len(MARK):
        return f"a database of version {data[len(MARK)]}, where 7, 8 and 9 are known"
    try:
        unpacked = foreign_json(parse(decompress(data, MAX_COLD_CHAT_BYTES)))
    except (CompressionError, ValueError):
        unpacked = ""
    return unpacked or f"an unknown file that begins with the bytes {data[:_SHOWN_BYTES].hex(' ')}"


def _read_backup(source: Source, name: str, decoder: Decoder, warn: Warn) -> tuple[Stored, Kind, dict[str, SaveAsset]]:
    index = read_index(source)
    if index.problem:
        warn(f"{name}: {index.problem}")
    entry = index.database
    if entry is None and index.problem and decoder.salvage:
        entry = index.rest if index.rest is not None and index.rest.is_database else find_database(source)
        if entry is not None and entry is not index.rest:
            warn(f"{name}: what follows was searched, and the database was found at offset {entry.offset}")
    if entry is None:
        why = f" ({index.problem})" if index.problem else ""
        raise DatabaseError(f"{name}: the backup has {len(index.assets)} assets and no database{why}; {EXPORT}")
    try:
        database = decoder.decode(entry.read())
    except DatabaseError as error:
        raise DatabaseError(f"{name}: {error}") from error
    assets = {each.name: SaveAsset(each.name, each.size, each.read) for each in index.assets.values()}
    return database, "backup", assets


def _read_json(data: bytes, name: str) -> Stored:
    try:
        value = parse(data)
    except ValueError as error:
        found = foreign_lines(data) or f"not JSON ({error})"
        raise DatabaseError(f"{name}: this is {found}, not a save of RisuAI; {EXPORT}") from error
    if isinstance(value, dict) and isinstance(value.get("characters"), list):
        return value
    found = foreign_json(value) or "JSON without a list of characters"
    raise DatabaseError(f"{name}: this is {found}, not a save of RisuAI; {EXPORT}")


def file_asset(name: str, source: Source) -> SaveAsset:
    """Return an asset that is a separate file."""

    def read() -> bytes:
        return read_all(source, MAX_DATABASE_BYTES, limit="MAX_DATABASE_BYTES", what=name)

    return SaveAsset(name, source.size, read)


_CHATS = ("chats", "chatPage")
_SETTINGS = {"username": "username", "persona_prompt": "personaPrompt", "selected_persona": "selectedPersona"}
_LISTS = {"personas": "personas", "presets": "botPresets"}


def changed_database(database: Stored, index: int, snapshot: Mapping[str, object]) -> Stored:
    """Return the database with a chat snapshot's changes of characters and settings.

    Args:
        database: RisuAI's own object.
        index: The index of the chat's character or group.
        snapshot: The result of ``Chat.snapshot()``.
    """
    characters = database.get("characters")
    found: list[Packed] = [*characters] if isinstance(characters, list) else []
    own, others = snapshot.get("character"), snapshot.get("members")
    if is_mapping(own):
        found[index] = _laid_over(found[index], own)
    for changed in others if is_sequence(others) else ():
        for place, each in enumerate(found):
            if is_mapping(changed) and isinstance(each, dict) and each.get("chaId") == changed.get("chaId"):
                found[place] = _laid_over(each, changed)
    made: Stored = {**database, "characters": found}
    settings, variables = snapshot.get("settings"), snapshot.get("global_variables")
    if is_mapping(variables):
        made["globalChatVariables"] = _stored(variables)
    if is_mapping(settings):
        raw = settings.get("raw")
        made |= _stored(raw) if is_mapping(raw) else {}
        made |= {key: settings[name] for name, key in _SETTINGS.items() if name in settings}  # pyright: ignore[reportAssignmentType, reportCallIssue, reportArgumentType, reportOperatorIssue]  # texts and numbers
        for name, key in _LISTS.items():
            listed = settings.get(name)
            if is_sequence(listed):
                made[key] = _merged(database.get(key), [_stored(each) for each in listed if is_mapping(each)])
    return made


def _laid_over(before: Packed, changed: Mapping[str, object]) -> Packed:
    """Return a character with changed fields; its chats are stored separately."""
    kept = {key: value for key, value in changed.items() if key not in _CHATS}
    return {**(before if isinstance(before, dict) else {}), **_stored(kept)}


def _merged(before: Packed, after: list[Stored]) -> list[Packed]:
    """Return the objects of a list with changed fields; other fields stay."""
    known = before if isinstance(before, list) else []
    return [
        {**old, **new} if index < len(known) and isinstance(old := known[index], dict) else new
        for index, new in enumerate(after)
    ]


def _place(items: Packed, which: str | int, what: str) -> tuple[int, Stored]:
    """Find an object of a list by its name, id or index."""
    listed = items if isinstance(items, list) else []
    for index, item in enumerate(listed):
        if isinstance(item, dict) and which in (index, item.get("name"), item.get("id")):
            return index, item
    names = ", ".join(str(item.get("name")) for item in listed[:12] if isinstance(item, dict)) or "(there are none)"
    raise ConfigError(f"there is no {what} {which!r}: choose one of {names}")


def _stored(value: Mapping[str, object]) -> Stored:
    return thaw_object(value)  # pyright: ignore[reportReturnType]  # JSON is part of what a database may hold


def with_persona(database: Stored, which: str | int) -> Stored:
    """Switch personas: active values are stored in the old one first."""
    index, persona = _place(database.get("personas"), which, "persona")
    pairs = (("username", "name"), ("personaPrompt", "personaPrompt"), ("userIcon", "icon"), ("userNote", "note"))
    stored = database.get("personas")
    personas: list[Packed] = [*stored] if isinstance(stored, list) else []
    selected = database.get("selectedPersona")
    old = personas[selected] if isinstance(selected, int) and 0 <= selected < len(personas) else None
    if isinstance(old, dict) and isinstance(selected, int):
        personas[selected] = stored = {**old, **{name: database.get(key) for key, name in pairs}}
        persona = stored if selected == index else persona
    chosen: Stored = {key: persona.get(name) or "" for key, name in pairs}
    return {**database, **chosen, "personas": personas, "selectedPersona": index}


def with_preset(database: Stored, which: str | int) -> Stored:
    """Switch presets: the active one is stored first, so choosing it changes nothing."""
    index, preset = _place(database.get("botPresets"), which, "preset")
    active = database.get("botPresetsId")
    if index == active:
        return database
    stored = database.get("botPresets")
    presets: list[Packed] = [*stored] if isinstance(stored, list) else []
    old = presets[active] if isinstance(active, int) and 0 <= active < len(presets) else None
    if isinstance(old, dict) and isinstance(active, int):
        presets[active] = packed(preset_from_database(database, old))
    laid: Stored = {key: packed(value) for key, value in preset_in_database(preset).items()}
    return {**database, **laid, "botPresets": presets, "botPresetsId": index}


def packed(value: Json) -> Packed:
    """Return JSON as part of a database."""
    return value  # pyright: ignore[reportReturnType]  # JSON is part of what a database may hold
