"""Short ways to make a book and scan it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tavernkit.silly_tavern._world_info import (
    ScanInput,
    SelectedBooks,
    WorldBook,
    WorldInfoEngine,
    WorldInfoResult,
    WorldInfoSettings,
    new_entry,
)


def make_book(*entries: Mapping[str, Any], name: str = "Lore") -> WorldBook:
    """A book of template entries with these fields."""
    world: dict[str, Any] = {"entries": {}}
    for fields in entries:
        new_entry(world).update(fields)
    return WorldBook(name, world)


def count_words(text: str) -> int:
    return len(text.split())


def scan(book: WorldBook, *messages: str, settings: WorldInfoSettings | None = None, **given: Any) -> WorldInfoResult:
    """Scan messages, newest first, with tokens that are words."""
    options: dict[str, Any] = {"max_context": 1000, "count_tokens": count_words, "warn": _fail, **given}
    return WorldInfoEngine().scan(
        ScanInput(
            messages=messages,
            books=SelectedBooks(global_=(book,)),
            settings=settings or WorldInfoSettings(),
            **options,
        )
    )


def _fail(message: str) -> None:
    raise AssertionError(f"unexpected warning: {message}")
