"""Chats inside SillyTavern's data folder and RisuAI's saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from tavernkit._dataclass import dataclass
from tavernkit.cards._silly_tavern.stored import chat_name, sanitize
from tavernkit.conversation._opening import Materials, risu_ai_chat, silly_tavern_chat
from tavernkit.conversation._program_stores import RisuSaveStore, SillyTavernStore
from tavernkit.conversation._stores import ConversationStore, SavedChat
from tavernkit.errors import ConfigError
from tavernkit.risu_ai._context import RisuAIInputs
from tavernkit.risu_ai._conversation.chat import Chat as RisuAIChat
from tavernkit.risu_ai._files.save import Save
from tavernkit.silly_tavern._builder import Builder
from tavernkit.silly_tavern._conversation.chat import Chat as SillyTavernChat
from tavernkit.silly_tavern._files.data_folder import DataFolder
from tavernkit.silly_tavern._files.folder_files import CHATS, GROUP_CHATS, GROUPS
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._inputs import SillyTavernInputs


def local_time() -> datetime:
    """Return the local time, which SillyTavern uses in the names of chats."""
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class FolderChat:
    """A chat in SillyTavern's data folder: its character or group, its name, and where it is saved."""

    folder: DataFolder
    avatar: str | None
    group: str | None
    name: str
    exists: bool
    store: SillyTavernStore

    @property
    def stored_name(self) -> str | None:
        """The chat's name if it already exists."""
        return self.name if self.exists else None


def find_chat(
    folder: DataFolder,
    character: str | None,
    chat: str | None,
    *,
    group: str | None = None,
    now: Callable[[], datetime] = local_time,
) -> FolderChat:
    """Find a chat in SillyTavern's data folder, or the place for a new one.

    Args:
        folder: The folder.
        character: The card's file or name.
        chat: The chat's name; the one that was used last by default.
        group: The group's id or name, instead of a character.
        now: Returns the current time, for the name of a new chat.

    Raises:
        ConfigError: There is no such character or group; the message lists those that exist.
    """
    if (character is None) == (group is None):
        raise ConfigError(f"pass character= or group=: the characters are {listed(folder.characters())}")
    avatar = find_character(folder, character) if character is not None else None
    group_id = _find_group(folder, group) if group is not None else None
    if avatar is not None:
        card = folder.character(avatar)
        names, parent = folder.chats(avatar), folder.path / CHATS / Path(avatar).stem
        title, shown = card.name, card.raw.get("chat")
    else:
        found = folder.group(group_id or "")
        names, parent = folder.group_chats(group_id or ""), folder.path / GROUP_CHATS
        title, shown = found.name, found.source.get("chat_id")
    name = chat.removesuffix(".jsonl") if chat is not None else _last_used(parent, names, shown)
    name = name or sanitize(chat_name(title, now()))
    if name not in names and name != sanitize(name):
        raise ConfigError(f"{name!r} cannot be the name of a file", code="INVALID_CHAT_NAME")
    store = SillyTavernStore(
        parent / f"{name}.jsonl",
        settings=folder.path / "settings.json",
        group=folder.path / GROUPS / f"{group_id}.json" if group_id is not None else None,
    )
    return FolderChat(folder, avatar, group_id, name, name in names, store)


def open_folder_chat(
    place: FolderChat,
    given: Materials,
    *,
    store: ConversationStore | None = None,
    more: SillyTavernInputs | None = None,
    builder: Builder | None = None,
) -> tuple[SillyTavernChat, ConversationStore]:
    """Open a chat of SillyTavern's data folder.

    Args:
        place: The chat.
        given: The model, the tools, the preset, and the user's name if it is not the persona's.
        store: Where the chat is saved; in the folder by default.
        more: Further inputs of builds.
        builder: A builder with the inputs of the folder.
    """
    folder = place.folder
    if builder is None:
        builder = folder.builder(place.avatar, place.stored_name, group=place.group)
    persona = folder.persona(place.avatar, place.stored_name, group=place.group)
    inputs: SillyTavernInputs = {**(more or {})}
    if isinstance(given.preset, str) and given.preset in folder.presets():
        inputs["preset"] = folder.preset(given.preset)
    elif given.preset is not None:
        inputs["preset"] = given.preset if isinstance(given.preset, Preset) else Preset.load(_file(given.preset))
    if given.user is not None:
        inputs["user"] = given.participant
    if store is not None:
        begin_with(store, place.store.load())
    chosen = place.store if store is None else store
    avatar = persona.avatar or None
    made = silly_tavern_chat(
        chosen, place.name, inputs, given, builder=builder, user_avatar=avatar, reported=store is None
    )
    return made, chosen


def open_save(
    path: Path,
    given: Materials,
    *,
    character: str | int,
    chat: str | int | None,
    persona: str | int | None,
    preset: str | int | None,
    store: ConversationStore | None,
    more: RisuAIInputs | None = None,
) -> tuple[RisuAIChat, ConversationStore]:
    """Open a chat of a RisuAI save.

    Args:
        path: A local backup, a database or a data folder.
        given: The model, the user's name if not the persona's.
        character: Name, id or index of the character or group.
        chat: Name, id or index of the chat; the open one by default.
        persona: Switch to this persona first.
        preset: Switch to this preset first.
        store: Where the chat is saved; in the save by default.
        more: Inputs that override the save's.
    """
    save = Save.load(path, warn=given.warn)
    inputs: RisuAIInputs = {**save.inputs(character, chat, persona=persona, preset=preset), **(more or {})}
    if given.user is not None:
        inputs["user"] = given.participant
    opened = save.chat(character, chat)
    place = RisuSaveStore(path, save.character(character).id, opened.id) if store is None else store
    return risu_ai_chat(place, opened.name, inputs, given), place


def find_character(folder: DataFolder, wanted: str) -> str:
    """Return the file of a character, with or without its suffix, in any case.

    Raises:
        ConfigError: There is no such character; the message lists those that exist.
    """
    names = folder.characters()
    if wanted in names:
        return wanted
    found = [name for name in names if wanted == Path(name).stem]
    found = found or [name for name in names if wanted.casefold() in (name.casefold(), Path(name).stem.casefold())]
    found = found or [name for name in names if folder.character(name).name.casefold() == wanted.casefold()]
    if not found:
        raise ConfigError(f"there is no character {wanted!r}: choose one of {listed(names)}", code="NO_SUCH_CHARACTER")
    return found[0]


def _find_group(folder: DataFolder, wanted: str) -> str:
    ids = folder.groups()
    if wanted in ids:
        return wanted
    names = {folder.group(each).name: each for each in ids}
    if wanted not in names:
        raise ConfigError(f"there is no group {wanted!r}: choose one of {listed([*names])}", code="NO_SUCH_GROUP")
    return names[wanted]


def _last_used(parent: Path, names: list[str], shown: object) -> str:
    """Return the chat that SillyTavern would open, else the newest one."""
    if isinstance(shown, str) and shown in names:
        return shown
    return max(names, key=lambda name: (parent / f"{name}.jsonl").stat().st_mtime_ns, default="")


def begin_with(store: ConversationStore, saved: SavedChat | None) -> None:
    """Copy a chat into an empty store."""
    if saved is not None and store.load() is None:
        store.save(saved)


def _file(preset: object) -> str | Path | bytes:
    if isinstance(preset, (str, Path, bytes)):
        return preset
    raise ConfigError("preset must be a preset of SillyTavern's, its name or its file")


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return the first names of a list for an error message, and how many there are besides."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "(there are none)"
