"""World files of other programs, and SillyTavern's names for imports."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TypeAlias

from tavernkit._text.js_values import UNDEFINED, Undefined, to_string, trim, truthy
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.cards._character import Character
from tavernkit.cards._json_text import decode_payload
from tavernkit.cards._limits import Limits
from tavernkit.cards._png import SIGNATURE, walk
from tavernkit.errors import FileFormatError, Warn, log_warning
from tavernkit.silly_tavern._world_info.book import WorldBook, parse_json
from tavernkit.silly_tavern._world_info.entry import template_entry
from tavernkit.silly_tavern._world_info.fields import check_depth
from tavernkit.silly_tavern.errors import LoreParseError

KEYWORD = b"naidata"


def is_png(content: bytes) -> bool:
    """Return True if a file is a picture that can contain a lorebook."""
    return content.startswith(SIGNATURE)


def read_lore_png(content: bytes, warn: Warn) -> Json:
    """Read the lorebook of a picture; raises ``LoreParseError`` if there is none."""
    limits = Limits()
    try:
        for chunk in walk(io.BytesIO(content), limits, warn):
            start = chunk.offset + 8
            keyword, _, text = content[start : start + chunk.length].partition(b"\0")
            if chunk.kind == b"tEXt" and keyword.lower() == KEYWORD:
                return decode_payload(text, what="the picture's lorebook", limits=limits, warn=warn)
    except FileFormatError as error:
        raise LoreParseError(str(error)) from error
    raise LoreParseError("the picture contains no lorebook")


Fields: TypeAlias = "dict[str, Json | Undefined]"

_ILLEGAL = re.compile(r'[/?<>\\:*|"]')
_CONTROL = re.compile("[\x00-\x1f\x80-\x9f]")
_ONLY_DOTS = re.compile(r"^\.+$")
_DEVICE = re.compile(r"^(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?$", re.IGNORECASE | re.ASCII)


def import_world(
    filename: str, content: str | bytes, *, warn: Warn = log_warning, strict: bool = False
) -> WorldBook | None:
    """Import a world file of SillyTavern, NovelAI (also in a picture), Agnai or RisuAI, recognised by its content.

    A file that SillyTavern would refuse gives None and a warning, or ``LoreParseError`` in strict mode.

    Args:
        filename: The file's name; the book is named after it.
        content: The file's content.
        warn: Called with each warning; by default they are logged.
        strict: Raise instead of warning.
    """
    try:
        return _import(filename, content, warn)
    except LoreParseError as error:
        if strict:
            raise
        warn(f"world file {filename!r} is not imported: {error}")
        return None


def _import(filename: str, content: str | bytes, warn: Warn) -> WorldBook:
    name = _require_name(filename)
    return _world_of(name, _parse(content, warn))


def import_json(filename: str, parsed: Json) -> WorldBook:
    """Import a parsed world file, see ``import_world()``. The JSON must not be changed from then on.

    Args:
        filename: The file's name.
        parsed: The file's JSON.

    Raises:
        LoreParseError: SillyTavern would refuse it.
    """
    check_depth(parsed)
    return _world_of(_require_name(filename), parsed)


def _require_name(filename: str) -> str:
    name = world_name(filename)
    if name is None:
        raise LoreParseError("its name cannot be the name of a world")
    return name


def _world_of(name: str, parsed: Json) -> WorldBook:
    """Make a world from a parsed file."""
    converted = convert_foreign_world(parsed)
    if converted is not None:
        return WorldBook(name, converted)
    # Lists are accepted because SillyTavern only checks for a property "entries", which lists have.
    if is_list(parsed) or (is_object(parsed) and "entries" in parsed):
        return WorldBook(name, parsed)
    raise LoreParseError('a world file is a JSON object with the key "entries"')


def _parse(content: str | bytes, warn: Warn) -> Json:
    if isinstance(content, bytes) and is_png(content):
        return read_lore_png(content, warn)
    return parse_json(content)


def convert_foreign_world(parsed: Json) -> JsonObject | None:
    """Convert a NovelAI, Agnai or RisuAI lorebook to a world; None for anything else."""
    if not is_object(parsed):
        return None
    listed: Json = None
    convert: Callable[[JsonObject], Fields] | None = None
    # Of several signs the last one counts.
    if "lorebookVersion" in parsed:
        listed, convert = parsed.get("entries"), _from_novel
    if parsed.get("kind") == "memory":
        listed, convert = parsed.get("entries"), _from_agnai
    if parsed.get("type") == "risu":
        listed, convert = parsed.get("data"), _from_risu
    if convert is None:
        return None
    entries: JsonObject = {}
    for index, raw in enumerate(listed if is_list(listed) else []):
        if is_object(raw):
            fields = {"delayUntilRecursion": False, "selective": False, **convert(raw)}
            entries[str(index)] = template_entry({**fields, "uid": index, "displayIndex": index})
    return {"entries": entries}


def _from_novel(raw: JsonObject) -> Fields:
    name = raw.get("displayName")
    context = raw.get("contextConfig")
    priority = context.get("budgetPriority") if is_object(context) else None
    return {
        "key": raw.get("keys", UNDEFINED),
        "comment": name if truthy(name) else "",
        "content": raw.get("text", UNDEFINED),
        "order": 0 if priority is None else priority,
        "disable": not truthy(raw.get("enabled", UNDEFINED)),
        "addMemo": truthy(name) and trim(to_string(name)) != "",
    }


def _from_agnai(raw: JsonObject) -> Fields:
    return {
        "key": raw.get("keywords", UNDEFINED),
        "comment": raw.get("name", UNDEFINED),
        "content": raw.get("entry", UNDEFINED),
        "order": raw.get("weight", UNDEFINED),
        "disable": not truthy(raw.get("enabled", UNDEFINED)),
        "addMemo": truthy(raw.get("name", UNDEFINED)),
    }


def _from_risu(raw: JsonObject) -> Fields:
    secondary = raw.get("secondkey", UNDEFINED)
    percent = raw.get("activationPercent")
    return {
        # No key is one empty key, which never matches.
        "key": _split(raw.get("key", "")),
        "keysecondary": _split(secondary) if truthy(secondary) else [],
        "comment": raw.get("comment", UNDEFINED),
        "content": raw.get("content", UNDEFINED),
        "constant": raw.get("alwaysActive", UNDEFINED),
        "selective": raw.get("selective", UNDEFINED),
        "order": raw.get("insertorder", UNDEFINED),
        "disable": False,
        "addMemo": True,
        "probability": 100 if percent is None else percent,
        "useProbability": True if percent is None else percent,  # a number: 0 percent switches the roll off
    }


def _split(keys: Json | Undefined) -> Json:
    return [trim(key) for key in to_string(keys).split(",")]


def world_name(filename: str) -> str | None:
    """Return the name of an imported file's world; None if the file's name cannot be used."""
    # Browsers pass only the last part of a path, and refuse control characters.
    last = re.split(r"[/\\]", filename)[-1]
    if _CONTROL.search(last):
        return None
    name = sanitize_filename(last)
    stem, dot, _ = name.rpartition(".")
    return stem if dot and stem else None


def sanitize_filename(name: str) -> str:
    """Make a valid file name for any system, as SillyTavern's server does."""
    for unwanted in (_ILLEGAL, _CONTROL, _ONLY_DOTS, _DEVICE):
        name = unwanted.sub("", name)
    return name.rstrip(". ")


def embedded_book_name(character: Character) -> str:
    """Return the name of the world that a card's book becomes when imported."""
    book = character.character_book
    return (book.name if book is not None else None) or f"{character.name}'s Lorebook"
