"""Makes chats from files and loaded values, for both platforms."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._turns import Chat
from tavernkit._values import JsonObject, freeze_object, is_mapping, thaw_object
from tavernkit.cards._bundle import Bundle
from tavernkit.cards._character import Character, User
from tavernkit.cards._loading import load
from tavernkit.cards._source import FileContent, called, read_file
from tavernkit.conversation._books import indexed_book, parse_book, world_book
from tavernkit.conversation._formats import NO_HOST, restore_state
from tavernkit.conversation._program_stores import SillyTavernStore
from tavernkit.conversation._stores import ConversationStore, FileStore, MemoryStore, SavedChat
from tavernkit.conversation._tools import ToolBox
from tavernkit.conversation._undo import UNDO, UndoHistory
from tavernkit.errors import ConfigError, FileFormatError, Warn, WarningLog
from tavernkit.models._protocol import Model
from tavernkit.risu_ai._conversation.chat import Chat as RisuAIChat
from tavernkit.risu_ai._files.card_import import risu_character
from tavernkit.risu_ai._files.chat_file import ChatFile as RisuChatFile
from tavernkit.risu_ai._files.kept_fields import group_of
from tavernkit.risu_ai._files.preset import Preset as RisuPreset
from tavernkit.risu_ai._files.settings import Settings as RisuSettings
from tavernkit.risu_ai._lorebook.book import Lorebook
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat
from tavernkit.silly_tavern._chat_completion.tools import Tool
from tavernkit.silly_tavern._conversation.chat import Chat as SillyTavernChat
from tavernkit.silly_tavern._files.chat_file import ChatFile
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._group import Group
from tavernkit.silly_tavern._scripts.regex_scripts import RegexScripts
from tavernkit.silly_tavern._world_info.book import WorldBook

if TYPE_CHECKING:
    from tavernkit.risu_ai._context import RisuAIInputs
    from tavernkit.silly_tavern._builder import Builder
    from tavernkit.silly_tavern._inputs import SillyTavernInputs

Platform: TypeAlias = Literal["silly_tavern", "risu_ai"]
CardInput: TypeAlias = FileContent | Bundle | Character | RisuCharacter
"""A card: its file, the loaded file, the character, or RisuAI's own character."""
BookInput: TypeAlias = FileContent | WorldBook | Mapping[str, object]
"""A lorebook: its file, a world book, or the JSON of either program."""
PresetInput: TypeAlias = FileContent | Preset | RisuPreset
SettingsInput: TypeAlias = FileContent | Settings | RisuSettings
GroupInput: TypeAlias = FileContent | Group | RisuCharacter

MAX_BOOK_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """The arguments that a conversation is made from."""

    card: CardInput | None = None
    members: Sequence[CardInput] = ()
    group: GroupInput | None = None
    books: Sequence[BookInput] = ()
    preset: PresetInput | None = None
    settings: SettingsInput | None = None
    user: str | User | None = None
    persona: str = ""
    greeting: int = 0
    allow_scripts: bool = False
    model: Model | None = None
    tools: ToolBox = field(default_factory=ToolBox)
    undo: UndoHistory = field(default_factory=UndoHistory)
    """Receives the undo history, if the store has one."""
    warn: Warn

    def __post_init__(self) -> None:
        require("card", self.card, CardInput | None, "a path, a loaded card (tk.load) or a Character")
        for name in ("books", "members"):
            if isinstance(getattr(self, name), (str, bytes, os.PathLike, WorldBook, Bundle, Character)):
                raise ConfigError(f"{name} must be a list: pass {name}=[…]", code="INVALID_ARGUMENT")
        if self.group is not None and not self.members:
            raise ConfigError("a group needs its characters: pass members=[…]", code="INVALID_ARGUMENT")
        require("user", self.user, str | User | None)
        require("preset", self.preset, PresetInput | None, "the file of a preset, or a loaded one")
        require("settings", self.settings, SettingsInput | None, "the file of the settings, or loaded ones")
        require("allow_scripts", self.allow_scripts, bool)
        require("persona", self.persona, str)
        require("greeting", self.greeting, int)
        require("model", self.model, Model | None, "a model such as tk.model('openai:gpt-4o')")

    @property
    def participant(self) -> User:
        """The user."""
        if isinstance(self.user, User):
            return self.user
        return User(name=self.user or "User", persona=self.persona)


def open_silly_tavern(
    given: Materials, store: ConversationStore, name: str, more: SillyTavernInputs | None
) -> SillyTavernChat:
    """Make a SillyTavern chat from files or loaded values; a chat in the store continues.

    Args:
        given: The caller's arguments.
        store: Where the chat is saved.
        name: The chat's name.
        more: Further inputs of builds.
    """
    inputs: SillyTavernInputs = {"user": given.participant}
    preset = _silly_tavern_preset(given)
    settings = given.settings
    if isinstance(settings, RisuSettings):
        raise ConfigError("settings are RisuAI's: pass platform='risu_ai', or SillyTavern's settings.json")
    if settings is not None:
        inputs["settings"] = settings if isinstance(settings, Settings) else Settings.load(settings, warn=given.warn)
    inputs["books"] = [_world(book, given.warn) for book in given.books]
    if given.members:
        members = dict(_member(card, given.warn) for card in given.members)
        inputs["members"] = members
        inputs["group"] = _silly_tavern_group(given, members)
    if given.card is not None:
        avatar, character = _member(given.card, given.warn)
        inputs["character"], inputs["avatar"] = character, avatar
        scripts = RegexScripts.from_settings(
            {},
            card_data={"extensions": character.extensions},
            preset={"extensions": preset.extensions} if preset is not None else None,
            warn=given.warn,
        )
        inputs["regex_scripts"] = replace(
            scripts, preset_allowed=given.allow_scripts, scoped_allowed=given.allow_scripts
        )
    if preset is not None:
        inputs["preset"] = preset
    if given.model is not None and given.model.dialect == "text":
        inputs["dialect"] = "text"
    return silly_tavern_chat(store, name, inputs | (more or {}), given)


def silly_tavern_chat(
    store: ConversationStore,
    name: str,
    inputs: SillyTavernInputs,
    given: Materials,
    *,
    builder: Builder | None = None,
    user_avatar: str | None = None,
    reported: bool = False,
) -> SillyTavernChat:
    """Make a SillyTavern chat from its store, and open it.

    Args:
        store: Where the chat is saved.
        name: The chat's name.
        inputs: Inputs of its builds.
        given: The model, the tools and the greeting.
        builder: A builder that already has inputs.
        user_avatar: The file of the persona in use.
        reported: What is damaged in the file was reported before.
    """
    saved = store.load()
    with_tools = _with_tools(inputs, given, builder)
    if given.model is not None and given.model.name:
        with_tools.setdefault("model_hint", given.model.name)
    chat = SillyTavernChat(
        NO_HOST,
        chat=replace(_silly_tavern_file(saved, store, given.warn, reported=reported), name=name),
        builder=builder,
        user_avatar=user_avatar,
        **with_tools,
    )
    restore_state(chat, saved)
    _take_up_undo(chat, saved, given)  # before opening, which greets again if all lines were deleted
    fresh = not chat.state.lines
    chat.open()
    if fresh and given.greeting > 0:
        chat.choose_greeting(given.greeting)
    elif fresh and given.greeting < 0 and chat.state.lines:
        chat.delete_from(0)
    if len(given.undo):
        given.undo.rebase(chat.snapshot())
    return chat


def open_risu_ai(given: Materials, store: ConversationStore, name: str, more: RisuAIInputs | None) -> RisuAIChat:
    """Make a RisuAI chat from files or loaded values; a chat in the store continues.

    Args:
        given: The caller's arguments.
        store: Where the chat is saved.
        name: The chat's name.
        more: Further inputs of builds.
    """
    inputs: RisuAIInputs = {"user": given.participant}
    if isinstance(given.settings, RisuSettings):
        inputs["settings"] = given.settings
    elif given.settings is not None:
        raise ConfigError("RisuAI's settings are part of a save: pass Save.load(path).settings, or use from_risuai")
    members = [_risu(card, given.warn) for card in given.members]
    inputs["members"] = members
    inputs["character"] = _risu(given.card, given.warn) if given.card is not None else _risu_group(given, members)
    if isinstance(given.preset, Preset):
        raise ConfigError("the preset is SillyTavern's: pass its file, which RisuAI can import, or a RisuAI preset")
    if given.preset is not None:
        preset = given.preset
        inputs["preset"] = preset if isinstance(preset, RisuPreset) else RisuPreset.load(preset, warn=given.warn)
    if given.books:
        inputs["books"] = [_lorebook(book, given.warn) for book in given.books]
    return risu_ai_chat(store, name, inputs | (more or {}), given)


def risu_ai_chat(store: ConversationStore, name: str, inputs: RisuAIInputs, given: Materials) -> RisuAIChat:
    """Make a RisuAI chat from its store, or from the history among its inputs.

    Args:
        store: Where the chat is saved.
        name: The chat's name.
        inputs: Inputs of its builds.
        given: The greeting and the model.
    """
    saved = store.load()
    fresh = False
    if saved is not None and saved.file:
        inputs = {**inputs, "history": _risu_file(saved, store, given.warn)}
    elif "history" not in inputs:
        fresh = True
        if given.greeting < 0:
            raise ConfigError("RisuAI's chats begin with a greeting: pass greeting=0 or more", code="INVALID_ARGUMENT")
        raw: JsonObject = {"message": [], "name": name, "fmIndex": -1, "note": "", "localLore": []}
        inputs = {**inputs, "history": RisuChat.from_json(raw)}
    if given.model is not None and given.model.name:
        inputs = {"model_hint": given.model.name, **inputs}
    if definitions := given.tools.definitions:
        tools = [each.to_openai() for each in definitions]
        inputs = {**inputs, "llm_options": {**inputs.get("llm_options", {}), "tools": tools}}
    chat = RisuAIChat(**inputs)
    restore_state(chat, saved)
    if fresh and given.greeting:
        chat.choose_greeting(given.greeting)
    _take_up_undo(chat, saved, given)
    return chat


def _take_up_undo(chat: Chat, saved: SavedChat | None, given: Materials) -> None:
    if saved is not None and UNDO in saved.state:
        given.undo.load(saved.state[UNDO], chat)


def _silly_tavern_file(saved: SavedChat | None, store: ConversationStore, warn: Warn, *, reported: bool) -> ChatFile:
    if saved is None or not saved.file.strip():
        return ChatFile()
    damages = WarningLog()
    file = ChatFile.load(saved.file, warn=damages)
    if not file.header and not file.messages:
        raise FileFormatError(f"{_place(store)} contains no SillyTavern chat; it is left alone")
    long = bool(file.earlier) and len(damages.messages) == 1
    _report(damages, store, warn, undamaged=long, reported=reported)
    return file


def _risu_file(saved: SavedChat, store: ConversationStore, warn: Warn) -> RisuChat:
    damages = WarningLog()
    file = RisuChatFile.load(saved.file, warn=damages)
    if len(file.chats) != 1:
        raise FileFormatError(f"{_place(store)} holds {len(file.chats)} chats: export one of them to a separate file")
    if not saved.file.lstrip().startswith(b"{") or b"risuChat" not in saved.file[:200]:
        raise FileFormatError(f"{_place(store)} is not in RisuAI's format: convert it first, or pass another file")
    _report(damages, store, warn)
    return file.chats[0]


def _report(
    damages: WarningLog, store: ConversationStore, warn: Warn, *, undamaged: bool = False, reported: bool = False
) -> None:
    """Keep a copy of a damaged file, because saving loses the unreadable parts."""
    for message in () if reported else damages.messages:
        warn(f"{_place(store)}: {message}")
    if damages.messages and not undamaged and isinstance(store, (FileStore, SillyTavernStore)):
        warn(f"{store.path} is damaged: a copy of it is kept in {store.back_up()}")


def _place(store: ConversationStore) -> str:
    return str(getattr(store, "path", "the store"))


def _silly_tavern_preset(given: Materials) -> Preset | None:
    preset = given.preset
    if isinstance(preset, RisuPreset):
        raise ConfigError("the preset is RisuAI's: pass platform='risu_ai', or a preset of SillyTavern's")
    return preset if preset is None or isinstance(preset, Preset) else Preset.load(preset, warn=given.warn)


def _with_tools(inputs: SillyTavernInputs, given: Materials, builder: Builder | None) -> SillyTavernInputs:
    definitions = given.tools.definitions
    if not definitions:
        return {**inputs}
    # An application that passes tools wants them used: the preset's switch is for tools of extensions.
    preset = inputs.get("preset") or (builder.make_context().preset if builder is not None else None)
    settings = inputs.get("settings") or (builder.make_context().settings if builder is not None else None)
    preset = preset or (settings.preset if settings is not None else Preset.default())
    tools = [Tool(each.name, each.description, freeze_object(each.schema)) for each in definitions]
    return {**inputs, "tools": [*inputs.get("tools", ()), *tools], "preset": preset.replace(function_calling=True)}


def _member(card: CardInput, warn: Warn) -> tuple[str, Character]:
    """Return the file name of a card, which is SillyTavern's id for it, and its character."""
    if isinstance(card, RisuCharacter):
        raise ConfigError("the card is RisuAI's own character: pass platform='risu_ai', or a card file")
    character = _character(card, warn)
    named = isinstance(card, (str, os.PathLike))
    return Path(card).name if named else f"{character.name}.png", character


def _character(card: FileContent | Bundle | Character, warn: Warn) -> Character:
    if isinstance(card, Character):
        return card
    return (card if isinstance(card, Bundle) else load(card, warn=warn)).character


def _silly_tavern_group(given: Materials, members: Mapping[str, Character]) -> Group:
    group = given.group
    if isinstance(group, RisuCharacter):
        raise ConfigError("the group is RisuAI's: pass platform='risu_ai', or a group of SillyTavern's")
    if group is None:
        names = ", ".join(character.name for character in members.values())
        return Group(id="group", name=f"Group: {names}", members=tuple(members))
    loaded = group if isinstance(group, Group) else Group.load(group, warn=given.warn)
    return loaded if loaded.members else loaded.replace(members=tuple(members))


def _world(book: BookInput, warn: Warn) -> WorldBook:
    if isinstance(book, WorldBook):
        return book
    indexed = indexed_book(Path(book), warn) if isinstance(book, (str, os.PathLike)) else None
    if indexed is not None:
        return indexed
    name, content = _book(book, warn)
    return world_book(content, name)


def _book(book: FileContent | Mapping[str, object], warn: Warn) -> tuple[str, JsonObject]:
    if is_mapping(book):
        return str(book.get("name") or "book"), _plain(book)
    assert not isinstance(book, Mapping)
    data = read_file(book, MAX_BOOK_BYTES, limit="MAX_BOOK_BYTES")
    name = "book" if isinstance(book, bytes) else Path(book).stem
    return name, parse_book(data, called(book), warn)


def _plain(book: Mapping[str, object]) -> JsonObject:
    return thaw_object(freeze_object(book))


def _risu(card: CardInput, warn: Warn) -> RisuCharacter:
    value = card if isinstance(card, (RisuCharacter, Bundle, Character)) else load(card, warn=warn)
    found = risu_character(value)
    assert found is not None
    return found


def _risu_group(given: Materials, members: Sequence[RisuCharacter]) -> RisuCharacter:
    group = given.group
    if isinstance(group, RisuCharacter):
        return group
    if group is not None:
        raise ConfigError("the group is SillyTavern's: pass a RisuCharacter, or members= alone")
    return group_of(members)


def _lorebook(book: BookInput, warn: Warn) -> Lorebook:
    if isinstance(book, WorldBook):
        stored: object = book.to_json()
        return Lorebook.from_json(_plain(stored) if is_mapping(stored) else {}, name=book.name, warn=warn)
    name, content = _book(book, warn)
    return Lorebook.from_json(content, name=name, warn=warn)


def open_store(
    given: str | os.PathLike[str] | ConversationStore | None, platform: Platform
) -> tuple[ConversationStore, str]:
    """Return a store and the name of its chat."""
    if given is None:
        return MemoryStore(), "chat"
    if isinstance(given, ConversationStore):
        return given, str(getattr(given, "name", "") or Path(getattr(given, "path", "chat")).stem)
    require("store", given, str | os.PathLike[str], "a path or a ConversationStore")
    path, wanted = Path(given), ".jsonl" if platform == "silly_tavern" else ".json"
    if path.suffix.lower() != wanted:
        raise ConfigError(f"{path} must end in {wanted}, as chats of {platform} do; for others pass FileStore(path)")
    return FileStore(path), path.stem
