"""The global World Info settings, which books a scan uses, their entries in order, and their shared token budget."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cmp_to_key
from itertools import accumulate, chain, pairwise
from typing import TypeVar

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, js_round, to_number, truthy
from tavernkit._text.js_values.convert import sort_by
from tavernkit._values import EMPTY_OBJECT, JsonObject, is_mapping, is_sequence, shown
from tavernkit.errors import Warn, log_warning
from tavernkit.lore import TokenCounter
from tavernkit.silly_tavern._world_info.book import WorldBook, tell_problem
from tavernkit.silly_tavern._world_info.limits import TOKENS_OVERHEAD

DEFAULT_BUDGET = 25
"""Percent of the prompt for lore."""

EVENLY, CHARACTER_FIRST, GLOBAL_FIRST = 0, 1, 2


@dataclass(frozen=True, slots=True)
class CharacterLore:
    """Additional books of a character: ``name`` is its avatar's file name without extension."""

    name: str
    extra_books: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldInfoSettings:
    """SillyTavern's global World Info settings; the defaults are those of a fresh installation."""

    depth: float = 2
    """How many of the newest messages are scanned."""
    min_activations: float = 0
    """Look further back until this many entries are active; 0 disables it."""
    min_activations_depth_max: float = 0
    """How far back ``min_activations`` may look; 0 for the whole chat."""
    budget: float = DEFAULT_BUDGET
    """Percent of the context for lore."""
    budget_cap: float = 0
    """The maximum tokens for lore; 0 for no limit."""
    include_names: bool = True
    """Scan names of speakers too."""
    recursive: bool = True
    """Scan the texts of active entries for keys too."""
    overflow_alert: bool = False
    """Show an alert when the budget is used up; prompts do not depend on it."""
    case_sensitive: bool = False
    """Keys are case-sensitive."""
    match_whole_words: bool = True
    """Keys must be whole words."""
    character_strategy: float = CHARACTER_FIRST
    """The order of books: 0 evenly mixed, 1 the character's first, 2 global ones first."""
    use_group_scoring: bool = False
    """In a group of entries, keep only those with the most matching keys."""
    max_recursion_steps: float = 0
    """How often active entries are scanned again; 0 for no limit."""
    global_select: tuple[str, ...] = ()
    """Names of the books that are active everywhere."""
    character_lore: tuple[CharacterLore, ...] = ()
    """Additional books of characters."""

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, warn: Warn = log_warning) -> WorldInfoSettings:
        """Read the object ``world_info_settings`` of a settings file.

        Missing keys have the values that the program assumes, which are not always those of a fresh installation:
        without them, recursion and whole-word matching are off.

        Args:
            data: The parsed settings.
            warn: Called with each warning.
        """
        require("data", data, Mapping[str, object], "the object world_info_settings of a settings file")

        def number(name: str, default: float) -> float:
            given = data.get(f"world_info_{name}", UNDEFINED)
            read = float(default) if given is UNDEFINED else to_number(given)
            if math.isnan(read):
                warn(f"world_info_{name} should be a number, not {shown(given)}; {default} is used")
                return default
            return int(read) if read.is_integer() else read

        def flag(name: str, default: bool) -> bool:
            given = data.get(f"world_info_{name}", UNDEFINED)
            return default if given is UNDEFINED else truthy(given)

        budget = number("budget", DEFAULT_BUDGET)
        selection = data.get("world_info")
        chosen = selection if is_mapping(selection) else EMPTY_OBJECT
        return cls(
            depth=number("depth", 2),
            min_activations=number("min_activations", 0),
            min_activations_depth_max=number("min_activations_depth_max", 0),
            budget=DEFAULT_BUDGET if budget > 100 else budget,  # as SillyTavern does when it loads
            budget_cap=number("budget_cap", 0),
            include_names=flag("include_names", True),
            recursive=flag("recursive", False),
            overflow_alert=flag("overflow_alert", False),
            case_sensitive=flag("case_sensitive", False),
            match_whole_words=flag("match_whole_words", False),
            character_strategy=number("character_strategy", CHARACTER_FIRST),
            use_group_scoring=flag("use_group_scoring", False),
            max_recursion_steps=number("max_recursion_steps", 0),
            global_select=_string_list(chosen.get("globalSelect")),
            character_lore=character_lore(chosen.get("charLore")),
        )


def character_lore(value: object) -> tuple[CharacterLore, ...]:
    """Read SillyTavern's ``charLore`` list; items that are not objects are left out."""
    records = value if is_sequence(value) else ()
    return tuple(
        CharacterLore(str(record.get("name", "")), _string_list(record.get("extraBooks")))
        for record in records
        if is_mapping(record)
    )


def _string_list(value: object) -> tuple[str, ...]:
    return tuple(name for name in value if isinstance(name, str)) if is_sequence(value) else ()


_LAST_EXTENSION = re.compile(r"\.[^/.]+\Z")

T = TypeVar("T")
Listed = tuple[JsonObject, str]
"""An entry as JSON, and the name of its book."""


@dataclass(frozen=True, slots=True)
class SelectedBooks:
    """The books of a scan by source; each book counts for one source only."""

    global_: tuple[WorldBook, ...] = ()
    """Books that are active everywhere."""
    character: tuple[WorldBook, ...] = ()
    """Books of the character."""
    chat: tuple[WorldBook, ...] = ()
    """Books of the chat."""
    persona: tuple[WorldBook, ...] = ()
    """Books of the persona."""

    def __post_init__(self) -> None:
        for source in ("global_", "character", "chat", "persona"):  # engines identify a selection by its hash
            object.__setattr__(self, source, tuple(getattr(self, source)))

    @property
    def books(self) -> tuple[WorldBook, ...]:
        """All books."""
        return (*self.chat, *self.persona, *self.character, *self.global_)


def select_books(
    *,
    global_: Iterable[WorldBook] = (),
    character: Iterable[WorldBook] = (),
    chat: Iterable[WorldBook] = (),
    persona: Iterable[WorldBook] = (),
) -> SelectedBooks:
    """Assign each book to one source: a book in several of them is global, else the chat's, else the persona's.

    A global book that is selected twice stays twice, with all its entries.
    """
    for_all, for_chat, for_persona = tuple(global_), tuple(chat), tuple(persona)
    global_names = _names(for_all)
    in_chat = global_names | _names(for_chat)
    taken = in_chat | _names(for_persona)
    own: dict[str, WorldBook] = {}
    for book in character:
        if book.name not in taken:
            own.setdefault(book.name, book)
    return SelectedBooks(
        global_=for_all,
        character=tuple(own.values()),
        chat=tuple(book for book in for_chat if book.name not in global_names),
        persona=tuple(book for book in for_persona if book.name not in in_chat),
    )


def _names(books: Iterable[WorldBook]) -> frozenset[str]:
    return frozenset(book.name for book in books)


def character_book_names(
    world: str | None, avatar: str | None, character_lore: Iterable[CharacterLore] = ()
) -> tuple[str, ...]:
    """Return the books of a character: the one linked to its card, then additional ones from the settings."""
    stem = file_stem(avatar) if avatar else None
    extra = next((record.extra_books for record in character_lore if record.name == stem), ())
    return tuple(dict.fromkeys(name for name in [world, *extra] if name))


def file_stem(avatar: str) -> str:
    """Return a file name without its last extension."""
    return _LAST_EXTENSION.sub("", avatar)


def sort_by_order(items: Sequence[T], orders: Sequence[float]) -> list[T]:
    """Sort by descending ``order``, stable. An order that is not a number equals every other, as in JavaScript."""
    places = list(range(len(items)))
    if any(map(math.isnan, orders)):

        def compare(left: int, right: int) -> int:
            difference = orders[right] - orders[left]
            return (difference > 0) - (difference < 0)

        # What such an order does depends on the algorithm, and Python's own differs between versions.
        places = sort_by(places, compare) if len(places) < 64 else sorted(places, key=cmp_to_key(compare))
    else:
        places.sort(key=orders.__getitem__, reverse=True)
    return [items[place] for place in places]


class ListedEntries:
    """The entries of a scan in scan order.

    ``books`` has the listed books, possibly with duplicates. Their concatenated entries are rows: ``rows`` has the row
    at each position, ``positions`` for each book the positions of its entries.
    """

    __slots__ = ("_starts", "books", "positions", "rows")

    def __init__(self, books: SelectedBooks, strategy: float) -> None:
        sources = (books.global_, books.character, books.chat, books.persona)
        self.books = tuple(chain.from_iterable(sources))
        self._starts = [0, *accumulate(len(book.table.entries) for book in self.books)]
        ends = accumulate(map(len, sources), initial=0)
        global_, character, chat, persona = (range(start, end) for start, end in pairwise(ends))
        if strategy == CHARACTER_FIRST:
            rest = self._sorted(character) + self._sorted(global_)
        elif strategy == GLOBAL_FIRST:
            rest = self._sorted(global_) + self._sorted(character)
        else:
            rest = self._sorted([*global_, *character])
        self.rows: list[int] = self._sorted(chat) + self._sorted(persona) + rest
        positions = [0] * len(self.rows)
        for position, row in enumerate(self.rows):
            positions[row] = position
        self.positions: list[list[int]] = [positions[start:end] for start, end in pairwise(self._starts)]

    def _sorted(self, books: Sequence[int]) -> list[int]:
        rows = [row for book in books for row in range(self._starts[book], self._starts[book + 1])]
        return sort_by_order(rows, [*chain.from_iterable(self.books[book].table.orders for book in books)])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, position: int) -> Listed:
        row = self.rows[position]
        number = bisect_right(self._starts, row) - 1
        book = self.books[number]
        return book.table.entries[row - self._starts[number]], book.name

    @property
    def problems(self) -> list[str]:
        """Problems in the books."""
        return [problem for book in self.books for problem in book.table.problems]

    def identities(self) -> Iterator[tuple[str, str]]:
        """Return the name of the book and the uid of every entry, in order."""
        known = [
            (book.name if world is None else world, uid)
            for book in self.books
            for world, uid in book.table.entries.identities()
        ]
        return map(known.__getitem__, self.rows)


def list_entries(books: SelectedBooks, strategy: float, warn: Warn) -> list[Listed]:
    """List the entries of a scan in scan order."""
    listed = ListedEntries(books, strategy)
    for problem in listed.problems:
        tell_problem(warn, problem)
    return [listed[position] for position in range(len(listed))]


def token_limit(settings: WorldInfoSettings, max_context: float) -> float:
    """Return the token budget of lore: a percentage of the context, at least 1, at most the cap if there is one."""
    limit = js_round(settings.budget * max_context / 100)
    limit = 1 if not limit or math.isnan(limit) else limit
    if settings.budget_cap > 0 and limit > settings.budget_cap:
        limit = settings.budget_cap
    return int(limit) if float(limit).is_integer() else limit


class TokenBudget:
    """Adds up the texts of the passes and detects when the limit is reached.

    The whole text of a pass must be counted with every entry, because tokens do not add up. While the remaining budget
    is larger than the text since the last count could ever need, counting is deferred.
    """

    __slots__ = ("_base", "_bytes", "_count", "_counted", "_fed", "_parts", "_trusted", "_uncounted", "_unfed", "limit")

    def __init__(self, limit: float, count: TokenCounter) -> None:
        self.limit = limit
        self._count = count
        self._trusted = True
        self._base = 0
        self._fed: list[str] = []
        self._unfed = 0
        self._parts: list[str] = []
        self._counted: int | None = None
        self._bytes = 0
        self._uncounted = 0

    def begin_pass(self, fed: str) -> None:
        """Start a pass; ``fed`` is the text from the last pass, before that of earlier ones."""
        if fed:
            self._fed.append(fed)
            self._unfed += _bytes(fed)
        self._parts = []
        self._counted = None
        self._bytes = self._uncounted = 0

    def add(self, text: str) -> None:
        """Add the text of an entry."""
        self._parts.append(text)
        size = _bytes(text)
        self._bytes += size
        self._uncounted += size

    def is_exceeded(self) -> bool:
        """Return True if the limit is reached; SillyTavern refuses an entry that fits exactly."""
        if self._trusted and self._counted is not None:
            most = self._most_fed() + self._counted + self._uncounted + TOKENS_OVERHEAD
            if most < self.limit:
                return False
        tokens = self._count("".join(self._parts))
        self._trusted = self._trusted and tokens <= self._bytes + TOKENS_OVERHEAD
        self._counted, self._uncounted = tokens, 0
        if self._trusted and self._most_fed() + tokens < self.limit:
            return False
        return self._count_fed() + tokens >= self.limit

    def last_entry(self) -> tuple[int, int]:
        """Return how many tokens the last entry needed and how many were left for it."""
        before = "".join(self._parts[:-1])
        fed = self._count_fed()
        used = fed + (self._count(before) if before else 0)
        total = fed + self._count("".join(self._parts))
        return total - used, max(int(self.limit) - used, 0)

    def _most_fed(self) -> int:
        """Return the maximum tokens of the text of earlier passes: it is counted only if that is too many."""
        return self._base + self._unfed + TOKENS_OVERHEAD if self._unfed else self._base

    def _count_fed(self) -> int:
        if self._unfed:
            text = "".join(reversed(self._fed))
            self._base = self._count(text)
            self._trusted = self._trusted and self._base <= _bytes(text) + TOKENS_OVERHEAD
            self._fed, self._unfed = [text], 0
        return self._base


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
