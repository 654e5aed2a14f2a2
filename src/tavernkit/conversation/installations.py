"""Chats inside SillyTavern's data folder and RisuAI's saves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tavernkit.cards.silly_tavern.names import sanitize
from tavernkit.cards.silly_tavern.stored import chat_name
from tavernkit.conversation.opening import Materials, risu_ai_chat, silly_tavern_chat
from tavernkit.conversation.program_stores import RisuSaveStore, SillyTavernStore
from tavernkit.conversation.stores import ConversationStore
from tavernkit.errors import ConfigError
from tavernkit.risu_ai.conversation.chat import Chat as RisuAIChat
from tavernkit.risu_ai.files.save import Save
from tavernkit.silly_tavern.conversation.chat import Chat as SillyTavernChat
from tavernkit.silly_tavern.files.data_folder import CHATS, GROUP_CHATS, GROUPS, DataFolder
from tavernkit.silly_tavern.files.preset import Preset
from tavernkit.silly_tavern.inputs import SillyTavernInputs


def open_folder(
    folder: DataFolder,
    given: Materials,
    *,
    character: str | None,
    group: str | None,
    chat: str | None,
    store: ConversationStore | None,
    more: SillyTavernInputs,
    now: Callable[[], datetime],
) -> tuple[SillyTavernChat, ConversationStore]:
    """Open a chat of SillyTavern's data folder.

    Args:
        folder: The folder.
        given: The model, the tools, the preset, the user's name if not the persona's.
        character: The card's file or name.
        group: The group's id or name, instead of a character.
        chat: The chat's name; the one that was used last by default.
        store: Where the chat is saved; in the folder by default.
        more: Further inputs of builds.
        now: Says what time it is, for the name of a new chat.
    """
    avatar = find_character(folder, character) if character is not None else None
    group_id = _find_group(folder, group) if group is not None else None
    if (avatar is None) == (group_id is None):
        raise ConfigError(f"pass character= or group=: the characters are {_listed(folder.characters())}")
    if avatar is not None:
        names, parent = folder.chats(avatar), folder.path / CHATS / Path(avatar).stem
        shown = folder.character(avatar).raw.get("chat")
    else:
        assert group_id is not None
        names, parent = folder.group_chats(group_id), folder.path / GROUP_CHATS
        shown = folder.group(group_id).source.get("chat_id")
    title = folder.character(avatar).name if avatar is not None else folder.group(group_id or "").name
    name = chat.removesuffix(".jsonl") if chat is not None else _last_used(parent, names, shown)
    name = name or sanitize(chat_name(title, now()))
    if name != sanitize(name):
        raise ConfigError(f"{name!r} cannot be the name of a file", code="INVALID_CHAT_NAME")
    builder = folder.builder(avatar, name if name in names else None, group=group_id)
    persona = folder.persona(avatar, name if name in names else None, group=group_id)
    inputs: SillyTavernInputs = {**more}
    if isinstance(given.preset, str) and given.preset in folder.presets():
        inputs["preset"] = folder.preset(given.preset)
    elif given.preset is not None:
        inputs["preset"] = given.preset if isinstance(given.preset, Preset) else Preset.load(_file(given.preset))
    if given.user is not None:
        inputs["user"] = given.participant
    file = parent / f"{name}.jsonl"
    own = SillyTavernStore(
        file,
        settings=folder.path / "settings.json",
        group=folder.path / GROUPS / f"{group_id}.json" if group_id is not None else None,
    )
    if store is not None:
        _begin_with(store, own)
    place = own if store is None else store
    opened = silly_tavern_chat(place, name, inputs, given, builder=builder, user_avatar=persona.avatar or None)
    return opened, place


def open_save(
    path: Path,
    given: Materials,
    *,
    character: str | int,
    chat: str | int | None,
    persona: str | int | None,
    preset: str | int | None,
    store: ConversationStore | None,
) -> tuple[RisuAIChat, ConversationStore]:
    """Open a chat of a save of RisuAI's.

    Args:
        path: A local backup, a database or a data folder.
        given: The model, the user's name if not the persona's.
        character: Name, id or place of the character or group.
        chat: Name, id or place of the chat; the open one by default.
        persona: Switch to this persona first.
        preset: Switch to this preset first.
        store: Where the chat is saved; in the save by default.
    """
    save = Save.load(path, warn=given.warn)
    inputs = save.inputs(character, chat, persona=persona, preset=preset)
    if given.user is not None:
        inputs["user"] = given.participant
    opened = save.chat(character, chat)
    place = RisuSaveStore(path, save.character(character).id, opened.id) if store is None else store
    return risu_ai_chat(place, opened.name, inputs, given), place


def find_character(folder: DataFolder, wanted: str) -> str:
    """Return the file of a character, whether its ending and capitals are given or not.

    Raises:
        ConfigError: There is none; the message names those there are.
    """
    names = folder.characters()
    if wanted in names:
        return wanted
    found = [name for name in names if wanted == Path(name).stem]
    found = found or [name for name in names if wanted.casefold() in (name.casefold(), Path(name).stem.casefold())]
    found = found or [name for name in names if folder.character(name).name.casefold() == wanted.casefold()]
    if not found:
        raise ConfigError(f"there is no character {wanted!r}: choose one of {_listed(names)}", code="NO_SUCH_CHARACTER")
    return found[0]


def _find_group(folder: DataFolder, wanted: str) -> str:
    ids = folder.groups()
    if wanted in ids:
        return wanted
    names = {folder.group(each).name: each for each in ids}
    if wanted not in names:
        raise ConfigError(f"there is no group {wanted!r}: choose one of {_listed([*names])}", code="NO_SUCH_GROUP")
    return names[wanted]


def _last_used(parent: Path, names: list[str], shown: object) -> str:
    """Return the chat that SillyTavern would open, else the newest one."""
    if isinstance(shown, str) and shown in names:
        return shown
    return max(names, key=lambda name: (parent / f"{name}.jsonl").stat().st_mtime_ns, default="")


def _begin_with(store: ConversationStore, source: SillyTavernStore) -> None:
    """Let a store that is empty begin with the chat of the folder."""
    saved = source.load()
    if saved is not None and store.load() is None:
        store.save(saved)


def _file(preset: object) -> str | Path | bytes:
    if isinstance(preset, (str, Path, bytes)):
        return preset
    raise ConfigError("preset must be a preset of SillyTavern's, its name or its file")


def _listed(names: list[str], most: int = 12) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "(there are none)"
