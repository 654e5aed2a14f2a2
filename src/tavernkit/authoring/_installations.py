"""Examines a SillyTavern installation or a RisuAI save: what is in it, in use, missing and not supported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, Json, JsonObject, is_mapping, is_sequence
from tavernkit.errors import FileFormatError, TavernKitError, WarningLog

if TYPE_CHECKING:
    from tavernkit.silly_tavern import ChatFile, DataFolder


Follow: TypeAlias = Callable[[Sequence[Path], str], Iterable[Path]]
"""Returns files that are examined one by one, and may show progress; the text says what is done with them."""

_USER_MARKS = ("settings.json", "characters")
_SAMPLERS = (("textgenerationwebui", "text completion"), ("kobold", "KoboldAI"), ("novel", "NovelAI"))
"""APIs with sampler presets of their own, and what people call them."""
_THIRD_PARTY = Path("public") / "scripts" / "extensions" / "third-party"


@dataclass(frozen=True, slots=True)
class Examination:
    """One user of an installation, or one save: counts, what is in use, what is not supported.

    ``unsupported`` lists what may change prompts there but does nothing here; ``missing`` lists what chats, groups and
    settings refer to and is not there; ``problems`` lists files and lines that cannot be read.
    """

    kind: str
    """``SillyTavern`` or ``RisuAI``."""
    path: Path
    """The folder or file."""
    counts: Sequence[tuple[str, int]] = ()
    """How many there are of each thing: pairs of name and number."""
    used: Sequence[tuple[str, str]] = ()
    """What is in use: pairs of name and value, such as the preset."""
    unsupported: Sequence[str] = ()
    problems: Sequence[str] = ()
    missing: Sequence[str] = ()

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        unsupported: list[Json] = [*self.unsupported]
        problems: list[Json] = [*self.problems]
        missing: list[Json] = [*self.missing]
        return {
            "kind": self.kind,
            "path": str(self.path),
            "counts": dict(self.counts),
            "used": dict(self.used),
            "unsupported": unsupported,
            "missing": missing,
            "problems": problems,
        }


def examine(path: str | Path, *, follow: Follow | None = None) -> list[Examination]:
    """Examine a path: a SillyTavern installation, its ``data`` folder, one user's folder, or a RisuAI save.

    Args:
        path: The folder or file, at any level.
        follow: Given the chats' files and what is done with them, iterates over the files, and may show progress.

    Raises:
        FileFormatError: It is neither.
    """
    path = Path(path)
    users = _users(path) if path.is_dir() else []
    if users:
        return [_silly_tavern(user, follow or _silently) for user in users]
    return [_risu_ai(path)]


def _users(path: Path) -> list[Path]:
    """Return the folders of users, for a path at any level of an installation."""
    from tavernkit.silly_tavern import DataFolder

    for folder in (path, path / "data"):
        if any((folder / mark).exists() for mark in _USER_MARKS):
            return [folder]
    return DataFolder.users(path)


def _silently(files: Sequence[Path], _what: str) -> Sequence[Path]:
    return files


def _silly_tavern(path: Path, follow: Follow) -> Examination:
    from tavernkit.silly_tavern import DataFolder

    log = WarningLog()
    folder = DataFolder(path, warn=log)
    characters = folder.characters()
    unreadable = dict(_unreadable(folder))
    groups = [name for name in folder.groups() if f"group {name}" not in unreadable]
    counts = [
        ("characters", len(characters)),
        ("chats", sum(len(folder.chats(name)) for name in characters)),
        ("groups", len(groups)),
        ("group chats", sum(len(folder.group_chats(name)) for name in groups)),
        ("personas", len(folder.personas())),
        ("world books", len(folder.worlds())),
        ("chat completion presets", len(folder.presets())),
        ("instruct templates", len(folder.instruct_templates())),
        ("context templates", len(folder.context_templates())),
        ("system prompts", len(folder.system_prompts())),
        ("reasoning templates", len(folder.reasoning_templates())),
        *((f"{title} presets", len(folder.sampler_presets(api))) for api, title in _SAMPLERS),
        ("Quick Reply sets", len(folder.quick_replies())),
    ]
    used: list[tuple[str, str]] = []
    problems: list[str] = []
    try:
        settings = folder.settings
        used = [("user", settings.username), ("API", settings.main_api)]
        source = settings.preset.chat_completion_source
        if settings.main_api == "openai":
            used += [("source", source), ("model", settings.preset.model or "(none)")]
        engine = "Macros 2.0" if settings.power_user.experimental_macro_engine else "legacy macros"
        used.append(("macro engine", engine))
    except TavernKitError as error:
        problems.append(str(error))
    problems += (f"{name}: {problem}" for name, problem in unreadable.items())
    chats = examine_chats(folder, follow)
    unsupported = [*folder.unsupported(), *_third_party(folder), *_counting(folder), *chats.unsupported()]
    missing = [*_missing_of_settings(folder), *_missing_members(folder, groups), *chats.missing()]
    problems += [*dict.fromkeys(log.messages), *chats.unreadable()]
    return Examination("SillyTavern", path, counts, used, unsupported, problems, missing)


def _counting(folder: DataFolder) -> Iterator[str]:
    """Say how far token counts may be off: they decide what fits into a prompt."""
    from tavernkit.cards import Character
    from tavernkit.silly_tavern import Builder

    settings = folder.settings
    builder = Builder(settings=settings, tokenizers=folder.tokenizers, character=Character(name="Anyone"), warn=None)
    try:
        note = builder.build(dialect=None if settings.main_api == "openai" else "text").counting_note
    except TavernKitError:
        return  # the settings leave no room for a prompt
    if note:
        yield f"token counts: {note}"


def _missing_of_settings(folder: DataFolder) -> Iterator[str]:
    """List the books, personas and files that the settings refer to and that are not there."""
    from tavernkit.silly_tavern._chat.attachments import objects

    settings, there = folder.settings, FolderContent(folder)
    power_user = settings.source.get("power_user")
    stored = power_user if is_mapping(power_user) else EMPTY_OBJECT
    for book in settings.world_info.global_select:
        if not there.has_book(book):
            yield f"the global book {book!r} is not in worlds"
    default = stored.get("default_persona")
    if isinstance(default, str) and default and not there.has_avatar(default):
        yield f"the default persona {default} is not in User Avatars"
    descriptions = stored.get("persona_descriptions")
    for avatar, entry in descriptions.items() if is_mapping(descriptions) else ():
        book = entry.get("lorebook") if is_mapping(entry) else None
        if isinstance(book, str) and book and not there.has_book(book):
            yield f"the book {book!r} of the persona {avatar} is not in worlds"
    extensions = settings.extension_settings
    of_characters = extensions.get("character_attachments")
    listed = [extensions.get("attachments"), *(of_characters.values() if is_mapping(of_characters) else ())]
    for url in dict.fromkeys(there.missing_files(file for files in listed for file in objects(files))):
        yield f"the file {url} of the Data Bank is not there"


def _missing_members(folder: DataFolder, groups: Sequence[str]) -> Iterator[str]:
    from tavernkit.silly_tavern._files.folder_files import folded

    known = frozenset(map(folded, folder.characters()))
    for group_id in groups:
        group = folder.group(group_id)
        for member in group.members:
            if folded(member) not in known:
                yield f"the member {member} of the group {group.name or group_id!r} is not in characters"


def _unreadable(folder: DataFolder) -> Iterator[tuple[str, str]]:
    """Read every file but the chats, and return those that cannot be read, with the problems."""
    kinds: list[tuple[str, Sequence[str], Callable[[str], object]]] = [
        ("character", folder.characters(), folder.character),
        ("world book", folder.worlds(), folder.world),
        ("group", folder.groups(), folder.group),
        ("chat completion preset", folder.presets(), folder.preset),
        ("instruct template", folder.instruct_templates(), folder.instruct_template),
        ("context template", folder.context_templates(), folder.context_template),
        ("system prompt", folder.system_prompts(), folder.system_prompt),
        ("reasoning template", folder.reasoning_templates(), folder.reasoning_template),
    ]
    for api, title in _SAMPLERS:
        kinds.append((f"{title} preset", folder.sampler_presets(api), partial(folder.sampler_preset, api=api)))
    for kind, names, read in kinds:
        for name in names:
            try:
                read(name)
            except (TavernKitError, OSError) as error:
                yield f"{kind} {name}", str(error)


def _third_party(folder: DataFolder) -> Iterator[str]:
    """Extensions that are installed for all users: they may change prompts, and their code is not run here."""
    from tavernkit.silly_tavern._files.folder_files import unsupported_extensions

    for parent in folder.path.resolve().parents[:2]:
        yield from unsupported_extensions(parent / _THIRD_PARTY, folder.settings)


def _risu_ai(path: Path) -> Examination:
    from tavernkit.risu_ai import Save

    log = WarningLog()
    try:
        save = Save.load(path, warn=log)
    except TavernKitError as error:
        raise FileFormatError(
            f"{path}: neither an installation of SillyTavern nor a save of RisuAI ({error})"
        ) from error
    plugins = save.database.get("plugins")
    names = [str(each.get("name")) for each in plugins if is_mapping(each)] if is_sequence(plugins) else []
    counts = [
        ("characters", len(save.characters)),
        ("chats", sum(len(save.chats(index)) for index in range(len(save.characters)))),
        ("presets", len(save.presets)),
        ("personas", len(save.personas)),
        ("modules", len(save.modules)),
        ("plugins", len(names)),
    ]
    used = [("user", save.settings.username), ("model", save.settings.preset.ai_model)]
    unsupported = [f"plugin {name}: its code is not run" for name in names]
    return Examination("RisuAI", path, counts, used, unsupported, log.messages)


MAX_READ_BYTES = 1 << 30
"""Chats beyond this many bytes in all are not read."""
MAX_LINES = 100
"""How many findings of each kind are listed."""
MAX_PROBLEMS = 12
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
