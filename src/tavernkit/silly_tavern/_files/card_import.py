"""Imports and exports cards exactly as SillyTavern does."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from tavernkit._values import JsonObject
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits
from tavernkit.cards._silly_tavern import ImportedCard
from tavernkit.cards._silly_tavern import export_card as exported
from tavernkit.cards._silly_tavern.importing import import_file
from tavernkit.cards._source import FileContent, file_type_of, read_file


def import_card(
    source: FileContent,
    *,
    file_type: str = "",
    taken: Collection[str] = (),
    now: datetime | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ImportedCard:
    """Import a card as SillyTavern does: the PNG that it stores, its name, and the files and chats that come with it.

    To read a card for prompts, use ``tavernkit.load()``, which repairs more and keeps what SillyTavern drops.

    Args:
        source: The file: its path or its content.
        file_type: ``png``, ``json``, ``yaml``, ``yml``, ``charx`` or ``byaf``; by default, the ending of the path.
        taken: Names of stored characters. A new one of the same name gets a number.
        now: The time of the import, in UTC; by default, the current time.
        limits: Limits on sizes. SillyTavern itself has none.

    Raises:
        InvalidCardError: SillyTavern refuses the file, or fails on it.
        FileFormatError: The file cannot be read, or exceeds a limit.
    """
    data = read_file(source, limits.max_file_bytes, limit="max_file_bytes")
    kind = file_type_of(source, file_type)
    return import_file(data, kind, now=now or datetime.now(UTC), taken=taken, limits=limits)


def export_card(source: FileContent, *, limits: Limits = DEFAULT_LIMITS) -> JsonObject:
    """Return the card that SillyTavern exports as JSON for a PNG in its ``characters`` folder.

    Args:
        source: The PNG: its path or its content.
        limits: Limits on sizes.

    Raises:
        InvalidCardError: The picture has no card.
        FileFormatError: The file cannot be read, or exceeds a limit.
    """
    return exported(read_file(source, limits.max_file_bytes, limit="max_file_bytes"), limits)
