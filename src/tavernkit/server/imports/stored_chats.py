"""Stores imported chats as sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import risu_ai
from tavernkit._values import Json, JsonObject, thaw_object
from tavernkit.server.errors import ServiceError
from tavernkit.server.imports.found import FoundChat, FoundFile, FoundGroupChat, FoundRisuChats, Origin, Progress
from tavernkit.server.imports.saves import FoundSaveChats
from tavernkit.server.library.library import RISU_AI, SILLY_TAVERN
from tavernkit.server.library.stored_folders import FILE, file_id
from tavernkit.server.limits import MAX_ID_CHARACTERS, MAX_SESSION_MESSAGES, UNREAD_STEP
from tavernkit.server.sessions.files import (
    UPLOADED,
    FileMark,
    risu_ai_line,
    risu_digest,
    session_of,
    set_mark,
    silly_tavern_line,
)
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import ChatState, Selection
from tavernkit.server.storage.items import Kind, all_items, infos, item_file, save_item, slug
from tavernkit.server.storage.lines import ChatLine, insert_lines

_Message = TypeVar("_Message")

STORED_AT_ONCE = 200
"""How many messages of a chat are stored at a time."""
TAKEN_OF_LONGER = MAX_SESSION_MESSAGES - UNREAD_STEP
"""How many messages of a too long chat are imported: there must be room to continue."""


@dataclass(frozen=True, slots=True)
class NewChat:
    """A chat whose messages will be stored next."""

    chat: ChatState
    name: str
    variables: JsonObject


async def store_chat(connection: AsyncConnection, progress: Progress, found: FoundChat) -> None:
    """Store a chat of a character.

    Args:
        connection: The database.
        progress: The import.
        found: The chat.
    """
    if found.avatar is not None:
        character = progress.characters.get(found.avatar)
    else:
        owner_name = slug(str(found.file.header.get("character_name") or ""))
        character = progress.names.get(owner_name) or await _owner(
            connection, progress, Path(owner_name) / found.file.name
        )
    if character is None:
        progress.warn(f"the chat {found.file.name!r} is left out: its character was not imported")
        return
    persona, folder = progress.personas.get(found.persona), progress.stored_folder
    selection = Selection(character=character, persona=persona, folder=folder if found.avatar is not None else None)
    await _store_st_chat(connection, progress, found, selection)


async def store_group_chat(connection: AsyncConnection, progress: Progress, found: FoundGroupChat) -> None:
    """Store a chat of a group.

    Args:
        connection: The database.
        progress: The import.
        found: The chat.
    """
    group = progress.groups.get(found.group)
    if group is None:
        progress.warn(f"the group chat {found.file.name!r} is left out: its group was not imported")
        return
    persona = progress.personas.get(found.persona)
    selection = Selection(group=group, persona=persona, folder=progress.stored_folder)
    await _store_st_chat(connection, progress, found, selection)


async def _store_st_chat(
    connection: AsyncConnection, progress: Progress, found: FoundChat | FoundGroupChat, selection: Selection
) -> None:
    file, origin = found.file, found.origin if progress.served else None
    total = file.earlier_lines + len(file.messages)
    if file.earlier:
        file = replace(file, messages=file.messages[-TAKEN_OF_LONGER:])  # there must be room to continue

    await store_files(connection, selection.folder, found.files)
    details = file.metadata.to_json()
    variables = details.pop("variables", None)
    name = file.name
    if origin is not None:
        known, name = await _chat_of_file(connection, progress, origin, name, selection)
        if known is not None and not await _is_to_be_read_again(connection, known, origin):
            return
        if known is not None:
            await chats.clear_chat(connection, known, details)
            chat = NewChat(await chats.get_chat(connection, known.id), name, {"local": variables or {}})
        else:
            chat = await _new_chat(connection, progress, name, selection, details, variables)
    elif progress.served:
        if await _is_known(connection, progress, name, selection):
            return
        chat = await _new_chat(connection, progress, name, selection, details, variables)
    else:
        chat = await _uploaded_chat(
            connection,
            progress,
            name,
            selection,
            details,
            variables,
            found.digest,
            of_folder=found.origin is not None,
        )
        if chat is None:
            return
    await _store_lines(connection, progress, chat, file.messages, silly_tavern_line)
    if progress.uploaded:
        await _mark_uploaded(connection, chat, found.digest)
    if origin is not None:
        stored = await chats.get_chat(connection, chat.chat.id)
        taken = len(file.messages) if len(file.messages) <= MAX_SESSION_MESSAGES else TAKEN_OF_LONGER
        skipped = total - taken
        mark = FileMark(path=origin.path, digest=origin.digest, version=stored.version, skipped=skipped)
        await set_mark(connection, stored, mark)


async def _chat_of_file(
    connection: AsyncConnection, progress: Progress, origin: Origin, name: str, selection: Selection
) -> tuple[ChatState | None, str]:
    """Return the session of a file in a served folder, if there is one, and its id."""
    written_for = await session_of(connection, origin.path)
    if written_for is not None:
        with suppress(ServiceError):  # it was removed
            return await chats.get_chat(connection, written_for, lock=True), name
    while True:
        known = await chats.find_chat(connection, progress.owner, _external_id(progress, name, selection), lock=True)
        mark = FileMark.of(known) if known is not None else None
        if known is None or mark is None or mark.path == origin.path:
            return known, name
        name = f"{name} (from the folder)"  # the session of that name belongs to another file


async def _is_to_be_read_again(connection: AsyncConnection, chat: ChatState, origin: Origin) -> bool:
    """Return True if a session's file has changed, and the session has not."""
    mark = FileMark.of(chat)
    if mark is None:  # it was imported by a version without marks
        await set_mark(connection, chat, FileMark(path=origin.path, digest="", version=chat.version))
        return False
    return mark.digest not in ("", origin.digest) and mark.version == chat.version and not chat.busy(time.time())


async def store_risu_chats(connection: AsyncConnection, progress: Progress, found: FoundRisuChats) -> None:
    """Store chats exported from RisuAI.

    Args:
        connection: The database.
        progress: The import.
        found: The chats.
    """
    character = await _owner(connection, progress, found.path)
    if character is None:
        progress.warn(f"{found.path}: the chats are left out: neither name nor folder shows whose they are")
        return
    selection = Selection(platform=RISU_AI, character=character)
    await _store_risu_list(connection, progress, selection, found.path.stem, found.file.chats)


async def store_save_chats(connection: AsyncConnection, progress: Progress, found: FoundSaveChats) -> None:
    """Store the chats of a character or group of a save.

    Args:
        connection: The database.
        progress: The import.
        found: The chats.
    """
    known = (progress.groups if found.in_group else progress.characters).get(found.owner)
    if known is None:
        progress.warn(f"the chats of {found.name!r} are left out: it was not imported")
        return
    preset = progress.presets.get(found.preset)
    if found.in_group:
        selection = Selection(platform=RISU_AI, group=known, preset=preset)
    else:
        selection = Selection(platform=RISU_AI, character=known, preset=preset)
    for chat, user in zip(found.chats, found.personas, strict=True):
        known = await chats.find_chat(connection, progress.owner, _save_id(found.owner, chat)) if chat.id else None
        if known is None:
            chosen = replace(selection, persona=progress.personas.get(user))
            await _store_risu_list(connection, progress, chosen, found.name, [chat], save_owner=found.owner)
            continue
        progress.skip("session")
        if (mark := FileMark.of(known)) is None or mark.digest != risu_digest(chat):
            progress.warn(f"the chat {chat.name!r} of {found.name!r} already exists and is not changed")


def _save_id(owner: str, chat: risu_ai.RisuChat) -> str:
    """Return the id of a chat of a save, so that it is not imported twice."""
    return f"risuai:{owner}:{chat.id}"[:MAX_ID_CHARACTERS]


async def _store_risu_list(
    connection: AsyncConnection,
    progress: Progress,
    selection: Selection,
    owner: str,
    listed: Sequence[risu_ai.RisuChat],
    *,
    save_owner: str | None = None,
) -> None:
    for number, chat in enumerate(listed, start=1):
        raw = thaw_object(chat.raw)
        details: JsonObject = {key: value for key, value in raw.items() if key not in ("message", "scriptstate")}
        name, variables = f"{owner}: {raw.get('name') or number}", risu_ai.chat_variables(chat)
        known = _save_id(save_owner, chat) if save_owner is not None and chat.id else None
        digest = risu_digest(chat) if known is None and not progress.served else None
        if digest is not None:
            made = await _uploaded_chat(connection, progress, name, selection, details, variables, digest)
            if made is None:
                continue
        elif known is None and await _is_known(connection, progress, name, selection):
            continue
        else:
            made = await _new_chat(connection, progress, name, selection, details, variables, known)
        await _store_lines(connection, progress, made, chat.messages, risu_ai_line)
        if digest is not None:
            await _mark_uploaded(connection, made, digest)
        if save_owner is not None and chat.id and len(chat.messages) <= MAX_SESSION_MESSAGES:
            stored = await chats.get_chat(connection, made.chat.id)
            mark = FileMark(path=chat.id, digest=risu_digest(chat), version=stored.version, owner=save_owner)
            await set_mark(connection, stored, mark)


async def _owner(connection: AsyncConnection, progress: Progress, path: Path) -> str | None:
    """Return the character of a chat file, by its name or folder, or the only character in the import."""
    ids = set(progress.characters.values())
    if len(ids) == 1:
        return next(iter(ids))
    places = [slug(part) for part in reversed(path.with_suffix("").parts)]
    known = progress.names
    if not known:  # only a chat: for an existing character
        known = {info.id: info.id for info in await all_items(connection, "character")}
    found = [name for name in known if name and any(place.startswith(name) for place in places)]
    return known[max(found, key=len)] if found else None


async def _is_known(connection: AsyncConnection, progress: Progress, name: str, selection: Selection) -> bool:
    """Return True if a chat of a served folder already exists here."""
    return await chats.find_chat(connection, progress.owner, _external_id(progress, name, selection)) is not None


def _external_id(progress: Progress, name: str, selection: Selection) -> str:
    return f"{progress.job_id}:{selection.group or selection.character}:{name}"[:MAX_ID_CHARACTERS]


async def _uploaded_chat(
    connection: AsyncConnection,
    progress: Progress,
    name: str,
    selection: Selection,
    details: JsonObject,
    variables: Json,
    digest: str,
    *,
    of_folder: bool = False,
) -> NewChat | None:
    """Return the session for an uploaded chat: a new one, or that of an earlier upload; None if it stays as it is.

    The names of a data folder's chats are unique, so one that has changed replaces its session. Others of the same
    name are other chats.
    """
    first, number = f"import:{selection.group or selection.character}:{name}"[: MAX_ID_CHARACTERS - 10], 0
    while True:
        number += 1
        external_id = first if number == 1 else f"{first} ({number})"
        if ("session", external_id) in progress.seen:
            continue
        known = await chats.find_chat(connection, progress.owner, external_id, lock=True)
        mark = FileMark.of(known, UPLOADED) if known is not None else None
        if known is None or of_folder or (mark is not None and mark.digest == digest):
            progress.seen["session", external_id] = name
            break
    if known is None:
        return await _new_chat(connection, progress, name, selection, details, variables, external_id)
    if mark is not None and mark.digest != digest:
        if mark.version == known.version and not known.busy(time.time()):
            await chats.clear_chat(connection, known, details)
            progress.count("session")
            return NewChat(await chats.get_chat(connection, known.id), name, {"local": variables or {}})
        progress.warn(f"the chat {name!r} has changed in the upload and here: it stays as it is here")
    progress.skip("session")
    return None


async def _mark_uploaded(connection: AsyncConnection, chat: NewChat, digest: str) -> None:
    """Note what a session was when it was imported."""
    stored = await chats.get_chat(connection, chat.chat.id)
    await set_mark(connection, stored, FileMark(path="", digest=digest, version=stored.version), key=UPLOADED)


async def _new_chat(
    connection: AsyncConnection,
    progress: Progress,
    name: str,
    selection: Selection,
    details: JsonObject,
    variables: Json,
    external_id: str | None = None,
) -> NewChat:
    if external_id is None:
        external_id = _external_id(progress, name, selection)
    chat = await chats.create_chat(connection, progress.owner, external_id, selection, details=details)
    progress.count("session")
    return NewChat(chat, name, {"local": variables} if variables else {})


async def _store_lines(
    connection: AsyncConnection,
    progress: Progress,
    made: NewChat,
    messages: Sequence[_Message],
    line: Callable[[_Message], ChatLine],
) -> None:
    """Store the messages of a chat in batches, so that other requests are served in between."""
    if len(messages) > MAX_SESSION_MESSAGES:
        progress.warn(
            f"the chat {made.name!r} has {len(messages)} messages, more than a session can have: "
            f"only the last {TAKEN_OF_LONGER} are taken"
        )
        messages = messages[-TAKEN_OF_LONGER:]
    now = time.time()
    for start in range(0, len(messages), STORED_AT_ONCE):
        part = messages[start : start + STORED_AT_ONCE]
        lines = [replace(line(message), position=place) for place, message in enumerate(part, start)]
        await insert_lines(connection, made.chat.id, lines, now=now)
        await asyncio.sleep(0)
    changes: dict[str, object] = {"variables": made.variables} if made.variables else {}
    await chats.update_chat(connection, made.chat, next_position=len(messages), **changes)


async def store_files(connection: AsyncConnection, folder: str | None, files: Sequence[FoundFile]) -> None:
    """Store files that chats or settings refer to.

    Args:
        connection: The database.
        folder: The id of the folder that they belong to; None if it has none, and nothing is stored.
        files: The files.
    """
    for file in files if folder is not None else ():
        await save_if_new(connection, FILE, file_id(folder or "", file.url), file.name, file.content, name=file.url)


async def save_if_new(
    connection: AsyncConnection, kind: Kind, item_id: str, filename: str, content: bytes, *, name: str
) -> None:
    """Store an item, unless it exists unchanged."""
    if await infos(connection, [(kind, item_id)]) and await item_file(connection, kind, item_id) == content:
        return
    await save_item(
        connection, kind, name=name, platform=SILLY_TAVERN, file=content, filename=filename, item_id=item_id
    )
