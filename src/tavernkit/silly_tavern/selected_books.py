"""Which lorebooks a build scans."""

from __future__ import annotations

from tavernkit.silly_tavern.context import SillyTavernContext
from tavernkit.silly_tavern.services import Services
from tavernkit.silly_tavern.world_info.selection import SelectedBooks


def selected_books(context: SillyTavernContext, services: Services) -> SelectedBooks:
    """The books by where they come from; one that several sources have counts for one of them.

    A card's embedded book counts as the character's, as after its import, unless a book of its name is there already.
    """
    global_names = {book.name for book in context.books}
    chat = tuple(book for book in context.chat_books if book.name not in global_names)
    chat_names = {book.name for book in context.chat_books}
    taken = global_names | chat_names
    persona = tuple(book for book in context.persona_books if book.name not in taken)
    character = list(context.character_books)
    if context.use_embedded_book and context.card is not None:
        embedded = services.embedded_book(context.card)
        if embedded is not None and all(book.name != embedded.name for book in character):
            character.append(embedded)
    taken = taken | {book.name for book in context.persona_books}
    own = tuple({book.name: book for book in character if book.name not in taken}.values())
    return SelectedBooks(global_=tuple(context.books), character=own, chat=chat, persona=persona)
