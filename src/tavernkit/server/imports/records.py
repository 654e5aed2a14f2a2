"""Stores what was found in an upload or a folder, with the ids of this database."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import silly_tavern as st
from tavernkit._values import JsonObject
from tavernkit.server.imports.found import (
    Found,
    FoundChat,
    FoundFolder,
    FoundGroup,
    FoundGroupChat,
    FoundRisuChats,
    FoundScripts,
    FoundSettings,
    Progress,
)
from tavernkit.server.imports.saves import FoundSaveChats, FoundSaveGroup
from tavernkit.server.imports.stored_chats import (
    save_if_new,
    store_chat,
    store_files,
    store_group_chat,
    store_risu_chats,
    store_save_chats,
)
from tavernkit.server.library.chat_settings import (
    add_scripts,
    checked_settings,
    global_scripts,
    refuse_scripts,
    save_settings,
    stored_settings,
)
from tavernkit.server.library.item_files import NewItem, read_item, store_item
from tavernkit.server.library.library import SILLY_TAVERN
from tavernkit.server.library.stored_folders import FOLDER, SERVED, folder_file
from tavernkit.server.sessions.files import ItemMark, digest_of, item_of, note_item
from tavernkit.server.storage import turns
from tavernkit.server.storage.items import ItemInfo, infos, item_file, slug


async def store(connection: AsyncConnection, progress: Progress, name: str, found: Found) -> None:
    """Store a found item."""
    match found:
        case NewItem():
            await _store_item(connection, progress, name, found)
        case FoundChat():
            await store_chat(connection, progress, found)
        case FoundGroup():
            progress.groups[found.key] = await _store_group(connection, progress, found.group)
        case FoundGroupChat():
            await store_group_chat(connection, progress, found)
        case FoundRisuChats():
            await store_risu_chats(connection, progress, found)
        case FoundSaveGroup():
            progress.groups[found.key] = await _store_group(connection, progress, found.group)
        case FoundSaveChats():
            await store_save_chats(connection, progress, found)
        case FoundScripts():
            if not (progress.served and await global_scripts(connection)):
                added = await add_scripts(connection, found.scripts)
                progress.count("regex", added)
                progress.skip("regex", len(found.scripts) - added)
        case FoundFolder():
            await _store_folder(connection, progress, found)
        case FoundSettings():
            await _store_settings(connection, progress, name, found)


async def _store_settings(connection: AsyncConnection, progress: Progress, name: str, found: FoundSettings) -> None:
    """Settings apply to all chats: an import does not change existing ones."""
    await _add_variables(connection, progress, found.platform, found.variables)
    stored = await stored_settings(connection, found.platform)
    if stored is not None:
        if progress.served or stored == found.settings:
            return
        progress.warn(f"{name} are left out, because there are settings already; change them with PUT /api/settings")
        return
    settings = checked_settings(found.settings, found.platform, lambda text: progress.warn(f"{name}: {text}"))
    await save_settings(connection, settings, found.platform)
    progress.count("settings")


async def _store_item(connection: AsyncConnection, progress: Progress, name: str, item: NewItem) -> None:
    info, is_new = await _saved(connection, progress, name, item)
    if item.kind == "character":
        progress.characters[Path(name).name] = info.id
        progress.names[slug(item.name)] = info.id
    elif item.kind == "book":
        progress.books[Path(name).stem] = info.id
    elif item.kind == "persona":
        progress.personas[Path(name).name] = info.id
    elif item.kind == "preset":
        progress.presets[Path(name).name] = info.id
    if not is_new:
        return
    if not item.scripts_allowed:
        await refuse_scripts(connection, info)
    for warning in item.warnings:
        progress.warn(f"{name}: {warning}")


async def _store_group(connection: AsyncConnection, progress: Progress, group: st.Group) -> str:
    """Store a group with the ids that its members have here."""
    known = progress.characters
    for member in group.members:
        if member not in known:
            progress.warn(f"group {group.name!r}: the member {member!r} is not there")
    renamed = group.replace(
        members=tuple(known[each] for each in group.members if each in known),
        disabled_members=tuple(known[each] for each in group.disabled_members if each in known),
    )
    content = json.dumps(renamed.to_json()).encode()
    item = read_item("group", f"{group.name or group.id}.json", content, name=group.name or group.id)
    return (await _saved(connection, progress, group.id, item))[0].id


async def _saved(connection: AsyncConnection, progress: Progress, name: str, item: NewItem) -> tuple[ItemInfo, bool]:
    """Store an item, and return True if it is new or a new version; unchanged ones are skipped."""
    if not progress.served:
        return await _saved_once(connection, progress, name, item)
    # In a served folder, each file has its own item.
    ids = (slug(item.name), slug(f"{item.name} {Path(name).stem}"), slug(name))
    chosen = next(each for each in (*ids, slug(name)) if progress.seen.get((item.kind, each), name) == name)
    progress.seen[item.kind, chosen] = name
    known = (await infos(connection, [(item.kind, chosen)])).get((item.kind, chosen))
    if known is not None and await item_file(connection, item.kind, chosen) == item.file:
        return known, False
    return await _new_version(connection, progress, item, chosen), True


async def _saved_once(
    connection: AsyncConnection, progress: Progress, name: str, item: NewItem
) -> tuple[ItemInfo, bool]:
    """Store an item of a save or an upload, which may come again; items that have been changed here stay."""
    source = progress.save or f"upload of {progress.owner}"
    if item.kind in ("preset", "persona"):  # others may have the same name
        key = f"{source}/{item.kind}/{item.name}"
    else:  # parts of a save have ids, files only names
        key = f"{source}/{name}/{item.name}" if Path(name).suffix and progress.uploaded else name
    number = 1
    while progress.seen.setdefault((item.kind, f"{key} {number}"), name) != name:
        number += 1
    key = f"{key} {number}"
    mark, digest = await item_of(connection, key), digest_of(item.file)
    known = (await infos(connection, [(item.kind, mark.item_id)])).get((item.kind, mark.item_id)) if mark else None
    if mark is not None and known is not None:
        own = digest_of(await item_file(connection, item.kind, known.id)) != mark.digest
        if mark.digest != digest and own:
            what = "save" if progress.save is not None else "upload"
            progress.warn(f"{item.kind} {item.name!r} has changed in the {what} and here: it stays as it is here")
        if mark.digest == digest or own:
            progress.skip(item.kind)
            return known, False
    saved = await _new_version(connection, progress, item, known.id if known is not None else None)
    await note_item(connection, key, ItemMark(saved.id, digest))
    return saved, True


async def _new_version(connection: AsyncConnection, progress: Progress, item: NewItem, item_id: str | None) -> ItemInfo:
    """Store an item, or a new version of it."""
    saved = await store_item(connection, item, item_id)
    progress.count(item.kind)
    return saved


async def _store_folder(connection: AsyncConnection, progress: Progress, found: FoundFolder) -> None:
    """Store a folder's settings and files for all of its chats."""
    avatars = {item_id: avatar for avatar, item_id in progress.characters.items()}
    content = folder_file(found.settings, avatars, progress.groups.values(), progress.books)
    chosen = SERVED if progress.served else f"import-{digest_of(f'{progress.owner} '.encode() + content)[:32]}"
    progress.stored_folder = chosen
    await save_if_new(connection, FOLDER, chosen, "settings.json", content, name=chosen)
    await store_files(connection, chosen, found.files)
    await _add_variables(connection, progress, SILLY_TAVERN, found.variables)


async def _add_variables(connection: AsyncConnection, progress: Progress, platform: str, variables: JsonObject) -> None:
    """Store global variables that do not exist yet."""
    before = await turns.read_globals(connection, progress.owner, platform)
    new = {key: value for key, value in variables.items() if key not in before}
    await turns.write_globals(connection, progress.owner, platform, before, {**new, **before})
