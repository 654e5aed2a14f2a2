"""What a lorebook loses when it is converted for another program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from tavernkit._values import JsonObject, is_mapping, is_sequence
from tavernkit.cli.options import CHARACTER_BOOK, Platform

_KEPT_BY_RISU_AI = frozenset({"key", "comment", "content", "constant", "order", "addMemo", "selective"})
"""Fields of a world's entries that RisuAI imports, or that only SillyTavern's editor uses."""

_OF_THE_EDITOR = frozenset({"uid", "displayIndex", "extensions"})
_OTHER_NAMES = frozenset(
    {
        *("keys", "keywords", "name", "displayName", "entry", "text", "priority", "weight", "contextConfig"),
        *("forceActivation", "secondary_keys", "enabled", "id", "lastUpdatedAt"),
    }
)
"""NovelAI's and Agnai's names of imported fields, and fields that do not matter."""

_TAKEN_AS_DECORATORS = frozenset({"useProbability", "probability", "delay", "match_whole_words"})
"""Members of a card entry's ``extensions`` that RisuAI writes as decorators when it imports the card."""

_OF_THE_BOOK = ("description", "scan_depth", "token_budget", "recursive_scanning")
"""Settings of a card's book that a separate file cannot contain."""

_KNOWN_DECORATORS = ("@@activate", "@@dont_activate")
"""Decorators that SillyTavern supports."""

NOT_ENABLED = "enabled: false (RisuAI cannot switch entries off)"

_SHOWN = 3


def losses(book: JsonObject, to: str) -> list[str]:
    """Return what the program's import of a book leaves out: one line per setting, with the entries."""
    from tavernkit.cards import CharacterBook

    entries, data = book.get("entries"), book.get("data")
    if book.get("type") == "risu" and is_sequence(data):
        return [] if to == Platform.RISU_AI else _by_setting(data, _risu_for_silly_tavern)
    listed = entries.values() if is_mapping(entries) else entries if is_sequence(entries) else ()
    if not CharacterBook.fits(book):
        if to == Platform.RISU_AI:
            return _by_setting(listed, _world_for_risu_ai)
        foreign = "lorebookVersion" in book or book.get("kind") == "memory"
        if foreign or to == CHARACTER_BOOK:
            return _by_setting(listed, _foreign_for_silly_tavern if foreign else _world_for_card)
        return []
    if to == CHARACTER_BOOK:
        return []
    of_the_book = [f"the book's {name} is lost" for name in _OF_THE_BOOK if book.get(name)]
    return of_the_book + _by_setting(listed, _card_for_risu_ai if to == Platform.RISU_AI else _card_for_silly_tavern)


def _world_for_risu_ai(entry: Mapping[str, object]) -> Iterator[str]:
    from tavernkit.silly_tavern._world_info.entry import TEMPLATE

    for name, default in TEMPLATE.items():
        value = entry.get(name, default)
        if name not in _KEPT_BY_RISU_AI and value != default and (value or default):
            yield name
    if _filters(entry):
        yield "characterFilter"
    if entry.get("enabled") is False:
        yield NOT_ENABLED
    known = TEMPLATE.keys() | _OF_THE_EDITOR | _OTHER_NAMES | {"characterFilter"}
    yield from (name for name, value in entry.items() if name not in known and value)


def _foreign_for_silly_tavern(entry: Mapping[str, object]) -> Iterator[str]:
    yield from (name for name, value in entry.items() if name not in _OTHER_NAMES and value)


def _world_for_card(entry: Mapping[str, object]) -> Iterator[str]:
    if _filters(entry):
        yield "characterFilter"


def _filters(entry: Mapping[str, object]) -> bool:
    """True if an entry is for some characters only."""
    chosen = entry.get("characterFilter")
    return is_mapping(chosen) and bool(chosen.get("names") or chosen.get("tags"))


def _card_for_risu_ai(entry: Mapping[str, object]) -> Iterator[str]:
    from tavernkit.silly_tavern._world_info.character_book import EXTENSION_FIELDS

    keys, extensions = entry.get("keys"), entry.get("extensions")
    if entry.get("enabled") is False:
        yield NOT_ENABLED
    if entry.get("priority"):
        yield "priority"
    if entry.get("use_regex") and is_sequence(keys) and keys and not str(keys[0]).startswith("/"):
        yield "use_regex"
    stated: Mapping[str, object] = extensions if is_mapping(extensions) else {}
    in_chat = stated.get("position") == 4  # RisuAI writes it as a decorator
    if entry.get("position") == "before_char" or (stated.get("position") or 1) not in (1, 4):
        yield "position"
    taken = _TAKEN_AS_DECORATORS | {"selectiveLogic", *(("depth", "role") if in_chat else ())}
    for name, default in EXTENSION_FIELDS.values():
        value = stated.get(name, default)
        if name not in taken and value != default and (value or default) and (in_chat or name not in ("depth", "role")):
            yield f"extensions.{name}"
    if stated.get("triggers"):
        yield "extensions.triggers"


def _card_for_silly_tavern(entry: Mapping[str, object]) -> Iterator[str]:
    extensions = entry.get("extensions")
    stated: Mapping[str, object] = extensions if is_mapping(extensions) else {}
    if entry.get("priority"):
        yield "priority"
    if entry.get("case_sensitive") and not stated.get("case_sensitive"):
        yield "case_sensitive"
    if entry.get("name") and not entry.get("comment"):
        yield "name"
    if entry.get("mode", "normal") not in ("normal", None):
        yield f"mode {entry.get('mode')}"
    yield from _decorators(entry)


def _risu_for_silly_tavern(entry: Mapping[str, object]) -> Iterator[str]:
    yield from (name for name in ("useRegex", "folder") if entry.get(name))
    if entry.get("mode", "normal") != "normal":
        yield f"mode {entry.get('mode')}"
    yield from _decorators(entry)


def _decorators(entry: Mapping[str, object]) -> Iterator[str]:
    lines = str(entry.get("content", "")).splitlines()
    if any(line.startswith("@@") and not line.startswith(_KNOWN_DECORATORS) for line in lines):
        yield "the meaning of @@decorators, which stay in the text,"


def _by_setting(entries: Iterable[object], lost: Callable[[Mapping[str, object]], Iterator[str]]) -> list[str]:
    found: dict[str, list[str]] = {}
    left_out: list[str] = []
    for number, entry in enumerate(entries):
        if not is_mapping(entry):
            left_out.append(f"entry {number} is lost: it is not an object")
            continue
        for setting in lost(entry):
            title = entry.get("comment") or entry.get("name") or number
            found.setdefault(setting, []).append(str(title))
    return [f"{setting} is lost: {_list_titles(titles)}" for setting, titles in found.items()] + left_out


def _list_titles(titles: list[str]) -> str:
    shown = ", ".join(repr(title) for title in titles[:_SHOWN])
    more = len(titles) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
