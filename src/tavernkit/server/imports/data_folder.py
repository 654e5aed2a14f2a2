"""The contents of a SillyTavern data folder, read on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tavernkit import silly_tavern as st
from tavernkit._values import EMPTY_OBJECT, Json, JsonObject, is_mapping, is_object, is_sequence, thaw, thaw_object
from tavernkit.cards import load, parse_json
from tavernkit.errors import TavernKitError, Warn
from tavernkit.server.imports.found import (
    FoundChat,
    FoundFile,
    FoundFolder,
    FoundGroup,
    FoundGroupChat,
    FoundScripts,
    FoundSettings,
    Origin,
    Work,
)
from tavernkit.server.library.chat_settings import chosen_settings
from tavernkit.server.library.item_files import NewItem, persona_item, read_item, unused_body
from tavernkit.server.library.library import SILLY_TAVERN, StoredPersona, read_persona, read_scripts
from tavernkit.server.library.stored_folders import ATTACHED, DATA_BANKS, attached, kept_settings, named_files
from tavernkit.server.limits import MAX_CHAT_FILES_BYTES
from tavernkit.server.sessions.files import digest_of
from tavernkit.server.storage.items import Kind, slug
from tavernkit.silly_tavern._files.attached_files import AttachedFiles
from tavernkit.silly_tavern._files.folder_files import CHATS, GROUP_CHATS
from tavernkit.silly_tavern._files.personas import read_description
from tavernkit.silly_tavern._macros.environment import CHAT_COMPLETION_API


def data_folder_work(source: st.DataFolder, warn: Warn, *, served: bool) -> Iterator[Work]:
    """Yield the items of a data folder: characters before their chats.

    Args:
        source: The folder.
        warn: Called with problems.
        served: True for a folder that is served.
    """
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
        stored = parse_json(found.file, what=name, warn=_ignore)
        file = stored if is_object(stored) else {}
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
        persona = read_description(stored if is_mapping(stored) else EMPTY_OBJECT)
        if avatar == source.settings.user_avatar:  # its current copy counts, as in SillyTavern
            persona, name = source.settings.persona, source.settings.source.get("username") or name
        if not isinstance(name, str) or not name:
            continue  # without a name, a persona changes the picture only
        details: JsonObject = {
            "name": name,
            "description": persona.description,
            "position": persona.position,
            "depth": _whole(persona.depth),
            "role": _whole(persona.role),
            "books": [slug(persona.lorebook)] if persona.lorebook else [],
        }
        found.append((avatar, read_persona(details)))
    return found


def _whole(number: float) -> int:
    """Return a depth or role as it is stored here: -1 stands for those with which a text is never shown."""
    return int(number) if float(number).is_integer() else -1
