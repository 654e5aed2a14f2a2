"""Which lorebooks a build scans."""

from __future__ import annotations

from tavernkit.silly_tavern.context import SillyTavernContext
from tavernkit.silly_tavern.services import Services
from tavernkit.silly_tavern.world_info.selection import SelectedBooks, select_books


def selected_books(context: SillyTavernContext, services: Services) -> SelectedBooks:
    """The books by where they come from.

    A card's embedded book counts as the character's, as after its import, unless a book of its name is there already.
    """
    character = list(context.character_books)
    if context.use_embedded_book and context.card is not None:
        embedded = services.embedded_book(context.card)
        if embedded is not None:
            character.append(embedded)
    return select_books(
        global_=context.books, character=character, chat=context.chat_books, persona=context.persona_books
    )
