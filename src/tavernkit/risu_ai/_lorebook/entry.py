"""A lorebook entry as RisuAI stores it, the decorators at the start of its content, and entries prepared for scans."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import WHITESPACE, to_string, trim, truthy
from tavernkit._text.traced import plain
from tavernkit._values import FrozenJson, is_mapping
from tavernkit.errors import Warn
from tavernkit.risu_ai._lorebook.keys import LiteralKeys

PARSED_CACHE = 65_536
"""How many contents are kept parsed."""


@dataclass(frozen=True, slots=True)
class Decorator:
    """One ``@@name arguments`` line. A fallback (``@@@``) counts only if the line before it was not recognised."""

    name: str
    arguments: tuple[str, ...] = ()
    fallback: bool = False

    @property
    def joined(self) -> str:
        """The arguments as one text."""
        return " ".join(self.arguments)


@dataclass(frozen=True, slots=True)
class ParsedContent:
    """An entry's content: its decorators, and the text below them."""

    decorators: tuple[Decorator, ...]
    text: str


def parse_content(content: str) -> ParsedContent:
    """Read the decorator lines; the first other line, even an empty one, begins the text."""
    parsed = _parsed(plain(content))
    if type(content) is str:
        return parsed
    end = len(content.rstrip(WHITESPACE))
    return ParsedContent(parsed.decorators, content[end - len(parsed.text) : end])


@lru_cache(maxsize=PARSED_CACHE)
def _parsed(content: str) -> ParsedContent:
    lines = trim(content).split("\n")
    decorators: list[Decorator] = []
    for index, raw in enumerate(lines):
        line = trim(raw)
        if line == "@@@end":
            line = "@@end"
        if not line.startswith("@@"):
            return ParsedContent(tuple(decorators), trim("\n".join(lines[index:])))
        fallback = line.startswith("@@@")
        # Only a space ends the name: after a tab there is no decorator that RisuAI knows.
        name, _, rest = line[3 if fallback else 2 :].partition(" ")
        arguments = tuple(part for part in (trim(each) for each in rest.split(",")) if part)
        decorators.append(Decorator(name, arguments, fallback))
    return ParsedContent(tuple(decorators), "")


CHILD = "child"
TITLE_KEYS = 3
KEYS_CACHE = 16_384
"""How many lists of keys are kept split."""


@dataclass(frozen=True, slots=True)
class LorebookEntry:
    """An entry for the engine. ``order`` is the stored value, which may be text; NaN if missing.

    ``book`` says in words where the entry is stored, for explanations only.
    """

    key: str = ""
    """Keys, separated by commas. With ``use_regex``, a regular expression."""
    secondary_key: str = ""
    """More keys; one of them must be found too if ``selective``."""
    order: FrozenJson = 0
    comment: str = ""
    """The title."""
    content: str = ""
    """The text, with its decorators."""
    mode: str = "normal"
    """``normal``, or RisuAI's name for another kind of entry, such as ``child``."""
    always_active: bool = False
    """True if no key is needed."""
    selective: bool = False
    """True if a secondary key is needed too."""
    use_regex: bool = False
    """True if keys are regular expressions."""
    id: str | None = None
    """RisuAI's id of the entry."""
    book: str = ""

    @classmethod
    def from_json(
        cls, data: object, *, warn: Warn | None = None, where: str = "entry", book: str = ""
    ) -> LorebookEntry | None:
        """Read an entry; anything but an object is reported and left out.

        Args:
            data: The entry.
            warn: Called if the entry is left out.
            where: Its place in the file, for warnings.
            book: The name of its book.
        """
        if not is_mapping(data):
            if warn is not None:
                warn(f"lorebook {where} is left out: it must be an object, not {type(data).__name__}")
            return None
        return cls(
            key=_text(data, "key"),
            secondary_key=_text(data, "secondkey"),
            order=data.get("insertorder", math.nan),  # pyright: ignore[reportArgumentType]  # JSON by contract
            comment=_text(data, "comment"),
            content=_text(data, "content"),
            mode=_text(data, "mode"),
            always_active=truthy(data.get("alwaysActive")),
            selective=truthy(data.get("selective")),
            use_regex=truthy(data.get("useRegex")),
            id=None if data.get("id") is None else to_string(data.get("id")),
            book=book,
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """Its primary keys, one by one."""
        return split_keys(self.key)

    @property
    def title(self) -> str:
        """What people call it: its comment, else its first keys; empty if it has neither."""
        return self.comment or ", ".join(self.keys[:TITLE_KEYS])

    @property
    def reachable(self) -> bool:
        """True if the engine uses it. Not even ``@@activate`` helps an entry without keys."""
        return self.always_active or self.key != ""


@lru_cache(maxsize=KEYS_CACHE)
def split_keys(text: str) -> tuple[str, ...]:
    """Keys of a comma-separated text, trimmed, without empty ones."""
    return tuple(key for key in (trim(part) for part in text.split(",")) if key)


def _text(value: Mapping[str, object], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


QUIET_DECORATORS = frozenset(
    {
        "", "end", "depth", "reverse_depth", "role", "dont_activate", "activate_only_after", "activate_only_every",
        "is_greeting", "ignore_on_max_context", "priority", "inject_lore", "inject_at", "inject_replace",
        "inject_prepend", "unrecursive", "recursive", "no_recursive_search",
    }
)  # fmt: skip
"""Decorators that change nothing, not even the log of hits, while an entry's keys are not found."""


@dataclass(frozen=True, slots=True)
class CompiledLore:
    """Entries with their keys in one automaton."""

    entries: Sequence[LorebookEntry]
    always_considered: frozenset[int]
    literals: LiteralKeys
    by_partial_key: Mapping[str, Sequence[int]]
    by_word: Mapping[str, Sequence[int]]
    by_id: Mapping[str | None, Sequence[int]]

    @classmethod
    def of(cls, entries: Sequence[LorebookEntry]) -> CompiledLore:
        """Compile entries."""
        always: set[int] = set()
        waiting: list[tuple[int, Sequence[str]]] = []
        by_id: dict[str | None, list[int]] = {}
        keys: list[str] = []
        for index, entry in enumerate(entries):
            by_id.setdefault(entry.id, []).append(index)
            found = split_keys(entry.key)
            decorators = parse_content(entry.content).decorators
            keys += _all_keys(entry, found, decorators)  # a child looks for those of its parent, reachable or not
            if not entry.reachable:
                continue
            if _waits_for_key(entry, decorators):
                waiting.append((index, found))
            else:
                always.add(index)
        literals = LiteralKeys(keys)
        partial: dict[str, list[int]] = {}
        words: dict[str, list[int]] = {}
        for index, found in waiting:
            for key in found:
                partial.setdefault(literals.squeezed[key], []).append(index)
                words.setdefault(literals.lowered[key], []).append(index)
        return cls(tuple(entries), frozenset(always), literals, partial, words, by_id)

    def waiting_for(self, text: str, full_word: bool, known: set[str]) -> Iterable[int]:
        """Return entries with a newly found primary key in a text; the found keys are added to the known ones."""
        hits = self.literals.word_hits(text) if full_word else self.literals.partial_hits(text)
        by_key = self.by_word if full_word else self.by_partial_key
        new = hits - known
        known |= new
        for key in new:
            yield from by_key.get(key, ())


def _all_keys(entry: LorebookEntry, primary: Sequence[str], decorators: Sequence[Decorator]) -> list[str]:
    found = [*primary, *split_keys(entry.secondary_key)] if entry.secondary_key else [*primary]
    for decorator in decorators:
        if decorator.name in ("additional_keys", "exclude_keys", "exclude_keys_all"):
            found += decorator.arguments
    return found


def _waits_for_key(entry: LorebookEntry, decorators: Sequence[Decorator]) -> bool:
    if entry.always_active or entry.use_regex or entry.mode == CHILD:
        return False
    return not decorators or all(decorator.name in QUIET_DECORATORS for decorator in decorators)
