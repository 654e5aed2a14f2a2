"""World books and lorebooks: entries that cannot fire, and entries that do not do what they seem to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tavernkit._text.js_values import UNDEFINED, to_number, to_string, trim, truthy
from tavernkit._text.json_pointer import escape
from tavernkit._values import is_mapping, is_sequence
from tavernkit.cards._requirements import Severity
from tavernkit.lint._finding import Finding
from tavernkit.lint._scripts import lint_regex
from tavernkit.lint._texts import Language, lint_head_text, lint_text

if TYPE_CHECKING:
    from tavernkit.silly_tavern._world_info import Entry, WorldBook

DEFAULT_BUDGET = 2048
"""Tokens of lore: SillyTavern's default share of an 8k context."""

_KNOWN_POSITIONS = range(8)
_BESIDE_CHARACTER = (0, 1)
_OUTLET = 7
_AND_ANY, _NOT_ALL, _NOT_ANY, _AND_ALL = range(4)


def lint_world_book(
    book: WorldBook, where: str = "", *, budget: int = DEFAULT_BUDGET, language: Language = "any"
) -> Iterator[Finding]:
    """Check a world book: each entry on its own, then all entries together.

    Args:
        book: The book.
        where: The JSON pointer to it, for findings.
        budget: Token budget of the lore; books that may need more are reported.
        language: The program whose macros the texts use; ``any`` decides for each text.
    """
    pointers = [f"{where}/entries/{escape(key)}" for key, _ in book.raw_entries()]
    yield from _entries(book, pointers, "key", language)
    yield from _among_each_other(book, pointers, where, budget)


def lint_character_book(
    book: Mapping[str, object], where: str = "", *, budget: int = DEFAULT_BUDGET, language: Language = "any"
) -> Iterator[Finding]:
    """Check the book of a card, as SillyTavern converts it to a world book."""
    from tavernkit.silly_tavern._world_info import WorldBook

    world = WorldBook.from_character_book(book, name="book")
    listed = book.get("entries")
    numbers = {
        to_string(raw.get("id", number)): number
        for number, raw in enumerate(listed if is_sequence(listed) else ())
        if is_mapping(raw)
    }
    pointers = [f"{where}/entries/{numbers[key]}" for key, _ in world.raw_entries()]
    yield from _entries(world, pointers, "keys", language)
    yield from _among_each_other(world, pointers, where, budget)


def _entries(book: WorldBook, pointers: list[str], keys: str, language: Language) -> Iterator[Finding]:
    """Check each entry on its own; ``keys`` is the field with its keys."""
    from tavernkit.silly_tavern._world_info.entry import problem_with

    places: dict[int, str] = {}
    for pointer, (_, raw) in zip(pointers, book.raw_entries(), strict=True):
        places[id(raw)] = pointer
        problem = problem_with(raw)
        if problem is not None:
            yield _finding(pointer, f"is left out: {problem}", Severity.ERROR, "UNUSABLE_ENTRY")
    for entry in book.entries:
        place = places[id(entry.raw)]
        found = [finding for rule in _RULES for finding in rule(entry, place)]
        if entry.constant and entry.position in _BESIDE_CHARACTER:
            found += lint_head_text(entry.content, f"{place}/content")
        for each in (*found, *lint_text(entry.content, f"{place}/content", language)):
            pointer = f"{place}/{keys}" if each.where == f"{place}/key" else each.where
            yield replace(each, where=pointer, entry=entry.comment)


def _among_each_other(book: WorldBook, pointers: list[str], where: str, budget: int) -> Iterator[Finding]:
    raw_entries = (raw for _, raw in book.raw_entries())
    places = {id(raw): pointer for raw, pointer in zip(raw_entries, pointers, strict=True)}
    placed = [(places[id(entry.raw)], entry) for entry in book.entries]
    yield from group_findings(placed)
    yield from budget_findings(placed, where, budget)


def _finding(where: str, message: str, severity: Severity, code: str, *, hint: str = "", fix: bool = False) -> Finding:
    return Finding(where=where, message=message, severity=severity, code=code, hint=hint, fixable=fix)


def _keys(entry: Entry, place: str) -> Iterator[Finding]:
    keys = [key for key in entry.keys if key]
    always = entry.constant or bool(entry.decorators) or entry.vectorized
    if not keys and not always and not entry.disabled:
        yield _finding(
            place,
            "has no key and is not constant: it can never fire",
            Severity.WARNING,
            "NEVER_FIRES",
            hint="give it a key, make it constant, or switch it off",
        )
    for name, listed in (("key", entry.keys), ("keysecondary", entry.secondary_keys)):
        if "" in listed:
            yield _finding(place, f"has an empty {name}, which never matches", Severity.INFO, "EMPTY_KEY")
        if any(key and not trim(key) for key in listed):
            yield _finding(place, f"has a {name} of spaces only, which always matches", Severity.WARNING, "BLANK_KEY")
        if any(trim(key) != key and trim(key) for key in listed):
            yield _finding(
                place, f"has spaces around a {name}", Severity.INFO, "BLANKS_AROUND_KEY", fix=not entry.group
            )
        for key, count in Counter(map(trim, listed)).items():
            if key and count > 1:
                message = f"has the {name} {key!r} {count} times"
                yield _finding(place, message, Severity.INFO, "DUPLICATE_KEY", fix=not entry.group)
    for key in keys:
        yield from _one_key(trim(key), place)


def _one_key(key: str, place: str) -> Iterator[Finding]:
    from tavernkit.silly_tavern._world_info.entry import parse_regex_key

    regex = parse_regex_key(key)
    if regex is not None:
        yield from lint_regex(regex.source, regex.flags, f"{place}/key")
    elif len(key) > 2 and key.startswith("/") and "/" in key[1:]:
        yield _finding(
            place,
            f"key {key!r} looks like a regular expression but is not one: it is searched for as text",
            Severity.WARNING,
            "BAD_REGEX_KEY",
            hint="write slashes inside it as \\/",
        )
    elif "," in key:
        yield _finding(
            place,
            f"key {key!r} is a single key with a comma in it",
            Severity.INFO,
            "COMMA_IN_KEY",
            hint="write two keys as two items of the list",
        )
    yield from lint_text(key, f"{place}/key", "silly_tavern")


def _secondary(entry: Entry, place: str) -> Iterator[Finding]:
    primary, secondary = {trim(key) for key in entry.keys if trim(key)}, {trim(k) for k in entry.secondary_keys}
    secondary.discard("")
    if not secondary:
        return
    if not entry.selective:
        yield _finding(
            place, "has secondary keys, which are ignored: it is not selective", Severity.INFO, "IGNORED_KEYS"
        )
        return
    logic = to_number(entry.selective_logic)
    contradiction = (logic == _NOT_ANY and primary and primary <= secondary) or (
        logic == _NOT_ALL and len(secondary) == 1 and primary == secondary
    )
    if contradiction:
        yield _finding(place, "requires and forbids the same key: it can never fire", Severity.WARNING, "NEVER_FIRES")


def _chance(entry: Entry, place: str) -> Iterator[Finding]:
    if not entry.use_probability or (entry.constant and entry.probability == 100):
        return
    chance = to_number(entry.probability)
    if "probability" not in entry.raw or chance != chance:
        yield _finding(
            place,
            "has useProbability but no probability: every roll fails",
            Severity.ERROR,
            "NEVER_FIRES",
            hint='"probability": 100',
        )
    elif chance <= 0:
        yield _finding(place, "has a probability of 0: it can never fire", Severity.WARNING, "NEVER_FIRES")


def _recursion(entry: Entry, place: str) -> Iterator[Finding]:
    if truthy(entry.delay_until_recursion) and entry.exclude_recursion:
        yield _finding(
            place,
            "waits for recursion but is excluded from it: it can never fire",
            Severity.WARNING,
            "NEVER_FIRES",
        )


def _position(entry: Entry, place: str) -> Iterator[Finding]:
    position = to_number(entry.position)
    if position not in _KNOWN_POSITIONS:
        what = "no position" if entry.position is UNDEFINED else f"the unknown position {entry.position!r}"
        yield _finding(place, f"has {what}", Severity.WARNING, "UNKNOWN_POSITION")
    elif position == _OUTLET and not entry.outlet_name:
        yield _finding(
            place, "goes to an outlet without a name: it is never in the prompt", Severity.WARNING, "NO_OUTLET"
        )


def _content(entry: Entry, place: str) -> Iterator[Finding]:
    if not entry.content.strip() and not entry.disabled:
        yield _finding(place, "has no content", Severity.INFO, "EMPTY_CONTENT")


_RULES: tuple[Callable[[Entry, str], Iterator[Finding]], ...] = (
    _keys,
    _secondary,
    _chance,
    _recursion,
    _position,
    _content,
)


def repaired_entry(entry: Mapping[str, object]) -> dict[str, object]:
    """Return an entry without repeated keys and spaces around keys, if that changes nothing.

    A key of spaces is always found and an empty one never: both have a meaning and stay. Group scoring counts each key
    as written: entries of a group stay as they are.
    """
    fixed, extensions = dict(entry), entry.get("extensions")
    if entry.get("group") or (is_mapping(extensions) and extensions.get("group")):
        return fixed
    for name in ("key", "keysecondary", "keys", "secondary_keys"):
        listed = fixed.get(name)
        if is_sequence(listed) and all(isinstance(key, str) for key in listed):
            fixed[name] = list(dict.fromkeys(trim(key) or key for key in map(str, listed)))
    return fixed


def group_findings(entries: Sequence[tuple[str, Entry]]) -> Iterator[Finding]:
    """Find entries of an inclusion group that always lose to a constant entry."""
    groups: dict[str, list[tuple[str, Entry]]] = {}
    for place, entry in entries:
        if not entry.disabled:
            for name in filter(None, map(trim, entry.group.split(","))):
                groups.setdefault(name, []).append((place, entry))
    for name, members in groups.items():
        champions = [entry for _, entry in members if entry.group_override and entry.constant and _certain(entry)]
        if not champions:
            continue
        champion = max(champions, key=lambda entry: to_number(entry.order))
        for place, entry in members:
            if entry is not champion:
                yield Finding(
                    where=place,
                    entry=entry.comment,
                    message=f"is never chosen in group {name!r}: {_name(champion)} is always active and has priority",
                    severity=Severity.WARNING,
                    code="SHADOWED",
                )


def budget_findings(entries: Sequence[tuple[str, Entry]], where: str, budget: int) -> Iterator[Finding]:
    """Find entries that never fit into the token budget."""
    from tavernkit.budget import count_tokens

    used = 0
    for place, entry in entries:
        if entry.disabled or entry.ignore_budget:
            continue
        tokens = count_tokens(entry.content)
        if tokens > budget:
            yield Finding(
                where=place,
                entry=entry.comment,
                message=f"needs {tokens} tokens, more than the whole lore budget of {budget}",
                severity=Severity.WARNING,
                code="OVER_BUDGET",
            )
        if entry.constant:
            used += tokens
    if used >= budget:
        yield Finding(
            where=where or "/",
            message=f"constant entries use {used} tokens of a budget of {budget}: no other entry fits",
            severity=Severity.WARNING,
            code="BUDGET_STARVATION",
        )


def _certain(entry: Entry) -> bool:
    return not entry.use_probability or to_number(entry.probability) >= 100


def _name(entry: Entry) -> str:
    return f"{entry.raw.get('uid', '?')} {entry.comment!r}" if entry.comment else str(entry.raw.get("uid", "?"))
