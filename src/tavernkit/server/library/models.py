"""The models of OpenAI clients: characters and groups, alone and with a preset."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._dataclass import replaced
from tavernkit.server.errors import not_found
from tavernkit.server.library.library import SILLY_TAVERN
from tavernkit.server.storage.chats import Selection
from tavernkit.server.storage.items import ItemInfo, Kind, count_items, infos, list_items

GROUP_PREFIX = "group:"
_ITEM_ID = re.compile(r"[\w.-]+")
SPEAKING: tuple[Kind, ...] = ("character", "group")
"""Kinds of items that are models, in the order of lists."""


@dataclass(frozen=True, slots=True)
class Model:
    """A character or group, and the preset it is used with."""

    item: ItemInfo
    preset: str | None = None

    @property
    def id(self) -> str:
        """The id for clients: ``aria``, ``aria@preset``, ``group:crew``."""
        group, character = (self.item.id, None) if self.item.kind == "group" else (None, self.item.id)
        return model_name(Selection(group=group, character=character, preset=self.preset))


def selection_of(
    model: str,
    *,
    platform: str = SILLY_TAVERN,
    persona: str | None = None,
    preset: str | None = None,
    books: tuple[str, ...] = (),
) -> Selection:
    """Read the name of a model: ``aria``, ``aria@preset``, ``group:tavern``.

    Args:
        model: The name.
        platform: The platform of the chat.
        persona: Who the user is.
        preset: The preset, if it is not the one in the name.
        books: Lorebooks of the chat.
    """
    name, _, named = model.partition("@")
    item, chosen = name.removeprefix(GROUP_PREFIX), preset or named or None
    if not _ITEM_ID.fullmatch(item) or (named and not _ITEM_ID.fullmatch(named)):
        raise not_found("model", model)
    found = Selection(platform=platform, character=item, persona=persona, preset=chosen, books=books)
    return replaced(found, character=None, group=item) if name.startswith(GROUP_PREFIX) else found


def model_name(selection: Selection) -> str:
    """Return the name of a model, as ``selection_of()`` reads it."""
    name = f"{GROUP_PREFIX}{selection.group}" if selection.group is not None else str(selection.character or "")
    named = selection.preset if selection.platform == SILLY_TAVERN else None
    return name if named is None else f"{name}@{named}"


async def count_models(connection: AsyncConnection) -> int:
    """Return the number of models. RisuAI's presets are chosen with the platform, so they are not separate models."""
    speaking = sum([await count_items(connection, kind) for kind in SPEAKING])
    return speaking * (1 + await count_items(connection, "preset", platform=SILLY_TAVERN))


async def list_models(
    connection: AsyncConnection, *, after: str = "", limit: int, with_presets: bool = True
) -> list[Model]:
    """Return a page of models; ``after`` is the last id of the previous page."""
    name, _, preset = after.partition("@")
    kind: Kind = "group" if name.startswith(GROUP_PREFIX) else "character"
    last = name.removeprefix(GROUP_PREFIX)
    presets = await _presets(connection, limit) if with_presets else []
    found: list[Model] = []
    if last and with_presets and (info := (await infos(connection, [(kind, last)])).get((kind, last))):
        found = [Model(info, each) for each in await _presets(connection, limit, after=preset)]
    for each in SPEAKING[SPEAKING.index(kind) :]:
        left = limit - len(found)
        if left <= 0:
            break
        for item in await list_items(connection, each, after=last if each == kind else "", limit=left):
            found += [Model(item), *(Model(item, chosen) for chosen in presets)]
    return found[:limit]


async def _presets(connection: AsyncConnection, limit: int, *, after: str = "") -> list[str]:
    found = await list_items(connection, "preset", after=after, limit=limit, platform=SILLY_TAVERN)
    return [info.id for info in found]
