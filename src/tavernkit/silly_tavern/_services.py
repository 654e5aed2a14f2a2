"""Services that outlive a build: engines and their caches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from tavernkit._text.traced import Origin
from tavernkit._values import IdentityCache, Json, JsonObject, LRUCache
from tavernkit.cards._book import CharacterBook
from tavernkit.cards._character import Character
from tavernkit.errors import Warn
from tavernkit.prompt._block import Block
from tavernkit.prompt._known_texts import KnownTexts
from tavernkit.prompt._traced_inputs import TracedCopies
from tavernkit.silly_tavern._chat.card_fields import ExampleMessage
from tavernkit.silly_tavern._chat.chat_cache import ChatCache
from tavernkit.silly_tavern._chat_completion.history_messages import HistoryCache
from tavernkit.silly_tavern._chat_completion.layout import PlacedMessage
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._limits import (
    BYTES_OF_A_MESSAGE,
    CACHED_COUNTERS,
    EMBEDDED_BOOKS,
    HISTORY_CACHE_BYTES,
    HISTORY_CACHES,
    MACRO_REGISTRIES,
    TRACED_BOOKS,
    TRACED_DIALOGUES,
    TRACED_ENTRIES,
)
from tavernkit.silly_tavern._macros.engine import MacroEngine
from tavernkit.silly_tavern._macros.legacy_engine import LegacyMacroEngine
from tavernkit.silly_tavern._macros.registry import MacroRegistry
from tavernkit.silly_tavern._scripts.prompt_scripts import ScriptCache
from tavernkit.silly_tavern._text_completion.history_items import KnownItems
from tavernkit.silly_tavern._token_counting.messages import CountingRule, MessageCounter, TextCounts, new_counter
from tavernkit.silly_tavern._token_counting.vocabularies import TokenizerFiles, VocabularyInUse, load_vocabulary
from tavernkit.silly_tavern._world_info.book import WorldBook
from tavernkit.silly_tavern._world_info.engine import WorldInfoEngine
from tavernkit.silly_tavern._world_info.importers import embedded_book_name
from tavernkit.silly_tavern._world_info.selection import SelectedBooks, select_books


class Services:
    """Shared by all builds of a builder, in any number of threads. Everything in it is bounded."""

    def __init__(self) -> None:
        self.macro_engine = MacroEngine()
        self.legacy_macro_engine = LegacyMacroEngine()
        self.lore_engine = WorldInfoEngine()
        self.scripts = ScriptCache()
        self.chats = ChatCache()
        self.blocks: LRUCache[object, Block] = LRUCache(HISTORY_CACHE_BYTES, _size_of_block)
        self._messages: LRUCache[object, list[PlacedMessage]] = LRUCache(HISTORY_CACHE_BYTES, _size_of_messages)
        self._histories: LRUCache[object, HistoryCache] = LRUCache(HISTORY_CACHES)
        self.written: LRUCache[object, KnownItems] = LRUCache(HISTORY_CACHE_BYTES, _size_of_items)
        """The messages that the last text prompt of each chat tried."""
        self._embedded: LRUCache[int, tuple[CharacterBook, WorldBook]] = LRUCache(EMBEDDED_BOOKS)
        self._counters: LRUCache[object, MessageCounter] = LRUCache(CACHED_COUNTERS)
        self._vocabularies: LRUCache[object, tuple[VocabularyInUse, TextCounts]] = LRUCache(CACHED_COUNTERS)
        self._engines: LRUCache[int, MacroEngine] = LRUCache(MACRO_REGISTRIES)
        self.known_texts = KnownTexts()
        """For source maps: texts of the last one."""
        self.entry_texts: IdentityCache[tuple[str, Sequence[Origin]]] = IdentityCache(TRACED_ENTRIES)
        """For source maps: traced texts of lore entries."""
        self.entry_places: IdentityCache[Mapping[int, tuple[object, int, str]]] = IdentityCache(TRACED_BOOKS)
        """For source maps: the entries of books by their ids, with their numbers and keys."""
        self.dialogues: IdentityCache[Sequence[tuple[ExampleMessage, ...]]] = IdentityCache(TRACED_DIALOGUES)
        """For source maps: example dialogue that was read before."""
        self.example_texts: IdentityCache[Sequence[str]] = IdentityCache(TRACED_DIALOGUES)
        """For source maps: example dialogue of text completion, in blocks, and blocks as they are written."""
        self.traced = TracedCopies()
        """For source maps: inputs whose texts know their places."""
        self._lock = threading.Lock()

    def macros_of(self, registry: MacroRegistry | None) -> MacroEngine:
        """Return the engine of a macro registry, cached."""
        if registry is None:
            return self.macro_engine
        # An id is enough: the engine keeps the registry alive.
        return self._engines.get_or_make(id(registry), lambda: MacroEngine(registry))

    def counter(self, rule: CountingRule, files: TokenizerFiles | None, warn: Warn) -> MessageCounter:
        """Return the counter of a rule, with its cached counts."""
        with self._lock:  # loading a vocabulary twice takes long
            return self._counters.get_or_make((rule, files), lambda: new_counter(rule, files, warn))

    def history_of(self, counter: MessageCounter, names_behavior: int, user_name: str, in_group: bool) -> HistoryCache:
        """Return the cached messages of chat lines with these names and this counter."""
        # Not the counter itself, which would then be kept with its cache.
        key = (counter.rule, counter.vocabulary, names_behavior, user_name, in_group)
        return self._histories.get_or_make(key, lambda: HistoryCache(self._messages))

    def vocabulary(
        self, name: str, files: TokenizerFiles | None, warn: Warn
    ) -> tuple[VocabularyInUse, Callable[[str], int]]:
        """Return a vocabulary of text completion, and a counter with cached counts."""

        def load() -> tuple[VocabularyInUse, TextCounts]:
            found = load_vocabulary(name, files, warn)
            return found, TextCounts(found.count, by_word=found.by_word)

        with self._lock:
            return self._vocabularies.get_or_make((name, files), load)

    def embedded_book(self, character: Character) -> WorldBook | None:
        """Return the book inside a card as a world book, cached."""
        book = character.character_book
        if book is None:
            return None
        known = self._embedded.get(id(book))
        if known is None or known[0] is not book:
            known = (book, WorldBook.from_character_book(_book_json(book), name=embedded_book_name(character)))
            self._embedded.put(id(book), known)
        return known[1]


def _size_of_block(_key: object, block: Block) -> int:
    return BYTES_OF_A_MESSAGE + len(block.content)


def _size_of_items(_key: object, items: KnownItems) -> int:
    return BYTES_OF_A_MESSAGE * len(items)


def _size_of_messages(_key: object, messages: list[PlacedMessage]) -> int:
    return sum([BYTES_OF_A_MESSAGE + len(message.content) for message in messages])


def _book_json(book: CharacterBook) -> JsonObject:
    """Return a card's book as JSON; entries must say that they are enabled, or SillyTavern treats them as disabled."""
    entries: list[Json] = []
    for entry in book.entries:
        made: JsonObject = {} if entry.raw else {"enabled": entry.enabled, "insertion_order": entry.insertion_order}
        entries.append({**made, **entry.to_json()})
    return {**book.to_json(), "entries": entries}


def selected_books(context: SillyTavernContext, services: Services) -> SelectedBooks:
    """Return the books by source.

    A card's embedded book counts as the character's, as after its import, unless a book with its name already exists.
    """
    character = list(context.character_books)
    if context.use_embedded_book and context.card is not None:
        embedded = services.embedded_book(context.card)
        if embedded is not None:
            character.append(embedded)
    return select_books(
        global_=context.books, character=character, chat=context.chat_books, persona=context.persona_books
    )
