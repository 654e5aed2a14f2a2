"""Stores inside SillyTavern's data folder and RisuAI's saves, which those programs open afterwards."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tavernkit._atomic import replace_atomically
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._silly_tavern.stored import sanitize
from tavernkit.conversation._stores import SavedChat, WatchedFile, free_path, save_file
from tavernkit.conversation._undo import UNDO
from tavernkit.conversation.errors import StoreError
from tavernkit.errors import FileFormatError

if TYPE_CHECKING:
    from tavernkit.risu_ai._files.save import Save

OWN_FOLDER: Final = "tavernkit"
"""Our own folder in SillyTavern's data folder, or next to a save."""
UNDO_SUFFIX: Final = ".undo.json"


class UndoFile:
    """The undo history of a chat whose store cannot contain it. A damaged file is ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: Json = None

    def load(self) -> JsonObject:
        """Read it as the state of a saved chat."""
        try:
            found: object = json.loads(self.path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        self._written = found if is_object(found) else None
        return {UNDO: self._written} if self._written is not None else {}

    def save(self, state: JsonObject) -> None:
        """Write the undo history in the state of a saved chat."""
        undo = state.get(UNDO)
        if undo == self._written:
            return
        if undo is None:
            self.path.unlink(missing_ok=True)
        else:
            save_file(self.path, json.dumps(undo).encode())
        self._written = undo


class SillyTavernStore:
    """A chat inside SillyTavern's data folder.

    Global variables go to ``settings.json``, muted members and new chats of a group to the group's file; everything
    else in those files stays as it is. The undo history is in the folder ``tavernkit``, which is ours. SillyTavern must
    not be running: it would overwrite the changes.
    """

    def __init__(self, chat: Path, *, settings: Path, group: Path | None = None) -> None:
        """Set the files.

        Args:
            chat: The chat, which need not exist.
            settings: ``settings.json``.
            group: The file of the group whose chat it is.
        """
        self.path = chat
        self.settings = settings
        self.group = group
        self._file = WatchedFile(chat)
        self._undo = UndoFile(settings.parent / OWN_FOLDER / chat.parent.name / f"{chat.stem}{UNDO_SUFFIX}")
        self._written: JsonObject | None = None

    def load(self) -> SavedChat | None:
        """Read the chat; None if there is none. What is in the other files is part of the folder's inputs."""
        content = self._file.read()
        return None if content is None else SavedChat(file=content, state=self._undo.load())

    def save(self, chat: SavedChat) -> None:
        """Write the chat and changes of the other files."""
        self._file.check()
        state = {key: value for key, value in chat.state.items() if key != UNDO}
        if state != self._written:
            variables = state.get("global_variables")
            if is_object(variables) or self._written is not None:
                _change(self.settings, lambda data: _set_globals(data, variables if is_object(variables) else {}))
            if self.group is not None:
                _change(self.group, lambda data: _set_group(data, self.path.stem, state.get("muted")))
            self._written = state
        self._undo.save(chat.state)
        self._file.write(*chat.parts)

    def names(self) -> Iterable[str]:
        """Return the names of the chats in the same folder."""
        return [path.stem for path in self.path.parent.glob("*.jsonl")]

    def back_up(self) -> Path:
        """Copy a damaged chat to our own folder, before saving loses the unreadable parts."""
        copy = free_path(self._undo.path.with_name(self.path.name), f"{self.path.stem} (damaged)")
        save_file(copy, self.path.read_bytes())
        return copy

    def branch(self, name: str) -> SillyTavernStore:
        """Return the store of another chat of the same character or group."""
        return SillyTavernStore(free_path(self.path, name), settings=self.settings, group=self.group)


class RisuSaveStore:
    """A chat inside a RisuAI save: a local backup or a database file.

    The whole save is rewritten each time, with all of its assets: for large ones, a separate chat file is faster. The
    undo history is in the folder ``tavernkit`` next to the save.
    """

    def __init__(self, path: Path, character: str, chat: str = "") -> None:
        """Set the save and the chat.

        Args:
            path: The save.
            character: Name or id of the character.
            chat: The chat's id; a new chat is put first.

        Raises:
            StoreError: ``path`` is a folder.
        """
        if path.is_dir():
            raise StoreError(f"{path} is a folder, whose chats are only read: pass store= for where the chat is saved")
        self.path = path
        self.character = character
        self.chat = chat
        self._undo = (
            UndoFile(path.parent / OWN_FOLDER / path.name / f"{sanitize(chat)}{UNDO_SUFFIX}")
            if sanitize(chat)
            else None
        )

    def load(self) -> SavedChat | None:
        """Return the undo history: the chat itself is part of the save's inputs."""
        state = self._undo.load() if self._undo is not None else {}
        return SavedChat(file=b"", state=state) if state else None

    def save(self, chat: SavedChat) -> None:
        """Write the save with the chat and the changes made by triggers, personas and presets.

        Raises:
            StoreError: The file cannot be written.
        """
        from tavernkit.risu_ai._files.chat_file import chat_variables, read_chats
        from tavernkit.risu_ai._files.save import Save  # RisuAI's engines, which SillyTavern's stores do not need

        stored = read_chats(chat.file).chats[0]
        # Read again each time: assets are read from the file that is about to be replaced.
        save = Save.load(self.path, warn=_ignore).with_chat(self.character, stored, chat_variables(stored))
        save = save.with_state(self.character, chat.state)
        try:
            replace_atomically(self.path, lambda part: _write_save(save, part, self.path.name))
        except OSError as error:
            raise StoreError(f"{self.path} cannot be saved: {error.strerror or error}") from error
        if self._undo is not None:
            self._undo.save(chat.state)

    def names(self) -> Iterable[str]:
        """Return nothing: chats of a save have ids."""
        return ()

    def branch(self, name: str) -> RisuSaveStore:  # the chat has its name inside
        """Return the store of another chat of the same character."""
        return RisuSaveStore(self.path, self.character)


def _write_save(save: Save, part: Path, name: str) -> None:
    """Write a save; its file name decides the format."""
    with tempfile.TemporaryDirectory(prefix=".tavernkit-", dir=part.parent) as folder:
        whole = Path(folder) / name
        save.save(whole)
        whole.replace(part)


def _change(path: Path, change: Callable[[JsonObject], bool]) -> None:
    """Change a JSON file of SillyTavern; it is written only if something changed."""
    try:
        data: object = parse_json(path.read_bytes(), what=str(path), warn=_ignore)
    except FileNotFoundError:
        data = {}
    except (OSError, FileFormatError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    if not is_object(data):
        raise StoreError(f"{path} is not a JSON object")
    if change(data):
        save_file(path, json.dumps(data, ensure_ascii=False, indent=4).encode("utf-8", "surrogatepass"))


def _set_globals(settings: JsonObject, variables: JsonObject) -> bool:
    place = settings
    for key in ("extension_settings", "variables"):
        inner = place.get(key)
        if not is_object(inner):
            inner = place[key] = {}
        place = inner
    changed = place.get("global", {}) != variables
    place["global"] = variables
    return changed


def _set_group(group: JsonObject, chat: str, muted: Json) -> bool:
    before = json.dumps(group)
    if is_list(muted):
        group["disabled_members"] = muted
    chats = group.get("chats")
    chats = chats if is_list(chats) else []
    if chat not in chats:
        group["chats"] = [*chats, chat]
    return json.dumps(group) != before


def _ignore(_: str) -> None:
    """Ignore a warning: damage was reported when the file was opened."""
