"""The lorebook as its specification tells it: all entries in every pass, all keys in every text, nothing remembered."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values import js_lower, parse_int, to_number, trim
from tavernkit.risu_ai._lorebook import LorebookEntry, LorebookSettings, LoreInjection, LoreMessage
from tavernkit.risu_ai._lorebook.activation import content_id

COMMENT = re.compile(r"\{\{(?://|comment:)[^\n\r\u2028\u2029]+?\}\}")
PLACES = ("before_desc", "after_desc", "personality", "scenario")
UI_PROMPTS = ("post_history_instructions", "system_prompt")


@dataclass
class Entry:
    """An entry in one pass, or, when it is active, what is used of it."""

    index: int
    source: str
    text: str = ""
    pos: str = ""
    depth: float = 0
    role: str = "system"
    order: object = 0
    priority: object = 0
    scan_depth: float = 0
    full_word: bool = False
    activated: bool = True
    force: bool | None = None
    inject: LoreInjection | None = None
    recursive: bool | None = None
    searches_pool: bool = True
    queries: list[tuple[Sequence[str], bool, bool]] = field(default_factory=list[tuple[Sequence[str], bool, bool]])


@dataclass
class NaiveScan:
    """One scan."""

    entries: list[LorebookEntry]
    messages: Sequence[LoreMessage]
    settings: LorebookSettings
    greeting: float
    random: Callable[[], float]
    variables: dict[str, str]
    keep: bool = False
    dont: bool = False
    active: list[Entry] = field(default_factory=list[Entry])
    pool: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    hits: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    markers: dict[str, str] = field(default_factory=dict[str, str])

    def run(self) -> list[Entry]:
        """Scan, and return the active entries in the order of the prompt."""
        while self.one_pass():
            pass
        used, kept = 0, list[Entry]()
        for each in sorted(self.active, key=lambda each: -to_number(each.priority)):
            if used + len(each.text) <= self.settings.token_budget:
                used += len(each.text)
                kept.append(each)
        kept.sort(key=lambda each: -to_number(each.order))
        staying = [each for each in kept if each.inject is None or not each.inject.lore]
        for each in kept:
            if each.inject is not None and each.inject.lore:
                target = next((other for other in staying if other.source == each.inject.location), None)
                if target is not None:
                    self.put(each.inject, each.text, target)
        return staying[::-1]

    def put(self, injection: LoreInjection, text: str, target: Entry) -> None:
        if injection.operation == "append":
            target.text = f"{target.text} {text}"
        elif injection.operation == "prepend":
            target.text = f"{text} {target.text}"
        else:
            target.text = target.text.replace(injection.param, text, 1)

    def one_pass(self) -> bool:
        again = False
        for index, entry in enumerate(self.entries):
            if self.is_active(index) or not (entry.always_active or entry.key):
                continue
            state = self.state_of(index)
            entry = self.entries[index]
            self.decorate(entry, state)
            if state.activated and state.force is None and not entry.always_active:
                state.activated = self.keys_hold(entry, state)
            if state.force is not None:
                state.activated = state.force
            if state.activated:
                self.activate(entry, state)
                if self.settings.recursive if state.recursive is None else state.recursive:
                    self.pool.append((state.source, state.text))
                    again = True
        return again

    def is_active(self, index: int) -> bool:
        return any(each.index == index for each in self.active)

    def state_of(self, index: int) -> Entry:
        entry = self.entries[index]
        child = entry.mode == "child"
        if child:
            parent = next((place for place in range(index) if self.entries[place].id == entry.id), None)
            if parent is not None and not self.is_active(parent):
                above = self.entries[parent]
                entry = replace(entry, comment=above.comment, content=above.content, always_active=True)
                self.entries[index] = entry
                child = False
        return Entry(
            index,
            entry.comment or f"lorebook {index}",
            order=entry.order,
            priority=entry.order,
            scan_depth=self.settings.scan_depth,
            full_word=self.settings.full_word,
            activated=not child,
        )

    def activate(self, entry: LorebookEntry, state: Entry) -> None:
        self.active.append(state)
        name = content_id(entry.content) if entry.id is None else entry.id
        if self.keep:
            self.markers[f"__internal_ka_{name}"] = "true"
        if self.dont:
            self.markers[f"__internal_da_{name}"] = "true"

    # Decorators

    def decorate(self, entry: LorebookEntry, state: Entry) -> None:
        unsupported = False
        lines = trim(entry.content).split("\n")
        for place, raw in enumerate(lines):
            line = "@@end" if trim(raw) == "@@@end" else trim(raw)
            if not line.startswith("@@"):
                state.text = trim("\n".join(lines[place:]))
                return
            fallback = line.startswith("@@@")
            name, _, rest = line[3 if fallback else 2 :].partition(" ")
            if not fallback or unsupported:
                arguments = [trim(each) for each in rest.split(",") if trim(each)]
                unsupported = bool(name) and not self.apply(name, arguments, entry, state)

    def apply(self, name: str, arguments: list[str], entry: LorebookEntry, state: Entry) -> bool:
        """Carry out a decorator; False if RisuAI calls it unsupported."""
        number = parse_int(arguments[0]) if arguments else math.nan
        first = arguments[0] if arguments else ""
        match name:
            case "end":
                state.pos, state.depth = "depth", 0
            case "depth" | "reverse_depth" if not math.isnan(number):
                state.pos, state.depth = name, number
            case "position" if first in PLACES or first.startswith("pt_"):
                state.pos = first
            case "role" if first in ("system", "user", "assistant"):
                state.role = first
            case "scan_depth":
                state.scan_depth = number
            case "activate" | "dont_activate":
                state.force = name == "activate"
            case "activate_only_after" if not math.isnan(number):
                state.activated &= len(self.messages) + 1 >= number
            case "activate_only_every" if not math.isnan(number):
                state.activated &= number != 0 and math.fmod(len(self.messages) + 1, number) == 0
            case "is_greeting" if not math.isnan(number):
                state.activated &= self.greeting + 1 == number
            case "probability":
                state.activated &= not self.random() * 100 > number
            case "keep_activate_after_match":
                if self.is_marked("__internal_ka_", entry):
                    state.force = True
                else:
                    self.keep = True
                return False
            case "dont_activate_after_match":
                if self.is_marked("__internal_da_", entry):
                    state.force = False
                else:
                    self.dont = True
                return False
            case "additional_keys" | "exclude_keys" | "exclude_keys_all":
                state.queries.append((arguments, name != "additional_keys", name == "exclude_keys_all"))
            case "match_full_word" | "match_partial_word":
                state.full_word = name == "match_full_word"
            case "ignore_on_max_context":
                state.priority = -1000
            case "priority":
                state.priority = number
            case "inject_lore" | "inject_at":
                made = state.inject or LoreInjection()
                state.inject = replace(made, location=" ".join(arguments), lore=name == "inject_lore")
            case "inject_replace" | "inject_prepend":
                made = state.inject or LoreInjection()
                operation = "replace" if name == "inject_replace" else "prepend"
                state.inject = replace(made, operation=operation, param=" ".join(arguments))
            case "recursive" | "unrecursive":
                state.recursive = name == "recursive"
            case "no_recursive_search":
                state.searches_pool = False
            case "disable_ui_prompt":
                return first in UI_PROMPTS
            case _:
                return False
        return True

    def is_marked(self, prefix: str, entry: LorebookEntry) -> bool:
        name = prefix + (content_id(entry.content) if entry.id is None else entry.id)
        return self.markers.get(name, self.variables.get(name, "null")) == "true"

    # Keys

    def keys_hold(self, entry: LorebookEntry, state: Entry) -> bool:
        queries = [*state.queries, (entry.key.split(","), False, False)]
        if entry.selective and entry.secondary_key:
            queries.append((entry.secondary_key.split(","), False, False))
        for keys, negative, every in queries:
            wanted = [trim(key) for key in keys if trim(key)]
            texts = self.texts(state)
            found = self.find_regex(wanted, texts) if entry.use_regex else self.find(wanted, texts, state, every=every)
            if found == negative:
                return False
        return True

    def texts(self, state: Entry) -> list[tuple[str, str]]:
        count = len(self.messages)
        start = 0 if math.isnan(state.scan_depth) else int(count - state.scan_depth)
        recent = self.messages[max(start + count, 0) if start < 0 else start :]
        found = [(f"message {place} by {each.role}", each.text) for place, each in enumerate(recent)]
        return found + [(f"lorebook {name}", text) for name, text in self.pool] if state.searches_pool else found

    def find(self, keys: Sequence[str], texts: list[tuple[str, str]], state: Entry, *, every: bool) -> bool:
        everywhere = True
        for source, text in texts:
            shown = COMMENT.sub("", js_lower(text))
            for key in keys:
                lowered = js_lower(key)
                if (
                    lowered in shown.split(" ")
                    if state.full_word
                    else lowered.replace(" ", "") in shown.replace(" ", "")
                ):
                    self.hits.append((source, key))
                    if not every:
                        return True
                else:
                    everywhere = False
        return every and everywhere

    def find_regex(self, keys: list[str], texts: list[tuple[str, str]]) -> bool:
        for source, text in texts:
            for place in range(len(keys)):
                key = keys[place]
                if not key.startswith("/"):
                    return False
                flags = key[key.rfind("/") + 1 :]
                if not flags:
                    continue
                keys[0] = key.replace(f"/{flags}", "", 1)
                try:
                    found = JSRegex.compile(keys[0], flags).test(text)
                except JSRegexSyntaxError:
                    return False
                if found:
                    self.hits.append((source, key))
                    return True
        return False
