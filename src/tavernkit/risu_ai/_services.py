"""What outlives a build: engines and what they have compiled, counted and made."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from tavernkit._dataclass import dataclass
from tavernkit._values import LRUCache
from tavernkit.errors import Warn
from tavernkit.prompt._inputs import Estimator
from tavernkit.prompt._known_texts import KnownTexts
from tavernkit.prompt._traced_inputs import TracedCopies
from tavernkit.risu_ai._budget import MessageCounter
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.engine import CBSEngine
from tavernkit.risu_ai._cbs.registry import CBSRegistry
from tavernkit.risu_ai._chat.chat_cache import ChatCache, HistoryCache
from tavernkit.risu_ai._limits import (
    CACHED_BLOCKS,
    CACHED_LOREBOOKS,
    CACHED_REGISTRIES,
    CACHED_SCRIPT_RUNNERS,
    CACHED_TRIGGER_ENGINES,
)
from tavernkit.risu_ai._lorebook.engine import LorebookEngine, LorebookSettings, lore_of
from tavernkit.risu_ai._lorebook.entry import CompiledLore, LorebookEntry
from tavernkit.risu_ai._plan import BlockCache
from tavernkit.risu_ai._regex_scripts.runner import RegexScriptRunner
from tavernkit.risu_ai._regex_scripts.script import ScriptLists
from tavernkit.risu_ai._triggers.engine import TriggerEngine


@dataclass(frozen=True, slots=True)
class GatheredLore:
    """The lore of a chat, compiled, and the settings it is scanned with. ``books`` are its sources."""

    compiled: CompiledLore
    settings: LorebookSettings
    books: tuple[object, ...]


class Services:
    """Shared by all builds of a builder, in any number of threads. Everything in it is bounded."""

    def __init__(self, *, engine: CBSEngine | None = None, lore_engine: LorebookEngine | None = None) -> None:
        self.engine = engine if engine is not None else CBSEngine()
        self.lore_engine = lore_engine if lore_engine is not None else LorebookEngine()
        self._lore: LRUCache[tuple[object, ...], GatheredLore] = LRUCache(CACHED_LOREBOOKS)
        self._scripts: LRUCache[tuple[object, ...], tuple[RegexScriptRunner, object]] = LRUCache(CACHED_SCRIPT_RUNNERS)
        self._script_lists = ScriptLists()
        self.blocks: BlockCache = LRUCache(CACHED_BLOCKS)
        self.chats = ChatCache()
        self.histories = HistoryCache()
        self._triggers: LRUCache[tuple[object, ...], tuple[TriggerEngine, object]] = LRUCache(CACHED_TRIGGER_ENGINES)
        self._counters: dict[tuple[str, bool], MessageCounter] = {}
        self._with_macros: LRUCache[int, Services] = LRUCache(CACHED_REGISTRIES)
        self.known_texts = KnownTexts()
        """For source maps: texts of the last one."""
        self.traced = TracedCopies()
        """For source maps: inputs whose texts know their places."""
        self._traced_lore: LRUCache[tuple[object, ...], GatheredLore] = LRUCache(CACHED_LOREBOOKS)
        self._compiled_before: Sequence[CompiledLore] = ()
        """For a source map: lore that has the same entries, but for the places of their texts."""
        self._lock = threading.Lock()

    def for_tracing(self) -> Services:
        """Others with the same engine and counters: what scripts make for a source map is not for the next one."""
        twin = Services(engine=self.engine)
        twin._counters = self._counters
        twin._lore = self._traced_lore
        twin._script_lists = self._script_lists
        twin.blocks = self.blocks  # which has none with traced texts
        twin._compiled_before = [lore.compiled for lore in self._lore.values()]
        return twin

    def with_macros(self, registry: CBSRegistry | None) -> Services:
        """Services whose texts know the functions of a registry; the same ones for the same registry."""
        if registry is None or registry is self.engine.registry:
            return self
        # An id is enough: the services keep the registry alive.
        return self._with_macros.get_or_make(
            id(registry), lambda: Services(engine=CBSEngine(registry), lore_engine=self.lore_engine)
        )

    def lore(self, context: CBSContext, defaults: LorebookSettings, warn: Warn) -> GatheredLore:
        """The lore of character, chat and modules, compiled once for as long as the books are the same objects."""
        character = context.character
        books = (character, context.chat.local_lore, *(module.lore for module in context.enabled_modules))
        # Ids are enough: the books stay alive in the value, so that no other object can get their ids.
        key = (defaults, *(id(book) if book else 0 for book in books))
        known = self._lore.get(key)
        if known is None:
            sources = lore_of(context, defaults, warn=warn)
            known = GatheredLore(self._compile(tuple(sources.entries)), sources.settings, books)
            self._lore.put(key, known)
        return known

    def _compile(self, entries: tuple[LorebookEntry, ...]) -> CompiledLore:
        before = next((lore for lore in self._compiled_before if lore.entries == entries), None)
        return self.lore_engine.compile(entries) if before is None else replace(before, entries=entries)

    def script_runner(self, key: tuple[object, ...] | None, owner: object = None) -> RegexScriptRunner:
        """Runs regex scripts and remembers their results for one chat, as RisuAI does; without a key for this build.

        ``owner`` is kept as long as the results are: a key may hold its id.
        """
        if key is None:
            return RegexScriptRunner(self.engine, lists=self._script_lists)
        return self._scripts.get_or_make(
            key, lambda: (RegexScriptRunner(self.engine, lists=self._script_lists), owner)
        )[0]

    def trigger_engine(self, key: tuple[object, ...] | None, owner: object = None) -> TriggerEngine:
        """Runs triggers and keeps the Lua scripts of one chat; without a key for this build."""
        if key is None:
            return TriggerEngine(cbs=self.engine)
        return self._triggers.get_or_make(key, lambda: (TriggerEngine(cbs=self.engine), owner))[0]

    def counter(self, model: str, estimator: Estimator | None, *, low_detail: bool = True) -> MessageCounter:
        """Counts for a model: with the application's estimator, else with the tokenizer RisuAI names.

        Args:
            model: RisuAI's id of the model.
            estimator: The application's own.
            low_detail: Whether pictures are sent with low detail.
        """
        if estimator is not None:
            return MessageCounter(model, estimator, low_detail=low_detail)
        key = (model, low_detail)
        with self._lock:
            counter = self._counters.get(key)
            if counter is None:
                counter = self._counters[key] = MessageCounter(model, low_detail=low_detail)
            return counter
