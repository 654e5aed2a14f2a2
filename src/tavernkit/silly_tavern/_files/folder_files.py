"""The files of a user's SillyTavern data folder, by name."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from functools import cached_property
from os import PathLike
from pathlib import Path

from tavernkit._arguments import require_choice
from tavernkit._values import JsonObject, is_mapping, is_object, is_sequence
from tavernkit.cards import load
from tavernkit.cards._character import Character
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._source import called, read_file
from tavernkit.errors import ConfigError, FileFormatError, TavernKitError, Warn, log_warning
from tavernkit.silly_tavern._files.attached_files import media_type
from tavernkit.silly_tavern._files.chat_file import ChatFile
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._group import Group
from tavernkit.silly_tavern._limits import MAX_PRESET_BYTES
from tavernkit.silly_tavern._macros.environment import TEXT_COMPLETION_API
from tavernkit.silly_tavern._templates.templates import (
    ContextTemplate,
    InstructTemplate,
    ReasoningSettings,
    SystemPrompt,
)
from tavernkit.silly_tavern._token_counting.vocabularies import TokenizerFiles
from tavernkit.silly_tavern._world_info.book import WorldBook
from tavernkit.silly_tavern._world_info.selection import file_stem

CHARACTERS, CHATS, GROUPS, GROUP_CHATS = "characters", "chats", "groups", "group chats"
WORLDS, PRESETS, AVATARS = "worlds", "OpenAI Settings", "User Avatars"
INSTRUCT, CONTEXT, SYSTEM_PROMPTS = "instruct", "context", "sysprompt"
REASONING, QUICK_REPLIES, EXTENSIONS = "reasoning", "QuickReplies", "extensions"
SAMPLER_PRESETS = {
    TEXT_COMPLETION_API: "TextGen Settings",
    "kobold": "KoboldAI Settings",
    "novel": "NovelAI Settings",
}
"""Folders of sampler presets by API."""

SAMPLER_SUFFIXES = (".json", ".settings")
AUTOMATIC = (
    "executeOnStartup",
    "executeOnUser",
    "executeOnAi",
    "executeOnChatChange",
    "executeOnGroupMemberDraft",
    "executeOnNewChat",
    "executeBeforeGeneration",
)
"""Switches of a Quick Reply that make it run automatically."""

CARD_SUFFIXES = (".png", ".json", ".charx", ".webp", ".jpg", ".jpeg")

MAX_MANIFEST_BYTES = 1 << 20

MAX_REMEMBERED_WARNINGS = 10_000


class Once:
    """Passes on each warning once: a folder's files are read again for each chat that is opened."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._said: set[str] = set()

    def __call__(self, message: str) -> None:
        """Pass on a warning, if it is new."""
        if message in self._said:
            return
        if len(self._said) < MAX_REMEMBERED_WARNINGS:
            self._said.add(message)
        self._warn(message)


class FolderFiles:
    """The files of a folder: settings, characters, chats, groups, worlds, presets and templates.

    Nothing is written. Names cannot escape the folder. Files are read on demand; world books are read once, so that
    builders can reuse compiled data. Each warning is given once. Given an installation or its ``data``, the folder is
    that of its only user.
    """

    def __init__(self, path: str | PathLike[str], *, warn: Warn = log_warning) -> None:
        self._warn = Once(warn)
        self._worlds: dict[str, WorldBook] = {}
        if not Path(path).is_dir():
            raise FileFormatError(f"{path} is not a folder: pass a SillyTavern data folder such as data/default-user")
        self.path = self._of_user(Path(path))

    @cached_property
    def settings(self) -> Settings:
        """``settings.json``. A missing or unreadable file is reported."""
        path = self.path / "settings.json"
        if not path.is_file():
            self._warn(f"there is no settings.json in {self.path}: a fresh installation's are used")
            return Settings.fresh()
        try:
            return Settings.load(path, warn=self._warn)
        except (TavernKitError, OSError) as error:
            self._warn(f"{path} cannot be read, a fresh installation's are used: {error}")
            return Settings.fresh()

    def characters(self) -> list[str]:
        """File names of the cards."""
        return self._names(CHARACTERS, *CARD_SUFFIXES)

    def character(self, name: str) -> Character:
        """A card by its file name, with or without extension."""
        return load(self._file(CHARACTERS, name, *CARD_SUFFIXES), warn=self._warn).character

    def avatar(self, name: str) -> str:
        """The file name of a card, with its extension."""
        return self._file(CHARACTERS, name, *CARD_SUFFIXES).name

    def chats(self, character: str) -> list[str]:
        """Names of a character's chats."""
        return sorted(path.stem for path in self._chats_of(character).glob("*.jsonl"))

    def chat(self, character: str, name: str) -> ChatFile:
        """One chat of a character.

        Args:
            character: The name of the card's file, with or without its extension.
            name: The name of the chat's file, with or without ``.jsonl``.
        """
        return ChatFile.load(self._chat_path(character, name), warn=self._warn)

    def _chat_path(self, character: str, name: str) -> Path:
        path = _inside(self._chats_of(character), f"{name.removesuffix('.jsonl')}.jsonl")
        return self._alike(path) or path

    def _chats_of(self, character: str) -> Path:
        folder = self._inside(CHATS, file_stem(self.avatar(character)))
        return self._alike(folder) or folder

    def groups(self) -> list[str]:
        """Ids of the groups."""
        return [file_stem(name) for name in self._names(GROUPS, ".json")]

    def group(self, group_id: str) -> Group:
        """A group by its id."""
        return Group.load(self._file(GROUPS, group_id, ".json"), warn=self._warn)

    def group_chat(self, chat_id: str) -> ChatFile:
        """A group's chat by its id."""
        return ChatFile.load(self._file(GROUP_CHATS, chat_id, ".jsonl"), warn=self._warn)

    def members(self, group: Group) -> dict[str, Character]:
        """The cards of a group's members by file name; missing ones are reported and left out."""
        found: dict[str, Character] = {}
        for avatar in group.members:
            try:
                found[avatar] = self.character(avatar)
            except (TavernKitError, OSError) as error:
                self._warn(f"group {group.name or group.id!r}: the member {avatar!r} is left out: {error}")
        return found

    def presets(self) -> list[str]:
        """Names of the chat-completion presets."""
        return [file_stem(name) for name in self._names(PRESETS, ".json")]

    def preset(self, name: str) -> Preset:
        """Return a preset by name, over the active settings."""
        return Preset.load(self._file(PRESETS, name, ".json"), base=self.settings.preset, warn=self._warn)

    def instruct_templates(self) -> list[str]:
        """Names of the instruct templates."""
        return [file_stem(name) for name in self._names(INSTRUCT, ".json")]

    def instruct_template(self, name: str) -> InstructTemplate:
        """An instruct template by name."""
        return InstructTemplate.load(self._file(INSTRUCT, name, ".json"), warn=self._warn)

    def context_templates(self) -> list[str]:
        """Names of the context templates."""
        return [file_stem(name) for name in self._names(CONTEXT, ".json")]

    def context_template(self, name: str) -> ContextTemplate:
        """A context template by name."""
        return ContextTemplate.load(self._file(CONTEXT, name, ".json"), warn=self._warn)

    def system_prompts(self) -> list[str]:
        """Names of the system prompts of text completion."""
        return [file_stem(name) for name in self._names(SYSTEM_PROMPTS, ".json")]

    def system_prompt(self, name: str) -> SystemPrompt:
        """A system prompt of text completion by name."""
        return SystemPrompt.load(self._file(SYSTEM_PROMPTS, name, ".json"), warn=self._warn)

    def reasoning_templates(self) -> list[str]:
        """Names of the reasoning templates."""
        return [file_stem(name) for name in self._names(REASONING, ".json")]

    def reasoning_template(self, name: str) -> ReasoningSettings:
        """A reasoning template by name."""
        return ReasoningSettings.load(self._file(REASONING, name, ".json"), warn=self._warn)

    def sampler_presets(self, api: str = TEXT_COMPLETION_API) -> list[str]:
        """Names of the sampler presets of an API: ``textgenerationwebui``, ``kobold`` or ``novel``."""
        return [file_stem(name) for name in self._names(_sampler_folder(api), *SAMPLER_SUFFIXES)]

    def sampler_preset(self, name: str, api: str = TEXT_COMPLETION_API) -> JsonObject:
        """Return a sampler preset, unchanged.

        Args:
            name: The preset's name.
            api: ``textgenerationwebui``, ``kobold`` or ``novel``.
        """
        return self._object(self._file(_sampler_folder(api), name, *SAMPLER_SUFFIXES))

    def quick_replies(self) -> list[str]:
        """Names of the sets of Quick Replies. They contain scripts, which are not run."""
        return [file_stem(name) for name in self._names(QUICK_REPLIES, ".json")]

    def quick_reply_set(self, name: str) -> JsonObject:
        """Return a set of Quick Replies, unchanged."""
        return self._object(self._file(QUICK_REPLIES, name, ".json"))

    def personas(self) -> dict[str, str]:
        """Names of the personas by their avatar files."""
        power_user = self.settings.source.get("power_user")
        names = power_user.get("personas") if is_mapping(power_user) else None
        return {avatar: str(name) for avatar, name in names.items()} if is_mapping(names) else {}

    def avatars(self) -> list[str]:
        """Names of the personas' pictures. Other files beside them, such as those of a file manager, are left out."""
        return [name for name in self._names(AVATARS) if media_type(name).startswith("image/")]

    def group_chats(self, group_id: str) -> list[str]:
        """Names of a group's chats that are in the folder."""
        listed = self.group(group_id).source
        chats, shown = listed.get("chats"), listed.get("chat_id")
        names = [str(name) for name in (*(chats if is_sequence(chats) else ()), shown) if name]
        there = {file_stem(name) for name in self._names(GROUP_CHATS, ".jsonl")}
        return [name for name in dict.fromkeys(names) if name in there]

    @classmethod
    def users(cls, root: str | PathLike[str]) -> list[Path]:
        """Return the users' folders below a data root (``data``) or an installation, sorted."""
        places = (Path(root), Path(root) / "data")
        folders = (path for place in places if place.is_dir() for path in place.iterdir() if path.is_dir())
        return sorted(path for path in folders if _is_of_user(path))

    @classmethod
    def _of_user(cls, path: Path) -> Path:
        """Return the folder of the only user of an installation; another folder as it is."""
        users = [] if _is_of_user(path) else cls.users(path)
        if len(users) > 1:
            found = ", ".join(map(str, users))
            raise ConfigError(f"{path} has a folder for each user: pass one of {found}", code="SEVERAL_USERS")
        return users[0] if users else path

    @cached_property
    def tokenizers(self) -> TokenizerFiles:
        """Tokenizer files of the installation that the folder belongs to, or of its data root."""
        root = self.path.resolve().parent
        return TokenizerFiles(root.parent if root.name == "data" else root)

    def unsupported(self) -> list[str]:
        """List what changes prompts in SillyTavern but is not supported here, because it runs code."""
        found = [*unsupported_extensions(self.path / EXTENSIONS, self.settings)]
        for name in self.quick_replies():
            try:
                replies = self.quick_reply_set(name).get("qrList")
            except (TavernKitError, OSError) as error:
                found.append(f"the Quick Replies {name!r} cannot be read: {error}")
                continue
            items = [each for each in replies if is_mapping(each)] if is_sequence(replies) else []
            labels = [str(each.get("label")) for each in items if any(each.get(key) for key in AUTOMATIC)]
            if labels:
                found.append(f"Quick Replies of {name!r} run by themselves and are not run here: {', '.join(labels)}")
        return found

    def worlds(self) -> list[str]:
        """Names of the world books."""
        return [file_stem(name) for name in self._names(WORLDS, ".json")]

    def world(self, name: str) -> WorldBook:
        """A world book by name."""
        if name not in self._worlds:
            self._worlds[name] = WorldBook.load(self._file(WORLDS, name, ".json"), warn=self._warn)
        return self._worlds[name]

    def _object(self, path: Path) -> JsonObject:
        content = read_file(path, MAX_PRESET_BYTES, limit="MAX_PRESET_BYTES")
        data = parse_json(content, what=called(path), warn=self._warn)
        if not is_object(data):
            raise FileFormatError(f"{path}: this is a JSON object in SillyTavern, not {type(data).__name__}")
        return data

    def _names(self, folder: str, *suffixes: str) -> list[str]:
        found = (path for path in _files(self.path / folder) if not suffixes or path.suffix.lower() in suffixes)
        return sorted(path.name for path in found)

    def _inside(self, *parts: str) -> Path:
        path = self.path
        for part in parts:
            path = _inside(path, part)
        return path

    def _file(self, folder: str, name: str, *suffixes: str) -> Path:
        for candidate in (name, *(f"{name}{suffix}" for suffix in suffixes)):
            path = _inside(self.path / folder, candidate)
            if path.is_file():
                return path
        for candidate in (name, *(f"{name}{suffix}" for suffix in suffixes)):
            path = self._alike(_inside(self.path / folder, candidate))
            if path is not None and path.is_file():
                return path
        raise FileFormatError(f"there is no {name!r} in {self.path / folder}")

    def _alike(self, path: Path) -> Path | None:
        """Return the path, or the only one beside it with the same name in other letters; None without either.

        Windows and macOS ignore case, and macOS writes accents in another form, so names of files and references to
        them may differ in a folder that comes from there.
        """
        if path.exists() or not path.parent.is_dir():
            return path if path.exists() else None
        wanted = folded(path.name)
        found = [each for each in path.parent.iterdir() if folded(each.name) == wanted]
        if len(found) != 1:
            return None
        self._warn(f"there is no {path.name!r} in {path.parent}: {found[0].name!r} is used")
        return found[0]


def _is_of_user(path: Path) -> bool:
    return (path / "settings.json").is_file() or (path / CHARACTERS).is_dir()


def folded(name: str) -> str:
    """Return what names have in common that Windows and macOS take for the same."""
    return unicodedata.normalize("NFC", name).casefold()


def _sampler_folder(api: str) -> str:
    require_choice("api", api, tuple(SAMPLER_PRESETS))
    return SAMPLER_PRESETS[api]


def _folders(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else iter(())


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else iter(())


def _inside(folder: Path, name: str) -> Path:
    """Return a file of a folder; names that are paths are refused."""
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise FileFormatError(f"{name!r} is not the name of a file")
    return folder / name


def unsupported_extensions(folder: Path, settings: Settings) -> Iterator[str]:
    """List the extensions of a folder that are switched on: they may change prompts, and their code is not run here.

    Args:
        folder: The folder.
        settings: The user's settings.
    """
    listed = settings.extension_settings.get("disabledExtensions")
    off = {str(name).rpartition("/")[2] for name in listed} if is_sequence(listed) else set[str]()
    for extension in sorted(_folders(folder)):
        if extension.name not in off:
            yield f"extension {_display_name(extension)}: its code is not run"


def _display_name(extension: Path) -> str:
    manifest = extension / "manifest.json"
    try:
        if manifest.stat().st_size <= MAX_MANIFEST_BYTES:
            value: object = json.loads(manifest.read_text(encoding="utf-8"))
            if is_mapping(value) and isinstance(value.get("display_name"), str):
                return f"{value['display_name']} ({extension.name})"
    except (OSError, ValueError, RecursionError):
        pass
    return extension.name
