"""The library: characters, books, presets, personas, groups and modules, stored as their original files."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit.server.errors import not_found
from tavernkit.server.limits import MAX_PAGE
from tavernkit.server.storage.database import advisory_lock
from tavernkit.server.storage.statements import fetch, select_several, table_of
from tavernkit.server.storage.tables import Item

Kind: TypeAlias = Literal[
    "character", "book", "preset", "persona", "group", "module", "regex", "settings", "folder", "file"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
Ref: TypeAlias = tuple[Kind, str]
"""The reference of an item: its kind and id."""

MAX_SLUG = 80


@dataclass(frozen=True, slots=True)
class ItemInfo:
    """An item without its file."""

    kind: Kind
    id: str
    name: str
    platform: str
    version: int
    filename: str
    created_at: float
    updated_at: float


_INFO = ("kind", "id", "name", "platform", "version", "filename", "created_at", "updated_at")
_INFO_COLUMNS = [table_of(Item).c[name] for name in _INFO]
_MOST_AT_ONCE = 64
"""How many items one query selects: databases limit the length of conditions."""


async def list_items(
    connection: AsyncConnection, kind: Kind, *, after: str = "", limit: int = MAX_PAGE, platform: str | None = None
) -> list[ItemInfo]:
    """Return a page of the items of a kind, by id; optionally only those of a platform."""
    query = select(*_INFO_COLUMNS).where(Item.kind == kind, Item.id > after).order_by(Item.id).limit(limit)
    if platform is not None:
        query = query.where(Item.platform == platform)
    return [_info(row) for row in (await connection.execute(query)).all()]


async def count_items(connection: AsyncConnection, kind: Kind, *, platform: str | None = None) -> int:
    """Return the number of items of a kind."""
    query = select(func.count()).select_from(Item).where(Item.kind == kind)
    if platform is not None:
        query = query.where(Item.platform == platform)
    return (await connection.execute(query)).scalar_one()


async def all_items(connection: AsyncConnection, kind: Kind) -> list[ItemInfo]:
    """All items of a kind, by id."""
    found = page = await list_items(connection, kind)
    while len(page) == MAX_PAGE:
        page = await list_items(connection, kind, after=page[-1].id)
        found = [*found, *page]
    return found


async def item_info(connection: AsyncConnection, kind: Kind, item_id: str) -> ItemInfo:
    """Return an item by id; raises if there is none."""
    found = await infos(connection, [(kind, item_id)])
    if not found:
        raise not_found(kind, item_id)
    return found[kind, item_id]


async def infos(connection: AsyncConnection, refs: Collection[Ref]) -> dict[Ref, ItemInfo]:
    """Return the items of several references, without missing ones."""
    found: dict[Ref, ItemInfo] = {}
    ordered = sorted(refs)
    for start in range(0, len(ordered), _MOST_AT_ONCE):
        some = ordered[start : start + _MOST_AT_ONCE]
        by = {f"kind{number}": kind for number, (kind, _) in enumerate(some)}
        by |= {f"id{number}": item_id for number, (_, item_id) in enumerate(some)}
        rows = await fetch(connection, select_several(Item, _INFO, ("kind", "id"), len(some)), by)
        found |= {(info.kind, info.id): info for info in map(_info, rows)}
    return found


async def item_file(connection: AsyncConnection, kind: Kind, item_id: str) -> bytes:
    """The file of an item."""
    query = select(Item.file).where(Item.kind == kind, Item.id == item_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise not_found(kind, item_id)
    return row[0]


async def save_item(
    connection: AsyncConnection,
    kind: Kind,
    *,
    name: str,
    platform: str,
    file: bytes,
    filename: str,
    item_id: str | None = None,
) -> ItemInfo:
    """Store a new item, or a new version of an existing one; new ids are made from the name."""
    await advisory_lock(connection, f"items/{kind}")  # two writers could choose the same id
    now = time.time()
    values: dict[str, object] = {"name": name, "platform": platform, "file": file, "filename": filename}
    chosen = item_id if item_id is not None else await _free_id(connection, kind, name)
    old = (
        await connection.execute(
            select(Item.version, Item.created_at).where(Item.kind == kind, Item.id == chosen).with_for_update()
        )
    ).one_or_none()
    version, created = (old[0] + 1, old[1]) if old is not None else (1, now)
    if old is None:
        statement = insert(Item).values(kind=kind, id=chosen, version=version, created_at=now, updated_at=now, **values)
    else:
        statement = (
            update(Item).where(Item.kind == kind, Item.id == chosen).values(version=version, updated_at=now, **values)
        )
    await connection.execute(statement)
    return ItemInfo(kind, chosen, name, platform, version, filename, created, now)


async def delete_item(connection: AsyncConnection, kind: Kind, item_id: str) -> None:
    """Remove an item."""
    gone = await connection.execute(delete(Item).where(Item.kind == kind, Item.id == item_id))
    if gone.rowcount == 0:
        raise not_found(kind, item_id)


def slug(name: str) -> str:
    """Make an id from a name: lower case, words joined by dashes."""
    return re.sub(r"[^\w]+", "-", name.lower(), flags=re.UNICODE).strip("-_")[:MAX_SLUG]


async def _free_id(connection: AsyncConnection, kind: Kind, name: str) -> str:
    base = slug(name) or f"{kind}-{uuid.uuid4().hex[:8]}"
    query = select(Item.id).where(Item.kind == kind, Item.id.startswith(base, autoescape=True))
    taken = {row[0] for row in (await connection.execute(query)).all()}
    return base if base not in taken else _numbered(base, taken)


def _numbered(base: str, taken: Collection[str]) -> str:
    number = 2
    while f"{base}-{number}" in taken:
        number += 1
    return f"{base}-{number}"


def _info(row: Sequence[Any]) -> ItemInfo:
    return ItemInfo(*row)
