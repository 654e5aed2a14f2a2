"""The contents of an upload: a SillyTavern data folder or single files, read on demand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._values import EMPTY_OBJECT, Json, JsonObject, is_mapping, is_object, is_sequence, thaw, thaw_object
from tavernkit.cards import load, parse_json
from tavernkit.conversation._stores import STATE_SUFFIX
from tavernkit.errors import TavernKitError, Warn
from tavernkit.server.imports.archive import files_below, unpack
from tavernkit.server.imports.saves import FoundSaveChats, FoundSaveGroup, SaveSource, is_save
from tavernkit.server.library.chat_settings import chosen_settings
from tavernkit.server.library.item_files import NewItem, persona_item, read_item, unused_body
from tavernkit.server.library.library import (
    CHAT_SETTINGS,
    REFUSED_SCRIPTS,
    RISU_AI,
    SILLY_TAVERN,
    StoredPersona,
    read_persona,
    read_refusals,
    read_scripts,
)
from tavernkit.server.library.stored_folders import ATTACHED, DATA_BANKS, attached, kept_settings, named_files
from tavernkit.server.limits import MAX_CHAT_FILES_BYTES
from tavernkit.server.sessions.file_marks import digest_of
from tavernkit.server.storage.items import KINDS, Kind, slug
from tavernkit.silly_tavern._files.attached_files import AttachedFiles
from tavernkit.silly_tavern._files.folder_files import CHATS, GROUP_CHATS
from tavernkit.silly_tavern._macros.environment import CHAT_COMPLETION_API

EXPORT_MARK = "tavernkit-export.json"
"""A file that only archives of ``tavernkit server export`` have."""
ROOT_MARKS = ("settings.json", "characters")
RISU_CHATS = ("risuChat", "risuAllChats")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that a chat or the settings refer to by URL."""

    url: str
    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Origin:
    """The file in the data folder that a chat was read from, with its digest."""

    path: str
    digest: str


@dataclass(frozen=True, slots=True)
class FoundChat:
    """A SillyTavern chat; ``avatar`` and ``persona`` are the character's and the user's files, if known."""

    file: st.ChatFile
    digest: str = ""
    """That of its file."""
    avatar: str | None = None
    persona: str = ""
    files: tuple[FoundFile, ...] = ()
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class FoundGroupChat:
    """A chat of a group; ``group`` is the name of the group's file, ``persona`` that of the user's avatar."""

    group: str
    file: st.ChatFile
    digest: str = ""
    persona: str = ""
    files: tuple[FoundFile, ...] = ()
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class FoundRisuChats:
    """Chats exported from RisuAI; their file does not name the character."""

    path: Path
    file: risu_ai.ChatFile


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """A group, its members by their file names; ``key`` is its own file name."""

    key: str
    group: st.Group


@dataclass(frozen=True, slots=True)
class FoundScripts:
    """SillyTavern's global regex scripts."""

    scripts: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class FoundSettings:
    """A platform's settings of chats."""

    settings: JsonObject
    platform: str
    variables: JsonObject = field(default_factory=dict[str, Json])
    """Global variables."""


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """What applies to all chats of a SillyTavern folder: settings, and the files of its Data Bank."""

    settings: JsonObject
    files: tuple[FoundFile, ...] = ()
    variables: JsonObject = field(default_factory=dict[str, Json])
    """Global variables."""


Found: TypeAlias = (
    NewItem
    | FoundChat
    | FoundGroupChat
    | FoundRisuChats
    | FoundGroup
    | FoundScripts
    | FoundSettings
    | FoundFolder
    | FoundSaveGroup
    | FoundSaveChats
)
Work: TypeAlias = tuple[str, Callable[[], Found]]
"""A name for reports, and a function that reads the item."""


def find_work(folder: Path, filename: str, warn: Warn) -> list[Work]:
    """Yield the items to import, in order: characters before their chats.

    ``warn`` is called with problems in settings, chats and groups, also when they are read later.
    """
    upload = folder / "upload"
    if is_save(upload, filename):
        return save_work(upload, warn)
    name = Path(filename.replace("\\", "/")).name
    if not _is_archive(upload, name):
        return [(filename, lambda: _any_file(Path(name), upload.read_bytes(), warn))]
    content = folder / "content"
    unpack(upload, content)
    return work_below(content, warn)


def _is_archive(file: Path, name: str) -> bool:
    """Return True for a ZIP file of files, whatever its name; a card may be a ZIP file too."""
    lower = name.lower()
    if lower.endswith(".zip"):
        return True
    if lower.endswith(tuple(suffix for suffixes, _ in _BY_SUFFIX for suffix in suffixes)):
        return False
    with file.open("rb") as opened:
        return opened.read(len(ZIP_START)) == ZIP_START


def work_below(content: Path, warn: Warn, *, served: bool = False) -> list[Work]:
    """Yield the items of a folder: an archive of ours, a SillyTavern data folder, or any files.

    Args:
        content: The folder.
        warn: Called with problems.
        served: True for a folder that is served: other files in it are not reported, and new sessions with its
            characters have its settings.
    """
    if (content / EXPORT_MARK).is_file():
        return list(_export(content, warn))
    root = next((path for path in _folders(content) if any((path / mark).exists() for mark in ROOT_MARKS)), None)
    if root is not None:
        return list(_data_folder(st.DataFolder(root, warn=warn), warn, served=served))
    files = (path for path in files_below(content) if not served or _may_be_item(path))
    paths = sorted(files, key=lambda path: (_may_be_chat(path), path))
    return [(str(path.relative_to(content)), _reading(path, path.relative_to(content), warn)) for path in paths]


def _export(content: Path, warn: Warn) -> Iterator[Work]:
    """Yield the items of an archive of ours: its folders are kinds, its files have the ids that others refer to."""
    files: dict[str, list[Path]] = {kind: sorted((content / f"{kind}s").glob("*")) for kind in KINDS}
    refused = {tuple(each[:2]) for each in read_refusals(_refusals(files["settings"], warn))}
    characters = {path.stem: path.name for path in files["character"]}
    groups = {path.stem for path in files["group"]}
    readable: tuple[Kind, ...] = ("character", "book", "preset", "persona", "module")
    for kind in readable:
        for path in files[kind]:
            name = f"{kind}s/{path.name}"
            allowed = (kind, path.stem) not in refused
            yield (
                name,
                lambda kind=kind, path=path, allowed=allowed: replace(
                    read_item(kind, path.name, path.read_bytes()), scripts_allowed=allowed
                ),
            )
    for path in files["regex"]:
        yield f"regexs/{path.name}", lambda path=path: FoundScripts(read_scripts(_json(path, warn)))
    for platform, (kind, item_id) in CHAT_SETTINGS.items():
        path = content / f"{kind}s" / f"{item_id}.json"
        if path.is_file():
            yield f"{kind}s/{path.name}", lambda path=path, of=platform: _exported_settings(path, of, warn)
    for path in files["group"]:
        yield f"groups/{path.name}", lambda path=path: FoundGroup(path.stem, _group(path, characters, warn))
    if files["folder"] or files["file"]:
        warn("settings and files of imported data folders are left out: import those folders again, or use a backup")
    for path in files_below(content / "chats"):
        name = str(path.relative_to(content))
        yield name, lambda path=path: _exported_chat(path, characters, groups, warn)


def _refusals(settings: Sequence[Path], warn: Warn) -> JsonObject:
    """Return the exported list of items whose regex scripts do not run."""
    found = next((path for path in settings if path.stem == REFUSED_SCRIPTS[1]), None)
    return _object(found, warn) if found is not None else {}


def _json(path: Path, warn: Warn) -> Json:
    return parse_json(path.read_bytes(), what=path.name, warn=warn)


def _object(path: Path, warn: Warn) -> JsonObject:
    return _parsed(_json(path, warn))


def _parsed(value: Json) -> JsonObject:
    return value if is_object(value) else {}


def _exported_settings(path: Path, platform: str, warn: Warn) -> FoundSettings:
    return FoundSettings(chosen_settings(_object(path, warn), platform), platform)


def _group(path: Path, characters: Mapping[str, str], warn: Warn) -> st.Group:
    """Read a group whose members are ids, and return it with their files' names."""
    group = st.Group.from_json(_object(path, warn))
    return group.replace(
        members=tuple(characters.get(each, each) for each in group.members),
        disabled_members=tuple(characters.get(each, each) for each in group.disabled_members),
    )


def _exported_chat(path: Path, characters: Mapping[str, str], groups: Collection[str], warn: Warn) -> Found:
    owner = path.parent.name
    found = _any_file(Path(owner, path.name), path.read_bytes(), warn)
    if isinstance(found, FoundChat):
        return (
            FoundGroupChat(owner, found.file, found.digest)
            if owner in groups
            else replace(found, avatar=characters.get(owner))
        )
    return found


def _folders(content: Path) -> Iterator[Path]:
    yield content
    yield from (path for path in sorted(content.rglob("*")) if path.is_dir())


def _reading(path: Path, name: Path, warn: Warn) -> Callable[[], Found]:
    return lambda: _any_file(name, path.read_bytes(), warn)


def _may_be_item(path: Path) -> bool:
    """Return False for files that are not cards, books, presets, modules or chats by their names."""
    return path.suffix.lower() in _SUFFIXES and not path.name.lower().endswith(_OTHER_FILES)


def _may_be_chat(path: Path) -> bool:
    """Return True if a file is read after the others, because chats need their characters."""
    if path.suffix.lower() == ".json":
        return any(kind.encode() in path.read_bytes() for kind in RISU_CHATS)
    return path.suffix.lower() == ".jsonl"


def _any_file(path: Path, data: bytes, warn: Warn) -> Found:
    """Read a file of any kind, detected by its name and content."""
    lower = path.name.lower()
    if lower.endswith(".jsonl"):
        text = data.decode("utf-8-sig", "replace")
        return FoundChat(st.ChatFile.loads(text, name=path.stem, warn=warn), digest_of(data))
    for suffixes, kind in _BY_SUFFIX:
        if lower.endswith(suffixes):
            return read_item(kind, path.name, data)
    value = parse_json(data, what=path.name, warn=warn)
    if is_object(value) and value.get("type") in RISU_CHATS:
        return FoundRisuChats(path, risu_ai.ChatFile.load(data, warn=warn))
    return read_item(_json_kind(value), path.name, data)


def _json_kind(value: object) -> Kind:
    if is_object(value):
        for keys, kind in _BY_KEYS:
            if any(key in value for key in keys):
                return kind
    return "character"


ZIP_START = b"PK\3\4"
"""The first bytes of a ZIP file."""

_BY_SUFFIX: tuple[tuple[tuple[str, ...], Kind], ...] = (
    ((".risup", ".risupreset"), "preset"),
    ((".risum",), "module"),
    ((".png", ".apng", ".charx", ".webp", ".jpg", ".jpeg", ".yaml", ".yml", ".byaf"), "character"),
)
_SUFFIXES = frozenset((".json", ".jsonl", *(suffix for suffixes, _ in _BY_SUFFIX for suffix in suffixes)))
_OTHER_FILES = (STATE_SUFFIX, ".tavern.yaml", ".tavern.yml", ".lore.yaml", ".lore.yml")
"""Endings of files that conversations and the tests of cards have next to them."""
_BY_KEYS: tuple[tuple[tuple[str, ...], Kind], ...] = (
    (("spec",), "character"),
    (("promptTemplate", "formatingOrder", "prompts", "prompt_order"), "preset"),
    (("lorebook", "trigger", "regex"), "module"),
    (("entries",), "book"),
)
"""The keys that identify each kind, in the order of checks."""


def _data_folder(source: st.DataFolder, warn: Warn, *, served: bool) -> Iterator[Work]:
    root = source.path

    def item(kind: Kind, *parts: str) -> tuple[str, Callable[[], NewItem]]:
        path = root.joinpath(*parts)
        return "/".join(parts), lambda: read_item(kind, path.name, path.read_bytes())

    for name in source.characters():
        record, read = item("character", "characters", name)
        # Items of a served folder stay in it: its settings decide for each chat.
        yield record, read if served else lambda read=read, n=name: _with_allowance(read(), source.settings, n)
    for name in source.worlds():
        yield item("book", "worlds", f"{name}.json")
    for name in source.presets():
        record, read = item("preset", "OpenAI Settings", f"{name}.json")
        yield record, read if served else lambda read=read, n=name: _with_allowance(read(), source.settings, n)
    for avatar, persona in _personas(source):
        yield f"User Avatars/{avatar}", lambda persona=persona: persona_item(persona)
    power_user = source.settings.source.get("power_user")
    if is_mapping(power_user) and (settings := chosen_settings(power_user, SILLY_TAVERN)):
        yield "settings.json: settings of chats", lambda: FoundSettings(settings, SILLY_TAVERN)
    scripts = source.settings.extension_settings.get("regex")
    if is_sequence(scripts) and scripts:
        switched_off = source.settings.extension_settings.get("disabledExtensions")
        off: JsonObject = {"disabled": True} if is_sequence(switched_off) and "regex" in switched_off else {}
        yield (
            "settings.json: regex scripts",
            lambda: FoundScripts(tuple({**script, **off} for script in read_scripts(thaw(scripts)))),
        )
    for message in source.unsupported():
        warn(message)
    for group_id in source.groups():
        yield f"groups/{group_id}", lambda group_id=group_id: FoundGroup(group_id, source.group(group_id))
    yield "settings.json", lambda: _folder(source, warn)
    for avatar in source.characters():
        for chat in source.chats(avatar):
            yield f"chats/{avatar}/{chat}", lambda a=avatar, c=chat: _chat(source, a, c, warn)
    for group_id in source.groups():
        yield from _group_chats(source, group_id, warn)


def save_work(path: Path, warn: Warn) -> list[Work]:
    """Yield the items of a RisuAI save: a backup, a database or its folder."""
    return list(_save(SaveSource(path, warn)))


def _save(source: SaveSource) -> Iterator[Work]:
    for name, character in source.characters():
        yield name, lambda character=character: source.character_item(character)
    for items in (source.preset_items(), source.module_items(), source.persona_items()):
        yield from ((name, lambda item=item: item) for name, item in items)
    if settings := source.settings():
        found = FoundSettings(settings, RISU_AI, source.variables())
        yield "database: settings of chats", lambda: found
    for group in source.groups():
        yield f"groups/{group.key}", lambda group=group: group
    for chats in source.chats():
        yield f"chats/{chats.owner}", lambda chats=chats: chats


def _with_allowance(found: NewItem, settings: st.Settings, name: str) -> NewItem:
    """Return a character or preset with the settings' decision on its regex scripts: in new chats they run, or not.

    Args:
        found: The item.
        settings: The settings of its folder.
        name: The card's file, or the preset's name.
    """
    extensions = settings.extension_settings
    if found.platform != SILLY_TAVERN:
        return found
    if found.kind == "preset":
        file = _parsed(parse_json(found.file, what=name, warn=_ignore))
        scripts = st.RegexScripts.from_settings(
            extensions, preset=file, preset_name=name, api=CHAT_COMPLETION_API, warn=_ignore
        )
        own, allowed = scripts.preset, scripts.preset_allowed
    else:
        card = {"extensions": load(found.file, warn=_ignore).character.extensions}
        scripts = st.RegexScripts.from_settings(extensions, card_data=card, avatar=name, warn=_ignore)
        own, allowed = scripts.scoped, scripts.scoped_allowed
    if not own or (allowed and scripts.enabled):
        return found
    why = "the extension regex is switched off" if allowed else "they were not allowed"
    warning = f"its regex scripts do not run, because {why} in SillyTavern. To run them, upload the file itself"
    return replace(found, warnings=(*found.warnings, warning), scripts_allowed=False)


def _ignore(_: str) -> None:
    """Ignore a warning: reading the item has reported it."""


def _folder(source: st.DataFolder, warn: Warn) -> FoundFolder:
    for line in unused_body(source.settings.preset):
        warn(f"settings.json: {line}")
    settings = kept_settings(source.settings.source)
    extensions = settings.get("extension_settings")
    named = [extensions.get(key) for key in DATA_BANKS] if is_object(extensions) else []
    return FoundFolder(settings, _files(source, named, warn), thaw_object(source.settings.global_variables))


def _chat(source: st.DataFolder, avatar: str, name: str, warn: Warn) -> FoundChat:
    origin = _origin(source, CHATS, Path(avatar).stem, f"{name}.jsonl")
    file, persona = source.chat(avatar, name), _quiet(source).persona(avatar, name).avatar
    file = _greeted(source, file, character=avatar)
    digest = origin.digest if origin is not None else ""
    return FoundChat(file, digest, avatar, persona, _attached_files(source, file, warn), origin)


def _group_chat(source: st.DataFolder, group_id: str, name: str, warn: Warn) -> FoundGroupChat:
    origin = _origin(source, GROUP_CHATS, f"{name}.jsonl")
    file, persona = source.group_chat(name), _quiet(source).persona(chat=name, group=group_id).avatar
    file = _greeted(source, file, group=group_id)
    digest = origin.digest if origin is not None else ""
    return FoundGroupChat(group_id, file, digest, persona, _attached_files(source, file, warn), origin)


def _greeted(
    source: st.DataFolder, file: st.ChatFile, *, character: str | None = None, group: str | None = None
) -> st.ChatFile:
    """Add the greetings to a chat without messages, as SillyTavern does when it opens one."""
    if file.messages:
        return file
    opened = _quiet(source).builder(character, file.name, group=group).make_context()
    return replace(file, messages=tuple(opened.log.lines), metadata=opened.metadata)


def _origin(source: st.DataFolder, *parts: str) -> Origin | None:
    """Return the origin of a chat. It is read before the chat, so that changes in between are noticed."""
    path = source.path.joinpath(*parts)
    return Origin("/".join(parts), digest_of(path.read_bytes())) if path.is_file() else None


def _attached_files(source: st.DataFolder, file: st.ChatFile, warn: Warn) -> tuple[FoundFile, ...]:
    named: list[Json] = [thaw(file.metadata.get("attachments"))]
    for message in file.messages:
        named += attached({"extra": {key: thaw(message.extra[key]) for key in ATTACHED if message.extra.get(key)}})
    return _files(source, named, warn, of=f"the chat {file.name!r}")


def _files(
    source: st.DataFolder, named: Sequence[Json], warn: Warn, *, of: str = "settings.json"
) -> tuple[FoundFile, ...]:
    """Read the files that values refer to; missing and too many files are reported."""
    reader, found, total = AttachedFiles(source.path, warn), list[FoundFile](), 0
    for url in named_files(named):
        content = reader.content(url)
        if content is None:
            warn(f"{of}: the file {url!r} is not there, or too large")
        elif total + len(content) > MAX_CHAT_FILES_BYTES:
            warn(f"{of}: the file {url!r} is left out: its files have more than {MAX_CHAT_FILES_BYTES:,} bytes")
        else:
            total += len(content)
            found.append(FoundFile(url, url.rpartition("/")[2].partition("?")[0], content))
    return tuple(found)


def _group_chats(source: st.DataFolder, group_id: str, warn: Warn) -> Iterator[Work]:
    """Return the chats that a group lists, and the current one."""
    try:
        listed = source.group(group_id).source
    except (TavernKitError, OSError):
        return  # record when the group itself is read
    chats, shown = listed.get("chats"), listed.get("chat_id")
    names = [*(chats if is_sequence(chats) else ()), shown]
    for name in dict.fromkeys(name for name in names if isinstance(name, str) and name):
        yield f"group chats/{name}", lambda name=name: _group_chat(source, group_id, name, warn)


def _quiet(source: st.DataFolder) -> st.DataFolder:
    """Return the same folder without warnings, which were already given."""
    return st.DataFolder(source.path, warn=_ignore)


def _personas(source: st.DataFolder) -> list[tuple[str, StoredPersona]]:
    """Yield the personas with their avatar files, which chats are locked to."""
    power_user = source.settings.source.get("power_user")
    names = power_user.get("personas") if is_mapping(power_user) else None
    texts = power_user.get("persona_descriptions") if is_mapping(power_user) else None
    found: list[tuple[str, StoredPersona]] = []
    for avatar, name in names.items() if is_mapping(names) else ():
        stored = texts.get(avatar) if is_mapping(texts) else None
        details = stored if is_mapping(stored) else EMPTY_OBJECT
        if avatar == source.settings.user_avatar:  # its current copy counts, as in SillyTavern
            details, name = dataclasses.asdict(source.settings.persona), source.settings.source.get("username") or name
        book = details.get("lorebook")
        books = [slug(book)] if isinstance(book, str) and book else []
        found.append((avatar, read_persona({**details, "name": str(name), "books": books})))
    return found
