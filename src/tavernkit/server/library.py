"""Parsed items of the library, kept by version."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import silly_tavern as st
from tavernkit.cards import Bundle, parse_json
from tavernkit.cards import load as load_card
from tavernkit.errors import TavernKitError
from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.limits import PARSED_ITEMS
from tavernkit.server.storage.chats import Selection
from tavernkit.server.storage.items import ItemInfo, Kind, Ref, all_items, infos, item_file, slug
from tavernkit.values import JsonObject, LRUCache, is_list, is_mapping, is_object, is_sequence

SILLY_TAVERN, RISU_AI = "silly_tavern", "risu_ai"
IN_PROMPT, AFTER_CHARACTER = 0, 1
"""Positions of a persona; files of older versions have the second one, which SillyTavern reads as the first."""
GLOBAL_SCRIPTS: Ref = ("regex", "global")
"""The regex scripts that run in every chat of SillyTavern."""
CHAT_SETTINGS: Ref = ("settings", "chats")
"""SillyTavern's settings of every chat."""


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
    """Everybody and everything of a chat, parsed. Equal keys mean equal casts."""

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
    """All modules of RisuAI's; which of them are on is said elsewhere."""
    regex_scripts: tuple[JsonObject, ...] = ()
    """SillyTavern's global scripts."""
    power_user: st.PowerUser = field(default_factory=st.PowerUser)
    """SillyTavern's settings of chats."""

    @property
    def name(self) -> str:
        """Who the user talks with."""
        if self.group is not None:
            return self.group.name
        return self.character.character.name if self.character is not None else ""


class Library:
    """Loads items; what was parsed once is kept until its version changes."""

    def __init__(self) -> None:
        self._parsed: LRUCache[tuple[object, ...], object] = LRUCache(PARSED_ITEMS)
        self._casts: LRUCache[Selection, tuple[Collection[Ref], Cast]] = LRUCache(PARSED_ITEMS)

    async def cast(self, connection: AsyncConnection, selection: Selection) -> Cast:
        """Everything a selection names; what does not exist is an error of the client."""
        modules = await all_items(connection, "module") if selection.platform == RISU_AI else []
        known = self._casts.get(selection)
        if known is not None:
            refs, cast = known
            if _key(selection, [*(await infos(connection, refs)).values(), *modules]) == cast.key:
                return cast
        refs, cast = await self._load(connection, selection, modules)
        self._casts.put(selection, (refs, cast))
        return cast

    async def _load(
        self, connection: AsyncConnection, selection: Selection, modules: Sequence[ItemInfo]
    ) -> tuple[Collection[Ref], Cast]:
        wanted = _refs(selection)
        found = await infos(connection, wanted)
        for kind, item_id in wanted:
            if (kind, item_id) not in found:
                raise not_found(kind, item_id)
            if kind == "preset" and found[kind, item_id].platform != selection.platform:
                platform = found[kind, item_id].platform
                raise ServiceError(
                    422, f"the preset {item_id!r} is for the platform {platform}", code="wrong_platform", param="preset"
                )
        values = {ref: await self._value(connection, info) for ref, info in found.items()}
        implied = _implied(selection, values)
        more = await infos(connection, implied)
        values |= {ref: await self._value(connection, info) for ref, info in more.items()}
        cast = _cast(selection, values, _key(selection, [*(found | more).values(), *modules]))
        parsed = [await self._value(connection, info) for info in modules]
        return {*wanted, *implied}, replace(cast, modules=tuple(parsed))

    async def _value(self, connection: AsyncConnection, info: ItemInfo) -> object:
        key = _version(info)
        value = self._parsed.get(key)
        if value is None:
            data = await item_file(connection, info.kind, info.id)
            value = await asyncio.to_thread(parse_item, info.kind, info.platform, info.name, data)
            self._parsed.put(key, value)
        return value


def parse_item(kind: Kind, platform: str, name: str, data: bytes) -> object:
    """Parse the file of an item; one that cannot be read is an error of whoever stored it."""
    try:
        return _parse(kind, platform, name, data)
    except TavernKitError as error:
        raise ServiceError(422, f"the {kind} cannot be read: {error}", code=f"invalid_{kind}") from error


def _parse(kind: Kind, platform: str, name: str, data: bytes) -> object:
    if kind == "character":
        bundle = load_card(data, warn=_quiet)
        if bundle.card is None:
            raise ServiceError(422, "the file holds no character", code="invalid_character")
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
    if kind == "settings":
        return st.PowerUser.from_json(value, warn=_quiet)
    return st.Group.from_json(value) if kind == "group" else read_persona(value)


def read_scripts(value: object) -> tuple[JsonObject, ...]:
    """Read a list of regex scripts, or a single one, from parsed JSON."""
    listed = value if is_list(value) else [value]
    if not all(is_object(script) for script in listed):
        raise ServiceError(422, "regex scripts are a list of JSON objects", code="invalid_regex")
    return tuple(script for script in listed if is_object(script))


def read_persona(value: object) -> StoredPersona:
    """Read a persona from parsed JSON."""
    if not is_mapping(value) or not isinstance(value.get("name"), str):
        raise ServiceError(422, "a persona is a JSON object with a name", code="invalid_persona")
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
    return (selection, *sorted(_version(info) for info in found))


def _version(info: ItemInfo) -> tuple[Kind, str, int, float]:
    """What tells an item from its other versions, and from one of the same id that was removed before it came."""
    return (info.kind, info.id, info.version, info.created_at)


def _refs(selection: Selection) -> list[Ref]:
    chosen: list[tuple[Kind, str | None]] = [
        ("character", selection.character),
        ("group", selection.group),
        ("persona", selection.persona),
        ("preset", selection.preset),
        *(("book", book) for book in selection.books),
    ]
    return [(kind, item_id) for kind, item_id in chosen if item_id is not None]


def _implied(selection: Selection, values: dict[Ref, object]) -> Collection[Ref]:
    """What the chosen items ask for themselves: a group's members, the books of a card and a persona."""
    refs: set[Ref] = {GLOBAL_SCRIPTS, CHAT_SETTINGS} if selection.platform == SILLY_TAVERN else set()
    for value in values.values():
        if isinstance(value, st.Group):
            refs |= {("character", member) for member in value.members}
        elif isinstance(value, Bundle) and (world := value.character.world_name):
            refs.add(("book", slug(world)))
        elif isinstance(value, StoredPersona):
            refs |= {("book", book) for book in value.books}
    return refs - set(_refs(selection))


def _cast(selection: Selection, values: dict[Ref, object], key: tuple[object, ...]) -> Cast:
    def one(kind: Kind, item_id: str | None) -> object:
        return values.get((kind, item_id)) if item_id is not None else None

    def books(ids: Collection[str]) -> tuple[st.WorldBook, ...]:
        found = (values.get(("book", each)) for each in ids)
        return tuple(book for book in found if isinstance(book, st.WorldBook))

    scripts, power_user = values.get(GLOBAL_SCRIPTS), values.get(CHAT_SETTINGS)
    character, group = one("character", selection.character), one("group", selection.group)
    persona = one("persona", selection.persona)
    members = group.members if isinstance(group, st.Group) else ()
    bundles = {each: value for each in members if isinstance(value := values.get(("character", each)), Bundle)}
    world = character.character.world_name if isinstance(character, Bundle) else None
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
        power_user=power_user if isinstance(power_user, st.PowerUser) else st.PowerUser(),
    )


def _quiet(_: str) -> None:
    """Warnings of a file are shown when it is imported, not at every start."""
