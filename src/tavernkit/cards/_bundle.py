"""The contents of a card file of any format."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Any

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject
from tavernkit.cards._assets import Asset
from tavernkit.cards._book import CharacterBook
from tavernkit.cards._character import Character
from tavernkit.cards._risum import Module
from tavernkit.cards.errors import NotACardError


class Format(StrEnum):
    """The file formats of cards."""

    JSON = "json"
    YAML = "yaml"
    PNG = "png"
    APNG = "apng"
    JPEG = "jpeg"
    WEBP = "webp"
    CHARX = "charx"
    BYAF = "byaf"
    RISUM = "risum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A loaded file: the character, its lore, its assets (read on demand), and warnings about the file."""

    card: Character | None = None
    """The character, if the file has one: modules and stand-alone lorebooks have none."""
    lore_books: tuple[CharacterBook, ...] = ()
    """Books of the file that are not the character's own."""
    assets: tuple[Asset, ...] = ()
    """Pictures and sounds that the card or the module names."""
    image: Asset | None = None
    """The picture that contains the card, or the character's main picture."""
    module: Module | None = None
    """RisuAI's module: the file itself, or the one in a CHARX archive."""
    scenarios: tuple[FrozenObject, ...] = ()
    """Backyard's scenarios, unchanged."""
    files: tuple[Asset, ...] = ()
    """Members of an archive that the card does not mention; they are kept when it is written as an archive again."""
    source_format: Format | None = None
    """The format of the file it was read from."""
    warnings: tuple[str, ...] = ()
    """Warnings about the file."""

    @property
    def character(self) -> Character:
        """The character; raises ``NotACardError`` for a file that has none."""
        if self.card is None:
            what = "a RisuAI module" if self.module is not None else "a lore book"
            raise NotACardError(f"the file contains {what} but no character; use .books or .module")
        return self.card

    @property
    def books(self) -> tuple[CharacterBook, ...]:
        """The character's own book and the other books of the file."""
        own = self.card.character_book if self.card is not None else None
        return (own, *self.lore_books) if own is not None else self.lore_books

    @property
    def book(self) -> CharacterBook | None:
        """The first of the books."""
        return self.books[0] if self.books else None

    def replace(self, **changes: Any) -> Bundle:
        """Return a copy with some parts changed; ``character`` is another name for ``card``."""
        if "character" in changes:
            changes["card"] = changes.pop("character")
        return dataclasses.replace(self, **changes)
