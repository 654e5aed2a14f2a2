"""SillyTavern's global regex scripts, kept as one item of the library."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import silly_tavern as st
from tavernkit._values import JsonObject, is_object, is_sequence
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import (
    GLOBAL_SCRIPTS,
    REFUSED_SCRIPTS,
    SILLY_TAVERN,
    parse_item,
    read_refusals,
    version_of,
)
from tavernkit.server.limits import MAX_SCRIPTS
from tavernkit.server.storage.chats import new_id
from tavernkit.server.storage.database import advisory_lock
from tavernkit.server.storage.items import ItemInfo, infos, item_file, save_item


async def save_scripts(connection: AsyncConnection, scripts: Sequence[JsonObject]) -> list[JsonObject]:
    """Store the scripts, migrated as SillyTavern does when it loads them."""
    kind, item_id = GLOBAL_SCRIPTS
    if len(scripts) > MAX_SCRIPTS:
        raise ServiceError(422, f"there would be more than {MAX_SCRIPTS} global scripts", code="too_many_scripts")
    migrated = [st.migrate_script(script, new_id=new_id) for script in scripts]
    await save_item(
        connection,
        kind,
        name=item_id,
        platform=SILLY_TAVERN,
        file=json.dumps(migrated).encode(),
        filename="regex.json",
        item_id=item_id,
    )
    return migrated


async def global_scripts(connection: AsyncConnection) -> list[JsonObject]:
    """Return the stored scripts."""
    if GLOBAL_SCRIPTS not in await infos(connection, [GLOBAL_SCRIPTS]):
        return []
    found = parse_item("regex", SILLY_TAVERN, "global", await item_file(connection, *GLOBAL_SCRIPTS))
    return [script for script in found if is_object(script)] if is_sequence(found) else []


async def add_scripts(connection: AsyncConnection, scripts: Sequence[JsonObject]) -> int:
    """Add scripts after the existing ones; a script with the same id replaces the old one. Return how many were new."""
    kept = await global_scripts(connection)
    scripts = [script for script in scripts if not _is_among(kept, st.migrate_script(script, new_id=lambda: ""))]
    by_id = {own: script for script in scripts if (own := _id_of(script))}
    merged = [by_id.pop(_id_of(script), script) for script in kept]
    merged += [script for script in scripts if not (own := _id_of(script)) or own in by_id]
    if scripts:
        await save_scripts(connection, merged)
    return len(scripts)


def _id_of(script: JsonObject) -> str:
    """Return a script's id; empty if it has none, or one that is not text."""
    own = script.get("id")
    return own if isinstance(own, str) else ""


def _is_among(kept: Sequence[JsonObject], script: JsonObject) -> bool:
    """Return True if a script is there already; one without an id is recognised by everything else."""
    return any(script == {**each, "id": script.get("id") and each.get("id")} for each in kept)


async def refuse_scripts(connection: AsyncConnection, info: ItemInfo) -> None:
    """Note that the regex scripts of this version of a character or preset do not run."""
    kind, item_id = REFUSED_SCRIPTS
    await advisory_lock(connection, item_id)
    known = await infos(connection, [REFUSED_SCRIPTS])
    refused = read_refusals(json.loads(await item_file(connection, kind, item_id)) if known else None)
    content = {"versions": sorted(refused | {version_of(info)}, key=str)}
    await save_item(
        connection,
        kind,
        name=item_id,
        platform=SILLY_TAVERN,
        file=json.dumps(content).encode(),
        filename=f"{item_id}.json",
        item_id=item_id,
    )
