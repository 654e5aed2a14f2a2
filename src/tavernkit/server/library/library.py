"""Parsed items of the library, kept by version."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import silly_tavern as st
from tavernkit._values import Json, JsonObject, LRUCache, is_list, is_mapping, is_object, is_sequence, thaw
from tavernkit.cards import Bundle, parse_json
from tavernkit.cards import load as load_card
from tavernkit.errors import TavernKitError
from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.library.stored_folders import (
    DATA_BANKS,
    FOLDER,
    SERVED,
    FolderStore,
    StoredFolder,
    attached,
    named_files,
    read_folder,
)
from tavernkit.server.limits import PARSED_ITEMS
from tavernkit.server.storage.chats import Selection
from tavernkit.server.storage.database import Database
from tavernkit.server.storage.items import ItemInfo, Kind, Ref, all_items, infos, item_file, slug
from tavernkit.silly_tavern._files.personas import choose_persona
from tavernkit.silly_tavern._world_info.selection import character_book_names

SILLY_TAVERN, RISU_AI = "silly_tavern", "risu_ai"
IN_PROMPT, AFTER_CHARACTER = 0, 1
"""Positions of a persona; older files have the second one, which SillyTavern reads as the first."""
GLOBAL_SCRIPTS: Ref = ("regex", "global")
"""The regex scripts that run in every chat of SillyTavern."""
REFUSED_SCRIPTS: Ref = ("settings", "refused-scripts")
"""Imported characters and presets whose regex scripts SillyTavern's settings did not allow, by kind, id and version."""
CHAT_SETTINGS: Mapping[str, Ref] = {SILLY_TAVERN: ("settings", "chats"), RISU_AI: ("settings", RISU_AI)}
"""The platforms' settings of every chat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPersona:
    """Who the user is."""

    name: str
    description: str = ""
    position: int | str = 0
    depth: int = 2
    role: int = 0
    books: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """All parsed items of a chat. Equal keys mean equal casts."""

    selection: Selection
    key: tuple[object, ...]
    character: Bundle | None = None
    group: st.Group | None = None
    members: dict[str, Bundle] = field(default_factory=dict[str, Bundle])
    persona: StoredPersona | None = None
    preset: object = None
    books: tuple[st.WorldBook, ...] = ()
    character_books: tuple[st.WorldBook, ...] = ()
    persona_books: tuple[st.WorldBook, ...] = ()
    modules: tuple[object, ...] = ()
    """All RisuAI modules; the chat and the character decide which are active."""
    regex_scripts: tuple[JsonObject, ...] = ()
    """SillyTavern's global scripts."""
    refused_scripts: frozenset[Ref] = frozenset()
    """The characters and the preset whose own scripts do not run."""
    power_user: st.PowerUser = field(default_factory=st.PowerUser)
    """SillyTavern's settings of chats."""
    database: JsonObject = field(default_factory=dict[str, Json])
    """RisuAI's settings of chats, as its database has them."""
    folder: StoredFolder | None = None
    """The data folder of the chat, whose settings are used instead."""
    folder_books: Mapping[str, st.WorldBook] = field(default_factory=dict[str, st.WorldBook])
    """The books used by the folder's settings and cards."""

    def avatar(self, character: str) -> str:
        """Return the avatar of a character in prompts and lines: its file in the folder, or its id."""
        return self.folder.avatars.get(character, character) if self.folder is not None else character

    def member(self, named: str | None) -> str | None:
        """Return the id of the group's member with this id or name, if there is one."""
        if named in self.members:
            return named
        return next((each for each, bundle in self.members.items() if bundle.character.name == named), None)

    @property
    def opened_persona(self) -> st.ChosenPersona | None:
        """The folder's persona for a chat that chooses none: connected, by default, or in use; None with a choice."""
        if self.folder is None or self.persona is not None:
            return None
        character = self.selection.character
        return persona_of(self.folder, self.group.id if self.group is not None else self.avatar(character or ""))

    @property
    def user_avatar(self) -> str | None:
        """The file of the persona in use, which lines of the user name: one of the folder's, or the persona's id."""
        power_user = self.folder.settings.source.get("power_user") if self.folder is not None else None
        named = power_user.get("personas") if is_mapping(power_user) else None
        names = named if is_mapping(named) else dict[str, object]()
        if self.persona is None:
            own = self.opened_persona.avatar if self.opened_persona is not None else None
            return own if own in names else None
        known = next((avatar for avatar, name in names.items() if name == self.persona.name), None)
        return known or f"{self.selection.persona}.png"

    @property
    def name(self) -> str:
        """The name of the character or group."""
        if self.group is not None:
            return self.group.name
        return self.character.character.name if self.character is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatExtras:
    """Other items that a chat refers to."""

    books: tuple[st.WorldBook, ...] = ()
    files: Mapping[str, tuple[str, bytes]] = field(default_factory=dict[str, tuple[str, bytes]])
    """Names and contents of files by their URLs."""


class UnparsedError(Exception):
    """Items of a selection are not parsed yet. ``Library.prepare()`` does it, outside a transaction that writes."""

    def __init__(self, selection: Selection) -> None:
        super().__init__()
        self.selection = selection


class Library:
    """Loads items; parsed ones are cached until their version changes."""

    def __init__(self) -> None:
        self._parsed: LRUCache[tuple[object, ...], object] = LRUCache(PARSED_ITEMS)
        self._files = FolderStore()
        self._casts: LRUCache[Selection, tuple[Collection[Ref], Cast]] = LRUCache(PARSED_ITEMS)

    async def prepare(self, database: Database, selection: Selection) -> None:
        """Parse the items of a selection, so that a transaction need not do it while other writers wait.

        Args:
            database: The database.
            selection: The selection; the transaction reports missing items.
        """
        with suppress(ServiceError):
            async with database.read() as connection:
                await self.cast(connection, selection)

    async def cast(self, connection: AsyncConnection, selection: Selection, *, parse: bool = True) -> Cast:
        """Return all items of a selection; missing ones are an error of the client.

        Args:
            connection: The database.
            selection: The selection.
            parse: False to raise ``UnparsedError`` instead of parsing items.
        """
        modules = await all_items(connection, "module") if selection.platform == RISU_AI else []
        known = self._casts.get(selection)
        if known is not None:
            refs, cast = known
            if _key(selection, [*(await infos(connection, refs)).values(), *modules]) == cast.key:
                return cast
        refs, cast = await self._load(connection, selection, modules, parse=parse)
        self._casts.put(selection, (refs, cast))
        return cast

    async def _load(
        self, connection: AsyncConnection, selection: Selection, modules: Sequence[ItemInfo], *, parse: bool
    ) -> tuple[Collection[Ref], Cast]:
        async def value(info: ItemInfo) -> object:
            if not parse and self._parsed.get(version_of(info)) is None:
                raise UnparsedError(selection)
            return await self._value(connection, info)

        wanted = _refs(selection)
        found = await infos(connection, wanted)
        for kind, item_id in wanted:
            if (kind, item_id) not in found and kind != FOLDER:
                raise not_found(kind, item_id)
            if kind == "preset" and found[kind, item_id].platform != selection.platform:
                platform = found[kind, item_id].platform
                raise ServiceError(
                    422, f"the preset {item_id!r} is for the platform {platform}", code="wrong_platform", param="preset"
                )
        values = {ref: await value(info) for ref, info in found.items()}
        refs: set[Ref] = set(wanted)
        while new := {*_required_items(selection, values)} - refs:  # members of a group have books, too
            refs |= new
            more = await infos(connection, new)
            values |= {ref: await value(info) for ref, info in more.items()}
            found |= more
        refused = read_refusals(values.get(REFUSED_SCRIPTS))
        cast = replace(
            _cast(selection, values, _key(selection, [*found.values(), *modules])),
            refused_scripts=frozenset(ref for ref, info in found.items() if version_of(info) in refused),
        )
        parsed = [await value(info) for info in modules]
        return refs, replace(cast, modules=tuple(parsed))

    async def chat_extras(
        self, connection: AsyncConnection, cast: Cast, details: JsonObject, lines: Iterable[JsonObject]
    ) -> ChatExtras:
        """Return the items that a chat refers to: its book, and files of its folder.

        Args:
            connection: The database.
            cast: The cast.
            details: The chat's own metadata.
            lines: Its messages.
        """
        name, folder = details.get("world_info"), cast.folder
        books: list[st.WorldBook] = []
        if isinstance(name, str) and name:
            ref = folder.book(name) if folder is not None else ("book", slug(name))
            for info in (await infos(connection, [ref])).values():
                value = await self._value(connection, info)
                books += [value] if isinstance(value, st.WorldBook) else []
        if folder is None:
            return ChatExtras(books=tuple(books))
        named: list[Json] = [details.get("attachments"), *(each for line in lines for each in attached(line))]
        settings = folder.settings.extension_settings
        named += [thaw(settings.get(key)) for key in DATA_BANKS]
        files = await self._files.files(connection, folder.id, named_files(named))
        return ChatExtras(books=tuple(books), files=files)

    async def _value(self, connection: AsyncConnection, info: ItemInfo) -> object:
        key = version_of(info)
        value = self._parsed.get(key)
        if value is None:
            data = await item_file(connection, info.kind, info.id)
            value = await asyncio.to_thread(parse_item, info.kind, info.platform, info.name, data)
            self._parsed.put(key, value)
        return value


def parse_item(kind: Kind, platform: str, name: str, data: bytes) -> object:
    """Parse the file of an item; unreadable files are an error of the request that stored them."""
    try:
        return _parse(kind, platform, name, data)
    except TavernKitError as error:
        raise ServiceError(422, f"the {kind} cannot be read: {error}", code=f"invalid_{kind}") from error


def _parse(kind: Kind, platform: str, name: str, data: bytes) -> object:
    if kind == "character":
        bundle = load_card(data, warn=_quiet)
        if bundle.card is None:
            raise ServiceError(422, "the file contains no character", code="invalid_character")
        return bundle
    if kind == "book":
        return st.WorldBook.loads(data, name=name, warn=_quiet)
    if kind == "preset":
        if platform == RISU_AI:
            from tavernkit import risu_ai

            return risu_ai.Preset.load(data, name=name, warn=_quiet)
        return st.Preset.from_json(parse_json(data, what="preset", warn=_quiet), name=name, warn=_quiet)
    if kind == "regex":
        return read_scripts(parse_json(data, what="regex scripts", warn=_quiet))
    if kind == "module":
        from tavernkit import risu_ai

        return risu_ai.read_module(data, name=name, new_id=None, warn=_quiet)
    value: object = parse_json(data, what=kind, warn=_quiet)
    if not is_object(value):
        raise ServiceError(422, f"a {kind} is a JSON object", code=f"invalid_{kind}")
    if kind == FOLDER:
        return read_folder(name, value)
    if kind == "settings" and (platform == RISU_AI or name == REFUSED_SCRIPTS[1]):
        return value
    if kind == "settings":
        return st.PowerUser.from_json(value, warn=_quiet)
    return st.Group.from_json(value) if kind == "group" else read_persona(value)


def read_scripts(value: object) -> tuple[JsonObject, ...]:
    """Read a list of regex scripts, or a single one, from parsed JSON."""
    listed = value if is_list(value) else [value]
    if not all(is_object(script) for script in listed):
        raise ServiceError(422, "regex scripts must be a list of JSON objects", code="invalid_regex")
    return tuple(script for script in listed if is_object(script))


def read_refusals(value: object) -> frozenset[tuple[object, ...]]:
    """Read ``REFUSED_SCRIPTS``: the versions of items whose scripts do not run. Newer versions are the user's own."""
    listed = value.get("versions") if is_mapping(value) else None
    versions = [tuple(each) for each in listed if is_sequence(each)] if is_sequence(listed) else []
    return frozenset(each for each in versions if all(isinstance(part, str | int | float) for part in each))


def read_persona(value: object) -> StoredPersona:
    """Read a persona from parsed JSON."""
    if not is_mapping(value) or not isinstance(value.get("name"), str):
        raise ServiceError(422, "a persona must be a JSON object with a name", code="invalid_persona")
    position, depth, role, books = (value.get(key) for key in ("position", "depth", "role", "books"))
    if position == AFTER_CHARACTER:
        position = IN_PROMPT
    return StoredPersona(
        name=str(value["name"]),
        description=str(value.get("description") or ""),
        position=position if isinstance(position, (int, str)) else IN_PROMPT,
        depth=depth if isinstance(depth, int) else 2,
        role=role if isinstance(role, int) else 0,
        books=tuple(str(book) for book in books) if is_sequence(books) else (),
    )


def persona_file(persona: StoredPersona) -> bytes:
    """A persona as the library stores it."""
    fields = {name: getattr(persona, name) for name in ("name", "description", "position", "depth", "role", "books")}
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")


def _key(selection: Selection, found: Iterable[ItemInfo]) -> tuple[object, ...]:
    return (selection, *sorted(version_of(info) for info in found))


def version_of(info: ItemInfo) -> tuple[Kind, str, int, float]:
    """Return a key that distinguishes an item's versions, and removed items with the same id."""
    return (info.kind, info.id, info.version, info.created_at)


def _refs(selection: Selection) -> list[Ref]:
    chosen: list[tuple[Kind, str | None]] = [
        ("character", selection.character),
        ("group", selection.group),
        ("persona", selection.persona),
        ("preset", selection.preset),
        *(("book", book) for book in selection.books),
        (FOLDER, (selection.folder or SERVED) if selection.platform == SILLY_TAVERN else None),
    ]
    return [(kind, item_id) for kind, item_id in chosen if item_id is not None]


def _required_items(selection: Selection, values: dict[Ref, object]) -> Collection[Ref]:
    """Return the items that the chosen ones require: a group's members, the books of a card and a persona."""
    refs: set[Ref] = {CHAT_SETTINGS[selection.platform]}
    refs |= {GLOBAL_SCRIPTS, REFUSED_SCRIPTS} if selection.platform == SILLY_TAVERN else set()
    folder = _folder(selection, values)
    if folder is not None:
        refs |= {folder.book(name) for name in _book_names(folder, values)}
    for value in values.values():
        if isinstance(value, st.Group):
            refs |= {("character", member) for member in value.members}
        elif isinstance(value, Bundle) and (world := value.character.world_name):
            refs.add(("book", slug(world)))
        elif isinstance(value, StoredPersona):
            refs |= {("book", book) for book in value.books}
    return refs - set(_refs(selection))


def _folder(selection: Selection, values: dict[Ref, object]) -> StoredFolder | None:
    """Return the folder of a selection."""
    found = values.get((FOLDER, selection.folder or SERVED))
    if not isinstance(found, StoredFolder):
        return None
    return found if selection.folder is not None or found.has(selection.character, selection.group) else None


def _book_names(folder: StoredFolder, values: dict[Ref, object]) -> set[str]:
    """Return the active books of a folder for the characters among the values."""
    info = folder.settings.world_info
    names = {*info.global_select}
    for (kind, item_id), value in values.items():
        opened_by = value.id if isinstance(value, st.Group) else folder.avatars.get(item_id, item_id)
        lorebook = persona_of(folder, opened_by).persona.lorebook if kind in ("character", "group") else None
        names |= {lorebook} if lorebook else set()
        if kind == "character" and isinstance(value, Bundle):
            avatar = folder.avatars.get(item_id, item_id)
            names |= {*character_book_names(value.character.world_name, avatar, info.character_lore)}
    return names


def persona_of(folder: StoredFolder, opened_by: str) -> st.ChosenPersona:
    """Return the persona that a new chat of a folder is opened with.

    Args:
        folder: The folder.
        opened_by: The file name of the character's card, or the group's id.
    """
    return choose_persona(folder.settings, avatars=(), connected_to=opened_by)


def _cast(selection: Selection, values: dict[Ref, object], key: tuple[object, ...]) -> Cast:
    def one(kind: Kind, item_id: str | None) -> object:
        return values.get((kind, item_id)) if item_id is not None else None

    def books(ids: Collection[str]) -> tuple[st.WorldBook, ...]:
        found = (values.get(("book", each)) for each in ids)
        return tuple(book for book in found if isinstance(book, st.WorldBook))

    scripts, settings = values.get(GLOBAL_SCRIPTS), values.get(CHAT_SETTINGS[selection.platform])
    character, group = one("character", selection.character), one("group", selection.group)
    persona = one("persona", selection.persona)
    members = group.members if isinstance(group, st.Group) else ()
    bundles = {each: value for each in members if isinstance(value := values.get(("character", each)), Bundle)}
    world = character.character.world_name if isinstance(character, Bundle) else None
    folder = _folder(selection, values)
    named = {name: values.get(folder.book(name)) for name in _book_names(folder, values)} if folder is not None else {}
    return Cast(
        selection=selection,
        key=key,
        character=character if isinstance(character, Bundle) else None,
        group=group if isinstance(group, st.Group) else None,
        members=bundles,
        persona=persona if isinstance(persona, StoredPersona) else None,
        preset=one("preset", selection.preset),
        books=books(selection.books),
        character_books=books([slug(world)] if world and slug(world) not in selection.books else ()),
        persona_books=books(persona.books if isinstance(persona, StoredPersona) else ()),
        regex_scripts=tuple(script for script in scripts if is_object(script)) if is_sequence(scripts) else (),
        power_user=settings if isinstance(settings, st.PowerUser) else st.PowerUser(),
        database=settings if is_object(settings) else {},
        folder=folder,
        folder_books={name: book for name, book in named.items() if isinstance(book, st.WorldBook)},
    )


def _quiet(_: str) -> None:
    """Ignore a warning: warnings of a file are shown when it is imported."""
