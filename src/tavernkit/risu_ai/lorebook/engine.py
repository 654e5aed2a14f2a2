"""The lorebook engine: which entries a chat calls up."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tavernkit.errors import Warn
from tavernkit.lore.contracts import TokenCounter
from tavernkit.lore.wording import no_key_found
from tavernkit.risu_ai.js_replace import replace_first
from tavernkit.risu_ai.js_sort import sort_descending
from tavernkit.risu_ai.lorebook.activation import EntryState, RunState, apply_decorators
from tavernkit.risu_ai.lorebook.compiled import CompiledLore
from tavernkit.risu_ai.lorebook.decorators import parse_content
from tavernkit.risu_ai.lorebook.entry import CHILD, LorebookEntry, number_of, split_keys
from tavernkit.risu_ai.lorebook.keys import KeyHit, Query, ScannedText, search_literal, search_regex
from tavernkit.risu_ai.lorebook.markers import DONT_PREFIX, KEEP_PREFIX, content_id
from tavernkit.risu_ai.lorebook.near_misses import NearMisses
from tavernkit.risu_ai.lorebook.result import ActiveLore, LorebookResult, entry_title
from tavernkit.values import LazySequence

MAX_PASSES = 1000
"""Passes over the entries in one scan; each activates at least one, so honest books need far fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LorebookSettings:
    """How far back to look, how many tokens lore may take, and the two switches."""

    scan_depth: float = 5
    token_budget: float = 800
    full_word: bool = False
    recursive: bool = True


@dataclass(frozen=True, slots=True)
class LoreMessage:
    """A chat message as the engine sees it."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanInput:
    """One scan: the entries, the chat, the settings, and what the engine asks of the world.

    ``entries`` that are scanned more than once are better compiled, with :meth:`LorebookEngine.compile`.
    """

    entries: CompiledLore | Sequence[LorebookEntry] = ()
    messages: Sequence[LoreMessage] = ()
    settings: LorebookSettings = field(default_factory=LorebookSettings)
    greeting_index: float | None = -1
    count_tokens: TokenCounter = len
    random: Callable[[], float] = lambda: 0.5
    chat_variable: Callable[[str], str] = lambda name: "null"
    warn: Warn | None = None


class LorebookEngine:
    """Scans compiled entries. Stateless: compile once with :meth:`compile`, scan as often as you like."""

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
        self.pool: list[ScannedText] = []
        self.active: dict[int, ActiveLore] = {}
        self.hits: list[KeyHit] = []
        self.reasons: dict[int, str] = {}
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

    # The entries that only a key can activate wait until one of their keys turns up in a text; all others are looked
    # at in every pass. So a pass costs what matches, not what exists.

    def run(self) -> None:
        for text in self.window(self.given.settings.scan_depth):
            self.later.update(self.lore.waiting_for(text.text, self.given.settings.full_word))
        for _ in range(MAX_PASSES):
            again = self.one_pass()
            if not again:
                return
        if self.given.warn is not None:
            self.given.warn(f"lorebook: stopped after {MAX_PASSES} passes over the entries")

    def one_pass(self) -> bool:
        self.queue = sorted({*self.lore.always_considered, *self.later} - self.active.keys())  # sorted, so a heap
        self.queued = set(self.queue)
        again = False
        while self.queue:
            self.current = heapq.heappop(self.queue)
            if self.consider(self.current):
                again = True
        return again

    def consider(self, index: int) -> bool:
        """Look at one entry; tell whether its text joined the recursive pool."""
        entry = self.entries.get(index, self.lore.entries[index])
        if not entry.reachable:
            return False
        state = EntryState(
            order=entry.order,
            priority=entry.order,
            scan_depth=self.given.settings.scan_depth,
            full_word=self.given.settings.full_word,
        )
        if entry.mode == CHILD:
            entry = self.as_child(index, entry, state)
        parsed = parse_content(entry.content)
        apply_decorators(parsed.decorators, entry, state, self.run_state)
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
            self.add_to_pool(ScannedText(f"lorebook {self.name(index, entry)}", parsed.text, title))
        return recursive

    def as_child(self, index: int, entry: LorebookEntry, state: EntryState) -> LorebookEntry:
        parent = next((j for j in self.lore.by_id.get(entry.id, ()) if j < index), None)
        if parent is None or parent in self.active:
            state.deactivate("a child entry whose parent is active, or missing")
            return entry
        source = self.entries.get(parent, self.lore.entries[parent])
        entry = replace(entry, comment=source.comment, content=source.content, always_active=True)
        self.entries[index] = entry
        return entry

    def search(self, entry: LorebookEntry, state: EntryState) -> str:
        """Run the queries in order; the first one that fails switches the entry off."""
        texts = self.window(state.scan_depth)
        if not state.no_recursive_search:
            texts = [*texts, *self.pool]
        queries = [*state.queries, Query(split_keys(entry.key))]
        if entry.selective and entry.secondary_key:
            queries.append(Query(split_keys(entry.secondary_key)))
        why = ""
        for query in queries:
            if entry.use_regex:
                found = search_regex(query, texts, self.hits, warn=self.given.warn)
            else:
                found = search_literal(query, texts, self.lore.literals, self.hits, full_word=state.full_word)
            if found == query.negative:
                state.deactivate(_failed(query))
                return ""
            if found and not why:
                hit = self.hits[-1]
                why = f"key {hit.key!r} in {hit.title}"
        return why

    def window(self, depth: float) -> list[ScannedText]:
        """The newest messages; a depth beyond the chat counts from its end, as JavaScript's ``slice`` does."""
        messages, first = self.given.messages, self.first_message(depth)
        return [
            ScannedText(
                f"message {place} by {message.role}", message.text, f"message #{first + place} ({message.role})"
            )
            for place, message in enumerate(messages[first:])
        ]

    def first_message(self, depth: float) -> int:
        count = len(self.given.messages)
        start = 0 if math.isnan(depth) else count - depth
        start = math.trunc(start) if math.isfinite(start) else start
        return int(min(max(start + count if start < 0 else start, 0), count))

    def near_misses(self) -> NearMisses:
        settings, messages = self.given.settings, self.given.messages
        first = self.first_message(settings.scan_depth)
        unread = LazySequence(first, lambda place: messages[place].text)
        return NearMisses(self.lore.literals, unread, settings.scan_depth, len(messages), settings.full_word)

    def activate(self, index: int, entry: LorebookEntry, state: EntryState, text: str, why: str) -> None:
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

    def add_to_pool(self, text: ScannedText) -> None:
        self.pool.append(text)
        for index in self.lore.waiting_for(text.text, self.given.settings.full_word):
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
        for lore in sort_descending(list(self.active.values()), lambda each: number_of(each.priority)):
            if used + lore.tokens <= budget:
                used += lore.tokens
                kept.append(lore)
            else:
                left = budget - used
                self.reasons[lore.index] = f"over the lore budget: needs {lore.tokens} tokens, {left:g} are left"
        kept = sort_descending(kept, lambda each: number_of(each.order))
        return LorebookResult(
            actives=tuple(reversed(self.inject(kept))),
            hits=tuple(self.hits),
            markers=dict(self.run_state.markers),
            total_tokens=used,
            budget=int(budget) if math.isfinite(budget) else 0,
            entries=self.scanned(),
            reasons=self.reasons,
            near_misses=self.near_misses(),
        )

    def scanned(self) -> Sequence[LorebookEntry]:
        """All entries; children as they were scanned, with what they took from their parents."""
        if not self.entries:
            return self.lore.entries
        return tuple(self.entries.get(index, entry) for index, entry in enumerate(self.lore.entries))

    def inject(self, kept: list[ActiveLore]) -> list[ActiveLore]:
        """Put entries that inject themselves into others; what finds no target is dropped, with a reason."""
        staying = [lore for lore in kept if lore.inject is None or not lore.inject.lore]
        for lore in kept:
            inject = lore.inject
            if inject is None or not inject.lore:
                continue
            position = next((i for i, each in enumerate(staying) if each.source == inject.location), None)
            if position is None:
                self.reasons[lore.index] = f"injects into {inject.location!r}, which is not active"
                continue
            target = staying[position]
            match inject.operation:
                case "append":
                    text = f"{target.text} {lore.text}"
                case "prepend":
                    text = f"{lore.text} {target.text}"
                case _:
                    text = replace_first(target.text, inject.param, lore.text)
            staying[position] = replace(target, text=text, injected=(*target.injected, lore))
        return staying


def _failed(query: Query) -> str:
    if query.negative:
        return f"an excluded key was found ({', '.join(query.keys)})"
    return no_key_found(query.keys)
