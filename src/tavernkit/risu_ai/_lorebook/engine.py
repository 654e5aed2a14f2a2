"""The lorebook engine: where a chat's lore comes from, and which entries the chat activates."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_number, truthy
from tavernkit._values import LazySequence, is_mapping
from tavernkit.errors import Warn
from tavernkit.lore import TokenCounter, no_key_found
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._js import sort_descending
from tavernkit.risu_ai._limits import LOOKED_AT, MAX_HITS, MAX_LOOKS, MAX_PASSES
from tavernkit.risu_ai._lorebook.activation import (
    DONT_PREFIX,
    KEEP_PREFIX,
    EntryState,
    RunState,
    apply_decorators,
    content_id,
)
from tavernkit.risu_ai._lorebook.entry import CHILD, CompiledLore, LorebookEntry, parse_content, split_keys
from tavernkit.risu_ai._lorebook.keys import KeyHit, LoreMessage, PoolText, Query, RegexKeys, SearchedTexts, Window
from tavernkit.risu_ai._lorebook.result import ActiveLore, Injections, LorebookResult, NearMisses, entry_title
from tavernkit.risu_ai.errors import DecoratorParseError


@dataclass(frozen=True, slots=True, kw_only=True)
class LorebookSettings:
    """Scan depth, token budget and two switches."""

    scan_depth: float = 5
    """How many of the newest messages are searched for keys."""
    token_budget: float = 800
    """The most tokens that active entries may have together."""
    full_word: bool = False
    """True if keys must be whole words."""
    recursive: bool = True
    """True if texts of active entries are searched for keys too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanInput:
    """The input of a scan: the entries, the chat, the settings, and functions of the build.

    If you scan ``entries`` more than once, compile them with ``LorebookEngine.compile()``.
    """

    entries: CompiledLore | Sequence[LorebookEntry] = ()
    messages: Sequence[LoreMessage] = ()
    """The chat, oldest first."""
    settings: LorebookSettings = field(default_factory=LorebookSettings)
    """Scan depth, budget and switches."""
    greeting_index: float | None = -1
    """The chat's choice of greeting, for decorators that ask; -1 is the first message."""
    count_tokens: TokenCounter = len
    """Counts the tokens of a text."""
    random: Callable[[], float] = lambda: 0.5
    """Random numbers from 0 up to 1, for probabilities."""
    chat_variable: Callable[[str], str] = lambda name: "null"
    """Returns a chat variable by name, for markers of earlier scans; ``null`` if there is none."""
    warn: Warn | None = None
    """Called with each warning."""
    strict: bool = False
    """Raise for an entry that cannot be read, as RisuAI does; otherwise only that entry is left out."""


class LorebookEngine:
    """Scans compiled entries. Stateless: compile once with ``compile()``, scan as often as you like."""

    def compile(self, entries: Sequence[LorebookEntry]) -> CompiledLore:
        """Prepare entries for scanning."""
        return CompiledLore.of(entries)

    def scan(self, scan_input: ScanInput) -> LorebookResult:
        """Find the active entries and put them into the order of the prompt."""
        entries = scan_input.entries
        scan = _Scan(entries if isinstance(entries, CompiledLore) else self.compile(entries), scan_input)
        scan.run()
        return scan.result()


class _Scan:
    def __init__(self, lore: CompiledLore, given: ScanInput) -> None:
        self.lore = lore
        self.given = given
        self.entries: dict[int, LorebookEntry] = {}
        self.texts = SearchedTexts(given.messages, lore.literals)
        self.regex_keys = RegexKeys(given.warn)
        self.looks = 0
        self.active: dict[int, ActiveLore] = {}
        self.hits: list[KeyHit] = []
        self.log_full = False
        self.reasons: dict[int, str] = {}
        self.broken: set[int] = set()
        self.run_state = RunState(
            chat_length=len(given.messages) + 1,
            greeting=-1 if given.greeting_index is None else given.greeting_index,
            random=given.random,
            chat_variable=given.chat_variable,
        )
        self.queue: list[int] = []
        self.queued: set[int] = set()
        self.current = -1
        self.later: set[int] = set()
        self.known_keys: set[str] = set()

    # The entries that only a key can activate wait until one of their keys appears in a text; all others are checked
    # in every pass. So the cost of a pass depends on the matches, not on the number of entries.

    def run(self) -> None:
        settings = self.given.settings
        for _, text in self.texts.each(Window(self.first_message(settings.scan_depth), pool=False)):
            self.later.update(self.lore.waiting_for(text, settings.full_word, self.known_keys))
        for _ in range(MAX_PASSES):
            again = self.one_pass()
            if self.looks > MAX_LOOKS:
                self.warn(f"lorebook: stopped after looking at entries {MAX_LOOKS} times")
                return
            if not again:
                return
        self.warn(f"lorebook: stopped after {MAX_PASSES} passes over the entries")

    def warn(self, message: str) -> None:
        if self.given.warn is not None:
            self.given.warn(message)

    def one_pass(self) -> bool:
        self.queue = sorted({*self.lore.always_considered, *self.later} - self.active.keys())  # sorted, so a heap
        self.queued = set(self.queue)
        again = False
        while self.queue and self.looks <= MAX_LOOKS:
            self.current = heapq.heappop(self.queue)
            if self.consider(self.current):
                again = True
        return again

    def consider(self, index: int) -> bool:
        """Check one entry; return True if its text was added to the recursive pool."""
        entry = self.entries.get(index, self.lore.entries[index])
        if not entry.reachable or index in self.broken:
            return False
        state = EntryState(
            order=entry.order,
            priority=entry.order,
            scan_depth=self.given.settings.scan_depth,
            full_word=self.given.settings.full_word,
        )
        if entry.mode == CHILD:  # its own keys never count
            entry = self.as_child(index, entry, state)
        parsed = parse_content(entry.content)
        self.looks += 1 + len(parsed.decorators) // LOOKED_AT
        try:
            apply_decorators(parsed.decorators, entry, state, self.run_state)
        except DecoratorParseError as error:
            # RisuAI throws here and uses no lore at all.
            if self.given.strict:
                raise
            self.broken.add(index)
            self.reasons[index] = str(error)
            self.warn(f"lorebook: {entry_title(entry, index)!r} is left out: {error}")
            return False
        why = "always active"
        if state.activated and state.force is None and not entry.always_active:
            why = self.search(entry, state)
        if state.force is not None:
            state.activated = state.force
            why = state.why
        if not state.activated:
            self.reasons[index] = state.why
            return False
        self.activate(index, entry, state, parsed.text, why)
        recursive = self.given.settings.recursive if state.recursive is None else state.recursive
        if recursive:
            title = f"lore {entry_title(entry, index)!r}"
            # At once: later entries of this pass already find it.
            self.add_to_pool(PoolText(f"lorebook {self.name(index, entry)}", parsed.text, title))
        return recursive

    def as_child(self, index: int, entry: LorebookEntry, state: EntryState) -> LorebookEntry:
        # Entries without an id have equal ids: the first of them is the parent.
        parent = next((j for j in self.lore.by_id.get(entry.id, ()) if j < index), None)
        if parent is None:
            state.deactivate("a child entry: no entry before it has its id")
            return entry
        if parent in self.active:
            title = entry_title(self.lore.entries[parent], parent)
            state.deactivate(f"a child entry whose parent {title!r} is active itself")
            return entry
        source = self.entries.get(parent, self.lore.entries[parent])
        # From now on it stays always active, with the parent's decorators.
        entry = replace(entry, comment=source.comment, content=source.content, always_active=True)
        self.entries[index] = entry
        return entry

    def search(self, entry: LorebookEntry, state: EntryState) -> str:
        """Run the queries in order; the first one that fails deactivates the entry."""
        window = Window(self.first_message(state.scan_depth), pool=not state.no_recursive_search)
        queries = [*state.queries, Query(split_keys(entry.key))]
        if entry.selective and entry.secondary_key:
            queries.append(Query(split_keys(entry.secondary_key)))
        why = ""
        for query in queries:
            self.looks += len(query.keys) // LOOKED_AT
            found, hits = (
                self.find_regex(query, window) if entry.use_regex else self.find(query, window, state.full_word)
            )
            self.log(hits)
            if found == query.negative:
                state.deactivate(_failed(query))
                return ""
            if found and not why:
                why = f"key {hits[-1].key!r} in {hits[-1].title}"
        return why

    def find(self, query: Query, window: Window, full_word: bool) -> tuple[bool, list[KeyHit]]:
        """Look for literal keys, up to the first hit (in all-mode for all of them)."""
        if query.all_mode:
            hits = self.texts.all_hits(query, window, full_word=full_word, limit=MAX_HITS + 1 - len(self.hits))
            return self.texts.has_all(query, window, full_word=full_word), hits
        hit = self.texts.first_hit(query, window, full_word=full_word)
        return hit is not None, [] if hit is None else [hit]

    def find_regex(self, query: Query, window: Window) -> tuple[bool, list[KeyHit]]:
        found = self.regex_keys.find(query, self.texts.each(window))
        return found is not None, [] if found is None else [self.texts.hit(*found, window)]

    def log(self, hits: Sequence[KeyHit]) -> None:
        room = MAX_HITS - len(self.hits)
        self.hits += hits[:room]
        if len(hits) > room and not self.log_full:
            self.log_full = True
            self.warn(f"lorebook: more than {MAX_HITS} keys were found, the log of them ends here")

    def first_message(self, depth: float) -> int:
        count = len(self.given.messages)
        start = 0 if math.isnan(depth) else count - depth
        start = math.trunc(start) if math.isfinite(start) else start
        # JavaScript's slice counts a negative start from the end: beyond the chat's length, fewer messages are scanned.
        return int(min(max(start + count if start < 0 else start, 0), count))

    def near_misses(self) -> NearMisses:
        settings, messages = self.given.settings, self.given.messages
        first = self.first_message(settings.scan_depth)
        unread = LazySequence(first, lambda place: messages[place].text)
        return NearMisses(self.lore.literals, unread, settings.scan_depth, len(messages), settings.full_word)

    def activate(self, index: int, entry: LorebookEntry, state: EntryState, text: str, why: str) -> None:
        # An empty id is an id, and its marker only the prefix.
        marker = content_id(entry.content) if entry.id is None and self.run_state.marks else entry.id or ""
        if self.run_state.keep:
            self.run_state.markers[KEEP_PREFIX + marker] = "true"
        if self.run_state.dont:
            self.run_state.markers[DONT_PREFIX + marker] = "true"
        self.reasons.pop(index, None)
        self.active[index] = ActiveLore(
            index=index,
            source=self.name(index, entry),
            text=text,
            pos=state.pos,
            depth=state.depth,
            role=state.role,
            order=state.order,
            priority=state.priority,
            tokens=self.given.count_tokens(text),
            inject=state.inject,
            reason=why,
            title=entry_title(entry, index),
            book=entry.book,
        )

    def add_to_pool(self, text: PoolText) -> None:
        self.texts.add(text)
        # Entries of known keys are in the queue already, or come with the next pass.
        for index in self.lore.waiting_for(text.text, self.given.settings.full_word, self.known_keys):
            if index in self.active:
                continue
            self.later.add(index)
            if index > self.current and index not in self.queued:
                self.queued.add(index)
                heapq.heappush(self.queue, index)

    def name(self, index: int, entry: LorebookEntry) -> str:
        return entry.comment or f"lorebook {index}"

    def result(self) -> LorebookResult:
        budget = self.given.settings.token_budget
        used = 0
        kept: list[ActiveLore] = []
        lost: list[ActiveLore] = []
        for lore in sort_descending(list(self.active.values()), lambda each: to_number(each.priority)):
            if used + lore.tokens <= budget:  # what does not fit is skipped: smaller entries after it still may
                used += lore.tokens
                kept.append(lore)
            else:
                lost.append(lore)
                left = budget - used
                self.reasons[lore.index] = f"over the lore budget: needs {lore.tokens} tokens, {left:g} are left"
        # Sorted down and then reversed: entries of equal order change places.
        kept = sort_descending(kept, lambda each: to_number(each.order))
        return LorebookResult(
            actives=tuple(reversed(self.inject(kept))),
            hits=tuple(self.hits),
            markers=dict(self.run_state.markers),
            total_tokens=used,
            budget=int(budget) if math.isfinite(budget) else 0,
            entries=self.scanned(),
            reasons=self.reasons,
            near_misses=self.near_misses(),
            left_out=tuple(lost),
        )

    def scanned(self) -> Sequence[LorebookEntry]:
        """Return all entries; children with what they inherited from their parents."""
        if not self.entries:
            return self.lore.entries
        return tuple(self.entries.get(index, entry) for index, entry in enumerate(self.lore.entries))

    def inject(self, kept: list[ActiveLore]) -> list[ActiveLore]:
        """Inject entries into others; those without a target are dropped, with a reason."""
        # Tokens are not counted again: what an entry gains is beyond the budget.
        staying = [lore for lore in kept if lore.inject is None or not lore.inject.lore]
        injections = Injections(staying, self.warn)
        for lore in kept:
            if lore.inject is not None and lore.inject.lore and not injections.put(lore, lore.inject):
                self.reasons[lore.index] = f"injects into {lore.inject.location!r}, which is not active"
        return injections.done()


def _failed(query: Query) -> str:
    if query.negative:
        return f"an excluded key was found ({', '.join(query.keys)})"
    return no_key_found(query.keys)


@dataclass(frozen=True, slots=True)
class LoreSources:
    """The entries of a chat in order, its messages, and the settings in force."""

    entries: Sequence[LorebookEntry]
    messages: Sequence[LoreMessage]
    settings: LorebookSettings


def lore_of(context: CBSContext, defaults: LorebookSettings | None = None, *, warn: Warn | None = None) -> LoreSources:
    """Collect the lore of the character, the chat and the enabled modules, with a character's own settings."""
    character = context.character
    books: list[tuple[str, Sequence[object]]] = []
    if character is not None:
        books.append(
            (f"{'group' if character.is_group else 'character'} {character.name}".strip(), character.lore or ())
        )
    books.append(("this chat", context.chat.local_lore))
    books += [(f"module {module.name or module.id}", module.lore) for module in context.enabled_modules]
    entries = [
        entry
        for name, book in books
        for number, raw in enumerate(book)
        if (entry := LorebookEntry.from_json(raw, warn=warn, where=f"entry {number} of {name}", book=name)) is not None
    ]
    own = character.raw.get("loreSettings") if character is not None else None
    return LoreSources(
        entries=entries,
        messages=[LoreMessage(message.role, message.data) for message in context.chat.messages],
        settings=_settings(own if is_mapping(own) else {}, defaults or LorebookSettings()),
    )


def _settings(own: Mapping[str, object], defaults: LorebookSettings) -> LorebookSettings:
    def number(name: str, default: float) -> float:
        value = own.get(name)
        return default if value is None else to_number(value)

    def flag(name: str, default: bool) -> bool:
        value = own.get(name)
        return default if value is None else truthy(value)

    return LorebookSettings(
        scan_depth=number("scanDepth", defaults.scan_depth),
        token_budget=number("tokenBudget", defaults.token_budget),
        full_word=flag("fullWordMatching", defaults.full_word),
        recursive=flag("recursiveScanning", defaults.recursive),
    )
