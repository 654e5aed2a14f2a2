"""Examines the chats of a SillyTavern folder: files they refer to that are missing, and data that has no effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit.errors import TavernKitError

if TYPE_CHECKING:
    from tavernkit.silly_tavern import ChatFile, DataFolder

Follow: TypeAlias = Callable[[Sequence[Path], str], Iterable[Path]]
"""Returns files that are examined one by one, and may show progress; the text says what is done with them."""

MAX_READ_BYTES = 1 << 30
"""Chats beyond this many bytes in all are not read."""
MAX_LINES = 100
"""How many findings of each kind are listed."""
MAX_PROBLEMS = 5
"""How many problems of a chat are listed."""
MAX_NAMED = 3
"""How many chats a finding names."""

KNOWN_METADATA = frozenset(
    {
        *("note_prompt", "note_interval", "note_position", "note_depth", "note_role"),
        *("scenario", "mes_example", "system_prompt", "world_info", "persona", "script_injects", "attachments"),
        *("variables", "timedWorldInfo", "main_chat", "chat_id_hash", "pick_reroll_seed", "lastInContextMessageId"),
        *("cfg_guidance_scale", "cfg_positive_prompt", "cfg_negative_prompt", "cfg_prompt_combine"),
        *("cfg_prompt_separator", "cfg_prompt_insertion_depth"),
        *("bookmark_link", "branches", "tainted", "integrity", "quickReply", "custom_background", "chat_backgrounds"),
    }
)
"""Keys of a chat's header that builds use, or that change no prompt in SillyTavern either."""


@dataclass(slots=True)
class ChatFindings:
    """What was found in all chats of a folder. Chats are listed by what they have in common."""

    unknown: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Chats by keys of their headers that are not known here."""
    personas: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    books: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    files: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Chats by the personas, books and files that they refer to and that are not there."""
    problems: list[str] = field(default_factory=list[str])
    """Chats and lines that cannot be read."""
    unread: int = 0
    """How many chats were not read, because of the limit."""

    def unreadable(self) -> list[str]:
        """List the chats and lines that cannot be read."""
        return _list_lines(self.problems)

    def unsupported(self) -> list[str]:
        """List what extensions may have stored."""
        return _list_lines(
            f"{key!r} in the header of {_chats(chats)} is not known here: an extension may use it"
            for key, chats in self.unknown.items()
        )

    def missing(self) -> list[str]:
        """List what chats refer to and is not there."""
        found = _list_lines(
            f"the persona {name} is not in User Avatars, locked to it: {_chats(chats)}"
            for name, chats in self.personas.items()
        )
        found += _list_lines(
            f"the book {name!r} is not in worlds: {_chats(chats)}" for name, chats in self.books.items()
        )
        found += _list_lines(f"the file {url} is not there: {_chats(chats)}" for url, chats in self.files.items())
        if self.unread:
            found.append(f"{self.unread} chats were not read: the others have {MAX_READ_BYTES:,} bytes")
        return found


def examine_chats(folder: DataFolder, follow: Follow) -> ChatFindings:
    """Read the chats of a folder one after the other.

    Args:
        folder: The folder.
        follow: Iterates over the chats' files, and may show progress.
    """
    from tavernkit.silly_tavern import ChatFile

    found, there = ChatFindings(), FolderContent(folder)
    chosen: list[Path] = []
    total = 0
    for path in _chat_files(folder.path):
        total += path.stat().st_size
        if total > MAX_READ_BYTES:
            found.unread += 1
        else:
            chosen.append(path)
    for path in follow(chosen, "reading chats"):
        said: list[str] = []
        try:
            chat = ChatFile.load(path, warn=said.append)
        except (TavernKitError, OSError) as error:
            found.problems.append(f"{_name(path)}: {error}")
            continue
        found.problems += (f"{path.parent.name}: {problem}" for problem in said[:MAX_PROBLEMS])
        if len(said) > MAX_PROBLEMS:
            found.problems.append(f"{_name(path)}: {len(said) - MAX_PROBLEMS} more problems")
        _examine_chat(chat, _name(path), there, found)
    return found


def _chat_files(folder: Path) -> list[Path]:
    from tavernkit.silly_tavern._files.folder_files import CHATS, GROUP_CHATS

    return [*sorted(folder.glob(f"{CHATS}/*/*.jsonl")), *sorted(folder.glob(f"{GROUP_CHATS}/*.jsonl"))]


def _name(chat: Path) -> str:
    return f"{chat.parent.name}/{chat.stem}"


class FolderContent:
    """What chats and settings may refer to."""

    def __init__(self, folder: DataFolder) -> None:
        from tavernkit.silly_tavern._files.attached_files import AttachedFiles
        from tavernkit.silly_tavern._files.folder_files import folded

        self._avatars = frozenset(folder.avatars())
        self._folded = folded
        self._books = frozenset(map(folded, folder.worlds()))
        self._files = AttachedFiles(folder.path, warn=_ignore)

    def has_avatar(self, name: str) -> bool:
        """Return True if there is a persona's picture of this name."""
        return name in self._avatars

    def has_book(self, name: str) -> bool:
        """Return True if there is a book of this name."""
        return self._folded(name) in self._books

    def missing_files(self, files: Iterable[Mapping[str, object]]) -> Iterator[str]:
        """Return the URLs of files that should be in the folder, and are not.

        Args:
            files: Files and media of a line, or of the Data Bank.
        """
        for file in files:
            url = file.get("url")
            if not isinstance(url, str) or not url.lstrip("/").startswith("user/") or file.get("text"):
                continue
            if not self._files.has(url):
                yield url


def _examine_chat(chat: ChatFile, name: str, there: FolderContent, found: ChatFindings) -> None:
    from tavernkit.silly_tavern._chat.attachments import attached_files, attached_media, objects

    metadata = chat.metadata
    for key in metadata.source:
        if key not in KNOWN_METADATA:
            _add(found.unknown, key, name)
    lock = metadata.get("persona")
    if isinstance(lock, str) and lock and not there.has_avatar(lock):
        _add(found.personas, lock, name)
    if metadata.world_info and not there.has_book(metadata.world_info):
        _add(found.books, metadata.world_info, name)
    files = objects(metadata.get("attachments"))
    for message in chat.messages:
        if message.extra:
            files += [*attached_files(message.extra), *attached_media(message.extra)]
    for url in dict.fromkeys(there.missing_files(files)):
        _add(found.files, url, name)


def _add(found: dict[str, list[str]], key: str, chat: str) -> None:
    found.setdefault(key, []).append(chat)


def _chats(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"


def _ignore(_: str) -> None:
    """Ignore a warning: files are looked for, not read."""


def _list_lines(lines: Iterable[str]) -> list[str]:
    listed = list(lines)
    more = [f"… and {len(listed) - MAX_LINES} more like it"] if len(listed) > MAX_LINES else []
    return [*listed[:MAX_LINES], *more]
